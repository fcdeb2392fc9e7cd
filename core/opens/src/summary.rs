//! What a read or write has to know of its file, in one word that is loaded without a lock.
//!
//! ```text
//!   63            32 31             11 10 9 8   7    6      5      4        3      2 1 0
//!  | number of the  |                | D|M|E| dead|unsent|delete|breaking|ranges| H W R |
//!  | only lease     |                |
//! ```
//!
//! The number is that of the only lease of the file that holds anything, so that its own opens see that nobody else has
//! one; 0 where there are several. E: an open was closed by somebody else, so each has to look whether it is the one.
//! M: one of the ranges is NT's, and so mandatory. D: an open excludes all, as the file is a disk to it.
//!
//! Invariant: the word is written under the file's lock at the end of each act, before anything is granted.

/// The word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary(u64);

impl Summary {
    pub const READ: Self = Self(1);
    pub const WRITE: Self = Self(1 << 1);
    pub const HANDLE: Self = Self(1 << 2);
    pub const RANGES: Self = Self(1 << 3);
    pub const BREAKING: Self = Self(1 << 4);
    pub const DELETE_PENDING: Self = Self(1 << 5);
    pub const UNSENT: Self = Self(1 << 6);
    pub const DEAD: Self = Self(1 << 7);
    pub const EVICTED: Self = Self(1 << 8);
    pub const MANDATORY: Self = Self(1 << 9);
    pub const DISK: Self = Self(1 << 10);

    pub fn of_leases(holds: [bool; 4], number: u32) -> Self {
        let flags = [Self::READ, Self::WRITE, Self::HANDLE, Self::BREAKING];
        let of = |word: Self, (flag, holds): (Self, bool)| word.with(flag, holds);
        flags.into_iter().zip(holds).fold(Self(u64::from(number) << 32), of)
    }

    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub const fn word(self) -> u64 {
        self.0
    }

    pub const fn with(self, flag: Self, holds: bool) -> Self {
        if holds { Self(self.0 | flag.0) } else { self }
    }

    /// Both flags.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any of these flags is set.
    pub const fn any(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether a lease other than the one of this number may hold any of these.
    pub const fn others_hold(self, flags: Self, own: u32) -> bool {
        let number = (self.0 >> 32) as u32;
        self.any(flags) && (number == 0 || number != own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_lease_is_told_from_others() {
        let one = Summary::of_leases([true, true, false, false], 7);
        assert!(!one.others_hold(Summary::WRITE, 7) && one.others_hold(Summary::WRITE, 8));
        assert!(one.others_hold(Summary::READ, 0) && !one.others_hold(Summary::HANDLE, 8));
        let several = Summary::of_leases([true, false, false, false], 0);
        assert!(several.others_hold(Summary::READ, 7) && several.others_hold(Summary::READ, 0));
        assert!(!Summary::default().any(Summary::READ.or(Summary::EVICTED)));
        assert!(Summary::default().with(Summary::RANGES, true).any(Summary::RANGES));
    }
}
