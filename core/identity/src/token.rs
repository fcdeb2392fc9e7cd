//! Who asks, as the check of access sees it ([MS-DTYP] 2.5.2).
//!
//! Identifiers are looked up by their last number first, which mostly tells them apart: an entry that concerns nobody of
//! the token costs a search among small numbers.
//!
//! Invariant: identifiers are sorted and stand once, everybody is in Everyone, and looking one up takes no memory.

use bitflags::bitflags;

use crate::sid::Sid;
use crate::well_known::EVERYONE;

/// The most groups of a token, about what a Kerberos ticket of a Windows domain can carry.
pub const MAX_GROUPS: usize = 1280;

bitflags! {
    /// What a caller may do whatever descriptors say ([MS-LSAD] 3.1.1.2.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Privileges: u8 {
        /// Read everything, where the caller opens for backup (`SeBackupPrivilege`).
        const BACKUP = 0x01;
        /// Write and replace everything, where the caller opens for backup (`SeRestorePrivilege`).
        const RESTORE = 0x02;
        /// Become the owner (`SeTakeOwnershipPrivilege`).
        const TAKE_OWNERSHIP = 0x04;
        /// Read and change SACLs (`SeSecurityPrivilege`).
        const SECURITY = 0x08;
        /// Pass through directories (`SeChangeNotifyPrivilege`).
        const CHANGE_NOTIFY = 0x10;
    }
}

/// What a group of a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Membership {
    /// Grants and denies.
    Enabled,
    /// Denies only (`SE_GROUP_USE_FOR_DENY_ONLY`).
    DenyOnly,
}

/// More groups than a token can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the user {user} is in {count} groups, and at most {MAX_GROUPS} can be looked at: take them out of some")]
pub struct TooManyGroups {
    /// The user.
    pub user: Sid,
    /// How many.
    pub count: usize,
}

fn last(sid: &Sid) -> u32 {
    sid.rid().unwrap_or_default()
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    user: Sid,
    primary_group: Sid,
    privileges: Privileges,
    /// The user and all groups, by their last numbers.
    sids: Box<[(Sid, Membership)]>,
    /// The last numbers of these.
    last: Box<[u32]>,
}

impl Token {
    /// A user with groups; the primary group and Everyone need not be among them. Of a group that is named twice the
    /// larger use counts.
    ///
    /// # Errors
    /// [`TooManyGroups`] beyond [`MAX_GROUPS`].
    pub fn new(
        user: Sid,
        primary_group: Sid,
        groups: &[(Sid, Membership)],
        privileges: Privileges,
    ) -> Result<Self, TooManyGroups> {
        if groups.len() > MAX_GROUPS {
            return Err(TooManyGroups { user, count: groups.len() });
        }
        let own = [user, EVERYONE].map(|sid| (sid, Membership::Enabled));
        let mut sids: Vec<_> = groups.iter().copied().chain(own).collect();
        if !groups.iter().any(|(sid, _)| *sid == primary_group) {
            sids.push((primary_group, Membership::Enabled));
        }
        sids.sort_unstable_by_key(|(sid, membership)| (last(sid), *sid, *membership));
        sids.dedup_by_key(|(sid, _)| *sid);
        let last = sids.iter().map(|(sid, _)| last(sid)).collect();
        Ok(Self { user, primary_group, privileges, sids: sids.into(), last })
    }

    /// The user.
    pub fn user(&self) -> &Sid {
        &self.user
    }

    /// The group of files that the user creates.
    pub fn primary_group(&self) -> &Sid {
        &self.primary_group
    }

    /// What the user may do whatever descriptors say.
    pub fn privileges(&self) -> Privileges {
        self.privileges
    }

    fn membership(&self, sid: &Sid) -> Option<Membership> {
        let number = last(sid);
        let from = self.last.partition_point(|known| *known < number);
        let same = self.last[from..].iter().zip(&self.sids[from..]).take_while(|(known, _)| **known == number);
        same.map(|(_, member)| member).find(|(known, _)| known == sid).map(|(_, membership)| *membership)
    }

    /// Whether what is granted to `sid` is granted to the caller (`SidInToken` of [MS-DTYP] 2.5.3.1).
    pub fn is_granted_as(&self, sid: &Sid) -> bool {
        self.membership(sid) == Some(Membership::Enabled)
    }

    /// Whether what is denied to `sid` is denied to the caller.
    pub fn is_denied_as(&self, sid: &Sid) -> bool {
        self.membership(sid).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::well_known::{ADMINISTRATORS, USERS};

    #[test]
    fn groups_grant_and_deny_by_their_use() {
        let user = Sid::known(5, &[21, 1, 2, 3, 1000]);
        let groups =
            [(ADMINISTRATORS, Membership::DenyOnly), (USERS, Membership::DenyOnly), (USERS, Membership::Enabled)];
        let token = Token::new(user, USERS, &groups, Privileges::empty()).expect("few groups");
        for sid in [user, EVERYONE, USERS] {
            assert!(token.is_granted_as(&sid) && token.is_denied_as(&sid), "{sid}");
        }
        assert!(!token.is_granted_as(&ADMINISTRATORS) && token.is_denied_as(&ADMINISTRATORS));
        let other = Sid::known(5, &[21, 1, 2, 3, 1001]);
        assert!(!token.is_granted_as(&other) && !token.is_denied_as(&other));
    }

    #[test]
    fn identifiers_that_end_in_the_same_number_are_told_apart() {
        let of = |domain| Sid::known(5, &[21, domain, 1000]);
        let groups: Vec<_> = (0..20).map(|domain| (of(2 * domain), Membership::Enabled)).collect();
        let token = Token::new(USERS, Sid::known(5, &[]), &groups, Privileges::empty()).expect("few groups");
        for domain in 0..40 {
            assert_eq!(token.is_granted_as(&of(domain)), domain % 2 == 0, "{domain}");
        }
        assert!(token.is_granted_as(&Sid::known(5, &[])) && !token.is_denied_as(&Sid::known(4, &[])));
    }

    #[test]
    fn a_primary_group_that_only_denies_does_not_grant() {
        let user = Sid::known(5, &[21, 1, 2, 3, 1000]);
        let token = Token::new(user, USERS, &[(USERS, Membership::DenyOnly)], Privileges::empty()).expect("few");
        assert!(!token.is_granted_as(&USERS) && token.is_denied_as(&USERS));
    }

    #[test]
    fn groups_are_bounded() {
        let groups = vec![(USERS, Membership::Enabled); MAX_GROUPS + 1];
        assert!(Token::new(EVERYONE, USERS, &groups, Privileges::empty()).is_err());
        assert!(Token::new(EVERYONE, USERS, &groups[1..], Privileges::empty()).is_ok());
    }
}
