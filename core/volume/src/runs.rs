//! Small parts of data that are to lie behind each other, written by one request.
//!
//! Invariant: every part is in one run, in order, and a run is one stretch of the device.

use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::BLOCK_BYTES;

/// Bytes of a part that is copied rather than written by a request of its own, at most.
const SMALL_PART: usize = 64 << 10;
/// Bytes of a run of such parts, at most.
const MOST_JOINED: usize = 1 << 20;

/// A part, and the block that it is to lie at.
pub(crate) type Placed = (u64, IoSlice);

/// Parts by their places, those together that one request writes: small ones that follow each other.
pub(crate) fn runs(parts: &[Placed]) -> impl Iterator<Item = &[Placed]> {
    let mut bytes = 0;
    parts.chunk_by(move |(place, part), (next, behind)| {
        bytes = if bytes == 0 { part.len() } else { bytes } + behind.len();
        let follows = place + part.len() as u64 / BLOCK_BYTES == *next;
        let joins = follows && part.len().max(behind.len()) <= SMALL_PART && bytes <= MOST_JOINED;
        bytes = if joins { bytes } else { 0 };
        joins
    })
}

/// The data of a run.
pub(crate) fn data_of(parts: &[Placed]) -> IoSlice {
    if let [(_, part)] = parts {
        return part.clone();
    }
    let mut buf = IoBuf::new(parts.iter().map(|(_, part)| part.len()).sum());
    let mut at = 0;
    for (_, part) in parts {
        buf[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    buf.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(place: u64, blocks: usize) -> Placed {
        let mut buf = IoBuf::zeroed(blocks * BLOCK_BYTES as usize);
        buf.iter_mut().enumerate().for_each(|(at, byte)| *byte = (place + at as u64 / BLOCK_BYTES) as u8);
        (place, buf.freeze())
    }

    fn shape(parts: &[Placed]) -> Vec<(u64, usize)> {
        runs(parts).map(|run| (run[0].0, data_of(run).len() / BLOCK_BYTES as usize)).collect()
    }

    #[test]
    fn small_parts_that_follow_each_other_are_one_run() {
        let parts = [part(10, 2), part(12, 1), part(13, 16), part(40, 1), part(39, 1), part(41, 1)];
        assert_eq!(shape(&parts), [(10, 19), (40, 1), (39, 1), (41, 1)]);
        let data = data_of(&parts[..3]);
        let blocks: Vec<u8> = data.chunks(BLOCK_BYTES as usize).map(|block| block[0]).collect();
        assert_eq!(blocks, (10..29).collect::<Vec<u8>>());
        // Large ones are not copied.
        assert_eq!(shape(&[part(10, 1), part(11, 17), part(28, 1)]), [(10, 1), (11, 17), (28, 1)]);
        let many: Vec<Placed> = (0..40).map(|index| part(index * 16, 16)).collect();
        assert_eq!(shape(&many), [(0, 256), (256, 256), (512, 128)], "a run has 1 MiB at most");
        assert_eq!(shape(&[]), []);
    }
}
