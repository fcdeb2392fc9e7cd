//! WRITE SAME and UNMAP (SBC-3 5.48, 5.49, 5.35).
//!
//! ```text
//!   block of zeros, or none    ─▶ zeros without a payload; with UNMAP they give the room back
//!   any other block            ─▶ written over and over, a piece at a time
//!   UNMAP                      ─▶ all descriptors are checked, then each range is given back
//! ```
//!
//! Invariant: where the unit says that unmapped blocks read as zeros, all that was unmapped does, parts of blocks too.

use holdfast_block::{Change, blocks_around};
use holdfast_device::{Durability, IoBuf};
use holdfast_model::BLOCK_BYTES;

use crate::answer::{Answer, DataIn, Outcome};
use crate::cdb::{Cdb, Range};
use crate::command::{Command, Run};
use crate::limits::{LIST_BYTES, PIECE_BYTES, UNMAP_BLOCKS, UNMAP_DESCRIPTORS, WRITE_SAME_BLOCKS, length_field};
use crate::sense::Sense;
use crate::task::{Task, Wanted, durability, fault};
use crate::unit::Unit;

const SAME: Command = Command::new(&[0], Run::Start(write_same)).changes().exact().wanted(wanted_same);

pub(crate) const COMMANDS: &[Command] = &[
    Command { opcode: 0x41, usage: &[0x41, 0x18, 0xff, 0xff, 0xff, 0xff, 0x3f, 0xff, 0xff, 0], ..SAME },
    Command {
        opcode: 0x93,
        usage: &[0x93, 0x19, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0],
        ..SAME
    },
    Command::new(&[0x42, 0x01, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0], Run::Start(unmap))
        .changes()
        .thin()
        .wanted(wanted_list),
];

struct Same {
    range: Range,
    anchor: bool,
    unmap: bool,
    no_data: bool,
}

fn same(cdb: &Cdb, unit: &Unit) -> Result<Same, Sense> {
    let (anchor, unmap, no_data) = (cdb.bit(1, 4), cdb.bit(1, 3), cdb.opcode() == 0x93 && cdb.bit(1, 0));
    if unmap && !unit.provisioning().is_thin {
        return Err(Sense::cdb_bit(1, 3));
    }
    if anchor && !unmap {
        return Err(Sense::cdb_bit(1, 4));
    }
    let mut range = cdb.range();
    if range.blocks == 0 {
        // To the end.
        range.blocks = unit.capacity().saturating_sub(range.check(unit)?.lba);
    }
    if range.blocks > WRITE_SAME_BLOCKS {
        return Err(Sense::cdb(length_field(cdb)));
    }
    Ok(Same { range: range.check(unit)?, anchor, unmap, no_data })
}

fn wanted_same(cdb: &Cdb, unit: &Unit) -> Result<Wanted, Sense> {
    let len = if same(cdb, unit)?.no_data { 0 } else { unit.block_bytes() };
    Ok(Wanted::list(len as usize))
}

fn write_same(task: Task) -> Outcome {
    let same = match same(&task.cdb, task.unit()) {
        Ok(same) => same,
        Err(sense) => return task.answered(Err(sense.into())),
    };
    if same.range.blocks == 0 {
        return task.answered(Ok(DataIn::None));
    }
    task.changing(async move |task| {
        let durability = durability(task.unit().mode().writes_through());
        let block = task.out.bytes();
        if block.iter().all(|byte| *byte == 0) {
            let keep_room = same.anchor || !same.unmap;
            return change(&task, same.range, Change::Zeroes { keep_room }, durability).await;
        }
        fill(&task, same.range, block, durability).await
    })
}

/// Writes a block over and over.
async fn fill(task: &Task, range: Range, block: &[u8], durability: Durability) -> Answer {
    let (mut at, end) = (range.offset(task.unit()), range.offset(task.unit()) + range.bytes(task.unit()));
    while at < end {
        // Pieces begin at multiples of their size, so that but the first and the last are of whole blocks.
        let len = (PIECE_BYTES - at % PIECE_BYTES).min(end - at);
        let blocks = blocks_around(at, len);
        let mut buf = IoBuf::new((blocks.end - blocks.start) as usize);
        let start = (at % BLOCK_BYTES) as usize;
        buf[start..start + len as usize]
            .chunks_mut(block.len())
            .for_each(|part| part.copy_from_slice(&block[..part.len()]));
        let started = task.session().change(at, len, Change::Write(buf), durability);
        let lba = at / task.unit().block_bytes();
        task.settled(started).await.map_err(|error| fault(&error, lba, true))?;
        at += len;
    }
    Ok(DataIn::None)
}

async fn change(task: &Task, range: Range, change: Change, durability: Durability) -> Answer {
    let started = task.session().change(range.offset(task.unit()), range.bytes(task.unit()), change, durability);
    task.settled(started).await.map_err(|error| fault(&error, range.lba, true))?;
    Ok(DataIn::None)
}

fn wanted_list(cdb: &Cdb, _: &Unit) -> Result<Wanted, Sense> {
    match cdb.u16(7) {
        len if u32::from(len) > LIST_BYTES => Err(Sense::list_length()),
        len => Ok(Wanted::list(len.into())),
    }
}

/// The ranges of a list.
fn ranges(list: &[u8], unit: &Unit) -> Result<Vec<Range>, Sense> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let head = list.first_chunk::<8>().ok_or(Sense::list_length())?;
    let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let body = list[8..].get(..len).ok_or(Sense::list_length())?;
    let (descriptors, _) = body.as_chunks::<16>();
    if descriptors.len() > UNMAP_DESCRIPTORS as usize {
        return Err(Sense::list(2));
    }
    let (mut ranges, mut all) = (Vec::with_capacity(descriptors.len()), 0);
    for (number, descriptor) in descriptors.iter().enumerate() {
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| descriptor[at + byte]));
        let range = Range { lba: (u64::from(word(0)) << 32) | u64::from(word(4)), blocks: word(8).into() };
        all += range.blocks;
        if all > UNMAP_BLOCKS {
            return Err(Sense::list(8 + 16 * number + 8));
        }
        ranges.push(range.check(unit)?);
    }
    ranges.retain(|range| range.blocks > 0);
    Ok(ranges)
}

fn unmap(task: Task) -> Outcome {
    let ranges = match ranges(task.out.bytes(), task.unit()) {
        Ok(ranges) if ranges.is_empty() => return task.answered(Ok(DataIn::None)),
        Ok(ranges) => ranges,
        Err(sense) => return task.answered(Err(sense.into())),
    };
    task.changing(async move |task| {
        let (anchor, durability) = (task.cdb.bit(1, 0), durability(task.unit().mode().writes_through()));
        for range in ranges {
            let what = match task.unit().provisioning().reads_zeros {
                _ if anchor => Change::Zeroes { keep_room: true },
                true => Change::Zeroes { keep_room: false },
                false => Change::Discard,
            };
            change(&task, range, what, durability).await?;
        }
        Ok(DataIn::None)
    })
}
