//! Callers as checks of descriptors see them, and groups that are read only where a descriptor asks for them.
//!
//! ```text
//!   known groups, all that may not be theirs deny ──▶ granted: it is granted whatever the groups are
//!                                                 └─▶ refused: their groups are read, and it is decided again
//! ```
//!
//! Invariant: a group that the caller is not known to be of grants nothing, and one that the caller is not known to be
//! outside of denies.

use std::sync::Arc;

use holdfast_identity::well_known::AUTHENTICATED_USERS;
use holdfast_identity::{Id, IdMap, Membership, Privileges, SecurityDescriptor, Sid, Token};
use smallvec::SmallVec;

use crate::error::{ErrorKind, VolumeError};
use crate::service::{Caller, Groups};

/// What user 0 may do whatever descriptors say.
const ALL_PRIVILEGES: Privileges = Privileges::all();

/// Groups by their identifiers in descriptors.
type Named = SmallVec<[(Sid, u32); 2]>;
/// Groups as a token has them.
type Members = SmallVec<[(Sid, Membership); 2]>;

fn denying(named: &Named) -> Members {
    named.iter().map(|(sid, _)| (*sid, Membership::DenyOnly)).collect()
}

impl Caller {
    /// The caller as checks by these descriptors see it: the token that was brought, or that of a POSIX user.
    pub(crate) fn as_token(&self, ids: &IdMap, by: &[&SecurityDescriptor]) -> Result<Arc<Token>, VolumeError> {
        if let Some(token) = &self.token {
            return Ok(token.clone());
        }
        let named = self.in_doubt(ids, by);
        let members = if named.is_empty() { Members::new() } else { self.settle(&named).unwrap_or(denying(&named)) };
        Ok(Arc::new(self.token_with(ids, &members)?))
    }

    /// Whether the caller may do something, as far as these descriptors say. Groups are read only if it depends on them, so
    /// what `may` grants to a token it grants to one with more groups that allow or fewer that deny.
    pub(crate) fn is_let(
        &self,
        ids: &IdMap,
        by: &[&SecurityDescriptor],
        may: impl Fn(&Token) -> bool,
    ) -> Result<bool, VolumeError> {
        if let Some(token) = &self.token {
            return Ok(may(token));
        }
        let named = self.in_doubt(ids, by);
        if may(&self.token_with(ids, &denying(&named))?) {
            return Ok(true);
        }
        if named.is_empty() {
            return Ok(false);
        }
        match self.settle(&named) {
            Some(members) => Ok(may(&self.token_with(ids, &members)?)),
            None => Ok(false),
        }
    }

    /// Groups that descriptors name and that the caller may be of.
    fn in_doubt(&self, ids: &IdMap, by: &[&SecurityDescriptor]) -> Named {
        let mut named = Named::new();
        if !matches!(self.groups, Groups::Asked(_)) || self.is_root() {
            return named;
        }
        for descriptor in by {
            let all = descriptor.dacl.acl().map(|list| list.entries()).unwrap_or_default();
            let effective = all.iter().filter(|entry| !entry.is_inherit_only());
            for sid in effective.filter_map(|entry| entry.trustee()).chain(&descriptor.owner) {
                if let Some(Id::Group(gid)) = ids.id_of(sid)
                    && !self.is_in(gid)
                    && !named.iter().any(|(known, _)| known == sid)
                {
                    named.push((*sid, gid));
                }
            }
        }
        named
    }

    /// Those of the named groups that the caller is of, if that can be told.
    fn settle(&self, named: &Named) -> Option<Members> {
        let Groups::Asked(ask) = self.groups else { return None };
        let groups = ask(self)?;
        let own = named.iter().filter(|(_, gid)| groups.contains(gid));
        Some(own.map(|(sid, _)| (*sid, Membership::Enabled)).collect())
    }

    /// The token of a POSIX user who is of these groups, too.
    fn token_with(&self, ids: &IdMap, members: &Members) -> Result<Token, VolumeError> {
        let of_groups = self.groups.known().iter().chain([&self.gid]).map(|gid| Id::Group(*gid));
        let all = of_groups.chain([Id::User(self.uid)]);
        // What was created before an account got its identifier names it by its number.
        let both = all.flat_map(|id| [ids.sid_of(id), IdMap::unmapped(id)]);
        let known = both.chain([AUTHENTICATED_USERS]).map(|sid| (sid, Membership::Enabled));
        let sids: Vec<_> = known.chain(members.iter().copied()).collect();
        let privileges = if self.is_root() { ALL_PRIVILEGES } else { Privileges::empty() };
        let token = Token::new(ids.sid_of(Id::User(self.uid)), ids.sid_of(Id::Group(self.gid)), &sids, privileges);
        token.map_err(|error| VolumeError::new(ErrorKind::AccessDenied, error.to_string()))
    }
}
