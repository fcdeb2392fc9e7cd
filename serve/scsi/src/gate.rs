//! What may keep a command out, in the order in which it is told (SAM-5 5.3.3, SPC-4 5.9).
//!
//! ```text
//!   reservation of another ─▶ what waits to be told ─▶ reservations that cannot be read ─▶ access state ─▶ the command
//! ```
//!
//! Invariant: an attention is cleared only by a command that fails by it.

use crate::answer::{Fault, Status};
use crate::cdb::Cdb;
use crate::command::{Command, Conflict, Reach};
use crate::device::{Link, NexusState};
use crate::limits::length_field;
use crate::ports::AccessState;
use crate::sense::{Code, Sense, SenseKey, code};
use crate::unit::Unit;

fn not_ready(code: Code) -> Result<(), Fault> {
    Err(Fault::Check(Sense::new(SenseKey::NotReady, code)))
}

/// Whether a reservation of another keeps a command out. `None` is one that nobody knows.
pub(crate) fn reserved(command: Option<&Command>, cdb: &Cdb, link: &Link) -> Result<(), Fault> {
    match command {
        Some(command) if kept_out(command.conflict_of(cdb), link) => Err(Fault::Status(Status::ReservationConflict)),
        _ => Ok(()),
    }
}

/// Whether a command may be served now.
pub(crate) fn pass(command: Option<&Command>, cdb: &Cdb, nexus: &NexusState, link: &Link) -> Result<(), Fault> {
    reserved(command, cdb, link)?;
    if !command.is_some_and(|command| command.quiet)
        && let Some(attention) = link.party.pending().take()
    {
        return Err(Fault::Check(attention.sense()));
    }
    let Some(command) = command else { return Ok(()) };
    if link.unit.table().standing(&link.party).not_ready() && command.conflict != Conflict::Never {
        return not_ready(code::MANUAL_INTERVENTION);
    }
    match (nexus.access(), command.reach) {
        (AccessState::Standby, Reach::Active) => not_ready(code::STANDBY),
        (AccessState::Unavailable, Reach::Active | Reach::Standby) => not_ready(code::UNAVAILABLE),
        _ => Ok(()),
    }
}

/// Whether reservations of others keep such commands of a nexus out of a unit.
pub(crate) fn kept_out(conflict: Conflict, link: &Link) -> bool {
    let standing = link.unit.table().standing(&link.party);
    match conflict {
        Conflict::Never => false,
        Conflict::Reserved => standing.older_out(),
        Conflict::Reads => standing.readers_out(),
        Conflict::Writes => standing.writers_out(),
    }
}

/// Whether a command may change the unit.
pub(crate) fn protected(command: &Command, unit: &Unit) -> Result<(), Sense> {
    match command.changes {
        true if unit.is_read_only() => Err(Sense::new(SenseKey::DataProtect, code::WRITE_PROTECTED)),
        true if unit.mode().is_write_protected() => {
            Err(Sense::new(SenseKey::DataProtect, code::SOFTWARE_WRITE_PROTECTED))
        }
        _ => Ok(()),
    }
}

/// Whether the data that the initiator means to send are those that a command takes.
pub(crate) fn amount(command: &Command, cdb: &Cdb, wanted: usize, sent: u32) -> Result<(), Fault> {
    let sent = sent as usize;
    if command.exact && wanted != sent {
        return Err(Fault::Check(Sense::cdb(length_field(cdb))));
    }
    if wanted > sent && !command.partial {
        return Err(Fault::Check(Sense::illegal(code::INVALID_FIELD_IN_INFORMATION_UNIT)));
    }
    Ok(())
}
