//! The copy operations of one nexus with one unit, by list identifier (SPC-4 5.17.4).
//!
//! ```text
//!   begin ─▶ in progress ─▶ over, with its results ─▶ discarded: told, or its identifier is used anew, or others need the room
//! ```
//!
//! Invariant: an identifier is that of one operation at most. What is kept is bounded, and nothing of it outlives the
//! nexus: operations that are under way when it is lost are aborted.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_block::{Progress, Token};
use holdfast_device::Signal;

use crate::answer::Status;
use crate::sense::Sense;

use super::limits::{OPERATIONS, RESULTS};

/// What a copy operation came to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The status of its command.
    pub(super) status: Status,
    /// Why, with CHECK CONDITION.
    pub(super) sense: Option<Sense>,
    /// Less was moved than was asked for.
    pub(super) partial: bool,
}

/// See the module.
pub(crate) struct Operation {
    pub(super) list: u32,
    pub(super) action: u16,
    pub(super) background: bool,
    /// Bytes of a block of the destination.
    pub(super) block_bytes: u64,
    pub(super) progress: Progress,
    pub(super) segments: AtomicU16,
    outcome: Mutex<Option<Outcome>>,
    token: Mutex<Option<Arc<Token>>>,
    /// Whether anybody may ask for it by its identifier.
    identified: bool,
    details_told: AtomicBool,
    over: Arc<Signal>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How an operation is begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning {
    /// None where nobody is to ask for it.
    pub(super) list: Option<u32>,
    pub(super) action: u16,
    pub(super) background: bool,
    pub(super) block_bytes: u64,
}

/// Why an operation is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// One of this identifier, begun by this service action, is in progress.
    InProgress(u16),
    /// There are too many.
    Full,
}

impl Operation {
    pub(super) fn outcome(&self) -> Option<Outcome> {
        lock(&self.outcome).clone()
    }

    /// Blocks that were moved.
    pub(super) fn blocks(&self) -> u64 {
        self.progress.done() / self.block_bytes
    }

    pub(super) fn finish(&self, outcome: Outcome) {
        *lock(&self.outcome) = Some(outcome);
        self.over.raise();
    }

    pub(super) fn set_token(&self, token: Arc<Token>) {
        *lock(&self.token) = Some(token);
    }

    pub(super) fn token(&self) -> Option<Arc<Token>> {
        lock(&self.token).clone()
    }

    /// The token was handed over.
    pub(super) fn forget_token(&self) {
        lock(&self.token).take();
    }

    /// Whether the details of its failure are told for the first time.
    pub(super) fn tell_details(&self) -> bool {
        !self.details_told.swap(true, Ordering::Relaxed)
    }

    /// Ends when it is over.
    pub(super) fn over(&self) -> holdfast_device::Raised {
        self.over.wait()
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Operations {
    table: Mutex<Vec<Arc<Operation>>>,
}

impl Operations {
    pub(super) fn begin(&self, beginning: Beginning) -> Result<Arc<Operation>, Refusal> {
        let mut table = lock(&self.table);
        let list = beginning.list.unwrap_or_default();
        if beginning.list.is_some() {
            let same = |other: &&Arc<Operation>| other.identified && other.list == list;
            if let Some(other) = table.iter().find(same).filter(|other| other.outcome().is_none()) {
                return Err(Refusal::InProgress(other.action));
            }
            table.retain(|other| !other.identified || other.list != list);
        }
        let running = table.iter().filter(|other| other.outcome().is_none()).count();
        if running >= OPERATIONS {
            return Err(Refusal::Full);
        }
        while table.len() - running >= RESULTS {
            let Some(oldest) = table.iter().position(|other| other.outcome().is_some()) else { break };
            table.remove(oldest);
        }
        let Beginning { list: identified, action, background, block_bytes } = beginning;
        let operation = Arc::new(Operation {
            list,
            action,
            background,
            block_bytes,
            progress: Progress::default(),
            segments: AtomicU16::new(0),
            outcome: Mutex::default(),
            token: Mutex::default(),
            identified: identified.is_some(),
            details_told: AtomicBool::new(false),
            over: Arc::default(),
        });
        table.push(operation.clone());
        Ok(operation)
    }

    /// The operation of an identifier.
    pub(super) fn find(&self, list: u32) -> Option<Arc<Operation>> {
        lock(&self.table).iter().find(|operation| operation.identified && operation.list == list).cloned()
    }

    /// Aborts what is in progress and forgets the rest.
    pub(crate) fn reset(&self) {
        for operation in lock(&self.table).drain(..) {
            operation.progress.abort();
        }
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        self.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(operations: &Operations, list: u32) -> Result<Arc<Operation>, Refusal> {
        operations.begin(Beginning { list: Some(list), action: 0x11, background: false, block_bytes: 512 })
    }

    fn end(operation: &Operation) {
        operation.finish(Outcome { status: Status::Good, sense: None, partial: false });
    }

    #[test]
    fn an_identifier_is_free_again_when_its_operation_is_over() {
        let operations = Operations::default();
        let first = begin(&operations, 7).unwrap();
        assert_eq!(begin(&operations, 7).err(), Some(Refusal::InProgress(0x11)));
        end(&first);
        let second = begin(&operations, 7).unwrap();
        assert!(Arc::ptr_eq(&operations.find(7).unwrap(), &second));
    }

    #[test]
    fn what_is_kept_is_bounded_and_aborted_with_the_nexus() {
        let operations = Operations::default();
        for list in 0..100 {
            end(&begin(&operations, list).unwrap());
        }
        assert!(operations.find(99 - RESULTS as u32).is_none() && operations.find(99).is_some());
        let running: Vec<_> = (0..OPERATIONS as u32).map(|list| begin(&operations, 1000 + list).unwrap()).collect();
        assert_eq!(begin(&operations, 5000).err(), Some(Refusal::Full));
        drop(operations);
        assert!(running.iter().all(|operation| operation.progress.is_aborted()));
    }
}
