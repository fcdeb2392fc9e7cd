//! How a space lies over disks: layout, columns and interleave.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{BLOCK_BYTES, ByteSize};

/// The interleave of a space whose creator names none.
pub const DEFAULT_INTERLEAVE: ByteSize = ByteSize::kib(256);
/// The most columns that a row may have.
pub const MAX_COLUMNS: u16 = 256;
/// The columns of a simple space whose creator names none, at most.
pub const DEFAULT_SIMPLE_COLUMNS: u16 = 8;
/// The columns of a dual parity space whose creator names none, where the pool has as many disks.
pub const DEFAULT_DUAL_PARITY_COLUMNS: u16 = 7;
/// The most columns of a parity space, data and parity together.
pub const MAX_PARITY_COLUMNS: u16 = 32;
/// The most data in one stripe of a parity space: one block of its band map tells of all of it.
pub const MAX_PARITY_STRIPE: ByteSize = ByteSize::mib(64);
/// A band of a parity row takes at least this much of each column.
const LEAST_BAND_BYTES: u64 = 64 << 10;

/// The resilience of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Layout {
    /// Striped, one copy.
    Simple,
    /// Striped, each stripe unit on `copies` distinct disks.
    Mirror {
        /// Two or three.
        copies: u8,
    },
    /// Striped, with `parity` of the columns computed from the others.
    Parity {
        /// One or two.
        parity: u8,
    },
}

/// Whether the slabs of a space are allotted at creation or at the first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provisioning {
    /// All slabs are allotted at creation.
    #[default]
    Fixed,
    /// Slabs are allotted at the first write and given back by discard.
    Thin,
}

/// Whether a row keeps a checksum of each of its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Integrity {
    /// None: what a disk answers is believed.
    #[default]
    None,
    /// A CRC-32C of each block of 4 KiB on each disk.
    Crc32c,
}

/// The whole shape of a row: a slab for each copy of each column, each on a disk of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Its resilience.
    pub layout: Layout,
    /// Stripe units side by side; those of parity are counted.
    pub columns: u16,
    /// Bytes of a stripe unit: a power of two, 4 KiB to 16 MiB.
    pub interleave: ByteSize,
    /// Its checksums.
    pub integrity: Integrity,
}

/// Why a shape cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Fewer or more copies than a mirror can have.
    #[error("a mirror keeps 2 or 3 copies, not {0}")]
    Copies(u8),
    /// Neither single nor dual parity.
    #[error("a parity space has 1 or 2 parity columns, not {0}")]
    Parity(u8),
    /// No columns, or too many.
    #[error("a space has 1 to {MAX_COLUMNS} columns, not {0}")]
    Columns(u16),
    /// Too few or too many columns for parity.
    #[error("{layout} has {least} to {MAX_PARITY_COLUMNS} columns, data and parity together, not {columns}")]
    ParityColumns {
        /// The layout asked for.
        layout: Layout,
        /// The fewest columns that it can have.
        least: u16,
        /// The columns asked for.
        columns: u16,
    },
    /// The stripe units of a parity space are too long for so many columns.
    #[error(
        "{shape} with an interleave of {} has a stripe of {stripe}, and at most {MAX_PARITY_STRIPE} is possible: choose a smaller interleave or fewer columns", shape.interleave
    )]
    Stripe {
        /// The shape asked for.
        shape: Shape,
        /// Data in one of its stripes.
        stripe: ByteSize,
    },
    /// The interleave is not a power of two from 4 KiB to 16 MiB.
    #[error("an interleave is a power of two from 4 KiB to 16 MiB, not {0}")]
    Interleave(ByteSize),
    /// The pool has not enough disks.
    #[error(
        "{shape} needs {needed} disks for data, and the pool has {present}: {}", shape.with_fewer_disks()
    )]
    Disks {
        /// The shape asked for.
        shape: Shape,
        /// Disks that it needs.
        needed: usize,
        /// Disks that the pool has for it.
        present: usize,
    },
}

impl ShapeError {
    /// The parameter of a request for a shape that it is about.
    pub fn parameter(&self) -> &'static str {
        match self {
            Self::Copies(_) => "copies",
            Self::Parity(_) => "parity",
            Self::Columns(_) | Self::ParityColumns { .. } | Self::Disks { .. } => "columns",
            Self::Stripe { .. } | Self::Interleave(_) => "interleave_bytes",
        }
    }
}

impl Layout {
    /// How many disks hold each block.
    pub fn copies(self) -> u8 {
        match self {
            Self::Simple | Self::Parity { .. } => 1,
            Self::Mirror { copies } => copies,
        }
    }

    /// How many of the columns are parity.
    pub fn parity(self) -> u8 {
        match self {
            Self::Simple | Self::Mirror { .. } => 0,
            Self::Parity { parity } => parity,
        }
    }

    /// How many disks may fail at once without loss.
    pub fn tolerates(self) -> u8 {
        self.copies().saturating_sub(1) + self.parity()
    }

    /// The fewest columns that a space of this layout can have.
    pub fn least_columns(self) -> u16 {
        match self {
            Self::Simple | Self::Mirror { .. } => 1,
            Self::Parity { parity } => u16::from(parity) + 2,
        }
    }
}

impl Shape {
    /// A shape without checksums.
    pub fn plain(layout: Layout, columns: u16, interleave: ByteSize) -> Self {
        Self { layout, columns, interleave, integrity: Integrity::None }
    }

    /// The same with other checksums.
    pub fn with_integrity(self, integrity: Integrity) -> Self {
        Self { integrity, ..self }
    }

    /// Whether it keeps checksums.
    pub fn has_checksums(&self) -> bool {
        self.integrity == Integrity::Crc32c
    }

    /// The shape that a space gets on `disks` disks where its creator leaves columns or interleave open. Where the
    /// disks suffice, it leaves as many beside each row as the layout survives losses.
    pub fn choose(
        layout: Layout,
        columns: Option<u16>,
        interleave: Option<ByteSize>,
        disks: usize,
    ) -> Result<Self, ShapeError> {
        // As many disks stay beside a row as may be lost, so that what they held can be rebuilt; a small pool has none
        // to spare.
        let copies = usize::from(layout.copies());
        let columns_on = |disks: usize| u16::try_from(disks / copies.max(1)).unwrap_or(MAX_COLUMNS).min(MAX_COLUMNS);
        let most = columns_on(disks.saturating_sub(layout.tolerates().into()));
        let default = match layout {
            Layout::Simple => most.min(DEFAULT_SIMPLE_COLUMNS),
            Layout::Mirror { .. } => most,
            Layout::Parity { parity: 2 } => most.min(DEFAULT_DUAL_PARITY_COLUMNS),
            Layout::Parity { .. } => layout.least_columns(),
        };
        let columns = columns.unwrap_or(default.max(layout.least_columns()));
        let shape = Self::plain(layout, columns, interleave.unwrap_or(DEFAULT_INTERLEAVE));
        shape.check()?;
        if shape.width() > disks {
            return Err(ShapeError::Disks { shape, needed: shape.width(), present: disks });
        }
        Ok(shape)
    }

    /// Checks everything that does not depend on the pool.
    pub fn check(&self) -> Result<(), ShapeError> {
        match self.layout {
            Layout::Mirror { copies } if !(2..=3).contains(&copies) => return Err(ShapeError::Copies(copies)),
            Layout::Parity { parity } if !(1..=2).contains(&parity) => return Err(ShapeError::Parity(parity)),
            Layout::Simple | Layout::Mirror { .. } | Layout::Parity { .. } => {}
        }
        let (layout, columns) = (self.layout, self.columns);
        let least = layout.least_columns();
        if layout.parity() > 0 && !(least..=MAX_PARITY_COLUMNS).contains(&columns) {
            return Err(ShapeError::ParityColumns { layout, least, columns });
        }
        if self.columns == 0 || self.columns > MAX_COLUMNS {
            return Err(ShapeError::Columns(self.columns));
        }
        let interleave = self.interleave.bytes();
        if !interleave.is_power_of_two() || !(BLOCK_BYTES..=16 << 20).contains(&interleave) {
            return Err(ShapeError::Interleave(self.interleave));
        }
        let stripe = ByteSize(self.stripe_bytes());
        if layout.parity() > 0 && stripe > MAX_PARITY_STRIPE {
            return Err(ShapeError::Stripe { shape: *self, stripe });
        }
        Ok(())
    }

    /// Slabs of a row, which is the number of distinct disks that it needs.
    pub fn width(&self) -> usize {
        usize::from(self.columns) * usize::from(self.layout.copies())
    }

    /// Columns that hold data: all but those of parity.
    pub fn data_columns(&self) -> u16 {
        self.columns.saturating_sub(self.layout.parity().into())
    }

    /// Bytes of one full stripe of data.
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.data_columns()) * self.interleave.bytes()
    }

    /// Bytes of each column in a band, the unit in which a parity row is mapped.
    pub fn band_bytes(&self) -> u64 {
        self.interleave.bytes().max(LEAST_BAND_BYTES)
    }

    /// The slabs of a row that back each other, this one among them: the copies of a column, or all of a parity row.
    pub fn group(&self, slab: usize) -> Range<usize> {
        let len = self.group_len();
        let first = slab / len * len;
        first..first + len
    }

    /// How many slabs of a group must be in step for the group to be served.
    pub fn needed(&self) -> usize {
        match self.layout {
            Layout::Simple | Layout::Mirror { .. } => 1,
            Layout::Parity { .. } => self.data_columns().into(),
        }
    }

    /// How many slabs of a row must be in step, well spread, for the whole row to be served.
    pub fn least_width(&self) -> usize {
        self.width() / self.group_len() * self.needed()
    }

    fn group_len(&self) -> usize {
        match self.layout {
            Layout::Simple => 1,
            Layout::Mirror { copies } => usize::from(copies).max(1),
            Layout::Parity { .. } => usize::from(self.columns).max(1),
        }
    }

    /// What to do where a pool has too few disks for this shape.
    fn with_fewer_disks(&self) -> &'static str {
        match self.layout {
            Layout::Parity { parity: 2 } if self.columns == self.layout.least_columns() => {
                "add disks or choose single parity or a mirror"
            }
            Layout::Parity { .. } if self.columns == self.layout.least_columns() => "add disks or choose a mirror",
            Layout::Parity { .. } => "add disks or choose fewer columns",
            Layout::Simple | Layout::Mirror { .. } => "add disks or choose fewer columns or copies",
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple => f.pad("simple"),
            Self::Mirror { copies: 2 } => f.pad("two-way mirror"),
            Self::Mirror { copies: 3 } => f.pad("three-way mirror"),
            Self::Mirror { copies } => f.pad(&format!("{copies}-way mirror")),
            Self::Parity { parity: 1 } => f.pad("single parity"),
            Self::Parity { parity: 2 } => f.pad("dual parity"),
            Self::Parity { parity } => f.pad(&format!("{parity}-fold parity")),
        }
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Crc32c => "crc32c",
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.columns == 1 { "" } else { "s" };
        write!(f, "{} of {} column{plural}", self.layout, self.columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_the_pool() {
        let columns = |layout, disks| Shape::choose(layout, None, None, disks).map(|shape| shape.columns);
        assert_eq!(columns(Layout::Simple, 3), Ok(3));
        assert_eq!(columns(Layout::Simple, 12), Ok(8));
        assert_eq!(columns(Layout::Mirror { copies: 2 }, 8), Ok(3));
        assert_eq!(columns(Layout::Mirror { copies: 2 }, 9), Ok(4));
        assert_eq!(columns(Layout::Mirror { copies: 3 }, 8), Ok(2));
        assert_eq!(columns(Layout::Mirror { copies: 3 }, 7), Ok(1));
        assert!(matches!(
            columns(Layout::Mirror { copies: 3 }, 2),
            Err(ShapeError::Disks { needed: 3, present: 2, .. })
        ));
        assert!(matches!(columns(Layout::Mirror { copies: 9 }, 20), Err(ShapeError::Copies(9))));
    }

    #[test]
    fn parity_defaults_follow_the_pool() {
        let columns =
            |parity, disks| Shape::choose(Layout::Parity { parity }, None, None, disks).map(|shape| shape.columns);
        assert_eq!((columns(1, 3), columns(1, 24)), (Ok(3), Ok(3)));
        assert_eq!((columns(2, 4), columns(2, 6), columns(2, 8), columns(2, 24)), (Ok(4), Ok(4), Ok(6), Ok(7)));
        assert!(matches!(columns(1, 2), Err(ShapeError::Disks { needed: 3, present: 2, .. })));
        let error = columns(2, 3).expect_err("four are needed").to_string();
        assert!(error.starts_with("dual parity of 4 columns needs 4 disks"), "{error}");
        assert!(error.ends_with("the pool has 3: add disks or choose single parity or a mirror"), "{error}");
    }

    #[test]
    fn defaults_leave_disks_to_rebuild_on_where_there_are_enough() {
        let layouts =
            (2..=3).map(|copies| Layout::Mirror { copies }).chain((1..=2).map(|parity| Layout::Parity { parity }));
        for layout in layouts {
            let (losses, least) =
                (usize::from(layout.tolerates()), usize::from(layout.copies()) * usize::from(layout.least_columns()));
            for disks in least..=40 {
                let shape = Shape::choose(layout, None, None, disks).expect("enough disks");
                let wanted = if disks >= least + losses { disks - losses } else { least };
                assert!(shape.width() <= wanted, "{shape} on {disks} disks");
            }
        }
    }

    #[test]
    fn parity_shapes_are_checked() {
        let check = |parity, columns, interleave| Shape::plain(Layout::Parity { parity }, columns, interleave).check();
        let unit = DEFAULT_INTERLEAVE;
        for (parity, columns) in [(1, 3), (1, 32), (2, 4), (2, 32)] {
            assert_eq!(check(parity, columns, unit), Ok(()));
        }
        assert_eq!((check(0, 3, unit), check(3, 7, unit)), (Err(ShapeError::Parity(0)), Err(ShapeError::Parity(3))));
        for (parity, columns) in [(1, 0), (1, 2), (1, 33), (2, 3), (2, 33)] {
            assert!(
                matches!(check(parity, columns, unit), Err(ShapeError::ParityColumns { .. })),
                "{parity} of {columns}"
            );
        }
        assert_eq!(check(1, 5, ByteSize::mib(16)), Ok(()));
        let error = check(1, 6, ByteSize::mib(16)).expect_err("80 MiB").to_string();
        assert!(
            error.contains("single parity of 6 columns with an interleave of 16 MiB has a stripe of 80 MiB"),
            "{error}"
        );
        assert_eq!(check(1, 3, ByteSize(3000)), Err(ShapeError::Interleave(ByteSize(3000))));
    }

    #[test]
    fn slabs_that_back_each_other() {
        let shape = |layout, columns| Shape::plain(layout, columns, ByteSize::kib(4));
        let simple = shape(Layout::Simple, 3);
        assert_eq!((simple.group(2), simple.needed(), simple.least_width(), simple.width()), (2..3, 1, 3, 3));
        let mirror = shape(Layout::Mirror { copies: 3 }, 2);
        assert_eq!((mirror.group(4), mirror.needed(), mirror.least_width(), mirror.width()), (3..6, 1, 2, 6));
        let parity = shape(Layout::Parity { parity: 2 }, 7);
        assert_eq!((parity.group(4), parity.needed(), parity.least_width(), parity.width()), (0..7, 5, 5, 7));
        assert_eq!((parity.data_columns(), parity.stripe_bytes(), parity.band_bytes()), (5, 5 * 4096, 64 << 10));
        assert_eq!((parity.layout.tolerates(), parity.layout.copies(), parity.layout.parity()), (2, 1, 2));
        assert_eq!(parity.to_string(), "dual parity of 7 columns");
    }

    #[test]
    fn odd_interleaves_are_refused() {
        for bytes in [0, 1, 4095, 6144, 32 << 20] {
            let shape = Shape::choose(Layout::Simple, None, Some(ByteSize(bytes)), 2);
            assert_eq!(shape, Err(ShapeError::Interleave(ByteSize(bytes))));
        }
    }
}
