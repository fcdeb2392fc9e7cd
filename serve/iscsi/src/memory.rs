//! The payload memory of all sessions together, and what each of them may take of it.
//!
//! ```text
//!   | held by this session | held by others | left |        takes more while it holds no more than is left then
//! ```
//!
//! Invariants: what is taken is given back when its holder is dropped, and never more is taken than there is. A session
//! that holds something always leaves as much to others as it holds itself; one that holds nothing may take all that is
//! left, so that its largest command is served.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What there is.
#[derive(Debug)]
pub(crate) struct Memory {
    left: AtomicU64,
}

/// What one session holds.
#[derive(Debug)]
pub(crate) struct Purse {
    memory: Arc<Memory>,
    held: Cell<u64>,
}

/// Some of it.
#[derive(Debug)]
pub(crate) struct Share {
    purse: Rc<Purse>,
    bytes: u64,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(bytes) })
    }
}

impl Purse {
    pub(crate) fn new(memory: Arc<Memory>) -> Rc<Self> {
        Rc::new(Self { memory, held: Cell::new(0) })
    }

    /// So many bytes, if they are there for this session.
    pub(crate) fn take(self: &Rc<Self>, bytes: u64) -> Option<Share> {
        let held = self.held.get();
        let fair = |rest: &u64| bytes == 0 || held == 0 || held + bytes <= *rest;
        let less = |left: u64| left.checked_sub(bytes).filter(fair);
        self.memory.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        self.held.set(held + bytes);
        Some(Share { purse: self.clone(), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.purse.held.set(self.purse.held.get() - self.bytes);
        self.purse.memory.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let memory = Memory::new(10);
        let purses: Vec<_> = (0..3).map(|_| Purse::new(memory.clone())).collect();
        let first = purses[0].take(6).unwrap();
        assert!(purses[1].take(5).is_none());
        let second = purses[1].take(4).unwrap();
        assert!(purses[2].take(1).is_none() && purses[2].take(0).is_some() && purses[0].take(0).is_some());
        drop(first);
        assert!(purses[0].take(6).is_some());
        drop(second);
        assert!(purses[1].take(10).is_some());
    }

    #[test]
    fn each_leaves_something_to_others() {
        let memory = Memory::new(100);
        let fill = |purse: &Rc<Purse>| std::iter::from_fn(|| purse.take(1)).collect::<Vec<_>>();
        let purses: Vec<_> = (0..3).map(|_| Purse::new(memory.clone())).collect();
        let mut held: Vec<_> = purses.iter().map(fill).collect();
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [50, 25, 12]);
        held[0].clear();
        held[1].extend(fill(&purses[1]));
        assert_eq!(held[1].len(), 44, "as much as is left");
        held.clear();
        assert!(purses[2].take(100).is_some(), "a command of its own takes whatever there is");
    }
}
