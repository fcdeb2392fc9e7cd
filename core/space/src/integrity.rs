//! Checksums that come with a write: who computed them for reasons of his own need not have them computed again.
//!
//! | row | what becomes of them |
//! | --- | --- |
//! | simple, mirror | kept as given, with a mark that they were; every read compares |
//! | parity | compared at once: such a write passes over its bytes several times anyway, for parity and journal |
//! | without checksums | nothing |
//!
//! Invariant: a checksum that was given and not compared is never taken for wrong because copies agree with one
//! another. What its block holds is not served where it is not as the checksum says, but for blocks that were being
//! written in a crash: there no checksum is.

use holdfast_device::{Durability, Integrity, Io, IoError, IoSlice};
use holdfast_model::BLOCK_BYTES;
use smallvec::SmallVec;

use crate::checksums::sums_of;
use crate::space::{Inner, Space};
use crate::stripe::chunk_parts;

/// The checksums of a part of a request.
pub fn sums_within(sums: &[u32], at: usize, len: usize) -> &[u32] {
    let blocks = |bytes: usize| bytes / BLOCK_BYTES as usize;
    &sums[blocks(at)..blocks(at + len)]
}

impl Integrity for Space {
    fn is_summed(&self, offset: u64, len: u64) -> bool {
        let inner = &self.inner;
        chunk_parts(inner.record.chunk_bytes, offset, len).all(|part| inner.shape_of(part.chunk).has_checksums())
    }

    fn write_summed(&self, offset: u64, data: IoSlice, crcs: &[u32], durability: Durability) -> Io<()> {
        let in_flight_guard = self.inner.in_flight.enter();
        let checked = self.inner.check(offset, data.len() as u64).and_then(|()| self.inner.check_writable());
        if let Err(error) = checked.and_then(|()| self.inner.check_given(&data, crcs)) {
            return Io::ready(Err(error));
        }
        self.inner.counters.writes.add(data.len());
        let given: SmallVec<[u32; 4]> = SmallVec::from_slice(crcs);
        self.begin(in_flight_guard, async move |inner| inner.write(offset, data, Some(&given), durability).await)
    }
}

impl Inner {
    /// Refuses checksums that are not one for each block, or not those of the blocks where all are compared.
    fn check_given(&self, data: &[u8], crcs: &[u32]) -> Result<(), IoError> {
        if crcs.len() as u64 * BLOCK_BYTES != data.len() as u64 {
            let (found, blocks) = (crcs.len(), data.len() as u64 / BLOCK_BYTES);
            return Err(IoError::invalid(format!("space {}: {found} checksums for {blocks} blocks", self.path())));
        }
        if self.settings.compare_given { self.compare_given(data, crcs) } else { Ok(()) }
    }

    /// Compares checksums that came with blocks.
    pub fn compare_given(&self, data: &[u8], crcs: &[u32]) -> Result<(), IoError> {
        match sums_of(data).zip(crcs).position(|(found, crc)| found != *crc) {
            None => Ok(()),
            Some(block) => {
                let path = self.path();
                Err(IoError::invalid(format!(
                    "space {path}: block {block} of a write is not as the checksum that came with it"
                )))
            }
        }
    }
}
