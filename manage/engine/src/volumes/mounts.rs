//! Mounts of volumes: made, ended, and made again when a volume is opened.
//!
//! Invariant: where a volume is to be mounted is on its pool before a change of it is answered.

use std::path::Path;
use std::sync::Arc;

use holdfast_api::{ApiError, Code, Condition, MountVolume, Volume as VolumeView, VolumeChanged};
use holdfast_fuse::{MountSettings, Mounted};
use holdfast_volume::Volume;

use super::{CLOSE_TIMEOUT, KNOWN_FOR};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, not_found};

impl Engine {
    /// Mounts a volume on a directory.
    pub(super) async fn mount_files(
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
    pub(super) async fn end_mount(&self, mounted: Mounted) -> Option<String> {
        match tokio::time::timeout(CLOSE_TIMEOUT, mounted.stop()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("it did not end within {} s", CLOSE_TIMEOUT.as_secs())),
        }
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

    pub(super) async fn mount_now(
        &self,
        open: &Arc<OpenPool>,
        name: &str,
        object: &str,
        directory: &str,
    ) -> ApiResult<bool> {
        let (_, volume) = open.open_volume_named(name, object)?;
        let (mut known, before) = {
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
            let before = live.open.as_mut().and_then(|opened| opened.mounted.take());
            (live.known.clone(), before)
        };
        if let Some(before) = before {
            // Somebody else unmounted it.
            self.end_mount(before).await;
        }
        let mounted = self.mount_files(open, name, volume, directory).await;
        let failed = |trouble: Condition| ApiError::new(Code::Failed, object, trouble.cause, trouble.next_action);
        let mounted = mounted.map_err(|trouble| failed(trouble).at("directory"))?;
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
}

fn unchanged(volume: VolumeView) -> VolumeChanged {
    VolumeChanged { changed: false, volume }
}
