//! A node that cannot be read taken out of its tree: written anew where it is still in memory, else replaced by one that
//! covers the same keys and holds none.
//!
//! Invariants: the tree keeps its form: whoever looks for a key of the node finds a leaf. The place of a node that was
//! replaced is not given back: another node may refer to it, too. A scan that read everything finds it free.

use std::sync::Arc;

use crate::cache::NodeCache;
use crate::page::Page;
use crate::tree::{Changed, Child, Missing, Tree};

/// What is to become of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Graft {
    /// It is written to another place as it is in memory.
    Rewrite,
    /// It is replaced by an empty one.
    Empty,
}

/// A node without entries, with what has to stand below it.
fn empty(tree: u8, level: u8, low: &[u8], high: Option<&[u8]>, cache: &NodeCache) -> Child {
    cache.note_changed();
    let mut page = Page::new(tree, level, low, high);
    let mut children = Vec::new();
    if level > 0 {
        let fits = page.put(low, &[0; crate::page::REF_BYTES]);
        debug_assert!(fits, "an empty node has room for a child");
        children.push(empty(tree, level - 1, low, high, cache));
    }
    Child::Changed(Arc::new(Changed::leaf_or_inner(page, children, None)))
}

impl Tree {
    /// Nodes that cannot be read or are misplaced: where each stands, and the key that it begins with.
    pub fn lost(&self, cache: &NodeCache) -> Result<Vec<(u64, Vec<u8>)>, Missing> {
        let (mut lost, mut waiting) = (Vec::new(), Vec::new());
        let mut note = |missing: Missing, low: &[u8]| match missing {
            Missing::Node(node) if !cache.is_lost(node) => Err(missing),
            Missing::Node(node) | Missing::Misplaced(node) => {
                lost.push((node.address, low.to_vec()));
                Ok(())
            }
        };
        match self.top(cache) {
            Ok(root) => waiting.extend(root),
            Err(missing) => note(missing, b"")?,
        }
        while let Some(look) = waiting.pop() {
            let page = look.page();
            for index in 0..if page.level() > 0 { page.count() } else { 0 } {
                match look.child(index, cache) {
                    Ok(child) => waiting.push(child),
                    Err(missing) => note(missing, page.key(index))?,
                }
            }
        }
        Ok(lost)
    }

    /// Does it to the node at `address` that covers `low`; false if it is not there, or not in memory to be rewritten.
    pub fn graft(&mut self, address: u64, low: &[u8], how: Graft, cache: &NodeCache) -> Result<bool, Missing> {
        let number = self.number;
        let is_it = |child: &Child| matches!(child, Child::Stored(stored) if stored.address == address);
        let Some(root) = &mut self.root else { return Ok(false) };
        if is_it(root) {
            match how {
                Graft::Rewrite => return Ok(root.change(cache).is_ok()),
                Graft::Empty => self.root = None,
            }
            return Ok(true);
        }
        let mut at = root;
        loop {
            let node = at.change(cache)?;
            if node.page.level() == 0 {
                return Ok(false);
            }
            let index = node.page.child_of(low);
            if is_it(&node.children[index]) {
                if how == Graft::Rewrite {
                    return Ok(node.children[index].change(cache).is_ok());
                }
                let next = (index + 1 < node.page.count()).then(|| node.page.key(index + 1));
                let high = next.or(node.page.high());
                let new = empty(number, node.page.level() - 1, node.page.key(index), high, cache);
                node.children[index] = new;
                return Ok(true);
            }
            at = &mut node.children[index];
        }
    }
}
