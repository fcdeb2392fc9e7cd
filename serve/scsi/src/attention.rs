//! Unit attentions: what happened to a unit that an initiator has yet to be told (SAM-5 5.14).
//!
//! ```text
//!   something happens ─▶ a bit for each nexus ─▶ the next command that must know it fails by it, and the bit is gone
//! ```
//!
//! Invariant: each kind waits once at most for a nexus, so what waits is bounded, and whoever reads a bit clears it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sense::{Code, Sense, SenseKey, code};

/// What happened, in the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Attention {
    PowerOn,
    BusReset,
    DeviceReset,
    CommandsCleared,
    ReservationsPreempted,
    ReservationsReleased,
    RegistrationsPreempted,
    LunsChanged,
    CapacityChanged,
    AccessStateChanged,
    ModeChanged,
    ThinThreshold,
}

use Attention::*;

const ALL: [Attention; 12] = [
    PowerOn,
    BusReset,
    DeviceReset,
    CommandsCleared,
    ReservationsPreempted,
    ReservationsReleased,
    RegistrationsPreempted,
    LunsChanged,
    CapacityChanged,
    AccessStateChanged,
    ModeChanged,
    ThinThreshold,
];

impl Attention {
    fn bit(self) -> u32 {
        1 << self as u8
    }

    fn code(self) -> Code {
        match self {
            PowerOn => code::POWER_ON,
            BusReset => code::BUS_RESET,
            DeviceReset => code::DEVICE_RESET,
            CommandsCleared => code::COMMANDS_CLEARED,
            ReservationsPreempted => code::RESERVATIONS_PREEMPTED,
            ReservationsReleased => code::RESERVATIONS_RELEASED,
            RegistrationsPreempted => code::REGISTRATIONS_PREEMPTED,
            LunsChanged => code::LUNS_CHANGED,
            CapacityChanged => code::CAPACITY_CHANGED,
            AccessStateChanged => code::ACCESS_STATE_CHANGED,
            ModeChanged => code::MODE_CHANGED,
            ThinThreshold => code::THIN_THRESHOLD,
        }
    }

    /// As it is told.
    pub(crate) fn sense(self) -> Sense {
        Sense::new(SenseKey::UnitAttention, self.code())
    }

    /// Whether a transport may tell it before a command comes.
    pub(crate) fn is_urgent(self) -> bool {
        matches!(self, LunsChanged | CapacityChanged | AccessStateChanged | ThinThreshold)
    }
}

/// What waits to be told to one nexus.
#[derive(Default)]
pub(crate) struct Pending(AtomicU32);

impl Pending {
    pub(crate) fn add(&self, attention: Attention) {
        self.0.fetch_or(attention.bit(), Ordering::SeqCst);
    }

    pub(crate) fn remove(&self, attention: Attention) {
        self.0.fetch_and(!attention.bit(), Ordering::SeqCst);
    }

    /// What is told next, if anything waits. That is told then.
    pub(crate) fn take(&self) -> Option<Attention> {
        loop {
            let bits = self.0.load(Ordering::Relaxed);
            let first = ALL.get(bits.trailing_zeros() as usize).copied()?;
            if self.0.fetch_and(!first.bit(), Ordering::SeqCst) & first.bit() != 0 {
                return Some(first);
            }
        }
    }

    /// What a transport may tell before a command comes, which leaves it to be told.
    pub(crate) fn peek_urgent(&self) -> Option<Attention> {
        let bits = self.0.load(Ordering::Relaxed);
        ALL.into_iter().find(|one| one.is_urgent() && bits & one.bit() != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_and_the_gravest_first() {
        let pending = Pending::default();
        assert_eq!(pending.take(), None);
        for attention in ALL.into_iter().rev().chain(ALL) {
            pending.add(attention);
        }
        pending.remove(Attention::BusReset);
        let told: Vec<_> = std::iter::from_fn(|| pending.take()).collect();
        let expected: Vec<_> = ALL.into_iter().filter(|one| *one != Attention::BusReset).collect();
        assert_eq!(told, expected);
    }
}
