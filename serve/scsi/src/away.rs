//! A unit that is away, and is to come back: its pool is being opened again, or looked for.
//!
//! Invariant: an initiator never hears that a LUN does not exist which it will see again, since it would give up what is
//! on it.

use holdfast_model::Uuid;

use crate::ports::NexusId;
use crate::reservations::HeldReservations;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Away {
    id: Uuid,
    held: Option<HeldReservations>,
}

impl Away {
    pub(crate) fn new(id: Uuid, held: Option<HeldReservations>) -> Self {
        Self { id, held }
    }

    /// Which unit it is.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Its reservations, where it was here before.
    pub(crate) fn held(&self) -> Option<HeldReservations> {
        self.held.clone()
    }

    pub(crate) fn forget(&mut self) {
        self.held = None;
    }

    /// A nexus has ended.
    pub(crate) fn left(&self, nexus: &NexusId, serial: u64) {
        self.held.iter().for_each(|held| held.0.left(nexus, serial));
    }

    /// It was reset.
    pub(crate) fn reset(&self) {
        self.held.iter().for_each(|held| held.0.release(None));
    }
}
