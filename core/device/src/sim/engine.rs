//! The inside of a simulated disk: takes requests, carries them out against its content, and bears its faults.
//!
//! Invariant: every accepted request is answered exactly once, unless the power goes; what it changes is settled before
//! its answer is given.

use std::collections::BTreeMap;
use std::ops::Range;

use super::content::{Content, Unfinished};
use super::disk::{SimCounters, SimDiskSpec};
use super::faults::{Faults, Stray};
use super::latency::{Mechanics, Served};
use super::random::{Stream, mix};
use super::request::{Operation, Reply, ReplySlot, Request};
use crate::{Durability, IoError, IoErrorKind};

/// How far a request came.
pub(super) enum Progress {
    /// A part is done, the rest follows.
    Later,
    /// It is over.
    Answered(ReplySlot, Reply),
}

pub(super) struct Engine {
    pub(super) spec: SimDiskSpec,
    pub(super) content: Content,
    pub(super) faults: Faults,
    pub(super) counters: SimCounters,
    pub(super) present: bool,
    pub(super) answers: u64,
    mechanics: Mechanics,
    in_flight: BTreeMap<u64, Request>,
    position: u64,
}

impl Engine {
    pub(super) fn new(spec: SimDiskSpec, seed: u64) -> Self {
        let content = Content::new(spec.tear_bytes as usize, spec.cache_bytes, spec.garbage.then(|| mix(seed, 3)));
        let mechanics = Mechanics::new(spec.latency);
        Self {
            spec,
            content,
            faults: Faults::default(),
            counters: SimCounters::default(),
            present: true,
            answers: 0,
            mechanics,
            in_flight: BTreeMap::new(),
            position: 0,
        }
    }

    pub(super) fn is_timed(&self) -> bool {
        self.mechanics.is_timed()
    }

    pub(super) fn request_mut(&mut self, number: u64) -> Option<&mut Request> {
        self.in_flight.get_mut(&number)
    }

    pub(super) fn accept(&mut self, number: u64, mut request: Request, now: u64, random: &mut Stream) -> Served {
        request.gone = !self.present;
        let work = request.operation.work(number);
        let gone = request.gone;
        self.in_flight.insert(number, request);
        if gone { Served::Anytime } else { self.mechanics.accept(work, now, self.spec.size_bytes, random) }
    }

    pub(super) fn finished(&mut self, number: u64, now: u64, random: &mut Stream) -> Option<(u64, u64)> {
        self.mechanics.finished(number, now, self.spec.size_bytes, random)
    }

    /// Carries out the request, or a part of it.
    pub(super) fn go_on(&mut self, number: u64, random: &mut Stream) -> Progress {
        let mut request = self.in_flight.remove(&number).expect("the caller found the request");
        let reply = if request.gone {
            Err(self.error(IoErrorKind::Gone, &request.operation))
        } else if self.faults.dead {
            Err(self.error(IoErrorKind::Media, &request.operation))
        } else {
            match self.perform(&mut request, random) {
                Some(reply) => reply,
                None => {
                    self.in_flight.insert(number, request);
                    return Progress::Later;
                }
            }
        };
        if let Some(parts) = request.parts.take() {
            self.content.answer_parts(parts, false, self.answers);
        }
        self.counters.errors += u64::from(reply.is_err());
        Progress::Answered(request.answer, reply)
    }

    fn perform(&mut self, request: &mut Request, random: &mut Stream) -> Option<Reply> {
        let failed = match &request.operation {
            Operation::Read { offset, buf } => self.faults.read_fails(&span(*offset, buf.len() as u64)),
            Operation::Flush { .. } => self.faults.flush_fails(),
            Operation::Write { .. } | Operation::Discard { .. } => false,
        };
        if failed {
            return Some(Err(self.error(IoErrorKind::Media, &request.operation)));
        }
        match &mut request.operation {
            Operation::Read { offset, buf } => {
                let mut buf = std::mem::replace(buf, crate::IoBuf::new(0));
                self.content.read(*offset, &mut buf);
                self.counters.reads += 1;
                self.counters.bytes_read += buf.len() as u64;
                self.move_head(*offset, buf.len());
                Some(Ok(Some(buf)))
            }
            Operation::Flush { mark } => {
                self.content.flush(*mark, random);
                self.counters.flushes += 1;
                Some(Ok(None))
            }
            Operation::Discard { offset, len } => {
                let sure = !self.spec.volatile_cache;
                self.answers += 1;
                if self.spec.discard {
                    self.content.discard(*offset, *len, sure, self.answers, random);
                }
                self.counters.discards += 1;
                Some(Ok(None))
            }
            Operation::Write { .. } => self.write(request, random),
        }
    }

    fn write(&mut self, request: &mut Request, random: &mut Stream) -> Option<Reply> {
        let Operation::Write { offset, data, durability } = &request.operation else { return None };
        let (offset, data) = (*offset, data.clone());
        let sure = *durability == Durability::Durable || !self.spec.volatile_cache;
        let first_turn = request.parts.is_none();
        if first_turn {
            if self.faults.write_fails(&span(offset, data.len() as u64)) {
                self.content.abandon(Unfinished::Write { offset, data }, self.answers, random);
                return Some(Err(self.error(IoErrorKind::Media, &request.operation)));
            }
            match self.faults.next_stray() {
                Some(Stray::Lost) => return Some(Ok(None)),
                Some(Stray::To(elsewhere)) => {
                    self.answers += 1;
                    let elsewhere = elsewhere.min(self.spec.size_bytes.saturating_sub(data.len() as u64));
                    self.content.write(elsewhere, data, sure, self.answers);
                    return Some(Ok(None));
                }
                None => {}
            }
            if !self.mechanics.is_timed() && random.chance(1, 8) {
                request.parts = Some(self.content.write_part(offset, &data, random));
                return None;
            }
        }
        self.answers += 1;
        self.counters.writes += 1;
        self.counters.bytes_written += data.len() as u64;
        self.move_head(offset, data.len());
        self.faults.heal(&span(offset, data.len() as u64));
        self.content.write(offset, data, sure, self.answers);
        if let Some(parts) = request.parts.take() {
            self.content.answer_parts(parts, sure, self.answers);
        }
        Some(Ok(None))
    }

    fn move_head(&mut self, offset: u64, len: usize) {
        self.counters.seeks += u64::from(offset != self.position);
        self.position = offset + len as u64;
    }

    /// The disk is away from now on; gives its requests, which are to be answered so.
    pub(super) fn disappear(&mut self, power_lost: bool, random: &mut Stream) -> Vec<u64> {
        self.present = false;
        if power_lost {
            self.lose_power(random);
        } else {
            let unfinished = self.take_unfinished(random);
            for change in unfinished {
                self.content.abandon(change, self.answers, random);
            }
        }
        self.mechanics.reset();
        for request in self.in_flight.values_mut() {
            request.gone = true;
            if let Some(parts) = request.parts.take() {
                self.content.answer_parts(parts, false, self.answers);
            }
        }
        self.in_flight.keys().copied().collect()
    }

    pub(super) fn lose_power(&mut self, random: &mut Stream) {
        let unfinished = self.take_unfinished(random);
        self.content.lose_power(unfinished, random);
    }

    pub(super) fn forget_requests(&mut self) {
        self.in_flight.clear();
        self.mechanics.reset();
    }

    /// What the requests under way still had to change, in any order.
    fn take_unfinished(&mut self, random: &mut Stream) -> Vec<Unfinished> {
        let mut unfinished: Vec<Unfinished> = self
            .in_flight
            .values()
            .filter(|request| !request.gone)
            .filter_map(|request| request.operation.unfinished())
            .collect();
        random.shuffle(&mut unfinished);
        unfinished
    }

    fn error(&self, kind: IoErrorKind, operation: &Operation) -> IoError {
        let attempt = match operation {
            Operation::Read { offset, buf } => format!("read of {} bytes at {offset}", buf.len()),
            Operation::Write { offset, data, .. } => format!("write of {} bytes at {offset}", data.len()),
            Operation::Flush { .. } => "flush".to_owned(),
            Operation::Discard { offset, len } => format!("discard of {len} bytes at {offset}"),
        };
        IoError::new(kind, format!("simulated disk {}: {attempt}", self.spec.name))
    }
}

fn span(offset: u64, len: u64) -> Range<u64> {
    offset..offset.saturating_add(len)
}
