//! Persistent reservations of one unit, as a state that one command after the other changes (SPC-4 5.13).
//!
//! ```text
//!   registrants    nexus, key
//!   held           type, and the holder where not every registrant is one
//!   apply          state, nexus, action ─▶ next state, whom to tell, whose tasks to abort
//! ```
//!
//! Invariant: a holder is registered, and without registrants nothing is held. What fails changes nothing.

use crate::answer::{Fault, Status};
use crate::attention::Attention;
use crate::ports::NexusId;
use crate::reservations::kind::{Kind, Part};
use crate::sense::{Sense, SenseKey, code};

/// Registrants of a unit at most.
pub(crate) const MAX_REGISTRANTS: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registrant {
    pub(crate) nexus: NexusId,
    pub(crate) key: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) kind: Kind,
    /// None where every registrant holds it.
    pub(crate) holder: Option<NexusId>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) registrants: Vec<Registrant>,
    pub(crate) held: Option<Held>,
    pub(crate) generation: u32,
    pub(crate) aptpl: bool,
}

/// What a nexus wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Of the nexus itself first, then of others: its other ports, and initiators that were named.
    Register {
        ignore: bool,
        new_key: u64,
        aptpl: bool,
        ports: Vec<NexusId>,
        named: Vec<NexusId>,
    },
    Reserve(Kind),
    Release(Kind),
    Clear,
    Preempt {
        kind: Kind,
        victim: u64,
        abort: bool,
    },
    Move {
        new_key: u64,
        unregister: bool,
        aptpl: bool,
        to: NexusId,
    },
}

/// What follows from a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) tell: Vec<(NexusId, Attention)>,
    pub(crate) abort: Vec<NexusId>,
}

impl Effects {
    fn tell(&mut self, nexus: &NexusId, attention: Attention) {
        self.tell.push((nexus.clone(), attention));
    }
}

const CONFLICT: Fault = Fault::Status(Status::ReservationConflict);

impl State {
    pub(crate) fn key_of(&self, nexus: &NexusId) -> Option<u64> {
        self.registrants.iter().find(|one| one.nexus == *nexus).map(|one| one.key)
    }

    /// What a nexus is to the reservation.
    pub(crate) fn part_of(&self, nexus: &NexusId) -> Part {
        match (self.key_of(nexus), &self.held) {
            (None, _) => Part::Stranger,
            (Some(_), Some(held)) if held.holder.as_ref().is_none_or(|holder| holder == nexus) => Part::Holder,
            (Some(_), _) => Part::Registrant,
        }
    }

    pub(crate) fn keeps_readers_out(&self, nexus: &NexusId) -> bool {
        self.held.as_ref().is_some_and(|held| held.kind.keeps_readers_out(self.part_of(nexus)))
    }

    pub(crate) fn keeps_writers_out(&self, nexus: &NexusId) -> bool {
        self.held.as_ref().is_some_and(|held| held.kind.keeps_writers_out(self.part_of(nexus)))
    }

    /// Serves a command of `nexus`, which named `key` as its own.
    pub(crate) fn apply(&mut self, nexus: &NexusId, key: u64, action: &Action) -> Result<Effects, Fault> {
        let registered = self.key_of(nexus);
        if !matches!(action, Action::Register { .. }) && registered != Some(key) {
            return Err(CONFLICT);
        }
        let mut effects = Effects::default();
        match action {
            Action::Register { .. } => self.register(nexus, key, action, &mut effects)?,
            Action::Reserve(kind) => self.reserve(nexus, *kind)?,
            Action::Release(kind) => self.release(nexus, *kind, &mut effects)?,
            Action::Clear => {
                for other in self.registrants.iter().filter(|one| one.nexus != *nexus) {
                    effects.tell(&other.nexus, Attention::ReservationsPreempted);
                }
                (self.registrants, self.held) = (Vec::new(), None);
                self.generation = self.generation.wrapping_add(1);
            }
            Action::Preempt { kind, victim, abort } => self.preempt(nexus, *kind, *victim, *abort, &mut effects)?,
            Action::Move { new_key, unregister, aptpl, to } => {
                self.move_to(nexus, *new_key, *unregister, to)?;
                self.aptpl = *aptpl;
            }
        }
        debug_assert!(self.is_sound());
        Ok(effects)
    }

    fn is_sound(&self) -> bool {
        let holder = self.held.as_ref().and_then(|held| held.holder.as_ref());
        holder.is_none_or(|holder| self.key_of(holder).is_some())
            && (self.held.is_none() || !self.registrants.is_empty())
    }

    fn register(&mut self, nexus: &NexusId, key: u64, action: &Action, effects: &mut Effects) -> Result<(), Fault> {
        let Action::Register { ignore, new_key, aptpl, ports, named } = action else { return Ok(()) };
        let registered = self.key_of(nexus);
        if !ignore && registered.unwrap_or(0) != key {
            return Err(CONFLICT);
        }
        // Nobody leaves who is not there: what others were promised stays as it is.
        if *new_key == 0 && registered.is_none() && ports.iter().all(|one| self.key_of(one).is_none()) {
            return Ok(());
        }
        if !named.is_empty() && (registered.is_some() || named.iter().any(|one| self.key_of(one).is_some())) {
            return Err(Sense::list_bit(20, 3).into());
        }
        let others = ports.iter().filter(|one| *one != nexus);
        // A port on which the nexus is registered by another key is as if it had asked there in vain.
        let others = others.filter(|one| *ignore || self.key_of(one).unwrap_or(0) == key);
        let all: Vec<NexusId> = [nexus].into_iter().chain(others).chain(named).cloned().collect();
        let fresh = all.iter().filter(|one| self.key_of(one).is_none()).count();
        if *new_key != 0 && self.registrants.len() + fresh > MAX_REGISTRANTS {
            return Err(Sense::illegal(code::INSUFFICIENT_REGISTRATION_RESOURCES).into());
        }
        for one in &all {
            match *new_key {
                0 => self.unregister(one, nexus, effects),
                new_key => self.set_key(one, new_key),
            }
        }
        self.aptpl = *aptpl;
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    fn set_key(&mut self, nexus: &NexusId, key: u64) {
        match self.registrants.iter_mut().find(|one| one.nexus == *nexus) {
            Some(registrant) => registrant.key = key,
            None => self.registrants.push(Registrant { nexus: nexus.clone(), key }),
        }
    }

    /// Forgets a registrant; with it goes the reservation that it held, or that it was the last to hold.
    fn unregister(&mut self, nexus: &NexusId, by: &NexusId, effects: &mut Effects) {
        let held = self.part_of(nexus) == Part::Holder;
        self.registrants.retain(|one| one.nexus != *nexus);
        let Some(Held { kind, .. }) = self.held.clone().filter(|_| held) else { return };
        if kind.is_all_registrants() && !self.registrants.is_empty() {
            return;
        }
        self.held = None;
        self.tell_released(kind, by, effects);
    }

    /// Those whom the reservation let in learn that it is gone.
    fn tell_released(&self, kind: Kind, by: &NexusId, effects: &mut Effects) {
        for one in self.registrants.iter().filter(|one| kind.is_for_registrants() && one.nexus != *by) {
            effects.tell(&one.nexus, Attention::ReservationsReleased);
        }
    }

    fn hold(&mut self, nexus: &NexusId, kind: Kind) {
        let holder = (!kind.is_all_registrants()).then(|| nexus.clone());
        self.held = Some(Held { kind, holder });
    }

    fn reserve(&mut self, nexus: &NexusId, kind: Kind) -> Result<(), Fault> {
        match &self.held {
            None => self.hold(nexus, kind),
            Some(held) if held.kind == kind && self.part_of(nexus) == Part::Holder => {}
            Some(_) => return Err(CONFLICT),
        }
        Ok(())
    }

    fn release(&mut self, nexus: &NexusId, kind: Kind, effects: &mut Effects) -> Result<(), Fault> {
        let Some(held) = self.held.as_ref().filter(|_| self.part_of(nexus) == Part::Holder) else { return Ok(()) };
        if held.kind != kind {
            return Err(Sense::illegal(code::INVALID_RELEASE).into());
        }
        self.held = None;
        self.tell_released(kind, nexus, effects);
        Ok(())
    }

    fn preempt(
        &mut self,
        nexus: &NexusId,
        kind: Kind,
        victim: u64,
        abort: bool,
        effects: &mut Effects,
    ) -> Result<(), Fault> {
        let all = self.held.as_ref().is_some_and(|held| held.holder.is_none());
        let holder = self.held.as_ref().and_then(|held| held.holder.as_ref());
        let takes_over = if all { victim == 0 } else { holder.is_some_and(|one| self.key_of(one) == Some(victim)) };
        let is_victim = |one: &Registrant| if all && victim == 0 { one.nexus != *nexus } else { one.key == victim };
        if victim == 0 && !all {
            return Err(Sense::list(8).into());
        }
        if !takes_over && !self.registrants.iter().any(is_victim) {
            return Err(CONFLICT);
        }
        let before = self.held.as_ref().map(|held| held.kind);
        let leaves = |one: &Registrant| is_victim(one) && !(takes_over && one.nexus == *nexus);
        let (gone, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.registrants).into_iter().partition(leaves);
        self.registrants = stay;
        for one in gone.iter().filter(|one| one.nexus != *nexus) {
            effects.tell(&one.nexus, Attention::RegistrationsPreempted);
            if abort {
                effects.abort.push(one.nexus.clone());
            }
        }
        if takes_over {
            self.hold(nexus, kind);
            for one in self.registrants.iter().filter(|one| before != Some(kind) && one.nexus != *nexus) {
                effects.tell(&one.nexus, Attention::ReservationsReleased);
            }
        } else if self.registrants.is_empty() {
            self.held = None;
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    fn move_to(&mut self, nexus: &NexusId, new_key: u64, unregister: bool, to: &NexusId) -> Result<(), Fault> {
        let kind = match &self.held {
            Some(held) if held.holder.as_ref() == Some(nexus) => held.kind,
            _ => return Err(CONFLICT),
        };
        if new_key == 0 {
            return Err(Sense::list(8).into());
        }
        if to == nexus {
            return Err(Sense::list(24).into());
        }
        if self.key_of(to).is_none() && self.registrants.len() >= MAX_REGISTRANTS {
            return Err(Sense::illegal(code::INSUFFICIENT_REGISTRATION_RESOURCES).into());
        }
        self.set_key(to, new_key);
        self.hold(to, kind);
        if unregister {
            self.registrants.retain(|one| one.nexus != *nexus);
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }
}

/// What was changed could not be kept: it is as it was before.
pub(crate) fn not_kept() -> Fault {
    Fault::Check(Sense::new(SenseKey::HardwareError, code::INTERNAL_FAILURE))
}
