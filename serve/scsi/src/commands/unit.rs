//! Commands about the unit as such: is it ready, what went wrong, start and stop (SPC-4 6.37, 6.47, SBC-3 5.25).

use crate::answer::{Answer, DataIn, Outcome};
use crate::cdb::Cdb;
use crate::command::{Command, Conflict, Reach, Run};
use crate::luns;
use crate::sense::{Sense, SenseKey, code};
use crate::task::Task;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(&[0x00, 0, 0, 0, 0, 0], Run::Now(test_unit_ready)).conflict(Conflict::Reserved),
    Command::new(&[0x03, 0x01, 0, 0, 0xff, 0], Run::Now(request_sense))
        .conflict(Conflict::Never)
        .reach(Reach::Everywhere)
        .quiet(),
    // No power conditions, no medium to eject.
    Command::new(&[0x1b, 0x01, 0, 0, 0x05, 0], Run::Start(start_stop)).milder(start_stop_conflict),
];

fn test_unit_ready(_: &Task) -> Answer {
    Ok(DataIn::None)
}

/// Tells what waits, which is told by that.
fn request_sense(task: &Task) -> Answer {
    let waiting = task.link.party.pending().take();
    let sense = waiting.map_or(Sense::new(SenseKey::NoSense, code::NONE), |attention| attention.sense());
    luns::request_sense(sense, &task.cdb)
}

fn start_stop_conflict(cdb: &Cdb) -> Conflict {
    if cdb.bit(4, 0) { Conflict::Reserved } else { Conflict::Writes }
}

/// The unit does not spin. A stop makes durable what was written, as that of a disk does.
fn start_stop(task: Task) -> Outcome {
    let (start, no_flush) = (task.cdb.bit(4, 0), task.cdb.bit(4, 2));
    if start || no_flush {
        return task.answered(Ok(DataIn::None));
    }
    task.flush()
}
