//! A volume: files on a store of trees, and their data on the same device.
//!
//! ```text
//!   names, attributes ──▶ store: change under the locks of trees
//!   data ──▶ open file: lock, map of extents ──▶ device
//! ```
//!
//! Time is handed in; whoever owns the volume calls [`Volume::checkpoint`] now and then, so that the log stays short.
//!
//! Invariant: an id names one file for ever: numbers are not given out twice, also not after a crash.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_device::{Clock, Copies, Device, Signal};
use holdfast_identity::{IdMap, ModeChange};
use holdfast_model::Uuid;

use crate::cached::CachedDevice;
use crate::change::{Need, Stop, View, refuse};
use crate::delayed::Waiting;
use crate::descriptors::{KEY_NUMBERS, mode_change_of, number_of_mode_change};
use crate::error::{ErrorKind, VolumeError};
use crate::keys::{self, RUN};
use crate::left_handles::LeftHandles;
use crate::media::Media;
use crate::names::{self, Names};
use crate::objects::Objects;
use crate::open::Opening;
use crate::open_files::OpenFiles;
use crate::past::Views;
use crate::quota::{KEY_COUNTED, Walks};
use crate::record::{Link, Record};
use crate::remembered::Remembered;
use crate::service::{FileId, FileKind, FileService, Time};
use crate::shrink::ShrinkNote;
use crate::store::{Format, Settings, Store, held};
use crate::transaction::Transaction;
use crate::{MAX_VALUE_BYTES, QUOTA_TREE, SETTINGS_TREE, SETTINGS_TWIN, SHARED_TREES};

/// The number of the root directory.
pub(crate) const ROOT: u64 = 1;
/// Runs of ids that are set aside at once, of all shards together.
const RUNS_AT_ONCE: u64 = 32 * SHARED_TREES as u64;
/// Runs that a volume may have given out in its life: so many ids are numbers below 2^62.
const MOST_RUNS_EVER: u64 = 1 << 56;
/// Directories whose runs of ids are remembered.
const MOST_RUNS: usize = 4096;
/// How often it is looked for data that has waited for its place: it waits twice as long, at most.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// After how many of those looks times of files are made durable, too, and what is left is tried again.
const LOOKS_TO_A_SYNC: u64 = 12;
/// After how many of those the log is begun anew.
const SYNCS_TO_A_CHECKPOINT: u64 = 2;
/// After how many of those room that was freed has rested.
const SYNCS_TO_A_REST: u64 = 12;
/// Steps in which the journal is cut at once, where no change does it.
const CUTS_AT_ONCE: usize = 256;
/// Changes that one opening may count.
const CHANGES: u32 = 40;

const KEY_SECRET: &[u8] = b"secret";
const KEY_RUNS: &[u8] = b"runs";
const KEY_FOLDING: &[u8] = b"folding";
const KEY_CASE: &[u8] = b"case";
const KEY_MODE_CHANGE: &[u8] = b"mode change";

/// What a volume of files is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeFormat {
    /// Its id, and the bytes of its log.
    pub store: Format,
    /// What its names are hashed with: drawn by the caller, told to nobody.
    pub secret: [u8; 16],
    /// The owner and group of the root directory.
    pub owner: (u32, u32),
    /// The permission bits of the root directory.
    pub mode: u32,
    /// Names that differ in case only are different ones to every caller.
    pub is_case_sensitive: bool,
}

/// Tells the time.
pub type WallClock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Runs of ids that are given out.
#[derive(Default)]
struct Ids {
    /// Runs below this one may be given out: that is durable, or will be before a file of them is.
    until: u64,
    /// For each shard the next run of it.
    next: Vec<u64>,
    /// The ids that are left of the run of a directory.
    of_directory: HashMap<u64, std::ops::Range<u64>>,
    /// The shard of the next directory.
    shard: u8,
}

/// An open volume.
pub struct Volume {
    pub(crate) store: Store,
    pub(crate) names: Arc<Names>,
    is_case_sensitive: bool,
    pub(crate) open: Arc<OpenFiles>,
    /// Files that are block objects.
    pub(crate) objects: Arc<Objects>,
    /// Handles that nobody closes.
    pub(crate) left: LeftHandles,
    /// Files without a name that stay because somebody knows them.
    pub(crate) remembered: Remembered,
    /// Files that have data that waits for its place.
    pub(crate) waiting: Waiting,
    /// Files of which something is noted that there was no room to end.
    pub(crate) late: Mutex<BTreeSet<u64>>,
    /// Files of which the journal has no room to say that they are closed.
    pub(crate) unclosed: Mutex<BTreeSet<u64>>,
    clock: WallClock,
    ids: Mutex<Ids>,
    /// Counts changes of files: the number of the opening, then those of this one.
    changes: AtomicU64,
    /// Raised when the volume is being closed.
    pub(crate) closing: Arc<Signal>,
    /// Held while maintenance writes.
    pub(crate) maintaining: tokio::sync::Mutex<()>,
    /// Held while free room is set aside to be given back.
    pub(crate) trimming: tokio::sync::Mutex<()>,
    /// Held while a snapshot is made or removed.
    pub(crate) snapshotting: tokio::sync::Mutex<()>,
    /// Held while what snapshots have left is given back.
    pub(crate) reclaiming: tokio::sync::Mutex<()>,
    /// Held by those who have files share blocks, and alone by who moves blocks that files share.
    pub(crate) cloning: tokio::sync::RwLock<()>,
    /// Snapshots that are read.
    pub(crate) views: Mutex<Views>,
    /// Held while the journal is switched on or off.
    pub(crate) journaling: tokio::sync::Mutex<()>,
    /// Held while the size changes.
    pub(crate) resizing: tokio::sync::Mutex<()>,
    /// Whether it becomes smaller.
    pub(crate) is_shrinking: AtomicBool,
    /// The note of a shrink that a crash cut short.
    pub(crate) unfinished: Mutex<Option<ShrinkNote>>,
    /// What is done to have files count for their directory trees.
    pub(crate) walks: Walks,
}

impl Volume {
    /// Makes an empty volume of a device. What it held is lost.
    ///
    /// # Errors
    /// The device is too small, or failed.
    pub async fn format(device: &Arc<dyn Device>, format: VolumeFormat, now: Time) -> Result<(), VolumeError> {
        Store::format(device, format.store).await?;
        Self::fill(device.clone(), format, now).await
    }

    /// The same where copies of a block can be told apart: where the device has one of each only, metadata is kept twice.
    ///
    /// # Errors
    /// As [`Volume::format`].
    pub async fn format_with_copies(
        device: Arc<dyn Copies>,
        format: VolumeFormat,
        now: Time,
    ) -> Result<(), VolumeError> {
        Store::format_with_copies(device.clone(), format.store).await?;
        Self::fill(device, format, now).await
    }

    /// Puts into an empty store what each volume has.
    async fn fill(device: Arc<dyn Device>, format: VolumeFormat, now: Time) -> Result<(), VolumeError> {
        let store = Store::open(device, Settings::default()).await?;
        let root = Record {
            generation: 1,
            kind: FileKind::Directory,
            attributes: 0,
            mode: format.mode & 0o7777,
            uid: format.owner.0,
            gid: format.owner.1,
            security: 0,
            links: 2,
            size: 0,
            blocks: 0,
            quota_tree: 0,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            change: 0,
            link: Link { parent: ROOT, parent_generation: 1, name: Vec::new() },
            inline: None,
        };
        // From the first file on, it is known what is taken.
        store.apply(Transaction::new().put(QUOTA_TREE, KEY_COUNTED, &[1])).await?;
        let mut transaction = Transaction::new();
        for tree in [SETTINGS_TREE, SETTINGS_TWIN] {
            for (number, part) in names::folding().chunks(MAX_VALUE_BYTES).enumerate() {
                transaction.put(tree, &[KEY_FOLDING, &[number as u8]].concat(), part);
            }
            transaction.put(tree, KEY_CASE, &[format.is_case_sensitive.into()]);
            transaction.put(tree, KEY_SECRET, &format.secret);
            transaction.put(tree, KEY_RUNS, &u64::from(SHARED_TREES).to_le_bytes());
        }
        transaction.put(keys::shard(ROOT), &keys::record(ROOT), &root.encode());
        store.apply(&transaction).await?;
        store.checkpoint().await
    }

    /// Opens the volume of a device. Files that were being removed when it was last open are gone afterwards. What is
    /// damaged fails by itself. Where changes that were acknowledged may be missing, or a later version wrote what this
    /// one only reads, the volume takes no changes and [`Volume::failure`] says why.
    ///
    /// # Errors
    /// There is no volume, one of a later version, or what it needs to begin is damaged in all its copies.
    pub async fn open(device: Arc<dyn Device>, settings: Settings, clock: WallClock) -> Result<Self, VolumeError> {
        Ok(Self::open_on(Media::of(device), settings, clock, Opening::Use).await?.0)
    }

    /// The same where copies of a block can be told apart: what is damaged in one is read from another, and written anew.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub async fn open_with_copies(
        device: Arc<dyn Copies>,
        settings: Settings,
        clock: WallClock,
    ) -> Result<Self, VolumeError> {
        Ok(Self::open_on(Media::with_copies(device), settings, clock, Opening::Use).await?.0)
    }

    /// The same of a device of which data may be kept in memory.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub async fn open_cached(
        device: Arc<CachedDevice>,
        settings: Settings,
        clock: WallClock,
    ) -> Result<Self, VolumeError> {
        Ok(Self::open_on(Media::with_cache(device), settings, clock, Opening::Use).await?.0)
    }

    /// Opens what is left of a volume on a device that has room behind `size_bytes`; answers also why changes may be
    /// missing. What names depend on is guessed where it is lost: names are listed then, and found by nobody.
    pub(crate) async fn open_wreck(
        media: Media,
        size_bytes: u64,
        settings: Settings,
        clock: WallClock,
    ) -> Result<(Self, Option<String>), VolumeError> {
        Self::open_on(media, settings, clock, Opening::Wreck { size_bytes }).await
    }

    async fn open_on(
        media: Media,
        settings: Settings,
        clock: WallClock,
        opening: Opening,
    ) -> Result<(Self, Option<String>), VolumeError> {
        let (store, gap) = Store::open_on(media, settings, opening).await?;
        let missing = |what: &str| VolumeError::corrupt(format!("volume {} has no {what}", store.volume()));
        let number = |value: &Vec<u8>| value[..].try_into().ok().map(u64::from_le_bytes);
        let mut set = store.twin_settings().await?;
        if opening != Opening::Use {
            set.entry(KEY_SECRET.to_vec()).or_insert_with(|| vec![0; 16]);
            set.entry(KEY_RUNS.to_vec()).or_insert_with(|| (MOST_RUNS_EVER / 2).to_le_bytes().to_vec());
        }
        let secret = set.get(KEY_SECRET).and_then(|value| value[..].try_into().ok());
        let secret = secret.ok_or_else(|| missing("secret of names"))?;
        let runs = set.get(KEY_RUNS).and_then(number).filter(|runs| *runs < MOST_RUNS_EVER);
        let runs = runs.ok_or_else(|| missing("count of ids"))?;
        let numbers = set.get(KEY_NUMBERS).and_then(|value| value[..].try_into().ok()).map(u32::from_le_bytes);
        // A wreck that lost the count has given out numbers that nobody knows.
        let numbers = numbers.unwrap_or(if opening == Opening::Use { 0 } else { u32::MAX / 2 });
        store.descriptors.begin(numbers);
        let mode_change = set.get(KEY_MODE_CHANGE).and_then(|value| value.first().copied());
        store.descriptors.set_mode_change(mode_change.and_then(mode_change_of).unwrap_or_default());
        let is_case_sensitive = set.get(KEY_CASE).is_some_and(|value| value[..] == [1]);
        let parts = set.range(KEY_FOLDING.to_vec()..).take_while(|(key, _)| key.starts_with(KEY_FOLDING));
        let folding: Vec<u8> = parts.flat_map(|(_, part)| part.clone()).collect();
        let first = runs.next_multiple_of(u64::from(SHARED_TREES));
        let ids = Ids {
            until: first,
            next: (0..u64::from(SHARED_TREES)).map(|shard| first + shard).collect(),
            ..Ids::default()
        };
        let changes = store.checkpoint.lock().await.root.epoch << CHANGES;
        let names = Arc::new(Names::new(&folding, secret)?);
        let volume = Self::on(store, names, is_case_sensitive, clock);
        *held(&volume.ids) = ids;
        volume.changes.store(changes, Ordering::Relaxed);
        if volume.failure().is_none() {
            volume.keep_left_out().await?;
            volume.store.mend_descriptors().await?;
            // What stands in a damaged node waits until that is repaired.
            crate::scan::readable(volume.finish_deferred().await)?;
            crate::scan::readable(volume.take_up_shrink().await)?;
            crate::scan::readable(volume.close_noted().await)?;
        }
        Ok((volume, gap))
    }

    /// Files on trees. It gives out no ids.
    fn on(store: Store, names: Arc<Names>, is_case_sensitive: bool, clock: WallClock) -> Self {
        let open: Arc<OpenFiles> = Arc::default();
        store.journal.serve(open.clone(), clock.clone());
        Self {
            names,
            is_case_sensitive,
            open,
            objects: Arc::default(),
            left: LeftHandles::default(),
            remembered: Remembered::default(),
            waiting: Waiting::default(),
            late: Mutex::default(),
            unclosed: Mutex::default(),
            clock,
            ids: Mutex::default(),
            changes: AtomicU64::new(0),
            closing: Arc::default(),
            maintaining: tokio::sync::Mutex::new(()),
            trimming: tokio::sync::Mutex::new(()),
            snapshotting: tokio::sync::Mutex::new(()),
            reclaiming: tokio::sync::Mutex::new(()),
            cloning: tokio::sync::RwLock::new(()),
            views: Mutex::default(),
            journaling: tokio::sync::Mutex::new(()),
            resizing: tokio::sync::Mutex::new(()),
            is_shrinking: AtomicBool::new(false),
            unfinished: Mutex::new(None),
            walks: Walks::default(),
            store,
        }
    }

    /// The files of a snapshot of this volume.
    pub(crate) fn view_of(&self, store: Store) -> Self {
        Self::on(store, self.names.clone(), self.is_case_sensitive, self.clock.clone())
    }

    /// The volume's id.
    pub fn id(&self) -> Uuid {
        self.store.volume()
    }

    /// Whether names that differ in case only are different ones to every caller.
    pub fn is_case_sensitive(&self) -> bool {
        self.is_case_sensitive
    }

    /// What a change of the mode does to files that have a security descriptor of their own.
    pub fn mode_change(&self) -> ModeChange {
        self.store.descriptors.mode_change()
    }

    /// Has it do something else from now on, durably; answers whether that is new.
    ///
    /// # Errors
    /// No room, a node is damaged, or the device failed.
    pub async fn set_mode_change(&self, to: ModeChange) -> Result<bool, VolumeError> {
        let change = self.store.change([SETTINGS_TREE, SETTINGS_TWIN], Need::More, |view| {
            let before = view.get(SETTINGS_TREE, KEY_MODE_CHANGE)?;
            for tree in [SETTINGS_TREE, SETTINGS_TWIN] {
                view.put(tree, KEY_MODE_CHANGE.to_vec(), vec![number_of_mode_change(to)])?;
            }
            Ok(before.and_then(|value| value.first().copied()).unwrap_or_default() != number_of_mode_change(to))
        });
        let is_new = self.store.lasting(change).await?;
        // Somebody else may have changed it since: what stands there counts.
        let take_over = self.store.look([SETTINGS_TREE], |view| {
            let stored = view.get(SETTINGS_TREE, KEY_MODE_CHANGE)?.and_then(|value| value.first().copied());
            self.store.descriptors.set_mode_change(stored.and_then(mode_change_of).unwrap_or_default());
            Ok(())
        });
        take_over.await?;
        Ok(is_new)
    }

    /// Has users and groups of POSIX be known by the identifiers of this map: those of files that have no descriptor of
    /// their own, and of callers who bring no token. Numbers that it does not know are `S-1-22-1-uid` and `S-1-22-2-gid`.
    /// Whoever opens the volume says so before anybody uses it.
    pub fn use_ids(&self, ids: IdMap) {
        self.store.descriptors.use_ids(ids);
    }

    /// Bytes of the device that the volume uses.
    pub fn size_bytes(&self) -> u64 {
        self.store.superblock().size_bytes
    }

    /// Blocks that were damaged in one copy, and were written anew from another since the volume was opened.
    pub fn mended(&self) -> u64 {
        self.store.mended.load(Ordering::Relaxed)
    }

    /// Whether the opening found the volume damaged so that changes are missing, or cannot be made without danger.
    pub fn is_damaged(&self) -> bool {
        self.store.is_damaged.load(Ordering::Relaxed)
    }

    /// Why the volume takes no changes any more, if so.
    pub fn failure(&self) -> Option<&str> {
        self.store.failed.get().map(String::as_str)
    }

    /// Files whose data waits in memory because it could not be written, and why the first of them could not.
    pub fn unwritten(&self) -> Option<(usize, VolumeError)> {
        self.waiting.failing()
    }

    /// Files of which data waits in memory for its place.
    pub fn waiting_files(&self) -> usize {
        self.waiting.all().len()
    }

    /// The present.
    pub(crate) fn now(&self) -> Time {
        (self.clock)()
    }

    /// The number of a change of a file: greater than all before, also over a crash.
    pub(crate) fn next_change(&self) -> u64 {
        self.changes.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of the last change in the log.
    pub fn last(&self) -> u64 {
        self.store.last()
    }

    /// The number of the last change that opening found: all up to it are there, and none behind it.
    pub fn recovered(&self) -> u64 {
        self.store.recovered
    }

    /// Writes what changed to its place, so that the log may begin anew.
    ///
    /// # Errors
    /// The device failed: nothing is changed any more.
    pub async fn checkpoint(&self) -> Result<(), VolumeError> {
        // What cannot be written keeps nothing else from its place; whoever makes it durable is told.
        _ = self.write_back_all(&self.waiting.all()).await;
        self.store.checkpoint().await
    }

    /// Makes what was written durable, and keeps the log short, until the volume is closed. Whoever opens a volume that is to
    /// live for long runs this beside it.
    pub async fn maintain(self: Arc<Self>, clock: Arc<dyn Clock>) {
        let mut written = self.last();
        for look in 1u64.. {
            if let Either::Left(_) = select(self.closing.wait(), clock.sleep(LOOK_EVERY)).await {
                return;
            }
            let _writing = self.maintaining.lock().await;
            if self.closing.raised() {
                return;
            }
            self.close_left().await;
            self.write_back_aged().await;
            _ = self.settle_journal_some(CUTS_AT_ONCE).await;
            // What was written lasts within a second, although nobody asks.
            if self.sync_answered().await.is_err() && self.failure().is_some() {
                return;
            }
            if !look.is_multiple_of(LOOKS_TO_A_SYNC) {
                continue;
            }
            let round = look / LOOKS_TO_A_SYNC;
            self.finish_late().await;
            _ = self.close_unclosed().await;
            // A failure that ends all changes is in the volume, which says why.
            if self.sync().await.is_err() && self.failure().is_some() {
                return;
            }
            let last = self.last();
            if round.is_multiple_of(SYNCS_TO_A_CHECKPOINT) && last != written {
                match self.checkpoint().await {
                    Ok(()) => written = last,
                    Err(_) if self.failure().is_some() => return,
                    Err(_) => {}
                }
            }
            self.trim_rested().await;
            if round.is_multiple_of(SYNCS_TO_A_REST) {
                held(&self.store.rooms).freed.turn();
            }
        }
    }

    /// Makes all durable that was answered, and all of it readable without the log. Nothing may be under way.
    ///
    /// # Errors
    /// The device failed. What was durable before is there at the next opening.
    pub async fn shut_down(&self) -> Result<(), VolumeError> {
        self.closing.raise();
        self.interrupt(true);
        let _no_maintenance = self.maintaining.lock().await;
        let written = async {
            let synced = self.sync().await;
            synced.and(self.checkpoint().await)
        };
        let written = written.await;
        // Its space may be another's from now on.
        let _ = self.store.failed.set("it is closed".into());
        written
    }

    /// Has scans and repairs that are under way end early, with an error, or lets new ones begin. They are never to be
    /// dropped instead: a checkpoint that they make must come to its end.
    pub fn interrupt(&self, interrupt: bool) {
        self.store.interrupted.store(interrupt, Ordering::Release);
    }

    /// An id for a file in a directory: beside those of the same directory, and for a directory in a shard of its own.
    pub(crate) async fn draw_id(&self, directory: u64, is_directory: bool) -> Result<FileId, VolumeError> {
        loop {
            if let Some(number) = self.try_draw(directory, is_directory) {
                return Ok(FileId { number, generation: 1 });
            }
            Box::pin(self.extend_runs()).await?;
        }
    }

    fn try_draw(&self, directory: u64, is_directory: bool) -> Option<u64> {
        let mut ids = held(&self.ids);
        let shard = if is_directory { ids.shard } else { keys::shard(directory) };
        // Directories of a shard share runs, under a number that is no file's.
        let whose = if is_directory { u64::MAX - u64::from(shard) } else { directory };
        let number = match ids.of_directory.get_mut(&whose).and_then(Iterator::next) {
            Some(number) => number,
            None => {
                let run = ids.next[usize::from(shard)];
                if run >= ids.until {
                    return None;
                }
                ids.next[usize::from(shard)] += u64::from(SHARED_TREES);
                if ids.of_directory.len() >= MOST_RUNS {
                    ids.of_directory.clear();
                }
                let mut run = run * RUN..(run + 1) * RUN;
                let number = run.next().expect("a run has ids");
                ids.of_directory.insert(whose, run);
                number
            }
        };
        if is_directory {
            ids.shard = (ids.shard + 1) % SHARED_TREES;
        }
        Some(number)
    }

    /// Sets more runs aside. What draws from them is logged behind this.
    async fn extend_runs(&self) -> Result<(), VolumeError> {
        let (until, _) = self
            .store
            .change([SETTINGS_TREE, SETTINGS_TWIN], Need::More, |view| {
                let before = match view.get(SETTINGS_TREE, KEY_RUNS)? {
                    Some(before) => Some(before),
                    None => view.get(SETTINGS_TWIN, KEY_RUNS)?,
                };
                let before = before.and_then(|value| value.try_into().ok()).map(u64::from_le_bytes);
                let Some(before) = before.filter(|before| *before < MOST_RUNS_EVER) else {
                    return refuse(ErrorKind::Corrupt, "the volume has no count of ids");
                };
                let until = before + RUNS_AT_ONCE;
                for tree in [SETTINGS_TREE, SETTINGS_TWIN] {
                    view.put(tree, KEY_RUNS.to_vec(), until.to_le_bytes().to_vec())?;
                }
                Ok(until)
            })
            .await?;
        let mut ids = held(&self.ids);
        ids.until = ids.until.max(until);
        Ok(())
    }
}

impl Store {
    /// What names and ids depend on, from the settings and their twin, both of which have all of it afterwards.
    async fn twin_settings(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, VolumeError> {
        let is_twin = |key: &[u8]| {
            let fixed = [KEY_SECRET, KEY_RUNS, KEY_CASE, KEY_MODE_CHANGE, KEY_NUMBERS];
            fixed.contains(&key) || key.starts_with(KEY_FOLDING)
        };
        let mut both = Vec::new();
        for tree in [SETTINGS_TREE, SETTINGS_TWIN] {
            let entries = self.range(tree, b"", usize::MAX).await?;
            both.push((tree, entries.into_iter().filter(|(key, _)| is_twin(key)).collect::<BTreeMap<_, _>>()));
        }
        let [(_, own), (_, twin)] = &both[..] else { unreachable!("two trees") };
        let mut all = twin.clone();
        all.extend(own.clone());
        let mut missing = Transaction::new();
        for (tree, entries) in &both {
            for (key, value) in all.iter().filter(|(key, _)| !entries.contains_key(*key)) {
                missing.put(*tree, key, value);
            }
        }
        if !missing.operations.is_empty() && self.check_failed().is_ok() {
            self.apply(&missing).await?;
        }
        Ok(all)
    }
}

/// The record of a file that exists: with a name, or open.
pub(crate) fn record_of(view: &View<'_>, id: FileId) -> Result<Record, Stop> {
    let Some(value) = view.get(keys::shard(id.number), &keys::record(id.number))? else {
        return refuse(ErrorKind::Stale, "the file does not exist any more");
    };
    let record = Record::decode(id.number, &value)?;
    if record.generation != id.generation {
        return refuse(ErrorKind::Stale, "the file does not exist any more");
    }
    Ok(record)
}

/// The record of a directory that exists.
pub(crate) fn directory_of(view: &View<'_>, id: FileId) -> Result<Record, Stop> {
    let record = record_of(view, id)?;
    if !record.is_directory() {
        return refuse(ErrorKind::NotDirectory, "it is no directory");
    }
    if record.links == 0 {
        return refuse(ErrorKind::NotFound, "the directory was removed");
    }
    Ok(record)
}

/// Puts a record back.
pub(crate) fn put_record(view: &mut View<'_>, number: u64, record: &Record) -> Result<(), Stop> {
    view.put(keys::shard(number), keys::record(number), record.encode())
}
