//! Who may change which blocks: first come, first served among those that overlap. Those who only look share.
//!
//! Invariant: of two entries that overlap, and do not both share, only the earlier one is granted.

use std::task::Waker;

/// Those who wait and those who are at work.
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
    shared: bool,
    granted: bool,
    waker: Option<Waker>,
}

impl Entry {
    fn bars(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end && !(self.shared && other.shared)
    }
}

impl RangeQueue {
    /// Queues for a range of blocks. Answers the entry's number, and whether it may go on at once.
    pub fn enter(&mut self, start: u32, end: u32) -> (u64, bool) {
        self.queue(start, end, false)
    }

    /// As [`RangeQueue::enter`], side by side with others who share.
    pub fn enter_shared(&mut self, start: u32, end: u32) -> (u64, bool) {
        self.queue(start, end, true)
    }

    fn queue(&mut self, start: u32, end: u32, shared: bool) -> (u64, bool) {
        let id = self.next;
        self.next += 1;
        let mut entry = Entry { id, start, end, shared, granted: true, waker: None };
        entry.granted = !self.entries.iter().any(|earlier| earlier.bars(&entry));
        let granted = entry.granted;
        self.entries.push(entry);
        (id, granted)
    }

    /// The ranges of all entries.
    pub fn ranges(&self) -> impl Iterator<Item = (u32, u32)> {
        self.entries.iter().map(|entry| (entry.start, entry.end))
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
            if !entry.granted && !before.iter().any(|earlier| earlier.bars(entry)) {
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

    #[test]
    fn those_who_share_go_together() {
        let mut queue = RangeQueue::default();
        let (first, granted) = queue.enter_shared(0, 10);
        let (second, also) = queue.enter_shared(5, 15);
        assert!(granted && also);
        let (writer, waits) = queue.enter(8, 9);
        let (late, behind) = queue.enter_shared(8, 9);
        assert!(!waits && !behind, "who comes after a writer waits for it");
        queue.leave(first);
        queue.leave(second);
        assert!(queue.poll(writer, Waker::noop()) && !queue.poll(late, Waker::noop()));
        queue.leave(writer);
        assert!(queue.poll(late, Waker::noop()));
    }
}
