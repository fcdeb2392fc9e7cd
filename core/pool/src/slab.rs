//! The head of a slab: as many units of 64 KiB before its data as its header and maps take. One is enough for seven
//! maps.
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
use holdfast_model::{Name, Provisioning, Shape, Uuid};

use crate::codec::{read_shape, write_shape};
use crate::record::{RowRecord, SpaceRecord};

pub use crate::geometry::{
    BAND_MAP_BLOCKS, Bands, HEAD_BYTES, JournalSpan, MAP_COVERS_BYTES, SUMS_COVER_BYTES, SUMS_SECTOR_BYTES, bands,
    bands_of_chunk, bands_of_map, checksum_cache_bytes, map_at, maps,
};

/// No map was ever written under a greater number: who writes one counts up from those that are there.
pub const MOST_MAP_SEQUENCE: u64 = 1 << 62;

/// The sequence in the header of a slab whose row was given back. Of a row that is only to replace another one, it is
/// the id of that; else it is 0.
pub const WRITTEN_OFF: u64 = u64::MAX;
/// The sequence in the header of a slab that is only to take the place of another one of its row.
pub const ARRIVING: u64 = u64::MAX - 1;

/// What the headers of all slabs of a space say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceFacts {
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
}

/// What a slab belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabHeader {
    /// Its space.
    pub of: SpaceFacts,
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
    /// Of a row of a journal, all rows of that.
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
            of: SpaceFacts {
                pool_name,
                space: space.id,
                space_uuid: space.uuid,
                space_name: space.name.clone(),
                space_bytes: space.size_bytes,
                chunk_bytes: space.chunk_bytes,
                provisioning: space.provisioning,
            },
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
        let of = &self.of;
        writer.text(of.pool_name.as_str()).u32(of.space).uuid(of.space_uuid).text(of.space_name.as_str());
        writer.u64(of.space_bytes).u64(of.chunk_bytes).u8((of.provisioning == Provisioning::Thin).into());
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
            of: SpaceFacts {
                pool_name: name(&mut reader)?,
                space: reader.u32()?,
                space_uuid: reader.uuid()?,
                space_name: name(&mut reader)?,
                space_bytes: reader.u64()?,
                chunk_bytes: reader.u64()?,
                provisioning: if reader.u8()? == 0 { Provisioning::Fixed } else { Provisioning::Thin },
            },
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
