//! Headers of slabs found on a disk, wherever they lie.
//!
//! Slabs begin at whole units, so the first block of each unit is looked at, inside slabs that were found as well: what
//! was found may have been given back, and another slab lie in the midst of it.
//!
//! Invariants: a header counts only where it was written to, as every frame says; and only with values that a pool can
//! have. Memory is bounded by the slabs that a disk may have.

use std::sync::Arc;

use futures_util::stream::{StreamExt, iter};
use holdfast_device::IoBuf;
use holdfast_model::wire::Reader;
use holdfast_model::{BLOCK_BYTES, Shape, Uuid};

use crate::area::{Area, UNIT_BYTES};
use crate::candidate::Candidate;
use crate::frame::{Frame, Kind};
use crate::geometry::{JOURNAL_CHUNK, JournalSpan, can_hold, map_at, maps, slab_units};
use crate::record::{RowRecord, is_journal_row};
use crate::slab::{MOST_MAP_SEQUENCE, SlabHeader, SpaceFacts};
use crate::{PoolError, PoolErrorKind};

use super::Known;

/// Blocks that are read at a time.
const AT_ONCE: usize = 64;
/// Slabs that are kept of one disk.
const MOST_SLABS: usize = 1 << 22;
/// Words of dirty bits in a block map.
const DIRTY_WORDS: usize = 4;

/// A slab whose header was found.
#[derive(Clone, Debug)]
pub struct Slab {
    /// The pool.
    pub pool: Uuid,
    pub facts: Arc<SpaceFacts>,
    /// The disk that it was written for.
    pub disk: Uuid,
    pub offset: u64,
    pub chunk: u32,
    pub slab: u16,
    pub row: u64,
    /// What its header says of its row: that it counts (0), which one it was to replace, or that it was given back.
    pub replaces: u64,
    pub shape: Shape,
    pub units: u32,
    /// All rows of the journal that its row is one of, where its header tells.
    pub journal: Option<JournalSpan>,
    /// The number of the newest of each map in its head; 0 where there is none.
    pub maps: Box<[u64]>,
    /// Regions that may differ between copies.
    pub dirty: u32,
}

impl Slab {
    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.units) * UNIT_BYTES
    }

    /// Whether it is where a disk that is divided so has slabs.
    pub fn lies_in(&self, area: &Area) -> bool {
        self.offset >= area.reserved_bytes && self.end() <= area.unit_at(area.units())
    }

    /// How new its maps are, all together.
    pub fn age(&self) -> u128 {
        self.maps.iter().copied().map(u128::from).sum()
    }
}

/// What was found on a disk.
pub struct Walk {
    pub slabs: Vec<Slab>,
    /// Reads that failed.
    pub unreadable: u64,
}

/// Looks at every unit of a disk.
pub async fn walk(candidate: &Candidate) -> Result<Walk, PoolError> {
    let device = &candidate.device;
    let mut found = Walk { slabs: Vec::new(), unreadable: 0 };
    let mut known = Known::default();
    let units = device.geometry().size_bytes / UNIT_BYTES;
    // The first unit holds the label.
    let reads = (1..units).map(|unit| {
        let offset = unit * UNIT_BYTES;
        let read = device.read(offset, IoBuf::new(BLOCK_BYTES as usize));
        async move { (offset, read.await) }
    });
    let mut reads = iter(reads).buffered(AT_ONCE);
    while let Some((offset, block)) = reads.next().await {
        let Ok(block) = block else {
            found.unreadable += 1;
            continue;
        };
        let Some((mut slab, head_bytes)) = open(&block, offset, &mut known) else { continue };
        if offset + u64::from(slab.units) * UNIT_BYTES > units * UNIT_BYTES {
            continue;
        }
        if found.slabs.len() == MOST_SLABS {
            let text = format!("disk {} has more than {MOST_SLABS} slabs: leave it out", candidate.info.path);
            return Err(PoolError::new(PoolErrorKind::NoSpace, text));
        }
        match device.read(offset, IoBuf::new(head_bytes as usize)).await {
            Ok(head) => look_at_maps(&head, &mut slab),
            Err(_) => found.unreadable += 1,
        }
        found.slabs.push(slab);
    }
    Ok(found)
}

/// The slab whose header a block is, where it is one that may be there, and the bytes of its head.
fn open(block: &[u8], offset: u64, known: &mut Known) -> Option<(Slab, u64)> {
    let (header, payload) = Frame::open_inline(block).ok()?;
    let frame = header.frame;
    let slab = SlabHeader::read(payload).ok()?;
    let own = frame.kind == Kind::SlabHeader && frame.offset == offset && frame.position.generation == slab.row;
    let row =
        RowRecord { id: slab.row, shape: slab.shape, slab_units: slab.slab_units, begun: true, slabs: Box::default() };
    if !own || !is_sound(&slab, &row) {
        return None;
    }
    let found = Slab {
        pool: frame.pool,
        facts: known.once(slab.of),
        disk: frame.disk,
        offset,
        chunk: slab.chunk,
        slab: slab.slab,
        row: slab.row,
        replaces: frame.position.sequence,
        shape: slab.shape,
        units: slab.slab_units,
        journal: slab.journal.filter(|span| span.first >= JOURNAL_CHUNK && span.contains(slab.chunk)),
        maps: vec![0; maps(&row.shape, row.slab_data_bytes()) as usize].into(),
        dirty: 0,
    };
    Some((found, row.slab_head_bytes()))
}

/// Whether a configuration could have such a slab.
fn is_sound(header: &SlabHeader, row: &RowRecord) -> bool {
    let SlabHeader { shape, of: SpaceFacts { chunk_bytes, space_bytes, space, .. }, .. } = header;
    let whole = |bytes: &u64| *bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES);
    let sizes = whole(chunk_bytes)
        && whole(space_bytes)
        && can_hold(shape, *chunk_bytes)
        && space_bytes.div_ceil(*chunk_bytes) <= u64::from(JOURNAL_CHUNK);
    let numbers = (1..u64::MAX - (1 << 33)).contains(&header.row)
        && *space < u32::MAX >> 1
        && usize::from(header.slab) < shape.width();
    let fits = || match header.chunk < JOURNAL_CHUNK {
        true => header.slab_units == slab_units(shape, *chunk_bytes),
        false => is_journal_row(row),
    };
    sizes && numbers && fits()
}

/// Notes the newest number of each map, and which regions are dirty.
fn look_at_maps(head: &[u8], slab: &mut Slab) {
    let banded = slab.shape.layout.parity() > 0;
    for map in 0..slab.maps.len() {
        let mut dirty = 0;
        for slot in 0..2 {
            let at = map_at(map, slot);
            let Some(block) = head.get(at as usize..(at + BLOCK_BYTES) as usize) else { continue };
            let Ok((header, payload)) = Frame::open_inline(block) else { continue };
            let frame = header.frame;
            let kind = if banded { Kind::BandMap } else { Kind::BlockMap };
            let own = (frame.kind, frame.pool, frame.disk, frame.offset, frame.position.generation)
                == (kind, slab.pool, slab.disk, slab.offset + at, slab.row);
            let mut reader = Reader::new(payload);
            let newer = slab.maps[map] + 1..=MOST_MAP_SEQUENCE;
            if !own || reader.u32() != Ok(slab.chunk) || !newer.contains(&frame.position.sequence) {
                continue;
            }
            slab.maps[map] = frame.position.sequence;
            let column_and_map = reader.u32();
            dirty = match banded || column_and_map.is_err() {
                true => 0,
                false => (0..DIRTY_WORDS).map_while(|_| reader.u64().ok()).map(u64::count_ones).sum(),
            };
        }
        slab.dirty += dirty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Position;
    use crate::slab::HEAD_BYTES;
    use holdfast_model::wire::Writer;
    use holdfast_model::{ByteSize, Layout, Provisioning};

    #[test]
    fn the_maps_of_a_large_slab_are_found_behind_the_first_64_kib() {
        let (offset, row, chunk_bytes) = (64 * UNIT_BYTES, 9, 1 << 30);
        let shape = Shape::plain(Layout::Mirror { copies: 2 }, 1, ByteSize::kib(256));
        let header = SlabHeader {
            of: SpaceFacts {
                pool_name: "tank".parse().expect("a name"),
                space: 1,
                space_uuid: Uuid::from_u128(3),
                space_name: "vol".parse().expect("a name"),
                space_bytes: 1 << 40,
                chunk_bytes,
                provisioning: Provisioning::Thin,
            },
            chunk: 5,
            slab: 1,
            row,
            shape,
            slab_units: slab_units(&shape, chunk_bytes),
            journal: None,
        };
        let (pool, disk) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let frame = |kind, offset, sequence| {
            let position = Position { generation: row, sequence };
            Frame { kind, pool, disk, offset, position, previous: 0 }
        };
        let mut head = frame(Kind::SlabHeader, offset, 0).seal(&header.write()).to_vec();
        let (mut slab, head_bytes) = open(&head, offset, &mut Known::default()).expect("its own header");
        assert!(slab.maps.len() == 16 && head_bytes > HEAD_BYTES, "{slab:?} in {head_bytes}");
        head.resize(head_bytes as usize, 0);
        let mut map = Writer::new();
        map.u32(header.chunk).u16(0).u16(15);
        (0..DIRTY_WORDS).for_each(|_| {
            map.u64(1);
        });
        let at = map_at(15, 1);
        let block = frame(Kind::BlockMap, offset + at, 7).seal(&map.into_bytes());
        head[at as usize..][..block.len()].copy_from_slice(&block);
        look_at_maps(&head, &mut slab);
        assert_eq!((slab.maps[15], slab.maps.iter().sum::<u64>(), slab.dirty), (7, 7, DIRTY_WORDS as u32));
    }
}
