//! How large the chunks of a new space are.
//!
//! Invariant: every row of the chosen size fits the smallest disk, and its slabs are whole units.

use holdfast_model::Shape;

use crate::area::{Area, UNIT_BYTES};
use crate::geometry::{USUAL_SLAB_BYTES, bands, can_hold, spare_bands};

/// The most data of a chunk of a new space, where the pool's map has room for its share of such rows.
const USUAL_CHUNK_BYTES: u64 = 256 << 20;
/// How often that is doubled at most: up to the most that a row holds.
const MOST_DOUBLED: u32 = 12;
const LEAST_SLAB_BYTES: u64 = 1 << 20;
/// A disk has room for about this many slabs, so that even small disks can be shared by several spaces.
const SLABS_PER_DISK: u64 = 64;
/// A parity row has at least so many bands of data where the smallest disk has room for it: each slab has spare bands
/// as well.
const LEAST_BANDS: u64 = 4;

/// Data bytes of a chunk of a new space: up to 256 MiB on real disks, less where disks are small; doubled until `fits`
/// takes it, as long as slabs remain a small part of a disk.
pub fn chunk_bytes(shape: &Shape, smallest_disk: &Area, fits: &dyn Fn(u64) -> bool) -> u64 {
    let mut chunk = chunk_of(shape, smallest_disk, 0);
    for doubled in 1..=MOST_DOUBLED {
        let larger = chunk_of(shape, smallest_disk, doubled);
        if fits(chunk) || !can_hold(shape, larger) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{bands_of_chunk, slab_bytes, slab_units};
    use crate::record::RowRecord;
    use holdfast_model::{ByteSize, Integrity, Layout};

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
                (chunk_bytes(&shape, area, &|_| true), slab_bytes(&shape, chunk.bytes())),
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
            let chunk = chunk_bytes(&shape, &area, &|chunk| chunk >= at_least);
            let stripe = u64::from(shape.data_columns()) * shape.band_bytes();
            proptest::prop_assert!(chunk >= stripe && can_hold(&shape, chunk) && chunk.is_multiple_of(stripe));
            let slab = slab_bytes(&shape, chunk);
            proptest::prop_assert!(slab.is_multiple_of(UNIT_BYTES));
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
