//! Ranges of bytes and the whole 4 KiB blocks around them.

use std::ops::Range;

use holdfast_device::Extent;
use holdfast_model::BLOCK_BYTES;

/// The whole blocks around a range of bytes.
pub fn blocks_around(offset: u64, len: u64) -> Range<u64> {
    offset / BLOCK_BYTES * BLOCK_BYTES..(offset + len).next_multiple_of(BLOCK_BYTES)
}

/// The extents of the blocks around a range of bytes, as those of the range itself.
pub fn clip(offset: u64, len: u64, extents: Vec<Extent>) -> Vec<Extent> {
    let (mut skip, mut left) = (offset % BLOCK_BYTES, len);
    let mut clipped: Vec<Extent> = Vec::with_capacity(extents.len());
    for extent in extents {
        let len = extent.len.saturating_sub(skip).min(left);
        skip = skip.saturating_sub(extent.len);
        left -= len;
        match clipped.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.kind == extent.kind => last.len += len,
            _ => clipped.push(Extent { len, kind: extent.kind }),
        }
    }
    clipped
}
