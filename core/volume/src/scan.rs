//! A volume read while it is in use, and what its trees say held against each other, in bounded memory.
//!
//! ```text
//!   1  nodes of a durable root, pinned, leaf by leaf      facts of both sides ─▶ sums in buckets
//!                                                         what is wrong by itself ─▶ suspects
//!   2  owners in order, one zone at a time                 ─▶ its bitmap
//!   3  only where a bucket is unequal: the trees again     ─▶ suspects
//!   4  each suspect looked at under the locks of the trees ─▶ a verb, or nothing
//! ```
//!
//! Invariants: a scan changes no file, and finds nothing that a change made meanwhile explains: what counts is what the
//! locked trees say. Memory is that of the buckets and of the findings, both with a limit.

mod facts;
pub(crate) mod judge;
mod kept;
mod reading;
pub(crate) mod runs;
pub(crate) mod shared;
mod sums;
mod walk;
mod zones;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::task::Poll;

use crate::descriptors::number_of;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::journal::JournalCheck;
use crate::keys::{self, RUN};
use crate::page::Page;
use crate::quota::Tally;
use crate::record::security_of;
use crate::references::{Reference, Whose};
use crate::snapshots::Span;
use crate::store::{Store, held};
use crate::verbs::Verb;
use crate::volume::{ROOT, Volume};
use crate::{DEFERRED_TREE, OWNER_TREE, SECURITY_TREE, SECURITY_TWIN, SHARED_TREES, TREES, ZONE_TREE};

use facts::{Facts, Told, is_read};
pub(crate) use facts::{Item, Owner, is_readable};
use judge::Way;
use kept::KeptTally;
pub(crate) use kept::kept_of;
pub(crate) use reading::{Pin, Reading};
use sums::Sums;
pub use walk::ScanProgress;
use walk::Walked;
pub(crate) use walk::{Leaves, Reach};
use zones::ZoneCheck;

/// Directories that are known to be reached from the root, at most.
const KNOWN: usize = 1 << 20;

/// What a scan may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanSettings {
    /// Buckets of 16 bytes. The more there are, the less is read again where something is wrong.
    pub buckets: usize,
    /// Findings that are told and kept, at most.
    pub most_verbs: usize,
}

impl Default for ScanSettings {
    fn default() -> Self {
        Self { buckets: 1 << 20, most_verbs: 100_000 }
    }
}

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// What is wrong, in order.
    pub verbs: Vec<Verb>,
    /// Whether there is more than is told: scan again after a repair.
    pub is_cut: bool,
    /// Nodes that were read.
    pub nodes: u64,
}

/// Leaves that nobody is interested in.
pub(crate) struct NoLeaves;

impl Leaves for NoLeaves {}

impl Store {
    /// Reads all nodes that the newest durable root refers to. Changes and checkpoints go on meanwhile.
    ///
    /// # Errors
    /// What was kept for that was given away, as there was no room without it. What cannot be read is a finding.
    pub async fn scan(&self) -> Result<Vec<Verb>, VolumeError> {
        let of = self.read_beside().await;
        let walked = self.walk(&of, Reach::Snapshots, &mut NoLeaves, &mut |_| ()).await?;
        of.check()?;
        Ok(walked.verbs.into_iter().collect())
    }
}

/// A scan under way.
struct Scan<'a> {
    volume: &'a Volume,
    settings: ScanSettings,
    /// Snapshots that the root has that is read.
    snapshots: BTreeSet<u64>,
    sums: Sums,
    facts: Facts<'a>,
    told: Vec<Told>,
    suspects: BTreeSet<Item>,
    circles: BTreeSet<u64>,
    known: HashSet<u64>,
    zones: ZoneCheck<'a>,
    tally: Tally,
    kept: KeptTally,
    /// Descriptors that files name, those of snapshots too, and those that stand in their trees.
    named: BTreeSet<u32>,
    stored: BTreeSet<u32>,
    journal: JournalCheck,
    /// What is wrong with snapshots.
    unkept: BTreeSet<Verb>,
    is_cut: bool,
}

impl Leaves for Scan<'_> {
    async fn leaf(&mut self, tree: u8, page: &Page) -> Result<(), VolumeError> {
        for index in 0..page.count() {
            let (key, value) = page.entry(index);
            self.tally.entry(tree, key, value);
            self.kept.entry(tree, key, value);
            self.journal.entry(tree, key, value);
            if tree == ZONE_TREE {
                self.zones.zone(key, value);
            } else if tree == SECURITY_TREE || tree == SECURITY_TWIN {
                match number_of(key).filter(|_| is_readable(tree, key, value)) {
                    Some(number) => _ = self.stored.insert(number),
                    None => self.suspect(Item::Key(tree, key.to_vec())),
                }
            } else if is_read(tree) {
                self.facts.entry(&self.sums, tree, key, value, &mut self.told);
                self.take().await?;
            }
        }
        Ok(())
    }

    async fn end(&mut self, tree: u8) -> Result<(), VolumeError> {
        self.facts.end(&mut self.told);
        self.take().await?;
        if tree == OWNER_TREE { self.zones.end().await } else { Ok(()) }
    }

    async fn past(&mut self, snapshot: u64, page: &Page) -> Result<(), VolumeError> {
        let entries = (0..page.count()).map(|index| page.entry(index));
        let records = entries.filter(|(key, _)| keys::is_record(page.tree(), key));
        self.named.extend(records.filter_map(|(_, value)| security_of(value)));
        for index in 0..page.count() {
            let (key, value) = page.entry(index);
            let (Some((file, ..)), Ok(extent)) = (keys::read_extent(page.tree(), key), Extent::decode(value)) else {
                continue;
            };
            if extent.is_lost() {
                continue;
            }
            // What seems nobody's is the snapshot's.
            let (place, blocks) = (extent.place, u64::from(extent.blocks));
            for (place, blocks) in runs::within(&self.zones.leaks, place, blocks) {
                self.unkept.insert(Verb::Unkept { snapshot, place, blocks });
            }
            runs::cut(&mut self.zones.leaks, place, blocks);
            let store = &self.volume.store;
            let judged = store.look([OWNER_TREE], |view| judge::past(store, view, snapshot, file, &extent)).await;
            self.unkept.extend(readable(judged)?.flatten());
            self.is_cut |= self.unkept.len() > self.settings.most_verbs;
            if self.is_cut {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Scan<'_> {
    /// Takes over what was told.
    async fn take(&mut self) -> Result<(), VolumeError> {
        for told in std::mem::take(&mut self.told) {
            match told {
                Told::Fact(fact, side, _) => self.sums.add(fact, side),
                Told::Suspect(item) => self.suspect(item),
                Told::Directory(directory, parent) => self.directory(directory, parent).await?,
                Told::Owner(place, blocks) => {
                    if let Some(before) = self.zones.owner(place, blocks).await? {
                        self.suspect(Item::Owner(before));
                    }
                    if self.zones.is_shared(place, blocks) {
                        self.suspect(Item::Owner(place));
                    }
                }
                Told::Extent(place, blocks, item) if !self.volume.store.is_data(place, blocks) => self.suspect(item),
                Told::Extent(..) => {}
                Told::Security(file, number) if !self.volume.store.descriptors.has(number) => {
                    self.suspect(Item::Security(file));
                }
                Told::Security(_, number) => _ = self.named.insert(number),
                // It is looked at which snapshots there are once more.
                Told::Kept(place, span) if !self.have(span) => self.suspect(Item::Owner(place)),
                Told::Kept(..) => {}
                Told::Reference(reference, key) => self.reference(&reference, key).await?,
            }
        }
        Ok(())
    }

    /// Whether a snapshot has what lived for a span.
    fn have(&self, span: Span) -> bool {
        span.birth <= span.death && self.snapshots.range(span.birth..=span.death).next().is_some()
    }

    /// A reference to blocks that are shared.
    async fn reference(&mut self, reference: &Reference, key: Vec<u8>) -> Result<(), VolumeError> {
        let store = &self.volume.store;
        let is_needed = match reference.whose {
            Whose::File { .. } => true,
            Whose::Snapshots(span) => self.have(span),
        };
        // One at another zone's place says nothing of that, and would be out of order.
        let is_placed = store.reference_key(reference).as_ref() == Some(&key);
        if is_placed {
            self.zones.reference(reference.place, reference.blocks).await?;
        }
        if !(is_placed && is_needed) {
            self.suspect(Item::Reference(key));
        }
        Ok(())
    }

    fn suspect(&mut self, item: Item) {
        if self.suspects.len() < self.settings.most_verbs {
            self.suspects.insert(item);
        } else {
            self.is_cut = true;
        }
    }

    /// Follows the way up from a directory, as it is now.
    async fn directory(&mut self, directory: u64, parent: u64) -> Result<(), VolumeError> {
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        if self.known.contains(&parent) {
            self.known.insert(directory);
            return Ok(());
        }
        // Step by step, as others wait for a look at all of a long way, and of ways that meet each is gone once.
        let (mut path, mut seen, mut at) = (vec![directory], HashSet::from([directory]), parent);
        loop {
            if at == ROOT || self.known.contains(&at) {
                self.known.extend(path);
                return Ok(());
            }
            let look = self.volume.store.look([keys::shard(at)], |view| judge::living(view, at));
            let Some(Some(above)) = readable(look.await)?.filter(|_| seen.insert(at)) else { break };
            path.push(at);
            at = above.link.parent;
        }
        match readable(self.volume.store.look([], |view| judge::way_up(view, directory)).await)? {
            Some(Way::Root(path)) => self.known.extend(path),
            Some(Way::Circle(least)) if self.circles.len() < self.settings.most_verbs => {
                self.circles.insert(least);
            }
            _ => {}
        }
        Ok(())
    }
}

/// What can be looked at; nothing where a node on the way is damaged, which is a finding of its own.
pub(crate) fn readable<T>(looked: Result<T, VolumeError>) -> Result<Option<T>, VolumeError> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Io) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What was found so far. Files without names that are beside each other are one finding.
#[derive(Default)]
struct Found {
    verbs: BTreeSet<Verb>,
    orphans: BTreeMap<u64, u64>,
}

impl Found {
    fn extend(&mut self, verbs: impl IntoIterator<Item = Verb>) {
        for verb in verbs {
            match verb {
                Verb::Orphan { file } => *self.orphans.entry(file / RUN).or_default() |= 1 << (file % RUN),
                verb => _ = self.verbs.insert(verb),
            }
        }
    }

    fn len(&self) -> usize {
        self.verbs.len() + self.orphans.len()
    }

    fn into_verbs(mut self) -> BTreeSet<Verb> {
        let of = |(run, files): (u64, u64)| match files.count_ones() {
            1 => Verb::Orphan { file: run * RUN + u64::from(files.trailing_zeros()) },
            _ => Verb::Orphans { first: run * RUN, files },
        };
        self.verbs.extend(self.orphans.into_iter().map(of));
        self.verbs
    }
}

/// Lets others have their turn.
pub(crate) async fn give_way() {
    let mut is_over = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut is_over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Volume {
    /// Reads all metadata of the volume and keeps what does not agree, in place of what an earlier scan found.
    ///
    /// # Errors
    /// The device failed, or a tree cannot be read at all.
    pub async fn scan(&self) -> Result<Vec<Verb>, VolumeError> {
        let scanned = self.scan_with(&ScanSettings::default(), &mut |_| ()).await?;
        if self.store.check_failed().is_ok() {
            self.keep_verbs(&scanned.verbs).await?;
        }
        Ok(scanned.verbs)
    }

    /// Reads all metadata of the volume and says what of it does not agree, and how far it has come on the way. What
    /// has not begun when the future is dropped is not done.
    ///
    /// # Errors
    /// The device failed, or a tree cannot be read at all.
    pub async fn scan_with(
        &self,
        settings: &ScanSettings,
        tell: &mut dyn FnMut(ScanProgress),
    ) -> Result<Scanned, VolumeError> {
        let sweep = self.store.descriptors.begin_sweep();
        if self.store.check_failed().is_ok() {
            // What is only in memory and in the log is to be read, too.
            self.checkpoint().await?;
        }
        let mut last = ScanProgress::default();
        let mut note = |progress: ScanProgress| {
            last = progress;
            tell(progress);
        };
        let (walked, scan) = self.read_trees(settings, &mut note).await?;
        if self.store.check_failed().is_ok() {
            let newest = self.store.checkpoint.lock().await;
            self.store.mend_nodes(&newest).await;
        }
        for zone in &scan.zones.worn {
            self.is_bitmap_lost(*zone).await;
        }
        let mut scanned = self.conclude(scan, walked, sweep).await?;
        scanned.nodes = last.nodes;
        Ok(scanned)
    }

    /// Reads all that a durable root has. Where others have no room without what is kept for that, or nodes are wrong that
    /// may have been written anew since, checkpoints wait.
    async fn read_trees(
        &self,
        settings: &ScanSettings,
        note: &mut dyn FnMut(ScanProgress),
    ) -> Result<(Walked, Scan<'_>), VolumeError> {
        {
            let beside = self.store.read_beside().await;
            let read = self.read_root(&beside, settings, note).await;
            if beside.is_whole() {
                let (walked, scan) = read?;
                let newest = self.store.checkpoint.lock().await;
                if walked.verbs.is_empty() || newest.root.generation == beside.root.generation {
                    return Ok((walked, scan));
                }
            }
        }
        let newest = self.store.checkpoint.lock().await;
        self.read_root(&self.store.read_alone(&newest), settings, note).await
    }

    async fn read_root<'a>(
        &'a self,
        of: &Reading<'_>,
        settings: &ScanSettings,
        note: &mut dyn FnMut(ScanProgress),
    ) -> Result<(Walked, Scan<'a>), VolumeError> {
        let facts = self.store.taken_nodes() * 256;
        let mut scan = Scan {
            volume: self,
            settings: *settings,
            snapshots: of.kept_for.clone(),
            sums: Sums::new(settings.buckets.min(facts), self.names.secret()),
            facts: Facts::new(&self.names),
            told: Vec::new(),
            suspects: BTreeSet::new(),
            circles: BTreeSet::new(),
            known: HashSet::new(),
            zones: ZoneCheck::new(&self.store, settings.most_verbs),
            tally: Tally::default(),
            kept: KeptTally::default(),
            named: BTreeSet::new(),
            stored: BTreeSet::new(),
            journal: JournalCheck::default(),
            unkept: BTreeSet::new(),
            is_cut: false,
        };
        let walked = self.store.walk(of, Reach::Snapshots, &mut scan, note).await?;
        scan.zones.end().await?;
        Ok((walked, scan))
    }

    /// Looks at all that is suspect under the locks of the trees.
    async fn conclude(&self, scan: Scan<'_>, walked: Walked, sweep: u64) -> Result<Scanned, VolumeError> {
        let Scan {
            settings,
            sums,
            suspects,
            circles,
            zones,
            tally,
            kept,
            named,
            stored,
            journal,
            unkept,
            mut is_cut,
            ..
        } = scan;
        let mut verbs = Found { verbs: walked.verbs.clone(), ..Found::default() };
        verbs.extend(unkept);
        if !walked.is_partial {
            // A checkpoint has both sides at one moment.
            let wrong: BTreeSet<_> = tally.wrong().into_iter().map(|party| self.store.ledger.subject(party)).collect();
            verbs.extend(wrong.into_iter().map(|subject| Verb::QuotaWrong { subject }));
            let of = |(snapshot, ..): (u64, u64, u64)| Verb::KeptWrong { snapshot };
            verbs.extend(kept.wrong().into_iter().map(of));
        }
        for item in &suspects {
            verbs.extend(self.judge_now(item).await?);
        }
        verbs.extend(self.judge_journal(journal).await?);
        for directory in circles {
            let way = self.store.look([], |view| judge::way_up(view, directory));
            if let Some(Way::Circle(directory)) = readable(way.await)? {
                verbs.extend([Verb::Unreachable { directory }]);
            }
        }
        for number in self.store.descriptors.numbers().union(&stored) {
            verbs.extend(self.judge_now(&Item::Descriptor(*number)).await?);
        }
        if !walked.is_partial && !walked.is_past_partial && self.store.check_failed().is_ok() {
            match self.store.sweep_descriptors(sweep, &named).await {
                // Where nothing can be taken out now, that is for a later scan.
                Err(error) if !matches!(error.kind, ErrorKind::NoSpace | ErrorKind::Corrupt) => return Err(error),
                _ => {}
            }
        }
        // Of blocks that seem nobody's, those that a file says it has are not.
        let mut leaks = zones.leaks;
        if walked.is_partial || walked.is_past_partial {
            leaks.clear();
        }
        let again = !sums.are_equal();
        if again || !leaks.is_empty() {
            let trees = (0..SHARED_TREES).chain([OWNER_TREE, DEFERRED_TREE]);
            for tree in trees.filter(|tree| again || *tree < SHARED_TREES) {
                is_cut |= !self.detail(tree, &sums, &walked.verbs, &mut leaks, &mut verbs, settings.most_verbs).await?;
            }
        }
        for zone in zones.suspects {
            if self.is_bitmap_lost(zone).await {
                verbs.extend([Verb::Bitmap { zone: zone.into() }]);
                continue;
            }
            let judged = self.store.look([OWNER_TREE], |view| self.store.judge_zone(view, zone)).await;
            let Some(judged) = readable(judged)? else { continue };
            let of = |(place, blocks)| Verb::Double { place, blocks };
            verbs.extend(judged.doubles.into_iter().map(of));
            let of = |(place, blocks)| Verb::Leak { place, blocks };
            verbs.extend(runs::common(&judged.leaks, &leaks).into_iter().map(of));
        }
        is_cut |= zones.is_cut || verbs.len() > settings.most_verbs;
        let verbs = verbs.into_verbs().into_iter().take(settings.most_verbs).collect();
        Ok(Scanned { verbs, is_cut, nodes: 0 })
    }

    /// Whether the bitmap of a zone is damaged on the device.
    pub(crate) async fn is_bitmap_lost(&self, zone: u32) -> bool {
        // A checkpoint names a bitmap before it writes it.
        let _no_cut = self.store.checkpoint.lock().await;
        let Some(stored) = held(&self.store.rooms).stored(zone) else { return false };
        self.store.read_bitmap(zone, stored).await.is_none()
    }

    async fn judge_now(&self, item: &Item) -> Result<Vec<Verb>, VolumeError> {
        Ok(readable(self.store.look([], |view| self.judge(view, item)).await)?.unwrap_or_default())
    }

    /// Reads a tree again as it is now, for what is in unequal buckets; false if there is more than is told.
    async fn detail(
        &self,
        tree: u8,
        sums: &Sums,
        lost: &BTreeSet<Verb>,
        leaks: &mut BTreeMap<u64, u64>,
        verbs: &mut Found,
        most: usize,
    ) -> Result<bool, VolumeError> {
        let (mut facts, mut told) = (Facts::new(&self.names), Vec::new());
        let mut next = Some(Vec::new());
        while let Some(from) = next.take() {
            self.store.check_interrupted()?;
            let looked = self.store.look([tree], |view| view.entries_from(tree, &from)).await;
            let Some((entries, then)) = readable(looked)? else {
                next = behind(lost, tree, &from);
                continue;
            };
            for (key, value) in &entries {
                facts.entry(sums, tree, key, value, &mut told);
            }
            next = then;
            if next.is_none() {
                facts.end(&mut told);
            }
            for told in told.drain(..) {
                match told {
                    Told::Fact(fact, _, item) if !sums.is_equal(fact) => verbs.extend(self.judge_now(&item).await?),
                    Told::Extent(place, blocks, _) => runs::cut(leaks, place, blocks.into()),
                    _ => {}
                }
            }
            if verbs.len() > most {
                return Ok(false);
            }
            give_way().await;
        }
        Ok(true)
    }
}

/// Where the keys go on behind a node that is lost.
fn behind(lost: &BTreeSet<Verb>, tree: u8, from: &[u8]) -> Option<Vec<u8>> {
    debug_assert!(tree < TREES);
    lost.iter().find_map(|verb| match verb {
        Verb::NodeLost { tree: of, low, high, .. }
        | Verb::NodeMisplaced { tree: of, low, high, .. }
        | Verb::NodeShared { tree: of, low, high, .. }
            if *of == tree && low.as_slice() <= from && high.as_deref().is_some_and(|high| from < high) =>
        {
            high.clone()
        }
        _ => None,
    })
}
