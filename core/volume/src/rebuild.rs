//! Trees that lost nodes made whole again, on a volume that nobody uses: from leaves that only lost their parent, and from
//! what is written about the same files elsewhere.
//!
//! ```text
//!   lost                    made again from
//!   inner node              leaves below it that its bitmap still has
//!   entries of a directory  names that records and further links have in it
//!   record                  the entry that leads to it, and its extents
//!   extents                 the map of owners
//!   map of owners           extents
//!   notes                   records without a name
//!   what quotas count       records; their limits, what is in memory
//!   security descriptors    what is in memory
//! ```
//!
//! Invariant: what cannot be made again is an error to read, or is missing; it is never shown as empty.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_device::IoBuf;
use holdfast_model::BLOCK_BYTES;

use crate::change::{Need, Pair, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::graft::Graft;
use crate::keys::{self, kind};
use crate::names::Names;
use crate::namespace::{add_link, plain};
use crate::page::{PAGE_BYTES, Page};
use crate::quota::Enforce;
use crate::record::{DirectoryEntry, Link, Record};
use crate::references::{Reference, Whose};
use crate::repair::Spotfixed;
use crate::scan::{NoLeaves, Owner, Reach, judge};
use crate::service::{FileId, FileKind};
use crate::store::{Store, held};
use crate::verbs::Verb;
use crate::volume::{ROOT, Volume, put_record};
use crate::{
    DEFERRED_TREE, OWNER_TREE, QUOTA_TREE, SECURITY_TREE, SECURITY_TWIN, SETTINGS_TWIN, SHARED_TREES, SNAPSHOT_TREE,
    ZONE_TREE,
};

/// Entries of a tree that are read at once.
const AT_ONCE: usize = 512;
/// Entries that one change puts in.
const PUT_AT_ONCE: usize = 8;

/// Keys of a tree that were lost.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    tree: u8,
    address: u64,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
}

/// All of them.
struct Lost(Vec<Range>);

impl Lost {
    fn has(&self, tree: u8, key: &[u8]) -> bool {
        let is_within = |range: &&Range| {
            range.tree == tree && range.low.as_slice() <= key && range.high.as_deref().is_none_or(|high| key < high)
        };
        self.0.iter().any(|range| is_within(&range))
    }

    /// Whether some of it is in the range of a leaf.
    fn meets(&self, leaf: &Page) -> bool {
        self.0.iter().any(|range| {
            range.tree == leaf.tree()
                && leaf.high().is_none_or(|high| range.low.as_slice() < high)
                && range.high.as_deref().is_none_or(|high| leaf.low() < high)
        })
    }

    fn has_record(&self, file: u64) -> bool {
        self.has(keys::shard(file), &keys::record(file))
    }
}

/// Ranges of keys of which all is known.
#[derive(Default)]
struct Covered(BTreeMap<(u8, Vec<u8>), Option<Vec<u8>>>);

impl Covered {
    fn before(&self, tree: u8, key: &[u8]) -> Option<(&Vec<u8>, &Option<Vec<u8>>)> {
        let ((of, low), high) = self.0.range(..=(tree, key.to_vec())).next_back()?;
        (*of == tree).then_some((low, high))
    }

    fn has(&self, tree: u8, key: &[u8]) -> bool {
        self.before(tree, key).is_some_and(|(_, high)| high.as_deref().is_none_or(|high| key < high))
    }

    fn add(&mut self, tree: u8, low: &[u8], high: Option<&[u8]>) {
        let (mut low, mut high) = (low.to_vec(), high.map(<[u8]>::to_vec));
        // One that begins before it and reaches it, and all that begin in it, become one with it.
        if let Some((before, end)) = self.before(tree, &low)
            && end.as_ref().is_none_or(|end| *end >= low)
        {
            low = before.clone();
        }
        while let Some(((_, from), end)) = self.0.range((tree, low.clone())..).next()
            && self.0.range((tree, low.clone())..).next().is_some_and(|((of, _), _)| *of == tree)
            && high.as_ref().is_none_or(|high| from <= high)
        {
            high = high.and_then(|high| end.clone().map(|end| end.max(high)));
            let key = (tree, from.clone());
            self.0.remove(&key);
        }
        self.0.insert((tree, low), high);
    }
}

impl Store {
    /// Takes a damaged node out of its tree; false if it is not there any more, or not in memory to be rewritten.
    pub(crate) async fn graft(&self, tree: u8, address: u64, low: &[u8], how: Graft) -> Result<bool, VolumeError> {
        self.check_failed()?;
        let graft = |mut view: View<'_>| {
            let is_done = view.tree(tree).graft(address, low, how, &self.cache)?;
            if is_done && how == Graft::Empty && tree == OWNER_TREE {
                // What was counted of it may be gone.
                self.recount.give_up();
            }
            Ok(is_done)
        };
        self.attempt(&[tree], Need::Sure, |view, _| graft(view)).await
    }
}

impl Volume {
    /// Repairs everything, also what a volume in use is not repaired of. Nobody may use it meanwhile.
    ///
    /// # Errors
    /// Files are open, no room, or the device failed.
    pub async fn spotfix_offline(&self) -> Result<Spotfixed, VolumeError> {
        self.close_left().await;
        if self.open.are_used() {
            return Err(VolumeError::new(ErrorKind::Busy, "files of the volume are open: close them first"));
        }
        let _held_back = self.hold_back().await;
        let fixed = self.rebuild_all().await?;
        let done = self.spotfix().await?;
        for verb in self.findings().await? {
            if matches!(verb, Verb::LeftOut { .. }) {
                self.forget_verb(&verb).await?;
            }
        }
        Ok(Spotfixed { fixed: fixed + done.fixed, ..done })
    }

    /// Makes trees whole; answers how many findings that ended.
    pub(crate) async fn rebuild_all(&self) -> Result<u64, VolumeError> {
        let mut fixed = 0;
        // What was lost may have hidden more.
        for _ in 0..3 {
            let some = self.rebuild().await?;
            fixed += some;
            if some == 0 {
                break;
            }
        }
        Ok(fixed)
    }

    async fn rebuild(&self) -> Result<u64, VolumeError> {
        let verbs = self.scan().await?;
        let mut ended = 0;
        let mut lost = Lost(Vec::new());
        for verb in &verbs {
            match verb {
                Verb::NodeLost { tree, address, low, high }
                | Verb::NodeMisplaced { tree, address, low, high }
                | Verb::NodeShared { tree, address, low, high }
                    if *tree != ZONE_TREE =>
                {
                    lost.0.push(Range { tree: *tree, address: *address, low: low.clone(), high: high.clone() });
                }
                Verb::Unreadable { tree, key } => {
                    let remove = self.store.change([], Need::Less, |view| view.remove(*tree, key.clone()));
                    remove.await?;
                    let high = Some([&key[..], &[0]].concat());
                    lost.0.push(Range { tree: *tree, address: 0, low: key.clone(), high });
                    ended += 1;
                }
                _ => {}
            }
        }
        let loose = self.loose_leaves(&lost).await?;
        for range in &lost.0 {
            ended += u64::from(self.store.graft(range.tree, range.address, &range.low, Graft::Empty).await?);
        }
        let mut covered = Covered::default();
        for address in loose {
            let page = self.loose_leaf(address, &lost).await;
            let Some(page) = page else { continue };
            let owned = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
            let entries = (0..page.count()).map(|index| owned(page.entry(index)));
            let is_wanted = |key: &[u8]| lost.has(page.tree(), key) && !covered.has(page.tree(), key);
            let entries: Vec<Pair> = entries.filter(|(key, _)| is_wanted(key)).collect();
            self.put_missing(page.tree(), &entries).await?;
            covered.add(page.tree(), page.low(), page.high());
        }
        if !lost.0.is_empty() {
            self.rebuild_extents(&lost).await?;
            self.rebuild_root().await?;
            self.rebuild_records(&lost).await?;
            self.rebuild_names(&lost).await?;
            self.rebuild_owners(&lost).await?;
            if lost.0.iter().any(|range| [SNAPSHOT_TREE, SETTINGS_TWIN].contains(&range.tree)) {
                self.store.snapshots.store_again();
            }
            for tree in [SECURITY_TREE, SECURITY_TWIN] {
                if lost.0.iter().any(|range| range.tree == tree) {
                    self.put_missing(tree, &self.store.descriptors.entries()).await?;
                }
            }
            if lost.0.iter().any(|range| range.tree == QUOTA_TREE) {
                self.put_missing(QUOTA_TREE, &self.store.ledger.restore()).await?;
            }
        }
        self.rebuild_root().await?;
        for verb in self.scan().await? {
            if let Verb::NoRecord { file } = verb {
                self.record_of_parts(file).await?;
                ended += 1;
            }
        }
        self.count_files().await?;
        self.checkpoint().await?;
        Ok(ended)
    }

    /// Leaves that stand below an inner node that is lost: their bitmap has them, and nothing refers to them.
    async fn loose_leaves(&self, lost: &Lost) -> Result<Vec<u64>, VolumeError> {
        let newest = self.store.checkpoint.lock().await;
        let walked = self.store.walk_newest(&newest, Reach::Newest, &mut NoLeaves).await?;
        // Leaves that only a snapshot has are no part of a tree that lost one of its own.
        let inner = lost.0.iter().filter(|range| walked.inner.contains(&range.address));
        let lost = &Lost(inner.cloned().collect());
        let mut leaves = Vec::new();
        for (address, blocks) in walked.loose {
            for node in 0..blocks * BLOCK_BYTES / PAGE_BYTES as u64 {
                let address = address + node * PAGE_BYTES as u64;
                if let Some(page) = self.loose_leaf(address, lost).await {
                    leaves.push((page.generation(), address));
                }
            }
        }
        // Of two that cover a key, the later one says whether it is there.
        leaves.sort_unstable_by(|one, other| other.cmp(one));
        Ok(leaves.into_iter().map(|(_, address)| address).collect())
    }

    /// One of them. It stays where it is: its bitmap has it, so its room is not given out.
    async fn loose_leaf(&self, address: u64, lost: &Lost) -> Option<Page> {
        let open = |buf: &IoBuf| Page::open(self.store.volume(), address, buf);
        let ((page, _), _) = self.store.metadata.read(address, PAGE_BYTES, open).await.ok()?;
        (page.level() == 0 && lost.meets(&page)).then_some(page)
    }

    async fn put_missing(&self, tree: u8, entries: &[Pair]) -> Result<(), VolumeError> {
        for some in entries.chunks(PUT_AT_ONCE) {
            let change = self.store.change([], Need::More, |view| {
                view.enforce(Enforce::Nothing);
                for (key, value) in some {
                    if view.get(tree, key)?.is_none() {
                        view.put(tree, key.clone(), value.clone())?;
                    }
                }
                Ok(())
            });
            change.await?;
        }
        Ok(())
    }

    /// Reads a tree in parts.
    async fn part(&self, tree: u8, from: &mut Option<Vec<u8>>) -> Result<Vec<Pair>, VolumeError> {
        let Some(first) = from.take() else { return Ok(Vec::new()) };
        let some = self.store.range(tree, &first, AT_ONCE).await?;
        if some.len() == AT_ONCE {
            *from = some.last().map(|(key, _)| [&key[..], &[0]].concat());
        }
        Ok(some)
    }

    async fn rebuild_extents(&self, lost: &Lost) -> Result<(), VolumeError> {
        let mut next = Some(Vec::new());
        while next.is_some() {
            for (key, value) in self.part(OWNER_TREE, &mut next).await? {
                let (place, owner, is_shared) = match (Reference::decode(&key), keys::number(&key, 0)) {
                    (Some(Reference { place, blocks, whose: Whose::File { file, stream, block } }), _) => {
                        (place, Owner { file, stream, block, blocks, is_written: true, kept: None }, true)
                    }
                    (None, Some(place)) => match Owner::decode(&value) {
                        Ok(owner) => (place, owner, false),
                        Err(_) => continue,
                    },
                    _ => continue,
                };
                let Owner { file, stream, block, blocks, is_written, kept: None } = owner else { continue };
                let key = keys::extent(file, stream, block + u64::from(blocks));
                if lost.has(keys::shard(file), &key) {
                    // A snapshot may have it, whichever they are.
                    let has_snapshots = self.store.snapshots.newest() != 0;
                    let birth = if has_snapshots { 0 } else { held(&self.store.rooms).coming() };
                    let extent = Extent { place, blocks, birth, is_written, is_shared, sums: None };
                    self.put_missing(keys::shard(file), &[(key, extent.encode())]).await?;
                }
            }
        }
        Ok(())
    }

    /// The root, without which nothing has a place.
    async fn rebuild_root(&self) -> Result<(), VolumeError> {
        let link = Link { parent: ROOT, parent_generation: 1, name: Vec::new() };
        self.make_record(ROOT, FileKind::Directory, 1, &link).await?;
        let change = self.store.change([], Need::More, |view| {
            let Some(mut record) = judge::record(view, ROOT)? else { return Ok(()) };
            let is_right = record.is_directory() && record.generation == 1 && record.links > 0 && record.link == link;
            if is_right {
                return Ok(());
            }
            let (_, entries, blocks) = judge::count(view, ROOT)?;
            (record.kind, record.generation, record.link, record.inline) = (FileKind::Directory, 1, link.clone(), None);
            (record.links, record.size, record.blocks) = (2 + entries.1, entries.0, blocks);
            put_record(view, ROOT, &record)
        });
        change.await.map(drop)
    }

    /// Records that entries lead to.
    async fn rebuild_records(&self, lost: &Lost) -> Result<(), VolumeError> {
        let mut made = BTreeSet::new();
        for shard in 0..SHARED_TREES {
            let mut next = Some(Vec::new());
            while next.is_some() {
                for (key, value) in self.part(shard, &mut next).await? {
                    let (Some(directory), Some(&kind::ENTRY)) = (keys::number(&key, 0), key.get(8)) else { continue };
                    let (Ok(entry), Some(slot)) = (DirectoryEntry::decode(directory, &value), keys::number(&key, 9))
                    else {
                        continue;
                    };
                    let child = entry.child.number;
                    if !lost.has_record(child) || Names::check(&entry.name).is_err() {
                        continue;
                    }
                    // What was made of a first name learns of the others; a directory has but one.
                    let link = Link { parent: directory, parent_generation: 1, name: entry.name.clone() };
                    if self.make_record(child, entry.kind, entry.child.generation, &link).await? {
                        made.insert(child);
                    } else if made.contains(&child) && entry.kind != FileKind::Directory {
                        self.learn(child, directory, slot, &entry).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes a record of what is known, if there is none; true if so.
    async fn make_record(&self, file: u64, kind: FileKind, generation: u32, link: &Link) -> Result<bool, VolumeError> {
        let change = self.store.change([], Need::More, |view| {
            if view.get(keys::shard(file), &keys::record(file))?.is_some() {
                return Ok(false);
            }
            self.put_made(view, file, kind, generation, link)?;
            Ok(true)
        });
        Ok(change.await?.0)
    }

    /// Puts a record in that is made of what is known: the name that leads to the file, and its other parts.
    pub(crate) fn put_made(
        &self,
        view: &mut View<'_>,
        file: u64,
        kind: FileKind,
        generation: u32,
        link: &Link,
    ) -> Result<(), Stop> {
        view.enforce(Enforce::Nothing);
        let above = if link.parent == file { None } else { judge::record(view, link.parent)? };
        let (_, entries, _) = judge::count(view, file)?;
        let (is_directory, now) = (kind == FileKind::Directory, self.now());
        let mut further = 0;
        for (slot, other) in judge::further(view, file)? {
            // The name is in the record from now on.
            if (other.parent, &other.name) == (link.parent, &link.name) {
                view.remove(keys::shard(file), keys::link(file, other.parent, slot))?;
            } else {
                further += 1;
            }
        }
        let named = u32::from(!link.name.is_empty()) + further;
        let mut record = Record {
            generation,
            kind,
            attributes: 0,
            mode: if is_directory { 0o700 } else { 0o600 },
            uid: above.as_ref().map_or(0, |above| above.uid),
            gid: above.as_ref().map_or(0, |above| above.gid),
            security: 0,
            links: if is_directory { 2 + entries.1 } else { named.max(1) },
            size: entries.0,
            blocks: 0,
            quota_tree: match self.store.ledger.tree_at(FileId { number: file, generation }) {
                Some(tree) => tree,
                None => above.as_ref().map_or(0, |above| above.quota_tree),
            },
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            change: self.next_change(),
            link: Link {
                parent_generation: above.map_or(link.parent_generation, |above| above.generation),
                ..link.clone()
            },
            inline: None,
        };
        match kind {
            FileKind::Regular => lay_out(view, file, &mut record)?,
            FileKind::Symlink => {
                let target = view.get(keys::shard(file), &keys::reparse(file))?;
                record.size = target.map_or(0, |target| target.len() as u64);
            }
            _ => {}
        }
        let streams = keys::prefix(file, kind::STREAM);
        record.blocks += view.range(keys::shard(file), &streams, &streams, usize::MAX)?.len() as u64;
        put_record(view, file, &record)
    }

    /// A file learns of a further name.
    async fn learn(&self, file: u64, directory: u64, slot: u64, entry: &DirectoryEntry) -> Result<(), VolumeError> {
        let change = self.store.change([], Need::More, |view| {
            let (Some(record), Some(above)) = (judge::record(view, file)?, judge::record(view, directory)?) else {
                return Ok(());
            };
            learn_name(view, (file, record), (directory, &above), slot, &entry.name).map(drop)
        });
        change.await.map(drop)
    }

    /// Entries that records and further links have in directories that lost some, and notes.
    async fn rebuild_names(&self, lost: &Lost) -> Result<(), VolumeError> {
        for shard in 0..SHARED_TREES {
            let mut next = Some(Vec::new());
            while next.is_some() {
                for (key, value) in self.part(shard, &mut next).await? {
                    let (Some(file), Some(what)) = (keys::number(&key, 0), key.get(8)) else { continue };
                    let found = match *what {
                        kind::RECORD => Record::decode(file, &value).ok().map(|record| (record.link, None)),
                        kind::LINK => {
                            let link = Link::decode(file, keys::number(&key, 9).unwrap_or_default(), &value).ok();
                            link.zip(keys::number(&key, 17)).map(|(link, slot)| (link, Some(slot)))
                        }
                        _ => None,
                    };
                    if let Some((link, slot)) = found.filter(|_| file != ROOT) {
                        self.rebuild_name(lost, file, &link, slot).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn rebuild_name(&self, lost: &Lost, file: u64, link: &Link, slot: Option<u64>) -> Result<(), VolumeError> {
        let first = slot.unwrap_or_else(|| self.names.bucket(&link.name).start);
        let (shard, bucket) = (keys::shard(link.parent), self.names.bucket(&link.name));
        let is_lost = |slot: u64| lost.has(shard, &keys::entry(link.parent, slot));
        let is_note = link.name.is_empty() && lost.has(DEFERRED_TREE, &file.to_be_bytes());
        if !(is_note || is_lost(first) || is_lost(bucket.end - 1)) {
            return Ok(());
        }
        let change = self.store.change([], Need::More, |view| {
            let Some(record) = judge::record(view, file)? else { return Ok(()) };
            if is_note {
                let is_removed = record.links == 0;
                return if is_removed { view.put(DEFERRED_TREE, file.to_be_bytes().to_vec(), vec![1]) } else { Ok(()) };
            }
            if self.find(view, link.parent, &link.name, false)?.is_some() {
                return Ok(());
            }
            let to = match slot {
                Some(slot) => Some(slot),
                None => self.slot_for(view, link.parent, &link.name)?,
            };
            let Some(to) = to else { return Ok(()) };
            if judge::entry(view, link.parent, to)?.is_some() {
                return Ok(());
            }
            let child = FileId { number: file, generation: record.generation };
            let entry = DirectoryEntry { child, kind: plain(record.kind), name: link.name.clone() };
            view.put(shard, keys::entry(link.parent, to), entry.encode())
        });
        change.await?;
        // A directory whose entry leads nowhere else was lost with what led to it.
        if lost.has_record(link.parent) {
            let known = self.store.get(shard, &keys::record(link.parent)).await?;
            if known.is_none() {
                self.record_of_parts(link.parent).await?;
            }
        }
        Ok(())
    }

    async fn rebuild_owners(&self, lost: &Lost) -> Result<(), VolumeError> {
        if !lost.0.iter().any(|range| range.tree == OWNER_TREE) {
            return Ok(());
        }
        for shard in 0..SHARED_TREES {
            let mut next = Some(Vec::new());
            while next.is_some() {
                for (key, value) in self.part(shard, &mut next).await? {
                    let (Some((file, _, end)), Ok(extent)) = (keys::read_extent(shard, &key), Extent::decode(&value))
                    else {
                        continue;
                    };
                    let place = extent.place;
                    let (key, verb) = match extent.is_shared {
                        true => {
                            let start = end.saturating_sub(extent.blocks.into());
                            let own = Reference::of_file(file, MAIN, start, &extent);
                            (self.store.reference_key(&own), Verb::SharerUnknown { file, end, place })
                        }
                        false => (Some(keys::owner(place)), Verb::Unowned { file, end, place }),
                    };
                    if key.is_some_and(|key| lost.has(OWNER_TREE, &key)) {
                        self.repair_now(&verb).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// A record for a file of which only other parts are there. Its name is unknown.
    async fn record_of_parts(&self, file: u64) -> Result<(), VolumeError> {
        let kind = self.store.look([], |view| kind_of_parts(view, file)).await?;
        self.make_record(file, kind, 1, &Link::default()).await.map(drop)
    }

    /// Counts the files that there are, and what they take.
    async fn count_files(&self) -> Result<(), VolumeError> {
        self.recount().await?;
        self.store.files.store(self.store.ledger.files(), std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }
}

/// Has a file know a name of it, unless it does already; true if it did not.
pub(crate) fn learn_name(
    view: &mut View<'_>,
    (file, mut record): (u64, Record),
    (directory, above): (u64, &Record),
    slot: u64,
    name: &[u8],
) -> Result<bool, Stop> {
    if judge::knows(view, (file, &record), (directory, above), slot, name)? {
        return Ok(false);
    }
    record.links = record.links.saturating_add(1);
    let home = FileId { number: directory, generation: above.generation };
    add_link(view, file, &mut record, home, slot, name)?;
    put_record(view, file, &record)?;
    Ok(true)
}

/// What a file is by the parts that it has.
pub(crate) fn kind_of_parts(view: &View<'_>, file: u64) -> Result<FileKind, Stop> {
    let entries = keys::prefix(file, kind::ENTRY);
    if !view.range(keys::shard(file), &entries, &entries, 1)?.is_empty() {
        return Ok(FileKind::Directory);
    }
    let is_link = view.get(keys::shard(file), &keys::reparse(file))?.is_some();
    Ok(if is_link { FileKind::Symlink } else { FileKind::Regular })
}

/// The size of a file by its extents. One without any may have had its bytes in the record that was lost.
fn lay_out(view: &mut View<'_>, file: u64, record: &mut Record) -> Result<(), Stop> {
    let prefix = keys::extents(file, MAIN);
    let all = view.range(keys::shard(file), &prefix, &prefix, usize::MAX)?;
    let (mut blocks, mut end) = (0, 0);
    for (key, value) in &all {
        blocks += Extent::decode(value).map_or(0, |extent| u64::from(extent.blocks));
        end = end.max(keys::number(key, 13).unwrap_or_default());
    }
    if all.is_empty() {
        let lost = Extent { place: 0, blocks: 1, birth: 0, is_written: true, is_shared: false, sums: None };
        view.put(keys::shard(file), keys::extent(file, MAIN, 1), lost.encode())?;
        (blocks, end) = (1, 1);
    }
    (record.blocks, record.size) = (blocks, end.saturating_mul(BLOCK_BYTES).min(i64::MAX as u64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_are_one() {
        let mut covered = Covered::default();
        covered.add(1, b"f", Some(b"h"));
        covered.add(1, b"m", Some(b"p"));
        covered.add(2, b"", None);
        let known = |covered: &Covered| -> String {
            ('a'..='z').filter(|key| covered.has(1, key.to_string().as_bytes())).collect()
        };
        assert_eq!(known(&covered), "fgmno");
        covered.add(1, b"g", Some(b"i"));
        assert_eq!(known(&covered), "fghmno");
        covered.add(1, b"i", Some(b"m"));
        assert_eq!((known(&covered).as_str(), covered.0.len()), ("fghijklmno", 2));
        covered.add(1, b"a", Some(b"c"));
        covered.add(1, b"x", None);
        assert_eq!(known(&covered), "abfghijklmnoxyz");
        covered.add(1, b"", None);
        assert_eq!(covered.0.len(), 2);
        assert!(covered.has(2, b"z") && !covered.has(0, b"a") && !covered.has(3, b"a"));
    }
}
