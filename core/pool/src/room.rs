//! How large a configuration may become: every disk in service must be able to hold it, so the smallest one says.
//!
//! Invariant: rows and spaces are only begun while this has room for them, so no disk is lost to a log that does not fit.

use holdfast_model::{BLOCK_BYTES, ByteSize, Shape};

use crate::config::{SPACE_BYTES, row_bytes};
use crate::disk::PoolDisk;
use crate::log::LEAST_RECORD_BYTES;
use crate::pool::State;
use crate::{PoolError, PoolErrorKind};

/// What a log half keeps free for records, also for those under way.
const RESERVE_BYTES: u64 = BLOCK_BYTES + 2 * LEAST_RECORD_BYTES;

/// The disk in service with the smallest log, and what a checkpoint there may have.
fn smallest_log(state: &State) -> Option<(&PoolDisk, u64)> {
    let in_service = state.disks.values().filter(|disk| disk.in_service());
    let smallest = in_service.min_by_key(|disk| disk.area.log_half_bytes())?;
    Some((smallest, smallest.area.log_half_bytes().saturating_sub(RESERVE_BYTES)))
}

/// Bytes of a checkpoint with more spaces, and more rows of each of these shapes.
fn wanted(state: &State, spaces: u64, rows: &[(u64, Shape)]) -> u64 {
    let rows: u64 = rows.iter().map(|(count, shape)| count.saturating_mul(row_bytes(shape))).sum();
    (state.config.checkpoint_bytes() + spaces * SPACE_BYTES).saturating_add(rows)
}

/// How many rows of a shape the disks could write down besides the other new spaces and rows.
pub(crate) fn rows_with_room(state: &State, spaces: u64, others: &[(u64, Shape)], shape: &Shape) -> u64 {
    smallest_log(state).map_or(u64::MAX, |(_, room)| room.saturating_sub(wanted(state, spaces, others)) / row_bytes(shape))
}

/// Refuses more spaces, and more rows of each of these shapes, than the disks could write down.
pub(crate) fn check_room(state: &State, spaces: u64, rows: &[(u64, Shape)]) -> Result<(), PoolError> {
    let Some((smallest, room)) = smallest_log(state) else { return Ok(()) };
    let wanted = wanted(state, spaces, rows);
    if wanted <= room {
        return Ok(());
    }
    let record = state.config.disks.get(&smallest.index);
    Err(PoolError::new(
        PoolErrorKind::NoSpace,
        format!(
            "pool {} cannot keep a map of {}: its disk {} of {} has room for {}; replace that disk by a larger one, or make fewer or smaller spaces",
            state.config.name.as_ref().map(ToString::to_string).unwrap_or_default(),
            ByteSize(wanted),
            record.map(|record| record.label()).unwrap_or_default(),
            ByteSize(smallest.area.disk_bytes),
            ByteSize(room)
        ),
    ))
}
