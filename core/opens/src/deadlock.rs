//! Who waits for whom among the owners of POSIX locks, over all files.
//!
//! Invariant: while a lock of an owner waits, its edges lead to the owners of POSIX locks that are in its way, and no
//! circle lasts: a wait that would close one is refused before it begins, and one that closes it as others are in its way than
//! before is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use smallvec::SmallVec;

use crate::effects::held;
use crate::key::Owner;

/// Owners in the way of one lock that are noted at most.
pub(crate) const MAX_BLOCKERS: usize = 32;
/// Owners that a search looks at. Beyond that a wait is let begin, as in kernels.
const MAX_STEPS: usize = 4096;

/// Owners in the way of a lock.
pub(crate) type Blockers = SmallVec<[Owner; 2]>;

/// The waits of each owner by number, and who is in the way of each.
type Edges = BTreeMap<(Owner, u64), Blockers>;

/// Whether one of those in the way waits for an owner, by way of others or not.
fn is_circle(edges: &Edges, owner: Owner, blockers: &Blockers) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), blockers.to_vec());
    while let Some(blocker) = next.pop() {
        if blocker == owner {
            return true;
        }
        if seen.len() < MAX_STEPS && seen.insert(blocker) {
            next.extend(edges.range((blocker, 0)..=(blocker, u64::MAX)).flat_map(|(_, further)| further));
        }
    }
    false
}

/// The graph of waits.
#[derive(Debug, Default)]
pub(crate) struct WaitGraph {
    edges: Mutex<Edges>,
}

impl WaitGraph {
    /// Notes a wait, unless its owner is waited for by one of those in the way.
    #[must_use]
    pub fn begin(&self, owner: Owner, wait: u64, blockers: Blockers) -> bool {
        let mut edges = held(&self.edges);
        if is_circle(&edges, owner, &blockers) {
            return false;
        }
        edges.insert((owner, wait), blockers);
        true
    }

    /// These are in the way now. Answers whether somebody is who was not before, so that a circle may be closed.
    #[must_use]
    pub fn renew(&self, owner: Owner, wait: u64, blockers: Blockers) -> bool {
        let before = held(&self.edges).insert((owner, wait), blockers.clone()).unwrap_or_default();
        blockers.iter().any(|blocker| !before.contains(blocker))
    }

    /// Whether a wait is one of a circle.
    pub fn is_in_circle(&self, owner: Owner, wait: u64) -> bool {
        let edges = held(&self.edges);
        edges.get(&(owner, wait)).is_some_and(|blockers| is_circle(&edges, owner, blockers))
    }

    /// The wait is over.
    pub fn end(&self, owner: Owner, wait: u64) {
        held(&self.edges).remove(&(owner, wait));
    }

    /// Waits that are noted.
    pub fn len(&self) -> usize {
        held(&self.edges).len()
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::key::ClientId;

    fn owner(key: u128) -> Owner {
        Owner { client: ClientId(1), key }
    }

    #[test]
    fn a_circle_is_refused_and_a_chain_is_not() {
        let graph = WaitGraph::default();
        assert!(graph.begin(owner(1), 1, smallvec![owner(2)]));
        assert!(graph.begin(owner(2), 2, smallvec![owner(3), owner(4)]));
        assert!(!graph.begin(owner(4), 3, smallvec![owner(1)]));
        graph.end(owner(2), 2);
        assert!(graph.begin(owner(4), 3, smallvec![owner(1)]));
        // Another one is in the way now: of a chain, and then of a circle.
        assert!(graph.renew(owner(1), 1, smallvec![owner(5)]) && !graph.is_in_circle(owner(1), 1));
        assert!(!graph.renew(owner(1), 1, smallvec![owner(5)]), "the same");
        assert!(graph.renew(owner(1), 1, smallvec![owner(5), owner(4)]) && graph.is_in_circle(owner(1), 1));
        assert!(!graph.begin(owner(5), 4, smallvec![owner(5)]));
        graph.end(owner(1), 1);
        graph.end(owner(4), 3);
        assert_eq!(graph.len(), 0);
    }

    #[test]
    fn a_long_search_ends() {
        let graph = WaitGraph::default();
        let long = 2 * MAX_STEPS as u128;
        (0..long).for_each(|key| assert!(graph.begin(owner(key), 1, smallvec![owner(key + 1)])));
        assert!(graph.begin(owner(long), 1, smallvec![owner(0)]), "the search gave up");
    }
}
