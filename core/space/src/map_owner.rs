//! Whose a map in the head of a slab is: block maps of columns and band maps of parity rows alike.
//!
//! Invariant: a map of an earlier row in the same place, or of another chunk, disk or offset, is never taken for this
//! one. The frame's position carries the row's id and the map's own sequence.

use holdfast_device::IoBuf;
use holdfast_model::Uuid;
use holdfast_model::wire::{Reader, Writer};
use holdfast_pool::Position;
use holdfast_pool::frame::{Frame, Kind};

/// Which map of which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOwner {
    /// The pool.
    pub pool: Uuid,
    /// The row's id.
    pub row: u64,
    /// The chunk.
    pub chunk: u32,
    /// The number of a band map in its row; of a block map see [`block_map_number`].
    pub map: u32,
}

/// The column of a block map, and its number in the column in the upper half.
pub fn block_map_number(column: usize, map: usize) -> u32 {
    column as u32 | (map as u32) << 16
}

impl MapOwner {
    fn frame(&self, kind: Kind, disk: Uuid, offset: u64, sequence: u64) -> Frame {
        let position = Position { generation: self.row, sequence };
        Frame { kind, pool: self.pool, disk, offset, position, previous: 0 }
    }

    /// The block to write at `offset` of `disk`, with what `content` writes.
    pub fn seal(&self, kind: Kind, disk: Uuid, offset: u64, sequence: u64, content: impl FnOnce(&mut Writer)) -> IoBuf {
        let mut writer = Writer::new();
        writer.u32(self.chunk).u32(self.map);
        content(&mut writer);
        self.frame(kind, disk, offset, sequence).seal(&writer.into_bytes())
    }

    /// The sequence and the content of a block that was written for this owner, disk and offset; `None` if it is
    /// anything else.
    pub fn open<'a>(&self, kind: Kind, block: &'a [u8], disk: Uuid, offset: u64) -> Option<(u64, Reader<'a>)> {
        let (sequence, payload) = self.frame(kind, disk, offset, 0).open_own(block)?;
        let mut reader = Reader::new(payload);
        let own = (reader.u32().ok()?, reader.u32().ok()?) == (self.chunk, self.map);
        own.then_some((sequence, reader))
    }
}
