//! Finding pools on disks and bringing them in: at start, when asked, and when disks turn up.
//!
//! Invariant: a pool is in service once, whatever it is called and however often it is found; of two pools of one name
//! the second stays out until it is asked for by id and the first is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{ApiError, Code, Condition, ImportPools, ImportedPool, PoolsImported, Severity};
use holdfast_device::file::FileDevice;
use holdfast_model::{DiskState, ObjectKind, ObjectRef, Uuid};
use holdfast_pool::{Candidate, FoundPool, Member, Pool, PoolErrorKind, Scan};

use crate::disks::real_path;
use crate::engine::{Engine, OfflinePool, OpenPool};
use crate::error::{ApiResult, conflict, from_pool, not_found, system};
use crate::pools::release;
use crate::state::KnownPool;

/// How often a pool that could not be imported is tried again while nothing about its disks changes.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// What a look at disks brought: pools, and the devices behind the paths.
pub(crate) struct Search {
    pub(crate) pools: Vec<FoundPool>,
    /// Disks of pools in service whose logs tell nothing, by the pool's id.
    pub(crate) strays: Vec<(Uuid, Member)>,
    pub(crate) devices: BTreeMap<String, Arc<FileDevice>>,
    pub(crate) refused: Vec<Condition>,
    pub(crate) busy: bool,
}

/// What became of members that were found and are out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// There were none.
    Nothing,
    /// They are in service again.
    Back,
    /// The pool lost too many disks to be changed, and now enough are back, or what they lost is still in its journals:
    /// it must be closed and imported anew.
    Reopen,
}

/// Whether a request's word names this pool.
fn named(word: Option<&String>, name: &str, id: Uuid) -> bool {
    word.is_none_or(|word| word == name || word.parse() == Ok(id))
}

/// Why nothing is known of a pool: none of its disks is there, or those that are cannot be used.
fn not_there(object: &ObjectRef, known: &KnownPool, unusable: &[Condition]) -> ApiError {
    let is_own = |about: &ObjectRef| known.disks.iter().any(|disk| disk.path == about.name);
    match unusable.iter().find(|one| one.about.as_ref().is_none_or(is_own)) {
        Some(one) => {
            let message = format!("none of its {} disks can be used: {}", known.disks.len(), one.cause);
            ApiError::new(Code::Conflict, object, message, &*one.next_action)
        }
        None => ApiError::new(
            Code::NotFound,
            object,
            format!("none of its {} disks was found", known.disks.len()),
            "attach its disks; it is imported as soon as enough of them are present",
        ),
    }
}

impl Engine {
    /// Opens the disks at `paths` and looks for pools on them, and for what these miss where it was last. Disks of
    /// pools in service are left out.
    pub(crate) async fn search(&self, mut paths: BTreeSet<String>) -> ApiResult<Search> {
        let search = self.search_at(paths.clone()).await?;
        let missing = search.pools.iter().flat_map(|pool| pool.missing()).map(|disk| disk.path.clone());
        let more: Vec<String> = missing.filter(|path| is_disk(Path::new(path)) && !paths.contains(path)).collect();
        if more.is_empty() {
            return Ok(search);
        }
        drop(search);
        paths.extend(more);
        self.search_at(paths).await
    }

    async fn search_at(&self, paths: BTreeSet<String>) -> ApiResult<Search> {
        let pooled = self.pooled_paths();
        let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
        let mut search =
            Search { pools: vec![], strays: vec![], devices: BTreeMap::new(), refused: vec![], busy: false };
        let mut candidates = Vec::new();
        for path in paths {
            let real = real_path(&path);
            if pooled.contains_key(&real) || !seen.insert(real) {
                continue;
            }
            // Looked at read-only first, so that a disk of somebody else is never held, not even for a moment.
            if let Ok(taken) = self.open_disk(&path, true).await {
                candidates.push(taken.candidate);
            }
        }
        let looked = self.on_reactor(move || holdfast_pool::scan(candidates)).await?;
        let in_service: BTreeSet<Uuid> = self.live().pools.values().map(|open| open.pool.id()).collect();
        let (own, strays) = looked.strays.into_iter().partition(|(pool, _)| in_service.contains(pool));
        let own: Vec<(Uuid, Member)> = own;
        let members = looked.pools.iter().flat_map(|pool| &pool.members).chain(own.iter().map(|(_, member)| member));
        let members: Vec<String> = members.map(|member| member.candidate.info.path.clone()).collect();
        let unusable = Scan { strays, damaged: looked.damaged, ..Scan::default() }.unusable();
        for (candidate, why) in unusable {
            let cause = format!("disk {}: {why}", candidate.info.path);
            let next = "attach the other disks of its pool; if none has a whole log, 'holdfast pool salvage' puts it \
                        together from its slabs and writes nothing before you say so";
            let condition = Condition::new(cause, next);
            search.refused.push(condition.about(ObjectRef::named(ObjectKind::Disk, &candidate.info.path)));
        }
        drop(own);
        drop(looked.pools);
        let mut candidates: Vec<Candidate> = Vec::new();
        for path in members {
            let taken = match self.held(&path).await {
                Some(taken) => Ok(taken),
                None => self.open_disk(&path, false).await,
            };
            match taken {
                Ok(taken) => {
                    candidates.push(taken.candidate);
                    search.devices.insert(path, taken.device);
                }
                Err(error) => {
                    search.busy |= error.code == Code::Conflict;
                    let condition = Condition::new(error.message, error.next_action);
                    search.refused.push(condition.about(ObjectRef::named(ObjectKind::Disk, path)));
                }
            }
        }
        let found = self.on_reactor(move || holdfast_pool::scan(candidates)).await?;
        (search.pools, search.strays) = (found.pools, found.strays);
        Ok(search)
    }

    /// Looks for pools on disks that a killed daemon, or another look at them, may hold for a moment longer.
    async fn search_patiently(&self, paths: BTreeSet<String>) -> ApiResult<Search> {
        let deadline = Instant::now() + self.settings.patience;
        loop {
            let search = self.search(paths.clone()).await?;
            if !search.busy || Instant::now() >= deadline {
                return Ok(search);
            }
            drop(search);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Takes a found pool into service and opens its spaces.
    pub(crate) async fn bring_in(
        &self,
        found: FoundPool,
        devices: &BTreeMap<String, Arc<FileDevice>>,
        force: bool,
    ) -> ApiResult<Arc<OpenPool>> {
        let (name, id) = (found.name(), found.id);
        let object = format!("pool {name}");
        if let Some(other) = self.live().pools.get(&name).filter(|other| other.pool.id() != id) {
            let message = format!("another pool {name} ({}) is imported; this one is {id}", other.pool.id());
            return Err(conflict(object, message, format!("'holdfast pool export {name}' first, then import {id}")));
        }
        for copy in &found.duplicates {
            let cause = format!("{} is a copy of another of its disks and is not used", copy.path);
            self.events.emit(Severity::Warning, &ObjectRef::pool(id, &name), &cause, "detach the copy");
        }
        let members: Vec<(Uuid, String)> =
            found.members.iter().map(|member| (member.id, member.candidate.info.path.clone())).collect();
        let (env, all_there, is_damaged) = (self.env(), found.missing().is_empty(), found.damaged_before().is_some());
        let pool = self.on_reactor(move || Pool::import(env, found, force)).await?;
        let pool = pool.map_err(|error| {
            let is_outvoted = error.kind == PoolErrorKind::NoQuorum;
            let is_incomplete = error.kind == PoolErrorKind::Incomplete;
            let mut refused = from_pool(&object, error);
            if is_incomplete {
                let better = match is_damaged {
                    true => "copy its disks, then have it put together from its slabs with 'holdfast pool salvage'",
                    false => "attach its disks as they were last",
                };
                refused.next_action = format!(
                    "{better}; 'holdfast pool import {name} --force' goes on from there, and what was made or changed \
                     since is lost"
                );
            } else if is_outvoted && all_there {
                refused.next_action =
                    "check its disks, and the room on the file system of those that are files; it is \
                                       tried again every ten seconds"
                        .into();
            } else if is_outvoted {
                refused.next_action = format!(
                    "attach the missing disks; if they are lost for good, 'holdfast pool import {name} --force'"
                );
            }
            refused
        })?;
        let disks = members.into_iter().filter_map(|(id, path)| Some((id, devices.get(&path)?.clone())));
        let open = Arc::new(OpenPool::new(pool, disks.collect()));
        {
            // At once, so that whoever asks always finds it.
            let mut live = self.live_mut();
            live.offline.remove(&id);
            live.pools.insert(name.clone(), open.clone());
        }
        // As a salvage leaves it.
        let is_bare = open.pool.documents("").is_empty();
        self.restore_exports(&open).await;
        self.adopt_exports(&open, true);
        self.adopt_targets(&open, is_bare && open.pool.spaces().iter().any(|record| record.read_only)).await;
        self.tell_left_luns();
        self.adopt_jobs(&open).await;
        self.open_spaces(&open).await;
        self.remake_exports(&open);
        self.open_volumes(&open).await;
        self.serve_luns(&open).await;
        self.note(&open.object(), "imported");
        // It serves all the same: data is not kept away because the daemon cannot take a note.
        self.remember_or_retry(&open.object(), "is imported, but would not be imported again after a restart");
        Ok(open)
    }

    /// Opens the pools that the state folder names. Those that cannot be opened are offline, with the reason.
    pub(crate) async fn open_known(&self, pools: Vec<KnownPool>) {
        if pools.is_empty() {
            return;
        }
        self.expect_pools(&pools);
        let mut paths: BTreeSet<String> =
            pools.iter().flat_map(|pool| pool.disks.iter().map(|disk| disk.path.clone())).collect();
        paths.extend(self.known_paths().await.unwrap_or_default());
        let (mut found, devices, unusable) = match self.search_patiently(paths).await {
            Ok(search) => (search.pools, search.devices, search.refused),
            Err(error) => (vec![], BTreeMap::new(), vec![Condition::new(error.message, error.next_action)]),
        };
        for known in pools {
            let object = ObjectRef::pool(known.id, &known.name);
            let at = found.iter().position(|pool| pool.id == known.id);
            let result = match at {
                Some(at) => self.bring_in(found.swap_remove(at), &devices, false).await.map(drop),
                None => Err(not_there(&object, &known, &unusable)),
            };
            if let Err(reason) = result {
                let offline =
                    OfflinePool { seen: presence(&known), known, reason: reason.clone(), tried: Instant::now() };
                let before = self.live_mut().offline.insert(offline.known.id, offline);
                if before.is_none_or(|before| before.reason != reason) {
                    let cause = format!("not imported: {}", reason.message);
                    self.events.emit(Severity::Error, &object, &cause, &reason.next_action);
                }
            }
        }
    }

    /// Shows pools as offline until they are brought in. What is written down names them from the first one that is
    /// brought in on, so a daemon that is killed meanwhile opens all of them at its next start.
    fn expect_pools(&self, pools: &[KnownPool]) {
        let mut live = self.live_mut();
        for known in pools {
            live.offline.entry(known.id).or_insert_with(|| {
                let object = ObjectRef::pool(known.id, &known.name);
                let reason = ApiError::new(Code::Conflict, &object, "it is being imported", "wait a moment");
                OfflinePool { seen: presence(known), known: known.clone(), reason, tried: Instant::now() }
            });
        }
    }

    /// Tries offline pools again, at once where their disks came or went since the last try.
    pub(crate) async fn retry_offline(&self) {
        let changed: Vec<KnownPool> = {
            let live = self.live();
            let due = |offline: &&OfflinePool| {
                offline.tried.elapsed() > RETRY_INTERVAL || presence(&offline.known) != offline.seen
            };
            let offline = live.offline.values().filter(due);
            offline.map(|offline| offline.known.clone()).collect()
        };
        self.open_known(changed).await;
    }

    /// Looks for pools, and for disks of pools in service that are out of it, and brings them in.
    ///
    /// # Errors
    /// If a folder cannot be read, or the pool that is asked for is not found or cannot be brought in.
    pub async fn import_pools(self: &Arc<Self>, request: ImportPools) -> ApiResult<PoolsImported> {
        self.change(move |engine| async move { engine.import(request).await }).await
    }

    async fn import(&self, request: ImportPools) -> ApiResult<PoolsImported> {
        let mut paths = self.known_paths().await?;
        for folder in request.disk_dirs {
            paths.extend(self.blocking(move || disks_in(&folder)).await??);
        }
        let word = request.pool.as_ref();
        let mut search = self.search_patiently(paths.clone()).await?;
        let mut answer = PoolsImported { changed: false, pools: vec![], refused: vec![] };
        let in_service: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        for open in in_service.into_iter().filter(|open| named(word, &open.name(), open.pool.id())) {
            let returned = self.take_back(&open, &search).await?;
            let name = open.name();
            if returned == Return::Reopen {
                drop(search);
                self.reopen(open).await;
                search = self.search_patiently(paths.clone()).await?;
            }
            answer.pools.push(ImportedPool { changed: returned != Return::Nothing, pool: self.pool(&name)? });
        }
        answer.refused = std::mem::take(&mut search.refused);
        let new = |found: &FoundPool| self.live().pools.values().all(|open| open.pool.id() != found.id);
        let mut matching: Vec<FoundPool> =
            search.pools.into_iter().filter(|found| named(word, &found.name(), found.id) && new(found)).collect();
        let namesakes: Vec<String> = matching.iter().map(|found| found.id.to_string()).collect();
        if let Some(word) = word
            && namesakes.len() > 1
        {
            let message = format!("{} pools have this name: {}", namesakes.len(), namesakes.join(", "));
            return Err(conflict(format!("pool {word}"), message, "name one of them by its id"));
        }
        matching.sort_by_key(FoundPool::name);
        for found in matching {
            let object = ObjectRef::pool(found.id, found.name());
            match self.bring_in(found, &search.devices, request.force).await {
                Ok(open) => answer.pools.push(ImportedPool { changed: true, pool: self.pool_view(&open) }),
                Err(error) if word.is_some() => return Err(error.at("pool")),
                Err(error) => {
                    let cause = format!("{object} ({}): {}", object.id, error.message);
                    answer.refused.push(Condition::new(cause, error.next_action).about(object));
                }
            }
        }
        if let Some(word) = word
            && answer.pools.is_empty()
        {
            let why = answer.refused.iter().map(|condition| format!("; {}", condition.cause)).collect::<String>();
            let mut error = not_found(format!("pool {word}"), "name the folder of its disks with --disk-dir");
            error.message = format!("no disk of it was found{why}");
            return Err(error.at("pool"));
        }
        answer.changed = answer.pools.iter().any(|pool| pool.changed);
        Ok(answer)
    }

    /// Brings members of a pool in service back that were found and are out of it. Of one that another owner has none
    /// is.
    pub(crate) async fn take_back(&self, open: &OpenPool, search: &Search) -> ApiResult<Return> {
        if open.pool.is_lost() {
            return Ok(Return::Nothing);
        }
        if open.pool.is_to_reopen() {
            return Ok(Return::Reopen);
        }
        let statuses = open.pool.disks();
        let online =
            |id: Uuid| statuses.iter().any(|disk| disk.record.id == id && disk.record.state == DiskState::Online);
        let known = |id: Uuid| statuses.iter().any(|disk| disk.record.id == id);
        let members = search.pools.iter().filter(|found| found.id == open.pool.id()).flat_map(|found| &found.members);
        let members =
            members.chain(search.strays.iter().filter(|(pool, _)| *pool == open.pool.id()).map(|(_, member)| member));
        let returned: Vec<_> = members
            .filter(|member| known(member.id) && !online(member.id))
            .map(|member| (member.id, member.candidate.clone()))
            .collect();
        if returned.is_empty() {
            return Ok(Return::Nothing);
        }
        if open.pool.refusal().is_some() {
            let there = statuses.iter().filter(|disk| disk.record.state == DiskState::Online).count() + returned.len();
            if 2 * there >= statuses.len() {
                return Ok(Return::Reopen);
            }
        }
        // One that is refused keeps no other out.
        let mut refused = None;
        for (id, candidate) in returned {
            let path = candidate.info.path.clone();
            let pool = open.pool.clone();
            let back = self.on_reactor(move || async move { pool.disk_back(candidate).await });
            match back.await? {
                Ok(()) => {
                    if let Some(device) = search.devices.get(&path) {
                        open.disks().insert(id, device.clone());
                    }
                }
                Err(error) => drop(refused.get_or_insert(from_pool(format!("disk {path}"), error))),
            }
        }
        self.remember_or_retry(&open.object(), "where its disks are is not saved");
        refused.map_or(Ok(Return::Back), Err)
    }

    /// Closes a pool that cannot be changed any more and imports it anew. Its clients are disconnected.
    pub(crate) async fn reopen(&self, open: Arc<OpenPool>) {
        let (known, object) = (open.known(), open.object());
        self.events.emit(Severity::Warning, &object, "its disks are back: it is imported again", "");
        self.withdraw_targets(&open).await;
        self.withdraw_luns(&open).await;
        self.halt_jobs_of(open.pool.id()).await;
        self.close_volumes(&open).await;
        if let Err(error) = self.close_spaces(&open).await {
            tracing::warn!("{error}");
        }
        {
            let reason = ApiError::new(Code::Conflict, &object, "it is being imported again", "wait a moment");
            let offline = OfflinePool { seen: presence(&known), known: known.clone(), reason, tried: Instant::now() };
            let mut live = self.live_mut();
            live.pools.remove(&open.name());
            live.offline.insert(known.id, offline);
        }
        release(open).await;
        self.open_known(vec![known]).await;
    }
}

/// Which of the disks of a pool are there.
fn presence(pool: &KnownPool) -> Vec<bool> {
    pool.disks.iter().map(|disk| Path::new(&disk.path).exists()).collect()
}

/// Whether there is what may be a disk: a file, or a block device.
fn is_disk(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.is_file() || data.file_type().is_block_device())
}

/// Files and block devices in a folder, which may be disks.
fn disks_in(folder: &str) -> ApiResult<Vec<String>> {
    let object = format!("folder {folder}");
    if !folder.starts_with('/') {
        return Err(ApiError::invalid(object, "its path is not absolute", "write the full path, beginning with /")
            .at("disk_dirs"));
    }
    let entries = std::fs::read_dir(folder).map_err(|error| system(&object, "reading it", &error).at("disk_dirs"))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| system(&object, "reading it", &error))?.path();
        if let (true, Some(path)) = (is_disk(&path), path.to_str()) {
            paths.push(path.to_string());
        }
    }
    Ok(paths)
}
