//! What a space may hold: for every unit of a block, the writes that a read may see.
//!
//! A write has a beginning and an end in a common order of events. It may be seen by a read unless another one began
//! after its end and has ended itself before the read. After a crash it may be seen unless another one began after its end
//! and was made durable. What a read after a crash returns is from then on the only thing that it may be.

use std::cell::RefCell;
use std::rc::Rc;

/// Bytes that one stamp takes.
const STAMP_BYTES: usize = 16;

#[derive(Clone, Copy, Debug)]
struct Write {
    value: u64,
    begun: u64,
    ended: u64,
    /// Answered as done, so that older ones are gone.
    done: bool,
    durable: u64,
}

const NEVER: u64 = u64::MAX;

/// The model of one space.
#[derive(Clone)]
pub struct Model(Rc<RefCell<State>>);

struct State {
    unit: usize,
    units: Vec<Vec<Write>>,
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
        let zero = Write { value: 0, begun: 0, ended: 0, done: true, durable: 0 };
        let units = vec![vec![zero]; size_bytes as usize / unit];
        Self(Rc::new(RefCell::new(State { unit, units, now: 1, next_value: 1 })))
    }

    /// The space grew, by zeros.
    pub fn grow(&self, size_bytes: u64) {
        let mut state = self.0.borrow_mut();
        let count = size_bytes as usize / state.unit;
        let zero = Write { value: 0, begun: 0, ended: 0, done: true, durable: 0 };
        state.units.resize(count, vec![zero]);
    }

    /// Begins a write, of zeros or of a value of its own.
    pub fn begin(&self, offset: u64, len: usize, zero: bool) -> Begun {
        let mut state = self.0.borrow_mut();
        let value = if zero { 0 } else { state.next_value };
        state.next_value += 1;
        let begun = state.tick();
        let (first, end) = (offset as usize / state.unit, (offset as usize + len) / state.unit);
        for unit in &mut state.units[first..end] {
            unit.push(Write { value, begun, ended: NEVER, done: false, durable: NEVER });
        }
        Begun { first, end, value, begun }
    }

    /// The bytes of a begun write.
    pub fn payload(&self, begun: &Begun) -> Vec<u8> {
        let unit = self.0.borrow().unit;
        (begun.first..begun.end).flat_map(|index| content(begun.value, index, unit)).collect()
    }

    /// A write was answered.
    pub fn end(&self, begun: &Begun, ok: bool, durable: bool) {
        let mut state = self.0.borrow_mut();
        let now = state.tick();
        for unit in &mut state.units[begun.first..begun.end] {
            let write = unit.iter_mut().find(|write| write.begun == begun.begun);
            let write = write.expect("a begun write is known");
            write.ended = now;
            write.done = ok;
            if ok && durable {
                write.durable = now;
            }
            prune(unit);
        }
    }

    /// A flush begins.
    pub fn begin_flush(&self) -> Flush {
        Flush(self.0.borrow_mut().tick())
    }

    /// A flush was answered: what was answered before it began is durable.
    pub fn end_flush(&self, flush: Flush) {
        let mut state = self.0.borrow_mut();
        let now = state.tick();
        for unit in &mut state.units {
            for write in unit.iter_mut().filter(|write| write.done && write.ended < flush.0 && write.durable == NEVER) {
                write.durable = now;
            }
            prune(unit);
        }
    }

    /// A read begins.
    pub fn begin_read(&self, offset: u64, len: usize) -> Reading {
        let mut state = self.0.borrow_mut();
        let begun = state.tick();
        let (first, end) = (offset as usize / state.unit, (offset as usize + len) / state.unit);
        Reading { first, begun, before: state.units[first..end].to_vec() }
    }

    /// Checks what a read brought.
    pub fn check_read(&self, reading: &Reading, data: &[u8]) -> Result<(), String> {
        let state = self.0.borrow();
        for (index, bytes) in data.chunks(state.unit).enumerate() {
            let at = reading.first + index;
            let value = decode(bytes, at)?;
            let allowed = reading.before[index].iter().chain(&state.units[at]);
            let superseded = |write: &Write| {
                reading.before[index].iter().any(|other| other.done && other.begun > write.ended && other.ended < reading.begun)
            };
            if !allowed.clone().any(|write| write.value == value && !superseded(write)) {
                let known: Vec<Write> = allowed.copied().collect();
                return Err(format!("unit {at} reads as write {value}, which it cannot be: {known:?}"));
            }
        }
        Ok(())
    }

    /// Everything under way is lost: each unit is now one of the writes that may have survived.
    pub fn crash(&self) {
        let mut state = self.0.borrow_mut();
        let now = state.tick();
        for unit in &mut state.units {
            for write in unit.iter_mut().filter(|write| write.ended == NEVER) {
                write.ended = now;
            }
            let all = unit.clone();
            unit.retain(|write| !all.iter().any(|other| other.durable != NEVER && other.begun > write.ended));
            // After a crash any survivor may be what a read sees.
            unit.iter_mut().for_each(|write| write.done = false);
        }
    }

    /// Takes what is read after a crash as what the space holds from now on.
    pub fn settle(&self, offset: u64, data: &[u8]) -> Result<(), String> {
        let mut state = self.0.borrow_mut();
        let now = state.tick();
        let unit = state.unit;
        for (index, bytes) in data.chunks(unit).enumerate() {
            let at = offset as usize / unit + index;
            let value = decode(bytes, at)?;
            if !state.units[at].iter().any(|write| write.value == value) {
                return Err(format!("after a crash unit {at} is write {value}, which it cannot be: {:?}", state.units[at]));
            }
            state.units[at] = vec![Write { value, begun: now, ended: now, done: true, durable: now }];
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

/// Forgets writes that neither a read nor a crash can bring back.
fn prune(unit: &mut Vec<Write>) {
    if unit.len() > 1 {
        let all = unit.clone();
        unit.retain(|write| !all.iter().any(|other| other.durable != NEVER && other.begun > write.ended));
    }
}

fn content(value: u64, index: usize, unit: usize) -> Vec<u8> {
    if value == 0 {
        return vec![0; unit];
    }
    let mut stamp = [0; STAMP_BYTES];
    stamp[..8].copy_from_slice(&value.to_le_bytes());
    stamp[8..].copy_from_slice(&(index as u64).to_le_bytes());
    stamp.repeat(unit / STAMP_BYTES)
}

fn decode(bytes: &[u8], index: usize) -> Result<u64, String> {
    let value = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    if bytes == content(value, index, bytes.len()) {
        return Ok(value);
    }
    let stamps: Vec<(u64, u64)> = bytes
        .chunks(STAMP_BYTES)
        .map(|stamp| {
            let word = |at: usize| u64::from_le_bytes(stamp[at..at + 8].try_into().expect("eight bytes"));
            (word(0), word(8))
        })
        .collect();
    let mut distinct = stamps.clone();
    distinct.dedup();
    distinct.truncate(8);
    Err(format!("unit {index} holds what was never written there: {distinct:x?}"))
}
