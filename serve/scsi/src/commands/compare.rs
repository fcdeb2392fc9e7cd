//! COMPARE AND WRITE, and ORWRITE (SBC-3 5.2, 5.7).
//!
//! Invariant: between the reading and the write nobody else writes the blocks, by whatever front end.

use holdfast_block::Compared;

use crate::answer::{DataIn, Outcome};
use crate::cdb::{Cdb, Range};
use crate::command::{Command, Run};
use crate::commands::verify::miscompare;
use crate::limits::{COMPARE_AND_WRITE_BYTES, check_transfer};
use crate::sense::Sense;
use crate::task::{Task, Wanted, durability, fault};
use crate::unit::Unit;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(
        &[0x89, 0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0xff, 0x3f, 0],
        Run::Start(compare_and_write),
    )
    .changes()
    .exact()
    .wanted(wanted),
    Command::new(
        &[0x8b, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0],
        Run::Start(or_write),
    )
    .changes()
    .wanted(wanted_to_or),
];

fn range(cdb: &Cdb) -> Range {
    Range { lba: cdb.u64(2), blocks: cdb.u8(13).into() }
}

fn wanted(cdb: &Cdb, unit: &Unit) -> Result<Wanted, Sense> {
    let range = range(cdb);
    if range.blocks > COMPARE_AND_WRITE_BYTES / unit.block_bytes() {
        return Err(Sense::cdb(13));
    }
    Ok(Wanted::list(2 * range.check(unit)?.bytes(unit) as usize))
}

fn compare_and_write(task: Task) -> Outcome {
    let range = range(&task.cdb);
    if range.blocks == 0 {
        return task.answered(Ok(DataIn::None));
    }
    task.changing(async move |task| {
        let durability = durability(task.cdb.bit(1, 3) || task.unit().mode().writes_through());
        let (expected, data) = task.out.bytes().split_at(task.out.len() / 2);
        let offset = range.offset(task.unit());
        let outcome = task.session().compare_and_write(offset, expected, data, durability, task.fate.given_up()).await;
        match outcome.map_err(|error| fault(&error, range.lba, true))? {
            Compared::Same => Ok(DataIn::None),
            Compared::Differs(at) => Err(miscompare(at)),
        }
    })
}

fn wanted_to_or(cdb: &Cdb, unit: &Unit) -> Result<Wanted, Sense> {
    let range = cdb.range().check(unit).and_then(|range| check_transfer(range, cdb, unit))?;
    Ok(Wanted::list(range.bytes(unit) as usize))
}

fn or_write(task: Task) -> Outcome {
    let range = task.cdb.range();
    if range.blocks == 0 {
        return task.answered(Ok(DataIn::None));
    }
    task.changing(async move |task| {
        let durability = durability(task.cdb.bit(1, 3) || task.unit().mode().writes_through());
        let (offset, data) = (range.offset(task.unit()), task.out.bytes());
        let or = |found: &mut [u8]| -> Option<()> {
            found.iter_mut().zip(data).for_each(|(byte, other)| *byte |= other);
            None
        };
        let outcome = task.session().update(offset, data.len() as u64, durability, task.fate.given_up(), or).await;
        outcome.map(|_| DataIn::None).map_err(|error| fault(&error, range.lba, true))
    })
}
