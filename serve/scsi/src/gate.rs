//! What may keep a command out, in the order in which it is told (SAM-5 5.3.3, SPC-4 5.9).
//!
//! ```text
//!   reservation of another ─▶ what waits to be told ─▶ reservations that cannot be read ─▶ access state ─▶ the command
//! ```
//!
//! Invariant: an attention is cleared only by a command that fails by it.

use crate::answer::Fault;
use crate::cdb::Cdb;
use crate::command::{Command, Reach};
use crate::device::{Link, NexusState};
use crate::ports::AccessState;
use crate::sense::{Sense, SenseKey, code};
use crate::unit::Unit;

/// Whether a command may be served now. `None` is one that nobody knows, or whose form is wrong.
pub(crate) fn pass(command: Option<&Command>, _cdb: &Cdb, nexus: &NexusState, link: &Link) -> Result<(), Fault> {
    if !command.is_some_and(|command| command.quiet)
        && let Some(attention) = link.party.pending().take()
    {
        return Err(Fault::Check(attention.sense()));
    }
    let Some(command) = command else { return Ok(()) };
    let not_ready = |code| Err(Fault::Check(Sense::new(SenseKey::NotReady, code)));
    match (nexus.access(), command.reach) {
        (AccessState::Standby, Reach::Active) => not_ready(code::STANDBY),
        (AccessState::Unavailable, Reach::Active | Reach::Standby) => not_ready(code::UNAVAILABLE),
        _ => Ok(()),
    }
}

/// Whether a command may change the unit.
pub(crate) fn protected(command: &Command, unit: &Unit) -> Result<(), Sense> {
    match command.changes {
        true if unit.is_read_only() => Err(Sense::new(SenseKey::DataProtect, code::WRITE_PROTECTED)),
        true if unit.is_write_protected() => Err(Sense::new(SenseKey::DataProtect, code::SOFTWARE_WRITE_PROTECTED)),
        _ => Ok(()),
    }
}

/// A command that got less data than it needs.
pub(crate) fn short(_command: &Command) -> Fault {
    Fault::Check(Sense::illegal(code::INVALID_FIELD_IN_CDB))
}
