//! Whom a file counts for, also where its owner has no number: a security identifier.
//!
//! ```text
//!   record: a user's number                      ──────────────────────────▶ the user
//!           nobody's, and a security descriptor ──▶ files of the descriptor ──▶ its owner
//! ```
//!
//! Files of owners without a number are counted by the descriptor that they name, and those of all descriptors of an
//! owner are added up in memory.
//!
//! Invariant: whom a file counts for itself follows from its record alone, so that replay, scans and repairs need no
//! descriptors for it. The owner of a descriptor never changes.

use std::collections::HashMap;

use holdfast_identity::Sid;
use holdfast_identity::well_known::UNIX_USERS;

use super::account::Amount;
use super::{Subject, TAKEN};
use crate::descriptors::NOBODY;
use crate::record::Share;

/// What has an account: a subject, or the files that name a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Party {
    User(u32),
    Group(u32),
    Tree(u32),
    /// Files that name this security descriptor and whose owner has no number. They count for its owner.
    Descriptor(u32),
    /// All files of a security identifier, by a number that is its own as long as the volume is open.
    Owner(u32),
}

impl Party {
    /// The key in the tree of quotas of what it takes itself.
    pub fn taken_key(self) -> Vec<u8> {
        let (sort, number): (u8, u32) = match self {
            Self::User(number) => (1, number),
            Self::Group(number) => (2, number),
            Self::Tree(number) => (3, number),
            Self::Descriptor(number) => (4, number),
            Self::Owner(_) => unreachable!("an owner takes nothing but what its descriptors do"),
        };
        [&[TAKEN, sort][..], &number.to_be_bytes()].concat()
    }

    /// Whose such a key is.
    pub fn of_taken_key(key: &[u8]) -> Option<Self> {
        let [TAKEN, sort, number @ ..] = key else { return None };
        let number = u32::from_be_bytes(number.try_into().ok()?);
        Some(match sort {
            1 => Self::User(number),
            2 => Self::Group(number),
            3 => Self::Tree(number),
            4 => Self::Descriptor(number),
            _ => return None,
        })
    }

    /// The same where owners without a number all are one user.
    pub fn by_user(self) -> Self {
        if let Self::Descriptor(_) = self { Self::User(NOBODY) } else { self }
    }
}

/// The user that an identifier names by itself, whatever accounts there are.
pub(crate) fn user_of(sid: &Sid) -> Option<u32> {
    sid.rid().filter(|uid| *uid != u32::MAX && sid.domain() == Some(UNIX_USERS))
}

/// Whether files of an owner may count for something else than a user's number.
pub(crate) fn is_foreign(sid: &Sid) -> bool {
    user_of(sid).is_none_or(|uid| uid == NOBODY)
}

/// Whom a file counts for itself, and how much.
pub(super) fn parts(share: &Share) -> impl Iterator<Item = (Party, Amount)> + use<> {
    let amount = Amount { blocks: share.blocks as i64, files: 1 };
    let owner = match share.security {
        0 => Party::User(share.uid),
        _ if share.uid != NOBODY => Party::User(share.uid),
        descriptor => Party::Descriptor(descriptor),
    };
    let tree = (share.tree != 0).then_some(Party::Tree(share.tree));
    [Some(owner), Some(Party::Group(share.gid)), tree].into_iter().flatten().map(move |party| (party, amount))
}

/// Whose descriptors are, and the identifiers that have an account.
#[derive(Default)]
pub(super) struct Owners {
    of: HashMap<u32, Party>,
    numbers: HashMap<Sid, u32>,
    /// Each identifier with how many descriptors and limits it has.
    sids: HashMap<u32, (Sid, usize)>,
    last: u32,
}

impl Owners {
    /// Whom files of a descriptor count for. The owner of one that is lost is nobody.
    pub fn of(&self, descriptor: u32) -> Party {
        self.of.get(&descriptor).copied().unwrap_or(Party::User(NOBODY))
    }

    /// The party of an identifier, if it has one.
    pub fn party(&self, sid: &Sid) -> Option<Party> {
        match user_of(sid) {
            Some(uid) => Some(Party::User(uid)),
            None => self.numbers.get(sid).map(|number| Party::Owner(*number)),
        }
    }

    /// The party of a subject, if it has one.
    pub fn known(&self, subject: Subject) -> Option<Party> {
        Some(match subject {
            Subject::User(uid) => Party::User(uid),
            Subject::Group(gid) => Party::Group(gid),
            Subject::Tree(tree) => Party::Tree(tree),
            Subject::Sid(sid) => return self.party(&sid),
        })
    }

    /// The party of an identifier, which has one until [`Self::let_go`].
    pub fn hold(&mut self, sid: &Sid) -> Party {
        if let Some(uid) = user_of(sid) {
            return Party::User(uid);
        }
        let number = self.numbers.get(sid).copied().unwrap_or_else(|| {
            while self.sids.contains_key(&self.last) {
                self.last = self.last.wrapping_add(1);
            }
            self.last
        });
        self.numbers.insert(*sid, number);
        self.sids.entry(number).or_insert((*sid, 0)).1 += 1;
        Party::Owner(number)
    }

    /// Ends one use of a party; true if that was the last.
    pub fn let_go(&mut self, party: Party) -> bool {
        let Party::Owner(number) = party else { return false };
        let Some((sid, uses)) = self.sids.get_mut(&number) else { return false };
        *uses -= 1;
        if *uses > 0 {
            return false;
        }
        self.numbers.remove(sid);
        self.sids.remove(&number);
        true
    }

    /// The owner of a descriptor is this. Answers a party that is gone by that: a change that was given up may have had
    /// the number.
    pub fn know(&mut self, descriptor: u32, owner: &Sid) -> Option<Party> {
        let party = self.hold(owner);
        let before = self.of.insert(descriptor, party);
        before.filter(|before| self.let_go(*before))
    }

    /// A descriptor is gone; answers a party that is so, too.
    pub fn forget(&mut self, descriptor: u32) -> Option<Party> {
        let party = self.of.remove(&descriptor)?;
        self.let_go(party).then_some(party)
    }

    /// Forgets all descriptors; identifiers with limits stay.
    pub fn forget_all(&mut self) {
        for (_, party) in std::mem::take(&mut self.of) {
            self.let_go(party);
        }
    }

    /// Whether there is an owner who may have no number.
    pub fn are_foreign(&self) -> bool {
        self.of.values().any(|party| !matches!(party, Party::User(uid) if *uid != NOBODY))
    }

    /// What a party is to others; nothing for files of a descriptor whose owner is known.
    pub fn subject(&self, party: Party) -> Option<Subject> {
        Some(match party {
            Party::User(uid) => Subject::User(uid),
            Party::Group(gid) => Subject::Group(gid),
            Party::Tree(tree) => Subject::Tree(tree),
            Party::Owner(number) => Subject::Sid(self.sids.get(&number)?.0),
            Party::Descriptor(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sid(text: &str) -> Sid {
        text.parse().expect("a SID")
    }

    #[test]
    fn a_number_is_an_owner_as_long_as_a_descriptor_or_limit_names_it() {
        let mut owners = Owners::default();
        let (one, other) = (sid("S-1-5-21-1-2-3-1000"), sid("S-1-5-21-1-2-3-1001"));
        assert_eq!(owners.know(7, &one), None);
        let first = owners.of(7);
        assert_eq!((owners.subject(first), owners.party(&other)), (Some(Subject::Sid(one)), None));
        assert_eq!(owners.know(8, &one), None);
        assert_eq!(owners.know(8, &other), None, "descriptor 7 has the first one still");
        assert_ne!(owners.of(8), first);
        let limited = owners.hold(&one);
        assert_eq!((limited, owners.forget(7)), (first, None), "it has a limit");
        assert!(owners.let_go(limited));
        assert_eq!((owners.subject(first), owners.of(7)), (None, Party::User(NOBODY)));
        assert!(owners.are_foreign());
        owners.forget_all();
        assert!(!owners.are_foreign() && owners.sids.is_empty() && owners.numbers.is_empty());
        owners.know(1, &sid("S-1-22-1-5"));
        assert_eq!((owners.of(1), owners.are_foreign()), (Party::User(5), false));
        owners.know(1, &sid("S-1-22-1-65534"));
        assert!(owners.are_foreign(), "the number of all that have none");
    }

    #[test]
    fn keys_lead_back() {
        for party in [Party::User(1), Party::Group(0), Party::Tree(u32::MAX), Party::Descriptor(77)] {
            let key = party.taken_key();
            assert_eq!(Party::of_taken_key(&key), Some(party));
            assert!((0..key.len()).all(|len| Party::of_taken_key(&key[..len]).is_none()));
        }
        assert_eq!(Party::of_taken_key(&[TAKEN, 5, 0, 0, 0, 1]), None);
    }
}
