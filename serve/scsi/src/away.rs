//! A unit that is away, and is to come back: its pool is being opened again, or looked for.
//!
//! Invariant: an initiator never hears that a LUN does not exist which it will see again, since it would give up what is
//! on it.

use std::sync::Arc;

use holdfast_model::Uuid;

use crate::losses::Losses;
use crate::ports::NexusId;
use crate::reservations::Reservations;

/// What stays of a unit that is away for a time: its next unit takes it over as it is.
#[derive(Clone)]
pub struct Held {
    /// Nothing where what is kept of them counts.
    pub(crate) reservations: Option<Arc<Reservations>>,
    pub(crate) losses: Arc<Losses>,
}

impl Held {
    /// Whether its reservations are here; else what was kept of them counts.
    pub fn has_reservations(&self) -> bool {
        self.reservations.is_some()
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reservations = self.reservations.as_ref().map(|held| held.view());
        f.debug_struct("Held").field("reservations", &reservations).field("losses", &self.losses.count()).finish()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Away {
    id: Uuid,
    held: Option<Held>,
}

impl Away {
    pub(crate) fn new(id: Uuid, held: Option<Held>) -> Self {
        Self { id, held }
    }

    /// Which unit it is.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// What stays of it, where it was here before.
    pub(crate) fn held(&self) -> Option<Held> {
        self.held.clone()
    }

    pub(crate) fn forget_reservations(&mut self) {
        self.held.iter_mut().for_each(|held| held.reservations = None);
    }

    fn reservations(&self) -> Option<&Arc<Reservations>> {
        self.held.as_ref()?.reservations.as_ref()
    }

    /// A nexus has ended.
    pub(crate) fn left(&self, nexus: &NexusId, serial: u64) {
        self.reservations().into_iter().for_each(|held| held.left(nexus, serial));
    }

    /// It was reset.
    pub(crate) fn reset(&self) {
        self.reservations().into_iter().for_each(|held| held.release(None));
    }
}
