//! SYNCHRONIZE CACHE and PRE-FETCH (SBC-3 5.31, 5.32, 5.8, 5.9).
//!
//! Invariant: what was answered before a SYNCHRONIZE CACHE is durable when that is answered, whatever its range; where that was
//! lost, each nexus is told by one that fails.

use crate::answer::{Answer, DataIn, Outcome};
use crate::command::{Command, Conflict, Run};
use crate::task::Task;

const SYNCHRONIZE: Command = Command::new(&[0], Run::Start(synchronize));
const PREFETCH: Command = Command::new(&[0], Run::Now(prefetch)).conflict(Conflict::Reads);

pub(crate) const COMMANDS: &[Command] = &[
    Command { opcode: 0x35, usage: &[0x35, 0x06, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], ..SYNCHRONIZE },
    Command {
        opcode: 0x91,
        usage: &[0x91, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0],
        ..SYNCHRONIZE
    },
    Command { opcode: 0x34, usage: &[0x34, 0x02, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], ..PREFETCH },
    Command {
        opcode: 0x90,
        usage: &[0x90, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0],
        ..PREFETCH
    },
];

fn synchronize(task: Task) -> Outcome {
    if let Err(sense) = task.cdb.range().check(task.unit()) {
        return task.answered(Err(sense.into()));
    }
    task.flush()
}

/// There is nothing nearer to bring the range to.
fn prefetch(task: &Task) -> Answer {
    task.cdb.range().check(task.unit())?;
    Ok(DataIn::None)
}
