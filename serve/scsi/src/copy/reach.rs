//! Which units a copy may reach: those of its own device, and those of devices to which its initiator proved as much.
//!
//! Invariant: a unit that is reached is not gone before the copy is over, and what keeps a nexus's own commands out of it
//! keeps its copies out.

use std::sync::Arc;

use holdfast_block::{ObjectService, Session};

use crate::command::Conflict;
use crate::device::{Link, NexusState};
use crate::gate;
use crate::identity;
use crate::party::Work;
use crate::task::Task;
use crate::unit::Unit;

use super::extended::Cscd;

/// A unit on its own side of a copy.
pub(super) struct Reached {
    /// Before the link, so that the block service's session is let go of before the unit.
    work: Arc<Work>,
    link: Arc<Link>,
}

impl Reached {
    fn new(link: Arc<Link>) -> Self {
        Self { work: link.party.work(), link }
    }

    pub(super) fn own(task: &Task) -> Self {
        Self { work: task.work.clone(), link: task.link.clone() }
    }

    pub(super) fn unit(&self) -> &Unit {
        &self.link.unit
    }

    pub(super) fn session(&self) -> &Session {
        &self.work.session
    }

    /// Where nobody can tell who reserved it, nobody's copies reach it.
    fn is_ready(&self) -> bool {
        !self.unit().table().standing(&self.link.party).not_ready()
    }

    pub(super) fn may_be_read(&self) -> bool {
        self.is_ready() && !gate::kept_out(Conflict::Reads, &self.link)
    }

    pub(super) fn may_be_written(&self) -> bool {
        let unit = self.unit();
        self.is_ready()
            && !gate::kept_out(Conflict::Writes, &self.link)
            && !unit.is_read_only()
            && !unit.mode().is_write_protected()
    }
}

/// The way to the first unit that is wanted, the task's own device first.
fn find(task: &Task, wanted: impl Fn(&Unit) -> bool) -> Option<Reached> {
    if wanted(task.unit()) {
        return Some(Reached::own(task));
    }
    let first = |nexus: &NexusState| nexus.device.links(nexus.serial()).into_iter().find(|link| wanted(&link.unit));
    if let Some(link) = first(&task.nexus) {
        return Some(Reached::new(link));
    }
    let nexus = &task.nexus;
    let others = nexus.device.shared().copies().proofs.admitted(&nexus.id.initiator.name, nexus.proof);
    let mut others = others.into_iter().filter_map(|other| other.downcast::<NexusState>().ok());
    others.find_map(|other| first(&other)).map(Reached::new)
}

/// The unit that a descriptor names: by its NAA name, or by its UUID.
pub(super) fn named(task: &Task, cscd: &Cscd) -> Option<Reached> {
    find(task, |unit| {
        let id = unit.settings().id;
        match cscd.designator_type {
            0x3 => cscd.designator == identity::naa(id),
            0xa => cscd.designator.strip_prefix(&[0x10, 0]) == Some(id.as_bytes()),
            _ => false,
        }
    })
}

/// The unit on an object.
pub(super) fn on_object(task: &Task, object: &Arc<ObjectService>) -> Option<Reached> {
    find(task, |unit| Arc::ptr_eq(unit.target().object(), object))
}
