//! Mounts of volumes: made, ended, and made again when a volume is opened.
//!
//! Invariants: where a volume is to be mounted is on its pool before a change of it is answered. What programs use is
//! not taken from them unless that is asked for.

mod directories;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_api::{ApiError, Code, Condition, MountVolume, VolumeChanged};
use holdfast_device::reactor::ReactorHandle;
use holdfast_fuse::{FuseError, MountSettings, Mounted, Opens};
use holdfast_model::Uuid;
use holdfast_opens::Table;
use holdfast_volume::{Browsed, Volume};

use super::file_objects::{Shared, in_use};
use super::known::KnownMount;
use super::{CLOSE_TIMEOUT, KNOWN_FOR, LiveVolume};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict};

/// What a volume is called in its table of opens, which is its own.
pub(super) const VOLUME_IN_TABLE: u64 = 0;

impl Engine {
    /// Mounts a volume, now and whenever it is opened.
    ///
    /// # Errors
    /// If it is mounted elsewhere, or the directory cannot be mounted on; nothing is changed then.
    pub async fn mount_volume(self: &Arc<Self>, path: String, request: MountVolume) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let mount = KnownMount { directory: request.directory, over: request.over };
            if !Path::new(&mount.directory).is_absolute() {
                let message = format!("{:?} is no absolute path", mount.directory);
                return Err(ApiError::invalid(object, message, "write it from / on").at("directory"));
            }
            let made =
                if request.create_directory { directories::create(&object, &mount.directory).await? } else { None };
            let mounted = engine.mount_now(&open, &name, &object, &mount).await;
            if let (Err(_), Some(made)) = (&mounted, made) {
                made.remove().await;
            }
            Ok(VolumeChanged { changed: mounted?, volume: engine.volume(&path)? })
        })
        .await
    }

    pub(super) async fn mount_now(
        &self,
        open: &Arc<OpenPool>,
        name: &str,
        object: &str,
        mount: &KnownMount,
    ) -> ApiResult<bool> {
        let (mut known, _) = open.open_volume_named(name, object)?;
        let (served, there) = {
            let volumes = open.volumes();
            let opened = volumes.get(name).and_then(|live| live.open.as_ref());
            let mounted = opened.and_then(|opened| opened.mounted.as_ref()).filter(|mounted| mounted.is_there());
            let served = opened.map(|opened| (opened.volume.clone(), opened.opens.clone()));
            (served, mounted.map(|mounted| mounted.directory().to_owned()))
        };
        let served = served.ok_or_else(|| conflict(object, "it was closed just now", "see the health of its pool"))?;
        if let Some(there) = there {
            if self.is_same(there.clone(), mount.directory.clone().into()).await {
                return Ok(false);
            }
            let next = format!("'holdfast volume unmount {}/{name}' first", open.name());
            return Err(conflict(object, format!("it is mounted on {}", there.display()), next));
        }
        if let Some(before) = take_mounted(open, name) {
            // Somebody else unmounted it.
            end_mount(before).await;
        }
        let mounted = mount_files(open, name, served, mount, &self.reactors).await;
        let refused = |NotMounted { code, trouble }| ApiError::new(code, object, trouble.cause, trouble.next_action);
        let mounted = mounted.map_err(|why| refused(why).at("directory"))?;
        if open.volumes().get(name).is_some_and(|live| live.is_away) {
            end_mount(mounted).await;
            return Err(conflict(object, "a job repairs it offline", "see 'holdfast job list', and wait for its end"));
        }
        known.mount = Some(mount.clone());
        if let Err(error) = self.keep_volume(open, &known).await {
            end_mount(mounted).await;
            return Err(error);
        }
        self.note(&open.volume_object(&known), &format!("mounted on {}", mount.directory));
        if let Some(live) = open.volumes().get_mut(name) {
            (live.known, live.trouble) = (known, None);
        }
        put_mounted(open, name, mounted);
        Ok(true)
    }

    /// Whether two paths lead to the same directory, by whatever links.
    async fn is_same(&self, there: PathBuf, asked: PathBuf) -> bool {
        // The directory may be a mount that does not answer.
        let asking = tokio::task::spawn_blocking(move || asked.canonicalize().is_ok_and(|path| path == there));
        tokio::time::timeout(CLOSE_TIMEOUT, asking).await.is_ok_and(|same| same.unwrap_or(false))
    }

    /// Unmounts a volume, and mounts it no more when it is opened.
    ///
    /// # Errors
    /// If programs use it and it is not to be taken from them, or its pool takes no changes; it stays mounted then.
    pub async fn unmount_volume(self: &Arc<Self>, path: String, force: bool) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let (_, mut known) = engine.open_volume_at(&path)?;
            let Some(mount) = known.mount.take() else {
                return Ok(VolumeChanged { changed: false, volume: engine.volume(&path)? });
            };
            take_mount_away(&open, &name, &object, force).await?;
            if let Err(error) = engine.keep_volume(&open, &known).await {
                if let Err(left) = engine.mount_now(&open, &name, &object, &mount).await {
                    tracing::warn!("{object} is not mounted any more: {left}");
                }
                return Err(error);
            }
            engine.note(&open.volume_object(&known), &format!("unmounted from {}", mount.directory));
            if let Some(live) = open.volumes().get_mut(&name) {
                live.known = known;
                if live.open.is_some() {
                    live.trouble = None;
                }
            }
            Ok(VolumeChanged { changed: true, volume: engine.volume(&path)? })
        })
        .await
    }

    /// Ends the mounts of all volumes of a pool, if nobody uses any of them.
    ///
    /// # Errors
    /// Who uses one; all are mounted then, as before.
    pub(crate) async fn unmount_unused(&self, open: &OpenPool) -> ApiResult<()> {
        let mounted: Vec<String> = {
            let volumes = open.volumes();
            let is_mounted = |live: &LiveVolume| live.open.as_ref().is_some_and(|opened| opened.mounted.is_some());
            volumes.iter().filter(|(_, live)| is_mounted(live)).map(|(name, _)| name.clone()).collect()
        };
        for (done, name) in mounted.iter().enumerate() {
            let object = format!("volume {}/{name}", open.name());
            let Err(mut refused) = take_mount_away(open, name, &object, false).await else { continue };
            for before in &mounted[..done] {
                self.mount_again(open, before).await;
            }
            refused.next_action = format!(
                "end what uses it, or cut it off with 'holdfast volume unmount {}/{name} --force'",
                open.name()
            );
            return Err(refused);
        }
        Ok(())
    }

    async fn mount_again(&self, open: &OpenPool, name: &str) {
        let id = open.volumes().get(name).map(|live| live.known.id);
        if let Some(id) = id
            && let Some(trouble) = give_back(open, id, &self.reactors).await
        {
            tracing::warn!("volume {}/{name} {}", open.name(), trouble.cause);
        }
    }
}

fn take_mounted(open: &OpenPool, name: &str) -> Option<Mounted> {
    open.volumes().get_mut(name)?.open.as_mut()?.mounted.take()
}

fn put_mounted(open: &OpenPool, name: &str, mounted: Mounted) {
    if let Some(opened) = open.volumes().get_mut(name).and_then(|live| live.open.as_mut()) {
        opened.mounted = Some(mounted);
    }
}

/// Why a volume is not mounted.
pub(super) struct NotMounted {
    /// Whose fault it is: the directory's, or the server's.
    code: Code,
    pub(super) trouble: Condition,
}

/// Whether another directory, or other words, would have been mounted on.
fn code_of(error: &FuseError) -> Code {
    match error {
        FuseError::NoDirectory(_) | FuseError::NotDirectory(_) | FuseError::NotEmpty { .. } => Code::Invalid,
        FuseError::AlreadyMounted { .. } | FuseError::InUse { .. } => Code::Conflict,
        _ => Code::Failed,
    }
}

/// Mounts a volume, with the table of what is open on it, on a directory.
pub(super) async fn mount_files(
    open: &OpenPool,
    name: &str,
    (volume, opens): (Arc<Volume>, Arc<Table>),
    mount: &KnownMount,
    reactors: &[ReactorHandle],
) -> Result<Mounted, NotMounted> {
    let source = format!("{}/{name}", open.name());
    let directory = &mount.directory;
    let settings = MountSettings {
        source: source.clone(),
        over_files: mount.over,
        no_suid: true,
        no_devices: true,
        // A repair changes files behind the kernel's back.
        entry_timeout: KNOWN_FOR,
        attribute_timeout: KNOWN_FOR,
        ..MountSettings::default()
    };
    let opens = Opens::new(opens, VOLUME_IN_TABLE);
    let files = Arc::new(Browsed::new(volume));
    let mounting = holdfast_fuse::mount(files, opens, Path::new(directory), settings, reactors);
    let mut next = format!("'holdfast volume mount {source} DIRECTORY'");
    let (code, why) = match tokio::time::timeout(CLOSE_TIMEOUT, mounting).await {
        Ok(Ok(mounted)) => return Ok(mounted),
        Ok(Err(error)) => {
            match error {
                FuseError::NotEmpty { .. } => {
                    next = format!(
                        "choose an empty directory, or hide them: 'holdfast volume mount {source} {directory} --over'"
                    );
                }
                FuseError::NoDirectory(_) => {
                    next = format!("have it made: 'holdfast volume mount {source} {directory} --create-directory'");
                }
                _ => (),
            }
            (code_of(&error), error.to_string())
        }
        Err(_) => (Code::Timeout, format!("the directory did not answer within {} s", CLOSE_TIMEOUT.as_secs())),
    };
    Err(NotMounted { code, trouble: Condition::new(format!("is not mounted on {directory}: {why}"), next) })
}

/// Ends a mount, also one in use; what kept it from ending in good order.
pub(super) async fn end_mount(mounted: Mounted) -> Option<String> {
    match tokio::time::timeout(CLOSE_TIMEOUT, mounted.stop()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("it did not end within {} s", CLOSE_TIMEOUT.as_secs())),
    }
}

/// Ends the mount of a volume where it has one; unless `force`, only one that nobody uses.
pub(super) async fn take_mount_away(open: &OpenPool, name: &str, object: &str, force: bool) -> ApiResult<()> {
    let Some(mounted) = take_mounted(open, name) else { return Ok(()) };
    if !force {
        let refused = match tokio::time::timeout(CLOSE_TIMEOUT, mounted.unmount()).await {
            Ok(Ok(())) => None,
            Ok(Err(error @ FuseError::InUse { .. })) => {
                let next = "end what uses it, or take it away all the same with --force; what is open on it then \
                            fails";
                Some(conflict(object, error.to_string(), next))
            }
            Ok(Err(error)) => Some(ApiError::new(Code::Failed, object, error.to_string(), "see the daemon's log")),
            Err(_) => {
                let why = format!("it was not unmounted within {} s", CLOSE_TIMEOUT.as_secs());
                Some(ApiError::new(Code::Timeout, object, why, "see what uses the directory, or use --force"))
            }
        };
        if let Some(refused) = refused {
            put_mounted(open, name, mounted);
            return Err(refused);
        }
    }
    match end_mount(mounted).await {
        Some(why) => Err(ApiError::new(Code::Failed, object, why, "see what uses the directory, and repeat")),
        None => Ok(()),
    }
}

/// Takes a volume away from everybody but the job that repairs it.
pub(crate) async fn take_away(open: &OpenPool, id: Uuid, force: bool) -> ApiResult<()> {
    let full = open.volume_name(id);
    let object = format!("volume {full}");
    let name = {
        let mut volumes = open.volumes();
        let live = volumes.values_mut().find(|live| live.known.id == id && live.open.is_some());
        let live = live.ok_or_else(|| conflict(&object, "it is not open", "see the health of its pool"))?;
        let disks = live.open.iter().flat_map(|open| open.disks.values());
        let disks: Vec<String> = disks.map(Shared::path).collect();
        if !disks.is_empty() {
            return Err(in_use(&object, &disks));
        }
        live.is_away = true;
        live.known.name.clone()
    };
    let taken = take_mount_away(open, &name, &object, force).await;
    if taken.is_err()
        && let Some(live) = open.volumes().get_mut(&name)
    {
        live.is_away = false;
    }
    taken
}

/// Gives a volume back to everybody, mounted where it is to be; why it is not, where it is not.
pub(crate) async fn give_back(open: &OpenPool, id: Uuid, reactors: &[ReactorHandle]) -> Option<Condition> {
    let (name, served, mount) = {
        let mut volumes = open.volumes();
        let live = volumes.values_mut().find(|live| live.known.id == id)?;
        live.is_away = false;
        let opened = live.open.as_ref()?;
        (live.known.name.clone(), (opened.volume.clone(), opened.opens.clone()), live.known.mount.clone()?)
    };
    match mount_files(open, &name, served, &mount, reactors).await {
        Ok(mounted) => {
            put_mounted(open, &name, mounted);
            None
        }
        Err(NotMounted { trouble, .. }) => {
            if let Some(live) = open.volumes().get_mut(&name) {
                live.trouble = Some(trouble.clone());
            }
            Some(trouble)
        }
    }
}
