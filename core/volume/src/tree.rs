//! One tree in memory: nodes that changed since they were last written, above nodes that stand on the device.
//!
//! ```text
//!   root ── Changed ── Changed ── Changed leaf          written by the next checkpoint, then Stored
//!              │           └───── Stored  ┐
//!              └── Stored                 ┘ read through the cache, by address
//! ```
//!
//! A checkpoint takes the root as it is and writes it while changes go on: a node that it holds is copied before it is
//! changed again ([`Arc::make_mut`]).
//!
//! Invariant: an operation that meets a node which is not in memory changes nothing; it answers which one, and is
//! tried again when that was read.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use crate::cache::NodeCache;
use crate::page::{NodeRef, Page};

/// A node with less than this is joined with its neighbour, where both fit into three quarters of one.
const SPARSE: usize = Page::ROOM / 4;

/// A node that an operation needs and cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is not in memory.
    Node(NodeRef),
    /// It is not what its parent says: of another tree, level or range.
    Misplaced(NodeRef),
}

/// The place of a node, known once it is written.
pub(crate) type PlaceCell = Arc<OnceLock<NodeRef>>;

/// A node as its parent knows it.
#[derive(Clone, Debug)]
pub(crate) enum Child {
    /// As it stands on the device.
    Stored(NodeRef),
    /// Changed since.
    Changed(Arc<Changed>),
}

/// A node that is not on the device as it is.
#[derive(Debug)]
pub(crate) struct Changed {
    /// Its entries; of an inner node with children as they were when it became changed.
    pub page: Page,
    /// The children of an inner node, one for each entry.
    pub children: Vec<Child>,
    /// Where it was written to, once it was.
    pub place: PlaceCell,
    /// Where it stood before: free once a root without it is durable.
    pub before: Option<PlaceCell>,
}

impl Clone for Changed {
    /// What a checkpoint holds is copied; the copy replaces what that wrote.
    fn clone(&self) -> Self {
        Self {
            page: self.page.clone(),
            children: self.children.clone(),
            place: PlaceCell::default(),
            before: Some(self.place.clone()),
        }
    }
}

impl Changed {
    pub(crate) fn leaf_or_inner(page: Page, children: Vec<Child>, before: Option<PlaceCell>) -> Self {
        Self { page, children, place: PlaceCell::default(), before }
    }

    fn of_stored(stored: NodeRef, page: &Page) -> Self {
        let children = match page.level() {
            0 => Vec::new(),
            _ => (0..page.count()).map(|index| Child::Stored(page.child(index))).collect(),
        };
        Self::leaf_or_inner(page.clone(), children, Some(Arc::new(OnceLock::from(stored))))
    }
}

/// A tree.
#[derive(Debug)]
pub(crate) struct Tree {
    pub number: u8,
    /// `None` while it holds nothing.
    pub root: Option<Child>,
    /// Nodes that the tree has no more, whose places are free once a root without them is durable.
    pub dropped: Vec<PlaceCell>,
}

/// A node to look at.
pub(crate) enum Look<'a> {
    Stored(Arc<Page>),
    Changed(&'a Changed),
}

impl<'a> Look<'a> {
    pub(crate) fn page(&self) -> &Page {
        match self {
            Self::Stored(page) => page,
            Self::Changed(node) => &node.page,
        }
    }

    /// The child that an entry names, if it is what the entry says.
    pub(crate) fn child(&self, index: usize, cache: &NodeCache) -> Result<Look<'a>, Missing> {
        let stored = match self {
            Self::Stored(page) => page.child(index),
            Self::Changed(node) => match &node.children[index] {
                Child::Changed(child) => return Ok(Look::Changed(child)),
                Child::Stored(stored) => *stored,
            },
        };
        let page = cache.get(stored).ok_or(Missing::Node(stored))?;
        if !self.page().is_parent_of(index, &page) {
            return Err(Missing::Misplaced(stored));
        }
        Ok(Look::Stored(page))
    }

    /// Keeps the node in memory as long as the pin lasts.
    pub(crate) fn pin(&self, pins: &mut Vec<Arc<Page>>) {
        if let Self::Stored(page) = self {
            pins.push(page.clone());
        }
    }
}

impl Child {
    pub(crate) fn look(&self, cache: &NodeCache) -> Result<Look<'_>, Missing> {
        match self {
            Self::Stored(stored) => cache.get(*stored).map(Look::Stored).ok_or(Missing::Node(*stored)),
            Self::Changed(node) => Ok(Look::Changed(node)),
        }
    }

    /// The node for changing. Whoever asks made sure that it is in memory.
    pub(crate) fn change(&mut self, cache: &NodeCache) -> Result<&mut Changed, Missing> {
        if let Self::Stored(stored) = self {
            let page = cache.get(*stored).ok_or(Missing::Node(*stored))?;
            cache.note_changed();
            *self = Self::Changed(Arc::new(Changed::of_stored(*stored, &page)));
        }
        let Self::Changed(node) = self else { unreachable!("it was made so just now") };
        if node.place.get().is_some() {
            // A checkpoint wrote it meanwhile.
            *node = Arc::new(Changed::clone(node));
            cache.note_changed();
        } else if Arc::strong_count(node) > 1 {
            // A checkpoint is about to write it.
            cache.note_changed();
        }
        let own = Arc::make_mut(node);
        if own.place.get().is_some() {
            // It was written, and let go of, just now.
            *own = own.clone();
            cache.note_changed();
        }
        Ok(own)
    }

    /// The place that becomes free when the node is given up.
    pub(crate) fn into_dropped(self) -> Option<PlaceCell> {
        match self {
            Self::Stored(stored) => Some(Arc::new(OnceLock::from(stored))),
            Self::Changed(node) if node.place.get().is_some() => Some(node.place.clone()),
            Self::Changed(node) => match Arc::try_unwrap(node) {
                Ok(node) => node.before,
                // A checkpoint is about to write it, and gives up what stood before.
                Err(node) => Some(node.place.clone()),
            },
        }
    }
}

/// What an insertion did to the node above: a further child, and the key that it begins with.
type Split = Option<(Vec<u8>, Child)>;

impl Tree {
    pub fn new(number: u8, root: Option<NodeRef>) -> Self {
        Self { number, root: root.map(Child::Stored), dropped: Vec::new() }
    }

    /// The root, if it is one of this tree.
    pub(crate) fn top(&self, cache: &NodeCache) -> Result<Option<Look<'_>>, Missing> {
        let Some(root) = &self.root else { return Ok(None) };
        let look = root.look(cache)?;
        match (root, look.page()) {
            (Child::Stored(stored), page) if (page.tree(), page.low(), page.high()) != (self.number, b"", None) => {
                Err(Missing::Misplaced(*stored))
            }
            _ => Ok(Some(look)),
        }
    }

    /// The leaf that has a key.
    fn leaf(&self, key: &[u8], cache: &NodeCache) -> Result<Option<Look<'_>>, Missing> {
        let Some(mut look) = self.top(cache)? else { return Ok(None) };
        while look.page().level() > 0 {
            look = look.child(look.page().child_of(key), cache)?;
        }
        Ok(Some(look))
    }

    /// Shows the leaf that has a key, or would have it.
    pub fn show_leaf<T>(
        &self,
        key: &[u8],
        cache: &NodeCache,
        show: impl FnOnce(&Page) -> T,
    ) -> Result<Option<T>, Missing> {
        Ok(self.leaf(key, cache)?.map(|leaf| show(leaf.page())))
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8], cache: &NodeCache) -> Result<Option<Vec<u8>>, Missing> {
        let Some(leaf) = self.leaf(key, cache)? else { return Ok(None) };
        let page = leaf.page();
        Ok(page.find(key).ok().map(|index| page.entry(index).1.to_vec()))
    }

    /// Shows entries from `from` on, of one leaf, until one is enough; answers the key from which to go on if there may
    /// be more.
    pub fn visit(
        &self,
        from: &[u8],
        cache: &NodeCache,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<Option<Vec<u8>>, Missing> {
        let Some(leaf) = self.leaf(from, cache)? else { return Ok(None) };
        let page = leaf.page();
        let first = page.find(from).unwrap_or_else(|next| next);
        for index in first..page.count() {
            let (key, value) = page.entry(index);
            if each(key, value).is_break() {
                return Ok(None);
            }
        }
        Ok(page.high().map(<[u8]>::to_vec))
    }

    /// Whether all that a change of a key may touch is in memory: the way to its leaf, and a neighbour of each node
    /// there that may become sparse. What stands on the device is pinned, so that it stays there. Answers the leaf: all
    /// keys that it covers are ready.
    pub fn ready(&self, key: &[u8], cache: &NodeCache, pins: &mut Vec<Arc<Page>>) -> Result<Option<Look<'_>>, Missing> {
        let Some(mut look) = self.top(cache)? else { return Ok(None) };
        loop {
            look.pin(pins);
            let page = look.page();
            if page.level() == 0 {
                return Ok(Some(look));
            }
            let index = page.child_of(key);
            let next = look.child(index, cache)?;
            let beside = [Some(index + 1).filter(|right| *right < page.count()), index.checked_sub(1)];
            if next.page().used() < SPARSE + Page::ROOM / 4
                && let Some(neighbour) = beside.into_iter().flatten().next()
            {
                match look.child(neighbour, cache) {
                    Ok(neighbour) => neighbour.pin(pins),
                    // What cannot be read is not joined with.
                    Err(Missing::Misplaced(_)) => {}
                    Err(Missing::Node(node)) if cache.is_lost(node) => {}
                    Err(missing) => return Err(missing),
                }
            }
            look = next;
        }
    }

    /// Puts a value in. The tree must be [`Tree::ready`] for the key.
    pub fn put(&mut self, key: &[u8], value: &[u8], cache: &NodeCache) -> Result<(), Missing> {
        self.put_some((key, value), std::iter::empty(), cache).map(drop)
    }

    /// Puts a value in, and of those that follow as many as go to the same leaf; answers how many these are.
    pub fn put_some<'a>(
        &mut self,
        first: (&[u8], &[u8]),
        more: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        cache: &NodeCache,
    ) -> Result<usize, Missing> {
        let number = self.number;
        let root = self.root.get_or_insert_with(|| {
            let page = Page::new(number, 0, b"", None);
            cache.note_changed();
            Child::Changed(Arc::new(Changed::leaf_or_inner(page, Vec::new(), None)))
        });
        let (count, split) = put(root, first, more, cache)?;
        if let Some((separator, right)) = split {
            let level = root.look(cache)?.page().level() + 1;
            let left = self.root.take().expect("it was there");
            let mut page = Page::new(number, level, b"", None);
            let empty = [0; crate::page::REF_BYTES];
            cache.note_changed();
            let fits = page.put(b"", &empty) && page.put(&separator, &empty);
            debug_assert!(fits, "a node has room for two children");
            self.root = Some(Child::Changed(Arc::new(Changed::leaf_or_inner(page, vec![left, right], None))));
        }
        Ok(count)
    }

    /// Takes a key out; false if it was not there. The tree must be [`Tree::ready`] for the key.
    pub fn remove(&mut self, key: &[u8], cache: &NodeCache) -> Result<bool, Missing> {
        if self.get(key, cache)?.is_none() {
            return Ok(false);
        }
        let Some(root) = &mut self.root else { return Ok(false) };
        remove(root, key, cache, &mut self.dropped)?;
        while let Some(Child::Changed(node)) = &self.root {
            if node.page.level() == 0 {
                if node.page.count() == 0 {
                    self.dropped.extend(self.root.take().and_then(Child::into_dropped));
                }
                break;
            }
            if node.page.count() > 1 {
                break;
            }
            let only = node.children[0].clone();
            self.dropped.extend(self.root.replace(only).and_then(Child::into_dropped));
        }
        Ok(true)
    }

    /// After a checkpoint: nodes that it wrote, and that did not change since, stand on the device from now on.
    pub fn settle(&mut self) {
        if let Some(root) = &mut self.root {
            settle(root);
        }
    }
}

fn settle(child: &mut Child) {
    let Child::Changed(node) = child else { return };
    if let Some(place) = node.place.get() {
        *child = Child::Stored(*place);
    } else {
        // It changed since: nobody else holds it, now that the checkpoint is over.
        Arc::make_mut(node).children.iter_mut().for_each(settle);
    }
}

/// Puts a value in, and those that follow as long as they fit into the same leaf; answers how many these are.
fn put<'a>(
    child: &mut Child,
    (key, value): (&[u8], &[u8]),
    more: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    cache: &NodeCache,
) -> Result<(usize, Split), Missing> {
    let node = child.change(cache)?;
    if node.page.level() == 0 {
        if node.page.put(key, value) {
            let fit = more.take_while(|(key, value)| node.page.covers(key) && node.page.put(key, value));
            return Ok((1 + fit.count(), None));
        }
        let (separator, mut right) = split(node, key, cache);
        let target = if key < separator.as_slice() { &mut node.page } else { &mut right.page };
        if target.put(key, value) {
            return Ok((1, Some((separator, Child::Changed(Arc::new(right))))));
        }
        unreachable!("half a node has room for any entry");
    }
    let index = node.page.child_of(key);
    let (count, further) = put(&mut node.children[index], (key, value), more, cache)?;
    let Some((separator, right)) = further else { return Ok((count, None)) };
    let empty = [0; crate::page::REF_BYTES];
    let insert = |node: &mut Changed, separator: &[u8], right: Child| {
        let at = node.page.find(separator).expect_err("a new separator");
        let fits = node.page.put(separator, &empty);
        if fits {
            node.children.insert(at, right);
            return None;
        }
        Some(right)
    };
    let Some(right) = insert(node, &separator, right) else { return Ok((count, None)) };
    let (middle, mut beside) = split(node, &separator, cache);
    let target = if separator < middle { node } else { &mut beside };
    let left_over = insert(target, &separator, right);
    debug_assert!(left_over.is_none(), "half a node has room for another child");
    Ok((count, Some((middle, Child::Changed(Arc::new(beside))))))
}

/// Cuts a full node in two; answers the right part and the key that it begins with. A node that `key` is to be added
/// at the end of keeps nearly all: keys that ascend leave full nodes behind.
fn split(node: &mut Changed, key: &[u8], cache: &NodeCache) -> (Vec<u8>, Changed) {
    cache.note_changed();
    let count = node.page.count();
    let sizes: Vec<usize> = (0..count).map(|index| node.page.entry(index)).map(|(k, v)| Page::bytes_of(k, v)).collect();
    let total: usize = sizes.iter().sum();
    let appends = node.page.key(count - 1) < key;
    let share = if appends { total - total / 8 } else { total / 2 };
    // The cut that comes closest to the share, with something on both sides.
    let (mut left, mut sum) = (1, sizes[0]);
    while left < count - 1 && (sum + sizes[left]).abs_diff(share) < sum.abs_diff(share) {
        sum += sizes[left];
        left += 1;
    }
    let separator = node.page.key(left).to_vec();
    let (low, high) = (node.page.low().to_vec(), node.page.high().map(<[u8]>::to_vec));
    let right = node.page.part(left..count, &separator, high.as_deref());
    node.page = node.page.part(0..left, &low, Some(&separator));
    let children = if node.children.is_empty() { Vec::new() } else { node.children.split_off(left) };
    (separator, Changed::leaf_or_inner(right, children, None))
}

fn remove(child: &mut Child, key: &[u8], cache: &NodeCache, dropped: &mut Vec<PlaceCell>) -> Result<(), Missing> {
    let node = child.change(cache)?;
    if node.page.level() == 0 {
        let index = node.page.find(key).expect("it was found before");
        node.page.remove(index);
        return Ok(());
    }
    let index = node.page.child_of(key);
    remove(&mut node.children[index], key, cache, dropped)?;
    if node.children[index].look(cache)?.page().used() < SPARSE {
        let left = if index + 1 < node.page.count() { Some(index) } else { index.checked_sub(1) };
        if let Some(left) = left {
            join(node, left, cache, dropped);
        }
    }
    Ok(())
}

/// Joins two children that stand beside each other, where they are in memory and fit well into one.
fn join(node: &mut Changed, left: usize, cache: &NodeCache, dropped: &mut Vec<PlaceCell>) {
    let fits = {
        let both = Look::Changed(node);
        let (Ok(one), Ok(other)) = (both.child(left, cache), both.child(left + 1, cache)) else { return };
        one.page().used() + other.page().used() <= Page::ROOM / 4 * 3
    };
    if !fits {
        return;
    }
    let right = node.children.remove(left + 1);
    let (right_page, right_children) = {
        let Ok(look) = right.look(cache) else { unreachable!("it was looked at just now") };
        match look {
            Look::Changed(changed) => (changed.page.clone(), changed.children.clone()),
            Look::Stored(page) => {
                let changed = match page.level() {
                    0 => Vec::new(),
                    _ => (0..page.count()).map(|index| Child::Stored(page.child(index))).collect(),
                };
                ((*page).clone(), changed)
            }
        }
    };
    node.page.remove(left + 1);
    let Ok(joined) = node.children[left].change(cache) else { unreachable!("it was looked at just now") };
    joined.page = joined.page.joined(&right_page).expect("both fit into one");
    joined.children.extend(right_children);
    dropped.extend(right.into_dropped());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(child: &Child, low: &[u8], high: Option<&[u8]>, into: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
        let Child::Changed(node) = child else { panic!("nothing was stored") };
        assert_eq!((node.page.low(), node.page.high()), (low, high), "bounds agree with those above");
        if node.page.level() == 0 {
            into.extend((0..node.page.count()).map(|at| node.page.entry(at)).map(|(k, v)| (k.to_vec(), v.to_vec())));
            return;
        }
        assert_eq!(node.children.len(), node.page.count());
        for (index, child) in node.children.iter().enumerate() {
            let next = if index + 1 < node.page.count() { Some(node.page.key(index + 1)) } else { high };
            check(child, node.page.key(index), next, into);
        }
    }

    #[test]
    fn it_holds_what_a_map_holds() {
        let cache = NodeCache::new(1 << 20);
        let (mut tree, mut model, mut state) = (Tree::new(0, None), BTreeMap::new(), 1u64);
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..30_000u64 {
            let grows = (step / 5000) % 2 == 0;
            let key = match next(3) {
                0 => next(3000).to_be_bytes().to_vec(),
                _ => [&next(3000).to_be_bytes()[..], &vec![b'x'; next(200) as usize]].concat(),
            };
            if next(10) < if grows { 8 } else { 2 } {
                let value = vec![step as u8; next(900) as usize];
                tree.put(&key, &value, &cache).expect("all is in memory");
                model.insert(key, value);
            } else {
                let key = model.range(key.clone()..).next().map_or(key, |(key, _)| key.clone());
                let removed = tree.remove(&key, &cache).expect("all is in memory");
                assert_eq!(removed, model.remove(&key).is_some());
            }
            if step % 500 == 0 {
                let mut held = BTreeMap::new();
                tree.root.iter().for_each(|root| check(root, b"", None, &mut held));
                assert!(held == model, "step {step}");
            }
        }
        for key in model.keys().cloned().collect::<Vec<_>>() {
            assert!(tree.remove(&key, &cache).expect("all is in memory"));
        }
        assert!(tree.root.is_none(), "an empty tree has no node");
    }
}
