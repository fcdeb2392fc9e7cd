//! A space as a block object. Invariant: nothing here decides anything; the space's own methods do.

use holdfast_device::{BlockLimits, DiscardLimits, Durability, Extent, Extents, Io, Limits, StableId, Zeroes};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::Space;

impl StableId for Space {
    fn id(&self) -> Uuid {
        self.record().uuid
    }
}

impl BlockLimits for Space {
    fn limits(&self) -> Limits {
        Limits {
            optimal_io_bytes: u32::try_from(self.record().shape.interleave.bytes()).unwrap_or(u32::MAX),
            discard: Some(DiscardLimits { granularity_bytes: BLOCK_BYTES, reads_zeros: true }),
        }
    }

    fn is_read_only(&self) -> bool {
        Space::is_read_only(self)
    }
}

impl Zeroes for Space {
    fn unmap(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        self.discard(offset, len, durability)
    }

    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        Space::write_zeroes(self, offset, len, durability, keep_room)
    }
}

impl Extents for Space {
    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        Space::extents(self, offset, len, max)
    }
}
