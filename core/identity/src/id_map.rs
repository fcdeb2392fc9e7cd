//! Numbers of POSIX users and groups as security identifiers, by rule alone.
//!
//! ```text
//!   own accounts, the n-th     S-1-5-21-<domain>-(1000 + 2n)    user        S-1-5-21-<domain>-(1001 + 2n)    group
//!   any other                  S-1-22-1-uid                     user        S-1-22-2-gid                     group
//! ```
//!
//! A directory that knows better (RFC 2307) is asked first by whoever has one: it answers the same questions.
//!
//! Invariant: a number has one identifier, and that leads back to it.

use std::ops::Range;

use crate::sid::Sid;
use crate::token::{Membership, Privileges, Token, TooManyGroups};
use crate::well_known::{UNIX_GROUPS, UNIX_USERS};

/// The relative id of the first own account.
const FIRST_RID: u32 = 1000;
/// The most own accounts.
const MOST_ACCOUNTS: u32 = (u32::MAX - FIRST_RID) / 2;
/// No user and no group (`(uid_t) -1`).
const NOBODY_AT_ALL: u32 = u32::MAX;

/// A user or group of POSIX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// A uid.
    User(u32),
    /// A gid.
    Group(u32),
}

/// A domain of accounts: 96 random bits that were drawn when the account database was made ([MS-DTYP] 2.4.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain(pub [u32; 3]);

impl Domain {
    /// Its identifier, without an account.
    pub fn sid(self) -> Sid {
        let [a, b, c] = self.0;
        Sid::known(5, &[21, a, b, c])
    }
}

/// The rule for one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdMap {
    domain: Sid,
    own: Range<u32>,
}

/// Own accounts that do not fit the domain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ids {start} to {end} are too many for one domain, which has room for {MOST_ACCOUNTS}: give fewer")]
pub struct TooManyIds {
    start: u32,
    end: u32,
}

impl IdMap {
    /// Accounts of `domain` are those with a uid or gid in `own`; the range must not change once files name them.
    ///
    /// # Errors
    /// [`TooManyIds`] if there are more than a domain has room for.
    pub fn new(domain: Domain, own: Range<u32>) -> Result<Self, TooManyIds> {
        if own.end.saturating_sub(own.start) > MOST_ACCOUNTS {
            return Err(TooManyIds { start: own.start, end: own.end });
        }
        Ok(Self { domain: domain.sid(), own })
    }

    /// The identifier of a number.
    pub fn sid_of(&self, id: Id) -> Sid {
        let (number, is_group) = match id {
            Id::User(uid) => (uid, 0),
            Id::Group(gid) => (gid, 1),
        };
        if !self.own.contains(&number) {
            return Self::unmapped(id);
        }
        let rid = FIRST_RID + 2 * (number - self.own.start) + is_group;
        self.domain.with_rid(rid).expect("a domain has room for an account")
    }

    /// The identifier of a number by itself, whatever account it may belong to. Files that were created before the
    /// account have it, so the token of an account lists it among its groups.
    pub fn unmapped(id: Id) -> Sid {
        let (domain, number) = match id {
            Id::User(uid) => (UNIX_USERS, uid),
            Id::Group(gid) => (UNIX_GROUPS, gid),
        };
        domain.with_rid(number).expect("a domain has room for an account")
    }

    /// A caller of POSIX. Accounts have their former identifiers too.
    ///
    /// # Errors
    /// [`TooManyGroups`], where an own account's group counts twice.
    pub fn token(&self, uid: u32, gid: u32, groups: &[u32], privileges: Privileges) -> Result<Token, TooManyGroups> {
        let of_groups = groups.iter().chain([&gid]).map(|gid| Id::Group(*gid));
        let mut sids = Vec::with_capacity(2 * groups.len() + 3);
        for id in of_groups.chain([Id::User(uid)]) {
            let (sid, former) = (self.sid_of(id), Self::unmapped(id));
            sids.push((sid, Membership::Enabled));
            if former != sid {
                sids.push((former, Membership::Enabled));
            }
        }
        Token::new(self.sid_of(Id::User(uid)), self.sid_of(Id::Group(gid)), &sids, privileges)
    }

    /// The number that an identifier stands for.
    pub fn id_of(&self, sid: &Sid) -> Option<Id> {
        let (domain, rid) = (sid.domain()?, sid.rid()?);
        match domain {
            UNIX_USERS if rid != NOBODY_AT_ALL => Some(Id::User(rid)),
            UNIX_GROUPS if rid != NOBODY_AT_ALL => Some(Id::Group(rid)),
            domain if domain == self.domain => {
                let at = rid.checked_sub(FIRST_RID)?;
                let number = self.own.start.checked_add(at / 2).filter(|number| self.own.contains(number))?;
                Some(if at.is_multiple_of(2) { Id::User(number) } else { Id::Group(number) })
            }
            _ => None,
        }
    }

    /// The same, if the number leads back to this identifier: then it can be stored in its place.
    pub fn exact_id_of(&self, sid: &Sid) -> Option<Id> {
        self.id_of(sid).filter(|id| self.sid_of(*id) == *sid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: Domain = Domain([7, 8, 9]);

    fn map() -> IdMap {
        IdMap::new(DOMAIN, 2000..3000).expect("few ids")
    }

    #[test]
    fn every_number_leads_back() {
        let map = map();
        for number in [0, 1, 1999, 2000, 2001, 2999, 3000, u32::MAX - 1] {
            for id in [Id::User(number), Id::Group(number)] {
                assert_eq!(map.exact_id_of(&map.sid_of(id)), Some(id));
            }
        }
        assert_eq!(map.sid_of(Id::User(2001)).to_string(), "S-1-5-21-7-8-9-1002");
        assert_eq!(map.sid_of(Id::Group(2001)).to_string(), "S-1-5-21-7-8-9-1003");
        assert_eq!(map.sid_of(Id::User(7)).to_string(), "S-1-22-1-7");
        assert_eq!(map.sid_of(Id::Group(7)).to_string(), "S-1-22-2-7");
    }

    #[test]
    fn strange_identifiers_have_no_number() {
        let map = map();
        let domain = "S-1-5-21-7-8-9";
        for rid in [0, 500, 999, 3000, u32::MAX] {
            assert_eq!(map.id_of(&format!("{domain}-{rid}").parse().expect("a SID")), None, "{rid}");
        }
        for text in [domain, "S-1-5", "S-1-5-21-7-8-8-1000", "S-1-22-3-1", "S-1-22-1", "S-1-22-1-4294967295", "S-1-1-0"]
        {
            assert_eq!(map.id_of(&text.parse().expect("a SID")), None, "{text}");
        }
    }

    #[test]
    fn an_own_account_is_not_stored_by_its_former_identifier() {
        let former = IdMap::unmapped(Id::User(2000));
        assert_eq!((map().id_of(&former), map().exact_id_of(&former)), (Some(Id::User(2000)), None));
    }

    #[test]
    fn a_caller_is_known_by_the_former_identifiers_too() {
        let token = map().token(2000, 7, &[2001], Privileges::empty()).expect("few");
        for id in [Id::User(2000), Id::Group(7), Id::Group(2001)] {
            assert!(token.is_granted_as(&map().sid_of(id)) && token.is_granted_as(&IdMap::unmapped(id)), "{id:?}");
        }
        let others = [Id::User(2001), Id::Group(2000), Id::User(7)];
        assert!(others.iter().all(|id| !token.is_denied_as(&map().sid_of(*id))));
        assert_eq!((token.user(), token.primary_group()), (&map().sid_of(Id::User(2000)), &map().sid_of(Id::Group(7))));
    }

    #[test]
    fn a_domain_has_room_for_so_many() {
        assert!(IdMap::new(DOMAIN, 0..MOST_ACCOUNTS).is_ok() && IdMap::new(DOMAIN, 0..MOST_ACCOUNTS + 1).is_err());
        let full = IdMap::new(DOMAIN, 0..MOST_ACCOUNTS).expect("few enough");
        let last = Id::Group(MOST_ACCOUNTS - 1);
        assert_eq!(full.id_of(&full.sid_of(last)), Some(last));
    }
}
