//! RESERVE and RELEASE as SPC-2 has them (7.21, 7.16): one nexus has the unit for itself until it gives it back, leaves,
//! or the unit is reset.
//!
//! Invariant: both kinds of reservations are never about at once.

use crate::answer::{Answer, DataIn, Fault, Status};
use crate::command::{Command, Conflict, Reach, Run};
use crate::task::Task;

const fn command(usage: &'static [u8], conflict: Conflict, serve: fn(&Task) -> Answer) -> Command {
    Command::new(usage, Run::Now(serve)).conflict(conflict).reach(Reach::Standby)
}

pub(crate) const COMMANDS: &[Command] = &[
    command(&[0x16, 0, 0, 0, 0, 0], Conflict::Reserved, reserve),
    command(&[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0], Conflict::Reserved, reserve),
    command(&[0x17, 0, 0, 0, 0, 0], Conflict::Never, release),
    command(&[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0], Conflict::Never, release),
];

const CONFLICT: Answer = Err(Fault::Status(Status::ReservationConflict));

fn reserve(task: &Task) -> Answer {
    let table = task.unit().table();
    if table.has_registrants() || !table.reserve(&task.link.party) {
        return CONFLICT;
    }
    Ok(DataIn::None)
}

fn release(task: &Task) -> Answer {
    let table = task.unit().table();
    if table.has_registrants() {
        return CONFLICT;
    }
    table.release(Some(&task.link.party));
    Ok(DataIn::None)
}
