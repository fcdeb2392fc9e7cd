//! READ (SBC-3 5.11 to 5.14).
//!
//! Invariant: data that the disk delivers at once cost no task, and none are copied.

use holdfast_device::{Io, IoBuf, IoError};

use crate::answer::{Answer, DataIn, Outcome};
use crate::cdb::Range;
use crate::command::{Command, Conflict, Run};
use crate::limits::check_transfer;
use crate::task::{Task, fault};

const READ: Command = Command::new(&[0], Run::Start(read)).conflict(Conflict::Reads);

pub(crate) const COMMANDS: &[Command] = &[
    Command { opcode: 0x08, usage: &[0x08, 0x1f, 0xff, 0xff, 0xff, 0], ..READ },
    Command { opcode: 0x28, usage: &[0x28, 0x1a, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], ..READ },
    Command { opcode: 0xa8, usage: &[0xa8, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], ..READ },
    Command {
        opcode: 0x88,
        usage: &[0x88, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0],
        ..READ
    },
];

fn read(task: Task) -> Outcome {
    let range =
        match task.cdb.range().check(task.unit()).and_then(|range| check_transfer(range, &task.cdb, task.unit())) {
            Ok(range) if range.blocks > 0 => range,
            Ok(_) => return task.answered(Ok(DataIn::None)),
            Err(sense) => return task.answered(Err(sense.into())),
        };
    let (offset, len) = (range.offset(task.unit()), range.bytes(task.unit()));
    match task.session().read(offset, len) {
        Io::Ready(Some(outcome)) => task.answered(data(&task, range, outcome)),
        io => task.reading(move |task| async move {
            let outcome = task.finish(io).await;
            data(&task, range, outcome)
        }),
    }
}

fn data(task: &Task, range: Range, outcome: Result<IoBuf, IoError>) -> Answer {
    let (offset, len) = (range.offset(task.unit()), range.bytes(task.unit()));
    let buf = outcome.map_err(|error| fault(&error, range.lba, false))?;
    Ok(DataIn::Block { buf, start: (offset % holdfast_model::BLOCK_BYTES) as usize, len: len as usize })
}
