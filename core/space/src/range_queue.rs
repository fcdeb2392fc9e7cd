//! Who may write which blocks of a column: first come, first served among those that overlap.
//!
//! Invariant: of two entries that overlap only the earlier one is granted.

use std::task::Waker;

/// The waiting and running writers of a column.
#[derive(Debug, Default)]
pub struct RangeQueue {
    entries: Vec<Entry>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    start: u32,
    end: u32,
    granted: bool,
    waker: Option<Waker>,
}

impl RangeQueue {
    /// Queues for a range of blocks. Answers the entry's number, and whether it may go on at once.
    pub fn enter(&mut self, start: u32, end: u32) -> (u64, bool) {
        let id = self.next;
        self.next += 1;
        let granted = !self.entries.iter().any(|entry| entry.start < end && start < entry.end);
        self.entries.push(Entry { id, start, end, granted, waker: None });
        (id, granted)
    }

    /// Whether the entry may go on; `waker` is called when that changes.
    pub fn poll(&mut self, id: u64, waker: &Waker) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id).expect("an entry stays until it leaves");
        if !entry.granted {
            entry.waker = Some(waker.clone());
        }
        entry.granted
    }

    /// Takes the entry out, and lets those go on that waited for it.
    pub fn leave(&mut self, id: u64) {
        self.entries.retain(|entry| entry.id != id);
        for at in 0..self.entries.len() {
            let (before, rest) = self.entries.split_at_mut(at);
            let entry = &mut rest[0];
            if !entry.granted && !before.iter().any(|other| other.start < entry.end && entry.start < other.end) {
                entry.granted = true;
                if let Some(waker) = entry.waker.take() {
                    waker.wake();
                }
            }
        }
    }

    /// Whether nobody writes or waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_writers_go_in_order() {
        let mut queue = RangeQueue::default();
        let (first, granted) = queue.enter(0, 10);
        assert!(granted);
        let (second, waits) = queue.enter(5, 15);
        let (third, also_waits) = queue.enter(12, 20);
        let (_, free) = queue.enter(30, 31);
        assert!(!waits && !also_waits && free, "the third waits for the second, though the first does not touch it");
        queue.leave(first);
        assert!(queue.poll(second, Waker::noop()) && !queue.poll(third, Waker::noop()));
        queue.leave(second);
        assert!(queue.poll(third, Waker::noop()));
    }
}
