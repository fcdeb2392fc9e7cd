//! EXTENDED COPY: segment after segment, in the order of the list (SPC-4 5.17.7, 6.4.6).
//!
//! ```text
//!   segment ─▶ source and destination are reached, may be read and written, and hold its ranges ─▶ copied
//!   error   ─▶ COPY ABORTED, with the number of the segment, and what of it is missing at the destination
//! ```
//!
//! Invariant: a segment begins when those before it are done, so it may read what they wrote.

use std::sync::atomic::Ordering;

use holdfast_block::{CopyError, Order, Piece, Source};
use holdfast_device::IoErrorKind;
use holdfast_device::reactor::spawn_local;

use crate::answer::{DataIn, Fault, Outcome, Response, Running, Status};
use crate::sense::{Code, Sense, SenseKey, code};
use crate::task::{Task, durability, response, settle_cache};

use super::begun::Begun;
use super::codes;
use super::extended::{self, Cscd, Request, Segment};
use super::limits::SEGMENT_BYTES;
use super::reach::{self, Reached};

/// The types of segments that are known, in order.
pub(super) const SEGMENT_TYPES: [u8; 3] = [0x02, 0x07, 0x0a];
/// The unit that the command was sent to.
const ITSELF: u16 = 0xffff;

pub(super) fn serve(task: Task) -> Outcome {
    if task.out.len() == 0 {
        return task.answered(Ok(DataIn::None));
    }
    let parsed = match task.cdb.action() {
        0 => extended::parse_lid1(task.out.bytes()),
        _ => extended::parse_lid4(task.out.bytes()),
    };
    let request = match parsed {
        Ok(request) => request,
        Err(sense) => return task.answered(Err(sense.into())),
    };
    let begun = match Begun::new(&task, request.list, task.cdb.action(), request.background) {
        Ok(begun) => begun,
        Err(fault) => return task.answered(Err(fault)),
    };
    if request.background {
        let begun_well = task.answered(Ok(DataIn::None));
        spawn_local(async move {
            let ended = run(&task, &request, &begun).await;
            begun.end(ended)
        });
        return begun_well;
    }
    let (fate, descriptors) = (task.fate.clone(), task.unit().mode().descriptor_sense());
    Outcome::Later(Running::changing(fate, async move {
        let ended = run(&task, &request, &begun).await;
        let segments = begun.segments.load(Ordering::Relaxed);
        let answer = response(begun.end(ended), descriptors);
        if request.tells_good && answer.status == Status::Good {
            let told = Sense::new(SenseKey::Completed, codes::COPY_INFORMATION_AVAILABLE);
            return Response { sense: Some(Sense { descriptors, ..told.specifically(segments.into()) }), ..answer };
        }
        answer
    }))
}

async fn run(task: &Task, request: &Request, begun: &Begun) -> Result<(), Fault> {
    let count = request.segments.len();
    for (number, segment) in request.segments.iter().enumerate() {
        begun.segments.store(number as u16 + 1, Ordering::Relaxed);
        let last = number + 1 == count;
        process(task, request, segment, last, begun).await.map_err(|fault| match fault {
            Fault::Check(sense) => Fault::Check(sense.specifically(number as u64)),
            fault => fault,
        })?;
    }
    Ok(())
}

/// The copy is given up, because of the byte at `at` of the list.
fn aborted(code: Code, at: usize) -> Sense {
    Sense { field: Sense::list(at).field, ..Sense::new(SenseKey::CopyAborted, code) }
}

/// The unit of an identifier, which stands at `at`, and its descriptor.
fn resolve<'a>(task: &Task, request: &'a Request, id: u16, at: usize) -> Result<(Reached, Option<&'a Cscd>), Sense> {
    if id == ITSELF {
        return Ok((Reached::own(task), None));
    }
    let cscd = request.cscds.get(usize::from(id)).ok_or(aborted(codes::UNREACHABLE_COPY_TARGET, at))?;
    if cscd.device_type != 0 {
        return Err(aborted(codes::WRONG_DEVICE_TYPE, cscd.at));
    }
    let reached = reach::named(task, cscd).ok_or(aborted(codes::NOT_REACHABLE, cscd.at))?;
    if cscd.block_bytes != 0 && u64::from(cscd.block_bytes) != reached.unit().block_bytes() {
        return Err(aborted(code::INVALID_FIELD_IN_LIST, cscd.at + 29));
    }
    Ok((reached, Some(cscd)))
}

/// A range of bytes within a unit; the address stands at `at`.
fn range(reached: &Reached, lba: u64, skip: u64, len: u64, at: usize) -> Result<u64, Sense> {
    let block = reached.unit().block_bytes();
    let start = lba.checked_mul(block).and_then(|start| start.checked_add(skip));
    let end = start.and_then(|start| start.checked_add(len));
    match (start, end) {
        (Some(start), Some(end)) if end <= reached.unit().capacity() * block => Ok(start),
        _ => Err(aborted(code::LBA_OUT_OF_RANGE, at)),
    }
}

/// What a segment moves: a piece, zeros behind it, and how much in bytes.
struct Moved {
    piece: Piece,
    padding: u64,
}

/// What is read in whole blocks of one size and written in those of another, and how what is left over is dealt with
/// (SPC-4 table 116).
fn rest(bytes: u64, block: u64, pads: bool, drops: bool) -> Result<(u64, u64), ()> {
    match bytes % block {
        0 => Ok((bytes, 0)),
        over if pads => Ok((bytes, block - over)),
        over if drops => Ok((bytes - over, 0)),
        _ => Err(()),
    }
}

async fn process(task: &Task, request: &Request, segment: &Segment, last: bool, begun: &Begun) -> Result<(), Fault> {
    let at = segment.at;
    let (source, source_cscd) = resolve(task, request, segment.source, at + 4)?;
    let source_at = source_cscd.map_or(at + 4, |cscd| cscd.at);
    if let extended::Task::Verify = segment.task {
        return Ok(());
    }
    let (destination, destination_cscd) = resolve(task, request, segment.destination, at + 6)?;
    let destination_at = destination_cscd.map_or(at + 6, |cscd| cscd.at);
    if !source.may_be_read() {
        return Err(aborted(codes::THIRD_PARTY_DEVICE_FAILURE, source_at).into());
    }
    if !destination.may_be_written() {
        return Err(aborted(codes::THIRD_PARTY_DEVICE_FAILURE, destination_at).into());
    }
    let (from_block, to_block) = (source.unit().block_bytes(), destination.unit().block_bytes());
    let moved = match segment.task {
        extended::Task::Verify => return Ok(()),
        extended::Task::Bytes { bytes, from, to } => {
            let len = u64::from(bytes);
            if len > SEGMENT_BYTES {
                return Err(aborted(code::INVALID_FIELD_IN_LIST, at + 8).into());
            }
            let outside = |(_, skip): (u64, u16), block| u64::from(skip) >= block;
            if outside(from, from_block) {
                return Err(aborted(code::INVALID_FIELD_IN_LIST, at + 28).into());
            }
            if outside(to, to_block) {
                return Err(aborted(code::INVALID_FIELD_IN_LIST, at + 30).into());
            }
            let from = range(&source, from.0, from.1.into(), len, at + 12)?;
            let to = range(&destination, to.0, to.1.into(), len, at + 20)?;
            Moved { piece: Piece { from, to, len }, padding: 0 }
        }
        extended::Task::Blocks { blocks, from, to, of_destination, keep_rest } => {
            let bytes = u64::from(blocks) * if of_destination { to_block } else { from_block };
            let pad = |cscd: Option<&Cscd>| cscd.is_some_and(|cscd| cscd.pad);
            let (source_pads, destination_pads) = (pad(source_cscd), pad(destination_cscd));
            // What would be kept for the next segment is dropped behind the last; before it, nothing is kept here.
            let drops = (keep_rest && last) || (!keep_rest && (source_pads || (destination_pads && last)));
            let inexact = |()| aborted(codes::INEXACT_SEGMENT, at + 1);
            let (len, padding) = rest(bytes, to_block, !keep_rest && destination_pads, drops).map_err(inexact)?;
            // Of the source's last block, more may be read than is wanted.
            rest(bytes, from_block, false, drops).map_err(inexact)?;
            let from = range(&source, from, 0, bytes.next_multiple_of(from_block), at + 12)?;
            let to = range(&destination, to, 0, len + padding, at + 20)?;
            Moved { piece: Piece { from, to, len }, padding }
        }
    };
    copy(task, (&source, source_at), (&destination, destination_at), &moved, begun).await
}

async fn copy(
    task: &Task,
    (source, source_at): (&Reached, usize),
    (destination, destination_at): (&Reached, usize),
    moved: &Moved,
    begun: &Begun,
) -> Result<(), Fault> {
    let before = begun.progress.done();
    let copier = &task.unit().shared().copies().copier;
    let (stop, holds) = (|| task.is_given_up(), || true);
    let Piece { to, len, .. } = moved.piece;
    let order = Order {
        source: Source::Data(source.session(), &holds),
        destination: destination.session(),
        pieces: &[moved.piece],
        durability: durability(destination.unit().mode().writes_through()),
        stop: &stop,
    };
    let mut copied = copier.copy(&order, &begun.progress).await;
    if moved.padding > 0 && copied.is_ok() {
        let padding = Piece { from: 0, to: to + len, len: moved.padding };
        let order = Order { source: Source::Zeros, pieces: &[padding], ..order };
        copied = copier.copy(&order, &begun.progress).await;
    }
    if copied.is_ok() {
        let settled = settle_cache(destination.unit(), order.durability).await;
        copied = settled.map_err(CopyError::Destination);
    }
    let at = match copied {
        Ok(()) => return Ok(()),
        Err(CopyError::Aborted) => return Err(Fault::Status(Status::TaskAborted)),
        Err(CopyError::Source(error) | CopyError::Destination(error)) if error.kind == IoErrorKind::GivenUp => {
            return Err(Fault::Status(Status::TaskAborted));
        }
        Err(CopyError::Source(_) | CopyError::Changed) => source_at,
        Err(CopyError::Destination(_)) => destination_at,
    };
    let sense = aborted(codes::THIRD_PARTY_DEVICE_FAILURE, at);
    let block = destination.unit().block_bytes();
    let done = (begun.progress.done() - before) / block;
    let all = (len + moved.padding).div_ceil(block);
    Err(if done > 0 { sense.about(all - done).into() } else { sense.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_is_padded_dropped_or_refused() {
        assert_eq!(rest(8192, 4096, false, false), Ok((8192, 0)));
        assert_eq!(rest(5120, 4096, true, false), Ok((5120, 3072)));
        assert_eq!(rest(5120, 4096, false, true), Ok((4096, 0)));
        assert_eq!(rest(5120, 4096, false, false), Err(()));
    }
}
