//! Open files, by the numbers that the kernel gives back with each request about them.
//!
//! The number of a handle whose writes pass by what the kernel keeps has the top bit set.
//!
//! Invariant: a handle that was put in leaves by [`Handles::remove`] or [`Handles::drain`], for whoever closes it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use slab::Slab;

/// Parts of the table, each with its own lock.
const SHARDS: usize = 16;
/// The bit of handles that write past what the kernel keeps.
const DIRECT: u64 = 1 << 63;

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
    pub(crate) fn insert(&self, handle: H, is_direct: bool) -> u64 {
        let shard = self.next.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let number = (self.shard(shard).insert(handle) * SHARDS + shard) as u64;
        if is_direct { number | DIRECT } else { number }
    }

    /// Whether the open file of a number writes past what the kernel keeps.
    pub(crate) fn is_direct(number: u64) -> bool {
        number & DIRECT != 0
    }

    /// The open file of a number.
    pub(crate) fn get(&self, number: u64) -> Option<H> {
        let number = usize::try_from(number & !DIRECT).ok()?;
        self.shard(number).get(number / SHARDS).cloned()
    }

    /// Takes it out.
    pub(crate) fn remove(&self, number: u64) -> Option<H> {
        let number = usize::try_from(number & !DIRECT).ok()?;
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
        let numbers: Vec<u64> = (0..100).map(|value| handles.insert(value, value % 2 == 1)).collect();
        assert!(numbers.iter().enumerate().all(|(value, number)| handles.get(*number) == Some(value)));
        assert!(
            numbers.iter().enumerate().all(|(value, number)| Handles::<usize>::is_direct(*number) == (value % 2 == 1))
        );
        assert_eq!(
            (handles.remove(numbers[40]), handles.remove(numbers[40]), handles.get(numbers[40])),
            (Some(40), None, None)
        );
        assert_eq!((handles.get(u64::MAX), handles.drain().len(), handles.drain().len()), (None, 99, 0));
    }
}
