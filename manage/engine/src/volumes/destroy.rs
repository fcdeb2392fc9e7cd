//! Volumes destroyed.
//!
//! Invariant: a destruction that was cut short is known, and goes on when it is asked for again.

use std::path::Path;
use std::sync::Arc;

use holdfast_api::{Changed, Code};
use holdfast_device::{Durability, IoBuf};
use holdfast_space::Space;

use super::known::{KnownVolume, Stage};
use super::{BLANK_BYTES, LiveVolume, VOLUMES, parse_volume};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, from_io, from_pool, not_confirmed, not_found};

impl Engine {
    /// Removes a volume. Its files are lost; with it goes the space that was made for it.
    ///
    /// # Errors
    /// If it is not confirmed, or mounted and not to be taken from those who use it, or its pool takes no changes.
    pub async fn destroy_volume(self: &Arc<Self>, path: String, confirmed: bool, force: bool) -> ApiResult<Changed> {
        self.change(move |engine| async move {
            let parsed = parse_volume(&path)?;
            let object = format!("volume {parsed}");
            let (open, name, _) = match engine.volume_at(&path) {
                Err(error) if error.code == Code::NotFound && engine.pool_named(parsed.pool.as_str()).is_ok() => {
                    return Ok(Changed { changed: false, message: format!("there is no {object}") });
                }
                found => found?,
            };
            let volume = engine.volume(&path)?;
            if !confirmed {
                let lost = match volume.files {
                    Some(files) => {
                        let snapshots = match volume.snapshots.unwrap_or_default() {
                            0 => String::new(),
                            count => format!(" and {}", crate::protection::count(count.into(), "snapshot")),
                        };
                        format!("{}{snapshots} would be lost", crate::protection::count(files, "file"))
                    }
                    None => "its files would be lost".into(),
                };
                return Err(not_confirmed(object, lost, "repeat with --yes"));
            }
            let directory = open.volumes().get(&name).and_then(LiveVolume::mounted_on).map(Path::to_owned);
            if let Some(directory) = directory.filter(|_| !force) {
                let next = format!("'holdfast volume unmount {parsed}' first, or repeat with --force");
                return Err(conflict(object, format!("it is mounted on {}", directory.display()), next));
            }
            if open.volumes().get(&name).is_some_and(|live| live.is_away) {
                let next = "see 'holdfast job list', and wait for its end, or cancel it";
                return Err(conflict(object, "a job repairs it offline", next));
            }
            open.refuse_file_disks(volume.id, &object)?;
            engine.refuse_waiting_luns(volume.id, &object)?;
            if let Some((target, number, _)) = engine.luns_on_volume(volume.id).first() {
                let next = format!("'holdfast lun remove {target} {number}' first");
                return Err(conflict(object, format!("LUN {target}/{number} is a file of it"), next));
            }
            engine.cancel_jobs_of(open.pool.id(), Some(volume.id)).await?;
            engine.end_volume(&open, &name, &object).await?;
            Ok(Changed { changed: true, message: format!("{object} is destroyed") })
        })
        .await
    }

    async fn end_volume(&self, open: &Arc<OpenPool>, name: &str, object: &str) -> ApiResult<()> {
        let known = open.volumes().get(name).map(|live| live.known.clone());
        let mut known = known.ok_or_else(|| not_found(object, "'holdfast volume list' lists the volumes"))?;
        if matches!(known.stage, Stage::Making | Stage::Made) {
            (known.stage, known.mount) = (Stage::Going, None);
            self.keep_volume(open, &known).await?;
        }
        let live = open.volumes().remove(name);
        if let Some(live) = live {
            self.close_volume(open, live).await;
        }
        if let Err(error) = self.take_apart(open, object, &known).await {
            self.open_volume(open, known).await;
            return Err(error);
        }
        self.note(&open.volume_object(&known), "destroyed");
        Ok(())
    }

    /// Removes the space that was made for a volume, or makes the beginning of another's blank, and then has the pool
    /// keep nothing of the volume. What its document does not tell stays.
    pub(super) async fn take_apart(&self, open: &Arc<OpenPool>, object: &str, known: &KnownVolume) -> ApiResult<()> {
        let record = open.pool.spaces().into_iter().find(|record| known.is_on(record));
        match record.filter(|_| known.stage != Stage::Unreadable) {
            Some(record) if known.owns_space => self.remove_space(open, &record).await?,
            Some(record) => {
                let space = open.spaces().get(&record.id).cloned();
                let space = space.ok_or_else(|| conflict(object, "its space is not open", "check its pool's disks"))?;
                self.clear_begin(object, space).await?;
            }
            None => {}
        }
        self.keep::<KnownVolume>(&open.pool, format!("{VOLUMES}{}", known.name), None).await?;
        let (forgetting, id) = (open.clone(), known.id);
        let forgotten = self.on_reactor(move || async move { forgetting.forget_lost(id).await }).await?;
        forgotten.map_err(|error| from_pool(object, error))
    }

    /// Makes the beginning of a space blank, so that it is known as empty.
    async fn clear_begin(&self, object: &str, space: Arc<Space>) -> ApiResult<()> {
        let cleared = self.on_reactor(move || async move {
            let zeros = IoBuf::zeroed(BLANK_BYTES).freeze();
            space.write(0, zeros, Durability::Durable).await
        });
        cleared.await?.map_err(|error| from_io(object, error))
    }
}
