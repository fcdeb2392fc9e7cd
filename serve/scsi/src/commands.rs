//! The table of all commands.
//!
//! ```text
//!   inquiry, capacity, ...   each file serves the commands of one subject, and lists them in its COMMANDS
//!   TABLE                    all of these lists; dispatch and REPORT SUPPORTED OPERATION CODES read it
//! ```
//!
//! Invariant: a command is served if and only if it stands here.

mod cache;
mod capacity;
mod compare;
mod groups;
mod inquiry;
mod log;
mod mode;
mod older;
mod persistent;
mod provisioning;
mod read;
mod same;
mod supported;
mod unit;
mod verify;
mod vpd;
mod write;

use crate::answer::Answer;
use crate::cdb::Cdb;
use crate::command::Command;
use crate::copy;
use crate::sense::Sense;
use crate::task::Task;
use crate::unit::Unit;

const SUPPORTED: &[Command] = &supported::commands(operation_codes);

/// The most frequent first.
const TABLE: &[&[Command]] = &[
    read::COMMANDS,
    write::COMMANDS,
    cache::COMMANDS,
    same::COMMANDS,
    compare::COMMANDS,
    unit::COMMANDS,
    inquiry::COMMANDS,
    capacity::COMMANDS,
    mode::COMMANDS,
    persistent::COMMANDS,
    groups::COMMANDS,
    verify::COMMANDS,
    provisioning::COMMANDS,
    log::COMMANDS,
    older::COMMANDS,
    SUPPORTED,
    copy::COMMANDS,
];

fn operation_codes(task: &Task) -> Answer {
    supported::operation_codes(task, |unit| all(unit).collect())
}

/// The commands of a unit.
pub(crate) fn all(unit: &Unit) -> impl Iterator<Item = &'static Command> {
    let thin = unit.provisioning().is_thin;
    TABLE.iter().copied().flatten().filter(move |command| thin || !command.thin)
}

/// The command of a CDB.
pub(crate) fn find(cdb: &Cdb, unit: &Unit) -> Result<&'static Command, Sense> {
    let mut known = false;
    for command in all(unit).filter(|command| command.opcode == cdb.opcode()) {
        known = true;
        if command.action.is_none_or(|action| action == cdb.action()) {
            return Ok(command);
        }
    }
    Err(if known { Sense::cdb_bit(1, 4) } else { Sense::opcode() })
}
