//! The bound on requests in flight at one disk, over all reactors.
//!
//! ```text
//!   enter ── below the limit ──▶ go            leave ── nobody waits ──▶ done
//!     └── else wait in line ◀── next in line goes ──┘
//! ```
//!
//! Invariant: at most `limit` requests are between entering and leaving, and while one waits there are exactly so many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::reactor::{Injected, Shared, with_core};

#[derive(Debug)]
pub(super) struct DiskQueue {
    limit: usize,
    /// Requests inside and in line.
    asked: AtomicUsize,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<(Arc<Shared>, u32)>,
    /// Leavers that came before the one they make room for had lined up.
    credits: usize,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Line({} waiting)", self.waiting.len())
    }
}

impl DiskQueue {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), asked: AtomicUsize::new(0), line: Mutex::default() }
    }

    /// Whether the request may go now. If not, it must [`wait`](Self::wait).
    pub(super) fn enter(&self) -> bool {
        self.asked.fetch_add(1, Ordering::AcqRel) < self.limit
    }

    /// Lines up an operation of a reactor. True: room came meanwhile, and it may go now.
    pub(super) fn wait(&self, reactor: &Arc<Shared>, key: u32) -> bool {
        let mut line = self.lock();
        if line.credits > 0 {
            line.credits -= 1;
            return true;
        }
        line.waiting.push_back((reactor.clone(), key));
        false
    }

    /// Makes room, and lets the next in line go.
    pub(super) fn leave(&self) {
        while self.asked.fetch_sub(1, Ordering::AcqRel) > self.limit {
            let next = {
                let mut line = self.lock();
                let next = line.waiting.pop_front();
                line.credits += usize::from(next.is_none());
                next
            };
            let Some((reactor, key)) = next else { return };
            if reactor.is_current() {
                with_core(|core| core.submit_operation(key));
                return;
            }
            if reactor.inject(Injected::Submit(key)).is_none() {
                return;
            }
            // Its reactor has ended: the room is for the one behind it.
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
