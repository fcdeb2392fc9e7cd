//! The payload memory of all sessions together.
//!
//! Invariant: what is taken is given back when its holder is dropped, and never more is taken than there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What there is.
#[derive(Debug)]
pub(crate) struct Memory {
    left: AtomicU64,
}

/// Some of it.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(bytes) })
    }

    /// So many bytes, if they are there.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let less = |left: u64| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Share { memory: self.clone(), bytes })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let memory = Memory::new(10);
        let first = memory.take(6).unwrap();
        assert!(memory.take(5).is_none());
        let second = memory.take(4).unwrap();
        assert!(memory.take(1).is_none() && memory.take(0).is_some());
        drop(first);
        assert!(memory.take(6).is_some());
        drop(second);
        assert!(memory.take(10).is_some());
    }
}
