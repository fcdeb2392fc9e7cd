//! WRITE (SBC-3 5.39 to 5.42).
//!
//! Invariant: data are written from the buffer that they were received into. Where less came than the command takes, that
//! much is written; how much is missing is for the transport to tell.

use holdfast_block::{Change, Started};
use holdfast_device::Durability;

use crate::answer::{DataIn, Outcome};
use crate::cdb::{Cdb, Range};
use crate::command::{Command, Run};
use crate::limits::check_transfer;
use crate::sense::Sense;
use crate::task::{Task, Wanted, durability, fault, settle_cache};
use crate::unit::Unit;

const WRITE: Command = Command::new(&[0], Run::Start(write)).changes().partial().wanted(wanted);

pub(crate) const COMMANDS: &[Command] = &[
    Command { opcode: 0x0a, usage: &[0x0a, 0x1f, 0xff, 0xff, 0xff, 0], ..WRITE },
    Command { opcode: 0x2a, usage: &[0x2a, 0x1a, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], ..WRITE },
    Command { opcode: 0xaa, usage: &[0xaa, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], ..WRITE },
    Command {
        opcode: 0x8a,
        usage: &[0x8a, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0],
        ..WRITE
    },
];

fn range(cdb: &Cdb, unit: &Unit) -> Result<Range, Sense> {
    cdb.range().check(unit).and_then(|range| check_transfer(range, cdb, unit))
}

fn wanted(cdb: &Cdb, unit: &Unit) -> Result<Wanted, Sense> {
    let range = range(cdb, unit)?;
    Ok(Wanted::blocks(range.offset(unit), range.bytes(unit)))
}

fn write(mut task: Task) -> Outcome {
    let range = match range(&task.cdb, task.unit()) {
        Ok(range) => range,
        Err(sense) => return task.answered(Err(sense.into())),
    };
    let Some(buf) = task.out.buf.take() else { return task.answered(Ok(DataIn::None)) };
    let fua = task.cdb.opcode() != 0x0a && task.cdb.bit(1, 3);
    let (offset, len) = (range.offset(task.unit()), task.out.len() as u64);
    let durability = durability(fua || task.unit().mode().writes_through());
    match task.session().change(offset, len, Change::Write(buf), durability) {
        // The write cache was turned off meanwhile: it may have been emptied before the data came to it.
        Started::Answered(Ok(())) if durability == Durability::Cached && task.unit().mode().writes_through() => task
            .changing(move |task| async move {
                let settled = settle_cache(task.unit(), durability).await;
                settled.map(|()| DataIn::None).map_err(|error| fault(&error, range.lba, true))
            }),
        Started::Answered(outcome) => {
            task.answered(outcome.map(|()| DataIn::None).map_err(|error| fault(&error, range.lba, true)))
        }
        Started::Later(later) => task.changing(move |task| async move {
            let outcome = task.settle(later).await;
            outcome.map(|()| DataIn::None).map_err(|error| fault(&error, range.lba, true))
        }),
    }
}
