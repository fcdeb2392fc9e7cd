//! How large a configuration may become: every disk in service must be able to hold it, so the smallest one says.
//!
//! Invariants: rows and spaces are only begun while this has room for them, so no disk is lost to a log that does not
//! fit. The rows of a new space are so large that [`SPACES`] spaces that take all of the pool's room, in whatever parts
//! and shapes, have room here.

use holdfast_model::{BLOCK_BYTES, ByteSize, Shape};

use crate::area::{Area, UNIT_BYTES};
use crate::chunk::chunk_bytes;
use crate::config::{Config, MOST_DOCUMENTS_BYTES, SPACE_BYTES, row_bytes};
use crate::disk::PoolDisk;
use crate::geometry::row_raw_bytes;
use crate::log::LEAST_RECORD_BYTES;
use crate::state::State;
use crate::{PoolError, PoolErrorKind};

/// What a log half keeps free for records, also for those under way.
const RESERVE_BYTES: u64 = BLOCK_BYTES + 2 * LEAST_RECORD_BYTES;

/// The disk in service with the smallest log, and what a checkpoint there may have.
fn smallest_log(state: &State) -> Option<(&PoolDisk, u64)> {
    let in_service = state.disks.values().filter(|disk| disk.in_service());
    let smallest = in_service.min_by_key(|disk| disk.area.log_half_bytes())?;
    Some((smallest, smallest.area.log_half_bytes().saturating_sub(RESERVE_BYTES)))
}

/// Of that, the part for documents.
const DOCUMENTS_PART: u64 = 16;

/// Bytes that documents may have, all together.
pub(crate) fn documents_room(state: &State) -> u64 {
    smallest_log(state).map_or(MOST_DOCUMENTS_BYTES, |(_, room)| (room / DOCUMENTS_PART).min(MOST_DOCUMENTS_BYTES))
}

/// The disk with the smallest log, and what a checkpoint there may have besides documents: those that are there, or may
/// come.
fn smallest_map(state: &State) -> Option<(&PoolDisk, u64)> {
    let documents = documents_room(state).max(state.config.documents_bytes());
    smallest_log(state).map(|(disk, room)| (disk, room.saturating_sub(documents)))
}

/// Bytes of a checkpoint without its documents, with more spaces, and more rows of each of these shapes.
fn wanted(state: &State, spaces: u64, rows: &[(u64, Shape)]) -> u64 {
    let rows: u64 = rows.iter().map(|(count, shape)| count.saturating_mul(row_bytes(shape))).sum();
    (state.config.map_bytes() + spaces * SPACE_BYTES).saturating_add(rows)
}

/// Spaces that a pool is to have room for, however its room is parted among them.
pub(crate) const SPACES: u64 = 4096;

/// Data bytes of a chunk of a new space of this size: its rows keep to its share of the map. Half of that is shared out
/// as the pool's room is, half is the same for all.
pub(crate) fn chunk_of_space(state: &State, shape: &Shape, size_bytes: u64) -> Result<u64, PoolError> {
    let config = &state.config;
    let smallest = smallest_area(config)?;
    let data = config.disks.values().filter(|disk| disk.usage.takes_slabs());
    let units: u64 =
        data.filter_map(|disk| Area::of_disk("", disk.disk_bytes).ok()).map(|area| u64::from(area.units())).sum();
    let raw = u128::from(units) * u128::from(UNIT_BYTES);
    let map = smallest_map(state)
        .map_or(u64::MAX, |(_, room)| room.saturating_sub(config.disks_bytes() + SPACES * SPACE_BYTES));
    let fits = |chunk_bytes: u64| {
        let row_raw = u128::from(row_raw_bytes(shape, chunk_bytes));
        let rows = u128::from(size_bytes.div_ceil(chunk_bytes)).min(raw / row_raw);
        let share = u128::from(map / 2 / SPACES) + u128::from(map / 2) * (rows * row_raw) / raw.max(1);
        rows * u128::from(row_bytes(shape)) <= share
    };
    Ok(chunk_bytes(shape, &smallest, &fits))
}

/// How many rows of a shape the disks could write down besides the other new spaces and rows.
pub(crate) fn rows_with_room(state: &State, spaces: u64, others: &[(u64, Shape)], shape: &Shape) -> u64 {
    smallest_map(state)
        .map_or(u64::MAX, |(_, room)| room.saturating_sub(wanted(state, spaces, others)) / row_bytes(shape))
}

/// Refuses more spaces, and more rows of each of these shapes, than the disks could write down.
pub(crate) fn check_room(state: &State, spaces: u64, rows: &[(u64, Shape)]) -> Result<(), PoolError> {
    let Some((smallest, room)) = smallest_map(state) else { return Ok(()) };
    let wanted = wanted(state, spaces, rows);
    if wanted <= room {
        return Ok(());
    }
    let record = state.config.disks.get(&smallest.index);
    Err(PoolError::new(
        PoolErrorKind::NoSpace,
        format!(
            "pool {} cannot store a map of {}: its disk {} of {} has room for {}; replace that disk with a larger one, or create fewer or smaller spaces",
            state.config.name.as_ref().map(ToString::to_string).unwrap_or_default(),
            ByteSize(wanted),
            record.map(|record| record.label()).unwrap_or_default(),
            ByteSize(smallest.area.disk_bytes),
            ByteSize(room)
        ),
    ))
}

/// The division of the smallest disk that takes slabs.
pub(crate) fn smallest_area(config: &Config) -> Result<Area, PoolError> {
    let data = config.disks.values().filter(|disk| disk.usage.takes_slabs());
    let smallest = data.filter_map(|disk| Area::of_disk("", disk.disk_bytes).ok()).min_by_key(Area::units);
    let pool = || config.name.as_ref().map(ToString::to_string).unwrap_or_default();
    smallest.ok_or_else(|| {
        PoolError::invalid(format!("pool {} has no disk for data: set the usage of one to auto", pool()))
    })
}
