//! POPULATE TOKEN (SBC-3 5.11).
//!
//! A token is made at once, whether the initiator would wait for it or not.

use std::ops::Range;
use std::time::Duration;

use holdfast_block::TokenSource;

use crate::answer::{Answer, DataIn, Fault, Outcome, Status};
use crate::sense::Sense;
use crate::task::Task;

use super::begun::Begun;
use super::block_ranges::{self, DESCRIPTOR, Ground};
use super::codes;
use super::limits::{DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS};
use super::list::List;
use super::rod_token::{self, ANY_POINT_IN_TIME, CHANGE_VULNERABLE, POINT_IN_TIME};

/// Bytes before the ranges.
const HEADER: usize = 16;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    timeout: Duration,
    ranges: Vec<Range<u64>>,
}

pub(super) fn parse(bytes: &[u8], ground: Ground) -> Result<Request, Sense> {
    let list = List(bytes);
    if bytes.len() < HEADER {
        return Err(Sense::list_length());
    }
    let len = usize::from(list.u16(0));
    if len < 30 {
        return Err(Sense::list(0));
    }
    let seconds = match list.u32(4) {
        0 => DEFAULT_TIMEOUT_SECONDS,
        seconds if seconds > MAX_TIMEOUT_SECONDS => return Err(Sense::list(4)),
        seconds => seconds,
    };
    let wants_kind = list.bit(2, 1);
    if wants_kind && ![POINT_IN_TIME, CHANGE_VULNERABLE, ANY_POINT_IN_TIME].contains(&list.u32(8)) {
        return Err(Sense::list(8));
    }
    let ranges = usize::from(list.u16(14));
    if ranges < DESCRIPTOR || ranges > len - 14 {
        return Err(Sense::list(14));
    }
    // Those that the command did not send whole are left out.
    let sent = ranges.min(bytes.len() - HEADER);
    let ranges = block_ranges::parse(list, HEADER, sent, ground)?;
    Ok(Request { timeout: Duration::from_secs(seconds.into()), ranges })
}

pub(super) fn serve(task: Task) -> Outcome {
    if task.out.len() == 0 {
        return task.answered(Ok(DataIn::None));
    }
    match parse(task.out.bytes(), Ground::of(task.unit())) {
        Ok(request) => task.reading(|task| async move { populate(&task, request).await }),
        Err(sense) => task.answered(Err(sense.into())),
    }
}

async fn populate(task: &Task, request: Request) -> Answer {
    let begun = Begun::new(task, Some(task.cdb.u32(6)), task.cdb.action(), false)?;
    let made = make(task, request, &begun).await;
    begun.end(made)
}

async fn make(task: &Task, request: Request, begun: &Begun) -> Result<(), Fault> {
    let Request { timeout, ranges } = request;
    let (unit, object) = (task.unit(), task.unit().target().object().clone());
    let watched = object.watch_all(&ranges).await;
    if task.is_given_up() {
        return Err(Fault::Status(Status::TaskAborted));
    }
    let bytes = block_ranges::bytes(&ranges);
    let owner = task.nexus.id.initiator.name.clone();
    let source = TokenSource { owner, object, ranges, watched, timeout };
    let device = task.nexus.device.name();
    let form = |token: &mut [u8]| rod_token::form(token, unit, device, bytes);
    let issued = unit.shared().copies().tokens.issue(source, form);
    let token = issued.map_err(|_| Sense::illegal(codes::NO_ROOM_FOR_TOKEN))?;
    begun.progress.add(bytes);
    begun.set_token(token);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUND: Ground = Ground { capacity: 1000, block_bytes: 512 };

    fn list(len: u16, flags: u8, timeout: u32, kind: u32, ranges: u16) -> Vec<u8> {
        let mut list = len.to_be_bytes().to_vec();
        list.extend([flags, 0]);
        list.extend(timeout.to_be_bytes());
        list.extend(kind.to_be_bytes());
        list.extend([0, 0]);
        list.extend(ranges.to_be_bytes());
        for lba in [8_u64, 100] {
            list.extend(lba.to_be_bytes());
            list.extend([0, 0, 0, 8, 0, 0, 0, 0]);
        }
        list
    }

    #[test]
    fn lists_are_taken_as_the_standard_has_them() {
        let good = Request { timeout: Duration::from_secs(60), ranges: vec![4096..8192, 51_200..55_296] };
        assert_eq!(parse(&list(46, 0, 0, 7, 32), GROUND), Ok(good));
        for kind in [POINT_IN_TIME, CHANGE_VULNERABLE, ANY_POINT_IN_TIME] {
            assert!(parse(&list(46, 2, 9, kind, 32), GROUND).is_ok());
        }
        // Ranges that were not sent whole are left out.
        let cut = parse(&list(46, 1, 0, 0, 32)[..47], GROUND).unwrap();
        let range = 4096..8192;
        assert_eq!(cut.ranges[..], [range]);
    }

    #[test]
    fn wrong_lists_are_pointed_at() {
        assert_eq!(parse(&list(46, 0, 0, 0, 32)[..15], GROUND), Err(Sense::list_length()));
        assert_eq!(parse(&list(29, 0, 0, 0, 32), GROUND), Err(Sense::list(0)));
        assert_eq!(parse(&list(46, 0, MAX_TIMEOUT_SECONDS + 1, 0, 32), GROUND), Err(Sense::list(4)));
        for kind in [0x0001_0000, 0x0080_0002, 0xffff_0001] {
            assert_eq!(parse(&list(46, 2, 0, kind, 32), GROUND), Err(Sense::list(8)), "{kind:x}");
        }
        assert_eq!(parse(&list(46, 0, 0, 0, 15), GROUND), Err(Sense::list(14)));
        assert_eq!(parse(&list(45, 0, 0, 0, 32), GROUND), Err(Sense::list(14)));
    }
}
