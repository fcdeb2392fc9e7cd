//! What a pool could still hold, by layout, and how much of it is promised.
//!
//! Invariant: each figure is what the pool itself would allot now to a space of the columns that stand beside it: those
//! that `space create` gives by default, and for single parity those of dual parity as well, so that the two can be
//! compared.

use holdfast_api::{CapacityLimit, LayoutCapacity, PoolRoom};
use holdfast_model::{ByteSize, Integrity, Layout, Shape};
use holdfast_pool::{Capacity, Limit, Pool, RoomUse};

use crate::engine::OpenPool;
use crate::spaces::data_disks;
use crate::view::{layout_kind, percent};

/// All layouts.
pub(crate) const LAYOUTS: [Layout; 5] = [
    Layout::Simple,
    Layout::Mirror { copies: 2 },
    Layout::Mirror { copies: 3 },
    Layout::Parity { parity: 1 },
    Layout::Parity { parity: 2 },
];
/// What fewer columns must give at least, or large disks must leave over, in percent, to be what limits.
const WORTH_PERCENT: u64 = 2;

/// What a pool could hold in each layout.
pub(crate) fn by_layout(open: &OpenPool) -> Vec<LayoutCapacity> {
    let (pool, room, disks) = (&open.pool, open.pool.room_use(), data_disks(open));
    let mut capacities = Vec::new();
    for layout in LAYOUTS {
        capacities.push(of_layout(pool, &room, layout, None, disks));
        if let Some(columns) = columns_to_compare(layout, disks) {
            capacities.push(of_layout(pool, &room, layout, Some(columns), disks));
        }
    }
    capacities
}

/// The columns of dual parity, where single parity has others by default.
fn columns_to_compare(layout: Layout, disks: usize) -> Option<u16> {
    let columns = |layout| Shape::choose(layout, None, None, disks).ok().map(|shape| shape.columns);
    let dual = columns(Layout::Parity { parity: 2 });
    dual.filter(|_| layout == Layout::Parity { parity: 1 }).filter(|dual| columns(layout) != Some(*dual))
}

/// What a pool could hold in a layout, with these columns or those that a space gets by default.
fn of_layout(pool: &Pool, room: &RoomUse, layout: Layout, columns: Option<u16>, disks: usize) -> LayoutCapacity {
    let none = |limited_by, reason: String| LayoutCapacity {
        layout: layout_kind(layout),
        copies: layout.copies(),
        parity: layout.parity(),
        columns: 0,
        default: columns.is_none(),
        usable_bytes: 0,
        raw_bytes: 0,
        unused_bytes: 0,
        enclosure_aware_bytes: None,
        limited_by,
        reason,
    };
    let shape = match Shape::choose(layout, columns, None, disks) {
        Ok(shape) => shape.with_integrity(Integrity::Crc32c),
        Err(error) => return none(CapacityLimit::Disks, error.to_string()),
    };
    let capacity = match pool.capacity(&shape, None, false) {
        Ok(capacity) => capacity,
        Err(error) => return LayoutCapacity { columns: shape.columns, ..none(CapacityLimit::Room, error.context) },
    };
    let enclosures = pool.capacity(&shape, None, true);
    let (limited_by, reason) = limit(pool, room, &capacity, disks);
    LayoutCapacity {
        layout: layout_kind(layout),
        copies: layout.copies(),
        parity: layout.parity(),
        columns: shape.columns,
        default: columns.is_none(),
        usable_bytes: capacity.usable_bytes(),
        raw_bytes: capacity.raw_bytes,
        unused_bytes: capacity.unused_bytes,
        enclosure_aware_bytes: enclosures.ok().map(|capacity| capacity.usable_bytes()),
        limited_by,
        reason,
    }
}

/// What keeps a layout from holding more, and what could be done about it.
fn limit(pool: &Pool, room: &RoomUse, capacity: &Capacity, disks: usize) -> (CapacityLimit, String) {
    let (usable, unused) = (capacity.usable_bytes(), ByteSize(capacity.unused_bytes));
    let narrow = Shape::choose(capacity.shape.layout, Some(capacity.shape.layout.least_columns()), None, disks);
    let narrow = narrow.ok().map(|shape| shape.with_integrity(capacity.shape.integrity));
    let narrow = narrow.and_then(|shape| pool.capacity(&shape, None, false).ok());
    if let Some(narrow) = narrow
        && narrow.usable_bytes() > usable + usable / 100 * WORTH_PERCENT
    {
        let reason = format!(
            "rows of {} columns leave {unused} unused; with {} columns {} fit",
            capacity.shape.columns,
            narrow.shape.columns,
            ByteSize(narrow.usable_bytes())
        );
        return (CapacityLimit::Columns, reason);
    }
    // What is left over of even disks is less than that.
    let slight = capacity.unused_bytes * 100 < (capacity.raw_bytes + capacity.unused_bytes) * WORTH_PERCENT;
    match if slight && capacity.limit != Limit::Map { Limit::Room } else { capacity.limit } {
        Limit::Map => (CapacityLimit::Map, "the smallest disk has no room for the map of more rows".into()),
        Limit::LargeDisks(count) => {
            let which = if count == 1 { "one disk has".into() } else { format!("{count} disks have") };
            (
                CapacityLimit::LargeDisk,
                format!("{which} more room than the others can back: {unused} cannot be used; add disks of that size"),
            )
        }
        Limit::LargeEnclosures(count) => {
            let which = if count == 1 { "one enclosure has".into() } else { format!("{count} enclosures have") };
            (CapacityLimit::Enclosures, format!("{which} more room than the others can back: {unused} cannot be used"))
        }
        Limit::Room if room.spare_bytes > 0 => (
            CapacityLimit::Spares,
            format!("all room of data disks is used; {} on hot spares stay free", ByteSize(room.spare_bytes)),
        ),
        Limit::Room => (CapacityLimit::Room, "all room of its disks is used".into()),
    }
}

/// How much room of a pool is taken, and how much is promised.
pub(crate) fn room(used: &RoomUse) -> PoolRoom {
    PoolRoom {
        data_bytes: used.data_bytes,
        used_bytes: used.used_bytes,
        used_percent: percent(used.used_bytes, used.data_bytes),
        provisioned_bytes: used.provisioned_bytes,
        ratio: (used.provisioned_bytes as f64 * 100.0 / used.data_bytes.max(1) as f64).round() / 100.0,
    }
}
