//! Which disks a row gets: those with the most free room, so that free space stays even, each at most once. Where fewer
//! disks than a row needs are in service, others have stale slabs of it from its beginning: a pool with a disk less
//! goes on taking writes. Disks that are to be avoided come last. As many slabs as serve the row are always on disks in
//! service. The rows of a space that is to survive the loss of an enclosure are spread over enclosures too.

use std::cmp::Reverse;

use holdfast_model::{ByteSize, DiskState, Shape};

use crate::area::UNIT_BYTES;
use crate::config::Config;
use crate::enclosures::Fitting;
use crate::geometry::slab_units;
use crate::place::SlabPlace;
use crate::record::{DiskRecord, RowRecord, SpaceRecord};
use crate::{PoolError, PoolErrorKind, enclosures};

/// How many disks may hold data now.
pub fn eligible(config: &Config) -> usize {
    config.disks.values().filter(|disk| disk.usage.takes_slabs() && disk.state == DiskState::Online).count()
}

/// Takes the units of a row for a chunk of `space`.
pub fn allot(config: &mut Config, space: &SpaceRecord) -> Result<RowRecord, PoolError> {
    let slab_units = slab_units(&space.shape, space.chunk_bytes);
    let avoided = config.avoided.clone();
    let data = |disk: &DiskRecord| disk.usage.takes_slabs().then_some(u8::from(avoided.contains(&disk.index)));
    allot_on(config, space.shape, slab_units, space.enclosure_aware, &data).map_err(|in_service| {
        PoolError::new(
            PoolErrorKind::NoSpace,
            format!(
                "pool {} is full for space {}: a row needs {} on each of {} disks, and {in_service} have it; add disks or free room",
                config.name.as_ref().map(ToString::to_string).unwrap_or_default(),
                space.name,
                ByteSize(u64::from(slab_units) * UNIT_BYTES),
                space.shape.width(),
            ),
        )
    })
}

/// When it is the turn of a disk among those that are as empty. Mixed, so that every disk shares rows with every other:
/// what is lost with one is then read from all.
fn turn(disk: u16, row: u64) -> u64 {
    let mixed = (row.wrapping_mul(1 << 16) ^ u64::from(disk)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

/// Takes the units of a row on disks that `rank` does not refuse, those of a low rank before the others, and with
/// `enclosure_aware` spread over enclosures. Where there is no room, tells how many disks in service have it.
pub fn allot_on(
    config: &mut Config,
    shape: Shape,
    slab_units: u32,
    enclosure_aware: bool,
    rank: &dyn Fn(&DiskRecord) -> Option<u8>,
) -> Result<RowRecord, usize> {
    let id = config.next_row;
    let online = |disk: &DiskRecord| disk.state == DiskState::Online;
    let wanted = || config.disks.values().filter(|disk| online(disk) && rank(disk).is_some());
    let together = match enclosure_aware {
        true => enclosures::most_of_row(&shape, wanted().map(enclosures::enclosure)),
        false => Some(shape.width()).filter(|width| wanted().count() >= *width),
    };
    let short = together.is_none();
    let mut fitting: Vec<(bool, u8, u32, u16)> = config
        .free
        .iter()
        .filter(|(_, free)| free.fits(slab_units))
        .filter_map(|(index, free)| {
            let disk = &config.disks[index];
            rank(disk).map(|rank| (!online(disk), rank, free.free(), *index))
        })
        .filter(|(out, ..)| !out || short)
        .collect();
    let in_service = fitting.iter().filter(|(out, ..)| !out).count();
    if fitting.len() < shape.width() || in_service < shape.least_width() {
        return Err(in_service);
    }
    fitting.sort_by_key(|(out, rank, free, disk)| (*out, *rank, Reverse(*free), turn(*disk, id)));
    let chosen: Vec<u16> = if enclosure_aware {
        let fitting: Vec<Fitting<'_>> = (0u64..)
            .zip(&fitting)
            .map(|(turn, (out, rank, free, disk))| Fitting {
                disk: *disk,
                enclosure: enclosures::enclosure(&config.disks[disk]),
                rank: (*out, *rank),
                slabs: u64::from(*free / slab_units),
                turn,
            })
            .collect();
        let most = together.unwrap_or(enclosures::most_of_any_row(&shape));
        enclosures::choose(&shape, &fitting, most).ok_or(in_service)?
    } else {
        // The first disks go to different columns, so that each has a copy in service.
        let columns = usize::from(shape.columns);
        let copies = shape.width() / columns;
        (0..shape.width()).map(|slab| fitting[slab % copies * columns + slab / copies].3).collect()
    };
    let place = |disk: &u16| {
        let unit = config.free.get_mut(disk).and_then(|free| free.take(slab_units)).expect("a fitting run was found");
        SlabPlace::new(*disk, unit)
    };
    let slabs = chosen.iter().map(place).collect();
    config.next_row += 1;
    Ok(RowRecord { id, shape, slab_units, begun: false, slabs })
}
