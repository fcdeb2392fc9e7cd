//! The label: which pool a disk belongs to, and as which member. It stands at both ends of the disk.
//!
//! It also carries the promise of an import: the highest generation that this disk has agreed to. An import writes its
//! promise to a majority before it appends anything, so no two imports ever append under one generation.

use holdfast_model::Uuid;
use holdfast_model::wire::{Reader, WireError, Writer};

use crate::frame::{Frame, Kind, Position};

/// Features known here that a writer must know. An import writes, so it refuses a disk with others.
pub const KNOWN_READ_ONLY_COMPATIBLE: u64 = 0;
/// Features known here that everybody must know.
pub const KNOWN_INCOMPATIBLE: u64 = 0;

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
    /// Feature flags: compatible, read-only compatible, incompatible.
    pub features: [u64; 3],
}

impl Label {
    /// The block to write at `offset`.
    pub fn seal(&self, offset: u64) -> holdfast_device::IoBuf {
        let mut writer = Writer::new();
        writer.u64(self.disk_bytes).u64(self.promised);
        for flags in self.features {
            writer.u64(flags);
        }
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
        let features = [reader.u64()?, reader.u64()?, reader.u64()?];
        Ok(Self { pool: header.frame.pool, disk: header.frame.disk, disk_bytes, promised, features })
    }

    /// Features that the disk uses and that would have to be known here.
    pub fn unknown_features(&self) -> u64 {
        self.features[1] & !KNOWN_READ_ONLY_COMPATIBLE | self.features[2] & !KNOWN_INCOMPATIBLE
    }
}
