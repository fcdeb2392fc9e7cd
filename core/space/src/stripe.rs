//! Where an offset of a space lies: in which chunk, in which column of its row, and where in that column.
//!
//! ```text
//!  chunk   | unit 0 | unit 1 | unit 2 | unit 3 | unit 4 | unit 5 | ...      a unit is one interleave
//!  column 0: unit 0, unit 3, ...   column 1: unit 1, unit 4, ...   column 2: unit 2, unit 5, ...
//! ```

use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::Shape;

/// A part of a request that lies in one column without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins in the request.
    pub at: usize,
    /// Its length.
    pub len: usize,
    /// The column.
    pub column: usize,
    /// Where it begins in the column.
    pub offset: u64,
}

/// The part of a request that lies in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkPart {
    /// The chunk.
    pub chunk: u32,
    /// Where it begins in the request.
    pub at: usize,
    /// Its length.
    pub len: usize,
    /// Where it begins in the chunk.
    pub offset: u64,
}

/// Cuts a range of a space at chunk boundaries.
pub fn chunk_parts(chunk_bytes: u64, offset: u64, len: u64) -> impl Iterator<Item = ChunkPart> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let left = len - done;
        if left == 0 {
            return None;
        }
        let position = offset + done;
        let within = position % chunk_bytes;
        let part = left.min(chunk_bytes - within);
        let found =
            ChunkPart { chunk: (position / chunk_bytes) as u32, at: done as usize, len: part as usize, offset: within };
        done += part;
        Some(found)
    })
}

/// Cuts a range of a chunk into segments, in order.
pub fn segments(shape: &Shape, offset: u64, len: usize) -> impl Iterator<Item = Segment> {
    let columns = u64::from(shape.columns);
    let unit_bytes = if columns == 1 { u64::MAX } else { shape.interleave.bytes() };
    let mut done = 0usize;
    std::iter::from_fn(move || {
        let left = (len - done) as u64;
        if left == 0 {
            return None;
        }
        let position = offset + done as u64;
        let (unit, within) = (position / unit_bytes, position % unit_bytes);
        let part = left.min(unit_bytes - within) as usize;
        let in_column = if columns == 1 { position } else { unit / columns * unit_bytes + within };
        let segment = Segment { at: done, len: part, column: (unit % columns) as usize, offset: in_column };
        done += part;
        Some(segment)
    })
}

/// The segment of a range that lies in one column without a gap, as most requests do; `None` if it has more.
pub fn only_segment(shape: &Shape, part: &ChunkPart) -> Option<Segment> {
    let mut cut = segments(shape, part.offset, part.len);
    let first = cut.next()?;
    cut.next().is_none().then_some(first)
}

/// Where a byte of a column lies in its chunk.
pub fn offset_in_chunk(shape: &Shape, column: usize, offset: u64) -> u64 {
    if shape.columns == 1 {
        return offset;
    }
    let unit_bytes = shape.interleave.bytes();
    (offset / unit_bytes * u64::from(shape.columns) + column as u64) * unit_bytes + offset % unit_bytes
}

/// Puts pieces of a request together in one buffer; a single one stays as it is.
pub fn joined(pieces: &[IoSlice]) -> IoSlice {
    if let [piece] = pieces {
        return piece.clone();
    }
    let mut whole = IoBuf::new(pieces.iter().map(|piece| piece.len()).sum());
    let mut at = 0;
    for piece in pieces {
        whole[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_model::{ByteSize, Layout};

    fn shape(columns: u16) -> Shape {
        Shape::plain(Layout::Simple, columns, ByteSize::kib(64))
    }

    #[test]
    fn every_byte_has_one_place() {
        for columns in [1u16, 2, 3, 7] {
            let shape = shape(columns);
            let chunk = 64 * 1024 * u64::from(columns) * 4;
            let mut seen = std::collections::HashSet::new();
            for block in 0..chunk / 4096 {
                let found: Vec<Segment> = segments(&shape, block * 4096, 4096).collect();
                assert_eq!(found.len(), 1);
                assert!(found[0].offset + 4096 <= chunk / u64::from(columns));
                assert_eq!(offset_in_chunk(&shape, found[0].column, found[0].offset), block * 4096);
                assert!(seen.insert((found[0].column, found[0].offset)));
            }
        }
    }

    #[test]
    fn parts_cover_the_request() {
        let parts: Vec<ChunkPart> = chunk_parts(1 << 20, (1 << 20) - 4096, 2 << 20).collect();
        assert_eq!(
            parts.iter().map(|part| (part.chunk, part.len)).collect::<Vec<_>>(),
            [(0, 4096), (1, 1 << 20), (2, (1 << 20) - 4096)]
        );
        let cut: Vec<Segment> = segments(&shape(3), 60 * 1024, 200 * 1024).collect();
        assert_eq!(cut.iter().map(|segment| segment.len).sum::<usize>(), 200 * 1024);
        assert_eq!(cut.iter().map(|segment| segment.column).collect::<Vec<_>>(), [0, 1, 2, 0, 1]);
    }
}
