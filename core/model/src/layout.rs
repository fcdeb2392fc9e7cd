//! How a space lies over disks: layout, columns and interleave.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BLOCK_BYTES, ByteSize};

/// The interleave of a space whose creator names none.
pub const DEFAULT_INTERLEAVE: ByteSize = ByteSize::kib(256);
/// The most columns that a row may have.
pub const MAX_COLUMNS: u16 = 256;
/// The columns of a simple space whose creator names none, at most.
pub const DEFAULT_SIMPLE_COLUMNS: u16 = 8;

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
}

/// Whether the slabs of a space are allotted at creation or at the first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provisioning {
    /// All slabs are allotted at creation.
    #[default]
    Fixed,
    /// Slabs are allotted at the first write and given back by discard.
    Thin,
}

/// The whole shape of a row: `columns * copies` slabs, each on a disk of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Its resilience.
    pub layout: Layout,
    /// Stripe units side by side.
    pub columns: u16,
    /// Bytes of a stripe unit: a power of two, 4 KiB to 16 MiB.
    pub interleave: ByteSize,
}

/// Why a shape cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Fewer or more copies than a mirror can have.
    #[error("a mirror keeps 2 or 3 copies, not {0}")]
    Copies(u8),
    /// No columns, or too many.
    #[error("a space has 1 to {MAX_COLUMNS} columns, not {0}")]
    Columns(u16),
    /// The interleave is not a power of two from 4 KiB to 16 MiB.
    #[error("an interleave is a power of two from 4 KiB to 16 MiB, not {0}")]
    Interleave(ByteSize),
    /// The pool has not enough disks.
    #[error(
        "{shape} needs {needed} disks that may hold data, the pool has {present}: add disks or choose fewer columns or copies"
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

impl Layout {
    /// How many disks hold each block.
    pub fn copies(self) -> u8 {
        match self {
            Self::Simple => 1,
            Self::Mirror { copies } => copies,
        }
    }

    /// How many disks may fail at once without loss.
    pub fn tolerates(self) -> u8 {
        self.copies() - 1
    }
}

impl Shape {
    /// The shape that a space gets on `disks` disks where its creator leaves columns or interleave open.
    pub fn choose(layout: Layout, columns: Option<u16>, interleave: Option<ByteSize>, disks: usize) -> Result<Self, ShapeError> {
        let copies = usize::from(layout.copies());
        let most = u16::try_from(disks / copies.max(1)).unwrap_or(MAX_COLUMNS).min(MAX_COLUMNS);
        let default = match layout {
            Layout::Simple => most.min(DEFAULT_SIMPLE_COLUMNS),
            Layout::Mirror { .. } => most,
        };
        let shape =
            Self { layout, columns: columns.unwrap_or(default.max(1)), interleave: interleave.unwrap_or(DEFAULT_INTERLEAVE) };
        shape.check()?;
        if shape.width() > disks {
            return Err(ShapeError::Disks { shape, needed: shape.width(), present: disks });
        }
        Ok(shape)
    }

    /// Checks everything that does not depend on the pool.
    pub fn check(&self) -> Result<(), ShapeError> {
        if let Layout::Mirror { copies } = self.layout
            && !(2..=3).contains(&copies)
        {
            return Err(ShapeError::Copies(copies));
        }
        if self.columns == 0 || self.columns > MAX_COLUMNS {
            return Err(ShapeError::Columns(self.columns));
        }
        let interleave = self.interleave.bytes();
        if !interleave.is_power_of_two() || !(BLOCK_BYTES..=16 << 20).contains(&interleave) {
            return Err(ShapeError::Interleave(self.interleave));
        }
        Ok(())
    }

    /// Slabs of a row, which is the number of distinct disks that it needs.
    pub fn width(&self) -> usize {
        usize::from(self.columns) * usize::from(self.layout.copies())
    }

    /// Bytes of one full stripe of data.
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.columns) * self.interleave.bytes()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple => f.pad("simple"),
            Self::Mirror { copies: 2 } => f.pad("two-way mirror"),
            Self::Mirror { copies: 3 } => f.pad("three-way mirror"),
            Self::Mirror { copies } => f.pad(&format!("{copies}-way mirror")),
        }
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
        assert_eq!(columns(Layout::Mirror { copies: 2 }, 8), Ok(4));
        assert_eq!(columns(Layout::Mirror { copies: 3 }, 8), Ok(2));
        assert!(matches!(columns(Layout::Mirror { copies: 3 }, 2), Err(ShapeError::Disks { needed: 3, present: 2, .. })));
        assert!(matches!(columns(Layout::Mirror { copies: 9 }, 20), Err(ShapeError::Copies(9))));
    }

    #[test]
    fn odd_interleaves_are_refused() {
        for bytes in [0, 1, 4095, 6144, 32 << 20] {
            let shape = Shape::choose(Layout::Simple, None, Some(ByteSize(bytes)), 2);
            assert_eq!(shape, Err(ShapeError::Interleave(ByteSize(bytes))));
        }
    }
}
