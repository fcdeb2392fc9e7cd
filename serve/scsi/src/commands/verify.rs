//! VERIFY and WRITE AND VERIFY (SBC-3 5.36 to 5.38, 5.44 to 5.46).
//!
//! Invariant: the medium is read a piece at a time, so that a long range takes no more memory than a short one.

use holdfast_block::Change;
use holdfast_device::Durability;

use crate::answer::{Answer, DataIn, Fault, Outcome, Status};
use crate::cdb::{Cdb, Range};
use crate::command::{Command, Conflict, Run};
use crate::limits::{PIECE_BYTES, check_transfer};
use crate::sense::{Sense, SenseKey, code};
use crate::task::{Task, Wanted, fault};
use crate::unit::Unit;

const VERIFY: Command = Command::new(&[0], Run::Start(verify)).conflict(Conflict::Reads).wanted(wanted_to_verify);
const WRITE: Command = Command::new(&[0], Run::Start(write_and_verify)).changes().partial().wanted(wanted_to_write);

pub(crate) const COMMANDS: &[Command] = &[
    Command { opcode: 0x2f, usage: &[0x2f, 0x16, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], ..VERIFY },
    Command { opcode: 0xaf, usage: &[0xaf, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], ..VERIFY },
    Command {
        opcode: 0x8f,
        usage: &[0x8f, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0],
        ..VERIFY
    },
    Command { opcode: 0x2e, usage: &[0x2e, 0x16, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], ..WRITE },
    Command { opcode: 0xae, usage: &[0xae, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0], ..WRITE },
    Command {
        opcode: 0x8e,
        usage: &[0x8e, 0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0],
        ..WRITE
    },
];

fn range(cdb: &Cdb, unit: &Unit) -> Result<Range, Sense> {
    cdb.range().check(unit).and_then(|range| check_transfer(range, cdb, unit))
}

/// How data are compared: 0 not at all, 1 all of them, 3 one block with each.
fn check_mode(cdb: &Cdb) -> u8 {
    (cdb.u8(1) >> 1) & 3
}

fn wanted_to_verify(cdb: &Cdb, unit: &Unit) -> Result<Wanted, Sense> {
    let range = range(cdb, unit)?;
    match check_mode(cdb) {
        0 => Ok(Wanted::default()),
        _ if range.blocks == 0 => Ok(Wanted::default()),
        1 => Ok(Wanted::list(range.bytes(unit) as usize)),
        3 => Ok(Wanted::list(unit.block_bytes() as usize)),
        _ => Err(Sense::cdb_bit(1, 2)),
    }
}

fn wanted_to_write(cdb: &Cdb, unit: &Unit) -> Result<Wanted, Sense> {
    let range = range(cdb, unit)?;
    match check_mode(cdb) {
        0 | 1 => Ok(Wanted::blocks(range.offset(unit), range.bytes(unit))),
        _ => Err(Sense::cdb_bit(1, 2)),
    }
}

fn verify(task: Task) -> Outcome {
    let range = task.cdb.range();
    task.reading(async move |task| {
        let expected = task.out.bytes();
        compare(&task, range, range.bytes(task.unit()), (!expected.is_empty()).then_some(expected)).await
    })
}

fn write_and_verify(mut task: Task) -> Outcome {
    let range = task.cdb.range();
    let expected = (check_mode(&task.cdb) == 1).then(|| task.out.bytes().to_vec());
    let Some(buf) = task.out.buf.take() else { return task.answered(Ok(DataIn::None)) };
    task.changing(async move |task| {
        let (offset, len) = (range.offset(task.unit()), task.out.len() as u64);
        let started = task.session().change(offset, len, Change::Write(buf), Durability::Durable);
        task.settled(started).await.map_err(|error| fault(&error, range.lba, true))?;
        compare(&task, range, len, expected.as_deref()).await
    })
}

/// Reads the first bytes of a range, and compares it with what is expected: all of it, or one block for each of it.
async fn compare(task: &Task, range: Range, len: u64, expected: Option<&[u8]>) -> Answer {
    let offset = range.offset(task.unit());
    let mut at = 0;
    while at < len {
        if task.is_given_up() {
            return Err(Fault::Status(Status::TaskAborted));
        }
        let piece = PIECE_BYTES.min(len - at);
        let lba = range.lba + at / task.unit().block_bytes();
        let io = task.session().read(offset + at, piece);
        let buf = task.finish(io).await.map_err(|error| fault(&error, lba, false))?;
        let start = ((offset + at) % holdfast_model::BLOCK_BYTES) as usize;
        let found = &buf[start..start + piece as usize];
        if let Some(expected) = expected
            && let Some(differs) = first_difference(found, expected, at as usize)
        {
            return Err(miscompare(at + differs as u64));
        }
        at += piece;
    }
    Ok(DataIn::None)
}

/// Where a piece, which lies at `at` of its range, differs from what is expected; that repeats itself where it is
/// shorter than the range.
fn first_difference(found: &[u8], expected: &[u8], at: usize) -> Option<usize> {
    let mut done = 0;
    while done < found.len() {
        let from = (at + done) % expected.len();
        let len = (expected.len() - from).min(found.len() - done);
        let (one, other) = (&found[done..done + len], &expected[from..from + len]);
        if one != other {
            return one.iter().zip(other).position(|(one, other)| one != other).map(|differs| done + differs);
        }
        done += len;
    }
    None
}

/// Data that differ from this byte on.
pub(super) fn miscompare(at: u64) -> Fault {
    Fault::Check(Sense::new(SenseKey::Miscompare, code::MISCOMPARE).about(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_where_they_are() {
        assert_eq!(first_difference(b"abcabc", b"abc", 0), None);
        assert_eq!(first_difference(b"bcabc", b"abc", 4), None);
        assert_eq!(first_difference(b"abcabd", b"abc", 0), Some(5));
        assert_eq!(first_difference(b"axc", b"abcd", 0), Some(1));
        assert_eq!(first_difference(b"", b"abcd", 0), None);
    }
}
