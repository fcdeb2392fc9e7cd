//! What a space may hold: for every unit of a block, the writes that a read may see.
//!
//! A write has a beginning and an end in a common order of events. It may be seen by a read unless another one began
//! after its end and has ended itself before the read. After a crash it may be seen unless another one began after its
//! end and was made durable. What a read after a crash returns is from then on the only thing that it may be.
//!
//! A unit without a list was never written: it holds zeros.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Bytes that one stamp takes.
const STAMP_BYTES: usize = 16;
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Write {
    value: u64,
    begun: u64,
    ended: u64,
    /// Answered as done, so that older ones are gone.
    done: bool,
    durable: u64,
}

const ZERO: Write = Write { value: 0, begun: 0, ended: 0, done: true, durable: 0 };

/// The model of one space.
#[derive(Clone)]
pub struct Model(Rc<RefCell<State>>);

struct State {
    unit: usize,
    units: Vec<Vec<Write>>,
    /// Units with a write that is not durable, or whose place after a crash is not known.
    open: Vec<usize>,
    is_open: Vec<bool>,
    /// Reads under way: what they began to see is remembered until they end.
    readings: usize,
    now: u64,
    next_value: u64,
}

/// A write that was begun.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    first: usize,
    end: usize,
    value: u64,
    begun: u64,
}

/// A flush that was begun.
#[derive(Clone, Copy, Debug)]
pub struct Flush(u64);

/// What a read that began at some time may return.
pub struct Reading {
    first: usize,
    begun: u64,
    before: Vec<Vec<Write>>,
}

impl Model {
    /// A space of zeros whose disks write `unit` bytes whole.
    pub fn new(size_bytes: u64, unit: usize) -> Self {
        let units = vec![Vec::new(); size_bytes as usize / unit];
        let is_open = vec![false; units.len()];
        Self(Rc::new(RefCell::new(State {
            unit,
            units,
            open: Vec::new(),
            is_open,
            readings: 0,
            now: 1,
            next_value: 1,
        })))
    }

    /// The space grew by zeros, or gave up for good what it held beyond its new end.
    pub fn resize(&self, before: u64, size_bytes: u64) {
        if size_bytes < before {
            let given_up = self.begin(size_bytes, (before - size_bytes) as usize, true);
            return self.end(&given_up, true, true);
        }
        let mut state = self.0.borrow_mut();
        let count = (size_bytes as usize / state.unit).max(state.units.len());
        state.units.resize(count, Vec::new());
        state.is_open.resize(count, false);
    }

    /// Whether everything in a range may read as zeros now.
    pub fn may_be_zeros(&self, from: u64, to: u64) -> bool {
        let state = self.0.borrow();
        let units = &state.units[from as usize / state.unit..to as usize / state.unit];
        units.iter().all(|unit| {
            let latest = unit.iter().filter(|write| write.done).map(|write| write.begun).max();
            or_zero(unit).iter().any(|write| write.value == 0 && latest.is_none_or(|begun| begun <= write.ended))
        })
    }

    /// Begins a write, of zeros or of a value of its own.
    pub fn begin(&self, offset: u64, len: usize, zero: bool) -> Begun {
        let state = &mut *self.0.borrow_mut();
        let value = if zero { 0 } else { state.next_value };
        state.next_value += 1;
        let begun = state.tick();
        let (first, end) = (offset as usize / state.unit, (offset as usize + len) / state.unit);
        for (index, unit) in state.units[first..end].iter_mut().enumerate() {
            if unit.is_empty() {
                unit.push(ZERO);
            }
            unit.push(Write { value, begun, ended: NEVER, done: false, durable: NEVER });
            if !std::mem::replace(&mut state.is_open[first + index], true) {
                state.open.push(first + index);
            }
        }
        Begun { first, end, value, begun }
    }

    /// The bytes of a begun write.
    pub fn payload(&self, begun: &Begun) -> Vec<u8> {
        let unit = self.0.borrow().unit;
        let mut bytes = vec![0; (begun.end - begun.first) * unit];
        for (index, unit) in bytes.chunks_exact_mut(unit).enumerate() {
            let stamp = stamp(begun.value, begun.first + index);
            unit.chunks_exact_mut(STAMP_BYTES).for_each(|part| part.copy_from_slice(&stamp));
        }
        bytes
    }

    /// A write was answered.
    pub fn end(&self, begun: &Begun, ok: bool, durable: bool) {
        let state = &mut *self.0.borrow_mut();
        let now = state.tick();
        for unit in &mut state.units[begun.first..begun.end] {
            let write = unit.iter_mut().find(|write| write.begun == begun.begun).expect("a begun write is known");
            write.ended = now;
            write.done = ok;
            if ok && durable {
                write.durable = now;
            }
            if state.readings > 0 {
                continue;
            }
            prune(unit);
            if unit.iter().all(|write| write.value == 0 && write.ended != NEVER) {
                unit.clear();
            }
        }
    }

    /// A write was refused before it began.
    pub fn withdraw(&self, begun: &Begun) {
        let state = &mut *self.0.borrow_mut();
        state.units[begun.first..begun.end].iter_mut().for_each(|unit| unit.retain(|write| write.begun != begun.begun));
    }

    /// A flush begins.
    pub fn begin_flush(&self) -> Flush {
        Flush(self.0.borrow_mut().tick())
    }

    /// A flush was answered: what was answered before it began is durable.
    pub fn end_flush(&self, flush: Flush) {
        let state = &mut *self.0.borrow_mut();
        let now = state.tick();
        state.open.retain(|index| {
            let unit = &mut state.units[*index];
            for write in unit.iter_mut().filter(|write| write.done && write.ended < flush.0 && write.durable == NEVER) {
                write.durable = now;
            }
            if state.readings == 0 {
                prune(unit);
            }
            let open = unit.len() > 1 || unit.first().is_some_and(|write| write.durable == NEVER);
            state.is_open[*index] = open;
            open
        });
    }

    /// A read begins.
    pub fn begin_read(&self, offset: u64, len: usize) -> Reading {
        let mut state = self.0.borrow_mut();
        let begun = state.tick();
        state.readings += 1;
        let (first, end) = (offset as usize / state.unit, (offset as usize + len) / state.unit);
        Reading { first, begun, before: state.units[first..end].to_vec() }
    }

    /// A read was refused.
    pub fn abandon(&self, _reading: Reading) {
        self.0.borrow_mut().readings -= 1;
    }

    /// Checks what a read brought.
    pub fn check_read(&self, reading: &Reading, data: &[u8]) -> Result<(), String> {
        let mut state = self.0.borrow_mut();
        state.readings -= 1;
        for (index, bytes) in data.chunks(state.unit).enumerate() {
            let at = reading.first + index;
            let value = decode(bytes, at)?;
            let before = &reading.before[index];
            let allowed = or_zero(before).iter().chain(&state.units[at]);
            let latest =
                before.iter().filter(|other| other.done && other.ended < reading.begun).map(|other| other.begun).max();
            let superseded = |write: &Write| latest.is_some_and(|begun| begun > write.ended);
            if !allowed.clone().any(|write| write.value == value && !superseded(write)) {
                let known: Vec<Write> = allowed.copied().collect();
                return Err(format!("unit {at} reads as write {value}, which it cannot be: {known:?}"));
            }
        }
        Ok(())
    }

    /// Everything under way is lost: each unit is now one of the writes that may have survived.
    pub fn crash(&self) {
        let state = &mut *self.0.borrow_mut();
        let now = state.tick();
        state.readings = 0;
        for index in &state.open {
            let unit = &mut state.units[*index];
            unit.iter_mut().filter(|write| write.ended == NEVER).for_each(|write| write.ended = now);
            prune(unit);
            // After a crash any survivor may be what a read sees.
            unit.iter_mut().for_each(|write| write.done = false);
        }
    }

    /// Ranges of bytes that are not zeros for certain, each at most `most` long.
    pub fn known(&self, most: u64) -> Vec<Range<u64>> {
        let state = self.0.borrow();
        let mut found: Vec<Range<u64>> = Vec::new();
        for (index, unit) in state.units.iter().enumerate() {
            let at = (index * state.unit) as u64;
            let block = at / holdfast_model::BLOCK_BYTES * holdfast_model::BLOCK_BYTES;
            match found.last_mut() {
                _ if unit.is_empty() => {}
                Some(last) if last.end > at => {}
                Some(last) if last.end == block && last.end - last.start < most => {
                    last.end += holdfast_model::BLOCK_BYTES
                }
                _ => found.push(block..block + holdfast_model::BLOCK_BYTES),
            }
        }
        found
    }

    /// Takes what is read after a crash as what the space holds from now on.
    pub fn settle(&self, offset: u64, data: &[u8]) -> Result<(), String> {
        let mut state = self.0.borrow_mut();
        let now = state.tick();
        let unit = state.unit;
        for (index, bytes) in data.chunks(unit).enumerate() {
            let at = offset as usize / unit + index;
            let value = decode(bytes, at)?;
            let known = &state.units[at];
            if !or_zero(known).iter().any(|write| write.value == value) {
                return Err(format!("after a crash unit {at} is write {value}, which it cannot be: {known:?}"));
            }
            if !known.is_empty() {
                state.units[at] = vec![Write { value, begun: now, ended: now, done: true, durable: now }];
            }
        }
        Ok(())
    }
}

impl State {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

fn or_zero(unit: &[Write]) -> &[Write] {
    if unit.is_empty() { &[ZERO] } else { unit }
}

/// Forgets writes that neither a read nor a crash can bring back.
fn prune(unit: &mut Vec<Write>) {
    let latest = unit.iter().filter(|write| write.durable != NEVER).map(|write| write.begun).max().unwrap_or(0);
    unit.retain(|write| latest <= write.ended);
}

fn stamp(value: u64, index: usize) -> [u8; STAMP_BYTES] {
    let mut stamp = [0; STAMP_BYTES];
    if value != 0 {
        stamp[..8].copy_from_slice(&value.to_le_bytes());
        stamp[8..].copy_from_slice(&(index as u64).to_le_bytes());
    }
    stamp
}

fn decode(bytes: &[u8], index: usize) -> Result<u64, String> {
    let value = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let wanted = stamp(value, index);
    if bytes.chunks_exact(STAMP_BYTES).all(|part| part == wanted) {
        return Ok(value);
    }
    let word = |stamp: &[u8], at: usize| u64::from_le_bytes(stamp[at..at + 8].try_into().expect("eight bytes"));
    let mut distinct: Vec<(u64, u64)> =
        bytes.chunks(STAMP_BYTES).map(|stamp| (word(stamp, 0), word(stamp, 8))).collect();
    distinct.dedup();
    distinct.truncate(8);
    Err(format!("unit {index} holds what was never written there: {distinct:x?}"))
}
