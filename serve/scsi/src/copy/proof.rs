//! What initiators proved of themselves, and where.
//!
//! A copy may read one unit and write another. One command reaches both, but its sender has logged in at one target
//! only. A name alone proves nothing where another target asks for a secret, so what was proved there counts:
//!
//! ```text
//!   logged in here   there: lets anybody in by the name   there: a secret
//!   nothing          no                                   no
//!   by name          yes                                  no
//!   with a secret    yes                                  the same one
//! ```
//!
//! Invariant: a nexus is admitted only to what its initiator is logged in to now, and could log in to with what it proved
//! here.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What an initiator proved when it logged in.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Proof {
    /// Nothing is known of it: its copies stay within this device.
    #[default]
    Nothing,
    /// Its name, at a target that lets in whoever gives it.
    Named,
    /// That it knows a secret. The bytes are the same if and only if account and secret are.
    Secret([u8; 32]),
}

impl Proof {
    /// Whether who proved this is admitted to where `other` was proved under the same name.
    fn admits(self, other: Self) -> bool {
        match other {
            Self::Nothing => false,
            Self::Named => self != Self::Nothing,
            Self::Secret(_) => self == other,
        }
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Named => "Named",
            Self::Secret(_) => "Secret",
        })
    }
}

struct Entry {
    initiator: String,
    proof: Proof,
    nexus: Weak<dyn Any + Send + Sync>,
}

/// The proofs of all nexuses of all devices.
#[derive(Default)]
pub(crate) struct Proofs {
    entries: Mutex<Vec<Entry>>,
}

impl Proofs {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A nexus has logged in.
    pub(crate) fn enter(&self, initiator: &str, proof: Proof, nexus: Weak<dyn Any + Send + Sync>) {
        let mut entries = self.entries();
        entries.retain(|entry| entry.nexus.strong_count() > 0);
        if proof != Proof::Nothing {
            entries.push(Entry { initiator: initiator.into(), proof, nexus });
        }
    }

    /// The nexuses of the same initiator to which this proof admits.
    pub(super) fn admitted(&self, initiator: &str, proof: Proof) -> Vec<Arc<dyn Any + Send + Sync>> {
        let entries = self.entries();
        let same = entries.iter().filter(|entry| entry.initiator == initiator && proof.admits(entry.proof));
        same.filter_map(|entry| entry.nexus.upgrade()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_opens_nothing_that_asks_for_a_secret() {
        let (none, named, one, two) = (Proof::Nothing, Proof::Named, Proof::Secret([1; 32]), Proof::Secret([2; 32]));
        let admitted = |proof: Proof| [none, named, one, two].map(|other| proof.admits(other));
        assert_eq!(admitted(none), [false; 4]);
        assert_eq!(admitted(named), [false, true, false, false]);
        assert_eq!(admitted(one), [false, true, true, false]);
        assert_eq!(format!("{one:?}"), "Secret");
    }

    #[test]
    fn only_who_is_logged_in_now_counts() {
        let proofs = Proofs::default();
        let (here, gone): (Arc<dyn Any + Send + Sync>, Arc<dyn Any + Send + Sync>) = (Arc::new(1), Arc::new(2));
        proofs.enter("a", Proof::Named, Arc::downgrade(&here));
        proofs.enter("a", Proof::Named, Arc::downgrade(&gone));
        proofs.enter("b", Proof::Named, Arc::downgrade(&here));
        drop(gone);
        assert_eq!(proofs.admitted("a", Proof::Named).len(), 1);
        assert_eq!(proofs.admitted("c", Proof::Named).len(), 0);
    }
}
