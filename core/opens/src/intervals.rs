//! Ranges of bytes that may overlap, found by what they meet in logarithmic time: a treap over their starts whose nodes
//! know the highest last byte below them.
//!
//! ```text
//!              [40, 60] highest 90
//!             /                   \
//!   [10, 20] highest 90        [70, 75] highest 75
//!          \
//!       [30, 90] highest 90
//! ```
//!
//! Invariant: a node's priority is at most its parent's, and its `highest` is the greatest last byte of itself and all
//! below it. Priorities are a function of the ranges' numbers, so the shape is one of the history alone.

use smallvec::SmallVec;

use crate::range::ByteRange;

const NIL: u32 = u32::MAX;

#[derive(Debug)]
struct Node<T> {
    range: ByteRange,
    id: u64,
    priority: u64,
    highest: u64,
    left: u32,
    right: u32,
    value: T,
}

/// Ranges with a value each.
#[derive(Debug)]
pub(crate) struct Intervals<T> {
    nodes: SmallVec<[Node<T>; 1]>,
    free: Vec<u32>,
    root: u32,
}

/// A number that looks random (SplitMix64's finish).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self { nodes: SmallVec::new(), free: Vec::new(), root: NIL }
    }
}

impl<T: Copy> Intervals<T> {
    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    fn node(&self, at: u32) -> &Node<T> {
        &self.nodes[at as usize]
    }

    fn key(&self, at: u32) -> (u64, u64) {
        (self.node(at).range.start(), self.node(at).id)
    }

    fn highest(&self, at: u32) -> u64 {
        if at == NIL { 0 } else { self.node(at).highest }
    }

    /// Makes a node's `highest` true again after what is below it changed.
    fn renew(&mut self, at: u32) {
        let (left, right) = (self.node(at).left, self.node(at).right);
        let below = self.highest(left).max(self.highest(right));
        let node = &mut self.nodes[at as usize];
        node.highest = node.range.last().max(below);
    }

    /// Adds a range; `id` must be new.
    pub fn insert(&mut self, range: ByteRange, id: u64, value: T) {
        let node = Node { range, id, priority: mixed(id), highest: range.last(), left: NIL, right: NIL, value };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.root = self.put(self.root, at);
    }

    fn put(&mut self, below: u32, new: u32) -> u32 {
        if below == NIL {
            return new;
        }
        if self.node(new).priority > self.node(below).priority {
            let (left, right) = self.split(below, self.key(new));
            let node = &mut self.nodes[new as usize];
            (node.left, node.right) = (left, right);
            self.renew(new);
            return new;
        }
        if self.key(new) < self.key(below) {
            let left = self.put(self.node(below).left, new);
            self.nodes[below as usize].left = left;
        } else {
            let right = self.put(self.node(below).right, new);
            self.nodes[below as usize].right = right;
        }
        self.renew(below);
        below
    }

    /// What is before a key, and what is not.
    fn split(&mut self, at: u32, key: (u64, u64)) -> (u32, u32) {
        if at == NIL {
            return (NIL, NIL);
        }
        if self.key(at) < key {
            let (middle, right) = self.split(self.node(at).right, key);
            self.nodes[at as usize].right = middle;
            self.renew(at);
            (at, right)
        } else {
            let (left, middle) = self.split(self.node(at).left, key);
            self.nodes[at as usize].left = middle;
            self.renew(at);
            (left, at)
        }
    }

    /// One tree of two, all of the first before all of the second.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL || right == NIL {
            return left.min(right);
        }
        if self.node(left).priority > self.node(right).priority {
            let merged = self.merge(self.node(left).right, right);
            self.nodes[left as usize].right = merged;
            self.renew(left);
            left
        } else {
            let merged = self.merge(left, self.node(right).left);
            self.nodes[right as usize].left = merged;
            self.renew(right);
            right
        }
    }

    /// Takes the range of this number away, which begins at `start`.
    pub fn remove(&mut self, start: u64, id: u64) {
        // The only one is gone without a list of free places.
        let is_only = self.root != NIL && self.len() == 1 && self.key(self.root) == (start, id);
        if !is_only {
            self.root = self.cut(self.root, (start, id));
        }
        if is_only || self.root == NIL {
            *self = Self::default();
        }
    }

    fn cut(&mut self, at: u32, key: (u64, u64)) -> u32 {
        assert_ne!(at, NIL, "a range that is removed is there");
        let (left, right) = (self.node(at).left, self.node(at).right);
        match key.cmp(&self.key(at)) {
            std::cmp::Ordering::Equal => {
                self.free.push(at);
                return self.merge(left, right);
            }
            std::cmp::Ordering::Less => {
                let left = self.cut(left, key);
                self.nodes[at as usize].left = left;
            }
            std::cmp::Ordering::Greater => {
                let right = self.cut(right, key);
                self.nodes[at as usize].right = right;
            }
        }
        self.renew(at);
        at
    }

    /// The first range that meets this one and is wanted.
    pub fn find(&self, range: ByteRange, mut wanted: impl FnMut(&T) -> bool) -> Option<(ByteRange, u64, T)> {
        if range.is_nowhere() {
            return None;
        }
        self.walk(self.root, range.start(), range.last(), &mut wanted)
    }

    /// The first range at all that is wanted.
    pub fn find_any(&self, mut wanted: impl FnMut(&T) -> bool) -> Option<(ByteRange, u64, T)> {
        self.walk(self.root, 0, u64::MAX, &mut wanted)
    }

    fn walk(&self, at: u32, start: u64, last: u64, wanted: &mut impl FnMut(&T) -> bool) -> Option<(ByteRange, u64, T)> {
        if at == NIL || self.node(at).highest < start {
            return None;
        }
        let node = self.node(at);
        if let Some(found) = self.walk(node.left, start, last, wanted) {
            return Some(found);
        }
        if node.range.start() > last {
            return None;
        }
        if node.range.last() >= start && wanted(&node.value) {
            return Some((node.range, node.id, node.value));
        }
        self.walk(node.right, start, last, wanted)
    }

    /// Asserts the invariant.
    pub fn check(&self) {
        let counted = self.check_below(self.root, u64::MAX, &mut None);
        assert_eq!(counted, self.len(), "ranges in the tree");
    }

    /// Goes through what is below in order, and counts it.
    fn check_below(&self, at: u32, priority: u64, before: &mut Option<(u64, u64)>) -> usize {
        if at == NIL {
            return 0;
        }
        let node = self.node(at);
        assert!(node.priority <= priority, "a heap of priorities");
        let left = self.check_below(node.left, node.priority, before);
        assert!(before.is_none_or(|before| before < self.key(at)), "in the order of starts");
        *before = Some(self.key(at));
        let right = self.check_below(node.right, node.priority, before);
        let highest = node.range.last().max(self.highest(node.left)).max(self.highest(node.right));
        assert_eq!(node.highest, highest, "the highest last byte below");
        left + 1 + right
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn what_is_met_is_what_a_list_meets() {
        holdfast_harness::over_seeds(300, |seed| {
            let mut random = SmallRng::seed_from_u64(seed);
            let (mut tree, mut list) = (Intervals::default(), Vec::<(ByteRange, u64)>::new());
            for id in 0..400u64 {
                let range = |random: &mut SmallRng| {
                    let high = if random.random_bool(0.1) { u64::MAX - 70 } else { 0 };
                    ByteRange::new(high + random.random_range(0..60), random.random_range(0..12)).expect("it fits")
                };
                let new = range(&mut random);
                if random.random_bool(0.6) && !new.is_nowhere() {
                    tree.insert(new, id, id);
                    list.push((new, id));
                } else if !list.is_empty() {
                    let (range, id) = list.swap_remove(random.random_range(0..list.len()));
                    tree.remove(range.start(), id);
                }
                let asked = range(&mut random);
                let mut met = Vec::new();
                assert!(
                    tree.find(asked, |id| {
                        met.push(*id);
                        false
                    })
                    .is_none()
                );
                met.sort_unstable();
                let mut expected: Vec<u64> =
                    list.iter().filter(|(range, _)| range.overlaps(asked)).map(|(_, id)| *id).collect();
                expected.sort_unstable();
                assert_eq!(met, expected, "{asked:?}");
                tree.check();
            }
        });
    }

    #[test]
    fn a_hundred_thousand_ranges_are_looked_through_in_few_steps() {
        let mut tree = Intervals::default();
        let ranges = 100_000u64;
        // Long ranges among short ones, as `highest` is what keeps these from being in the way.
        (0..ranges).for_each(|at| {
            let len = if at % 1000 == 0 { 5000 } else { 5 };
            tree.insert(ByteRange::new(at * 10, len).expect("it fits"), at, ());
        });
        tree.check();
        fn depth(tree: &Intervals<()>, at: u32) -> usize {
            if at == NIL { 0 } else { 1 + depth(tree, tree.node(at).left).max(depth(tree, tree.node(at).right)) }
        }
        assert!(depth(&tree, tree.root) < 60, "{}", depth(&tree, tree.root));
        let mut met = 0;
        tree.find(ByteRange::new(505_000, 1).expect("it fits"), |()| {
            met += 1;
            false
        });
        assert_eq!(met, 1);
    }
}
