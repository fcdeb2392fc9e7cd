//! Which disks a row gets: those with the most free room, so that free space stays even, each at most once. Where
//! fewer disks than a row needs are in service, others have stale slabs of it from its beginning: a pool with a disk less
//! goes on taking writes.

use std::cmp::Reverse;

use holdfast_model::{ByteSize, DiskState, Shape};

use crate::area::{Area, UNIT_BYTES};
use crate::config::{Config, RowRecord, SlabPlace, SpaceRecord};
use crate::slab::{HEAD_BYTES, MOST_SLAB_BYTES};
use crate::{PoolError, PoolErrorKind};

const MOST_CHUNK_BYTES: u64 = 256 << 20;
const LEAST_SLAB_BYTES: u64 = 1 << 20;
/// A disk has room for about this many slabs, so that even small disks can be shared by several spaces.
const SLABS_PER_DISK: u64 = 64;

/// Data bytes of a chunk of a new space: up to 256 MiB on real disks, less where disks are small.
pub fn chunk_bytes(shape: &Shape, smallest_disk: &Area) -> u64 {
    let disk = u64::from(smallest_disk.units()) * UNIT_BYTES;
    let columns = u64::from(shape.columns);
    let wanted = (1 << (disk / SLABS_PER_DISK).max(1).ilog2()).clamp(LEAST_SLAB_BYTES, MOST_SLAB_BYTES);
    let slab = wanted.min(MOST_CHUNK_BYTES / columns).max(LEAST_SLAB_BYTES);
    slab.next_multiple_of(shape.interleave.bytes().max(UNIT_BYTES)) * columns
}

/// Data bytes of each slab of a row of this shape that holds a chunk.
pub fn slab_bytes(shape: &Shape, chunk_bytes: u64) -> u64 {
    chunk_bytes.div_ceil(shape.columns.into()).next_multiple_of(shape.interleave.bytes().max(UNIT_BYTES))
}

/// Units of each slab of a row of this shape that holds a chunk, its head included.
pub fn slab_units(shape: &Shape, chunk_bytes: u64) -> u32 {
    ((HEAD_BYTES + slab_bytes(shape, chunk_bytes)) / UNIT_BYTES) as u32
}

fn takes_slabs(config: &Config, disk: u16) -> bool {
    config.disks.get(&disk).is_some_and(|record| record.usage.takes_slabs() && record.state == DiskState::Online)
}

/// How many disks may hold data now.
pub fn eligible(config: &Config) -> usize {
    config.disks.keys().filter(|disk| takes_slabs(config, **disk)).count()
}

/// Takes the units of a row for a chunk of `space`.
pub fn allot(config: &mut Config, space: &SpaceRecord) -> Result<RowRecord, PoolError> {
    let shape = space.shape;
    let slab_units = slab_units(&shape, space.chunk_bytes);
    let id = config.next_row;
    let disks = config.disks.len() as u64;
    let short = eligible(config) < shape.width();
    let mut fitting: Vec<(bool, u32, u16)> = config
        .free
        .iter()
        .filter(|(_, free)| free.fits(slab_units))
        .map(|(disk, free)| (!takes_slabs(config, *disk), free.free(), *disk))
        .filter(|(out, _, disk)| !out || (short && config.disks[disk].usage.takes_slabs()))
        .collect();
    let in_service = fitting.iter().filter(|(out, ..)| !out).count();
    let columns = usize::from(shape.columns);
    if fitting.len() < shape.width() || in_service < columns {
        return Err(PoolError::new(
            PoolErrorKind::NoSpace,
            format!(
                "pool {} is full for space {}: a row needs {} on each of {} disks, {} have it; add disks or give space back",
                config.name.as_ref().map(ToString::to_string).unwrap_or_default(),
                space.name,
                ByteSize(u64::from(slab_units) * UNIT_BYTES),
                shape.width(),
                in_service
            ),
        ));
    }
    fitting.sort_by_key(|(out, free, disk)| (*out, Reverse(*free), (u64::from(*disk) + id) % disks));
    let place = |(_, _, disk): &(bool, u32, u16)| {
        let unit = config.free.get_mut(disk).and_then(|free| free.take(slab_units)).expect("a fitting run was found");
        SlabPlace::new(*disk, unit)
    };
    let chosen: Vec<SlabPlace> = fitting[..shape.width()].iter().map(place).collect();
    // The first disks go to different columns, so that each has a copy in service.
    let copies = shape.width() / columns;
    let slabs = (0..shape.width()).map(|slab| chosen[slab % copies * columns + slab / copies]).collect();
    config.next_row += 1;
    Ok(RowRecord { id, shape, slab_units, slabs })
}
