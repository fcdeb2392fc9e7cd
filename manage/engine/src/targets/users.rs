//! Who uses a target: whom its end, or that of a LUN of it, cuts off.
//!
//! Invariant: a target or LUN that somebody is logged in to, or that is reserved or registered for, is ended only by who
//! says that this is meant.

use std::collections::BTreeSet;

use holdfast_model::ObjectRef;

use super::known::KnownTarget;
use crate::engine::Engine;
use crate::error::{ApiResult, not_confirmed};
use crate::view::row;

impl Engine {
    /// Refuses to end `object`, a target or LUN, if its initiators would be cut off, or lose their reservations of these
    /// LUNs.
    ///
    /// # Errors
    /// If somebody uses it, and it is not confirmed.
    pub(super) fn refuse_used(
        &self,
        object: ObjectRef,
        target: &KnownTarget,
        numbers: &[u16],
        confirmed: bool,
    ) -> ApiResult<()> {
        if confirmed {
            return Ok(());
        }
        let sessions = self.front_ends.iscsi.sessions(Some(&target.iqn));
        let logged_in: BTreeSet<String> = sessions.into_iter().map(|session| session.initiator).collect();
        let units: Vec<_> = {
            let live = self.live();
            let served = live.targets.get(&target.name).map(|target| &target.luns);
            let unit = |number: &u16| Some((*number, served?.get(number)?.unit.clone()));
            numbers.iter().filter_map(unit).collect()
        };
        let mut lost = Vec::new();
        if !logged_in.is_empty() {
            lost.push(format!("initiators that are logged in would be cut off: {}", row(logged_in)));
        }
        for (number, unit) in units {
            let view = unit.reservations();
            let registered = view.registrants.iter().map(|one| one.initiator.to_string());
            let holders: BTreeSet<String> =
                registered.chain(view.reserved_by.iter().map(ToString::to_string)).collect();
            let lun = target.lun_name(number);
            match view.unreadable {
                Some(_) => lost.push(format!("the reservations that are kept of LUN {lun} would be given up")),
                None if holders.is_empty() => {}
                None => {
                    lost.push(format!("the reservations of LUN {lun} would be lost, which are of {}", row(holders)))
                }
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        Err(not_confirmed(object, lost.join("; "), "have them log out and give them up, or repeat with --yes"))
    }
}
