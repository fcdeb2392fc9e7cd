//! Which disks a row gets: those with the most free room, so that free space stays even, each at most once. Where
//! fewer disks than a row needs are in service, others have stale slabs of it from its beginning: a pool with a disk less
//! goes on taking writes. Disks that are to be avoided come last. As many slabs as serve the row are always on disks in service. The rows of a space that is to survive
//! the loss of an enclosure are spread over enclosures too.

use std::cmp::Reverse;

use holdfast_model::{ByteSize, DiskState, Shape};

use crate::area::{Area, UNIT_BYTES};
use crate::config::{Config, DiskRecord, RowRecord, SlabPlace, SpaceRecord};
use crate::enclosures::{self, Fitting};
use crate::slab::{
    USUAL_MAPS, USUAL_SLAB_BYTES, bands, bands_of_chunk, can_hold, checksum_cache_bytes, head_bytes, maps, spare_bands,
};
use crate::{PoolError, PoolErrorKind};

/// The most data of a chunk of a new space, where the pool's map has room for its share of such rows.
const USUAL_CHUNK_BYTES: u64 = 256 << 20;
/// How often that is doubled at most: up to the most that a row holds.
const MOST_DOUBLED: u32 = 12;
const LEAST_SLAB_BYTES: u64 = 1 << 20;
/// A disk has room for about this many slabs, so that even small disks can be shared by several spaces.
const SLABS_PER_DISK: u64 = 64;
/// A parity row has at least so many bands of data where the smallest disk has room for it: each slab has spare bands as well.
const LEAST_BANDS: u64 = 4;

/// Data bytes of a chunk of a new space: up to 256 MiB on real disks, less where disks are small; doubled until `fits` takes it, as
/// long as slabs remain a small part of a disk, and where not `large` as long as none is.
pub fn chunk_bytes(shape: &Shape, smallest_disk: &Area, large: bool, fits: &dyn Fn(u64) -> bool) -> u64 {
    let mut chunk = chunk_of(shape, smallest_disk, 0);
    for doubled in 1..=MOST_DOUBLED {
        let larger = chunk_of(shape, smallest_disk, doubled);
        if fits(chunk) || !can_hold(shape, larger) || (is_large(shape, larger) && !large) {
            break;
        }
        chunk = larger;
    }
    chunk
}

/// Data bytes of a chunk on disks of this size, doubled so many times if slabs may be that large.
fn chunk_of(shape: &Shape, smallest_disk: &Area, doubled: u32) -> u64 {
    let disk = u64::from(smallest_disk.units()) * UNIT_BYTES;
    let columns = u64::from(shape.data_columns());
    let of_disk = 1 << (disk / SLABS_PER_DISK).max(1).ilog2();
    let wanted = of_disk.clamp(LEAST_SLAB_BYTES, USUAL_SLAB_BYTES << doubled);
    let most_bytes = USUAL_CHUNK_BYTES << doubled;
    if shape.layout.parity() > 0 {
        let band = shape.band_bytes();
        let roomy = (LEAST_BANDS + spare_bands(LEAST_BANDS)) * band <= disk / 8;
        let least = if roomy { LEAST_BANDS } else { 1 };
        let most = (most_bytes / (columns * band)).max(1);
        return bands(shape, wanted).data.max(least).min(most) * columns * band;
    }
    let slab = wanted.min(most_bytes / columns).max(LEAST_SLAB_BYTES);
    slab.next_multiple_of(shape.interleave.bytes().max(UNIT_BYTES)) * columns
}

/// Data bytes of each slab of a row of this shape that holds a chunk, spare bands included.
pub fn slab_bytes(shape: &Shape, chunk_bytes: u64) -> u64 {
    if shape.layout.parity() > 0 {
        let bands = bands_of_chunk(shape, chunk_bytes);
        return (bands.data + bands.spare) * shape.band_bytes();
    }
    chunk_bytes.div_ceil(shape.columns.into()).next_multiple_of(shape.interleave.bytes().max(UNIT_BYTES))
}

/// Units of each slab of a row of this shape that holds a chunk, its head and its checksums included.
pub fn slab_units(shape: &Shape, chunk_bytes: u64) -> u32 {
    let data = slab_bytes(shape, chunk_bytes);
    let mut after_head = data;
    while after_head - checksum_cache_bytes(shape, after_head) < data {
        after_head = data + checksum_cache_bytes(shape, after_head);
    }
    ((head_bytes(shape, data) + after_head) / UNIT_BYTES) as u32
}

/// Whether a pool must have large slabs for a row of this shape that holds a chunk.
pub fn is_large(shape: &Shape, chunk_bytes: u64) -> bool {
    let data = slab_bytes(shape, chunk_bytes);
    data > USUAL_SLAB_BYTES || maps(shape, data) > USUAL_MAPS
}

/// Bytes that a row of this shape that holds a chunk takes on the disks.
pub fn row_raw_bytes(shape: &Shape, chunk_bytes: u64) -> u64 {
    shape.width() as u64 * u64::from(slab_units(shape, chunk_bytes)) * UNIT_BYTES
}

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

/// When it is the turn of a disk among those that are as empty. Mixed, so that every disk shares rows with every other: what is lost with
/// one is then read from all.
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

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_model::{Integrity, Layout};

    fn parity(parity: u8, columns: u16, interleave: ByteSize) -> Shape {
        Shape::plain(Layout::Parity { parity }, columns, interleave)
    }

    fn disk(size: ByteSize) -> Area {
        Area::of_disk("x", size.bytes()).expect("in range")
    }

    #[test]
    fn slabs_of_parity_on_small_and_on_real_disks() {
        let (unit, small, real) = (ByteSize::kib(256), disk(ByteSize::mib(64)), disk(ByteSize::tib(8)));
        for (shape, area, chunk, slab) in [
            (parity(1, 3, unit), &small, ByteSize::kib(4 * 2 * 256), ByteSize::kib(6 * 256)),
            (parity(1, 3, ByteSize::kib(64)), &small, ByteSize::kib(14 * 2 * 64), ByteSize::kib(16 * 64)),
            (parity(1, 3, ByteSize::mib(16)), &small, ByteSize::mib(2 * 16), ByteSize::mib(3 * 16)),
            (parity(1, 3, unit), &real, ByteSize::kib(512 * 2 * 256), ByteSize::kib(520 * 256)),
            (parity(2, 7, unit), &real, ByteSize::kib(204 * 5 * 256), ByteSize::kib(208 * 256)),
            (parity(2, 32, unit), &real, ByteSize::kib(34 * 30 * 256), ByteSize::kib(36 * 256)),
            (parity(1, 5, ByteSize::mib(16)), &real, ByteSize::mib(256), ByteSize::mib(96)),
        ] {
            assert_eq!(
                (chunk_bytes(&shape, area, true, &|_| true), slab_bytes(&shape, chunk.bytes())),
                (chunk.bytes(), slab.bytes()),
                "{shape} on {area:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn slabs_are_whole_units_that_every_disk_can_hold(
            parity in 1u8..=2, columns in 0u16..=30, interleave in 12u32..=24, disk_bytes in 64u64 << 20..64 << 40, known in 1u64..1 << 28,
            at_least in 1u64..1 << 40, sums in proptest::bool::ANY
        ) {
            let least = Layout::Parity { parity }.least_columns();
            let shape = Shape::plain(Layout::Parity { parity }, (least + columns).min(32), ByteSize(1 << interleave));
            let shape = shape.with_integrity(if sums { Integrity::Crc32c } else { Integrity::None });
            proptest::prop_assume!(shape.check().is_ok());
            let area = Area::of_disk("x", disk_bytes).expect("in range");
            let chunk = chunk_bytes(&shape, &area, true, &|chunk| chunk >= at_least);
            let stripe = u64::from(shape.data_columns()) * shape.band_bytes();
            proptest::prop_assert!(chunk >= stripe && can_hold(&shape, chunk) && chunk.is_multiple_of(stripe));
            let slab = slab_bytes(&shape, chunk);
            proptest::prop_assert!(slab.is_multiple_of(UNIT_BYTES));
            let usual = chunk_bytes(&shape, &area, false, &|chunk| chunk >= at_least);
            proptest::prop_assert!(usual <= chunk && !is_large(&shape, usual));
            proptest::prop_assert!(slab_units(&shape, chunk) <= area.units(), "{shape} of {slab} on {area:?}");
            let row = RowRecord { id: 1, shape, slab_units: slab_units(&shape, chunk), begun: false, slabs: Box::default() };
            proptest::prop_assert_eq!(row.slab_data_bytes(), slab);
            let places = bands(&shape, slab);
            proptest::prop_assert_eq!(places, bands_of_chunk(&shape, chunk));
            proptest::prop_assert_eq!((places.data * stripe, places.spare), (chunk, spare_bands(places.data)));
            proptest::prop_assert!(bands_of_chunk(&shape, known).data * stripe >= known);
        }
    }
}
