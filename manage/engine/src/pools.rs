//! Pools: made, grown by disks, exported, destroyed.
//!
//! Invariant: a request that is refused has changed nothing, and one that is repeated changes nothing more.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_api::{AddDisks, ApiError, Changed, Code, CreatePool, DiskRef, Pool as PoolView, PoolChanged, SetPool};
use holdfast_model::{DiskState, Name, ObjectRef, counted, natural_order};
use holdfast_pool::{LossPolicy, Pool, PoolErrorKind};

use crate::alerts::checked;
use crate::disks::{Taken, real_path};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, from_pool, not_confirmed, not_found};

/// How long a pool that was closed may still be looked at by others before it is left to them.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// A checked name of an object of this kind.
pub(crate) fn parse_name(kind: &str, name: &str) -> ApiResult<Name> {
    let shown: String = name.chars().take(80).collect();
    name.parse().map_err(|error: holdfast_model::NameError| {
        ApiError::invalid(format!("{kind} {shown:?}"), error.to_string(), "choose another name")
    })
}

impl Engine {
    /// The pool in service of this name.
    pub(crate) fn pool_named(&self, name: &str) -> ApiResult<Arc<OpenPool>> {
        let live = self.live();
        if let Some(open) = live.pools.get(name) {
            return Ok(open.clone());
        }
        let object = format!("pool {name}");
        if let Some(offline) = live.offline.values().find(|offline| offline.known.name == name) {
            let message = format!("it is not imported: {}", offline.reason.message);
            return Err(conflict(object, message, offline.reason.next_action.clone()));
        }
        Err(not_found(object, "'holdfast pool list' lists the pools; 'holdfast pool import' searches for more"))
    }

    /// All pools, those that could not be imported included.
    pub fn pools(&self) -> Vec<PoolView> {
        let grace = self.default_grace_seconds();
        let live = self.live();
        let open: Vec<Arc<OpenPool>> = live.pools.values().cloned().collect();
        let offline: Vec<PoolView> =
            live.offline.values().map(|offline| crate::view::offline_pool(offline, grace)).collect();
        drop(live);
        let mut pools: Vec<PoolView> = open.iter().map(|open| self.pool_view(open)).chain(offline).collect();
        pools.sort_by(|a, b| natural_order(&a.name, &b.name));
        pools
    }

    /// The pool of this name or id, with what it could still hold.
    ///
    /// # Errors
    /// If there is none.
    pub fn pool(&self, name: &str) -> ApiResult<PoolView> {
        let open: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        if let Some(open) = open.iter().find(|open| open.name() == name || name.parse() == Ok(open.pool.id())) {
            return Ok(PoolView { usable: crate::capacity::by_layout(open), ..self.pool_view(open) });
        }
        let found = self.pools().into_iter().find(|pool| pool.name == name || name.parse() == Ok(pool.id));
        found.ok_or_else(|| not_found(format!("pool {name}"), "'holdfast pool list' lists the pools"))
    }

    /// Makes a pool.
    ///
    /// # Errors
    /// If the name or a disk cannot be used; nothing is changed then.
    pub async fn create_pool(self: &Arc<Self>, request: CreatePool) -> ApiResult<PoolChanged> {
        self.change(move |engine| async move { engine.make_pool(request).await }).await
    }

    async fn make_pool(&self, request: CreatePool) -> ApiResult<PoolChanged> {
        let name = parse_name("pool", &request.name).map_err(|error| error.at("name"))?;
        let object = format!("pool {name}");
        let paths = self.resolve_all(&object, &request.disks).await.map_err(|error| error.at("disks"))?;
        let existing = self.live().pools.get(name.as_str()).cloned();
        if let Some(open) = existing {
            let has: BTreeSet<PathBuf> = open.pool.disks().iter().map(|disk| real_path(&disk.record.path)).collect();
            let wanted: BTreeSet<PathBuf> = paths.iter().map(|path| real_path(path)).collect();
            if has != wanted {
                return Err(other_disks(&object, &has, &wanted).at("name"));
            }
            return Ok(PoolChanged { changed: false, pool: self.pool_view(&open) });
        }
        if let Some(offline) = self.live().offline.values().find(|offline| offline.known.name == name.as_str()) {
            let message = format!("{object} exists but is not imported: {}", offline.reason.message);
            let next = format!("attach its disks, or forget it with 'holdfast pool export {name}'");
            return Err(conflict(object, message, next).at("name"));
        }
        self.check_state_folder().await?;
        let taken = self.take(&paths, request.force).await.map_err(|error| error.at("disks"))?;
        check_sizes(&taken).map_err(|error| error.at("disks"))?;
        let (env, candidates) = (self.env(), taken.iter().map(|taken| taken.candidate.clone()).collect());
        self.wipe_foreign(&taken, request.force).await.map_err(|error| error.at("disks"))?;
        let made = name.clone();
        let pool = self.on_reactor(move || async move { Pool::create(env, made, candidates).await }).await?;
        let pool = pool.map_err(|error| from_pool(&object, error))?;
        let disks = devices_of(&pool, taken);
        let open = Arc::new(OpenPool::new(pool, disks));
        self.live_mut().pools.insert(name.to_string(), open.clone());
        self.adopt_jobs(&open).await;
        self.remember_or_retry(&open.object(), "is created, but would not be imported again after a restart");
        self.note(
            &open.object(),
            &format!("created with {}", counted(open.pool.disks().len() as u64, "disk", "disks")),
        );
        Ok(PoolChanged { changed: true, pool: self.pool_view(&open) })
    }

    pub(crate) async fn resolve_all(&self, object: &str, disks: &[String]) -> ApiResult<Vec<String>> {
        if disks.is_empty() {
            return Err(ApiError::invalid(object, "no disk is named", "name at least one with --disk").at("disks"));
        }
        let mut paths = Vec::new();
        for disk in disks {
            paths.push(self.resolve(&DiskRef::new(disk)).await.map_err(|error| error.at("disks"))?);
        }
        Ok(paths)
    }

    /// Changes what can be changed of a pool.
    ///
    /// # Errors
    /// If it is not in service or cannot be changed, or thresholds cannot be; nothing is changed then.
    pub async fn set_pool(self: &Arc<Self>, pool: String, request: SetPool) -> ApiResult<PoolChanged> {
        self.change(move |engine| async move {
            let open = engine.pool_named(&pool)?;
            let object = format!("pool {pool}");
            let percents = match (request.default_alerts, request.alert_percents) {
                (true, Some(_)) => {
                    let message = "it cannot have thresholds of its own and the server's";
                    return Err(ApiError::invalid(object, message, "give alert_percents or default_alerts"));
                }
                (true, None) => Some(None),
                (false, percents) => percents.map(|percents| checked(&object, percents)).transpose()?.map(Some),
            };
            let now = open.pool.loss_policy();
            let grace_seconds = match (request.default_grace, request.grace_seconds) {
                (true, Some(_)) => {
                    let message = "its own grace period and the daemon's exclude each other";
                    return Err(ApiError::invalid(object, message, "set grace_seconds or default_grace, not both")
                        .at("grace_seconds"));
                }
                (true, None) => None,
                (false, seconds) => seconds.or(now.grace_seconds),
            };
            let policy = LossPolicy { retire: request.retire_policy.unwrap_or(now.retire), grace_seconds };
            let inner = open.pool.clone();
            let changed = engine.on_reactor(move || async move { inner.set_loss_policy(policy).await }).await?;
            let mut changed = changed.map_err(|error| from_pool(&object, error))?;
            if changed {
                engine.note(&open.object(), "its policy for lost disks was changed");
            }
            if let Some(percents) = percents {
                changed |= engine.set_thresholds(&open, percents).await?;
            }
            Ok(PoolChanged { changed, pool: engine.pool_view(&open) })
        })
        .await
    }

    /// Adds disks to a pool.
    ///
    /// # Errors
    /// If a disk cannot be used; none is added then.
    pub async fn add_disks(self: &Arc<Self>, pool: String, request: AddDisks) -> ApiResult<PoolChanged> {
        self.change(move |engine| async move { engine.grow_pool(&pool, request).await }).await
    }

    pub(crate) async fn grow_pool(&self, pool: &str, request: AddDisks) -> ApiResult<PoolChanged> {
        let open = self.pool_named(pool)?;
        let object = format!("pool {pool}");
        let mut paths = self.resolve_all(&object, &request.disks).await?;
        let has: BTreeSet<PathBuf> =
            self.pooled_paths().into_iter().filter(|(_, owner)| owner == pool).map(|(path, _)| path).collect();
        paths.retain(|path| !has.contains(&real_path(path)));
        if paths.is_empty() {
            return Ok(PoolChanged { changed: false, pool: self.pool_view(&open) });
        }
        let taken = self.take(&paths, request.force).await.map_err(|error| error.at("disks"))?;
        check_sizes(&taken).map_err(|error| error.at("disks"))?;
        self.wipe_foreign(&taken, request.force).await?;
        let (inner, candidates) = (open.pool.clone(), taken.iter().map(|taken| taken.candidate.clone()).collect());
        let added = self.on_reactor(move || async move { inner.add_disks(candidates).await }).await?;
        added.map_err(|error| from_pool(&object, error))?;
        open.disks().extend(devices_of(&open.pool, taken));
        open.balancer.set_disks(open.disks().len());
        self.remember_or_retry(&open.object(), "the paths of its new disks are not saved");
        self.note(&open.object(), &format!("disks added: {}", paths.join(", ")));
        Ok(PoolChanged { changed: true, pool: self.pool_view(&open) })
    }

    /// Takes a pool out of service, so that another machine may import it. Its exports and jobs stay on it.
    ///
    /// # Errors
    /// If clients are connected to its exports or programs use its volumes, while it can be changed.
    pub async fn export_pool(self: &Arc<Self>, pool: String) -> ApiResult<Changed> {
        self.change(move |engine| async move { engine.let_go(&pool).await }).await
    }

    async fn let_go(&self, pool: &str) -> ApiResult<Changed> {
        parse_name("pool", pool)?;
        if self.forget_offline(pool).await? {
            return Ok(Changed {
                changed: true,
                message: format!("pool {pool} was not imported; the daemon has forgotten it"),
            });
        }
        let Some(open) = self.live().pools.get(pool).cloned() else {
            return Ok(Changed { changed: false, message: format!("there is no pool {pool}") });
        };
        // Else it would be imported again after a restart, while another machine may have it.
        self.check_state_folder().await?;
        if open.pool.refusal().is_none() {
            self.refuse_connected(&open)?;
            self.refuse_unwritten(&open).await?;
            self.unmount_unused(&open).await?;
        }
        self.let_jobs_go(&open).await;
        self.withdraw_targets(&open).await;
        self.withdraw_luns(&open).await;
        self.close_volumes(&open).await;
        if let Err(error) = self.close_spaces(&open).await {
            self.open_spaces(&open).await;
            self.remake_exports(&open);
            self.open_volumes(&open).await;
            self.serve_luns(&open).await;
            return Err(error);
        }
        let (inner, unsettled) = (open.pool.clone(), open.is_unsettled());
        let exported =
            self.on_reactor(move || async move { if unsettled { Ok(()) } else { inner.export().await } }).await?;
        let how = match exported {
            Ok(()) if unsettled => {
                "exported, with disks away; what is out of sync is resynchronized at the next import"
            }
            Ok(()) => "exported",
            // Nothing can be written to it any more, so letting it go loses nothing that keeping it would save.
            Err(error) if matches!(error.kind, PoolErrorKind::NoQuorum | PoolErrorKind::ReadOnly) => {
                "released without being closed, because too few of its disks are present"
            }
            Err(error) => {
                self.open_spaces(&open).await;
                self.remake_exports(&open);
                self.open_volumes(&open).await;
                self.serve_luns(&open).await;
                return Err(from_pool(format!("pool {pool}"), error));
            }
        };
        let (object, id) = (open.object(), open.pool.id());
        self.drop_pool(open).await;
        self.forget_jobs_of(id);
        self.note(&object, how);
        Ok(Changed { changed: true, message: format!("pool {pool} is {how}") })
    }

    /// Wipes the labels of all disks of a pool. Everything in it is lost.
    ///
    /// # Errors
    /// If it is not confirmed, or spaces of it are exported to clients.
    pub async fn destroy_pool(self: &Arc<Self>, pool: String, confirmed: bool) -> ApiResult<Changed> {
        self.change(move |engine| async move { engine.end_pool(&pool, confirmed).await }).await
    }

    async fn end_pool(&self, pool: &str, confirmed: bool) -> ApiResult<Changed> {
        parse_name("pool", pool)?;
        let object = format!("pool {pool}");
        let absent = !self.live().pools.contains_key(pool)
            && !self.live().offline.values().any(|offline| offline.known.name == pool);
        if absent {
            return Ok(Changed { changed: false, message: format!("there is no pool {pool}") });
        }
        let open = self.pool_named(pool)?;
        if !confirmed {
            let message =
                format!("{} and all data would be lost", counted(open.spaces().len() as u64, "space", "spaces"));
            return Err(not_confirmed(object, message, "repeat with --yes"));
        }
        self.refuse_served(&open)?;
        self.refuse_kept_luns(&open, &object)?;
        self.check_state_folder().await?;
        self.cancel_jobs_of(open.pool.id(), None).await?;
        self.close_volumes(&open).await;
        self.close_spaces(&open).await?;
        let missing = open.pool.disks().into_iter().filter(|disk| disk.record.state != DiskState::Online);
        let missing: Vec<String> = missing.map(|disk| disk.record.path).collect();
        let inner = open.pool.clone();
        let destroyed = self.on_reactor(move || async move { inner.destroy().await }).await?;
        destroyed.map_err(|error| from_pool(object, error))?;
        let gone = open.object();
        self.drop_pool(open).await;
        self.note(&gone, "destroyed");
        let left = match missing.len() {
            0 => String::new(),
            _ => format!("; wipe its missing disks when they are back: {}", missing.join(", ")),
        };
        Ok(Changed { changed: true, message: format!("pool {pool} is destroyed{left}") })
    }

    async fn forget_offline(&self, pool: &str) -> ApiResult<bool> {
        let id =
            self.live().offline.values().find(|offline| offline.known.name == pool).map(|offline| offline.known.id);
        let Some(id) = id else { return Ok(false) };
        self.check_state_folder().await?;
        self.cancel_jobs_of(id, None).await?;
        {
            let mut live = self.live_mut();
            live.offline.remove(&id);
            live.exports.retain(|_, export| export.known.pool != id);
        }
        self.tell_left_luns();
        self.forget_jobs_of(id);
        self.remember_or_retry(&ObjectRef::pool(id, pool), "would be looked for again after a restart");
        Ok(true)
    }

    fn refuse_served(&self, open: &OpenPool) -> ApiResult<()> {
        let name = open.name();
        let live = self.live();
        let served: Vec<&str> = live
            .exports
            .values()
            .filter(|export| export.known.pool == open.pool.id())
            .map(|export| export.known.name.as_str())
            .collect();
        if let Some(volume) = open.mounted_volume() {
            let next = format!("'holdfast volume unmount {volume}' first");
            return Err(conflict(format!("pool {name}"), format!("volume {volume} is mounted"), next));
        }
        let luns = self.luns_on_pool(&live, open.pool.id());
        if let Some((target, number)) = luns.first() {
            let message = format!("spaces of it are LUNs: {}", crate::targets::lun_names(&luns));
            return Err(conflict(
                format!("pool {name}"),
                message,
                format!("'holdfast lun remove {target} {number}' first"),
            ));
        }
        if served.is_empty() {
            return Ok(());
        }
        let message = format!("spaces of it are exported to clients: {}", served.join(", "));
        let next = served.iter().map(|name| format!("'holdfast nbd unexport {name}'")).collect::<Vec<_>>().join(", ");
        Err(conflict(format!("pool {name}"), message, format!("{next} first")))
    }

    /// Refuses to close what clients use.
    fn refuse_connected(&self, open: &OpenPool) -> ApiResult<()> {
        let connected: Vec<String> = {
            let live = self.live();
            let own = |name: &str| live.exports.get(name).is_some_and(|export| export.known.pool == open.pool.id());
            let offered = self.front_ends.exports().into_iter().map(|(_, status)| status);
            offered.filter(|status| status.connections > 0 && own(&status.name)).map(|status| status.name).collect()
        };
        self.refuse_logged_in(open)?;
        if connected.is_empty() {
            return Ok(());
        }
        let message = format!("clients are connected to its exports: {}", connected.join(", "));
        let next =
            connected.iter().map(|name| format!("'holdfast nbd unexport {name}'")).collect::<Vec<_>>().join(", ");
        Err(conflict(format!("pool {}", open.name()), message, format!("disconnect them, or {next}, first")))
    }

    async fn drop_pool(&self, open: Arc<OpenPool>) {
        let id = open.pool.id();
        {
            let mut live = self.live_mut();
            live.pools.remove(&open.name());
            live.exports.retain(|_, export| export.known.pool != id);
        }
        self.remember_or_retry(&open.object(), "would be looked for again after a restart");
        self.witness.forget(id);
        self.forget_held_reservations(id);
        self.tell_left_luns();
        release(open).await;
    }
}

/// Waits until nothing holds the disks of a pool any more: readers of its state, and the end of its maintenance.
pub(crate) async fn release(open: Arc<OpenPool>) {
    open.disks().clear();
    open.spaces().clear();
    let pool = Arc::downgrade(&open.pool);
    drop(open);
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    while pool.strong_count() > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn check_sizes(taken: &[Taken]) -> ApiResult<()> {
    for taken in taken {
        let size_bytes = holdfast_device::Device::geometry(&*taken.device).size_bytes;
        let path = &taken.candidate.info.path;
        holdfast_pool::Area::of_disk(path, size_bytes).map_err(|error| from_pool(format!("disk {path}"), error))?;
    }
    Ok(())
}

fn devices_of(
    pool: &Pool,
    taken: Vec<Taken>,
) -> std::collections::BTreeMap<holdfast_model::Uuid, Arc<holdfast_device::file::FileDevice>> {
    let disks = pool.disks();
    // A disk that is away may have been seen at the same path before.
    let id_of = |path: &str| disks.iter().rfind(|disk| disk.record.path == path).map(|disk| disk.record.id);
    taken.into_iter().filter_map(|taken| Some((id_of(&taken.candidate.info.path)?, taken.device))).collect()
}

fn other_disks(object: &str, has: &BTreeSet<PathBuf>, wanted: &BTreeSet<PathBuf>) -> ApiError {
    let list = |paths: Vec<&PathBuf>| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
    let more = list(has.difference(wanted).collect());
    let less = list(wanted.difference(has).collect());
    let mut message = format!("{object} already exists with other disks:");
    if !more.is_empty() {
        message += &format!(" it also has {more}");
    }
    if !less.is_empty() {
        let and = if more.is_empty() { "" } else { ", and" };
        message += &format!("{and} it lacks {less}");
    }
    ApiError::new(
        Code::Exists,
        object,
        message,
        "choose another name, or name its disks; 'holdfast pool add' adds disks",
    )
}
