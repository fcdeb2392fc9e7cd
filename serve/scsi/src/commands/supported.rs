//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-4 6.35, 6.36).
//!
//! Invariant: what is reported is read from the table that commands are dispatched by.

use crate::answer::Answer;
use crate::cdb::CDB_BYTES;
use crate::command::{Command, Conflict, Reach, Run};
use crate::sense::Sense;
use crate::task::{Task, cut};
use crate::unit::Unit;

/// The table, handed in: it lists these commands, too.
type Table = fn(&Unit) -> Vec<&'static Command>;

const fn report(usage: &'static [u8], action: u16, serve: fn(&Task) -> Answer) -> Command {
    Command::new(usage, Run::Now(serve)).action(action).conflict(Conflict::Reads).reach(Reach::Everywhere)
}

/// The commands, of which the first is served by what reads the table.
pub(crate) const fn commands(codes: fn(&Task) -> Answer) -> [Command; 2] {
    [
        report(&[0xa3, 0x0c, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0], 0x0c, codes),
        report(&[0xa3, 0x0d, 0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], 0x0d, functions),
    ]
}

/// How long commands take is not told in figures; that they may be asked for is.
const TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Answers REPORT SUPPORTED OPERATION CODES from a table.
pub(crate) fn operation_codes(task: &Task, table: Table) -> Answer {
    let (cdb, commands) = (&task.cdb, table(task.unit()));
    let (timeouts, allowed) = (cdb.bit(2, 7), cdb.u32(6) as usize);
    let (opcode, action) = (cdb.u8(3), cdb.u16(4));
    let of_code = |command: &&&Command| command.opcode == opcode;
    let has_actions = commands.iter().find(of_code).is_some_and(|command| command.action.is_some());
    let known = commands.iter().any(|command| command.opcode == opcode);
    let meant = match cdb.u8(2) & 7 {
        0 => return cut(all(&commands, timeouts), allowed),
        1 if has_actions => return Err(Sense::cdb(3).into()),
        2 if known && !has_actions => return Err(Sense::cdb(4).into()),
        1 => None,
        2 => Some(action),
        3 if has_actions => Some(action),
        3 if action == 0 => None,
        3 => return cut(one(None, timeouts), allowed),
        _ => return Err(Sense::cdb_bit(2, 2).into()),
    };
    let found = commands.iter().find(|command| command.opcode == opcode && command.action == meant);
    cut(one(found.copied(), timeouts), allowed)
}

fn all(commands: &[&Command], timeouts: bool) -> Vec<u8> {
    let mut body = Vec::new();
    for command in commands {
        body.extend([command.opcode, 0]);
        body.extend(command.action.unwrap_or(0).to_be_bytes());
        body.extend([0, u8::from(command.action.is_some()) | if timeouts { 2 } else { 0 }]);
        body.extend((command.usage.len() as u16).to_be_bytes());
        if timeouts {
            body.extend(TIMEOUTS);
        }
    }
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

fn one(command: Option<&Command>, timeouts: bool) -> Vec<u8> {
    let Some(command) = command else { return vec![0, 1, 0, 0] };
    let mut bytes = vec![0, 3 | if timeouts { 0x80 } else { 0 }];
    bytes.extend((command.usage.len().min(CDB_BYTES) as u16).to_be_bytes());
    bytes.extend(command.usage);
    if let Some(action) = command.action {
        bytes[5] = (bytes[5] & 0xe0) | action as u8;
    }
    if timeouts {
        bytes.extend(TIMEOUTS);
    }
    bytes
}

fn functions(task: &Task) -> Answer {
    let allowed = task.cdb.u32(6) as usize;
    if allowed < 4 {
        return Err(Sense::cdb(6).into());
    }
    // ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET, TARGET RESET.
    let mut bytes = vec![0xda, 0, 0, 0];
    if task.cdb.bit(2, 7) {
        bytes[3] = 12;
        bytes.extend([0; 12]);
    }
    cut(bytes, allowed)
}
