//! The heads of slabs as an open row finds them on disk: whether they are its own, and the newest of the maps in them.
//!
//! After a crash the slabs that back each other may differ by the last map written: the newest counts. A slab that is away may
//! hold one map more, of a write that a crash cut short: its number is passed over.

use std::ops::Range;
use std::sync::atomic::Ordering;

use holdfast_device::{IoBuf, IoError};
use holdfast_model::{BLOCK_BYTES, Uuid};
use holdfast_pool::frame::{Frame, Kind, Position};
use holdfast_pool::slab::{MOST_MAP_SEQUENCE, map_at};

use crate::column::MapOnDisk;
use crate::row::Row;

/// The heads of slabs that back each other, as far as they can be read.
pub struct Heads {
    /// The slab's index, where it begins, its disk, and its head.
    found: Vec<(usize, u64, Uuid, IoBuf)>,
    first: usize,
    /// Whether none of them is away.
    all: bool,
    /// Whether every slab has the row's header.
    pub owned: bool,
    /// Why one cannot be read.
    pub error: Option<IoError>,
}

impl Row {
    /// Reads the heads of slabs in step, with so many maps.
    pub async fn read_heads(&self, slabs: Range<usize>, maps: usize) -> Heads {
        let count = slabs.len();
        let mut heads = Heads { found: Vec::new(), first: slabs.start, all: false, owned: true, error: None };
        for (index, slab) in slabs.map(|index| (index, self.slabs.get(index))).filter(|(_, slab)| slab.usable()) {
            match slab.disk.read(slab.start, IoBuf::new(map_at(maps, 0) as usize)).await {
                Ok(head) => {
                    heads.owned &= self.owns_header(index, &head);
                    heads.found.push((index, slab.start, slab.disk.id, head));
                }
                Err(error) => {
                    slab.disk.counters.read_errors.fetch_add(1, Ordering::Relaxed);
                    heads.owned = false;
                    heads.error = Some(error);
                }
            }
        }
        heads.all = heads.found.len() == count;
        heads
    }

    fn owns_header(&self, index: usize, head: &[u8]) -> bool {
        let slab = self.slabs.get(index);
        let position = Position { generation: self.record.id, sequence: 0 };
        let (pool, disk) = (self.pool.id(), slab.disk.id);
        let own = Frame { kind: Kind::SlabHeader, pool, disk, offset: slab.start, position, previous: 0 };
        own.open_own(&head[..BLOCK_BYTES as usize]).is_some_and(|(replaces, _)| replaces == 0)
    }
}

impl Heads {
    /// How many could be read.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// The newest of a map, and whether every slab has it; `open` reads a block of a disk at an offset. Notes in `place` where it
    /// stands, and the number after which no slab has any.
    pub fn newest<M>(
        &self,
        map: usize,
        place: &mut MapOnDisk,
        open: impl Fn(&[u8], Uuid, u64) -> Option<(u64, M)>,
    ) -> Option<(M, bool)> {
        let mut newest: Option<(u64, M)> = None;
        let mut known = Vec::with_capacity(self.found.len());
        for (index, start, disk, head) in &self.found {
            let slots = (0..2u8).filter_map(|slot| {
                let at = map_at(map, slot.into());
                let block = &head[at as usize..(at + BLOCK_BYTES) as usize];
                let opened = open(block, *disk, start + at).filter(|(sequence, _)| *sequence <= MOST_MAP_SEQUENCE);
                opened.map(|(sequence, content)| (sequence, slot, content))
            });
            let best = slots.max_by_key(|(sequence, ..)| *sequence);
            known.push(best.as_ref().map(|(sequence, ..)| *sequence));
            if let Some((sequence, slot, content)) = best {
                place.slots[index - self.first] = slot;
                if newest.as_ref().is_none_or(|(newest, _)| sequence > *newest) {
                    newest = Some((sequence, content));
                }
            }
        }
        place.sequence = newest.as_ref().map_or(0, |(sequence, _)| *sequence) + u64::from(!self.all);
        let (sequence, content) = newest?;
        let agreed = self.error.is_none() && known.iter().all(|known| *known == Some(sequence));
        Some((content, agreed))
    }
}
