//! A unit that is away, and is to come back: its pool is being opened again, or looked for; or when somebody brings it.
//!
//! Invariant: an initiator never hears that a LUN does not exist which it will see again, since it would give up what is
//! on it.

use std::sync::Arc;

use holdfast_model::Uuid;

use crate::losses::Losses;
use crate::ports::NexusId;
use crate::reservations::Reservations;
use crate::sense::{Sense, SenseKey, code};

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
    /// Whether somebody must do something before it comes back.
    is_left: bool,
}

impl Away {
    pub(crate) fn new(id: Uuid, held: Option<Held>) -> Self {
        Self { id, held, is_left: false }
    }

    /// Which unit it is.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// Says whether somebody must do something before it comes back.
    pub(crate) fn set_left(&mut self, is_left: bool) {
        self.is_left = is_left;
    }

    /// What is told to whoever asks for it: to ask again, or that this is of no use by itself.
    pub(crate) fn sense(&self) -> Sense {
        let code = if self.is_left { code::MANUAL_INTERVENTION } else { code::BECOMING_READY };
        Sense::new(SenseKey::NotReady, code)
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
