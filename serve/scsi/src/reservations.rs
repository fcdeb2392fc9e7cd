//! Reservations of a unit: persistent ones, and those of the older RESERVE and RELEASE.
//!
//! ```text
//!   a command ─▶ standing of its party: one word, computed anew when the version of the table has changed
//!   PERSISTENT RESERVE OUT ─▶ its turn ─▶ next state ─▶ kept, where it outlives power ─▶ in force ─▶ answered
//! ```
//!
//! Invariant: what is answered is in force and, with APTPL, durable. Where neither kind of reservation is about, a
//! command pays two loads.

pub(crate) mod kept;
pub(crate) mod kind;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::party::Party;
use crate::ports::{InitiatorPort, NexusId, TargetPort};
use kind::Part;
use state::State;

/// A registrant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrantView {
    /// Whose it is.
    pub initiator: InitiatorPort,
    /// Through which port it registered.
    pub target: TargetPort,
    /// Its key.
    pub key: u64,
    /// Whether it holds the reservation.
    pub holder: bool,
}

/// All that is reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationView {
    /// Who is registered.
    pub registrants: Vec<RegistrantView>,
    /// The type of the persistent reservation: "write-exclusive", "exclusive-access", and these with
    /// "-registrants-only" or "-all-registrants".
    pub kind: Option<&'static str>,
    /// How often registrations have changed.
    pub generation: u32,
    /// Whether they outlive a restart.
    pub aptpl: bool,
    /// Who has reserved the unit by the older command, which no restart outlives.
    pub reserved_by: Option<InitiatorPort>,
    /// Why the unit is not ready: what was kept cannot be read.
    pub unreadable: Option<String>,
}

/// What reservations say of a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing(u64);

const READERS_OUT: u64 = 1;
const WRITERS_OUT: u64 = 2;
const OLDER_OUT: u64 = 4;
const NOT_READY: u64 = 8;
const BITS: u32 = 4;

impl Standing {
    /// Commands that only read are kept out.
    pub(crate) fn readers_out(self) -> bool {
        self.0 & (READERS_OUT | OLDER_OUT) != 0
    }

    /// Commands that change anything are kept out.
    pub(crate) fn writers_out(self) -> bool {
        self.0 & (WRITERS_OUT | OLDER_OUT) != 0
    }

    /// Another nexus has reserved the unit by the older command.
    pub(crate) fn older_out(self) -> bool {
        self.0 & OLDER_OUT != 0
    }

    /// What was kept cannot be read, so nobody knows who may do what.
    pub(crate) fn not_ready(self) -> bool {
        self.0 & NOT_READY != 0
    }
}

/// Who has reserved a unit by the older command: a nexus, and which of those of this id that were ever about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Older {
    nexus: NexusId,
    serial: u64,
}

impl Older {
    fn is(&self, party: &Party) -> bool {
        self.serial == party.serial() && self.nexus == *party.id()
    }
}

#[derive(Default)]
struct Inner {
    persistent: State,
    older: Option<Older>,
    unreadable: Option<String>,
}

/// The table of one unit.
pub(crate) struct Reservations {
    inner: Mutex<Inner>,
    /// Changes with the table; begins at one, which no new party knows.
    version: AtomicU64,
    /// Commands that change persistent reservations take turns.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Default for Reservations {
    fn default() -> Self {
        Self { inner: Mutex::default(), version: AtomicU64::new(1), turn: Arc::default() }
    }
}

impl Reservations {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.inner();
        let result = change(&mut inner);
        self.version.fetch_add(1, Ordering::Release);
        result
    }

    /// What a party may do now.
    pub(crate) fn standing(&self, party: &Party) -> Standing {
        let (known, version) = (party.standing(), self.version.load(Ordering::Acquire));
        if known >> BITS == version {
            return Standing(known);
        }
        let inner = self.inner();
        let version = self.version.load(Ordering::Acquire);
        let when = |condition: bool, bit: u64| if condition { bit } else { 0 };
        let older = inner.older.as_ref().is_some_and(|holder| !holder.is(party));
        let known = (version << BITS)
            | when(inner.persistent.keeps_readers_out(party.id()), READERS_OUT)
            | when(inner.persistent.keeps_writers_out(party.id()), WRITERS_OUT)
            | when(older, OLDER_OUT)
            | when(inner.unreadable.is_some(), NOT_READY);
        party.set_standing(known);
        Standing(known)
    }

    /// The turn of a command that changes persistent reservations.
    pub(crate) async fn turn(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.turn.clone().lock_owned().await
    }

    /// Persistent reservations as they are.
    pub(crate) fn persistent(&self) -> State {
        self.inner().persistent.clone()
    }

    /// Puts others in force.
    pub(crate) fn set_persistent(&self, state: State) {
        self.change(|inner| inner.persistent = state);
    }

    /// Takes over what was kept.
    pub(crate) fn restore(&self, bytes: &[u8]) -> Result<(), String> {
        let decoded = kept::decode(bytes).map_err(|error| error.to_string());
        self.change(|inner| match &decoded {
            Ok(state) => (inner.persistent, inner.unreadable) = (state.clone(), None),
            Err(reason) => inner.unreadable = Some(reason.clone()),
        });
        decoded.map(drop)
    }

    /// Forgets all of both kinds. Answers who was registered.
    pub(crate) fn clear(&self) -> Vec<NexusId> {
        self.change(|inner| {
            let cleared = std::mem::take(&mut inner.persistent);
            inner.persistent.generation = cleared.generation.wrapping_add(1);
            (inner.older, inner.unreadable) = (None, None);
            cleared.registrants.into_iter().map(|one| one.nexus).collect()
        })
    }

    /// Whether anybody is registered, so that the older commands are refused.
    pub(crate) fn has_registrants(&self) -> bool {
        !self.inner().persistent.registrants.is_empty()
    }

    /// Whether anybody has reserved the unit by the older command.
    pub(crate) fn has_older(&self) -> bool {
        self.inner().older.is_some()
    }

    /// Reserves the unit for a party, by the older command. False where another has.
    pub(crate) fn reserve(&self, party: &Party) -> bool {
        self.change(|inner| match &inner.older {
            Some(holder) => holder.is(party),
            None => {
                inner.older = Some(Older { nexus: party.id().clone(), serial: party.serial() });
                true
            }
        })
    }

    fn release_if(&self, ends: impl FnOnce(&Older) -> bool) {
        let mut inner = self.inner();
        if inner.older.as_ref().is_some_and(ends) {
            inner.older = None;
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Ends the older reservation of a party, or of whoever has it.
    pub(crate) fn release(&self, party: Option<&Party>) {
        self.release_if(|holder| party.is_none_or(|party| holder.is(party)));
    }

    /// A nexus has ended while the unit was away.
    pub(crate) fn left(&self, nexus: &NexusId, serial: u64) {
        self.release_if(|holder| holder.serial == serial && holder.nexus == *nexus);
    }

    /// Whether what was kept of them could not be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.inner().unreadable.is_some()
    }

    /// For people.
    pub(crate) fn view(&self) -> ReservationView {
        let inner = self.inner();
        let state = &inner.persistent;
        let registrants = state.registrants.iter().map(|one| RegistrantView {
            initiator: one.nexus.initiator.clone(),
            target: one.nexus.target.clone(),
            key: one.key,
            holder: state.part_of(&one.nexus) == Part::Holder,
        });
        ReservationView {
            registrants: registrants.collect(),
            kind: state.held.as_ref().map(|held| held.kind.word()),
            generation: state.generation,
            aptpl: state.aptpl,
            reserved_by: inner.older.as_ref().map(|holder| holder.nexus.initiator.clone()),
            unreadable: inner.unreadable.clone(),
        }
    }
}
