//! Connections on which nobody has proved yet who they are.
//!
//! Invariant: where there is no place left, they make room for new ones, the oldest first: whoever has an account gets
//! in, however many hold on that have none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

#[derive(Default)]
struct Waiting {
    next: u64,
    leave: BTreeMap<u64, Arc<Notify>>,
}

/// All of them.
#[derive(Clone, Default)]
pub(crate) struct Strangers(Arc<Mutex<Waiting>>);

/// A connection, a stranger's until that is over.
pub(crate) struct Caller {
    strangers: Strangers,
    number: u64,
    leave: Arc<Notify>,
}

impl Strangers {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new one.
    pub(crate) fn enter(&self) -> Caller {
        let leave = Arc::new(Notify::new());
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.leave.insert(number, leave.clone());
        Caller { strangers: self.clone(), number, leave }
    }

    /// Tells the oldest to leave, if there is one.
    pub(crate) fn send_one_away(&self) {
        if let Some((_, leave)) = self.waiting().leave.pop_first() {
            leave.notify_one();
        }
    }
}

impl Caller {
    /// Somebody known speaks: nobody sends this one away any more.
    pub(crate) fn is_known(&self) {
        self.strangers.waiting().leave.remove(&self.number);
    }

    /// Ends when its place is needed.
    pub(crate) async fn sent_away(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.is_known();
    }
}
