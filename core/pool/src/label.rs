//! The label: which pool a disk belongs to, and as which member. It stands at both ends of the disk.
//!
//! It also carries the promise of an import: the highest generation that this disk has agreed to. An import writes its
//! promise to a majority before it appends anything, so no two imports ever append under one generation.

use std::sync::Arc;

use holdfast_device::{Device, IoBuf};
use holdfast_model::wire::{Reader, WireError, Writer};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::features::Features;
use crate::frame::{Frame, Kind, Position};

/// What a label says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The pool.
    pub pool: Uuid,
    /// This disk.
    pub disk: Uuid,
    /// Bytes of the disk when it was labelled.
    pub disk_bytes: u64,
    /// The highest generation that this disk has agreed to.
    pub promised: u64,
    /// What everyone who touches the disk must know.
    pub features: Features,
}

impl Label {
    /// The block to write at `offset`.
    pub fn seal(&self, offset: u64) -> IoBuf {
        let mut writer = Writer::new();
        writer.u64(self.disk_bytes).u64(self.promised);
        self.features.write(&mut writer);
        let position = Position { generation: self.promised, sequence: 0 };
        let frame = Frame { kind: Kind::Label, pool: self.pool, disk: self.disk, offset, position, previous: 0 };
        frame.seal(&writer.into_bytes())
    }

    /// Reads the label that was written for `offset`.
    pub fn open(block: &[u8], offset: u64) -> Result<Self, WireError> {
        let (header, payload) = Frame::open_inline(block)?;
        if header.frame.kind != Kind::Label {
            return Err(WireError::Value("kind"));
        }
        if header.frame.offset != offset {
            return Err(WireError::Value("offset"));
        }
        let mut reader = Reader::new(payload);
        let (disk_bytes, promised) = (reader.u64()?, reader.u64()?);
        let features = Features::read(&mut reader)?;
        Ok(Self { pool: header.frame.pool, disk: header.frame.disk, disk_bytes, promised, features })
    }

    /// The label at `offset` of a disk, whichever disk it is of.
    pub async fn read(device: &Arc<dyn Device>, offset: u64) -> Option<Self> {
        let block = device.read(offset, IoBuf::new(BLOCK_BYTES as usize)).await.ok()?;
        Self::open(&block, offset).ok()
    }
}
