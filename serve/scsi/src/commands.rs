//! The table of all commands.
//!
//! ```text
//!   inquiry, capacity, ...   each file serves the commands of one subject, and lists them in its COMMANDS
//!   TABLE                    all of these lists; dispatch and REPORT SUPPORTED OPERATION CODES read it
//! ```
//!
//! Invariant: a command is served if and only if it stands here.

mod capacity;
mod inquiry;
mod read;
mod unit;
mod vpd;
mod write;

use crate::cdb::Cdb;
use crate::command::Command;
use crate::copy;
use crate::sense::Sense;

const TABLE: &[&[Command]] =
    &[read::COMMANDS, write::COMMANDS, unit::COMMANDS, inquiry::COMMANDS, capacity::COMMANDS, copy::COMMANDS];

/// All commands.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    TABLE.iter().copied().flatten()
}

/// The command of a CDB.
pub(crate) fn find(cdb: &Cdb) -> Result<&'static Command, Sense> {
    let mut known = false;
    for command in all().filter(|command| command.opcode == cdb.opcode()) {
        known = true;
        if command.action.is_none_or(|action| action == cdb.action()) {
            return Ok(command);
        }
    }
    Err(if known { Sense::cdb_bit(1, 4) } else { Sense::opcode() })
}
