//! Disks: what is there, what it is used for, and opening it.
//!
//! Invariant: a disk reaches a pool only through [`Engine::take`], which refuses what another owner uses, whatever is
//! forced, and what carries something, unless it is forced.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use holdfast_api::{ApiError, Code, DiskRef};
use holdfast_device::Device;
use holdfast_device::file::{self, FileDevice, FileOptions, Probe};
use holdfast_model::{DiskState, Media, Place};
use holdfast_pool::{Candidate, DiskInfo};

use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, not_confirmed, not_found, stopping, system};
use crate::foreign;

/// Disks that are looked at at a time.
const SIDE_BY_SIDE: usize = 16;
/// How long a file that is in use is asked again whether it still is.
const BUSY_PATIENCE: Duration = Duration::from_millis(100);

/// A disk that was opened and is not in a pool yet.
pub(crate) struct Taken {
    pub(crate) candidate: Candidate,
    pub(crate) device: Arc<FileDevice>,
}

/// What stands on a disk that is in no pool of this daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Nothing.
    Nothing,
    /// The system or another process uses it now.
    InUse(String),
    /// It belongs to a pool that is not imported here: its name and id.
    Pool(String, String),
    /// It left a pool that is in service and still has its labels: the pool's name.
    Former(String),
    /// A signature, or what is left of a pool.
    Something(String),
    /// Nobody can tell.
    Unknown(String),
}

/// A disk of no pool.
pub(crate) struct Found {
    pub(crate) info: DiskInfo,
    pub(crate) size_bytes: u64,
    pub(crate) carries: Carries,
}

/// Does something that waits for the operating system with each of `items`, [`SIDE_BY_SIDE`] at a time. Answers in
/// their order.
async fn side_by_side<T: Send + 'static, R: Send + 'static>(items: Vec<T>, act: fn(T) -> R) -> ApiResult<Vec<R>> {
    let (mut items, mut done) = (items.into_iter(), Vec::new());
    loop {
        let group: Vec<_> =
            items.by_ref().take(SIDE_BY_SIDE).map(|item| tokio::task::spawn_blocking(move || act(item))).collect();
        if group.is_empty() {
            return Ok(done);
        }
        for one in join_all(group).await {
            done.push(one.map_err(|_| stopping())?);
        }
    }
}

/// The path by which a disk is known: without links, so that two names of one disk are equal.
pub(crate) fn real_path(path: &str) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

/// Where a disk sits, as its enclosure tells.
fn told_place(facts: &Probe) -> Option<Place> {
    facts.slot.as_ref().map(|told| Place { enclosure: told.enclosure.clone(), slot: told.slot })
}

impl Engine {
    /// Runs what may wait for the operating system.
    pub(crate) async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
        tokio::task::spawn_blocking(work).await.map_err(|_| stopping())
    }

    fn hint(&self, path: &str) -> crate::state::DiskHint {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.hints.get(path).cloned().unwrap_or_default()
    }

    /// What is known of the disk at `path` without reading it.
    fn info_of(&self, path: &str, facts: &Probe) -> DiskInfo {
        let hint = self.hint(path);
        let media = match facts.rotational {
            Some(true) => Media::Hdd,
            Some(false) => Media::Ssd,
            None => Media::Unknown,
        };
        DiskInfo {
            path: path.into(),
            serial: facts.serial.clone().unwrap_or_default(),
            model: facts.model.clone().unwrap_or_default(),
            media: hint.media.unwrap_or(media),
            place: hint.place.or_else(|| told_place(facts)),
        }
    }

    /// Paths of all disks that are known, members of pools or not: block devices, and files made or used as disks.
    pub(crate) async fn known_paths(&self) -> ApiResult<BTreeSet<String>> {
        let mut paths: BTreeSet<String> = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let offline = state.pools.iter().flat_map(|pool| pool.disks.iter().map(|disk| disk.path.clone()));
            state.file_disks.iter().cloned().chain(offline).collect()
        };
        if self.settings.block_devices {
            paths.extend(self.blocking(block_device_paths).await?);
        }
        Ok(paths)
    }

    /// Whether a disk is one that this server knows of itself: a block device, a file made or used as a disk, a member
    /// of a pool, or what only a serial number or an id names.
    ///
    /// # Errors
    /// If the daemon is stopping.
    pub async fn knows_disk(&self, disk: &DiskRef) -> ApiResult<bool> {
        let DiskRef::Path(path) = disk else { return Ok(true) };
        let known = self.known_paths().await?;
        let (path, real) = (path.clone(), known.clone());
        let at_path = self.blocking(move || {
            let named = real_path(&path);
            real.iter().any(|known| real_path(known) == named)
        });
        Ok(known.contains(disk.as_str()) || at_path.await? || self.member(disk, disk.as_str()).is_some())
    }

    /// Real paths of the disks in service of all imported pools, with the pool's name.
    pub(crate) fn pooled_paths(&self) -> BTreeMap<PathBuf, String> {
        let live = self.live();
        let disks = live.pools.values().flat_map(|open| {
            let name = open.name();
            let online = open.pool.disks().into_iter().filter(|disk| disk.record.state == DiskState::Online);
            online.map(move |disk| (real_path(&disk.record.path), name.clone()))
        });
        disks.collect()
    }

    /// The path of the disk that a person names.
    pub(crate) async fn resolve(&self, disk: &DiskRef) -> ApiResult<String> {
        let DiskRef::Word(word) = disk else { return Ok(disk.as_str().into()) };
        let mut found: BTreeSet<String> = BTreeSet::new();
        for open in self.live().pools.values() {
            let named = open
                .pool
                .disks()
                .into_iter()
                .filter(|disk| disk.record.serial == *word || disk.record.id.to_string() == *word);
            found.extend(named.map(|disk| disk.record.path));
        }
        if found.is_empty() {
            let (word, known) = (word.clone(), self.known_paths().await?);
            let named = move |path: &String| file::probe(path).is_ok_and(|facts| facts.serial.as_ref() == Some(&word));
            found = self.blocking(move || known.into_iter().filter(named).collect()).await?;
        }
        let object = format!("disk {word}");
        match found.len() {
            0 => Err(not_found(
                object,
                "name it by an absolute path, a serial number or an id; 'holdfast disk list' shows them",
            )),
            1 => Ok(found.into_iter().next().unwrap_or_default()),
            _ => {
                let paths: Vec<String> = found.into_iter().collect();
                Err(conflict(
                    object,
                    format!("several disks have this serial number: {}", paths.join(", ")),
                    "name it by its path",
                ))
            }
        }
    }

    /// What the disk at `path` is, without reading it.
    pub(crate) async fn probe(&self, path: &str) -> ApiResult<Probe> {
        let object = format!("disk {path}");
        if !path.starts_with('/') {
            return Err(ApiError::invalid(object, "its path is not absolute", "write the full path, beginning with /"));
        }
        let deadline = Instant::now() + BUSY_PATIENCE;
        loop {
            let owned = path.to_string();
            let facts =
                self.blocking(move || file::probe(owned)).await?.map_err(|error| refused(object.clone(), &error))?;
            // A child that is just being started holds our own locks for a moment longer than we do.
            let passing = facts.in_use_by.is_some() && !facts.is_block_device && Instant::now() < deadline;
            if !passing {
                return Ok(facts);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Opens the disk at `path`; for writing only if nobody else does.
    pub(crate) async fn open_disk(&self, path: &str, read_only: bool) -> ApiResult<Taken> {
        let facts = self.probe(path).await?;
        self.open_probed(path, &facts, read_only).await
    }

    async fn open_probed(&self, path: &str, facts: &Probe, read_only: bool) -> ApiResult<Taken> {
        let owned = path.to_string();
        let opened =
            self.blocking(move || FileDevice::open(owned, FileOptions { read_only, ..FileOptions::default() }));
        let device = opened.await?.map_err(|error| refused(format!("disk {path}"), &error))?;
        let candidate = Candidate { device: device.clone() as Arc<dyn Device>, info: self.info_of(path, facts) };
        Ok(Taken { candidate, device })
    }

    /// A disk of a pool that went out of service and is at its path again. Its device still holds it, so it cannot be
    /// opened anew.
    pub(crate) async fn held(&self, path: &str) -> Option<Taken> {
        let devices: Vec<Arc<FileDevice>> =
            self.live().pools.values().flat_map(|open| open.disks().values().cloned().collect::<Vec<_>>()).collect();
        let device = devices.into_iter().find(|device| device.path() == Path::new(path) && device.still_there())?;
        let facts = self.probe(path).await.ok()?;
        Some(Taken {
            candidate: Candidate { device: device.clone() as Arc<dyn Device>, info: self.info_of(path, &facts) },
            device,
        })
    }

    /// Looks at disks of no pool. Those that cannot be opened are shown as unknown.
    pub(crate) async fn look_at(&self, paths: Vec<String>) -> ApiResult<Vec<Found>> {
        let mut found: BTreeMap<String, Found> = BTreeMap::new();
        let mut candidates = Vec::new();
        for group in paths.chunks(SIDE_BY_SIDE) {
            for (one, taken) in join_all(group.iter().map(|path| self.look_at_one(path))).await.into_iter().flatten() {
                candidates.extend(taken.map(|taken| taken.candidate));
                found.insert(one.info.path.clone(), one);
            }
        }
        let scan = self.on_reactor(move || holdfast_pool::scan(candidates)).await?;
        let in_service: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        for pool in &scan.pools {
            let members = pool.members.iter().map(|member| &member.candidate.info);
            for info in members.chain(&pool.duplicates) {
                if let Some(found) = found.get_mut(&info.path) {
                    found.carries = Carries::Pool(pool.name(), pool.id.to_string());
                }
            }
        }
        let members = scan.pools.iter().flat_map(|pool| pool.members.iter().map(|member| (pool.id, member)));
        for (pool, member) in members.chain(scan.strays.iter().map(|(pool, member)| (*pool, member))) {
            let owner = in_service.iter().find(|open| open.pool.id() == pool);
            let left = owner.filter(|open| open.pool.disk_record(member.id).is_none());
            if let (Some(open), Some(found)) = (left, found.get_mut(&member.candidate.info.path)) {
                found.carries = Carries::Former(open.name());
            }
        }
        for (candidate, why) in scan.unusable() {
            if let Some(found) = found.get_mut(&candidate.info.path).filter(|found| found.carries == Carries::Nothing) {
                found.carries = Carries::Something(format!("parts of a pool: {why}"));
            }
        }
        let mut unclaimed: Vec<&mut Found> =
            found.values_mut().filter(|found| found.carries == Carries::Nothing).collect();
        let paths: Vec<PathBuf> = unclaimed.iter().map(|found| found.info.path.clone().into()).collect();
        let carried = side_by_side(paths, |path| foreign::carries(&path)).await?;
        for (found, carried) in unclaimed.iter_mut().zip(carried) {
            found.carries = match carried {
                Ok(None) => Carries::Nothing,
                Ok(Some(what)) => Carries::Something(what),
                Err(why) => Carries::Unknown(why),
            };
        }
        Ok(found.into_values().collect())
    }

    /// Looks at one disk of no pool as far as one alone can be judged, and opens it unless it is in use.
    async fn look_at_one(&self, path: &str) -> Option<(Found, Option<Taken>)> {
        let facts = self.probe(path).await.ok()?;
        let found = |carries| Found { info: self.info_of(path, &facts), size_bytes: facts.size_bytes, carries };
        if let Some(used) = &facts.in_use_by {
            return Some((found(Carries::InUse(used.clone())), None));
        }
        Some(match self.open_probed(path, &facts, true).await {
            Err(error) => (found(Carries::Unknown(error.message)), None),
            Ok(taken) => {
                let size_bytes = taken.device.geometry().size_bytes;
                (Found { size_bytes, ..found(Carries::Nothing) }, Some(taken))
            }
        })
    }

    /// Opens disks for a pool that is made or grows. With `force`, what they carry is wiped, unless it is in use.
    pub(crate) async fn take(&self, paths: &[String], force: bool) -> ApiResult<Vec<Taken>> {
        let pooled = self.pooled_paths();
        let mut seen = BTreeSet::new();
        for path in paths {
            let object = format!("disk {path}");
            let real = real_path(path);
            if let Some(pool) = pooled.get(&real) {
                return Err(conflict(
                    &object,
                    format!("{object} belongs to pool {pool}"),
                    "name a disk that belongs to no pool",
                ));
            }
            if !seen.insert(real) {
                return Err(ApiError::invalid(&object, format!("{object} is named twice"), "name each disk once"));
            }
            self.probe(path).await?;
        }
        for found in self.look_at(paths.to_vec()).await? {
            refuse(&found, force)?;
        }
        let mut taken = Vec::new();
        for path in paths {
            taken.push(self.open_disk(path, false).await?);
        }
        Ok(taken)
    }
}

fn refused(object: String, error: &std::io::Error) -> ApiError {
    match error.kind() {
        ErrorKind::NotFound => not_found(object, "check the path; 'holdfast disk list' lists the disks"),
        ErrorKind::ResourceBusy => conflict(object, error.to_string(), "end that use, or name another disk"),
        ErrorKind::InvalidInput => {
            ApiError::invalid(object, error.to_string(), "name a regular file or a block device")
        }
        _ => system(object, "opening it", error),
    }
}

fn refuse(found: &Found, force: bool) -> ApiResult<()> {
    let object = format!("disk {}", found.info.path);
    let forcing = "if its data may be lost, repeat with --force; otherwise name another disk";
    match &found.carries {
        Carries::Nothing => Ok(()),
        Carries::InUse(how) => {
            Err(conflict(object, format!("it is in use: {how}"), "end that use, or name another disk"))
        }
        _ if force => Ok(()),
        Carries::Pool(name, id) => {
            let import =
                format!("run 'holdfast pool import {id}' to use that pool; if it may be lost, repeat with --force");
            Err(not_confirmed(object, format!("it belongs to pool {name} ({id}), which is not imported"), import))
        }
        Carries::Former(pool) => {
            Err(not_confirmed(object, format!("it was removed from pool {pool} and still has its labels"), forcing))
        }
        Carries::Something(what) => Err(not_confirmed(object, format!("it carries {what}"), forcing)),
        Carries::Unknown(why) => {
            Err(ApiError::new(Code::NotConfirmed, object, format!("its content is unknown: {why}"), forcing))
        }
    }
}

/// Paths of the block devices of this machine that can be disks.
fn block_device_paths() -> Vec<String> {
    match file::list_block_devices() {
        Ok(devices) => devices.into_iter().map(|device| device.path.to_string_lossy().into_owned()).collect(),
        Err(error) => {
            tracing::warn!("block devices cannot be listed: {error}");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use holdfast_harness::LIMIT;

    use super::*;

    /// Acts that run now, and the most that ever did.
    static RUNNING: Mutex<(usize, usize)> = Mutex::new((0, 0));
    static CHANGED: Condvar = Condvar::new();

    /// Ends only once as many others have run beside it as may, but for those of a last, smaller group.
    fn wait_for_others(number: usize) -> usize {
        let mut running = RUNNING.lock().unwrap();
        running.0 += 1;
        running.1 = running.1.max(running.0);
        CHANGED.notify_all();
        let (mut running, waited) =
            CHANGED.wait_timeout_while(running, LIMIT, |running| running.1 < SIDE_BY_SIDE).unwrap();
        assert!(!waited.timed_out(), "disk {number} is looked at alone");
        running.0 -= 1;
        number
    }

    #[tokio::test]
    async fn many_disks_are_looked_at_side_by_side_and_not_too_many() {
        let done = side_by_side((0..300).collect(), wait_for_others).await.unwrap();
        assert_eq!(done, (0..300).collect::<Vec<_>>());
        assert_eq!(*RUNNING.lock().unwrap(), (0, SIDE_BY_SIDE));
    }
}
