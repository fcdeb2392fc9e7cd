//! Where the blocks of a parity row lie.
//!
//! A *band* is one interleave, and at least 64 KiB, of every column: the unit in which a row is mapped to places. A
//! place is the same range of every slab. Stripe units follow one another round all columns, so that a sequential
//! stream meets every disk, and the parity of the stripes goes round with them:
//!
//! ```text
//!  four columns, single parity       column 0   column 1   column 2   column 3
//!                          stripe 0  unit 0     unit 1     unit 2     P
//!                          stripe 1  unit 4     unit 5     P          unit 3
//!                          stripe 2  unit 8     P          unit 6     unit 7
//! ```

use holdfast_model::{BLOCK_BYTES, Shape};

/// Bytes of so many blocks.
pub fn bytes_of(blocks: u32) -> usize {
    blocks as usize * BLOCK_BYTES as usize
}

/// Zeroes ranges of blocks of what was read.
pub fn clear(buf: &mut [u8], blocks: &[(u32, u32)]) {
    blocks.iter().for_each(|(start, end)| buf[bytes_of(*start)..bytes_of(*end)].fill(0));
}

/// Some blocks of each unit of a stripe.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The stripe.
    pub stripe: u32,
    /// The place of its band.
    pub place: u16,
    /// The first block of each unit.
    pub within: u32,
    /// How many.
    pub len: u32,
}

/// The measures of a parity row. Lengths are in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// All columns.
    pub columns: usize,
    /// Columns of a stripe that hold data.
    pub data: usize,
    /// Columns of a stripe that hold parity.
    pub parity: usize,
    /// Blocks of a stripe unit.
    pub unit: u32,
    /// Blocks of each column in a band.
    pub depth: u32,
    /// Bands of the row.
    pub bands: u32,
    /// Places that its slabs have.
    pub places: u32,
}

/// Data blocks of one stripe unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it begins in the request, in blocks.
    pub at: u32,
    /// How many.
    pub len: u32,
    /// The stripe.
    pub stripe: u32,
    /// Which data unit of the stripe.
    pub piece: usize,
    /// The first one's place in the unit.
    pub within: u32,
}

impl Geometry {
    /// The measures of a row of this shape that holds a chunk.
    pub fn new(shape: &Shape, chunk_bytes: u64, slab_bytes: u64) -> Self {
        let unit = (shape.interleave.bytes() / BLOCK_BYTES) as u32;
        let depth = (shape.band_bytes() / BLOCK_BYTES) as u32;
        let data = usize::from(shape.data_columns());
        let bands = chunk_bytes.div_ceil(u64::from(depth) * BLOCK_BYTES * data as u64) as u32;
        let places = (slab_bytes / (u64::from(depth) * BLOCK_BYTES)) as u32;
        Self { columns: shape.columns.into(), data, parity: shape.layout.parity().into(), unit, depth, bands, places }
    }

    /// Data blocks of a band.
    pub fn band_blocks(&self) -> u32 {
        self.depth * self.data as u32
    }

    /// Data blocks of a stripe.
    pub fn stripe_blocks(&self) -> u32 {
        self.unit * self.data as u32
    }

    /// Data blocks of the row.
    pub fn blocks(&self) -> u32 {
        self.bands * self.band_blocks()
    }

    /// Stripes of a band.
    pub fn stripes(&self) -> u32 {
        self.depth / self.unit
    }

    /// The band of a block.
    pub fn band_of(&self, block: u32) -> u32 {
        block / self.band_blocks()
    }

    /// The column that holds a piece of a stripe: data pieces from 0, then P, then Q.
    pub fn column(&self, stripe: u32, piece: usize) -> usize {
        (stripe as usize * self.data + piece) % self.columns
    }

    /// The block of a row that is block `within` of unit `piece` of a stripe.
    pub fn block(&self, stripe: u32, piece: usize, within: u32) -> u32 {
        stripe * self.stripe_blocks() + piece as u32 * self.unit + within
    }

    /// Where block `within` of any unit of a stripe lies in its column, if the stripe's band is at `place`.
    pub fn offset(&self, stripe: u32, within: u32, place: u16) -> u64 {
        let in_band = stripe % self.stripes() * self.unit + within;
        u64::from(u32::from(place) * self.depth + in_band) * BLOCK_BYTES
    }

    /// Where the first of some blocks of a stripe lies in its columns, in blocks.
    pub fn first_block(&self, rows: &Rows) -> u32 {
        (self.offset(rows.stripe, rows.within, rows.place) / BLOCK_BYTES) as u32
    }

    /// Cuts blocks of the row into runs of one stripe unit each, in order.
    pub fn runs(self, start: u32, end: u32) -> impl Iterator<Item = Run> {
        let mut block = start;
        std::iter::from_fn(move || {
            if block >= end {
                return None;
            }
            let within = block % self.unit;
            let len = (self.unit - within).min(end - block);
            let in_stripe = block % self.stripe_blocks();
            let run = Run {
                at: block - start,
                len,
                stripe: block / self.stripe_blocks(),
                piece: (in_stripe / self.unit) as usize,
                within,
            };
            block += len;
            Some(run)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_model::{ByteSize, Layout};
    use std::collections::HashSet;

    #[test]
    fn every_block_and_parity_has_a_place_of_its_own() {
        for (columns, parity, kib) in [(3, 1, 64), (4, 2, 16), (7, 2, 256), (8, 1, 32), (5, 1, 4)] {
            let shape = Shape::plain(Layout::Parity { parity }, columns, ByteSize::kib(kib));
            let data = u64::from(shape.data_columns());
            let chunk = shape.band_bytes() * data * 3;
            let geometry = Geometry::new(&shape, chunk, shape.band_bytes() * 5);
            assert_eq!((geometry.bands, geometry.places), (3, 5));
            let mut seen = HashSet::new();
            for run in geometry.runs(0, geometry.blocks()) {
                for within in run.within..run.within + run.len {
                    let band = run.stripe / geometry.stripes();
                    let offset = geometry.offset(run.stripe, within, band as u16);
                    assert!(seen.insert((geometry.column(run.stripe, run.piece), offset)));
                    assert_eq!(geometry.band_of(geometry.block(run.stripe, run.piece, within)), band);
                }
            }
            for stripe in 0..geometry.bands * geometry.stripes() {
                for piece in geometry.data..geometry.columns {
                    for within in 0..geometry.unit {
                        let band = stripe / geometry.stripes();
                        let offset = geometry.offset(stripe, within, band as u16);
                        assert!(seen.insert((geometry.column(stripe, piece), offset)));
                    }
                }
            }
            assert_eq!(seen.len() as u64, chunk / BLOCK_BYTES / data * u64::from(columns));
        }
    }
}
