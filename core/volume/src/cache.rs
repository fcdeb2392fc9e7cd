//! Nodes as they stand on the device, kept in memory up to a limit.
//!
//! Invariant: what is found is the very node that was asked for, by address, generation and CRC. A node that somebody
//! holds stays; one that is given up is read again when it is needed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use crate::page::{NodeRef, PAGE_BYTES, Page};

struct Kept {
    stored: NodeRef,
    page: Arc<Page>,
    used: bool,
}

#[derive(Default)]
struct Inner {
    by_address: HashMap<u64, Kept, RandomState>,
    /// The hand of a clock goes round here.
    circle: VecDeque<u64>,
    /// Nodes that could not be read when they were last asked for.
    lost: HashSet<NodeRef>,
    /// Nodes whose first copy is not right, and another one is.
    worn: HashSet<NodeRef>,
}

/// Lost and worn nodes that are remembered, at most.
const MOST_NOTED: usize = 4096;

/// The cache.
pub(crate) struct NodeCache {
    inner: Mutex<Inner>,
    most: usize,
    /// Nodes that became changed since the last cut; none less than there are.
    changed: AtomicUsize,
}

impl std::fmt::Debug for NodeCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeCache({} of {} nodes)", self.lock().by_address.len(), self.most)
    }
}

impl NodeCache {
    /// For so many bytes, and eight nodes at least.
    pub fn new(bytes: usize) -> Self {
        Self { inner: Mutex::default(), most: (bytes / PAGE_BYTES).max(8), changed: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node, where it is in memory.
    pub fn get(&self, stored: NodeRef) -> Option<Arc<Page>> {
        let mut inner = self.lock();
        let kept = inner.by_address.get_mut(&stored.address).filter(|kept| kept.stored == stored)?;
        kept.used = true;
        Some(kept.page.clone())
    }

    /// Keeps a node, in place of another one of its address. One that comes late does not push out a later one that
    /// somebody holds; one that nobody holds has to go, as its generation may be one that somebody made up.
    pub fn keep(&self, stored: NodeRef, page: Arc<Page>) {
        let mut inner = self.lock();
        inner.lost.remove(&stored);
        let is_held = |kept: &Kept| Arc::strong_count(&kept.page) > 1;
        let is_late = |kept: &&Kept| kept.stored.generation > stored.generation;
        if inner.by_address.get(&stored.address).filter(is_late).is_some_and(is_held) {
            return;
        }
        let kept = Kept { stored, page, used: true };
        if inner.by_address.insert(stored.address, kept).is_none() {
            inner.circle.push_back(stored.address);
        }
        // Twice round at most: all may be pinned.
        for _ in 0..2 * inner.circle.len() {
            if inner.by_address.len() <= self.most {
                break;
            }
            let Some(address) = inner.circle.pop_front() else { break };
            let stays = inner.by_address.get_mut(&address).is_some_and(|kept| {
                let pinned = address == stored.address || is_held(kept);
                std::mem::replace(&mut kept.used, false) || pinned
            });
            if stays {
                inner.circle.push_back(address);
            } else {
                inner.by_address.remove(&address);
            }
        }
    }

    /// A node could not be read.
    pub fn note_lost(&self, stored: NodeRef) {
        let mut inner = self.lock();
        if inner.lost.len() < MOST_NOTED {
            inner.lost.insert(stored);
        }
    }

    /// Whether a node could not be read when it was last asked for.
    pub fn is_lost(&self, stored: NodeRef) -> bool {
        let inner = self.lock();
        !inner.lost.is_empty() && inner.lost.contains(&stored)
    }

    /// The first copy of a node is not right.
    pub fn note_worn(&self, stored: NodeRef) {
        let mut inner = self.lock();
        if inner.worn.len() < MOST_NOTED {
            inner.worn.insert(stored);
        }
    }

    /// Another node stands there from now on.
    pub fn forget_worn(&self, address: u64) {
        let mut inner = self.lock();
        if !inner.worn.is_empty() {
            inner.worn.retain(|node| node.address != address);
        }
    }

    /// All of which that was noted, for once.
    pub fn take_worn(&self) -> HashSet<NodeRef> {
        std::mem::take(&mut self.lock().worn)
    }

    /// A node became changed.
    pub fn note_changed(&self) {
        self.changed.fetch_add(1, Ordering::Relaxed);
    }

    /// Nodes that became changed since the last cut.
    pub fn changed(&self) -> usize {
        self.changed.load(Ordering::Relaxed)
    }

    /// The same, counted anew from now on. To be called while all trees are held.
    pub fn take_changed(&self) -> usize {
        self.changed.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_to_its_limit_and_gives_no_other_node() {
        let cache = NodeCache::new(8 * PAGE_BYTES);
        let at = |number: u64, generation: u64| NodeRef { address: number << 14, generation, crc: 1 };
        for number in 0..100 {
            cache.keep(at(number, 1), Arc::new(Page::new(0, 0, b"", None)));
            assert!(cache.get(at(number, 1)).is_some() && cache.get(at(number, 2)).is_none());
        }
        assert_eq!((0..100).filter(|number| cache.get(at(*number, 1)).is_some()).count(), 8);
    }
    #[test]
    fn a_late_node_pushes_out_what_nobody_holds() {
        let cache = NodeCache::new(8 * PAGE_BYTES);
        let node = |generation: u64| NodeRef { address: 1 << 14, generation, crc: 1 };
        let page = || Arc::new(Page::new(0, 0, b"", None));
        let held = page();
        cache.keep(node(u64::MAX), held.clone());
        cache.keep(node(7), page());
        assert!(cache.get(node(u64::MAX)).is_some() && cache.get(node(7)).is_none());
        drop(held);
        cache.keep(node(7), page());
        assert!(cache.get(node(7)).is_some() && cache.get(node(u64::MAX)).is_none());
    }
}
