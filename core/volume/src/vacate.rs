//! Nodes in a part of the device written anew elsewhere, as those above a line below it: each is marked as changed as it is, and the next checkpoint finds it
//! another place.
//!
//! ```text
//!   way to a key ── lowest inner node ── leaf, leaf, leaf ...     those that stand above the line, some at a time
//! ```
//!
//! Invariant: no entry changes, so nothing is logged: after a crash the nodes stand where they stood.

use std::ops::Range;
use std::sync::Arc;

use crate::TREES;
use crate::cache::NodeCache;
use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::page::{PAGE_BYTES, Page};
use crate::shrink::Steps;
use crate::store::{Store, held};
use crate::tree::{Child, Look, Missing, Tree};

/// Leaves that are marked at once.
const AT_ONCE: usize = 32;
/// Checkpoints until all must be gone from above the line.
const ROUNDS: usize = 4;

/// Nodes of one way that stand above a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Above {
    /// Nodes that a change of all of them changes.
    pub nodes: usize,
    /// The children of the lowest inner node that are of them.
    children: Vec<usize>,
    /// Where the keys go on.
    pub next: Option<Vec<u8>>,
}

impl Tree {
    /// The nodes in a range of addresses on the way to a key, and [`AT_ONCE`] leaves from there on under the same
    /// parent. They are in memory, and pinned there.
    pub fn above(
        &self,
        addresses: &Range<u64>,
        key: &[u8],
        cache: &NodeCache,
        pins: &mut Vec<Arc<Page>>,
    ) -> Result<Above, Missing> {
        let is_above = |child: &Child| matches!(child, Child::Stored(stored) if addresses.contains(&stored.address));
        let mut above = Above::default();
        let Some(root) = &self.root else { return Ok(above) };
        let (mut at, mut is_any, mut depth) = (root.clone(), is_above(root), 1);
        loop {
            let look = at.look(cache)?;
            look.pin(pins);
            let page = look.page();
            if page.level() == 0 {
                break;
            }
            let child = |index: usize| match &look {
                Look::Stored(page) => Child::Stored(page.child(index)),
                Look::Changed(node) => node.children[index].clone(),
            };
            let first = page.child_of(key);
            if page.level() > 1 {
                look.child(first, cache)?.pin(pins);
                let next = child(first);
                is_any |= is_above(&next);
                depth += 1;
                drop(look);
                at = next;
                continue;
            }
            above.next = page.high().map(<[u8]>::to_vec);
            for index in first..page.count() {
                if above.children.len() == AT_ONCE {
                    above.next = Some(page.key(index).to_vec());
                    break;
                }
                let leaf = child(index);
                if is_above(&leaf) {
                    look.child(index, cache)?.pin(pins);
                    above.children.push(index);
                }
            }
            break;
        }
        if is_any || !above.children.is_empty() {
            above.nodes = depth + above.children.len();
        }
        Ok(above)
    }

    /// Marks those nodes as changed. Nothing changed since they were looked for.
    pub fn vacate(&mut self, key: &[u8], above: &Above, cache: &NodeCache) -> Result<(), Missing> {
        let (Some(mut at), 1..) = (self.root.as_mut(), above.nodes) else { return Ok(()) };
        loop {
            let node = at.change(cache)?;
            match node.page.level() {
                0 => return Ok(()),
                1 => {
                    for index in &above.children {
                        node.children[*index].change(cache)?;
                    }
                    return Ok(());
                }
                _ => {
                    let index = node.page.child_of(key);
                    at = &mut node.children[index];
                }
            }
        }
    }
}

impl Store {
    /// Has no node stand in `zone` and above it. Nothing is given out there meanwhile.
    pub(crate) async fn vacate(&self, zone: u32, steps: &dyn Steps) -> Result<(), VolumeError> {
        let address = self.address_in(zone, 0);
        for _ in 0..ROUNDS {
            for tree in 0..TREES {
                self.vacate_tree(tree, address..u64::MAX, steps).await?;
            }
            self.checkpoint().await?;
            self.end_reading();
            if held(&self.zones).are_clear(zone) {
                return Ok(());
            }
        }
        let text = format!("volume {} has nodes above the new end that no tree refers to", self.volume());
        Err(VolumeError::new(ErrorKind::Corrupt, format!("{text}: scan and repair it first")))
    }

    /// Has the nodes of a tree in a range of addresses be written elsewhere by the next checkpoint.
    pub(crate) async fn vacate_tree(
        &self,
        tree: u8,
        addresses: Range<u64>,
        steps: &dyn Steps,
    ) -> Result<(), VolumeError> {
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            if self.is_checkpoint_due() {
                self.checkpoint().await?;
            }
            let trees = [tree];
            let done = self.attempt(&trees, Need::More, |mut view, pins| {
                let above = view.tree(tree).above(&addresses, &key, &self.cache, pins)?;
                if above.nodes > 0 {
                    self.check_nodes(above.nodes, Need::More)?;
                    view.tree(tree).vacate(&key, &above, &self.cache).expect("all of them are in memory");
                }
                Ok(above)
            });
            let above = done.await?;
            let bytes = (above.children.len() * PAGE_BYTES) as u64;
            next = above.next;
            steps.done(bytes);
            self.check_step(steps, bytes).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::NodeRef;

    /// A tree all of whose nodes stand on the device, at addresses of their own.
    fn stored(child: &mut Child, cache: &NodeCache, next: &mut u64) {
        let Child::Changed(node) = child else { return };
        let mut node = node.as_ref().clone();
        node.children.iter_mut().for_each(|child| stored(child, cache, next));
        for index in 0..node.children.len() {
            let Child::Stored(place) = node.children[index] else { panic!("it was stored just now") };
            node.page.set_child(index, place);
        }
        *next += PAGE_BYTES as u64;
        let place = NodeRef { address: *next, generation: 1, crc: 7 };
        cache.keep(place, Arc::new(node.page));
        *child = Child::Stored(place);
    }

    fn count(child: &Child, cache: &NodeCache, address: u64) -> usize {
        let look = child.look(cache).expect("all is in memory");
        let own = usize::from(matches!(child, Child::Stored(stored) if stored.address >= address));
        let children = (0..look.page().count()).filter(|_| look.page().level() > 0).map(|index| match &look {
            Look::Stored(page) => count(&Child::Stored(page.child(index)), cache, address),
            Look::Changed(node) => count(&node.children[index], cache, address),
        });
        own + children.sum::<usize>()
    }

    #[test]
    fn all_nodes_above_the_line_are_marked_and_no_entry_changes() {
        for line in [0, 40, 90, 1000] {
            let cache = NodeCache::new(64 << 20);
            let mut tree = Tree::new(0, None);
            for number in 0..4000u64 {
                tree.put(&number.to_be_bytes(), &[number as u8; 700], &cache).expect("all is in memory");
            }
            stored(tree.root.as_mut().expect("it has entries"), &cache, &mut 0);
            let address = line * PAGE_BYTES as u64;
            let before = count(tree.root.as_ref().expect("it has entries"), &cache, address);
            assert_eq!(before > 0, line < 1000, "{before} above {line}");
            let (mut next, mut marked) = (Some(Vec::new()), 0);
            while let Some(key) = next {
                let above = tree.above(&(address..u64::MAX), &key, &cache, &mut Vec::new()).expect("all is in memory");
                assert!(above.children.len() <= AT_ONCE);
                tree.vacate(&key, &above, &cache).expect("all is in memory");
                marked += above.children.len();
                next = above.next;
            }
            assert!(marked <= before && marked + 5 >= before, "{marked} of {before}");
            assert_eq!(count(tree.root.as_ref().expect("it has entries"), &cache, address), 0);
            for number in 0..4000u64 {
                let value = tree.get(&number.to_be_bytes(), &cache).expect("all is in memory");
                assert_eq!(value, Some(vec![number as u8; 700]));
            }
            assert!(tree.dropped.is_empty(), "the tree keeps its form");
        }
    }
}
