//! A command descriptor block, and the ranges of blocks that such name.
//!
//! Invariant: a CDB is sixteen bytes here, zeros behind its end, so that every field of every command can be read.

use crate::sense::{Sense, code};
use crate::unit::Unit;

/// Bytes of a CDB that are looked at.
pub(crate) const CDB_BYTES: usize = 16;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cdb {
    bytes: [u8; CDB_BYTES],
}

impl Cdb {
    pub(crate) fn new(cdb: &[u8]) -> Self {
        let mut bytes = [0; CDB_BYTES];
        let len = cdb.len().min(CDB_BYTES);
        bytes[..len].copy_from_slice(&cdb[..len]);
        Self { bytes }
    }

    pub(crate) fn bytes(&self) -> &[u8; CDB_BYTES] {
        &self.bytes
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    /// The service action, where the command has one.
    pub(crate) fn action(&self) -> u16 {
        u16::from(self.bytes[1] & 0x1f)
    }

    pub(crate) fn u8(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    pub(crate) fn bit(&self, at: usize, bit: u8) -> bool {
        self.bytes[at] & (1 << bit) != 0
    }

    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    pub(crate) fn u24(&self, at: usize) -> u32 {
        u32::from_be_bytes([0, self.bytes[at], self.bytes[at + 1], self.bytes[at + 2]])
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        (u32::from(self.u16(at)) << 16) | u32::from(self.u16(at + 2))
    }

    pub(crate) fn u64(&self, at: usize) -> u64 {
        (u64::from(self.u32(at)) << 32) | u64::from(self.u32(at + 4))
    }

    /// The range of blocks in a command that moves data, by its length: 6, 10, 12 or 16 bytes.
    pub(crate) fn range(&self) -> Range {
        match self.opcode() >> 5 {
            0 => {
                let blocks = self.u8(4);
                let blocks = if blocks == 0 { 256 } else { u64::from(blocks) };
                Range { lba: u64::from(self.u24(1) & 0x1f_ffff), blocks }
            }
            1 | 2 => Range { lba: self.u32(2).into(), blocks: self.u16(7).into() },
            5 => Range { lba: self.u32(2).into(), blocks: self.u32(6).into() },
            _ => Range { lba: self.u64(2), blocks: self.u32(10).into() },
        }
    }
}

/// A range of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) lba: u64,
    pub(crate) blocks: u64,
}

impl Range {
    /// Checks that it lies within the unit.
    pub(crate) fn check(self, unit: &Unit) -> Result<Self, Sense> {
        let capacity = unit.capacity();
        if self.lba.checked_add(self.blocks).is_some_and(|end| end <= capacity) {
            return Ok(self);
        }
        Err(Sense::illegal(code::LBA_OUT_OF_RANGE).about(self.lba.max(capacity)))
    }

    /// Where it begins, in bytes. It must have been checked.
    pub(crate) fn offset(self, unit: &Unit) -> u64 {
        self.lba * unit.block_bytes()
    }

    /// How long it is, in bytes. It must have been checked.
    pub(crate) fn bytes(self, unit: &Unit) -> u64 {
        self.blocks * unit.block_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_where_each_length_of_command_has_them() {
        let range = |bytes: &[u8]| {
            let range = Cdb::new(bytes).range();
            (range.lba, range.blocks)
        };
        assert_eq!(range(&[0x08, 0xff, 1, 2, 0, 0]), (0x1f_0102, 256));
        assert_eq!(range(&[0x0a, 0, 1, 2, 3, 0]), (0x0102, 3));
        assert_eq!(range(&[0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0]), (0x0102_0304, 0x0506));
        assert_eq!(range(&[0xa8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]), (0x0102_0304, 0x0506_0708));
        assert_eq!(
            range(&[0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0]),
            (0x0102_0304_0506_0708, 0x090a_0b0c)
        );
        assert_eq!(range(&[0x28]), (0, 0));
    }
}
