//! The head of a slab: as many units of 64 KiB before its data as its header and maps take. One is enough for seven maps.
//!
//! ```text
//!  0        4 KiB     8 KiB     12 KiB                                   a multiple of 64 KiB
//!  | header | map 0/A | map 0/B | map 1/A | map 1/B | ...    | zeros     | data ...
//! ```
//!
//! The checksums of a slab that keeps them stand behind its data: 512 bytes for each region of 64 blocks.
//!
//! The header says which chunk of which space the slab holds, as which column and copy, so that a pool without any
//! metadata log can be put together again from its slabs. The maps belong to the space.

use holdfast_model::wire::{Reader, WireError, Writer};
use holdfast_model::{BLOCK_BYTES, Name, Provisioning, Shape, Uuid};

use crate::area::UNIT_BYTES;
use crate::codec::{read_shape, write_shape};
use crate::config::{RowRecord, SpaceRecord};

/// Bytes of a slab before its data, at least.
pub const HEAD_BYTES: u64 = UNIT_BYTES;
/// Data that one block map covers.
pub const MAP_COVERS_BYTES: u64 = 64 << 20;
/// The most data that a slab holds of a journal, and in a pool without large slabs.
pub const USUAL_SLAB_BYTES: u64 = 4 * MAP_COVERS_BYTES;
/// The most maps that a slab has in a pool without large slabs.
pub const USUAL_MAPS: u64 = 7;
/// The most data that a row holds.
pub const MOST_CHUNK_BYTES: u64 = 1 << 40;
/// Data blocks that a band map covers, at most.
pub const BAND_MAP_BLOCKS: u64 = 16_384;
/// Places for bands that a slab has, at most: their numbers have 16 bits, and one of them means none.
const MOST_PLACES: u64 = u16::MAX as u64;

/// No map was ever written under a greater number: who writes one counts up from those that are there.
pub const MOST_MAP_SEQUENCE: u64 = 1 << 62;

/// Data that one sector of checksums covers.
pub const SUMS_COVER_BYTES: u64 = 256 << 10;
/// Bytes of a sector of checksums.
pub const SUMS_SECTOR_BYTES: u64 = 512;

/// Of a slab's bytes after its head, those at its end that hold its checksums.
pub fn checksum_cache_bytes(shape: &Shape, after_head: u64) -> u64 {
    match shape.has_checksums() {
        true => (after_head.div_ceil(SUMS_COVER_BYTES) * SUMS_SECTOR_BYTES).next_multiple_of(UNIT_BYTES),
        false => 0,
    }
}

/// The sequence in the header of a slab whose row was given back. Of a row that is only to replace another one, it is the id of
/// that; else it is 0.
pub const WRITTEN_OFF: u64 = u64::MAX;
/// The sequence in the header of a slab that is only to take the place of another one of its row.
pub const ARRIVING: u64 = u64::MAX - 1;

/// The bands of a slab of a parity row. Overwriting a whole band takes a spare place, so that what was there stays until
/// the band is switched over.
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

/// What a slab belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabHeader {
    /// The pool's name.
    pub pool_name: Name,
    /// The space's number.
    pub space: u32,
    /// The space's identity.
    pub space_uuid: Uuid,
    /// The space's name.
    pub space_name: Name,
    /// The space's size when the slab was first written.
    pub space_bytes: u64,
    /// Data of each row of the space.
    pub chunk_bytes: u64,
    /// Whether the space is thin.
    pub provisioning: Provisioning,
    /// The chunk.
    pub chunk: u32,
    /// The slab's index in its row.
    pub slab: u16,
    /// The row's id.
    pub row: u64,
    /// The row's shape.
    pub shape: Shape,
    /// Units of the slab, this head included.
    pub slab_units: u32,
    /// Of a row of a journal, all rows of that; earlier versions did not tell.
    pub journal: Option<JournalSpan>,
}

impl SlabHeader {
    /// The header of a slab of a row, of a journal's with all rows of that.
    pub fn new(
        pool_name: Name,
        space: &SpaceRecord,
        chunk: u32,
        row: &RowRecord,
        slab: usize,
        journal: Option<JournalSpan>,
    ) -> Self {
        Self {
            pool_name,
            space: space.id,
            space_uuid: space.uuid,
            space_name: space.name.clone(),
            space_bytes: space.size_bytes,
            chunk_bytes: space.chunk_bytes,
            provisioning: space.provisioning,
            chunk,
            slab: slab as u16,
            row: row.id,
            shape: row.shape,
            slab_units: row.slab_units,
            journal,
        }
    }

    /// The payload of its block.
    pub fn write(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.text(self.pool_name.as_str()).u32(self.space).uuid(self.space_uuid).text(self.space_name.as_str());
        writer.u64(self.space_bytes).u64(self.chunk_bytes).u8((self.provisioning == Provisioning::Thin).into());
        writer.u32(self.chunk).u16(self.slab).u64(self.row);
        write_shape(&mut writer, &self.shape);
        writer.u32(self.slab_units);
        if let Some(span) = self.journal {
            writer.u32(span.first).u32(span.rows);
        }
        writer.into_bytes()
    }

    /// Reads a payload.
    pub fn read(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let name = |reader: &mut Reader<'_>| reader.text()?.parse().map_err(|_| WireError::Value("name"));
        Ok(Self {
            pool_name: name(&mut reader)?,
            space: reader.u32()?,
            space_uuid: reader.uuid()?,
            space_name: name(&mut reader)?,
            space_bytes: reader.u64()?,
            chunk_bytes: reader.u64()?,
            provisioning: if reader.u8()? == 0 { Provisioning::Fixed } else { Provisioning::Thin },
            chunk: reader.u32()?,
            slab: reader.u16()?,
            row: reader.u64()?,
            shape: read_shape(&mut reader)?,
            slab_units: reader.u32()?,
            journal: match reader.remaining() {
                0 => None,
                _ => Some(JournalSpan { first: reader.u32()?, rows: reader.u32()? }),
            },
        })
    }
}
