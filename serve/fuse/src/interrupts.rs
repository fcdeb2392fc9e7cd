//! Signals to programs that wait for an answer (INTERRUPT).
//!
//! The kernel names the request that is not to be waited for any more. Requests are read on several reactors, so that may
//! come before its request is known to wait. The last ones of those are remembered; the kernel's numbers never come again.
//!
//! Invariant: a request that waits is told of its interrupt, whichever of the two was read first, unless more than
//! [`MOST_EARLY`] others came in between.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_device::Signal;

/// Interrupts of requests that do not wait that are remembered.
const MOST_EARLY: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    waiting: HashMap<u64, Arc<Signal>>,
    early: VecDeque<u64>,
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Listening<'a> {
    interrupts: &'a Interrupts,
    unique: u64,
    pub(crate) signal: Arc<Signal>,
}

impl Interrupts {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is not to be waited for.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut known = self.known();
        if let Some(signal) = known.waiting.get(&unique).cloned() {
            drop(known);
            signal.raise();
            return;
        }
        if known.early.len() == MOST_EARLY {
            known.early.pop_front();
        }
        known.early.push_back(unique);
    }

    /// A request begins to wait.
    pub(crate) fn listen(&self, unique: u64) -> Listening<'_> {
        let signal = Arc::<Signal>::default();
        let mut known = self.known();
        if let Some(at) = known.early.iter().position(|early| *early == unique) {
            known.early.remove(at);
            signal.raise();
        }
        known.waiting.insert(unique, signal.clone());
        Listening { interrupts: self, unique, signal }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.interrupts.known().waiting.remove(&self.unique);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_told_whichever_came_first() {
        let interrupts = Interrupts::default();
        let (first, second) = (interrupts.listen(2), interrupts.listen(4));
        interrupts.interrupt(4);
        assert!(second.signal.raised() && !first.signal.raised());
        interrupts.interrupt(6);
        assert!(interrupts.listen(6).signal.raised(), "it came before");
        assert!(!interrupts.listen(6).signal.raised(), "and was taken");
        drop(first);
        interrupts.interrupt(2);
        assert_eq!(interrupts.known().waiting.len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let interrupts = Interrupts::default();
        (0..=MOST_EARLY as u64).for_each(|unique| interrupts.interrupt(unique));
        assert_eq!(interrupts.known().early.len(), MOST_EARLY);
        assert!(!interrupts.listen(0).signal.raised() && interrupts.listen(1).signal.raised());
    }
}
