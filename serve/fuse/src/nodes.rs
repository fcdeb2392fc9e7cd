//! Nodes: the files that the kernel knows, by its numbers.
//!
//! A node's number is its file's, but for the root, which the kernel calls 1, and for a file that took the number of
//! one that is gone and that the kernel still holds: those get odd numbers from 2^63 on. A number that is given so follows
//! from the file, so that handles of one file lead to no other, also in the next mount.
//!
//! ```text
//!   look-up, create, link, listing ──▶ +1        FORGET ──▶ -n, gone at 0
//! ```
//!
//! Invariant: as long as the kernel knows a file it knows it by one number, and that number by no other file. The table
//! is as large as what the kernel keeps.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_volume::service::{Attributes, FileId, Remembers};

use crate::protocol::constants::ROOT_ID;

/// Parts of the table, each with its own lock.
const SHARDS: usize = 16;
/// Numbers from here on are given out.
const ODD: u64 = 1 << 63;

#[derive(Debug)]
struct Node {
    id: FileId,
    lookups: u64,
    /// It has no privileges that a write would have to take away.
    is_plain: bool,
    /// Open files that write past what the kernel keeps.
    direct: u32,
    /// Open files through which programs may have the kernel keep what the service does not have.
    hiding: u32,
    /// There was one since the kernel was last told to drop what it keeps.
    is_passed: bool,
    /// A directory that has no name any more: what it was. The service keeps it no longer; programs may have it open.
    gone: Option<Box<Attributes>>,
    /// Owners of locks, and the processes that asked for them.
    owners: BTreeMap<u64, u32>,
}

#[derive(Debug, Default)]
struct Odd {
    nodes: HashMap<u64, Node>,
    numbers: HashMap<FileId, u64>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Nodes {
    root: FileId,
    root_is_plain: Mutex<bool>,
    shards: [Mutex<HashMap<u64, Node>>; SHARDS],
    odd: Mutex<Odd>,
    /// How many nodes have odd numbers. Changed only with the lock of the shard of the file's number.
    odd_count: AtomicUsize,
}

/// What the kernel may keep of the data of a file that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// What it has, and more.
    All,
    /// What it reads from now on.
    New,
    /// Nothing through this open file.
    Nothing,
}

/// The number that a file gets that cannot have its own.
fn odd_number(id: FileId) -> u64 {
    let mut hasher = DefaultHasher::new();
    (id.number, id.generation).hash(&mut hasher);
    ODD | hasher.finish()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nodes {
    pub(crate) fn new(root: FileId) -> Self {
        Self {
            root,
            root_is_plain: Mutex::default(),
            shards: Default::default(),
            odd: Mutex::default(),
            odd_count: AtomicUsize::new(0),
        }
    }

    fn shard(&self, number: u64) -> &Mutex<HashMap<u64, Node>> {
        &self.shards[(number % SHARDS as u64) as usize]
    }

    /// Whether a number is not that of the file: then it means nothing once the node is forgotten.
    pub(crate) fn is_given(node: u64) -> bool {
        node >= ODD
    }

    /// The file of a node that the kernel knows.
    pub(crate) fn file(&self, node: u64) -> Option<FileId> {
        if node == ROOT_ID {
            return Some(self.root);
        }
        self.with(node, |found| found.id)
    }

    /// The number of a node that the kernel knows, for notifications.
    pub(crate) fn known(&self, id: FileId) -> Option<u64> {
        if id == self.root {
            return Some(ROOT_ID);
        }
        let shard = lock(self.shard(id.number));
        let odd = || lock(&self.odd).numbers.get(&id).copied();
        shard.get(&id.number).is_some_and(|node| node.id == id).then_some(id.number).or_else(odd)
    }

    /// Counts a look-up of a file, and answers its node.
    pub(crate) fn add(&self, id: FileId) -> u64 {
        if id == self.root {
            return ROOT_ID;
        }
        let mut shard = lock(self.shard(id.number));
        if self.odd_count.load(Ordering::Acquire) > 0 {
            let mut odd = lock(&self.odd);
            if let Some(number) = odd.numbers.get(&id).copied() {
                odd.nodes.get_mut(&number).expect("both maps have it").lookups += 1;
                return number;
            }
        }
        let node = Node {
            id,
            lookups: 1,
            is_plain: false,
            direct: 0,
            hiding: 0,
            is_passed: false,
            gone: None,
            owners: BTreeMap::new(),
        };
        if (ROOT_ID + 1..ODD).contains(&id.number) {
            match shard.entry(id.number) {
                Entry::Vacant(vacant) => {
                    vacant.insert(node);
                    return id.number;
                }
                Entry::Occupied(mut known) if known.get().id == id => {
                    known.get_mut().lookups += 1;
                    return id.number;
                }
                Entry::Occupied(_) => {}
            }
        }
        let mut odd = lock(&self.odd);
        let mut number = odd_number(id);
        while odd.nodes.contains_key(&number) {
            number = ODD | number.wrapping_add(1);
        }
        odd.nodes.insert(number, node);
        odd.numbers.insert(id, number);
        self.odd_count.fetch_add(1, Ordering::Release);
        number
    }

    /// Takes back so many look-ups; answers the file that is not known any more with that.
    pub(crate) fn forget(&self, node: u64, lookups: u64) -> Option<FileId> {
        if node >= ODD {
            let id = lock(&self.odd).nodes.get(&node).map(|node| node.id)?;
            let _shard = lock(self.shard(id.number));
            let mut odd = lock(&self.odd);
            let gone = forget_in(&mut odd.nodes, node, lookups)?;
            odd.numbers.remove(&id);
            self.odd_count.fetch_sub(1, Ordering::Release);
            Some(gone)
        } else if node != ROOT_ID {
            forget_in(&mut lock(self.shard(node)), node, lookups)
        } else {
            None
        }
    }

    /// Forgets all files; answers them.
    pub(crate) fn drain(&self) -> Vec<FileId> {
        let shards = self.shards.iter().flat_map(|shard| std::mem::take(&mut *lock(shard)).into_values());
        let mut files: Vec<FileId> = shards.map(|node| node.id).collect();
        let odd = std::mem::take(&mut *lock(&self.odd));
        self.odd_count.store(0, Ordering::Release);
        files.extend(odd.nodes.into_values().map(|node| node.id));
        files
    }

    /// Whether a write to the file has nothing to take away from it.
    pub(crate) fn is_plain(&self, node: u64) -> bool {
        if node == ROOT_ID {
            return *lock(&self.root_is_plain);
        }
        self.with(node, |found| found.is_plain).unwrap_or(false)
    }

    /// Notes whether it does.
    pub(crate) fn set_plain(&self, node: u64, is_plain: bool) {
        if node == ROOT_ID {
            *lock(&self.root_is_plain) = is_plain;
        }
        self.with(node, |found| found.is_plain = is_plain);
    }

    /// A file is opened to be written past what the kernel keeps of it.
    pub(crate) fn open_direct(&self, node: u64) {
        self.with(node, |found| {
            found.direct += 1;
            found.is_passed = true;
        });
    }

    /// Such an open file is closed.
    pub(crate) fn close_direct(&self, node: u64) {
        self.with(node, |found| found.direct = found.direct.saturating_sub(1));
    }

    /// A file is opened so that programs may have the kernel keep what the service does not have; answers whether none was.
    pub(crate) fn open_hiding(&self, node: u64) -> bool {
        let count = |found: &mut Node| {
            found.hiding += 1;
            found.hiding == 1
        };
        self.with(node, count).unwrap_or(false)
    }

    /// Such an open file is closed.
    pub(crate) fn close_hiding(&self, node: u64) {
        self.with(node, |found| found.hiding = found.hiding.saturating_sub(1));
    }

    /// Whether the kernel may keep what the service does not have of a file.
    pub(crate) fn may_hide(&self, node: u64) -> bool {
        node != ROOT_ID && self.with(node, |found| found.hiding > 0).unwrap_or(false)
    }

    /// The nodes of which it may.
    pub(crate) fn hiding(&self) -> Vec<u64> {
        let mut found = Vec::new();
        let mut collect = |nodes: &HashMap<u64, Node>| {
            found.extend(nodes.iter().filter(|(_, node)| node.hiding > 0).map(|(number, _)| *number));
        };
        self.shards.iter().for_each(|shard| collect(&lock(shard)));
        collect(&lock(&self.odd).nodes);
        found
    }

    /// What the kernel may keep of a file that is opened in another way.
    pub(crate) fn keep(&self, node: u64) -> Keep {
        let keep = |found: &mut Node| match (found.direct, std::mem::take(&mut found.is_passed)) {
            (0, false) => Keep::All,
            (0, true) => Keep::New,
            (_, passed) => {
                found.is_passed = passed;
                Keep::Nothing
            }
        };
        self.with(node, keep).unwrap_or(Keep::New)
    }

    /// Notes what a directory was whose name was taken away, if the kernel knows it.
    pub(crate) fn set_gone(&self, was: &Attributes) {
        if let Some(node) = self.known(was.id) {
            let gone = Attributes { links: 0, ..*was };
            self.with(node, |found| found.gone = Some(Box::new(gone)));
        }
    }

    /// What a directory was that is no more.
    pub(crate) fn gone(&self, node: u64) -> Option<Attributes> {
        if node == ROOT_ID { None } else { self.with(node, |found| found.gone.as_deref().copied()).flatten() }
    }

    /// Notes which process asks for a lock, for those who ask whose it is.
    pub(crate) fn note_owner(&self, node: u64, owner: u64, process: u32) {
        self.with(node, |found| found.owners.insert(owner, process));
    }

    /// An owner has no lock of the file any more.
    pub(crate) fn forget_owner(&self, node: u64, owner: u64) {
        self.with(node, |found| found.owners.remove(&owner));
    }

    /// The process that asked for a lock of an owner.
    pub(crate) fn process(&self, node: u64, owner: u64) -> Option<u32> {
        self.with(node, |found| found.owners.get(&owner).copied()).flatten()
    }

    fn with<R>(&self, node: u64, act: impl FnOnce(&mut Node) -> R) -> Option<R> {
        if node >= ODD {
            return lock(&self.odd).nodes.get_mut(&node).map(act);
        }
        lock(self.shard(node)).get_mut(&node).map(act)
    }

    /// Nodes beside the root.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum::<usize>() + lock(&self.odd).nodes.len()
    }
}

impl Remembers for Nodes {
    fn knows(&self, id: FileId) -> bool {
        self.known(id).is_some()
    }
}

/// The file, if that was the last look-up.
fn forget_in(nodes: &mut HashMap<u64, Node>, number: u64, lookups: u64) -> Option<FileId> {
    let Entry::Occupied(mut known) = nodes.entry(number) else { return None };
    known.get_mut().lookups = known.get().lookups.saturating_sub(lookups);
    (known.get().lookups == 0).then(|| known.remove().id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64, generation: u32) -> FileId {
        FileId { number, generation }
    }

    #[test]
    fn a_node_is_known_until_its_last_look_up_is_forgotten() {
        let nodes = Nodes::new(id(7, 0));
        assert_eq!((nodes.add(id(7, 0)), nodes.file(ROOT_ID)), (ROOT_ID, Some(id(7, 0))));
        assert_eq!((nodes.add(id(8, 0)), nodes.add(id(8, 0)), nodes.len()), (8, 8, 1));
        nodes.set_plain(8, true);
        nodes.forget(8, 1);
        assert_eq!((nodes.file(8), nodes.is_plain(8)), (Some(id(8, 0)), true));
        nodes.forget(8, 5);
        nodes.forget(ROOT_ID, 9);
        assert_eq!((nodes.file(8), nodes.len(), nodes.known(id(8, 0))), (None, 0, None));
        nodes.add(id(8, 0));
        assert!(!nodes.is_plain(8), "nothing is known of it any more");
    }

    #[test]
    fn what_is_written_past_the_kernel_is_not_kept_by_it() {
        let nodes = Nodes::new(id(7, 0));
        nodes.add(id(8, 0));
        assert_eq!(nodes.keep(8), Keep::All);
        nodes.open_direct(8);
        nodes.open_direct(8);
        nodes.close_direct(8);
        assert_eq!((nodes.keep(8), nodes.keep(8)), (Keep::Nothing, Keep::Nothing));
        nodes.close_direct(8);
        assert_eq!((nodes.keep(8), nodes.keep(8)), (Keep::New, Keep::All), "it drops what it kept before, once");
    }

    #[test]
    fn no_two_files_share_a_number_and_no_file_has_two() {
        let nodes = Nodes::new(id(7, 0));
        assert!(nodes.add(id(1, 0)) >= ODD, "the kernel calls the root so");
        assert_eq!(nodes.add(id(8, 0)), 8);
        let second = nodes.add(id(8, 1));
        assert!(second >= ODD);
        let mount_again = Nodes::new(id(7, 0));
        mount_again.add(id(8, 0));
        assert_ne!(mount_again.add(id(8, 2)), second, "handles of one file lead to no other");
        nodes.forget(8, 1);
        assert_eq!((nodes.add(id(8, 1)), nodes.known(id(8, 1))), (second, Some(second)), "as long as it is known");
        assert_eq!(nodes.add(id(8, 2)), 8);
        nodes.forget(second, 2);
        assert_eq!((nodes.file(second), nodes.known(id(8, 1)), nodes.len()), (None, None, 2));
    }
}
