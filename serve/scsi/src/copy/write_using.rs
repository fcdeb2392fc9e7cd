//! WRITE USING TOKEN (SBC-3 5.45).
//!
//! ```text
//!   token ─▶ found, and its holder may read what it stands for ─▶ ranges side by side ─▶ copied ─▶ what the token held is there
//!         └─ zeros: nothing is looked up
//! ```
//!
//! Invariant: what arrives is what the token stood for when it was made. A change of it while it is copied ends the copy,
//! and what was counted until then is right.

use std::ops::Range;
use std::sync::Arc;

use holdfast_block::{CopyError, Order, Piece, Source, TOKEN_BYTES, Token, TokenEnd};
use holdfast_device::IoErrorKind;
use holdfast_device::reactor::spawn_local;

use crate::answer::{Answer, DataIn, Fault, Outcome, Status};
use crate::sense::{Sense, SenseKey};
use crate::task::{Task, durability, fault, settle_cache};

use super::begun::Begun;
use super::block_ranges::{self, DESCRIPTOR, Ground};
use super::codes;
use super::list::List;
use super::reach::{self, Reached};
use super::rod_token::{CHANGE_VULNERABLE, LENGTH, ZERO};

/// Where the token lies.
const TOKEN: usize = 16;
/// Bytes before the ranges.
const HEADER: usize = 536;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    background: bool,
    delete: bool,
    /// Of the data of the token, in bytes.
    offset: u128,
    token: [u8; TOKEN_BYTES],
    ranges: Vec<Range<u64>>,
}

pub(super) fn parse(bytes: &[u8], ground: Ground) -> Result<Request, Sense> {
    let list = List(bytes);
    if bytes.len() < HEADER {
        return Err(Sense::list_length());
    }
    let len = usize::from(list.u16(0));
    if len < 550 {
        return Err(Sense::list(0));
    }
    if list.u16(TOKEN + 6) != LENGTH {
        return Err(Sense::illegal(codes::INVALID_TOKEN_LENGTH));
    }
    let ranges = usize::from(list.u16(534));
    if ranges < DESCRIPTOR {
        return Err(Sense::list(534));
    }
    if ranges != len - 534 {
        return Err(Sense::list(0));
    }
    if bytes.len() < HEADER + ranges {
        return Err(Sense::list_length());
    }
    Ok(Request {
        background: list.bit(2, 0),
        delete: list.bit(2, 1),
        offset: u128::from(list.u64(8)) * u128::from(ground.block_bytes),
        token: list.bytes(TOKEN),
        ranges: block_ranges::parse(list, HEADER, ranges, ground)?,
    })
}

/// What is to be copied.
struct Plan {
    /// None for zeros.
    source: Option<(Reached, Arc<Token>)>,
    pieces: Vec<Piece>,
    /// What lies behind the end of the token's data in the last block.
    rest: Option<Piece>,
    /// Whether there is less than was asked for.
    short: bool,
}

pub(super) fn serve(task: Task) -> Outcome {
    if task.out.len() == 0 {
        return task.answered(Ok(DataIn::None));
    }
    let request = match parse(task.out.bytes(), Ground::of(task.unit())) {
        Ok(request) => request,
        Err(sense) => return task.answered(Err(sense.into())),
    };
    let begun = match Begun::new(&task, Some(task.cdb.u32(6)), task.cdb.action(), request.background) {
        Ok(begun) => begun,
        Err(fault) => return task.answered(Err(fault)),
    };
    let plan = match plan(&task, &request) {
        Ok(plan) => plan,
        Err(fault) => return task.answered(begun.end(Err(fault))),
    };
    let delete = request.delete;
    if request.background {
        let begun_well = task.answered(Ok(DataIn::None));
        spawn_local(async move { write(&task, plan, delete, begun).await });
        return begun_well;
    }
    task.changing(move |task| async move { write(&task, plan, delete, begun).await })
}

fn token_fault(end: TokenEnd) -> Fault {
    let code = match end {
        TokenEnd::Unknown => codes::TOKEN_UNKNOWN,
        TokenEnd::Cancelled => codes::TOKEN_CANCELLED,
        TokenEnd::Expired => codes::TOKEN_EXPIRED,
        TokenEnd::Revoked => codes::TOKEN_REVOKED,
        TokenEnd::Deleted => codes::TOKEN_DELETED,
    };
    Sense::illegal(code).into()
}

fn plan(task: &Task, request: &Request) -> Result<Plan, Fault> {
    match List(&request.token).u32(0) {
        ZERO => {
            let pieces = request.ranges.iter().map(|to| Piece { from: 0, to: to.start, len: to.end - to.start });
            return Ok(Plan { source: None, pieces: pieces.collect(), rest: None, short: false });
        }
        CHANGE_VULNERABLE => {}
        _ => return Err(token_fault_of_kind()),
    }
    let token = task.unit().shared().copies().tokens.find(&request.token).map_err(token_fault)?;
    let object = token.object().ok_or_else(|| token_fault(TokenEnd::Revoked))?;
    let Some(source) = reach::on_object(task, &object) else {
        // Who made it has lost the unit; to anybody else it is no token at all.
        let own = token.owner() == task.nexus.id.initiator.name;
        return Err(token_fault(if own { TokenEnd::Revoked } else { TokenEnd::Unknown }));
    };
    if !source.may_be_read() {
        return Err(Fault::Status(Status::ReservationConflict));
    }
    let overlaps = |one: &Range<u64>| token.ranges().iter().any(|other| one.start < other.end && other.start < one.end);
    if Arc::ptr_eq(&object, task.unit().target().object()) && request.ranges.iter().any(overlaps) {
        // The first write would end the token.
        return Err(Sense::list(HEADER).into());
    }
    let available = u128::from(token.bytes()).saturating_sub(request.offset) as u64;
    if available == 0 {
        return Err(Sense::list(8).into());
    }
    let block = task.unit().block_bytes();
    let wanted = block_ranges::bytes(&request.ranges);
    let moved = wanted.min(available.next_multiple_of(block));
    let (pieces, rest) = side_by_side(token.ranges(), request.offset as u64, &request.ranges, moved);
    Ok(Plan { source: Some((source, token)), pieces, rest, short: moved < wanted })
}

fn token_fault_of_kind() -> Fault {
    Sense::illegal(codes::UNSUPPORTED_TOKEN_TYPE).into()
}

/// The pieces that bring so many bytes of the one list, from an offset on, to the other; and what the other has beyond
/// the end of the first.
fn side_by_side(from: &[Range<u64>], mut skip: u64, to: &[Range<u64>], mut bytes: u64) -> (Vec<Piece>, Option<Piece>) {
    let mut sources = from.iter().filter_map(|range| {
        let skipped = skip.min(range.end - range.start);
        skip -= skipped;
        (range.start + skipped < range.end).then_some(range.start + skipped..range.end)
    });
    let (mut pieces, mut source) = (Vec::new(), 0..0);
    for range in to {
        let mut at = range.start;
        while at < range.end && bytes > 0 {
            if source.is_empty() {
                let Some(next) = sources.next() else {
                    return (pieces, Some(Piece { from: 0, to: at, len: bytes.min(range.end - at) }));
                };
                source = next;
            }
            let len = (source.end - source.start).min(range.end - at).min(bytes);
            pieces.push(Piece { from: source.start, to: at, len });
            (source.start, at, bytes) = (source.start + len, at + len, bytes - len);
        }
    }
    (pieces, None)
}

async fn write(task: &Task, plan: Plan, delete: bool, begun: Begun) -> Answer {
    let Plan { source, pieces, rest, short } = plan;
    let copies = task.unit().shared().copies();
    let stop = || task.is_given_up();
    let holds = || source.as_ref().is_none_or(|(_, token)| token.holds());
    let order = Order {
        source: source.as_ref().map_or(Source::Zeros, |(reached, _)| Source::Data(reached.session(), &holds)),
        destination: task.session(),
        pieces: &pieces,
        durability: durability(task.unit().mode().writes_through()),
        stop: &stop,
    };
    let mut copied = copies.copier.copy(&order, &begun.progress).await;
    if let Some(rest) = rest.filter(|_| copied.is_ok()) {
        let order = Order { source: Source::Zeros, pieces: &[rest], ..order };
        copied = copies.copier.copy(&order, &begun.progress).await;
    }
    if copied.is_ok() {
        copied = settle_cache(task.unit(), order.durability).await.map_err(CopyError::Destination);
    }
    if let Some((_, token)) = &source {
        copies.tokens.used(token);
        if delete {
            copies.tokens.delete(token);
        }
    }
    let lba = pieces.first().map_or(0, |piece| piece.to / begun.block_bytes);
    let ended = match copied {
        Ok(()) if short => Err(begun.underrun()),
        Ok(()) => Ok(()),
        Err(CopyError::Aborted) => Err(Fault::Status(Status::TaskAborted)),
        Err(CopyError::Source(error) | CopyError::Destination(error)) if error.kind == IoErrorKind::GivenUp => {
            Err(Fault::Status(Status::TaskAborted))
        }
        Err(_) if begun.blocks() > 0 => Err(begun.underrun()),
        Err(CopyError::Changed) => Err(token_fault(TokenEnd::Cancelled)),
        Err(CopyError::Source(_)) => {
            Err(Sense::new(SenseKey::CopyAborted, codes::THIRD_PARTY_DEVICE_FAILURE).about(0).into())
        }
        Err(CopyError::Destination(error)) => Err(fault(&error, lba, true)),
    };
    begun.end(ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GROUND: Ground = Ground { capacity: 1000, block_bytes: 512 };

    fn list(len: u16, ranges: u16) -> Vec<u8> {
        let mut list = vec![0; HEADER];
        list[..2].copy_from_slice(&len.to_be_bytes());
        (list[2], list[15]) = (3, 4);
        list[TOKEN + 6..TOKEN + 8].copy_from_slice(&LENGTH.to_be_bytes());
        list[534..536].copy_from_slice(&ranges.to_be_bytes());
        list.extend(8_u64.to_be_bytes());
        list.extend([0, 0, 0, 8, 0, 0, 0, 0]);
        list
    }

    #[test]
    fn lists_are_taken_or_pointed_at() {
        let request = parse(&list(550, 16), GROUND).unwrap();
        assert!(request.background && request.delete);
        let range = 4096..8192;
        assert_eq!((request.offset, &request.ranges[..]), (2048, &[range][..]));
        assert_eq!(parse(&list(550, 16)[..HEADER - 1], GROUND), Err(Sense::list_length()));
        assert_eq!(parse(&list(550, 16)[..HEADER + 15], GROUND), Err(Sense::list_length()));
        assert_eq!(parse(&list(549, 16), GROUND), Err(Sense::list(0)));
        assert_eq!(parse(&list(551, 16), GROUND), Err(Sense::list(0)));
        assert_eq!(parse(&list(550, 15), GROUND), Err(Sense::list(534)));
        let mut short = list(550, 16);
        short[TOKEN + 7] = 0;
        assert_eq!(parse(&short, GROUND), Err(Sense::illegal(codes::INVALID_TOKEN_LENGTH)));
    }

    proptest! {
        #[test]
        fn pieces_are_what_a_byte_by_byte_copy_is(
            from in prop::collection::vec((0..50_u64, 1..20_u64), 1..5),
            skip in 0..60_u64,
            to in prop::collection::vec(1..20_u64, 1..5),
            bytes in 1..100_u64,
        ) {
            let from: Vec<_> = from.into_iter().map(|(start, len)| start..start + len).collect();
            let to: Vec<_> = to.into_iter().enumerate().map(|(at, len)| 100 * at as u64..100 * at as u64 + len).collect();
            let bytes = bytes.min(block_ranges::bytes(&to));
            let mut wanted = to.iter().flat_map(Clone::clone).take(bytes as usize);
            let sources = from.iter().flat_map(Clone::clone).skip(skip as usize);
            let model: Vec<(u64, u64)> = sources.zip(wanted.clone()).collect();
            let (pieces, rest) = side_by_side(&from, skip, &to, bytes);
            let copied = pieces.iter().flat_map(|piece| (0..piece.len).map(|at| (piece.from + at, piece.to + at)));
            prop_assert_eq!(copied.collect::<Vec<_>>(), model.clone());
            // What is beyond begins where data end, and ends within the same range.
            let beyond = wanted.nth(model.len());
            prop_assert_eq!(rest.map(|rest| rest.to), beyond);
        }
    }
}
