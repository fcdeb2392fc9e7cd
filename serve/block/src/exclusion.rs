//! Keeps writes of parts of a 4 KiB block apart from every other write of that block, by whatever front end it comes.
//!
//! An object is written in whole blocks. A request that covers a block in part is served by reading the block, changing
//! it and writing it back; a write that landed in between would be lost. So all targets of one object share its
//! exclusion. Such requests are rare, so the others pay one counter of their own session and one look at a flag that
//! nobody changes.
//!
//! ```text
//!   whole blocks, no partial write about    own lane += 1 ─▶ write ─▶ own lane -= 1
//!   the same, and its turn is still to come leave the lane, hold the range ─▶ its turn ─▶ write ─▶ release
//!   whole blocks, a partial write about     hold the range ─▶ write ─▶ release
//!   partial                                 raise the flag ─▶ hold the range ─▶ wait for all lanes to be empty
//!                                           ─▶ read, change, write ─▶ release ─▶ lower the flag
//! ```
//!
//! Invariant: while a partial write holds a range, no other write of that range is under way, also where nobody waits
//! for its answer any more. Lanes empty by themselves, because while the flag is up nobody enters one.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The writes of whole blocks that are under way on one session. On a cache line of its own.
#[repr(align(128))]
pub struct Lane {
    writes: AtomicUsize,
    /// Its session is gone; it goes with its last write.
    closed: AtomicBool,
    exclusion: Arc<Exclusion>,
}

#[derive(Default)]
struct Table {
    held: Vec<Range<u64>>,
    waiting: Vec<Waker>,
}

/// What all sessions with one object share.
#[derive(Default)]
pub struct Exclusion {
    partial: AtomicUsize,
    lanes: Mutex<Vec<Arc<Lane>>>,
    table: Mutex<Table>,
}

impl Table {
    /// Holds a range, unless some of it is held.
    fn take(&mut self, range: &Range<u64>) -> bool {
        let free = !self.held.iter().any(|other| other.start < range.end && range.start < other.end);
        if free {
            self.held.push(range.clone());
        }
        free
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exclusion {
    /// A lane for a new session.
    pub fn open_lane(self: &Arc<Self>) -> Arc<Lane> {
        let lane =
            Arc::new(Lane { writes: AtomicUsize::new(0), closed: AtomicBool::new(false), exclusion: self.clone() });
        lock(&self.lanes).push(lane.clone());
        lane
    }

    /// Gives a lane back. It is kept as long as a write of its session is under way.
    pub fn close_lane(&self, lane: &Arc<Lane>) {
        lane.closed.store(true, Ordering::SeqCst);
        self.forget_lane(lane);
    }

    fn forget_lane(&self, lane: &Lane) {
        if lane.writes.load(Ordering::SeqCst) == 0 {
            lock(&self.lanes).retain(|other| !std::ptr::eq(&raw const **other, lane));
            self.wake_all();
        }
    }

    /// Starts a write of whole blocks. False: a partial write is about, and [`hold`](Self::hold) is the way.
    pub fn enter(&self, lane: &Lane) -> bool {
        lane.writes.fetch_add(1, Ordering::SeqCst);
        if self.partial.load(Ordering::SeqCst) == 0 {
            return true;
        }
        self.leave(lane);
        false
    }

    /// Ends a write that [`enter`](Self::enter) let in.
    pub fn leave(&self, lane: &Lane) {
        let left = lane.writes.fetch_sub(1, Ordering::SeqCst) - 1;
        if self.partial.load(Ordering::SeqCst) > 0 {
            self.wake_all();
        }
        if left == 0 && lane.closed.load(Ordering::SeqCst) {
            self.forget_lane(lane);
        }
    }

    /// Takes a write that [`enter`](Self::enter) let in out of its lane, as it has not begun and may not do so for
    /// long: it holds its range instead. None where somebody else holds that; the write stays in its lane then.
    pub fn move_out(self: &Arc<Self>, lane: &Lane, range: Range<u64>) -> Option<Held> {
        if !lock(&self.table).take(&range) {
            return None;
        }
        self.leave(lane);
        Some(Held { exclusion: self.clone(), range, partial: false })
    }

    /// Holds a range of bytes for a write of whole blocks.
    pub async fn hold(self: &Arc<Self>, range: Range<u64>) -> Held {
        poll_fn(|cx| {
            let mut table = lock(&self.table);
            if table.take(&range) {
                return Poll::Ready(());
            }
            table.waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
        Held { exclusion: self.clone(), range, partial: false }
    }

    /// Holds a range of bytes, in whole blocks, for a write of parts of them.
    pub async fn hold_partial(self: &Arc<Self>, range: Range<u64>) -> Held {
        self.partial.fetch_add(1, Ordering::SeqCst);
        let flag = Flag(self);
        let mut held = self.hold(range).await;
        held.partial = true;
        std::mem::forget(flag);
        poll_fn(|cx| {
            lock(&self.table).waiting.push(cx.waker().clone());
            let busy = lock(&self.lanes).iter().any(|lane| lane.writes.load(Ordering::SeqCst) > 0);
            if busy { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        held
    }

    fn wake_all(&self) {
        let waiting = std::mem::take(&mut lock(&self.table).waiting);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Keeps a write that is under way apart from partial ones until this is dropped.
pub(crate) enum Ticket {
    /// Of whole blocks.
    InLane(Arc<Lane>),
    /// It holds its blocks, alone or as one of several.
    Held {
        /// Dropped with this.
        _held: Arc<Held>,
    },
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Self::InLane(lane) = self {
            lane.exclusion.leave(lane);
        }
    }
}

/// Lowers the flag where the wait for a range is given up.
struct Flag<'a>(&'a Exclusion);

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        self.0.partial.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A range that is held until this is dropped.
pub struct Held {
    exclusion: Arc<Exclusion>,
    range: Range<u64>,
    partial: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.partial {
            self.exclusion.partial.fetch_sub(1, Ordering::SeqCst);
        }
        {
            let mut table = lock(&self.exclusion.table);
            if let Some(at) = table.held.iter().position(|other| *other == self.range) {
                table.held.swap_remove(at);
            }
        }
        self.exclusion.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::join;
    use std::cell::RefCell;

    #[test]
    fn a_partial_write_waits_for_whole_ones_and_they_for_it() {
        let exclusion = Arc::new(Exclusion::default());
        let lane = exclusion.open_lane();
        assert!(exclusion.enter(&lane));
        let mut partial = Box::pin(exclusion.hold_partial(0..4096));
        assert!(partial.as_mut().now_or_never().is_none(), "a whole write is under way");
        assert!(!exclusion.enter(&lane), "nobody enters a lane now");
        assert!(exclusion.hold(4096..8192).now_or_never().is_some(), "another block is free");
        exclusion.leave(&lane);
        let held = partial.as_mut().now_or_never().expect("the lanes are empty");
        assert!(exclusion.hold(0..8192).now_or_never().is_none());
        drop(held);
        assert!(exclusion.enter(&lane));
    }

    #[test]
    fn a_partial_write_waits_for_no_turn_but_that_of_its_own_range() {
        let exclusion = Arc::new(Exclusion::default());
        let lane = exclusion.open_lane();
        assert!(exclusion.enter(&lane));
        let moved = exclusion.move_out(&lane, 0..4096).expect("nobody holds it");
        assert!(exclusion.hold_partial(4096..8192).now_or_never().is_some(), "the lanes are empty");
        let mut partial = Box::pin(exclusion.hold_partial(0..4096));
        assert!(partial.as_mut().now_or_never().is_none(), "the range is held");
        drop(moved);
        assert!(partial.now_or_never().is_some());

        // The lane is kept where the range cannot be had: the partial write has its turn first or waits for the lane.
        assert!(exclusion.enter(&lane));
        let mut partial = Box::pin(exclusion.hold_partial(0..4096));
        assert!(partial.as_mut().now_or_never().is_none());
        assert!(exclusion.move_out(&lane, 0..8192).is_none());
        exclusion.leave(&lane);
        assert!(partial.now_or_never().is_some());
        assert!(lock(&exclusion.table).held.is_empty());
    }

    #[test]
    fn whoever_gives_up_waiting_leaves_nothing_behind() {
        let exclusion = Arc::new(Exclusion::default());
        let lane = exclusion.open_lane();
        let held = exclusion.hold(0..4096).now_or_never().unwrap();
        assert!(exclusion.hold_partial(0..4096).now_or_never().is_none());
        drop(held);
        assert!(exclusion.enter(&lane));
        assert!(exclusion.hold_partial(0..4096).now_or_never().is_none());
        exclusion.leave(&lane);
        assert!(exclusion.enter(&lane));
        assert!(lock(&exclusion.table).held.is_empty());
    }

    #[test]
    fn a_session_that_leaves_is_waited_for_as_long_as_its_writes_go_on() {
        let exclusion = Arc::new(Exclusion::default());
        let lane = exclusion.open_lane();
        assert!(exclusion.enter(&lane));
        let ticket = Ticket::InLane(lane.clone());
        exclusion.close_lane(&lane);
        let mut partial = Box::pin(exclusion.hold_partial(0..4096));
        assert!(partial.as_mut().now_or_never().is_none());
        drop(ticket);
        assert!(partial.now_or_never().is_some());
        assert!(lock(&exclusion.lanes).is_empty());
    }

    #[test]
    fn partial_writes_of_one_block_take_turns() {
        let exclusion = Arc::new(Exclusion::default());
        let order = RefCell::new(Vec::new());
        let one = async |number: u32| {
            let _held = exclusion.hold_partial(0..4096).await;
            order.borrow_mut().push(number);
            let mut first = true;
            poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            order.borrow_mut().push(number);
        };
        let mut both = Box::pin(join(one(1), one(2)));
        while both.as_mut().now_or_never().is_none() {}
        assert_eq!(*order.borrow(), [1, 1, 2, 2]);
    }
}
