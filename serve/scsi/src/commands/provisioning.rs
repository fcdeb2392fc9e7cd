//! GET LBA STATUS (SBC-3 5.6).
//!
//! Invariant: the first descriptor begins at the block that was asked for, and each is of one kind.

use holdfast_block::{blocks_around, clip};
use holdfast_device::{Extent, ExtentKind};

use crate::answer::{Answer, Outcome};
use crate::command::{Command, Conflict, Run};
use crate::sense::{Sense, code};
use crate::task::{Task, cut, fault};

pub(crate) const COMMANDS: &[Command] = &[Command::new(
    &[0x9e, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
    Run::Start(get_lba_status),
)
.action(0x12)
.conflict(Conflict::Reads)];

/// Descriptors in one answer at most.
const DESCRIPTORS: usize = 1024;
/// Blocks that one answer covers at most: their number fits a descriptor.
const BLOCKS: u64 = 1 << 31;

fn get_lba_status(task: Task) -> Outcome {
    task.reading(serve)
}

async fn serve(task: Task) -> Answer {
    let (unit, lba, allowed) = (task.unit(), task.cdb.u64(2), task.cdb.u32(10) as usize);
    if lba >= unit.capacity() {
        return Err(Sense::illegal(code::LBA_OUT_OF_RANGE).about(lba).into());
    }
    let block = unit.block_bytes();
    let most = (allowed.saturating_sub(8) / 16).clamp(1, DESCRIPTORS);
    let (offset, len) = (lba * block, BLOCKS.min(unit.capacity() - lba) * block);
    let extents = match unit.provisioning().is_thin {
        false => vec![Extent { len, kind: ExtentKind::Data }],
        true => {
            let blocks = blocks_around(offset, len);
            let io = unit.target().extents(blocks.start, blocks.end - blocks.start, most);
            let extents = task.finish(io).await.map_err(|error| fault(&error, lba, false))?;
            clip(offset, len, extents)
        }
    };
    let (mut at, mut body) = (lba, Vec::new());
    for Extent { len, kind } in extents.into_iter().take(most) {
        let status = match kind {
            ExtentKind::Data => 0,
            ExtentKind::Hole => 1,
            ExtentKind::Zero => 2,
        };
        body.extend(at.to_be_bytes());
        body.extend(((len / block) as u32).to_be_bytes());
        body.extend([status, 0, 0, 0]);
        at += len / block;
    }
    let mut bytes = ((body.len() + 4) as u32).to_be_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(body);
    cut(bytes, allowed)
}
