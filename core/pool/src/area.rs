//! How a member disk is divided.
//!
//! ```text
//!  0       4 KiB          8 KiB     64 KiB                                    reserved                            size - 4 KiB
//!  | label | sign of life | zeros | log half A      | log half B           | slabs, in units of 64 KiB ...     | label |
//! ```
//!
//! The reserved area is 1/256 of the disk, at least 4 MiB and at most 256 MiB. Invariant: the areas do not overlap and
//! all begin on a 64 KiB boundary, but for the label at the end.

use holdfast_model::{BLOCK_BYTES, ByteSize};

use crate::{PoolError, PoolErrorKind};

/// The unit in which slabs are allotted.
pub const UNIT_BYTES: u64 = 64 << 10;
/// The smallest disk that a pool takes.
pub const SMALLEST_DISK_BYTES: u64 = 64 << 20;
const LOG_AT: u64 = 64 << 10;
const LEAST_RESERVED: u64 = 4 << 20;
const MOST_RESERVED: u64 = 256 << 20;
/// The largest disk: units are numbered in 32 bits.
pub const LARGEST_DISK_BYTES: u64 = UNIT_BYTES << 32;

/// The division of a disk of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Bytes of the disk, in whole 4 KiB.
    pub disk_bytes: u64,
    /// Bytes before the first slab.
    pub reserved_bytes: u64,
}

impl Area {
    /// The division of a disk of `size_bytes`.
    pub fn of_disk(name: &str, size_bytes: u64) -> Result<Self, PoolError> {
        let disk_bytes = size_bytes / BLOCK_BYTES * BLOCK_BYTES;
        let (size, least, most) = (ByteSize(size_bytes), ByteSize(SMALLEST_DISK_BYTES), ByteSize(LARGEST_DISK_BYTES));
        if !(SMALLEST_DISK_BYTES..=LARGEST_DISK_BYTES).contains(&disk_bytes) {
            return Err(PoolError::new(
                PoolErrorKind::Invalid,
                format!(
                    "disk {name} has {}: a pool takes disks from {} to {}",
                    size.beside(if size < least { least } else { most }),
                    least.beside(size),
                    most.beside(size)
                ),
            ));
        }
        let reserved_bytes = (disk_bytes / 256).clamp(LEAST_RESERVED, MOST_RESERVED) / UNIT_BYTES * UNIT_BYTES;
        Ok(Self { disk_bytes, reserved_bytes })
    }

    /// Where the two copies of the label are.
    pub fn labels(&self) -> [u64; 2] {
        [0, self.disk_bytes - BLOCK_BYTES]
    }

    /// Where its owner shows that it is alive.
    pub fn sign_of_life(&self) -> u64 {
        BLOCK_BYTES
    }

    /// Where log half 0 or 1 begins.
    pub fn log_half(&self, half: usize) -> u64 {
        LOG_AT + half as u64 * self.log_half_bytes()
    }

    /// Bytes of a log half.
    pub fn log_half_bytes(&self) -> u64 {
        (self.reserved_bytes - LOG_AT) / 2 / UNIT_BYTES * UNIT_BYTES
    }

    /// How far apart the two copies of a log begin in its half, which is what each may take.
    pub fn log_copy_bytes(&self) -> u64 {
        self.log_half_bytes() / 2 / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Where the log may begin: either copy in either half.
    pub fn log_heads(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|at| self.log_half(at / 2) + (at % 2) as u64 * self.log_copy_bytes())
    }

    /// Units that slabs may take.
    pub fn units(&self) -> u32 {
        ((self.disk_bytes - BLOCK_BYTES - self.reserved_bytes) / UNIT_BYTES) as u32
    }

    /// Where a unit begins on the disk.
    pub fn unit_at(&self, unit: u32) -> u64 {
        self.reserved_bytes + u64::from(unit) * UNIT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_never_overlap() {
        for size in [SMALLEST_DISK_BYTES, (64 << 20) + 4096, 1 << 30, 100_000_000_000, 20 << 40, LARGEST_DISK_BYTES] {
            let area = Area::of_disk("x", size).expect("in range");
            let [front, end] = area.labels();
            assert!(front + BLOCK_BYTES <= area.log_half(0));
            assert!(area.log_half(0) + area.log_half_bytes() <= area.log_half(1));
            assert!(area.log_half(1) + area.log_half_bytes() <= area.reserved_bytes);
            assert!(area.unit_at(area.units()) <= end && end + BLOCK_BYTES <= size);
            assert!(area.reserved_bytes <= MOST_RESERVED && area.reserved_bytes * 15 <= size);
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for size in [0, 4096, SMALLEST_DISK_BYTES - 1, LARGEST_DISK_BYTES + 4096] {
            assert!(Area::of_disk("x", size).is_err(), "{size}");
        }
    }
}
