//! Share modes: what an open does with the data, and what it lets others do beside it.
//!
//! Invariant: the counts are those of the opens that access data; whoever only looks at attributes neither counts nor
//! conflicts (MS-FSA 2.1.5.1.2).

use std::fmt;

/// What an open is for, or what it lets others do: a set of read, write and delete.
///
/// Executing counts as reading and appending as writing. Attributes, the descriptor and waiting are none of the three.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Access(u8);

impl Access {
    /// Nothing but attributes.
    pub const NONE: Self = Self(0);
    /// Read or execute.
    pub const READ: Self = Self(1);
    /// Write or append.
    pub const WRITE: Self = Self(2);
    /// Delete or rename.
    pub const DELETE: Self = Self(4);
    /// All three; what POSIX opens share.
    pub const ALL: Self = Self(7);

    const EACH: [Self; 3] = [Self::READ, Self::WRITE, Self::DELETE];

    /// Both together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of the other is in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in both.
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether it is empty.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// What is not in it.
    pub const fn rest(self) -> Self {
        Self(!self.0 & Self::ALL.0)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = Self::EACH.iter().zip(["r", "w", "d"]);
        let letters: String = letters.map(|(one, letter)| if self.has(*one) { letter } else { "-" }).collect();
        f.write_str(&letters)
    }
}

/// How many opens of a file access its data in each way, and how many deny each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    accessing: [u32; 3],
    denying: [u32; 3],
    /// Opens that access data.
    pub data_opens: u32,
}

/// Whether two opens exclude each other: either accesses what the other does not share.
pub(crate) fn exclude(one: (Access, Access), other: (Access, Access)) -> bool {
    let denied = |access: Access, share: Access| !access.common(share.rest()).is_none();
    !one.0.is_none() && !other.0.is_none() && (denied(one.0, other.1) || denied(other.0, one.1))
}

impl Shares {
    pub fn add(&mut self, access: Access, share: Access) {
        self.change(access, share, |count| *count += 1);
    }

    pub fn remove(&mut self, access: Access, share: Access) {
        self.change(access, share, |count| *count -= 1);
    }

    fn change(&mut self, access: Access, share: Access, step: impl Fn(&mut u32)) {
        if access.is_none() {
            return;
        }
        step(&mut self.data_opens);
        for (at, one) in Access::EACH.into_iter().enumerate() {
            if access.has(one) {
                step(&mut self.accessing[at]);
            }
            if !share.has(one) {
                step(&mut self.denying[at]);
            }
        }
    }

    /// Whether any open excludes one like this.
    pub fn conflict(&self, access: Access, share: Access) -> bool {
        !access.is_none()
            && Access::EACH.into_iter().enumerate().any(|(at, one)| {
                (access.has(one) && self.denying[at] > 0) || (!share.has(one) && self.accessing[at] > 0)
            })
    }

    /// Opens that write.
    pub fn writers(&self) -> u32 {
        self.accessing[1]
    }
}
