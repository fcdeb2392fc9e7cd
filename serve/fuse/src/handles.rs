//! Open files, by the numbers that the kernel gives back with each request about them.
//!
//! Invariant: a handle that was put in leaves by [`Handles::remove`] or [`Handles::drain`], for whoever closes it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use slab::Slab;

/// Parts of the table, each with its own lock.
const SHARDS: usize = 16;

/// The table.
#[derive(Debug)]
pub(crate) struct Handles<H> {
    shards: [Mutex<Slab<H>>; SHARDS],
    next: AtomicUsize,
}

impl<H> Default for Handles<H> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::new(Slab::new())), next: AtomicUsize::new(0) }
    }
}

impl<H: Clone> Handles<H> {
    fn shard(&self, shard: usize) -> MutexGuard<'_, Slab<H>> {
        self.shards[shard % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an open file, and answers its number.
    pub(crate) fn insert(&self, handle: H) -> u64 {
        let shard = self.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        (self.shard(shard).insert(handle) * SHARDS + shard) as u64
    }

    /// The open file of a number.
    pub(crate) fn get(&self, number: u64) -> Option<H> {
        let number = usize::try_from(number).ok()?;
        self.shard(number).get(number / SHARDS).cloned()
    }

    /// Takes it out.
    pub(crate) fn remove(&self, number: u64) -> Option<H> {
        let number = usize::try_from(number).ok()?;
        self.shard(number).try_remove(number / SHARDS)
    }

    /// Takes all out.
    pub(crate) fn drain(&self) -> Vec<H> {
        (0..SHARDS).flat_map(|shard| self.shard(shard).drain().collect::<Vec<_>>()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_file_has_its_number_until_it_is_taken_out() {
        let handles = Handles::default();
        let numbers: Vec<u64> = (0..100).map(|value| handles.insert(value)).collect();
        assert!(numbers.iter().enumerate().all(|(value, number)| handles.get(*number) == Some(value)));
        assert_eq!(
            (handles.remove(numbers[40]), handles.remove(numbers[40]), handles.get(numbers[40])),
            (Some(40), None, None)
        );
        assert_eq!((handles.get(u64::MAX), handles.drain().len(), handles.drain().len()), (None, 99, 0));
    }
}
