//! Volumes: files on spaces, made, opened with their pool, mounted, closed.
//!
//! ```text
//!   pool in service ─▶ space claimed ─▶ volume opened ─▶ mounted where it is to be
//!   pool closed     ◀─ space closed  ◀─ volume closed ◀─ unmounted
//! ```
//!
//! Invariants: a space has one volume, or exports, never both. What a volume is and where it is to be mounted is on its
//! pool before it is answered.

mod acl;
mod adopt;
mod create;
mod damage;
mod destroy;
mod file_objects;
mod integrity;
mod journal;
mod known;
mod listing;
mod mapped;
mod mounts;
mod properties;
mod quotas;
mod rescue;
mod revert;
mod shrink;
mod snapshots;
mod traffic;
mod usage;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_api::{
    ApiError, Code, Condition, GrowVolume, Severity, Space as SpaceView, Volume as VolumeView, VolumeChanged,
};
use holdfast_block::Claim;
use holdfast_device::reactor;
use holdfast_fuse::{Mounted, Notifier};
use holdfast_model::{ObjectKind, ObjectRef, SpacePath, Uuid, counted, natural_order};
use holdfast_opens::Table;
use holdfast_pool::SpaceRecord;
use holdfast_space::Space;
use holdfast_volume::service::{FileId, Time};
use holdfast_volume::{CachedDevice, ErrorKind, Settings, Verb, Volume, VolumeError, WallClock};

use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, from_pool, not_found};
use crate::spaces::{parse_path, space_size};
pub(crate) use crate::volumes::acl::administrator;
pub(crate) use crate::volumes::damage::{DamageWatch, LostBlock};
use crate::volumes::file_objects::Shared;
pub(crate) use crate::volumes::file_objects::{FoundFile, HeldDisk, NewDisk, disks_within, in_use, split};
pub use crate::volumes::journal::JournalAsked;
use crate::volumes::known::KnownVolume;
pub use crate::volumes::listing::ListingAsked;
use crate::volumes::mapped::Asking;
use crate::volumes::mounts::{end_mount, mount_files};
pub(crate) use crate::volumes::mounts::{give_back, take_away};
pub(crate) use crate::volumes::quotas::QuotaWatch;
pub(crate) use crate::volumes::rescue::{Folder, check_empty};
pub(crate) use crate::volumes::revert::{Notice, Revert, Unreverted};
pub use crate::volumes::snapshots::DifferencesAsked;
use crate::volumes::snapshots::ScheduleWatch;
pub(crate) use crate::volumes::snapshots::{BEFORE, from_snapshot, keep_schedules, no_file, stamp};
pub(crate) use crate::volumes::usage::{find, find_any};
pub(crate) use crate::volumes::view::own_health;
use crate::volumes::view::view;

/// What the names of documents begin with that are volumes.
const VOLUMES: &str = "volume/";
/// What must be zeros at the beginning of a space that a volume is made on.
const BLANK_BYTES: usize = 128 << 10;
/// How long closing waits for a volume before it goes on without it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Scans of which a repair offline consists that has to read all, about.
const SCANS_OF_A_REPAIR: u32 = 4;
/// Things that a repair offline puts right in a second by what a scan found.
const REPAIRS_A_SECOND: f64 = 400_000.0;
/// For how long the kernel believes what it knows of names and attributes.
const KNOWN_FOR: Duration = Duration::from_secs(10);

/// A volume that is open.
struct OpenVolume {
    volume: Arc<Volume>,
    /// What is open on it by whatever protocol; all who serve it share that.
    opens: Arc<Table>,
    /// Keeps others off its space.
    _claim: Claim,
    mounted: Option<Mounted>,
    /// Who has its mount hand over what it keeps.
    asking: Asking,
    /// Files of it that clients use as disks.
    disks: BTreeMap<FileId, Shared>,
}

/// A volume of a pool in service.
pub(crate) struct LiveVolume {
    known: KnownVolume,
    open: Option<OpenVolume>,
    /// Why it is not open, or not mounted.
    trouble: Option<Condition>,
    /// What the last scan found and nobody repaired since.
    findings: Findings,
    /// A job repairs it, and nobody else may use it meanwhile.
    is_away: bool,
    /// What is known and was told of its quotas.
    quotas: QuotaWatch,
    /// What hinders its schedule of snapshots.
    schedule: ScheduleWatch,
    /// What is known to be lost of strict files.
    damage: DamageWatch,
}

/// What is known of a volume's findings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Findings {
    /// Those that are left; files without a name are one.
    pub(crate) left: u64,
    /// The things that they are about.
    pub(crate) things: u64,
    /// Those of them that are not repaired while the volume is in use.
    pub(crate) offline: u64,
    /// Whether one of those has all of the volume read while nobody uses it.
    pub(crate) needs_all: bool,
    /// Those that were repaired since the volume was opened.
    pub(crate) fixed: u64,
    /// How long the last scan took; unknown until there is one.
    pub(crate) scan: Option<Duration>,
}

impl Findings {
    pub(crate) fn of(verbs: &[Verb]) -> Self {
        let orphans = verbs.iter().filter(|verb| verb.is_orphan()).count();
        Self {
            left: (verbs.len() - orphans + orphans.min(1)) as u64,
            things: verbs.iter().map(Verb::count).sum(),
            offline: verbs.iter().filter(|verb| !verb.is_online()).count() as u64,
            needs_all: verbs.iter().any(Verb::needs_all),
            ..Self::default()
        }
    }

    /// How many there are.
    pub(crate) fn words(&self) -> String {
        let findings = counted(self.left, "finding", "findings");
        if self.things > self.left { format!("{findings} in {} places", self.things) } else { findings }
    }

    /// About how long a repair takes the volume away: by what is known alone, or with a scan before and after each of
    /// two steps.
    pub(crate) fn estimate(&self) -> Option<Duration> {
        if self.needs_all {
            return self.scan.map(|scan| scan * SCANS_OF_A_REPAIR);
        }
        Some(Duration::from_secs_f64(self.things as f64 / REPAIRS_A_SECOND))
    }
}

impl LiveVolume {
    /// Where it is mounted now.
    fn mounted_on(&self) -> Option<&Path> {
        let mounted = self.open.as_ref().and_then(|open| open.mounted.as_ref());
        mounted.filter(|mounted| mounted.is_there()).map(Mounted::directory)
    }

    fn is_mounted(&self) -> bool {
        self.mounted_on().is_some()
    }

    /// Why nothing can be done with a volume that is not open.
    fn refusal(&self, object: &str) -> ApiError {
        match &self.trouble {
            Some(trouble) => conflict(object, format!("it {}", trouble.cause), &*trouble.next_action),
            None => conflict(object, "it is not open", "see the health of its pool"),
        }
    }
}

impl OpenPool {
    /// The volumes of the pool, by name.
    pub(crate) fn volumes(&self) -> MutexGuard<'_, BTreeMap<String, LiveVolume>> {
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn volume_object(&self, known: &KnownVolume) -> ObjectRef {
        ObjectRef::new(ObjectKind::Volume, known.id.to_string(), format!("{}/{}", self.name(), known.name))
    }

    /// The volume with this id, where it is open.
    pub(crate) fn volume_of(&self, id: Uuid) -> Option<Arc<Volume>> {
        let volumes = self.volumes();
        let found = volumes.values().find(|volume| volume.known.id == id);
        found.and_then(|volume| volume.open.as_ref()).map(|open| open.volume.clone())
    }

    /// The volume with this id, if it is open, and the space that it lies on.
    pub(crate) fn volume_and_space(&self, id: Uuid) -> Option<(Arc<Volume>, Option<Arc<Space>>)> {
        let (volume, space) = {
            let volumes = self.volumes();
            let live = volumes.values().find(|live| live.known.id == id)?;
            (live.open.as_ref()?.volume.clone(), live.known.space)
        };
        Some((volume, self.space_with(space)))
    }

    /// What the mount of the volume with this id is told of changes with.
    pub(crate) fn notifier_of(&self, id: Uuid) -> Option<Notifier> {
        let volumes = self.volumes();
        let live = volumes.values().find(|live| live.known.id == id)?;
        Some(live.open.as_ref()?.mounted.as_ref()?.notifier())
    }

    /// The space of the volume with this id, claimed for whoever works on it where the volume itself is not open.
    pub(crate) fn space_of_volume(&self, id: Uuid) -> ApiResult<(Arc<Space>, Option<Claim>)> {
        let (known, is_open) = {
            let volumes = self.volumes();
            let found = volumes.values().find(|live| live.known.id == id);
            let found = found.map(|live| (live.known.clone(), live.open.is_some()));
            found.ok_or_else(|| not_found("volume", "'holdfast volume list' lists the volumes"))?
        };
        let object = self.volume_object(&known).to_string();
        let space = self.space_with(known.space);
        let space = space.ok_or_else(|| conflict(&object, "its space is not open", "see the health of its pool"))?;
        let claim = if is_open { None } else { Some(claim(self, &space, &known.name, &object)?) };
        Ok((space, claim))
    }

    /// The volume of this name, which must be open.
    fn open_volume_named(&self, name: &str, object: &str) -> ApiResult<(KnownVolume, Arc<Volume>)> {
        let volumes = self.volumes();
        let live = volumes.get(name).ok_or_else(|| not_found(object, "'holdfast volume list' lists the volumes"))?;
        if live.is_away {
            return Err(conflict(object, "a job repairs it offline", "see 'holdfast job list', and wait for its end"));
        }
        match &live.open {
            Some(open) => Ok((live.known.clone(), open.volume.clone())),
            None => Err(live.refusal(object)),
        }
    }

    /// `POOL/VOLUME` of the volume with this id.
    pub(crate) fn volume_name(&self, id: Uuid) -> String {
        let found =
            self.volumes().values().find(|volume| volume.known.id == id).map(|volume| volume.known.name.clone());
        format!("{}/{}", self.name(), found.unwrap_or_default())
    }

    /// A scan or a repair of a volume left these findings.
    pub(crate) fn note_findings(&self, id: Uuid, left: &[Verb], fixed: u64, scan: Option<Duration>) {
        if let Some(volume) = self.volumes().values_mut().find(|volume| volume.known.id == id) {
            let before = volume.findings;
            volume.findings =
                Findings { fixed: before.fixed + fixed, scan: scan.or(before.scan), ..Findings::of(left) };
        }
    }

    /// A volume of it that is mounted.
    pub(crate) fn mounted_volume(&self) -> Option<String> {
        let volumes = self.volumes();
        let found = volumes.values().find(|volume| volume.is_mounted());
        found.map(|volume| format!("{}/{}", self.name(), volume.known.name))
    }

    /// The name of the volume that lies on a space, or is to.
    pub(crate) fn volume_on(&self, space: &SpaceRecord) -> Option<String> {
        let volumes = self.volumes();
        let found = volumes.values().find(|volume| volume.known.is_on(space));
        found.map(|volume| format!("{}/{}", self.name(), volume.known.name))
    }

    /// Whether the volume with this id lies on a space.
    pub(crate) fn lies_on(&self, volume: Uuid, space: &SpaceRecord) -> bool {
        self.volumes().values().any(|live| live.known.id == volume && live.known.is_on(space))
    }

    /// The name of a volume that was not created to its end, and whose space is to have this name.
    pub(crate) fn volume_awaiting(&self, space: &str) -> Option<String> {
        let volumes = self.volumes();
        let found = volumes.values().find(|volume| volume.known.awaits(space));
        found.map(|volume| format!("{}/{}", self.name(), volume.known.name))
    }
}

pub(crate) fn wall_clock() -> WallClock {
    Arc::new(present)
}

/// The present, of the machine's clock.
fn present() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

/// A volume's error about `object`.
pub(crate) fn from_volume(object: impl Into<String>, error: &VolumeError) -> ApiError {
    let (code, next) = match error.kind {
        ErrorKind::NoSpace => (Code::NoSpace, "let the volume grow, or remove files"),
        ErrorKind::Invalid => (Code::Invalid, "choose another size"),
        ErrorKind::ReadOnly => (Code::ReadOnly, "check the disks of its pool, then export and import the pool"),
        ErrorKind::Format => (Code::Conflict, "run the version that wrote it, or restore its space from a backup"),
        ErrorKind::Corrupt => {
            (Code::Conflict, "check the health of its space; 'holdfast volume salvage' copies out what can be read")
        }
        ErrorKind::Busy => (Code::Conflict, "see 'holdfast job list': wait for its job, or cancel it"),
        _ => (Code::Failed, "check the disks of its pool, and its events"),
    };
    ApiError::new(code, object, error.to_string(), next)
}

fn parse_volume(path: &str) -> ApiResult<SpacePath> {
    parse_path(path).map_err(|mut error| {
        error.object = error.object.replacen("space", "volume", 1);
        error.next_action = "write POOL/VOLUME".into();
        error
    })
}

impl Engine {
    /// All volumes of the pools in service.
    pub fn volumes(&self) -> Vec<VolumeView> {
        self.volumes_on(&[])
    }

    /// The same; `spaces` are those that are known already.
    pub(crate) fn volumes_on(&self, spaces: &[SpaceView]) -> Vec<VolumeView> {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let shrinks = self.jobs.shrinks();
        let mut views = Vec::new();
        for open in &pools {
            let own = |live: &LiveVolume| view(open, live, shrinks.get(&live.known.id).copied());
            let own: Vec<VolumeView> = open.volumes().values().map(own).collect();
            views.extend(own.into_iter().map(|own| self.with_what_is_below(open, own, spaces)));
        }
        views.sort_by(|a, b| natural_order(&a.name, &b.name));
        views
    }

    /// The volume of this path.
    ///
    /// # Errors
    /// If there is none.
    pub fn volume(&self, path: &str) -> ApiResult<VolumeView> {
        let path = parse_volume(path)?;
        let open = self.pool_named(path.pool.as_str())?;
        let shrinks = self.jobs.shrinks();
        let own = |live: &LiveVolume| view(&open, live, shrinks.get(&live.known.id).copied());
        let own = open.volumes().get(path.space.as_str()).map(own);
        let own = own.ok_or_else(|| not_found(format!("volume {path}"), "'holdfast volume list' lists the volumes"))?;
        Ok(self.with_what_is_below(&open, own, &[]))
    }

    async fn keep_volume(&self, open: &OpenPool, known: &KnownVolume) -> ApiResult<()> {
        self.keep(&open.pool, format!("{VOLUMES}{}", known.name), Some(known)).await
    }

    /// Opens the volumes that a pool keeps; what fails is an event, and a condition of the volume.
    pub(crate) async fn open_volumes(&self, open: &Arc<OpenPool>) {
        for (key, text) in open.pool.documents(VOLUMES) {
            let name = key.strip_prefix(VOLUMES).unwrap_or(&key);
            match KnownVolume::read(name, &text) {
                (known, None) => self.open_volume(open, known).await,
                (known, Some(trouble)) => self.set_aside(open, known, trouble),
            }
        }
    }

    /// Has a volume in lists that cannot be opened, with the reason.
    fn set_aside(&self, open: &OpenPool, known: KnownVolume, trouble: Condition) {
        let is_new = open.volumes().get(&known.name).is_none_or(|live| live.trouble.as_ref() != Some(&trouble));
        if is_new {
            self.events.emit(Severity::Error, &open.volume_object(&known), &trouble.cause, &trouble.next_action);
        }
        let (findings, quotas, schedule) = (Findings::default(), QuotaWatch::default(), ScheduleWatch::default());
        let damage = DamageWatch::load(&open.pool, known.id);
        let trouble = Some(trouble);
        let live = LiveVolume { open: None, trouble, findings, is_away: false, quotas, schedule, damage, known };
        open.volumes().insert(live.known.name.clone(), live);
    }

    async fn open_volume(&self, open: &Arc<OpenPool>, known: KnownVolume) {
        let name = known.name.clone();
        if let Some(trouble) = known.unfinished(&format!("{}/{name}", open.name())) {
            self.set_aside(open, known, trouble);
            return;
        }
        let is_open = {
            let volumes = open.volumes();
            let live = volumes.get(&name).filter(|live| live.open.is_some());
            live.map(|live| live.trouble.is_some())
        };
        if let Some(is_troubled) = is_open {
            if let Some(mount) = known.mount.filter(|_| is_troubled) {
                let object = format!("volume {}/{name}", open.name());
                if let Err(error) = self.mount_now(open, &name, &object, &mount).await {
                    tracing::warn!("{error}");
                }
            }
            return;
        }
        let object = open.volume_object(&known);
        let (mut opened, mut trouble) = match self.bring_up(open, &known).await {
            Ok(opened) => (Some(opened), None),
            Err(error) => (None, Some(Condition::new(format!("is not open: {}", error.message), error.next_action))),
        };
        let mut findings = Findings::default();
        if let Some(opened) = &mut opened {
            let volume = opened.volume.clone();
            let found = self.on_reactor(move || async move { volume.findings().await }).await;
            findings = found.ok().and_then(Result::ok).map_or(findings, |found| Findings::of(&found));
            if let Some(mount) = &known.mount {
                let served = (opened.volume.clone(), opened.opens.clone());
                match mount_files(open, &name, served, mount, &self.reactors).await {
                    Ok(mounted) => opened.mounted = Some(mounted),
                    Err(refused) => trouble = Some(refused.trouble),
                }
            }
        }
        if let Some(trouble) = &trouble {
            self.events.emit(Severity::Error, &object, &trouble.cause, &trouble.next_action);
        }
        let volume = opened.as_ref().map(|opened| opened.volume.clone());
        let quotas = match &volume {
            Some(volume) => self.quota_watch(volume).await,
            None => QuotaWatch::default(),
        };
        let (schedule, damage) = (ScheduleWatch::default(), DamageWatch::load(&open.pool, known.id));
        let live = LiveVolume {
            known: known.clone(),
            open: opened,
            trouble,
            findings,
            is_away: false,
            quotas,
            schedule,
            damage,
        };
        open.volumes().insert(name, live);
        let Some(volume) = volume else { return };
        if let Err(error) = self.count_trees(open, &known, &volume) {
            tracing::warn!("what directory trees of {object} hold is not counted: {error}");
        }
        if let Err(error) = self.reclaim_left(open, &known, &volume) {
            tracing::warn!("what destroyed snapshots of {object} kept is not given back: {error}");
        }
    }

    async fn bring_up(&self, open: &Arc<OpenPool>, known: &KnownVolume) -> ApiResult<OpenVolume> {
        let object = open.volume_object(known).to_string();
        let space = open.space_with(known.space);
        let space = space.ok_or_else(|| conflict(&object, "its space is not open", "see the health of its pool"))?;
        let claim = claim(open, &space, &known.name, &object)?;
        let id = known.id;
        let cache = self.data_cache.clone();
        let opened = self.on_reactor(move || async move {
            let volume = match cache {
                Some(cache) => {
                    let device = CachedDevice::with_copies(space, &cache);
                    Volume::open_cached(device, Settings::default(), wall_clock()).await?
                }
                None => Volume::open_with_copies(space, Settings::default(), wall_clock()).await?,
            };
            let volume = Arc::new(volume);
            if volume.id() == id {
                reactor::spawn_local(volume.clone().maintain(reactor::clock()));
            }
            Ok::<_, VolumeError>(volume)
        });
        let volume = opened.await?.map_err(|error| from_volume(&object, &error))?;
        if volume.id() != id {
            let message = format!("its space holds volume {}, not {}", volume.id(), known.id);
            return Err(conflict(&object, message, "restore the space from a backup"));
        }
        let opens = Arc::new(Table::new(holdfast_opens::Settings::default()));
        Ok(OpenVolume {
            volume,
            opens,
            _claim: claim,
            mounted: None,
            asking: Asking::default(),
            disks: BTreeMap::new(),
        })
    }

    /// Unmounts and closes all volumes of a pool, and forgets them until it is opened again.
    pub(crate) async fn close_volumes(&self, open: &Arc<OpenPool>) {
        // What reads found since the last look would be forgotten with them.
        self.look_at_damage(open).await;
        let volumes = std::mem::take(&mut *open.volumes());
        for live in volumes.into_values() {
            self.close_volume(open, live).await;
        }
    }

    /// Refuses to let volumes of a pool go that keep data in memory which cannot be written.
    ///
    /// # Errors
    /// One does, and why.
    pub(crate) async fn refuse_unwritten(&self, open: &OpenPool) -> ApiResult<()> {
        let opened: Vec<(String, Arc<Volume>)> = {
            let volumes = open.volumes();
            let opened = volumes.iter().filter_map(|(name, live)| Some((name, &live.open.as_ref()?.volume)));
            opened.map(|(name, volume)| (name.clone(), volume.clone())).collect()
        };
        for (name, volume) in opened {
            let inner = volume.clone();
            // What can be written is.
            _ = self.on_reactor(move || async move { inner.checkpoint().await }).await;
            if let Some((files, why)) = volume.unwritten() {
                let files = counted(files as u64, "file", "files");
                let message = format!("it keeps data of {files} in memory that cannot be written: {why}");
                let next = "make room in its pool or bring its disks back, or remove those files";
                return Err(conflict(format!("volume {}/{name}", open.name()), message, next));
            }
        }
        Ok(())
    }

    async fn close_volume(&self, open: &OpenPool, live: LiveVolume) {
        let object = open.volume_object(&live.known);
        let Some(OpenVolume { volume, _claim: claim, mounted, disks, .. }) = live.open else { return };
        self.end_disks(disks.into_values()).await;
        if let Some(mounted) = mounted
            && let Some(why) = end_mount(mounted).await
        {
            self.events.emit(Severity::Warning, &object, &why, "see what uses the directory");
        }
        let inner = volume.clone();
        let closing = self.on_reactor(move || async move { inner.shut_down().await });
        let failed = match tokio::time::timeout(CLOSE_TIMEOUT, closing).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => Some(error.to_string()),
            Ok(Err(error)) => Some(error.message),
            Err(_) => Some(format!("requests did not end within {} s", CLOSE_TIMEOUT.as_secs())),
        };
        if let Some(why) = failed {
            let cause = format!("was not closed in good order: {why}; it recovers when it is opened again");
            self.events.emit(Severity::Error, &object, &cause, "check the disks of its pool");
        }
        let lost = volume.waiting_files();
        if lost > 0 {
            let files = counted(lost as u64, "file", "files");
            let cause = format!(
                "was closed while data of {files} waited in memory and could not be written: what of it no program had \
                 made durable is lost"
            );
            self.events.emit(Severity::Error, &object, &cause, "look at what was written to it last");
        }
        drop(claim);
    }

    /// A volume by its path: its pool, and its name there.
    fn volume_at(&self, path: &str) -> ApiResult<(Arc<OpenPool>, String, String)> {
        let path = parse_volume(path)?;
        let open = self.pool_named(path.pool.as_str())?;
        let (object, name) = (format!("volume {path}"), path.space.to_string());
        if !open.volumes().contains_key(&name) {
            return Err(not_found(object, "'holdfast volume list' lists the volumes"));
        }
        Ok((open, name, object))
    }

    /// A volume by its path: its pool, and what that keeps of it.
    pub(crate) fn open_volume_at(&self, path: &str) -> ApiResult<(Arc<OpenPool>, KnownVolume)> {
        let (open, name, object) = self.volume_at(path)?;
        let known = open.volumes().get(&name).map(|live| live.known.clone());
        known.map(|known| (open, known)).ok_or_else(|| not_found(object, "'holdfast volume list' lists the volumes"))
    }

    /// Makes a volume larger, with its space where that is its own.
    ///
    /// # Errors
    /// If it would become smaller, or there is no room.
    pub async fn grow_volume(self: &Arc<Self>, path: String, request: GrowVolume) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let size_bytes = space_size(&parse_path(&path)?, request.size_bytes)?;
            let (known, volume) = open.open_volume_named(&name, &object)?;
            engine.refuse_while_shrinking(&open, &known, &object)?;
            let space = open.space_with(known.space);
            if let Some(space) = space.filter(|space| known.owns_space && space.record().size_bytes < size_bytes) {
                let grown = engine.on_reactor(move || async move { space.grow(size_bytes).await }).await?;
                grown.map_err(|error| from_pool(&object, error))?;
            }
            let is_smaller = size_bytes < volume.size_bytes();
            let grown = engine.on_reactor(move || async move { volume.grow(size_bytes).await }).await?;
            let changed = grown.map_err(|error| {
                let mut refused = from_volume(&object, &error).at("size_bytes");
                if refused.code == Code::Invalid {
                    refused.next_action = if is_smaller {
                        format!("'holdfast volume shrink {path} --size SIZE' makes it smaller")
                    } else {
                        "let its space grow first: 'holdfast space grow'".into()
                    };
                }
                refused
            })?;
            if changed {
                engine.note(&open.volume_object(&known), &format!("grown to {}", holdfast_model::ByteSize(size_bytes)));
            }
            Ok(VolumeChanged { changed, volume: engine.volume(&path)? })
        })
        .await
    }
}

/// Claims a space for a volume alone.
fn claim(open: &OpenPool, space: &Space, name: &str, object: &str) -> ApiResult<Claim> {
    let service = open.services().get(&space.record().uuid).cloned();
    let service = service.ok_or_else(|| conflict(object, "its space is being closed", "ask again"))?;
    let claimed = service.claims().hold(&format!("{}/{name}", open.name()));
    let next = "'holdfast space show' and 'holdfast nbd list' tell who uses it";
    claimed.map_err(|refusal| conflict(object, format!("its space cannot be used: {refusal}"), next))
}
