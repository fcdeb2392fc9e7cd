//! Quotas of directory trees: set and removed while files change.
//!
//! ```text
//!   set      the directory names the tree ─▶ a walk has all below it name it that named what the directory did
//!   removed  no limits, the directory names the tree above ─▶ the same walk back ─▶ forgotten once no file names it
//! ```
//!
//! What is created in a directory names what that does. A name does not move between directories of different trees, so
//! what a walk was through with stays so. Within a tree, what the walk did not meet yet is taken along by the move.
//!
//! Invariant: when a walk is through, no directory that names the tree holds a file that the walk is to change, but one
//! with further names elsewhere, which counts for one of the trees that it has names in. A walk that was cut short
//! begins anew.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use super::ledger::{Enforce, MOST_DEPTH};
use super::{Definition, Limits, QuotaState, Subject, definition, limits_key, put_definition};
use crate::change::{Need, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::keys::{self, kind};
use crate::record::{DirectoryEntry, Record};
use crate::scan::judge::{self, Way};
use crate::service::FileId;
use crate::store::held;
use crate::volume::{ROOT, Volume, directory_of, put_record};
use crate::{QUOTA_TREE, SHARED_TREES};

/// Files that one change of a walk has name another tree.
const FILES_AT_ONCE: usize = 16;
/// Trees that are right within one, at most.
const MOST_WITHIN: usize = 40;
/// Trees that have quotas, at most.
const MOST_TREES: usize = 4096;
/// Directories with names of one file that a removal of another looks at, at most.
const MOST_DIRECTORIES: usize = 1024;
/// How often all files are looked at for those that a walk did not find.
const SWEEPS: usize = 3;

/// Walks over directory trees.
#[derive(Default)]
pub(crate) struct Walks {
    /// Held by the one walk or count that is under way.
    pub(super) one: tokio::sync::Mutex<()>,
    /// Directories that the walk under way is to visit.
    queue: Mutex<VecDeque<u64>>,
}

/// What a walk changes: files that name the first tree name the second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    from: u32,
    to: u32,
}

/// The step that a walk makes for a tree.
fn step_of(tree: u32, definition: &Definition) -> Option<Step> {
    match definition.state {
        QuotaState::Settled => None,
        QuotaState::Counting => Some(Step { from: definition.parent, to: tree }),
        QuotaState::Leaving => Some(Step { from: tree, to: definition.parent }),
    }
}

/// Whether a walk is to change files of one tree to another.
fn is_stepping(view: &View<'_>, step: Step) -> Result<bool, Stop> {
    for tree in [step.from, step.to] {
        let definition = definition(view, Subject::Tree(tree))?;
        if definition.and_then(|definition| step_of(tree, &definition)) == Some(step) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn other_tree<T>() -> Result<T, Stop> {
    refuse(ErrorKind::OtherTree, "it would count for the quota of another directory tree: copy it")
}

impl Volume {
    /// Refuses a name in a directory of another tree than the file's; else answers the tree that the file names then.
    pub(crate) fn check_tree(
        &self,
        view: &mut View<'_>,
        (id, record): (FileId, &Record),
        from: &Record,
        to: &Record,
    ) -> Result<u32, Stop> {
        let (own, below, above) = (self.named(record), self.named(from), self.named(to));
        if own == above && below == above {
            return Ok(record.quota_tree);
        }
        let is_tree = record.is_directory() && self.store.ledger.directory_of(own) == Some(id);
        if is_tree || own != above {
            if below != above {
                return other_tree();
            }
            if !is_tree && self.takes_along(view, id, record, above)? {
                return Ok(above);
            }
        }
        Ok(record.quota_tree)
    }

    /// Refuses a further name in a directory of another tree; else answers the tree that the file names then.
    pub(crate) fn check_link(
        &self,
        view: &mut View<'_>,
        id: FileId,
        record: &Record,
        to: &Record,
    ) -> Result<u32, Stop> {
        let above = self.named(to);
        if self.named(record) == above {
            return Ok(record.quota_tree);
        }
        if self.takes_along(view, id, record, above)? {
            return Ok(above);
        }
        other_tree()
    }

    /// The tree that a file names now that it lost a name: the same where a directory of that tree has another name of
    /// it, else that of the first name that is left.
    pub(crate) fn tree_left(&self, view: &mut View<'_>, file: u64, record: &Record) -> Result<u32, Stop> {
        if !self.store.ledger.is_limited() {
            return Ok(record.quota_tree);
        }
        let own = self.named(record);
        let tree_of = |view: &View<'_>, directory: u64| -> Result<u32, Stop> {
            Ok(judge::record(view, directory)?.map_or(own, |directory| self.named(&directory)))
        };
        let left = tree_of(view, record.link.parent)?;
        if left == own || self.has_name_in(view, file, |view, directory| Ok(tree_of(view, directory)? == own))? {
            return Ok(record.quota_tree);
        }
        view.enforce(Enforce::Nothing);
        Ok(left)
    }

    /// Whether one of the directories with further names of a file is as asked for; also if there are too many to tell.
    fn has_name_in(
        &self,
        view: &View<'_>,
        file: u64,
        is_it: impl Fn(&View<'_>, u64) -> Result<bool, Stop>,
    ) -> Result<bool, Stop> {
        let (shard, prefix) = (keys::shard(file), keys::prefix(file, kind::LINK));
        let mut from = prefix.clone();
        for _ in 0..MOST_DIRECTORIES {
            let Some((mut key, _)) = view.range(shard, &from, &prefix, 1)?.pop() else { return Ok(false) };
            if view.get(shard, &key)?.is_none() {
                // This change took it out.
                key.push(0);
                from = key;
                continue;
            }
            let directory = keys::number(&key, 9).unwrap_or_default();
            if is_it(view, directory)? {
                return Ok(true);
            }
            from = keys::link(file, directory.saturating_add(1), 0);
        }
        Ok(true)
    }

    /// The tree that a file counts for. One whose quota is gone is none.
    fn named(&self, record: &Record) -> u32 {
        match record.quota_tree {
            0 => 0,
            tree if self.store.ledger.directory_of(tree).is_some() => tree,
            _ => 0,
        }
    }

    /// Whether a file that a walk did not meet yet names another tree from now on.
    fn takes_along(&self, view: &mut View<'_>, id: FileId, record: &Record, to: u32) -> Result<bool, Stop> {
        if !is_stepping(view, Step { from: self.named(record), to })? {
            return Ok(false);
        }
        view.enforce(Enforce::Nothing);
        if record.is_directory() {
            held(&self.walks.queue).push_back(id.number);
        }
        Ok(true)
    }

    /// A directory goes: the quota that was set at it goes, too.
    pub(crate) fn end_tree(&self, view: &mut View<'_>, id: FileId, record: &Record) -> Result<(), Stop> {
        let tree = record.quota_tree;
        if tree == 0 || self.store.ledger.directory_of(tree) != Some(id) {
            return Ok(());
        }
        let subject = Subject::Tree(tree);
        let Some(known) = definition(view, subject)? else { return Ok(()) };
        if self.store.ledger.own_files(tree) <= 1 {
            return view.remove(QUOTA_TREE, limits_key(subject));
        }
        // Files that have no name and are open count until they are closed.
        let nowhere = FileId { number: 0, generation: 0 };
        let state = QuotaState::Leaving;
        put_definition(view, subject, &Definition { limits: Limits::default(), state, directory: nowhere, ..known })
    }

    /// Limits what a directory with all below it takes, durably; answers the number of the tree, and whether anything is new.
    /// Files that are there are counted by [`Self::settle_quotas`].
    ///
    /// # Errors
    /// Limits that cannot be meant, another tree is still being counted, there are too many, no room, a node is
    /// damaged, or the device failed.
    pub async fn set_tree_quota(&self, directory: FileId, limits: Limits) -> Result<(u32, bool), VolumeError> {
        limits.check()?;
        if limits.is_none() {
            return Err(VolumeError::new(ErrorKind::Invalid, "a quota needs a limit"));
        }
        self.count_first().await?;
        let trees = [keys::shard(directory.number), QUOTA_TREE];
        let change = self.store.change(trees, Need::More, |view| {
            let mut record = directory_of(view, directory)?;
            if self.store.ledger.directory_of(record.quota_tree) == Some(directory) {
                return self.limit_tree(view, record.quota_tree, limits).map(|is_new| (record.quota_tree, is_new));
            }
            self.check_settled()?;
            let all = self.store.ledger.trees();
            if all.len() >= MOST_TREES {
                return refuse(ErrorKind::Invalid, "the volume has 4096 directory trees with quotas: remove some");
            }
            let (tree, parent) = (self.store.ledger.next_tree(), self.named(&record));
            if all.iter().any(|(tree, _)| self.store.ledger.depth(*tree) >= MOST_DEPTH) {
                return refuse(ErrorKind::Invalid, "directory trees with quotas lie 16 deep in each other at most");
            }
            let mut within = 0;
            for (number, known) in all.iter().filter(|(_, known)| known.parent == parent) {
                let way = judge::way_up(view, known.directory.number)?;
                if matches!(way, Way::Root(path) if path.contains(&directory.number)) {
                    put_definition(view, Subject::Tree(*number), &Definition { parent: tree, ..*known })?;
                    within += 1;
                }
            }
            if within > MOST_WITHIN {
                return refuse(ErrorKind::Invalid, "more than 40 trees with quotas lie right in it");
            }
            let new = Definition { limits, state: QuotaState::Counting, directory, parent };
            put_definition(view, Subject::Tree(tree), &new)?;
            record.quota_tree = tree;
            view.enforce(Enforce::Nothing);
            put_record(view, directory.number, &record)?;
            Ok((tree, true))
        });
        self.store.lasting(change).await
    }

    fn limit_tree(&self, view: &mut View<'_>, tree: u32, limits: Limits) -> Result<bool, Stop> {
        let subject = Subject::Tree(tree);
        let Some(known) = definition(view, subject)? else { return refuse(ErrorKind::Stale, "the quota is gone") };
        put_definition(view, subject, &Definition { limits, ..known })?;
        Ok(known.limits != limits)
    }

    fn check_settled(&self) -> Result<(), Stop> {
        let is_settled = |known: &Definition| known.state == QuotaState::Settled || known.directory.number == 0;
        if self.store.ledger.trees().iter().all(|(_, known)| is_settled(known)) {
            return Ok(());
        }
        refuse(ErrorKind::Busy, "files of another directory tree are still being counted: wait until that is done")
    }

    /// Takes the quota of a directory tree away, durably; answers whether there was one. Its files are given back by
    /// [`Self::settle_quotas`].
    ///
    /// # Errors
    /// A tree is still being counted, too many trees lie in it, no room, a node is damaged, or the device failed.
    pub async fn remove_tree_quota(&self, directory: FileId) -> Result<bool, VolumeError> {
        let trees = [keys::shard(directory.number), QUOTA_TREE];
        let change = self.store.change(trees, Need::Less, |view| {
            let mut record = directory_of(view, directory)?;
            let tree = record.quota_tree;
            if tree == 0 || self.store.ledger.directory_of(tree) != Some(directory) {
                return Ok(false);
            }
            self.check_settled()?;
            let Some(known) = definition(view, Subject::Tree(tree))? else { return Ok(false) };
            let all = self.store.ledger.trees();
            let within: Vec<_> = all.iter().filter(|(_, other)| other.parent == tree).collect();
            if within.len() > MOST_WITHIN {
                return refuse(ErrorKind::Invalid, "more than 40 trees with quotas lie in it: remove theirs first");
            }
            for (number, other) in within {
                put_definition(view, Subject::Tree(*number), &Definition { parent: known.parent, ..*other })?;
            }
            let leaving = Definition { limits: Limits::default(), state: QuotaState::Leaving, ..known };
            put_definition(view, Subject::Tree(tree), &leaving)?;
            record.quota_tree = known.parent;
            view.enforce(Enforce::Nothing);
            put_record(view, directory.number, &record)?;
            Ok(true)
        });
        self.store.lasting(change).await
    }

    /// Whether [`Self::settle_quotas`] has anything to do.
    pub fn has_unsettled_quotas(&self) -> bool {
        self.store.ledger.trees().iter().any(|(_, known)| known.state != QuotaState::Settled)
    }

    /// Has all files name the trees that they lie in; answers how many it looked at. May be asked to end early, by
    /// [`Self::interrupt`], and goes on when it is called again.
    ///
    /// # Errors
    /// No room, a node is damaged, or the device failed.
    pub async fn settle_quotas(&self) -> Result<u64, VolumeError> {
        let _one = self.walks.one.lock().await;
        let mut seen = 0;
        for (tree, known) in self.store.ledger.trees() {
            let Some(step) = step_of(tree, &known) else { continue };
            held(&self.walks.queue).clear();
            held(&self.walks.queue).push_back(known.directory.number);
            loop {
                let next = held(&self.walks.queue).pop_front();
                if let Some(directory) = next {
                    self.visit_directory(directory, step, &mut seen).await?;
                    continue;
                }
                let is_through = match known.state {
                    QuotaState::Leaving => self.forget_tree(tree, step, &mut seen).await?,
                    _ => self.end_walk(tree).await?,
                };
                if is_through {
                    break;
                }
            }
        }
        Ok(seen)
    }

    /// Has what is in a directory name the tree that the directory does.
    async fn visit_directory(&self, directory: u64, step: Step, seen: &mut u64) -> Result<(), VolumeError> {
        let shard = keys::shard(directory);
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            self.store.check_interrupted()?;
            let change = self.store.change([shard], Need::Less, |view| {
                let above = judge::record(view, directory)?;
                if above.is_none_or(|above| self.named(&above) != step.to || !above.is_directory() || above.links == 0)
                {
                    return Ok((Vec::new(), None, 0));
                }
                let (mut below, mut last, mut count) = (Vec::new(), None, 0);
                let mut children = Vec::new();
                let prefix = keys::prefix(directory, kind::ENTRY);
                view.each(shard, &keys::entry(directory, from), &prefix, FILES_AT_ONCE, |key, value| {
                    last = keys::number(key, 9);
                    count += 1;
                    children.extend(DirectoryEntry::decode(directory, value).ok().map(|entry| entry.child));
                    Ok(())
                })?;
                view.enforce(Enforce::Nothing);
                for child in children {
                    let record = judge::record(view, child.number)?;
                    let Some(mut record) = record.filter(|record| record.generation == child.generation) else {
                        continue;
                    };
                    let tree = self.named(&record);
                    let is_step = tree == step.from;
                    if record.is_directory() && (is_step || tree == step.to) {
                        below.push(child.number);
                    }
                    if is_step {
                        record.quota_tree = step.to;
                        put_record(view, child.number, &record)?;
                    }
                }
                let next = last.filter(|_| count == FILES_AT_ONCE).map(|last| last + 1);
                Ok((below, next, count))
            });
            let ((below, next, count), _) = change.await?;
            held(&self.walks.queue).extend(below);
            *seen += count as u64;
            cursor = next;
            crate::scan::give_way().await;
        }
        Ok(())
    }

    /// The walk is through, if nobody moved a directory meanwhile that is to be visited.
    async fn end_walk(&self, tree: u32) -> Result<bool, VolumeError> {
        let subject = Subject::Tree(tree);
        let change = self.store.change([QUOTA_TREE], Need::Less, |view| {
            let Some(known) = definition(view, subject)? else { return Ok(true) };
            if !held(&self.walks.queue).is_empty() {
                return Ok(false);
            }
            if known.state == QuotaState::Counting {
                put_definition(view, subject, &Definition { state: QuotaState::Settled, ..known })?;
            }
            Ok(true)
        });
        Ok(change.await?.0)
    }

    /// Forgets a tree that no file names any more; false if there is more to visit.
    async fn forget_tree(&self, tree: u32, step: Step, seen: &mut u64) -> Result<bool, VolumeError> {
        for _ in 0..SWEEPS {
            if self.store.ledger.own_files(tree) == 0 {
                break;
            }
            // Files whose other names lie elsewhere, or that have none and are open.
            self.sweep(step, seen).await?;
        }
        let key = limits_key(Subject::Tree(tree));
        let change = self.store.change([QUOTA_TREE], Need::Less, |view| {
            if !held(&self.walks.queue).is_empty() {
                return Ok(false);
            }
            if self.store.ledger.own_files(tree) == 0 {
                view.remove(QUOTA_TREE, key.clone())?;
            }
            Ok(true)
        });
        Ok(change.await?.0)
    }

    /// Has all files of a tree name the other, wherever they are.
    async fn sweep(&self, step: Step, seen: &mut u64) -> Result<(), VolumeError> {
        for shard in 0..SHARED_TREES {
            let mut next = Some(Vec::new());
            while let Some(from) = next.take() {
                self.store.check_interrupted()?;
                let (entries, then) = self.store.look([shard], |view| view.entries_from(shard, &from)).await?;
                let of_tree = |(key, value): &(Vec<u8>, Vec<u8>)| {
                    let file = keys::number(key, 0).filter(|_| keys::is_record(shard, key))?;
                    let record = Record::decode(file, value).ok()?;
                    (record.quota_tree == step.from).then_some(file)
                };
                let files: Vec<u64> = entries.iter().filter_map(of_tree).collect();
                for some in files.chunks(FILES_AT_ONCE) {
                    let change = self.store.change([shard], Need::Less, |view| {
                        view.enforce(Enforce::Nothing);
                        for file in some {
                            let record = judge::record(view, *file)?;
                            if let Some(mut record) = record.filter(|record| record.quota_tree == step.from) {
                                record.quota_tree = step.to;
                                put_record(view, *file, &record)?;
                            }
                        }
                        Ok(())
                    });
                    change.await?;
                    *seen += some.len() as u64;
                }
                next = then;
                crate::scan::give_way().await;
            }
        }
        Ok(())
    }

    /// The path of a directory from the root on, as far as it can be read.
    ///
    /// # Errors
    /// The directory does not exist any more, a node is damaged, or the device failed.
    pub async fn path_of(&self, directory: FileId) -> Result<Vec<u8>, VolumeError> {
        let names = self.store.look([keys::shard(directory.number)], |view| {
            let mut record = directory_of(view, directory)?;
            let (mut names, mut at, mut seen) = (Vec::new(), directory.number, HashSet::new());
            while at != ROOT {
                if !seen.insert(at) {
                    return refuse(ErrorKind::Corrupt, "directories are in each other: scan the volume");
                }
                names.push(record.link.name.clone());
                let above = FileId { number: record.link.parent, generation: record.link.parent_generation };
                (record, at) = (directory_of(view, above)?, above.number);
            }
            Ok(names)
        });
        let mut names = names.await?;
        names.reverse();
        Ok([&b"/"[..], &names.join(&b'/')].concat())
    }
}
