//! What became of copies: RECEIVE COPY RESULTS, RECEIVE ROD TOKEN INFORMATION, REPORT ALL ROD TOKENS, and COPY OPERATION
//! ABORT (SPC-4 6.3, 6.20 to 6.26, 6.31; SBC-3 5.22).
//!
//! Invariant: an initiator hears of its own copies alone, of those that it sent through this nexus to this unit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::answer::{Answer, DataIn, Outcome, Status};
use crate::sense::Sense;
use crate::task::{Task, cut};

use super::operations::{self, Operation};
use super::page;
use super::rod_token::MANAGEMENT_BYTES;

/// Milliseconds after which it is worth to ask again.
const DELAY: u32 = 50;
/// Nothing more will come.
const NO_DELAY: u32 = 0xffff_fffe;
/// Counts are of blocks of the destination.
const BLOCKS: u8 = 0xf1;

/// The operation of the list identifier in the CDB, which has one byte or four.
fn find(task: &Task, bytes: usize) -> Result<Arc<Operation>, Sense> {
    let list = if bytes == 1 { task.cdb.u8(2).into() } else { task.cdb.u32(2) };
    task.link.party.copies().find(list).ok_or(Sense::cdb(2))
}

fn is_token_command(operation: &Operation) -> bool {
    operation.action >= 0x10
}

fn code_of(operation: &Operation, outcome: Option<&operations::Outcome>) -> u8 {
    let Some(outcome) = outcome else { return if operation.background { 0x12 } else { 0x11 } };
    match outcome.status {
        Status::Good => 0x01,
        Status::TaskAborted => 0x60,
        _ if outcome.partial && is_token_command(operation) => 0x03,
        _ => 0x02,
    }
}

/// The answer to RECEIVE COPY STATUS(LID4), without what is added to it; its length is set by [`measured`].
fn status(operation: &Operation) -> Vec<u8> {
    let outcome = operation.outcome();
    let code = code_of(operation, outcome.as_ref());
    let sense = outcome.as_ref().and_then(|outcome| outcome.sense).map(|sense| sense.descriptor_format());
    let sense = sense.unwrap_or_default();
    let mut data = vec![0; 4];
    data.extend([operation.action as u8, code]);
    data.extend((operation.progress.operations() as u16).to_be_bytes());
    data.extend(if outcome.is_some() { NO_DELAY } else { DELAY }.to_be_bytes());
    data.push(outcome.map_or(0, |outcome| outcome.status as u8));
    data.extend([sense.len().next_multiple_of(4) as u8, sense.len() as u8]);
    let tokens = is_token_command(operation);
    data.push(if tokens { BLOCKS } else { 0 });
    data.extend(if tokens { operation.blocks() } else { operation.progress.done() }.to_be_bytes());
    data.extend(operation.segments.load(Ordering::Relaxed).to_be_bytes());
    data.extend([0; 6]);
    data.extend(&sense);
    data.resize(data.len().next_multiple_of(4), 0);
    data
}

/// The data with their length in the first four bytes.
fn measured(mut data: Vec<u8>) -> Vec<u8> {
    let len = data.len() as u32 - 4;
    data[..4].copy_from_slice(&len.to_be_bytes());
    data
}

pub(super) fn status_lid4(task: &Task) -> Answer {
    let operation = find(task, 4)?;
    cut(measured(status(&operation)), task.cdb.u32(10) as usize)
}

pub(super) fn token_information(task: &Task) -> Answer {
    let operation = find(task, 4)?;
    let mut data = status(&operation);
    let allowed = task.cdb.u32(10) as usize;
    match operation.token().filter(|_| operation.outcome().is_some()) {
        Some(token) => {
            data.extend((token.data().len() as u32 + 2).to_be_bytes());
            data.extend([0, 0]);
            data.extend(token.data());
            // Handed over whole, it is not handed over again.
            if allowed >= data.len() || allowed == 0 {
                operation.forget_token();
            }
        }
        None => data.extend([0; 4]),
    }
    cut(measured(data), allowed)
}

pub(super) fn status_lid1(task: &Task) -> Answer {
    let operation = find(task, 1)?;
    let outcome = operation.outcome();
    let code = match &outcome {
        None => 0,
        Some(outcome) if outcome.status == Status::Good => 1,
        Some(_) => 2,
    };
    let mut data = vec![0, 0, 0, 8, code];
    data.extend(operation.segments.load(Ordering::Relaxed).to_be_bytes());
    let done = operation.progress.done();
    let (unit, count) = match u32::try_from(done) {
        Ok(bytes) => (0, bytes),
        Err(_) => (2, (done >> 20) as u32),
    };
    data.push(unit);
    data.extend(count.to_be_bytes());
    cut(data, task.cdb.u32(10) as usize)
}

/// Nothing is ever held for the initiator.
pub(super) fn held_data_lid1(task: &Task) -> Answer {
    let operation = find(task, 1)?;
    if operation.outcome().is_none() {
        return Err(Sense::cdb(2).into());
    }
    cut(vec![0; 4], task.cdb.u32(10) as usize)
}

pub(super) fn failure_details_lid1(task: &Task) -> Answer {
    let operation = find(task, 1)?;
    let (Some(outcome), true) = (operation.outcome(), operation.action == 0) else { return Err(Sense::cdb(2).into()) };
    if outcome.status == Status::Good || !operation.tell_details() {
        return cut(vec![0; 4], task.cdb.u32(10) as usize);
    }
    let sense =
        outcome.sense.map(|sense| Sense { descriptors: task.unit().mode().descriptor_sense(), ..sense }.bytes());
    let sense = sense.unwrap_or_default();
    let mut data = vec![0; 56];
    data.extend([outcome.status as u8, 0]);
    data.extend((sense.len() as u16).to_be_bytes());
    data.extend(sense);
    cut(measured(data), task.cdb.u32(10) as usize)
}

pub(super) fn operating_parameters(task: &Task) -> Answer {
    cut(page::operating_parameters(), task.cdb.u32(10) as usize)
}

pub(super) fn all_tokens(task: &Task) -> Answer {
    let tokens = &task.unit().shared().copies().tokens;
    let mut data = vec![0; 8];
    for token in tokens.of_object(task.unit().target().object().id()) {
        data.extend(&token.data()[..MANAGEMENT_BYTES]);
    }
    cut(measured(data), task.cdb.u32(10) as usize)
}

pub(super) fn abort(task: Task) -> Outcome {
    match find(&task, 4) {
        Ok(operation) if operation.outcome().is_none() => {
            operation.progress.abort();
            task.reading(|_task| async move {
                operation.over().await;
                Ok(DataIn::None)
            })
        }
        _ => task.answered(Err(Sense::cdb(2).into())),
    }
}
