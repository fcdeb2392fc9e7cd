//! How much one command may do. VPD page B0h tells initiators the same figures.
//!
//! Invariant: what a command makes the server hold is bounded here, whatever its CDB asks for.

use crate::cdb::{Cdb, Range};
use crate::sense::Sense;
use crate::unit::Unit;

/// Bytes that one command moves at most.
pub(crate) const TRANSFER_BYTES: u64 = 16 << 20;
/// Bytes of a longer range that are held at once where a command works through it.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;
/// Bytes that COMPARE AND WRITE changes at most.
pub(crate) const COMPARE_AND_WRITE_BYTES: u64 = 64 << 10;
/// Blocks that one WRITE SAME covers at most: as many as its shorter form can say.
pub(crate) const WRITE_SAME_BLOCKS: u64 = 65535;
/// Blocks that one UNMAP covers at most.
pub(crate) const UNMAP_BLOCKS: u64 = 1 << 20;
/// Descriptors in one UNMAP at most.
pub(crate) const UNMAP_DESCRIPTORS: u32 = 256;
/// Bytes of a parameter list at most.
pub(crate) const LIST_BYTES: u32 = 64 << 10;

/// Checks that a transfer is not too long; the error points at its length in the CDB.
pub(crate) fn check_transfer(range: Range, cdb: &Cdb, unit: &Unit) -> Result<Range, Sense> {
    if range.blocks <= TRANSFER_BYTES / unit.block_bytes() {
        return Ok(range);
    }
    Err(Sense::cdb(length_field(cdb)))
}

/// Where the length of a range stands in the CDB.
pub(crate) fn length_field(cdb: &Cdb) -> u16 {
    match cdb.opcode() >> 5 {
        _ if cdb.opcode() == 0x89 => 13,
        0 => 4,
        1 | 2 => 7,
        5 => 6,
        _ => 10,
    }
}
