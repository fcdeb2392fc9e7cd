//! What a space of some shape could hold if it were made now.
//!
//! Invariant: a fixed space of the answered size is made by the pool as it is now, and on disks whose free room is in
//! one piece none is made that is larger.

use std::collections::BTreeMap;

use holdfast_model::{DiskState, Shape, Usage};

use crate::allot::eligible;
use crate::area::{Area, UNIT_BYTES};
use crate::geometry::{JOURNAL_CHUNK, row_raw_bytes, slab_units};
use crate::journal_allot::{allot_journal, bytes_of, check_journal, least_with_journal_like};
use crate::pool::Pool;
use crate::record::RowRecord;
use crate::room::{check_room, chunk_of_space, rows_with_room};
use crate::{PoolError, PoolErrorKind, enclosures};

/// How often a smaller chunk is tried for a space that would be smaller than thought.
const CHUNK_TRIES: u32 = 40;

/// What keeps a space of some shape from holding more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The room of all disks: less than a row is left over.
    Room,
    /// So many disks have more room than the others can back, since each holds one slab of a row at most.
    LargeDisks(usize),
    /// So many enclosures have more room than the others can back.
    LargeEnclosures(usize),
    /// The room for the pool's map of rows on the smallest disk.
    Map,
}

/// How much of a pool's room is taken, and how much would be if every space were written throughout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoomUse {
    /// Bytes that slabs may take on disks in service that take data.
    pub data_bytes: u64,
    /// Bytes that they take there.
    pub used_bytes: u64,
    /// Bytes that all spaces would take, with copies, parity and journals.
    pub provisioned_bytes: u64,
    /// Free bytes on hot spares.
    pub spare_bytes: u64,
}

/// What a space of some shape could hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The shape.
    pub shape: Shape,
    /// Bytes of data in each of its rows.
    pub chunk_bytes: u64,
    /// Rows that there is room for.
    pub rows: u64,
    /// Bytes of its journal, each copy counted once.
    pub journal_bytes: u64,
    /// Bytes that its rows and its journal take on the disks, with copies, parity, heads and spare places.
    pub raw_bytes: u64,
    /// Bytes of disks that take slabs which no further row of it could use.
    pub unused_bytes: u64,
    /// What keeps it from holding more.
    pub limit: Limit,
}

impl Capacity {
    /// Bytes of data that it could hold.
    pub fn usable_bytes(&self) -> u64 {
        self.rows * self.chunk_bytes
    }
}

impl Pool {
    /// What a space of this shape could hold, with a journal of this size, or of the pool's choice, and with
    /// `enclosure_aware` spread over enclosures. Nothing is changed.
    ///
    /// # Errors
    /// A shape or journal that cannot be on the disks in service.
    pub fn capacity(
        &self,
        shape: &Shape,
        journal_bytes: Option<u64>,
        enclosure_aware: bool,
    ) -> Result<Capacity, PoolError> {
        let path = format!("of {shape} in pool {}", self.name());
        journal_bytes.map_or(Ok(()), |bytes| check_journal(&path, shape, bytes))?;
        // A smaller space has a smaller journal by default, which may leave room for more data.
        let mut most_bytes = u64::MAX;
        loop {
            let found = self.capacity_up_to(&path, shape, journal_bytes, enclosure_aware, most_bytes);
            let least = match journal_bytes {
                None if shape.layout.parity() > 0 => least_with_journal_like(&self.state().config, most_bytes),
                _ => 0,
            };
            match &found {
                Ok(capacity) if capacity.usable_bytes() < least => most_bytes = least - 1,
                Err(full) if full.kind == PoolErrorKind::NoSpace && least > 0 => most_bytes = least - 1,
                _ => return found,
            }
        }
    }

    /// The same for a space of `most_bytes` at most.
    fn capacity_up_to(
        &self,
        path: &str,
        shape: &Shape,
        journal_bytes: Option<u64>,
        enclosure_aware: bool,
        most_bytes: u64,
    ) -> Result<Capacity, PoolError> {
        let mut state = self.state();
        check_room(&state, 1, &[])?;
        Shape::choose(shape.layout, Some(shape.columns), Some(shape.interleave), eligible(&state.config))
            .map_err(|error| PoolError::invalid(format!("space {path}: {error}")).about(error.parameter()))?;
        let most_together = match enclosure_aware {
            true => enclosures::check(&state.config, path, shape)?,
            false => shape.width(),
        };
        let largest_chunk = chunk_of_space(&state, shape, most_bytes)?;
        let journal = if shape.layout.parity() > 0 {
            // Its units are taken to see what is left, and given back before anybody can look.
            let next_row = state.config.next_row;
            let copies = shape.layout.parity() + 1;
            let journal = allot_journal(&mut state.config, path, copies, enclosure_aware, journal_bytes, most_bytes);
            state.config.next_row = next_row;
            journal?
        } else {
            Vec::new()
        };
        let takes_slabs = |disk: &u16| {
            state.config.disks.get(disk).is_some_and(|disk| disk.usage.takes_slabs() && disk.state == DiskState::Online)
        };
        let free = || state.config.free.iter().filter(|(disk, _)| takes_slabs(disk));
        let slabs_of = |slab_units: u32| {
            let mut slabs: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
            for (disk, free) in free() {
                let enclosure = if enclosure_aware { enclosures::enclosure(&state.config.disks[disk]) } else { "" };
                slabs.entry(enclosure).or_default().push(free.slabs_of(slab_units).into());
            }
            slabs.into_values().collect::<Vec<Vec<u64>>>()
        };
        let free_units: u64 = free().map(|(_, free)| u64::from(free.free())).sum();
        let known: Vec<(u64, Shape)> =
            journal.first().map(|row| (journal.len() as u64, row.shape)).into_iter().collect();
        let most_in_map = rows_with_room(&state, 1, &known, shape).min(JOURNAL_CHUNK.into());
        let with_chunk = |chunk_bytes: u64| {
            let slabs = slabs_of(slab_units(shape, chunk_bytes));
            let rows = most_rows(&slabs, shape.width() as u64, most_together as u64);
            let limit = if most_in_map < rows { Limit::Map } else { limit(&slabs, rows, most_together as u64) };
            (rows.min(most_in_map).min(most_bytes / chunk_bytes), limit)
        };
        // A smaller space may have smaller chunks.
        let mut chunk_bytes = largest_chunk;
        let (mut rows, mut limit) = with_chunk(chunk_bytes);
        for _ in 0..CHUNK_TRIES {
            let smaller = chunk_of_space(&state, shape, (rows * chunk_bytes).max(1))?;
            if smaller >= chunk_bytes {
                break;
            }
            chunk_bytes = smaller;
            (rows, limit) = with_chunk(chunk_bytes);
        }
        let slab_units = slab_units(shape, chunk_bytes);
        journal.iter().for_each(|row| state.config.release(row));
        if rows == 0 {
            return Err(PoolError::new(
                PoolErrorKind::NoSpace,
                format!("pool {} has no room for a single row of {shape}: add disks or free room", self.name()),
            ));
        }
        let data_units = rows * shape.width() as u64 * u64::from(slab_units);
        let units_of = |row: &RowRecord| row.slabs.len() as u64 * u64::from(row.slab_units);
        let journal_units: u64 = journal.iter().map(units_of).sum();
        Ok(Capacity {
            shape: *shape,
            chunk_bytes,
            rows,
            journal_bytes: bytes_of(journal.iter()),
            raw_bytes: (data_units + journal_units) * UNIT_BYTES,
            unused_bytes: (free_units - data_units) * UNIT_BYTES,
            limit,
        })
    }

    /// How much of its room is taken, and how much is promised.
    pub fn room_use(&self) -> RoomUse {
        let state = self.state();
        let mut room = RoomUse::default();
        for disk in state.config.disks.values().filter(|disk| disk.state == DiskState::Online) {
            let free = state.config.free.get(&disk.index).map_or(0, |free| u64::from(free.free())) * UNIT_BYTES;
            if disk.usage.takes_slabs() {
                let data = Area::of_disk("", disk.disk_bytes).map_or(0, |area| u64::from(area.units()) * UNIT_BYTES);
                room.data_bytes += data;
                room.used_bytes += data - free;
            } else if disk.usage == Usage::HotSpare {
                room.spare_bytes += free;
            }
        }
        for space in state.config.spaces.values() {
            let record = &space.record;
            let journal =
                space.journal_rows().map(|(_, row)| row.slabs.len() as u64 * u64::from(row.slab_units) * UNIT_BYTES);
            room.provisioned_bytes +=
                u64::from(record.chunks()) * row_raw_bytes(&record.shape, record.chunk_bytes) + journal.sum::<u64>();
        }
        room
    }
}

/// What keeps rows from being more, on disks with room for so many slabs, by enclosure.
fn limit(slabs: &[Vec<u64>], rows: u64, together: u64) -> Limit {
    let large = slabs
        .iter()
        .filter(|disks| disks.iter().map(|slabs| (*slabs).min(rows)).sum::<u64>() > rows * together)
        .count();
    if slabs.len() > 1 && large > 0 {
        return Limit::LargeEnclosures(large);
    }
    match slabs.iter().flatten().filter(|slabs| **slabs > rows).count() {
        0 => Limit::Room,
        disks => Limit::LargeDisks(disks),
    }
}

/// The rows of `width` slabs, each on another disk and at most so many `together` in an enclosure, on disks with room
/// for so many slabs, by enclosure: the most for which all disks together have room when none holds more than one slab
/// of a row.
fn most_rows(slabs: &[Vec<u64>], width: u64, together: u64) -> u64 {
    let (mut fit, mut too_many) = (0, slabs.iter().flatten().sum::<u64>() / width + 1);
    while fit + 1 < too_many {
        let rows = fit + (too_many - fit) / 2;
        let room = |disks: &Vec<u64>| disks.iter().map(|slabs| (*slabs).min(rows)).sum::<u64>().min(rows * together);
        match slabs.iter().map(room).sum::<u64>() >= rows * width {
            true => fit = rows,
            false => too_many = rows,
        }
    }
    fit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_need_disks_of_their_own() {
        let most_rows = |slabs: &[u64], width| super::most_rows(&[slabs.to_vec()], width, width);
        assert_eq!(most_rows(&[10, 10, 10], 2), 15);
        assert_eq!(most_rows(&[10, 1, 1], 2), 2);
        assert_eq!(most_rows(&[10, 4, 3, 2], 3), 4);
        assert_eq!((most_rows(&[10, 10], 3), most_rows(&[], 1), most_rows(&[7], 1)), (0, 0, 7));
    }

    #[test]
    fn enclosures_bound_what_their_disks_hold() {
        assert_eq!(most_rows(&[vec![10, 10], vec![6]], 2, 1), 6);
        assert_eq!(most_rows(&[vec![10, 10], vec![6], vec![5, 5]], 2, 1), 16);
        assert_eq!(most_rows(&[vec![9, 9, 9], vec![9, 9, 9]], 4, 2), 13);
    }

    #[test]
    fn what_limits_is_named() {
        let found = |slabs: &[Vec<u64>], width, together| {
            let rows = most_rows(slabs, width, together);
            (rows, limit(slabs, rows, together))
        };
        assert_eq!(found(&[vec![10, 10, 10]], 2, 2), (15, Limit::Room));
        assert_eq!(found(&[vec![10, 1, 1]], 2, 2), (2, Limit::LargeDisks(1)));
        assert_eq!(found(&[vec![9, 9, 2, 2]], 3, 3), (4, Limit::LargeDisks(2)));
        assert_eq!(found(&[vec![10, 10], vec![6]], 2, 1), (6, Limit::LargeEnclosures(1)));
    }

    proptest::proptest! {
        #[test]
        fn as_many_as_rows_on_the_emptiest_disks(mut slabs in proptest::collection::vec(0u64..40, 1..8), width in 1usize..5) {
            let found = most_rows(std::slice::from_ref(&slabs), width as u64, width as u64);
            let mut made = 0;
            loop {
                slabs.sort_unstable_by(|a, b| b.cmp(a));
                if slabs.len() < width || slabs[width - 1] == 0 {
                    break;
                }
                slabs[..width].iter_mut().for_each(|slabs| *slabs -= 1);
                made += 1;
            }
            proptest::prop_assert_eq!(found, made);
        }
    }
}
