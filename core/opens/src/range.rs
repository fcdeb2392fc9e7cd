//! A range of bytes, as locks and requests name it.
//!
//! Invariant: the last byte of a range fits in 64 bits.

use crate::error::Error;

/// A range of bytes; it may be empty, and then lies before its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    start: u64,
    len: u64,
}

impl ByteRange {
    /// What `flock` locks, and POSIX locks that reach to the end from the beginning.
    pub const WHOLE: Self = Self { start: 0, len: 1 << 63 };

    /// `len` bytes from `start` on.
    ///
    /// # Errors
    /// [`Error::Range`] if a byte of it lies beyond 2^64 (MS-FSA 2.1.5.8: `STATUS_INVALID_LOCK_RANGE`).
    pub fn new(start: u64, len: u64) -> Result<Self, Error> {
        match len == 0 || start.checked_add(len - 1).is_some() {
            true => Ok(Self { start, len }),
            false => Err(Error::Range { start, len }),
        }
    }

    /// The bytes from `start` to `last`, as FUSE and NFS say it of `fcntl` locks; to the end is `i64::MAX`.
    ///
    /// # Errors
    /// [`Error::Range`] if it is empty or reaches beyond 2^63.
    pub fn inclusive(start: u64, last: u64) -> Result<Self, Error> {
        match start <= last && last <= i64::MAX as u64 {
            true => Ok(Self { start, len: last - start + 1 }),
            false => Err(Error::Range { start, len: last.wrapping_sub(start).wrapping_add(1) }),
        }
    }

    /// Its first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// How many bytes it has.
    pub fn len(self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Its last byte; of an empty one the byte before its start.
    pub(crate) fn last(self) -> u64 {
        self.start.wrapping_add(self.len).wrapping_sub(1)
    }

    /// Whether it meets nothing at all: empty and at 0.
    pub(crate) fn is_nowhere(self) -> bool {
        self.start == 0 && self.len == 0
    }

    /// Whether they meet (MS-FSA 2.1.4.10): an empty range meets what lies on both sides of its place.
    pub fn overlaps(self, other: Self) -> bool {
        !self.is_nowhere() && !other.is_nowhere() && self.start <= other.last() && other.start <= self.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> ByteRange {
        ByteRange::new(start, len).expect("it fits")
    }

    #[test]
    fn ranges_end_with_the_last_byte_that_there_is() {
        assert!(ByteRange::new(u64::MAX, 1).is_ok() && ByteRange::new(u64::MAX, 0).is_ok());
        assert!(ByteRange::new(1, u64::MAX).is_ok() && ByteRange::new(0, u64::MAX).is_ok());
        assert!(ByteRange::new(u64::MAX, 2).is_err() && ByteRange::new(2, u64::MAX).is_err());
        assert!(ByteRange::inclusive(5, 4).is_err() && ByteRange::inclusive(0, 1 << 63).is_err());
        assert_eq!(ByteRange::inclusive(0, i64::MAX as u64).unwrap(), ByteRange::WHOLE);
    }

    #[test]
    fn empty_ranges_meet_only_what_surrounds_them() {
        let pairs = [
            ((0, 10), (9, 1), true),
            ((0, 10), (10, 1), false),
            ((5, 0), (0, 10), true),
            ((0, 0), (0, 10), false),
            ((10, 0), (0, 10), false),
            ((9, 0), (0, 10), true),
            ((5, 0), (5, 5), false),
            ((5, 0), (5, 0), false),
            ((u64::MAX, 1), (1, u64::MAX), true),
        ];
        for (one, other, meet) in pairs {
            let (a, b) = (range(one.0, one.1), range(other.0, other.1));
            assert_eq!((a.overlaps(b), b.overlaps(a)), (meet, meet), "{one:?} {other:?}");
        }
    }
}
