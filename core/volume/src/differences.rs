//! What differs between two states of the files: two snapshots, or a snapshot and now.
//!
//! ```text
//!   tree as it was      ── root ── … ── node ── leaf
//!   tree as it became   ── root ── … ──── │ ─── leaf'       a node that both have: nothing differs below it
//!                                                            leaves that differ: held against each other, by file
//! ```
//!
//! Invariants: a node that both trees have is not read, so what is read follows what changed. A file is told once, with
//! all that changed of it, in the order of trees and file numbers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::SHARED_TREES;
use crate::cache::NodeCache;
use crate::error::{ErrorKind, VolumeError};
use crate::keys::{self, kind};
use crate::page::{NodeRef, Page};
use crate::record::{Link, Record};
use crate::scan::give_way;
use crate::service::{Attributes, FileId, FileService};
use crate::store::{Store, held};
use crate::tree::{Child, Look, Missing, Tree};
use crate::volume::{ROOT, Volume, directory_of};

/// Bytes of names of directories that are remembered while differences are looked for.
const MOST_NAME_BYTES: usize = 4 << 20;
/// Bytes of paths that one call answers, about.
const MOST_BYTES: usize = 4 << 20;
/// Further names of a file that are told.
const MOST_NAMES: usize = 64;
/// What a name takes beside its bytes.
const NAME_BYTES: usize = 64;
/// Steps over the trees of one call, at most, so that it comes back although little differs.
const MOST_STEPS: usize = 20_000;

/// A file as one of the states has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its attributes.
    pub attributes: Attributes,
    /// Its path from the root on, by its first name; nothing where that cannot be told.
    pub path: Option<Vec<u8>>,
    /// The paths of its further names, some at most.
    pub others: Vec<Vec<u8>>,
}

/// A file that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// As it was; nothing if there was no such file.
    pub before: Option<Version>,
    /// As it became; nothing if there is no such file any more.
    pub after: Option<Version>,
    /// Whether its bytes, or where it leads to, differ.
    pub data: bool,
    /// Whether its names differ. Those of directories above it do not count.
    pub names: bool,
    /// Whether its owner, permissions, times or extended attributes differ.
    pub attributes: bool,
}

/// Where a comparison goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DifferencesFrom {
    /// The tree of files.
    pub tree: u8,
    /// The number of the first file.
    pub file: u64,
}

/// Which kinds of a file's keys differ.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    links: bool,
    data: bool,
    extended: bool,
}

/// What a step over both trees came to, and where the next one begins.
struct Step {
    /// Keys of files that only one has, or both with different values.
    differing: Vec<Vec<u8>>,
    next: Option<Vec<u8>>,
}

/// Which of the two trees a node is missing of.
enum Lack {
    Old(Missing),
    New(Missing),
}

/// Node of a place on the device, if it stands there as it is.
fn stored(look: &Look<'_>, index: usize) -> Option<NodeRef> {
    match look {
        Look::Stored(page) => Some(page.child(index)),
        Look::Changed(node) => match &node.children[index] {
            Child::Stored(stored) => Some(*stored),
            Child::Changed(_) => None,
        },
    }
}

/// The lower of two ends; `None` is behind all keys.
fn lower(one: Option<&[u8]>, other: Option<&[u8]>) -> Option<Vec<u8>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other).to_vec()),
        (end, None) | (None, end) => end.map(<[u8]>::to_vec),
    }
}

/// Entries of a leaf from a key on, up to another.
fn entries<'a>(
    leaf: Option<&'a Page>,
    from: &'a [u8],
    until: Option<&'a [u8]>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let all = leaf.into_iter().flat_map(|page| {
        let first = page.find(from).unwrap_or_else(|next| next);
        (first..page.count()).map(|index| page.entry(index))
    });
    all.take_while(move |(key, _)| until.is_none_or(|until| *key < until))
}

/// Holds two trees against each other from a key on.
fn step(
    (old, old_cache): (&Tree, &NodeCache),
    (new, new_cache): (&Tree, &NodeCache),
    from: &[u8],
) -> Result<Step, Lack> {
    if let (Some(Child::Stored(one)), Some(Child::Stored(other))) = (&old.root, &new.root)
        && one == other
    {
        return Ok(Step { differing: Vec::new(), next: None });
    }
    let mut was = old.top(old_cache).map_err(Lack::Old)?;
    let mut is = new.top(new_cache).map_err(Lack::New)?;
    let level = |look: &Option<Look<'_>>| look.as_ref().map_or(0, |look| look.page().level());
    loop {
        let (one, other) = (level(&was), level(&is));
        if one == 0 && other == 0 {
            break;
        }
        let way = |look: &Option<Look<'_>>| look.as_ref().map(|look| look.page().child_of(from));
        let (at_old, at_new) = (way(&was), way(&is));
        if one == other
            && let (Some(a), Some(b), Some(at), Some(to)) = (&was, &is, at_old, at_new)
            && let (Some(below), Some(beside)) = (stored(a, at), stored(b, to))
            && below == beside
        {
            let next = a.page().bounds_of(at).1.map(<[u8]>::to_vec);
            return Ok(Step { differing: Vec::new(), next });
        }
        if one >= other
            && let (Some(look), Some(at)) = (&was, at_old)
        {
            was = Some(look.child(at, old_cache).map_err(Lack::Old)?);
        }
        if other >= one
            && let (Some(look), Some(at)) = (&is, at_new)
        {
            is = Some(look.child(at, new_cache).map_err(Lack::New)?);
        }
    }
    let (was, is) = (was.as_ref().map(Look::page), is.as_ref().map(Look::page));
    let next = lower(was.and_then(Page::high), is.and_then(Page::high));
    Ok(Step { differing: keys_that_differ(was, is, from, next.as_deref()), next })
}

/// Keys from one on, up to another, that only one of two leaves has, or both with different values.
fn keys_that_differ(was: Option<&Page>, is: Option<&Page>, from: &[u8], until: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut differing = Vec::new();
    let (mut olds, mut news) = (entries(was, from, until).peekable(), entries(is, from, until).peekable());
    loop {
        let (one, other) = (olds.peek().copied(), news.peek().copied());
        let order = match (one, other) {
            (None, None) => return differing,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((one, _)), Some((other, _))) => one.cmp(other),
        };
        if order != std::cmp::Ordering::Equal || one != other {
            differing.extend(if order.is_le() { one } else { other }.map(|(key, _)| key.to_vec()));
        }
        if order.is_le() {
            olds.next();
        }
        if order.is_ge() {
            news.next();
        }
    }
}

/// Holds two trees against each other from a key on, and reads what that needs.
async fn compare(old: &Store, new: &Store, tree: u8, from: &[u8]) -> Result<Step, VolumeError> {
    let mut pins: Vec<Arc<Page>> = Vec::new();
    let mut wrong: Option<(NodeRef, VolumeError)> = None;
    loop {
        old.check_ended()?;
        new.check_ended()?;
        let stepped = {
            let (was, is) = (held(&old.trees[usize::from(tree)]), held(&new.trees[usize::from(tree)]));
            step((&was, &old.cache), (&is, &new.cache), from)
        };
        let (store, missing) = match stepped {
            Ok(step) => return Ok(step),
            Err(Lack::Old(missing)) => (old, missing),
            Err(Lack::New(missing)) => (new, missing),
        };
        let node = match missing {
            Missing::Node(node) => node,
            Missing::Misplaced(node) => {
                let text = format!("node at {} is not what its parent says: scan the volume", node.address);
                return Err(VolumeError::corrupt(text));
            }
        };
        if let Some((before, error)) = wrong.take()
            && before == node
        {
            return Err(error);
        }
        match store.load(node).await {
            Ok(page) => pins.push(page),
            // Of files as they are, it may be another node's place by now.
            Err(error) => wrong = Some((node, error)),
        }
    }
}

/// The record of a file, if it has a name.
async fn record(store: &Store, file: u64) -> Result<Option<Record>, VolumeError> {
    let value = store.get(keys::shard(file), &keys::record(file)).await?;
    let record = value.map(|value| Record::decode(file, &value)).transpose()?;
    Ok(record.filter(|record| record.links > 0))
}

/// One of the two states, and the names of directories of it: each is looked up once, however many are below it.
struct State<'a> {
    volume: &'a Volume,
    /// The directory that each is in, and its name; nothing where that cannot be told.
    names: HashMap<FileId, Option<(FileId, Vec<u8>)>>,
    name_bytes: usize,
}

impl<'a> State<'a> {
    fn new(volume: &'a Volume) -> Self {
        Self { volume, names: HashMap::new(), name_bytes: 0 }
    }

    /// Where a file is by a name of it; nothing where a directory above it was removed meanwhile, or is damaged.
    async fn path(&mut self, file: u64, link: &Link) -> Result<Option<Vec<u8>>, VolumeError> {
        if file == ROOT {
            return Ok(Some(b"/".to_vec()));
        }
        if self.name_bytes > MOST_NAME_BYTES {
            self.names.clear();
            self.name_bytes = 0;
        }
        let (mut way, mut seen) = (Vec::new(), HashSet::new());
        let mut at = FileId { number: link.parent, generation: link.parent_generation };
        while at.number != ROOT {
            if !self.names.contains_key(&at) {
                let name = self.name_of(at).await?;
                self.name_bytes += NAME_BYTES + name.as_ref().map_or(0, |(_, name)| name.len());
                self.names.insert(at, name);
            }
            let Some(Some((above, _))) = self.names.get(&at) else { return Ok(None) };
            if !seen.insert(at) {
                return Ok(None);
            }
            way.push(at);
            at = *above;
        }
        let mut path = Vec::new();
        for directory in way.into_iter().rev() {
            let Some(Some((_, name))) = self.names.get(&directory) else { return Ok(None) };
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path.push(b'/');
        path.extend_from_slice(&link.name);
        Ok(Some(path))
    }

    /// The directory that one is in, and its name there.
    async fn name_of(&self, directory: FileId) -> Result<Option<(FileId, Vec<u8>)>, VolumeError> {
        let store = &self.volume.store;
        let look = store.look([keys::shard(directory.number)], |view| {
            let Link { parent, parent_generation, name } = directory_of(view, directory)?.link;
            Ok((FileId { number: parent, generation: parent_generation }, name))
        });
        match look.await {
            Ok(found) => Ok(Some(found)),
            Err(error)
                if matches!(error.kind, ErrorKind::Stale | ErrorKind::NotFound | ErrorKind::NotDirectory)
                    && store.check_ended().is_ok() =>
            {
                Ok(None)
            }
            Err(error) if error.kind == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn version(&mut self, file: u64, record: &Record) -> Result<Version, VolumeError> {
        let path = self.path(file, &record.link).await?;
        let mut others = Vec::new();
        if record.links > 1 && !record.is_directory() {
            let prefix = keys::prefix(file, kind::LINK);
            let shard = keys::shard(file);
            let links = self.volume.store.look([shard], |view| view.range(shard, &prefix, &prefix, MOST_NAMES)).await?;
            for (key, value) in links {
                let Some(parent) = keys::number(&key, 9) else { continue };
                others.extend(self.path(file, &Link::decode(file, parent, &value)?).await?);
            }
        }
        Ok(Version { attributes: record.facts(file), path, others })
    }
}

fn difference_of(before: &Record, after: &Record, parts: Parts) -> Option<(bool, bool, bool)> {
    let is_directory = before.is_directory();
    let inline = |record: &Record| record.inline.clone();
    let data = !is_directory && (parts.data || before.size != after.size || inline(before) != inline(after));
    let name = |record: &Record| (record.link.parent, record.link.name.clone());
    let names = parts.links || name(before) != name(after);
    let owned = |record: &Record| (record.mode, record.uid, record.gid, record.attributes, record.security);
    // Times of directories follow from their entries, and those of data from the data.
    let is_touched = !is_directory && !data && before.modified != after.modified;
    let attributes = parts.extended || owned(before) != owned(after) || before.created != after.created || is_touched;
    (data || names || attributes).then_some((data, names, attributes))
}

impl Volume {
    /// Files that differ between a snapshot and another one, or the files as they are now: `most` at most, from a place
    /// on; and where those behind begin, if there may be any. Fewer than `most` may be answered although more follow.
    ///
    /// Of files as they are, what changes meanwhile may or may not be told.
    ///
    /// # Errors
    /// There is no snapshot of such a name, one is destroyed meanwhile, a node is damaged, or the device failed.
    pub async fn differences(
        &self,
        from: &str,
        to: Option<&str>,
        at: DifferencesFrom,
        most: usize,
    ) -> Result<(Vec<Difference>, Option<DifferencesFrom>), VolumeError> {
        let from = self.open_snapshot(from)?;
        let to = to.map(|name| self.open_snapshot(name)).transpose()?;
        if to.is_none() {
            // What waits in memory is in no tree yet.
            self.sync().await?;
        }
        let (mut old, mut new) = (State::new(&from), State::new(to.as_deref().unwrap_or(self)));
        let mut found = Vec::new();
        let mut steps = 0;
        let mut place = at;
        while place.tree < SHARED_TREES {
            let mut files: BTreeMap<u64, Parts> = BTreeMap::new();
            let mut next = Some(place.file.to_be_bytes().to_vec());
            while let Some(from) = next {
                let step = compare(&old.volume.store, &new.volume.store, place.tree, &from).await?;
                step.differing.iter().for_each(|key| note(&mut files, key));
                next = step.next;
                steps += 1;
                // The last file may go on behind this leaf.
                let going_on = next.as_deref().and_then(|next| keys::number(next, 0));
                while let Some(file) = files.first_entry().filter(|file| going_on.is_none_or(|end| *file.key() < end)) {
                    let (file, parts) = file.remove_entry();
                    told(&mut old, &mut new, file, parts, &mut found).await?;
                }
                if let Some(end) = going_on
                    && files.is_empty()
                    && end > place.file
                    && (is_enough(&found, most) || steps >= MOST_STEPS)
                {
                    return Ok((found, Some(DifferencesFrom { tree: place.tree, file: end })));
                }
                give_way().await;
            }
            for (file, parts) in files {
                told(&mut old, &mut new, file, parts, &mut found).await?;
            }
            place = DifferencesFrom { tree: place.tree + 1, file: 0 };
            if is_enough(&found, most) && place.tree < SHARED_TREES {
                return Ok((found, Some(place)));
            }
        }
        Ok((found, None))
    }
}

/// Whether a call has found what it is to answer.
fn is_enough(found: &[Difference], most: usize) -> bool {
    let versions = found.iter().flat_map(|one| [&one.before, &one.after]).flatten();
    let bytes: usize = versions.flat_map(|version| version.path.iter().chain(&version.others)).map(Vec::len).sum();
    found.len() >= most || bytes >= MOST_BYTES
}

fn note(files: &mut BTreeMap<u64, Parts>, key: &[u8]) {
    let (Some(file), Some(of)) = (keys::number(key, 0), key.get(8)) else { return };
    let parts = files.entry(file).or_default();
    match *of {
        kind::LINK => parts.links = true,
        kind::EXTENDED => parts.extended = true,
        kind::RECORD | kind::ENTRY => {}
        _ => parts.data = true,
    }
}

/// Adds what is to be told of a file.
async fn told(
    old: &mut State<'_>,
    new: &mut State<'_>,
    file: u64,
    parts: Parts,
    found: &mut Vec<Difference>,
) -> Result<(), VolumeError> {
    let was = record(&old.volume.store, file).await?;
    let is = record(&new.volume.store, file).await?;
    match (was, is) {
        (Some(was), Some(is)) if was.generation == is.generation => {
            if let Some((data, names, attributes)) = difference_of(&was, &is, parts) {
                let (before, after) = (old.version(file, &was).await?, new.version(file, &is).await?);
                found.push(Difference { before: Some(before), after: Some(after), data, names, attributes });
            }
        }
        (was, is) => {
            let all = Difference { before: None, after: None, data: true, names: true, attributes: true };
            if let Some(was) = was {
                found.push(Difference { before: Some(old.version(file, &was).await?), ..all.clone() });
            }
            if let Some(is) = is {
                found.push(Difference { after: Some(new.version(file, &is).await?), ..all });
            }
        }
    }
    Ok(())
}
