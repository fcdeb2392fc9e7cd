//! The engine: everything that is open, and the order in which it opens and closes.
//!
//! ```text
//!   start:     state folder locked ─▶ reactors ─▶ pools imported ─▶ spaces opened ─▶ exports made ─▶ front ends listen ─▶ watcher, jobs
//!   shutdown:  front ends drained ─▶ watcher ends ─▶ jobs halt ─▶ spaces closed (flushed, marks cleaned) ─▶ notifications end ─▶ reactors end ─▶ folder unlocked
//! ```
//!
//! Invariants: changes run one at a time and to their end, whether or not the one who asked still waits. What is open
//! is what is remembered in the state folder, except while a change is under way or the folder cannot be written.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use holdfast_api::{ApiError, Code, Protocol, Severity};
use holdfast_block::{Balancer, ObjectService, Target};
use holdfast_device::file::FileDevice;
use holdfast_device::reactor::{self, CpuLatency, ReactorHandle, ReactorSettings};
use holdfast_listener::{Address, ListenError};
use holdfast_model::{ObjectRef, Uuid};
use holdfast_notify::Notifications;
use holdfast_pool::{Env, Pool, SpaceRecord};
use holdfast_space::Space;
use holdfast_store::{AuditLimits, Store, StoreError};
use holdfast_volume::DataCache;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{ApiResult, from_pool, stopping, unwritten};
use crate::events::{EventLog, now};
use crate::front_ends::FrontEnds;
use crate::history::History;
use crate::jobs::Jobs;
use crate::live::Live as Consoles;
use crate::settings::Settings;
use crate::smart::Answered;
use crate::state::{KnownDisk, KnownExport, KnownPool, State, StateDir, StateError};
use crate::targets::{LiveTarget, TargetEvents};
use crate::volumes::LiveVolume;
use crate::witness::WitnessFiles;

/// How long closing waits for one space before it goes on without it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an engine that ends waits for looks at its disks that are under way.
const LOOKS_TIMEOUT: Duration = Duration::from_secs(10);

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state folder.
    #[error(transparent)]
    State(#[from] StateError),
    /// The configuration store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
    /// A protocol cannot be served.
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// A pool in service.
pub(crate) struct OpenPool {
    pub(crate) pool: Arc<Pool>,
    pub(crate) disks: Mutex<BTreeMap<Uuid, Arc<FileDevice>>>,
    pub(crate) spaces: Mutex<BTreeMap<u32, Arc<Space>>>,
    pub(crate) services: Mutex<BTreeMap<Uuid, Arc<ObjectService>>>,
    /// Files on its spaces, by the names of the volumes.
    pub(crate) volumes: Mutex<BTreeMap<String, LiveVolume>>,
    pub(crate) balancer: Arc<Balancer>,
    /// Held while its alerts are changed, which the watcher and administrators do at the same time.
    pub(crate) alerting: tokio::sync::Mutex<()>,
    /// Whether a space of it was closed with something left to resynchronize.
    unsettled: AtomicBool,
    /// By their ids, of spaces with slabs that are being brought in step, how many were behind at most.
    pub(crate) most_behind: Mutex<BTreeMap<Uuid, u64>>,
}

/// The daemon, as events name it.
fn daemon() -> ObjectRef {
    ObjectRef::server("daemon")
}

impl OpenPool {
    /// A pool on these disks, none of whose spaces is open.
    pub(crate) fn new(pool: Arc<Pool>, disks: BTreeMap<Uuid, Arc<FileDevice>>) -> Self {
        let balancer = Balancer::new(disks.len());
        let (spaces, services, unsettled) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        let volumes = Mutex::default();
        Self {
            pool,
            disks: Mutex::new(disks),
            spaces,
            services,
            volumes,
            balancer,
            alerting: tokio::sync::Mutex::default(),
            unsettled,
            most_behind: Mutex::default(),
        }
    }

    /// Whether a space was closed with something left to resynchronize, so that the pool must not be closed in good
    /// order.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled.load(Ordering::Acquire)
    }

    pub(crate) fn name(&self) -> String {
        self.pool.name().to_string()
    }

    /// The pool, as events name it.
    pub(crate) fn object(&self) -> ObjectRef {
        self.pool.object()
    }

    /// A space of it, as events name it.
    pub(crate) fn space_object(&self, record: &SpaceRecord) -> ObjectRef {
        ObjectRef::space(record.uuid, format!("{}/{}", self.pool.name(), record.name))
    }

    /// A disk of it, as events name it.
    pub(crate) fn disk_object(&self, id: Uuid) -> ObjectRef {
        self.pool.disk_record(id).map_or_else(|| ObjectRef::disk(id, id.to_string()), |record| record.object())
    }

    pub(crate) fn disks(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<FileDevice>>> {
        self.disks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spaces(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Space>>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The services of its open spaces, by the spaces' ids.
    pub(crate) fn services(&self) -> MutexGuard<'_, BTreeMap<Uuid, Arc<ObjectService>>> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The services of its open spaces, with the spaces' paths.
    pub(crate) fn named_services(&self) -> Vec<(String, Arc<ObjectService>)> {
        let pool = self.name();
        let records: Vec<_> = self.spaces().values().map(|space| space.record()).collect();
        let services = self.services();
        let named =
            |record: SpaceRecord| Some((format!("{pool}/{}", record.name), services.get(&record.uuid)?.clone()));
        records.into_iter().filter_map(named).collect()
    }

    /// The space of this name, and its number in the pool.
    pub(crate) fn space(&self, name: &str) -> Option<(u32, Arc<Space>)> {
        self.spaces()
            .iter()
            .find(|(_, space)| space.record().name.as_str() == name)
            .map(|(id, space)| (*id, space.clone()))
    }

    /// The open space with this id.
    pub(crate) fn space_with(&self, id: Uuid) -> Option<Arc<Space>> {
        self.spaces().values().find(|space| space.record().uuid == id).cloned()
    }

    pub(crate) fn known(&self) -> KnownPool {
        let disks = self.pool.disks().into_iter().map(|disk| KnownDisk {
            id: disk.record.id,
            path: disk.record.path,
            serial: disk.record.serial,
        });
        KnownPool { id: self.pool.id(), name: self.name(), disks: disks.collect() }
    }
}

/// A pool that is known and could not be opened.
pub(crate) struct OfflinePool {
    pub(crate) known: KnownPool,
    pub(crate) reason: ApiError,
    pub(crate) seen: Vec<bool>,
    pub(crate) tried: Instant,
}

/// An export, served or waiting for its space.
pub(crate) struct LiveExport {
    pub(crate) known: KnownExport,
    pub(crate) target: Option<Arc<Target>>,
}

#[derive(Default)]
pub(crate) struct Live {
    pub(crate) pools: BTreeMap<String, Arc<OpenPool>>,
    pub(crate) offline: BTreeMap<Uuid, OfflinePool>,
    pub(crate) exports: BTreeMap<String, LiveExport>,
    pub(crate) targets: BTreeMap<String, LiveTarget>,
}

/// Everything that is open.
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) state_dir: StateDir,
    pub(crate) store: Arc<Store>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) history: History,
    pub(crate) consoles: Arc<Consoles>,
    pub(crate) notifications: Arc<Notifications>,
    notifying: Mutex<Option<JoinHandle<()>>>,
    /// Held by a look at the room of LUNs: what an earlier one found replaces nothing newer.
    pub(crate) looking_at_luns: tokio::sync::Mutex<()>,
    /// What looks after all that is open.
    watchers: Mutex<Vec<JoinHandle<()>>>,
    /// By their ids, what disks told of themselves.
    pub(crate) smart: Mutex<BTreeMap<Uuid, Answered>>,
    /// By their ids, disks that are brought in step, and how many of their slabs were to be at first.
    pub(crate) resyncs: Mutex<BTreeMap<Uuid, u64>>,
    pub(crate) witness: Arc<WitnessFiles>,
    pub(crate) reactors: Vec<ReactorHandle>,
    pub(crate) cpu_latency: Option<Arc<CpuLatency>>,
    /// Data of files that is kept in memory, if any is.
    pub(crate) data_cache: Option<Arc<DataCache>>,
    turns: AtomicUsize,
    /// Spaces that were closed without all that was acknowledged being durable.
    losses: AtomicUsize,
    pub(crate) state: Mutex<State>,
    /// Whether what is open is not what the state folder says, since that could not be written.
    pub(crate) unremembered: AtomicBool,
    live: RwLock<Live>,
    pub(crate) changing: tokio::sync::Mutex<()>,
    pub(crate) front_ends: FrontEnds,
    pub(crate) started: String,
    stop: watch::Sender<bool>,
}

/// What reactors ask quick wake-ups with, if this process may.
fn quick_wake_ups(within: Duration) -> Option<Arc<CpuLatency>> {
    match CpuLatency::open(within) {
        Ok(latency) => {
            tracing::info!(
                microseconds = latency.bound_us(),
                "under load, the kernel is asked to wake CPUs within this time"
            );
            Some(Arc::new(latency))
        }
        Err(error) => {
            tracing::info!(%error, "the kernel is not asked to wake CPUs quickly");
            None
        }
    }
}

impl Engine {
    /// Starts on the settings' state folder and brings in what is known there. What cannot be brought in is reported by
    /// events and health; it does not hinder the rest. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the state folder, the reactors or the addresses of a protocol cannot be had.
    pub async fn start(settings: Settings) -> Result<Arc<Self>, StartError> {
        let state_dir = StateDir::open(&settings.state_dir, settings.patience)?;
        let store = Arc::new(Store::open(state_dir.path(), AuditLimits::default())?);
        let state = state_dir.load(&store)?;
        let events = EventLog::open(state_dir.path())
            .map_err(|error| StartError::System("the event log cannot be opened", error))?;
        let notifications = Notifications::open(store.clone(), events.counts().0)?;
        let history = History::open(state_dir.path(), events.clone())
            .map_err(|error| StartError::System("the history cannot be recorded", error))?;
        let jobs = Arc::new(Jobs::load(state_dir.path(), events.clone())?);
        let cpu_latency = settings.wake_within.and_then(quick_wake_ups);
        let reactors: Vec<ReactorHandle> = (0..settings.reactors.max(1))
            .map(|at| {
                reactor::start(ReactorSettings {
                    name: format!("reactor-{at}"),
                    spin: settings.spin,
                    cpu_latency: cpu_latency.clone(),
                    ..ReactorSettings::default()
                })
            })
            .collect::<Result<_, _>>()
            .map_err(|error| StartError::System("a reactor cannot be started (io_uring must be allowed)", error))?;
        let witness = Arc::new(WitnessFiles::new(state_dir.path(), tokio::runtime::Handle::current()));
        let front_ends = FrontEnds::new(&settings);
        let data_cache = Some(settings.data_cache_bytes).filter(|bytes| *bytes > 0).map(DataCache::new).map(Arc::new);
        let engine = Arc::new(Self {
            settings,
            state_dir,
            store,
            events,
            jobs,
            history,
            consoles: Arc::default(),
            notifications,
            notifying: Mutex::default(),
            looking_at_luns: tokio::sync::Mutex::default(),
            watchers: Mutex::default(),
            smart: Mutex::default(),
            resyncs: Mutex::default(),
            witness,
            reactors,
            cpu_latency,
            data_cache,
            turns: AtomicUsize::new(0),
            losses: AtomicUsize::new(0),
            live: RwLock::default(),
            state: Mutex::new(state.clone()),
            unremembered: AtomicBool::new(false),
            changing: tokio::sync::Mutex::new(()),
            front_ends,
            started: now(),
            stop: watch::channel(false).0,
        });
        for known in state.exports {
            engine.live_mut().exports.insert(known.name.clone(), LiveExport { known, target: None });
        }
        let observer = TargetEvents::new(engine.events.clone());
        observer.set_engine(&engine);
        engine.front_ends.iscsi.keeper().set_engine(&engine);
        engine.front_ends.iscsi.set_observer(observer);
        engine.begin_known_targets(state.targets, state.iscsi_discovery.as_ref());
        {
            let _changing = engine.changing.lock().await;
            engine.open_known(state.pools).await;
            engine.tell_left_luns();
        }
        engine.state_dir.keep_reserve(true);
        let deadline = Instant::now() + engine.settings.patience;
        if let Err(error) = engine.front_ends.start(&engine.reactors, deadline).await {
            engine.shutdown().await;
            return Err(error.into());
        }
        *engine.watchers() = vec![
            tokio::spawn(crate::watch::watch(Arc::downgrade(&engine), engine.stop.subscribe())),
            tokio::spawn(crate::metadata::watch(Arc::downgrade(&engine), engine.stop.subscribe())),
            tokio::spawn(crate::health::watch(Arc::downgrade(&engine), engine.stop.subscribe())),
            tokio::spawn(crate::smart::ask(Arc::downgrade(&engine), engine.stop.subscribe())),
            tokio::spawn(crate::live::run(Arc::downgrade(&engine), engine.stop.subscribe())),
            tokio::spawn(crate::jobs::run(Arc::downgrade(&engine), engine.stop.subscribe())),
            tokio::spawn(crate::volumes::keep_schedules(Arc::downgrade(&engine), engine.stop.subscribe())),
        ];
        *engine.notifying() = Some(tokio::spawn(engine.notify()));
        engine.events.emit(Severity::Info, &daemon(), &format!("started, version {}", env!("CARGO_PKG_VERSION")), "");
        Ok(engine)
    }

    /// Ends in good order: clients are drained, spaces closed, reactors stopped. The engine answers nothing afterwards.
    /// Answers of how many spaces something that was acknowledged could not be made durable.
    pub async fn shutdown(&self) -> usize {
        let _ = self.stop.send(true);
        self.front_ends.stop().await;
        self.end_watchers().await;
        let _changing = self.changing.lock().await;
        self.halt_jobs().await;
        // What serves files lets go of them before their volumes are closed.
        let targets = std::mem::take(&mut self.live_mut().targets);
        drop(targets);
        let pools = std::mem::take(&mut self.live_mut().pools);
        for open in pools.into_values() {
            self.close_pool(&open).await;
        }
        self.live_mut().exports.clear();
        self.history.close();
        let notifying = self.notifying().take();
        if let Some(notifying) = notifying {
            let _ = notifying.await;
        }
        let losses = self.losses.load(Ordering::Relaxed);
        match losses {
            0 => self.events.emit(Severity::Info, &daemon(), "stopped cleanly", ""),
            _ => self.events.emit(
                Severity::Error,
                &daemon(),
                "stopped without making all writes durable",
                "attach the missing disks",
            ),
        }
        self.events.close();
        for reactor in self.reactors.clone() {
            let _ = tokio::task::spawn_blocking(move || reactor.stop()).await;
        }
        losses
    }

    /// Waits until nothing looks at pools any more: a look that a reactor has not ended when it stops may keep its pool,
    /// and so the disks, for as long as this process lives, and nobody else could open them.
    async fn end_watchers(&self) {
        let watchers = std::mem::take(&mut *self.watchers());
        let ended = async {
            for watcher in watchers {
                let _ = watcher.await;
            }
        };
        if tokio::time::timeout(LOOKS_TIMEOUT, ended).await.is_err() {
            tracing::warn!(
                "a look at disks did not end within {} s; they are closed without it",
                LOOKS_TIMEOUT.as_secs()
            );
        }
    }

    fn watchers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notifying(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.notifying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears events and sends notifications until the engine stops.
    fn notify(&self) -> impl Future<Output = ()> + Send + 'static {
        self.notifications.set_host_name(self.chosen().host_name);
        let host = crate::notify::host(self.events.clone(), self.consoles.clone());
        self.notifications.clone().run(host, self.stop.subscribe())
    }

    /// Channels, rules and deliveries of notifications.
    pub fn notifications(&self) -> &Arc<Notifications> {
        &self.notifications
    }

    /// Where clients of a protocol connect, with the ports that were given.
    pub fn addresses(&self, protocol: Protocol) -> Vec<Address> {
        self.front_ends.of(protocol).addresses()
    }

    /// Where iSCSI initiators connect, with the ports that were given.
    pub fn iscsi_addresses(&self) -> Vec<std::net::SocketAddr> {
        self.front_ends.iscsi.addresses()
    }

    /// What is kept of configuration and access.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Where the daemon keeps what outlives it.
    pub fn state_folder(&self) -> &std::path::Path {
        self.state_dir.path()
    }

    /// What happened.
    pub fn events(&self) -> &Arc<EventLog> {
        &self.events
    }

    /// Ends when the engine begins to stop; endless answers end with it.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.subscribe();
        async move {
            let _ = stop.wait_for(|stop| *stop).await;
        }
    }

    pub(crate) fn live(&self) -> RwLockReadGuard<'_, Live> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn live_mut(&self) -> RwLockWriteGuard<'_, Live> {
        self.live.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change to its end, one at a time, even where the one who asked goes away.
    pub(crate) async fn change<T, F, Fut>(self: &Arc<Self>, make: F) -> ApiResult<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Self>) -> Fut + Send + 'static,
        Fut: Future<Output = ApiResult<T>> + Send + 'static,
    {
        let engine = self.clone();
        let task = tokio::spawn(async move {
            let _changing = engine.changing.lock().await;
            if *engine.stop.borrow() {
                return Err(stopping());
            }
            make(engine.clone()).await
        });
        task.await.unwrap_or_else(|error| {
            Err(ApiError::new(
                Code::Failed,
                "daemon",
                format!("the change was aborted: {error}"),
                "see the daemon's log",
            ))
        })
    }

    /// Runs a future of the storage floors on a reactor.
    pub(crate) async fn on_reactor<T, F, Fut>(&self, make: F) -> ApiResult<T>
    where
        T: Send + 'static,
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        self.next_reactor().call(make).await.map_err(|_| stopping())
    }

    /// The reactors in turn.
    pub(crate) fn next_reactor(&self) -> &ReactorHandle {
        let at = self.turns.fetch_add(1, Ordering::Relaxed) % self.reactors.len();
        &self.reactors[at]
    }

    /// What a pool is handed from outside.
    pub(crate) fn env(&self) -> Env {
        let random = Uuid::new_v4().as_u128();
        Env {
            clock: reactor::clock(),
            seed: (random >> 64) as u64 ^ random as u64,
            witness: self.witness.clone(),
            events: self.events.clone(),
        }
    }

    /// Notes a change that was asked for.
    pub(crate) fn note(&self, object: &ObjectRef, what: &str) {
        self.events.emit(Severity::Info, object, what, "");
    }

    /// Writes down what is open. What must not be done unless this can be asks
    /// [`check_state_folder`](Self::check_state_folder) first.
    pub(crate) fn remember(&self) -> ApiResult<()> {
        let changed = self.change_state(|state| {
            let live = self.live();
            state.pools = live.pools.values().map(|open| open.known()).collect();
            state.pools.extend(live.offline.values().map(|offline| offline.known.clone()));
            state.exports = live.exports.values().map(|export| export.known.clone()).collect();
            state.targets = live.targets.values().map(|target| target.known.clone()).collect();
        });
        changed.map_err(unwritten)
    }

    /// Changes what is remembered: written down first, if anything changed at all, and unchanged where that fails.
    pub(crate) fn change_state(&self, change: impl FnOnce(&mut State)) -> Result<(), StateError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = state.clone();
        change(&mut next);
        if next != *state {
            self.state_dir.store(&self.store, &next)?;
            *state = next;
        }
        Ok(())
    }

    /// Opens one space of a pool and starts its maintenance.
    pub(crate) async fn open_space(&self, open: &OpenPool, id: u32) -> ApiResult<Arc<Space>> {
        let pool = open.pool.clone();
        let name = pool.space(id).map(|record| format!("space {}/{}", pool.name(), record.name)).unwrap_or_default();
        let opened = self.on_reactor(move || async move {
            let space = Space::open(pool, id, holdfast_space::SpaceSettings::default())?;
            reactor::spawn_local(space.clone().maintain());
            Ok::<_, holdfast_pool::PoolError>(space)
        });
        let space = opened.await?.map_err(|error| from_pool(name, error))?;
        for reactor in &self.reactors {
            let space = space.clone();
            reactor.spawn(move || space.background_destage());
        }
        let service = Arc::new(ObjectService::new(space.clone(), open.balancer.clone(), reactor::clock()));
        open.services().insert(service.id(), service.clone());
        self.apply_qos(&service);
        open.spaces().insert(id, space.clone());
        Ok(space)
    }

    /// Closes one space.
    pub(crate) async fn close_space(&self, open: &OpenPool, id: u32) -> ApiResult<()> {
        let Some(space) = open.spaces().get(&id).cloned() else { return Ok(()) };
        let object = open.space_object(&space.record());
        let closing = self.on_reactor(move || async move { space.close().await });
        match tokio::time::timeout(CLOSE_TIMEOUT, closing).await {
            Ok(Ok(Ok(true))) => {}
            Ok(Ok(Ok(false))) => open.unsettled.store(true, Ordering::Release),
            Ok(Ok(Err(error))) => {
                open.unsettled.store(true, Ordering::Release);
                let cause =
                    format!("writes that were acknowledged could not be made durable when it was closed: {error}");
                self.events.emit(
                    Severity::Error,
                    &object,
                    &cause,
                    "attach the missing disks; it is resynchronized when it is opened again",
                );
                self.losses.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let message = format!("requests did not end within {} s", CLOSE_TIMEOUT.as_secs());
                return Err(ApiError::new(Code::Timeout, object, message, "check the pool's disks"));
            }
        }
        if let Some(space) = open.spaces().remove(&id) {
            open.services().remove(&space.record().uuid);
        }
        Ok(())
    }

    /// Closes all spaces of a pool.
    pub(crate) async fn close_spaces(&self, open: &Arc<OpenPool>) -> ApiResult<()> {
        let ids: Vec<u32> = open.spaces().keys().copied().collect();
        let mut closed = Ok(());
        for id in ids {
            // One that does not end keeps no other from being made durable.
            closed = self.close_space(open, id).await.and(closed);
        }
        closed
    }

    /// Closes a pool in good order, so that its next import finds nothing to bring in step.
    async fn close_pool(&self, open: &Arc<OpenPool>) {
        self.close_volumes(open).await;
        if let Err(error) = self.close_spaces(open).await {
            self.events.emit(Severity::Error, &open.object(), &format!("not closed: {error}"), &error.next_action);
            self.losses.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if open.is_unsettled() {
            let cause =
                "was closed with disks away or rows not yet in sync; these are resynchronized at the next start";
            self.events.emit(Severity::Warning, &open.object(), cause, "");
            return;
        }
        let pool = open.pool.clone();
        let closed = self.on_reactor(move || async move { pool.export().await }).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!("pool {} could not be closed cleanly: {error}", open.name());
        }
    }

    /// Opens all spaces of a pool that are not open; what fails is an event.
    pub(crate) async fn open_spaces(&self, open: &OpenPool) {
        for record in open.pool.spaces() {
            if open.spaces().contains_key(&record.id) {
                continue;
            }
            if let Err(error) = self.open_space(open, record.id).await {
                self.events.emit(Severity::Error, &open.space_object(&record), &error.message, &error.next_action);
            }
        }
    }
}
