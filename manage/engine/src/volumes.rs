//! Volumes: files on spaces, made, opened with their pool, mounted, closed.
//!
//! ```text
//!   pool in service ─▶ space claimed ─▶ volume opened ─▶ mounted where it is to be
//!   pool closed     ◀─ space closed  ◀─ volume closed ◀─ unmounted
//! ```
//!
//! Invariants: a space has one volume, or exports, never both. What a volume is and where it is to be mounted is on its
//! pool before it is answered.

use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use holdfast_api::{
    ApiError, Changed, Code, Condition, CreateVolume, GrowVolume, MountVolume, Severity, Volume as VolumeView,
    VolumeChanged, VolumeMount,
};
use holdfast_block::Claim;
use holdfast_device::{Device, IoBuf, reactor};
use holdfast_fuse::{MountSettings, Mounted};
use holdfast_model::{Health, ObjectKind, ObjectRef, SpacePath, Uuid, natural_order};
use holdfast_space::Space;
use holdfast_volume::service::Time;
use holdfast_volume::{ErrorKind, Format, Settings, Volume, VolumeError, VolumeFormat, WallClock};
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, exists_with, from_io, from_pool, not_confirmed, not_found};
use crate::spaces::{parse_path, space_size};

/// What the names of documents begin with that are volumes.
const VOLUMES: &str = "volume/";
/// What must be zeros at the beginning of a space that a volume is made on.
const BLANK_BYTES: usize = 128 << 10;
/// How long closing waits for a volume before it goes on without it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// For how long the kernel believes what it knows of names and attributes.
const KNOWN_FOR: Duration = Duration::from_secs(10);

/// A volume, as its pool keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownVolume {
    /// Its name in the pool.
    pub(crate) name: String,
    /// Its id.
    pub(crate) id: Uuid,
    /// The space's id.
    pub(crate) space: Uuid,
    /// Whether the space was made for it.
    pub(crate) owns_space: bool,
    /// Where it is to be mounted.
    #[serde(default)]
    pub(crate) mount: Option<String>,
}

/// A volume that is open.
struct OpenVolume {
    volume: Arc<Volume>,
    /// Keeps others off its space.
    _claim: Claim,
    mounted: Option<Mounted>,
}

/// A volume of a pool in service.
pub(crate) struct LiveVolume {
    known: KnownVolume,
    open: Option<OpenVolume>,
    /// Why it is not open, or not mounted.
    trouble: Option<Condition>,
    /// What the last scan found and nobody repaired since.
    findings: usize,
}

impl LiveVolume {
    fn is_mounted(&self) -> bool {
        let mounted = self.open.as_ref().and_then(|open| open.mounted.as_ref());
        mounted.is_some_and(Mounted::is_there)
    }
}

impl OpenPool {
    /// The volumes of the pool, by name.
    pub(crate) fn volumes(&self) -> MutexGuard<'_, std::collections::BTreeMap<String, LiveVolume>> {
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

    /// `POOL/VOLUME` of the volume with this id.
    pub(crate) fn volume_name(&self, id: Uuid) -> String {
        let found =
            self.volumes().values().find(|volume| volume.known.id == id).map(|volume| volume.known.name.clone());
        format!("{}/{}", self.name(), found.unwrap_or_default())
    }

    /// A scan of a volume found so much.
    pub(crate) fn note_findings(&self, id: Uuid, count: usize) {
        if let Some(volume) = self.volumes().values_mut().find(|volume| volume.known.id == id) {
            volume.findings = count;
        }
    }

    /// A volume of it that is mounted.
    pub(crate) fn mounted_volume(&self) -> Option<String> {
        let volumes = self.volumes();
        let found = volumes.values().find(|volume| volume.is_mounted());
        found.map(|volume| format!("{}/{}", self.name(), volume.known.name))
    }

    /// The name of the volume that lies on a space.
    pub(crate) fn volume_on(&self, space: Uuid) -> Option<String> {
        let volumes = self.volumes();
        let found = volumes.values().find(|volume| volume.known.space == space);
        found.map(|volume| format!("{}/{}", self.name(), volume.known.name))
    }
}

fn wall_clock() -> WallClock {
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
        ErrorKind::Invalid => (Code::Invalid, ""),
        ErrorKind::ReadOnly => (Code::ReadOnly, "check the disks of its pool, then export and import the pool"),
        ErrorKind::Format => (Code::Conflict, ""),
        ErrorKind::Corrupt => (Code::Conflict, "check the health of its space"),
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
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let mut views: Vec<VolumeView> = pools
            .iter()
            .flat_map(|open| open.volumes().values().map(|live| view(open, live)).collect::<Vec<_>>())
            .collect();
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
        let volumes = open.volumes();
        let found = volumes.get(path.space.as_str()).map(|live| view(&open, live));
        found.ok_or_else(|| not_found(format!("volume {path}"), "'holdfast volume list' lists the volumes"))
    }

    /// Makes a volume.
    ///
    /// # Errors
    /// If its space cannot be made or used; nothing is changed then.
    pub async fn create_volume(self: &Arc<Self>, request: CreateVolume) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move { engine.make_volume(request).await }).await
    }

    async fn make_volume(&self, request: CreateVolume) -> ApiResult<VolumeChanged> {
        let path = parse_volume(&request.name).map_err(|error| error.at("name"))?;
        let object = format!("volume {path}");
        let open = self.pool_named(path.pool.as_str()).map_err(|error| error.at("name"))?;
        let refuse = |message: &str, next: &str| ApiError::invalid(&object, message, next).at("space");
        let on = match (&request.space, &request.on) {
            (Some(_), Some(_)) => return Err(refuse("a new space and one that exists are both given", "give one")),
            (None, None) => return Err(refuse("no space is given", "give a size for a new space, or one that exists")),
            (Some(space), None) => parse_path(&space.name).map_err(|error| error.at("space"))?,
            (None, Some(on)) => parse_path(on).map_err(|error| error.at("on"))?,
        };
        if on.pool != path.pool {
            let message = format!("its space would be {on}, which is of another pool");
            return Err(ApiError::invalid(&object, message, "name a space of the same pool"));
        }
        if let Some(volume) = self.same_volume(&object, &path, &on, request.case_sensitive)? {
            return Ok(VolumeChanged { changed: false, volume });
        }
        let owns_space = request.space.is_some();
        if let Some(space) = request.space
            && !self.make_space(space).await.map_err(|error| error.inside("space"))?.changed
        {
            let message = format!("space {on} exists already");
            return Err(conflict(&object, message, "choose another name, or put the volume on it if it is empty"));
        }
        let known = KnownVolume {
            name: path.space.to_string(),
            id: Uuid::new_v4(),
            space: Uuid::nil(),
            owns_space,
            mount: None,
        };
        let made = self.put_volume(&open, &object, &on, known, request.case_sensitive).await;
        match made {
            Ok(known) => {
                self.note(&open.volume_object(&known), &format!("created on space {on}"));
                self.open_volume(&open, known).await;
                Ok(VolumeChanged { changed: true, volume: self.volume(&path.to_string())? })
            }
            Err(error) => {
                if owns_space && let Err(left) = self.end_space(&on.to_string(), true).await {
                    tracing::warn!("space {on}, made for {object}, is left: {left}");
                }
                Err(error)
            }
        }
    }

    /// The volume that is asked for, where it is there; refused where it is there and another.
    fn same_volume(
        &self,
        object: &str,
        path: &SpacePath,
        on: &SpacePath,
        case_sensitive: bool,
    ) -> ApiResult<Option<VolumeView>> {
        let Ok(volume) = self.volume(&path.to_string()) else { return Ok(None) };
        if volume.space != on.to_string() {
            return Err(exists_with(object, "space", &volume.space, on).at("name"));
        }
        if let Some(is) = volume.case_sensitive.filter(|is| *is != case_sensitive) {
            let word = |sensitive: bool| if sensitive { "sensitive" } else { "insensitive for clients that ask" };
            return Err(exists_with(object, "case of names", word(is), word(case_sensitive)).at("case_sensitive"));
        }
        Ok(Some(volume))
    }

    /// Formats a space and has the pool keep the volume.
    async fn put_volume(
        &self,
        open: &Arc<OpenPool>,
        object: &str,
        on: &SpacePath,
        mut known: KnownVolume,
        is_case_sensitive: bool,
    ) -> ApiResult<KnownVolume> {
        let (_, _, space) = self.space_at(on).map_err(|error| error.at("on"))?;
        self.refuse_exported(object, space.record().uuid).map_err(|error| error.at("on"))?;
        if let Some(volume) = open.volume_on(space.record().uuid) {
            let message = format!("volume {volume} lies on space {on}");
            return Err(conflict(object, message, "choose another space").at("on"));
        }
        let claim = claim(open, &space, &known.name, object)?;
        if !known.owns_space {
            let device = space.clone();
            let begin = self.on_reactor(move || async move { device.read(0, IoBuf::new(BLANK_BYTES)).await }).await?;
            let begin = begin.map_err(|error| from_io(format!("space {on}"), error))?;
            if begin.iter().any(|byte| *byte != 0) {
                let message = format!("space {on} holds data");
                return Err(conflict(object, message, "choose an empty space, or let a new one be made").at("on"));
            }
        }
        known.space = space.record().uuid;
        let secret = Uuid::new_v4().as_u128() ^ Uuid::new_v4().as_u128().rotate_left(64);
        let format = VolumeFormat {
            store: Format { volume: known.id, log_bytes: None },
            secret: secret.to_le_bytes(),
            owner: (0, 0),
            mode: 0o755,
            is_case_sensitive,
        };
        let formatted = self.on_reactor(move || async move {
            let device: Arc<dyn Device> = space;
            Volume::format(&device, format, present()).await
        });
        formatted.await?.map_err(|error| from_volume(object, &error))?;
        self.keep_volume(open, &known).await?;
        drop(claim);
        Ok(known)
    }

    async fn keep_volume(&self, open: &OpenPool, known: &KnownVolume) -> ApiResult<()> {
        self.keep(&open.pool, format!("{VOLUMES}{}", known.name), Some(known)).await
    }

    /// Opens the volumes that a pool keeps; what fails is an event, and a condition of the volume.
    pub(crate) async fn open_volumes(&self, open: &Arc<OpenPool>) {
        for (key, text) in open.pool.documents(VOLUMES) {
            match serde_json::from_slice::<KnownVolume>(&text) {
                Ok(known) => self.open_volume(open, known).await,
                Err(error) => {
                    let cause = format!("its document {key} cannot be read ({error}); it stays as it is");
                    self.events.emit(Severity::Error, &open.object(), &cause, "run the version that wrote it");
                }
            }
        }
    }

    async fn open_volume(&self, open: &Arc<OpenPool>, known: KnownVolume) {
        let name = known.name.clone();
        let is_open = {
            let volumes = open.volumes();
            let live = volumes.get(&name).filter(|live| live.open.is_some());
            live.map(|live| live.trouble.is_some())
        };
        if let Some(is_troubled) = is_open {
            if let Some(directory) = known.mount.filter(|_| is_troubled) {
                let object = format!("volume {}/{name}", open.name());
                if let Err(error) = self.mount_now(open, &name, &object, &directory).await {
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
        let mut findings = 0;
        if let Some(opened) = &mut opened {
            let volume = opened.volume.clone();
            let found = self.on_reactor(move || async move { volume.findings().await }).await;
            findings = found.ok().and_then(Result::ok).map_or(0, |found| found.len());
            if let Some(directory) = &known.mount {
                match self.mount_files(open, &name, opened.volume.clone(), directory).await {
                    Ok(mounted) => opened.mounted = Some(mounted),
                    Err(condition) => trouble = Some(condition),
                }
            }
        }
        if let Some(trouble) = &trouble {
            self.events.emit(Severity::Error, &object, &trouble.cause, &trouble.next_action);
        }
        open.volumes().insert(name, LiveVolume { known, open: opened, trouble, findings });
    }

    async fn bring_up(&self, open: &Arc<OpenPool>, known: &KnownVolume) -> ApiResult<OpenVolume> {
        let object = open.volume_object(known).to_string();
        let space = open.spaces().values().find(|space| space.record().uuid == known.space).cloned();
        let space = space.ok_or_else(|| conflict(&object, "its space is not open", "see the health of its pool"))?;
        let claim = claim(open, &space, &known.name, &object)?;
        let id = known.id;
        let opened = self.on_reactor(move || async move {
            let volume = Arc::new(Volume::open(space, Settings::default(), wall_clock()).await?);
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
        Ok(OpenVolume { volume, _claim: claim, mounted: None })
    }

    /// Mounts a volume on a directory.
    async fn mount_files(
        &self,
        open: &OpenPool,
        name: &str,
        volume: Arc<Volume>,
        directory: &str,
    ) -> Result<Mounted, Condition> {
        let settings = MountSettings {
            source: format!("{}/{name}", open.name()),
            no_suid: true,
            no_devices: true,
            // A repair changes files behind the kernel's back.
            entry_timeout: KNOWN_FOR,
            attribute_timeout: KNOWN_FOR,
            over_io_uring: false,
            ..MountSettings::default()
        };
        let mounting = holdfast_fuse::mount(volume, Path::new(directory), settings, &self.reactors);
        let why = match tokio::time::timeout(CLOSE_TIMEOUT, mounting).await {
            Ok(Ok(mounted)) => return Ok(mounted),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("the directory did not answer within {} s", CLOSE_TIMEOUT.as_secs()),
        };
        let next = format!("'holdfast volume mount {}/{name} DIRECTORY'", open.name());
        Err(Condition::new(format!("is not mounted on {directory}: {why}"), next))
    }

    /// Ends a mount; what kept it from ending in good order.
    async fn end_mount(&self, mounted: Mounted) -> Option<String> {
        match tokio::time::timeout(CLOSE_TIMEOUT, mounted.stop()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("it did not end within {} s", CLOSE_TIMEOUT.as_secs())),
        }
    }

    /// Unmounts and closes all volumes of a pool, and forgets them until it is opened again.
    pub(crate) async fn close_volumes(&self, open: &OpenPool) {
        let volumes = std::mem::take(&mut *open.volumes());
        for live in volumes.into_values() {
            self.close_volume(open, live).await;
        }
    }

    async fn close_volume(&self, open: &OpenPool, live: LiveVolume) {
        let object = open.volume_object(&live.known);
        let Some(OpenVolume { volume, _claim: claim, mounted }) = live.open else { return };
        if let Some(mounted) = mounted
            && let Some(why) = self.end_mount(mounted).await
        {
            self.events.emit(Severity::Warning, &object, &why, "see what uses the directory");
        }
        let closing = self.on_reactor(move || async move { volume.shut_down().await });
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

    /// Mounts a volume, now and whenever it is opened.
    ///
    /// # Errors
    /// If it is mounted elsewhere, or the directory cannot be mounted on; nothing is changed then.
    pub async fn mount_volume(self: &Arc<Self>, path: String, request: MountVolume) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let directory = request.directory;
            if !Path::new(&directory).is_absolute() {
                let message = format!("{directory:?} is no absolute path");
                return Err(ApiError::invalid(object, message, "write it from / on").at("directory"));
            }
            let changed = engine.mount_now(&open, &name, &object, &directory).await?;
            Ok(VolumeChanged { changed, volume: engine.volume(&path)? })
        })
        .await
    }

    async fn mount_now(&self, open: &Arc<OpenPool>, name: &str, object: &str, directory: &str) -> ApiResult<bool> {
        let (mut known, volume, before, trouble) = {
            let mut volumes = open.volumes();
            let Some(live) = volumes.get_mut(name) else { return Ok(false) };
            if live.is_mounted() {
                return match &live.known.mount {
                    Some(there) if there == directory => Ok(false),
                    there => {
                        let message = format!("it is mounted on {}", there.as_deref().unwrap_or("a directory"));
                        Err(conflict(object, message, "unmount it first"))
                    }
                };
            }
            let volume = live.open.as_ref().map(|opened| opened.volume.clone());
            let before = live.open.as_mut().and_then(|opened| opened.mounted.take());
            (live.known.clone(), volume, before, live.trouble.clone())
        };
        let Some(volume) = volume else {
            let cause = trouble.map_or_else(|| "it is not open".into(), |trouble| trouble.cause);
            return Err(conflict(object, cause, "see the health of its pool"));
        };
        if let Some(before) = before {
            // Somebody else unmounted it.
            self.end_mount(before).await;
        }
        let mounted = self.mount_files(open, name, volume, directory).await;
        let mounted =
            mounted.map_err(|trouble| ApiError::new(Code::Failed, object, trouble.cause, "").at("directory"))?;
        known.mount = Some(directory.to_owned());
        if let Err(error) = self.keep_volume(open, &known).await {
            self.end_mount(mounted).await;
            return Err(error);
        }
        self.note(&open.volume_object(&known), &format!("mounted on {directory}"));
        if let Some(live) = open.volumes().get_mut(name) {
            (live.known, live.trouble) = (known, None);
            if let Some(opened) = &mut live.open {
                opened.mounted = Some(mounted);
            }
        }
        Ok(true)
    }

    /// Unmounts a volume, and mounts it no more when it is opened.
    ///
    /// # Errors
    /// If its pool takes no changes; it stays mounted then.
    pub async fn unmount_volume(self: &Arc<Self>, path: String) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let Some(mut known) = open.volumes().get(&name).map(|live| live.known.clone()) else {
                return engine.volume(&path).map(unchanged);
            };
            let Some(directory) = known.mount.take() else { return engine.volume(&path).map(unchanged) };
            engine.keep_volume(&open, &known).await?;
            let mounted = {
                let mut volumes = open.volumes();
                let Some(live) = volumes.get_mut(&name) else { return Err(not_found(object, "repeat")) };
                live.known = known.clone();
                if live.open.is_some() {
                    live.trouble = None;
                }
                live.open.as_mut().and_then(|opened| opened.mounted.take())
            };
            if let Some(mounted) = mounted
                && let Some(why) = engine.end_mount(mounted).await
            {
                return Err(ApiError::new(Code::Failed, &object, why, "see what uses the directory"));
            }
            engine.note(&open.volume_object(&known), &format!("unmounted from {directory}"));
            Ok(VolumeChanged { changed: true, volume: engine.volume(&path)? })
        })
        .await
    }

    /// Makes a volume larger, with its space where that is its own.
    ///
    /// # Errors
    /// If it would become smaller, or there is no room.
    pub async fn grow_volume(self: &Arc<Self>, path: String, request: GrowVolume) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let size_bytes = space_size(&parse_path(&path)?, request.size_bytes)?;
            let found = {
                let volumes = open.volumes();
                volumes.get(&name).and_then(|live| Some((live.known.clone(), live.open.as_ref()?.volume.clone())))
            };
            let (known, volume) =
                found.ok_or_else(|| conflict(&object, "it is not open", "see the health of its pool"))?;
            let space = open.spaces().values().find(|space| space.record().uuid == known.space).cloned();
            if let Some(space) = space.filter(|space| known.owns_space && space.record().size_bytes < size_bytes) {
                let grown = engine.on_reactor(move || async move { space.grow(size_bytes).await }).await?;
                grown.map_err(|error| from_pool(&object, error))?;
            }
            let grown = engine.on_reactor(move || async move { volume.grow(size_bytes).await }).await?;
            let changed = grown.map_err(|error| from_volume(&object, &error).at("size_bytes"))?;
            if changed {
                engine.note(&open.volume_object(&known), &format!("grown to {}", holdfast_model::ByteSize(size_bytes)));
            }
            Ok(VolumeChanged { changed, volume: engine.volume(&path)? })
        })
        .await
    }

    /// Removes a volume. Its files are lost; with it goes the space that was made for it.
    ///
    /// # Errors
    /// If it is not confirmed, or its pool takes no changes.
    pub async fn destroy_volume(self: &Arc<Self>, path: String, confirmed: bool) -> ApiResult<Changed> {
        self.change(move |engine| async move {
            let parsed = parse_volume(&path)?;
            let object = format!("volume {parsed}");
            let (open, name, _) = match engine.volume_at(&path) {
                Err(error) if error.code == Code::NotFound && engine.pool_named(parsed.pool.as_str()).is_ok() => {
                    return Ok(Changed { changed: false, message: format!("there is no {object}") });
                }
                found => found?,
            };
            if !confirmed {
                let files = engine.volume(&path)?.files.unwrap_or_default();
                let lost = format!("{} would be lost", crate::protection::count(files, "file"));
                return Err(not_confirmed(object, lost, "repeat with --yes"));
            }
            if open.volumes().get(&name).is_some_and(LiveVolume::is_mounted) {
                let next = format!("'holdfast volume unmount {parsed}' first");
                return Err(conflict(object, "it is mounted", next));
            }
            let id = open.volumes().get(&name).map(|live| live.known.id);
            engine.cancel_jobs_of(open.pool.id(), id).await?;
            engine.keep::<KnownVolume>(&open.pool, format!("{VOLUMES}{name}"), None).await?;
            let Some(live) = open.volumes().remove(&name) else {
                return Ok(Changed { changed: false, message: format!("there is no {object}") });
            };
            let known = live.known.clone();
            engine.close_volume(&open, live).await;
            let space = open.spaces().values().find(|space| space.record().uuid == known.space).cloned();
            engine.note(&open.volume_object(&known), "destroyed");
            match space {
                Some(space) if known.owns_space => {
                    engine.end_space(&format!("{}/{}", open.name(), space.record().name), true).await?;
                }
                Some(space) => engine.clear_begin(&object, space).await?,
                None => {}
            }
            Ok(Changed { changed: true, message: format!("{object} is destroyed") })
        })
        .await
    }

    /// Makes the beginning of a space blank, so that it is known as empty.
    async fn clear_begin(&self, object: &str, space: Arc<Space>) -> ApiResult<()> {
        let cleared = self.on_reactor(move || async move {
            let zeros = IoBuf::zeroed(BLANK_BYTES).freeze();
            space.write(0, zeros, holdfast_device::Durability::Durable).await
        });
        cleared.await?.map_err(|error| from_io(object, error))
    }
}

fn unchanged(volume: VolumeView) -> VolumeChanged {
    VolumeChanged { changed: false, volume }
}

/// Claims a space for a volume alone.
fn claim(open: &OpenPool, space: &Space, name: &str, object: &str) -> ApiResult<Claim> {
    let service = open.services().get(&space.record().uuid).cloned();
    let service = service.ok_or_else(|| conflict(object, "its space is being closed", "ask again"))?;
    let claimed = service.claims().hold(&format!("{}/{name}", open.name()));
    claimed.map_err(|refusal| conflict(object, format!("its space cannot be used: {refusal}"), ""))
}

/// A volume as the API shows it.
fn view(open: &OpenPool, live: &LiveVolume) -> VolumeView {
    let known = &live.known;
    let name = format!("{}/{}", open.name(), known.name);
    let space = open.pool.spaces().into_iter().find(|record| record.uuid == known.space);
    let volume = live.open.as_ref().map(|opened| &opened.volume);
    let mut conditions: Vec<Condition> = live.trouble.iter().cloned().collect();
    if let Some(why) = volume.and_then(|volume| volume.failure()) {
        let cause = format!("takes no changes since {why}");
        conditions.push(Condition::new(cause, "check the disks of its pool, then export and import the pool"));
    }
    if live.findings > 0 {
        let cause =
            format!("{} of its last scan", holdfast_model::counted(live.findings as u64, "finding", "findings"));
        let next =
            format!("'holdfast volume findings {name}' lists them; 'holdfast volume spotfix {name}' repairs in use");
        conditions.push(Condition::new(cause, next));
    }
    let is_mounted = live.is_mounted();
    if known.mount.is_some() && !is_mounted && live.trouble.is_none() {
        let directory = known.mount.as_deref().unwrap_or_default();
        let next = format!("'holdfast volume mount {name} {directory}', or 'holdfast volume unmount {name}'");
        conditions.push(Condition::new(format!("was unmounted from {directory} by somebody else"), next));
    }
    let health = match (volume, conditions.is_empty()) {
        (Some(volume), true) if volume.failure().is_none() => Health::Healthy,
        (Some(volume), _) if volume.failure().is_none() => Health::Warning,
        _ => Health::Unhealthy,
    };
    let usage = volume.map(|volume| volume.room());
    VolumeView {
        name,
        id: known.id,
        space: space.map_or_else(|| known.space.to_string(), |record| format!("{}/{}", open.name(), record.name)),
        owns_space: known.owns_space,
        case_sensitive: volume.map(|volume| volume.is_case_sensitive()),
        open: volume.is_some(),
        mount: known.mount.clone().map(|directory| VolumeMount { directory, mounted: is_mounted }),
        health,
        conditions,
        size_bytes: volume.map(|volume| volume.size_bytes()),
        free_bytes: usage.map(|usage| usage.free_bytes),
        files: usage.map(|usage| usage.files),
        findings: volume.map(|_| live.findings as u64),
    }
}
