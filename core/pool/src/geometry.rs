//! How slabs and rows are laid out: what a slab's head, maps, bands and checksums take, and how many units a row has
//! for its chunk.
//!
//! Invariant: pure functions of a shape and sizes. What they answer is part of the on-disk format: the same for ever.

use holdfast_model::{BLOCK_BYTES, Shape};

use crate::area::UNIT_BYTES;

/// Bytes of a slab before its data, at least.
pub const HEAD_BYTES: u64 = UNIT_BYTES;
/// Data that one block map covers.
pub const MAP_COVERS_BYTES: u64 = 64 << 20;
/// The most data that a slab of a journal holds, and one of a new space where the map has room for so many rows.
pub const USUAL_SLAB_BYTES: u64 = 4 * MAP_COVERS_BYTES;
/// The most data that a row holds.
pub const MOST_CHUNK_BYTES: u64 = 1 << 40;
/// Data blocks that a band map covers, at most.
pub const BAND_MAP_BLOCKS: u64 = 16_384;
/// Places for bands that a slab has, at most: their numbers have 16 bits, and one of them means none.
const MOST_PLACES: u64 = u16::MAX as u64;
/// Data that one sector of checksums covers.
pub const SUMS_COVER_BYTES: u64 = 256 << 10;
/// Bytes of a sector of checksums.
pub const SUMS_SECTOR_BYTES: u64 = 512;

/// The rows of a journal are chunks from this number on; those of data are below it.
pub const JOURNAL_CHUNK: u32 = 1 << 31;

/// The rows of a journal: they have chunk numbers and ids side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalSpan {
    /// The chunk of the first one.
    pub first: u32,
    /// How many.
    pub rows: u32,
}

impl JournalSpan {
    /// Whether the row of a chunk is one of them.
    pub fn contains(&self, chunk: u32) -> bool {
        chunk.checked_sub(self.first).is_some_and(|before| before < self.rows)
    }
}

/// Of a slab's bytes after its head, those at its end that hold its checksums.
pub fn checksum_cache_bytes(shape: &Shape, after_head: u64) -> u64 {
    match shape.has_checksums() {
        true => (after_head.div_ceil(SUMS_COVER_BYTES) * SUMS_SECTOR_BYTES).next_multiple_of(UNIT_BYTES),
        false => 0,
    }
}

/// The bands of a slab of a parity row. Overwriting a whole band takes a spare place, so that what was there stays
/// until the band is switched over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bands {
    /// Bands that the row maps at any time: V.
    pub data: u64,
    /// Further places for bands: E.
    pub spare: u64,
}

/// The spare bands of a slab with so many bands.
pub fn spare_bands(data: u64) -> u64 {
    match data {
        0..64 => 2,
        64..256 => 4,
        _ => 8,
    }
}

/// The bands of a slab that has `slab_data_bytes` after its head.
pub fn bands(shape: &Shape, slab_data_bytes: u64) -> Bands {
    let places = slab_data_bytes / shape.band_bytes();
    let fitting = [2, 4, 8].into_iter().map(|spare| places.saturating_sub(spare));
    let data = fitting.filter(|data| data + spare_bands(*data) <= places).max().unwrap_or(0);
    Bands { data, spare: spare_bands(data) }
}

/// The bands of each slab of a parity row that holds a chunk of `chunk_bytes`.
pub fn bands_of_chunk(shape: &Shape, chunk_bytes: u64) -> Bands {
    let data = chunk_bytes.div_ceil(u64::from(shape.data_columns()).max(1) * shape.band_bytes());
    Bands { data, spare: spare_bands(data) }
}

/// Bands that each map of a parity row covers.
pub fn bands_of_map(shape: &Shape) -> u64 {
    (BAND_MAP_BLOCKS / (u64::from(shape.data_columns()) * shape.band_bytes() / BLOCK_BYTES).max(1)).max(1)
}

/// Maps in the head of a slab of a row that has so much data in each slab.
pub fn maps(shape: &Shape, slab_data_bytes: u64) -> u64 {
    match shape.layout.parity() {
        0 => slab_data_bytes.div_ceil(MAP_COVERS_BYTES),
        _ => bands(shape, slab_data_bytes).data.div_ceil(bands_of_map(shape)),
    }
}

/// Bytes of a slab before its data, of which it has so many.
pub fn head_bytes(shape: &Shape, slab_data_bytes: u64) -> u64 {
    map_at(maps(shape, slab_data_bytes) as usize, 0).next_multiple_of(UNIT_BYTES).max(HEAD_BYTES)
}

/// Whether a row of this shape can hold a chunk.
pub fn can_hold(shape: &Shape, chunk_bytes: u64) -> bool {
    let bands = bands_of_chunk(shape, chunk_bytes);
    chunk_bytes <= MOST_CHUNK_BYTES && (shape.layout.parity() == 0 || bands.data + bands.spare <= MOST_PLACES)
}

/// Where slot 0 or 1 of a block map is, from the start of the slab.
pub fn map_at(map: usize, slot: usize) -> u64 {
    BLOCK_BYTES * (1 + 2 * map as u64 + slot as u64)
}

/// Data bytes of each slab of a row of this shape that holds a chunk, spare bands included.
pub fn slab_bytes(shape: &Shape, chunk_bytes: u64) -> u64 {
    if shape.layout.parity() > 0 {
        let bands = bands_of_chunk(shape, chunk_bytes);
        return (bands.data + bands.spare) * shape.band_bytes();
    }
    chunk_bytes.div_ceil(shape.columns.into()).next_multiple_of(shape.interleave.bytes().max(UNIT_BYTES))
}

/// Units of each slab of a row of this shape that holds a chunk, its head and its checksums included.
pub fn slab_units(shape: &Shape, chunk_bytes: u64) -> u32 {
    let data = slab_bytes(shape, chunk_bytes);
    let mut after_head = data;
    while after_head - checksum_cache_bytes(shape, after_head) < data {
        after_head = data + checksum_cache_bytes(shape, after_head);
    }
    ((head_bytes(shape, data) + after_head) / UNIT_BYTES) as u32
}

/// Bytes that a row of this shape that holds a chunk takes on the disks.
pub fn row_raw_bytes(shape: &Shape, chunk_bytes: u64) -> u64 {
    shape.width() as u64 * u64::from(slab_units(shape, chunk_bytes)) * UNIT_BYTES
}
