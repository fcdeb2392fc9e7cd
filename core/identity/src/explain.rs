//! Why a caller may do something or not: which entry, privilege or rule decided on each right.
//!
//! Invariant: the decisions are those of the check itself, and together speak of every right that was asked for once.

use std::fmt;

use crate::check::{Access, Cause, decide};
use crate::descriptor::SecurityDescriptor;
use crate::mask::AccessMask;
use crate::readable;
use crate::token::Token;

/// A decision on some rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The rights.
    pub rights: AccessMask,
    /// Whether they are granted.
    pub is_granted: bool,
    /// What decided.
    pub cause: Cause,
}

/// What a caller may do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// All that is granted of what was asked for.
    pub granted: AccessMask,
    /// The decisions, in the order in which they were made; rights of one decision stand together.
    pub reasons: Vec<Reason>,
}

impl Explanation {
    /// The decision on one right.
    pub fn of(&self, right: AccessMask) -> Option<&Reason> {
        self.reasons.iter().find(|reason| reason.rights.contains(right))
    }
}

/// Explains what a caller may do of what is asked for; of everything, for [`Access::maximum`].
pub fn explain(descriptor: &SecurityDescriptor, token: &Token, access: Access) -> Explanation {
    let mut explanation = Explanation { granted: AccessMask::empty(), reasons: Vec::new() };
    decide(descriptor, token, access, |rights, is_granted, cause| {
        if is_granted {
            explanation.granted |= rights;
        }
        explanation.reasons.push(Reason { rights, is_granted, cause });
    });
    explanation
}

/// A sentence for people; entries count from 1 there.
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_granted { "granted" } else { "refused" };
        write!(f, "{} {verb}: ", readable::rights(self.rights))?;
        match self.cause {
            Cause::Privilege(privilege) => write!(f, "privilege of {}", readable::privilege(privilege)),
            Cause::Owner => f.write_str("the caller owns the file"),
            Cause::NoList => f.write_str("the file has no list of permissions"),
            Cause::Entry { index, is_inherited: false } => write!(f, "entry {}", index + 1),
            Cause::Entry { index, is_inherited: true } => write!(f, "entry {}, inherited", index + 1),
            Cause::Nothing => f.write_str("no entry for the caller grants it"),
        }
    }
}
