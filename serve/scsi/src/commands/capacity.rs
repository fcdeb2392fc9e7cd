//! READ CAPACITY (SBC-3 5.15, 5.16).

use crate::answer::Answer;
use crate::command::{Command, Conflict, Run};
use crate::sense::Sense;
use crate::task::{Task, cut};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(&[0x25, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0x01, 0], Run::Now(read_capacity_10))
        .conflict(Conflict::Reserved),
    Command::new(
        &[0x9e, 0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0],
        Run::Now(read_capacity_16),
    )
    .action(0x10)
    .conflict(Conflict::Reserved),
];

fn read_capacity_10(task: &Task) -> Answer {
    let unit = task.unit();
    if !task.cdb.bit(8, 0) && task.cdb.u32(2) != 0 {
        return Err(Sense::cdb(2).into());
    }
    let last = unit.capacity().saturating_sub(1);
    let mut bytes = u32::try_from(last).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    bytes.extend((unit.block_bytes() as u32).to_be_bytes());
    cut(bytes, usize::MAX)
}

fn read_capacity_16(task: &Task) -> Answer {
    let unit = task.unit();
    if !task.cdb.bit(14, 0) && task.cdb.u64(2) != 0 {
        return Err(Sense::cdb(2).into());
    }
    let mut bytes = unit.capacity().saturating_sub(1).to_be_bytes().to_vec();
    bytes.extend((unit.block_bytes() as u32).to_be_bytes());
    bytes.resize(32, 0);
    bytes[13] = unit.settings().blocks.per_physical_exponent();
    if unit.provisioning().is_thin {
        bytes[14] |= 0x80;
        bytes[14] |= if unit.provisioning().reads_zeros { 0x40 } else { 0 };
    }
    cut(bytes, task.cdb.u32(10) as usize)
}
