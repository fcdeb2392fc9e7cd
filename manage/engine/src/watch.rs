//! The watcher: notices disks that go and come, and pools and quotas that fill up.
//!
//! A disk that is missing is looked for where it was and at all paths of disks that are in no pool.
//!
//! Invariant: it only asks whether paths are still there, and looks at a path again only when something changed there;
//! it never holds the engine open.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use holdfast_api::Severity;
use holdfast_device::file::FileDevice;
use holdfast_model::{DiskState, Uuid};
use tokio::sync::watch;

use crate::disks::real_path;
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;
use crate::import::Return;

/// What tells one object at a path from the next: device, inode and last change.
type Mark = (u64, u64, i64, i64);

#[derive(Default)]
struct Seen {
    tried: BTreeMap<String, Mark>,
    /// When LUNs that are not served were tried last.
    luns_tried: Option<Instant>,
}

impl Seen {
    /// Adds `path` to `returned` if something is there that was not looked at yet.
    fn look_at(&mut self, path: String, returned: &mut BTreeSet<String>) {
        match mark(&path) {
            Some(mark) if self.tried.get(&path) != Some(&mark) => {
                self.tried.insert(path.clone(), mark);
                returned.insert(path);
            }
            Some(_) => {}
            None => {
                self.tried.remove(&path);
            }
        }
    }
}

/// Watches until `stop` says so or the engine is gone.
pub(crate) async fn watch(engine: Weak<Engine>, mut stop: watch::Receiver<bool>) {
    let mut seen = Seen::default();
    let Some(interval) = engine.upgrade().map(|engine| engine.settings.watch_interval) else { return };
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(interval) => {}
        }
        let Some(engine) = engine.upgrade() else { return };
        if let Err(error) = engine.look_round(&mut seen).await {
            tracing::warn!("the watcher failed: {error}");
        }
    }
}

fn mark(path: &str) -> Option<Mark> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.ctime(), data.ctime_nsec()))
}

impl Engine {
    async fn look_round(self: &Arc<Self>, seen: &mut Seen) -> ApiResult<()> {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let (mut wanted, mut returned) = (BTreeSet::new(), BTreeSet::new());
        for open in &pools {
            self.notice_gone(open).await?;
            if let Err(error) = self.look_at_room(open).await {
                tracing::warn!("pool {}: its alert state could not be saved: {error}", open.name());
            }
            self.look_at_quotas(open).await;
            self.look_at_damage(open).await;
            let missing = open.pool.disks().into_iter().filter(|disk| disk.record.state == DiskState::Missing);
            wanted.extend(missing.map(|disk| disk.record.path));
        }
        if !wanted.is_empty() {
            let pooled = self.pooled_paths();
            wanted.extend(self.known_paths().await?.into_iter().filter(|path| !pooled.contains_key(&real_path(path))));
        }
        wanted.into_iter().for_each(|path| seen.look_at(path, &mut returned));
        let reopens = pools.iter().any(|open| open.pool.is_to_reopen());
        // Who looks at a pool keeps its disks from being opened anew.
        drop(pools);
        if reopens || !returned.is_empty() {
            self.change(move |engine| async move { engine.bring_back(returned).await }).await?;
        }
        self.look_at_luns().await?;
        self.retry_luns(&mut seen.luns_tried).await?;
        self.look_at_state_folder().await?;
        let offline = !self.live().offline.is_empty();
        if offline {
            self.change(move |engine| async move {
                engine.retry_offline().await;
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn notice_gone(self: &Arc<Self>, open: &Arc<OpenPool>) -> ApiResult<()> {
        let devices: Vec<(Uuid, Arc<FileDevice>)> =
            open.disks().iter().map(|(id, device)| (*id, device.clone())).collect();
        let gone = self.blocking(move || {
            devices
                .into_iter()
                .filter(|(_, device)| !device.still_there())
                .map(|(id, _)| id)
                .collect::<BTreeSet<Uuid>>()
        });
        let gone = gone.await?;
        let online = open.pool.disks().into_iter().filter(|disk| disk.record.state == DiskState::Online);
        for disk in online.filter(|disk| gone.contains(&disk.record.id)) {
            let (pool, index) = (open.pool.clone(), disk.record.index);
            let cause = format!("the disk is no longer at {}", disk.record.path);
            let out =
                self.on_reactor(move || async move { pool.disk_out(index, DiskState::Missing, &cause).await }).await?;
            if let Err(error) = out {
                tracing::warn!("disk {} is gone and could not be taken out of service: {error}", disk.record.path);
            }
            let (open, id) = (open.clone(), disk.record.id);
            let let_go = self.change(move |_| async move {
                open.pool.let_go(index);
                if open.pool.disk(index).is_none_or(|disk| !disk.in_service()) {
                    open.disks().remove(&id);
                }
                Ok(())
            });
            let_go.await?;
        }
        Ok(())
    }

    async fn bring_back(&self, paths: BTreeSet<String>) -> ApiResult<()> {
        let mut search = self.search(paths).await?;
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let mut reopen = Vec::new();
        for open in pools {
            match self.take_back(&open, &search).await {
                Ok(Return::Reopen) => reopen.push(open),
                Ok(_) => {}
                Err(error) => {
                    let cause = format!("a disk was not taken back: {}: {}", error.object, error.message);
                    self.events.emit(Severity::Warning, &open.object(), &cause, &error.next_action);
                }
            }
        }
        let refused = std::mem::take(&mut search.refused);
        // What was found is open, and would keep the pools from being opened anew.
        drop(search);
        for open in reopen {
            self.reopen(open).await;
        }
        for refused in refused {
            let Some(object) = refused.about else { continue };
            self.events.emit(Severity::Warning, &object, &refused.cause, &refused.next_action);
        }
        Ok(())
    }
}
