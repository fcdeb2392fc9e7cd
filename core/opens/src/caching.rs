//! What a client may keep of a file: one lattice of read, write and handle for oplocks, leases and delegations.
//!
//! ```text
//!        RWH  batch, lease            what each kind can be:
//!        /  \                           oplock      none, R, RW, RWH, and only down to R or none
//!      RW    RH                         lease       none, R, RW, RH, RWH
//!        \  /                           of a directory   none, R, RH
//!         R   level II                  delegation  none, R, RW, and only down to none
//!         |
//!       none
//! ```
//!
//! Invariant: every state that these functions return is one that the kind can be in, and none above what was given.

use std::fmt;

/// What is cached: a set of read, write and handle (MS-SMB2 2.2.13.2.8).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Caching(u8);

impl Caching {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// What was read may be read again without asking: level II.
    pub const READ: Self = Self(1);
    /// Writes may wait at the client.
    pub const WRITE: Self = Self(2);
    /// Closing may wait at the client.
    pub const HANDLE: Self = Self(4);
    /// An exclusive oplock.
    pub const READ_WRITE: Self = Self(3);
    /// The most that a directory's lease can be.
    pub const READ_HANDLE: Self = Self(5);
    /// A batch oplock.
    pub const ALL: Self = Self(7);

    /// Whether all of the other is in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in both.
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Both together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in it and not in the other.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Caching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("none");
        }
        let letters = [(Self::READ, "R"), (Self::WRITE, "W"), (Self::HANDLE, "H")];
        letters.iter().filter(|(one, _)| self.has(*one)).try_for_each(|(_, letter)| f.write_str(letter))
    }
}

impl fmt::Display for Caching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What kind of promise it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseKind {
    /// Of one open (MS-SMB2 2.2.14).
    Oplock,
    /// Of all opens of a client under one key.
    Lease,
    /// The same of a directory.
    DirectoryLease,
    /// Of NFSv4 (RFC 8881 10.4): given back whole, never in part.
    Delegation,
}

impl LeaseKind {
    /// The most of `wanted` that this kind can be.
    pub fn most(self, wanted: Caching) -> Caching {
        if !wanted.has(Caching::READ) {
            return Caching::NONE;
        }
        match self {
            Self::Lease => wanted,
            Self::DirectoryLease => wanted.common(Caching::READ_HANDLE),
            Self::Oplock if wanted == Caching::READ_HANDLE => Caching::READ,
            Self::Oplock => wanted,
            Self::Delegation => wanted.common(Caching::READ_WRITE),
        }
    }

    /// What is left of `held` when `taken` is taken from it.
    pub fn left(self, held: Caching, taken: Caching) -> Caching {
        let left = held.without(taken);
        match self {
            _ if left == held => held,
            Self::Lease | Self::DirectoryLease => self.most(left),
            Self::Oplock => left.common(Caching::READ),
            Self::Delegation => Caching::NONE,
        }
    }

    /// Whether a client that holds this answers when it is taken: it has something to write back or to close first.
    pub fn answers(self, held: Caching) -> bool {
        match self {
            Self::Delegation => !held.is_none(),
            _ => !held.without(Caching::READ).is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [LeaseKind; 4] =
        [LeaseKind::Oplock, LeaseKind::Lease, LeaseKind::DirectoryLease, LeaseKind::Delegation];

    fn states(kind: LeaseKind) -> Vec<Caching> {
        (0..8).map(Caching).filter(|state| kind.most(*state) == *state).collect()
    }

    #[test]
    fn each_kind_has_its_states() {
        let names = |kind| format!("{:?}", states(kind));
        assert_eq!(names(LeaseKind::Oplock), "[none, R, RW, RWH]");
        assert_eq!(names(LeaseKind::Lease), "[none, R, RW, RH, RWH]");
        assert_eq!(names(LeaseKind::DirectoryLease), "[none, R, RH]");
        assert_eq!(names(LeaseKind::Delegation), "[none, R, RW]");
    }

    #[test]
    fn what_is_left_is_a_state_below_without_what_was_taken() {
        for kind in KINDS {
            for held in states(kind) {
                for taken in (0..8).map(Caching) {
                    let left = kind.left(held, taken);
                    assert!(states(kind).contains(&left) && held.has(left), "{kind:?} {held} - {taken} = {left}");
                    assert!(left.common(taken).is_none() && (left == held) == held.common(taken).is_none());
                }
            }
        }
        assert_eq!(LeaseKind::Oplock.left(Caching::ALL, Caching::HANDLE), Caching::READ);
        assert_eq!(LeaseKind::Lease.left(Caching::ALL, Caching::HANDLE), Caching::READ_WRITE);
        assert_eq!(LeaseKind::Lease.left(Caching::ALL, Caching::READ), Caching::NONE);
        assert_eq!(LeaseKind::Delegation.left(Caching::READ_WRITE, Caching::WRITE), Caching::NONE);
    }

    #[test]
    fn reads_are_let_go_of_without_an_answer() {
        assert!(!LeaseKind::Lease.answers(Caching::READ) && LeaseKind::Delegation.answers(Caching::READ));
        assert!(LeaseKind::Lease.answers(Caching::READ_HANDLE) && LeaseKind::Oplock.answers(Caching::READ_WRITE));
    }
}
