//! Users and groups that permissions can name: found by name, or listed as far as the server lists them.
//!
//! Invariant: a directory service that lists nobody (as sssd does by default) still finds whoever is asked for by name.

use holdfast_api::{KnownPrincipal, PrincipalKind};
use holdfast_identity::{Sid, well_known};

use super::names;
use crate::engine::Engine;

/// The identifiers that are offered; others are found by name.
const OFFERED: [Sid; 6] = [
    well_known::EVERYONE,
    well_known::CREATOR_OWNER,
    well_known::CREATOR_GROUP,
    well_known::AUTHENTICATED_USERS,
    well_known::ADMINISTRATORS,
    well_known::USERS,
];
/// Users, and groups, that are listed at most.
const MOST: usize = 1000;

fn known(sid: &Sid) -> Option<KnownPrincipal> {
    let name = well_known::name(sid)?.to_owned();
    Some(KnownPrincipal { kind: PrincipalKind::WellKnown, name, sid: sid.to_string() })
}

fn account(kind: PrincipalKind, (name, number): (String, u32)) -> Option<KnownPrincipal> {
    let subauthority = if kind == PrincipalKind::User { 1 } else { 2 };
    let sid = Sid::new(22, &[subauthority, number]).ok()?;
    Some(KnownPrincipal { kind, name, sid: sid.to_string() })
}

impl Engine {
    /// Users and groups whom permissions can name: all that the server lists, or those that are called `name`.
    pub async fn principals(&self, name: Option<&str>) -> Vec<KnownPrincipal> {
        let (users, groups) = tokio::join!(names::accounts(names::USERS, name), names::accounts(names::GROUPS, name));
        let own = match name {
            Some(name) => well_known::by_name(name).iter().filter_map(known).collect(),
            None => OFFERED.iter().filter_map(known).collect::<Vec<_>>(),
        };
        let users = users.into_iter().take(MOST).filter_map(|one| account(PrincipalKind::User, one));
        let groups = groups.into_iter().take(MOST).filter_map(|one| account(PrincipalKind::Group, one));
        own.into_iter().chain(users).chain(groups).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::Rig;

    #[tokio::test(flavor = "multi_thread")]
    async fn users_and_groups_are_found_by_name_and_listed() {
        let rig = Rig::new();
        let engine = rig.start().await;
        let named = |all: &[KnownPrincipal]| all.iter().map(|one| (one.kind, one.sid.clone())).collect::<Vec<_>>();
        let root = named(&engine.principals(Some("root")).await);
        assert_eq!(root, [(PrincipalKind::User, "S-1-22-1-0".into()), (PrincipalKind::Group, "S-1-22-2-0".into())]);
        assert_eq!(named(&engine.principals(Some("everyone")).await), [(PrincipalKind::WellKnown, "S-1-1-0".into())]);
        for nobody in ["", "no such user here", "--help", "a:b"] {
            assert!(engine.principals(Some(nobody)).await.is_empty(), "{nobody:?}");
        }
        let all = engine.principals(None).await;
        assert!(all.iter().any(|one| one.kind == PrincipalKind::User && one.name == "root"), "{all:?}");
        assert!(all.iter().any(|one| one.kind == PrincipalKind::Group && one.name == "root"), "{all:?}");
        assert!(all.iter().any(|one| one.name == "Everyone"), "{all:?}");
    }
}
