//! Faults that a test places on a simulated disk.
//!
//! Invariant: a fault stays until what its [`ErrorPersistence`] names has happened; nothing else takes it away.

use std::collections::VecDeque;
use std::ops::Range;

/// How long a placed error stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPersistence {
    /// For so many requests that touch the range.
    Times(u32),
    /// Until the range is written, as a latent sector error; a part that is written heals alone. An error of writes
    /// cannot heal so, and stays until it is cleared.
    UntilRewritten,
    /// Until [`SimDisk::clear_faults`](super::SimDisk::clear_faults).
    UntilCleared,
}

struct Fault {
    range: Range<u64>,
    persistence: ErrorPersistence,
}

/// What becomes of a write that goes astray while it is answered as done.
pub(super) enum Stray {
    Lost,
    To(u64),
}

#[derive(Default)]
pub(super) struct Faults {
    reads: Vec<Fault>,
    writes: Vec<Fault>,
    flushes: u32,
    strays: VecDeque<Stray>,
    /// Every request fails.
    pub(super) dead: bool,
}

impl Faults {
    pub(super) fn add_read(&mut self, range: Range<u64>, persistence: ErrorPersistence) {
        self.reads.extend(Fault::new(range, persistence));
    }

    pub(super) fn add_write(&mut self, range: Range<u64>, persistence: ErrorPersistence) {
        self.writes.extend(Fault::new(range, persistence));
    }

    pub(super) fn add_flushes(&mut self, times: u32) {
        self.flushes += times;
    }

    pub(super) fn add_stray(&mut self, stray: Stray) {
        self.strays.push_back(stray);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn read_fails(&mut self, range: &Range<u64>) -> bool {
        hit(&mut self.reads, range)
    }

    pub(super) fn write_fails(&mut self, range: &Range<u64>) -> bool {
        hit(&mut self.writes, range)
    }

    pub(super) fn flush_fails(&mut self) -> bool {
        let fails = self.flushes > 0;
        self.flushes -= u32::from(fails);
        fails
    }

    pub(super) fn next_stray(&mut self) -> Option<Stray> {
        self.strays.pop_front()
    }

    /// Takes `written` out of the ranges that heal by being written.
    pub(super) fn heal(&mut self, written: &Range<u64>) {
        if !self.reads.iter().any(|fault| fault.heals_by(written)) {
            return;
        }
        for fault in std::mem::take(&mut self.reads) {
            if !fault.heals_by(written) {
                self.reads.push(fault);
                continue;
            }
            let rest = [fault.range.start..written.start, written.end..fault.range.end];
            let persistence = fault.persistence;
            self.reads.extend(rest.into_iter().filter_map(|range| Fault::new(range, persistence)));
        }
    }
}

impl Fault {
    /// None where it would never strike.
    fn new(range: Range<u64>, persistence: ErrorPersistence) -> Option<Self> {
        (!range.is_empty() && persistence != ErrorPersistence::Times(0)).then_some(Self { range, persistence })
    }

    fn touches(&self, range: &Range<u64>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }

    fn heals_by(&self, written: &Range<u64>) -> bool {
        self.persistence == ErrorPersistence::UntilRewritten && self.touches(written)
    }
}

fn hit(faults: &mut Vec<Fault>, range: &Range<u64>) -> bool {
    let Some(index) = faults.iter().position(|fault| fault.touches(range)) else { return false };
    if let ErrorPersistence::Times(left) = &mut faults[index].persistence {
        *left = left.saturating_sub(1);
        if *left == 0 {
            faults.remove(index);
        }
    }
    true
}
