//! Exports: spaces that clients can reach by some protocol, kept on their pools.
//!
//! Invariant: an export is on its pool before its first client is let in, and gone from there before its last is turned
//! away.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{
    ApiError, Changed, Code, Condition, Connection, CreateExport, Export, ExportChanged, Qos, SetExport, Severity, word,
};
use holdfast_block::{Claimed, ObjectService, Target};
use holdfast_listener::ConnectionStatus;
use holdfast_model::{Health, ObjectKind, ObjectRef, SpacePath, Uuid, natural_order};
use holdfast_space::Space;

use crate::engine::{Engine, Live, LiveExport, OpenPool};
use crate::error::{ApiResult, conflict, exists_with, not_found};
use crate::events::rfc3339;
use crate::pools::parse_name;
use crate::protection::count;
use crate::qos::counters_from_block;
use crate::spaces::parse_path;
use crate::state::KnownExport;

/// How long withdrawing waits for the requests in flight; they go on being drained after it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

impl Engine {
    /// All exports, by name.
    pub fn exports(&self) -> Vec<Export> {
        let live = self.live();
        let mut views: Vec<Export> = live.exports.values().map(|export| self.export_view(&live, export)).collect();
        views.sort_by(|a, b| natural_order(&a.name, &b.name));
        views
    }

    /// The export of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn export(&self, name: &str) -> ApiResult<Export> {
        let live = self.live();
        let export = live.exports.get(name).map(|export| self.export_view(&live, export));
        export.ok_or_else(|| not_found(format!("export {name}"), "'holdfast nbd list' lists the exports"))
    }

    fn export_view(&self, live: &Live, export: &LiveExport) -> Export {
        let known = &export.known;
        let (health, conditions) = trouble(live, export);
        let front_end = self.front_ends.of(known.protocol);
        Export {
            name: known.name.clone(),
            space: known.path.clone(),
            protocol: known.protocol,
            read_only: known.read_only,
            qos: known.qos,
            served: export.target.is_some() && !front_end.addresses().is_empty(),
            health,
            conditions,
            size_bytes: export.target.as_ref().map(|target| target.info().geometry.size_bytes),
            uris: front_end.uris(&known.name),
            connections: front_end
                .exports()
                .into_iter()
                .find(|status| status.name == known.name)
                .map_or(0, |status| status.connections as u64),
            counters: export.target.as_ref().map(|target| counters_from_block(&target.counters())).unwrap_or_default(),
        }
    }

    /// Who is connected to an export, the longest first.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn connections(&self, name: &str) -> ApiResult<Vec<Connection>> {
        let protocol = self.export(name)?.protocol;
        let shown = |connection: ConnectionStatus| Connection {
            client: connection.peer,
            tls: connection.tls,
            since: rfc3339(connection.since),
            reads: connection.reads,
            writes: connection.writes,
            read_bytes: connection.read_bytes,
            written_bytes: connection.written_bytes,
            in_flight: connection.in_flight,
        };
        Ok(self.front_ends.of(protocol).connections(name).into_iter().map(shown).collect())
    }

    /// Exports a space.
    ///
    /// # Errors
    /// If the name is taken by another export, or there is no such space.
    pub async fn create_export(self: &Arc<Self>, request: CreateExport) -> ApiResult<ExportChanged> {
        self.change(move |engine| async move { engine.make_export(request).await }).await
    }

    async fn make_export(&self, request: CreateExport) -> ApiResult<ExportChanged> {
        let path = parse_path(&request.space).map_err(|error| error.at("space"))?;
        let name = parse_name("export", request.name.as_deref().unwrap_or(path.space.as_str()));
        let name = name.map_err(|error| error.at("name"))?.to_string();
        let object = format!("export {name}");
        let (open, _, space) = self.space_at(&path).map_err(|error| error.at("space"))?;
        if let Some(export) = self.same_export(&object, &name, &path, space.record().uuid, &request)? {
            return Ok(ExportChanged { changed: false, export });
        }
        if let Some(volume) = open.volume_on(&space.record()) {
            let message = format!("volume {volume} lies on space {path}");
            return Err(conflict(object, message, "export another space").at("space"));
        }
        let front_end = self.front_ends.of(request.protocol);
        if !front_end.is_configured() {
            let next = format!("start the daemon with {}", front_end.address_option());
            let protocol = word(&request.protocol).to_uppercase();
            return Err(conflict(object, format!("the daemon has no {protocol} address"), next));
        }
        let service = open.services().get(&space.record().uuid).cloned();
        let service = service.ok_or_else(|| conflict(&object, format!("space {path} is being closed"), "ask again"))?;
        let known = KnownExport {
            name: name.clone(),
            protocol: request.protocol,
            pool: open.pool.id(),
            space: space.record().uuid,
            path: path.to_string(),
            read_only: request.read_only,
            qos: Qos::default(),
        };
        let target = target(&known, service, &space)
            .map_err(|refusal| conflict(&object, refusal.to_string(), "see the health of its pool"))?;
        match self.keep_export(&open.pool, &known).await {
            Err(error) if error.code == Code::ReadOnly => {
                // Data of a pool that lost too many disks can be read all the same.
                let cause = "is not kept on its pool, which takes no changes: it ends when the pool is imported anew";
                self.events.emit(Severity::Warning, &export_object(&name), cause, "export the space again then");
            }
            kept => kept.map_err(|error| about_export(&object, error))?,
        }
        self.live_mut().exports.insert(name.clone(), LiveExport { known, target: Some(target.clone()) });
        self.remember_seen();
        if let Err(cause) = front_end.export(&name, target) {
            self.live_mut().exports.remove(&name);
            self.drop_export(&open.pool, &name).await?;
            return Err(conflict(&object, cause, "try again when its clients have disconnected"));
        }
        let read_only = if request.read_only { ", read-only" } else { "" };
        self.note(&export_object(&name), &format!("created from space {path}{read_only}"));
        self.warn_of_both(space.record().uuid, &path.to_string());
        Ok(ExportChanged { changed: true, export: self.export(&name)? })
    }

    /// Warns where a space is written as a LUN and by an export: each side has caches of its own, and reservations of
    /// initiators hold nobody off who comes by the export.
    pub(crate) fn warn_of_both(&self, space: Uuid, path: &str) {
        let export = {
            let live = self.live();
            let found = live.exports.values().find(|export| export.known.space == space && !export.known.read_only);
            found.map(|export| export.known.name.clone())
        };
        if let (Some(export), Some((target, number))) = (export, self.writable_lun_on_space(space)) {
            let cause = format!(
                "space {path} is written by initiators as LUN {target}/{number} too, and their reservations do not hold \
                 off its clients"
            );
            let next = "export it read-only, or see to it that one side alone uses it";
            self.events.emit(Severity::Warning, &export_object(&export), &cause, next);
        }
    }

    /// The export that is asked for, where it is there; refused where it is there and another.
    fn same_export(
        &self,
        object: &str,
        name: &str,
        path: &SpacePath,
        space: Uuid,
        request: &CreateExport,
    ) -> ApiResult<Option<Export>> {
        let live = self.live();
        let Some(export) = live.exports.get(name) else { return Ok(None) };
        if export.known.space != space {
            return Err(exists_with(object, "space", &export.known.path, path).at("name"));
        }
        if export.known.read_only != request.read_only {
            let word = |read_only: bool| if read_only { "read-only" } else { "read-write" };
            return Err(
                exists_with(object, "access", word(export.known.read_only), word(request.read_only)).at("read_only")
            );
        }
        if export.known.protocol != request.protocol {
            let [is, wanted] = [export.known.protocol, request.protocol].map(|protocol| word(&protocol));
            return Err(exists_with(object, "protocol", is, wanted).at("protocol"));
        }
        Ok(Some(self.export_view(&live, export)))
    }

    /// Changes an export in use.
    ///
    /// # Errors
    /// If there is none of this name, or its limits make no sense; nothing is changed then.
    pub async fn set_export(self: &Arc<Self>, name: String, request: SetExport) -> ApiResult<ExportChanged> {
        self.change(move |engine| async move { engine.change_export(&name, request).await }).await
    }

    /// Turns the clients of an export away and serves it again as it is to be now.
    pub(crate) async fn serve_anew(&self, name: &str) {
        let (known, served) = {
            let mut live = self.live_mut();
            let Some(export) = live.exports.get_mut(name) else { return };
            (export.known.clone(), export.target.take().is_some())
        };
        let open = self.live().pools.values().find(|open| open.pool.id() == known.pool).cloned();
        if let Some(open) = open.filter(|_| served) {
            self.turn_away(&known).await;
            self.remake_exports(&open);
        }
    }

    /// Withdraws an export: the one of this name, or where `space` is given the one of that space, which may wait for
    /// its name.
    ///
    /// # Errors
    /// If its pool is not here, or takes no changes.
    pub async fn remove_export(self: &Arc<Self>, name: String, space: Option<String>) -> ApiResult<Changed> {
        self.change(move |engine| async move {
            parse_name("export", &name)?;
            let space = space.map(|space| parse_path(&space).map_err(|error| error.at("space"))).transpose()?;
            let object = format!("export {name}");
            let known = engine.live().exports.get(&name).map(|export| export.known.clone());
            match (space, known) {
                (None, Some(known)) => engine.withdraw(&object, &known).await,
                (Some(space), Some(known)) if known.path == space.to_string() => engine.withdraw(&object, &known).await,
                (Some(space), _) => engine.withdraw_waiting(&object, &name, &space).await,
                (None, None) => Ok(Changed { changed: false, message: format!("there is no {object}") }),
            }
        })
        .await
    }

    async fn withdraw(&self, object: &str, known: &KnownExport) -> ApiResult<Changed> {
        let (name, open) = (&known.name, self.pool_of_export(object, known)?);
        self.drop_kept_export(&open, object, name).await?;
        let Some(export) = self.live_mut().exports.remove(name) else {
            return Ok(Changed { changed: false, message: format!("there is no {object}") });
        };
        self.remember_seen();
        self.turn_away(&export.known).await;
        if let Some(target) = &export.target {
            self.apply_qos(target.object());
        }
        drop(export);
        self.note(&export_object(name), "withdrawn");
        self.serve_waiting_exports();
        Ok(Changed { changed: true, message: format!("export {name} is removed; its space stays") })
    }

    /// Withdraws an export that waits on its pool, as an export of another one has its name.
    async fn withdraw_waiting(&self, object: &str, name: &str, space: &SpacePath) -> ApiResult<Changed> {
        let open = self.pool_named(space.pool.as_str())?;
        let mut waiting = self.waiting_exports(&open).into_iter().map(|(known, _)| known);
        if !waiting.any(|known| known.name == name && known.path == space.to_string()) {
            return Ok(Changed { changed: false, message: format!("space {space} has no {object}") });
        }
        self.drop_kept_export(&open, object, name).await?;
        self.note(&export_object(name), &format!("withdrawn from space {space}, for which it waited for its name"));
        Ok(Changed { changed: true, message: format!("export {name} of space {space} is removed; the space stays") })
    }

    /// Keeps an export no more, or says how its clients are turned away where its pool takes no changes.
    async fn drop_kept_export(&self, open: &OpenPool, object: &str, name: &str) -> ApiResult<()> {
        let dropped = self.drop_export(&open.pool, name).await;
        dropped.map_err(|error| {
            let takes_none = error.code == Code::ReadOnly;
            let mut refused = about_export(object, error);
            if takes_none {
                refused.next_action = format!(
                    "attach the missing disks of the pool, then repeat; 'holdfast pool export {}' ends the service of all its \
                     exports now, and they come back with it",
                    open.name()
                );
            }
            refused
        })
    }

    /// The pool that keeps an export.
    ///
    /// # Errors
    /// If it is not in service.
    pub(crate) fn pool_of_export(&self, object: impl Into<String>, known: &KnownExport) -> ApiResult<Arc<OpenPool>> {
        let open = self.live().pools.values().find(|open| open.pool.id() == known.pool).cloned();
        open.ok_or_else(|| {
            let message = format!("it is kept on the pool of space {}, which is not imported", known.path);
            conflict(
                object,
                message,
                "attach the pool's disks, then repeat; or let it go with 'holdfast pool export POOL'",
            )
        })
    }

    /// Notes how exports are, to show them while their pools are away.
    pub(crate) fn remember_seen(&self) {
        if let Err(error) = self.remember() {
            tracing::warn!("exports are not noted in the state folder: {error}");
        }
    }

    /// Ends the service of an export and waits for its clients to be drained.
    async fn turn_away(&self, known: &KnownExport) {
        let gone = self.front_ends.of(known.protocol).unexport(&known.name);
        if tokio::time::timeout(DRAIN_TIMEOUT, gone).await.is_err() {
            tracing::warn!("requests of export {} are still being finished", known.name);
        }
    }

    /// Ends the service of all exports of a pool that is closed, and keeps them for when it is back.
    pub(crate) async fn withdraw_targets(&self, open: &OpenPool) {
        let withdrawn: Vec<KnownExport> = {
            let mut live = self.live_mut();
            let of_pool = live.exports.values_mut().filter(|export| export.known.pool == open.pool.id());
            of_pool.filter_map(|export| export.target.take().map(|_| export.known.clone())).collect()
        };
        for known in withdrawn {
            self.turn_away(&known).await;
        }
    }

    /// Serves again what is remembered of a pool that came into service.
    pub(crate) fn remake_exports(&self, open: &OpenPool) {
        let spaces: Vec<Arc<Space>> = open.spaces().values().cloned().collect();
        let mut live = self.live_mut();
        let services = open.services();
        for export in
            live.exports.values_mut().filter(|export| export.target.is_none() && export.known.pool == open.pool.id())
        {
            let known = &export.known;
            let Some(service) = services.get(&known.space) else { continue };
            let Some(space) = spaces.iter().find(|space| space.record().uuid == known.space) else { continue };
            let served = target(known, service.clone(), space).map_err(|refusal| refusal.to_string());
            let front_end = self.front_ends.of(known.protocol);
            let served = served.and_then(|target| front_end.export(&known.name, target.clone()).map(|()| target));
            match served {
                Ok(target) => export.target = Some(target),
                Err(error) => tracing::error!("export {} is not served: {error}", known.name),
            }
        }
    }
}

/// A space as clients of an export see it.
fn target(known: &KnownExport, service: Arc<ObjectService>, space: &Space) -> Result<Arc<Target>, Claimed> {
    let description = format!("{}, {}", known.path, space.record().shape);
    Target::new(&known.name, description, service, known.read_only, &known.qos).map(Arc::new)
}

/// A refusal of its pool, about an export.
pub(crate) fn about_export(object: impl Into<String>, mut error: ApiError) -> ApiError {
    if !error.message.contains(&error.object) {
        error.message = format!("{}: {}", error.object, error.message);
    }
    error.object = object.into();
    error
}

/// An export, as events name it.
pub(crate) fn export_object(name: &str) -> ObjectRef {
    ObjectRef::named(ObjectKind::Export, name)
}

/// How well an export is, and why it is not healthy.
fn trouble(live: &Live, export: &LiveExport) -> (Health, Vec<Condition>) {
    let LiveExport { known, target } = export;
    let condition = |cause: String, next: &str| (Health::Unhealthy, vec![Condition::new(cause, next)]);
    if target.is_none() {
        let cause = format!("export {} is not served: space {} is not open", known.name, known.path);
        return condition(cause, "see the health of its pool");
    }
    let open = live.pools.values().find(|open| open.pool.id() == known.pool);
    let space = open.and_then(|open| open.space_with(known.space));
    match space.map_or(0, |space| space.unreadable_rows()) {
        0 => (Health::Healthy, Vec::new()),
        rows => {
            let cause = format!(
                "export {} answers with errors: {} of space {} cannot be read",
                known.name,
                count(rows, "row"),
                known.path
            );
            let all_there = open.is_some_and(|open| open.pool.pool_disks().iter().all(|disk| disk.in_service()));
            condition(
                cause,
                if all_there { "see the health of its space" } else { "attach the missing disks of its pool again" },
            )
        }
    }
}
