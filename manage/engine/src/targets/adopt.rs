//! Targets of a pool that comes into service.
//!
//! Invariant: what holds is settled before a LUN of the pool is served; a document that cannot be read is told of and
//! left as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_api::{Condition, Severity};
use holdfast_model::{ObjectRef, Uuid};

use super::known::{Document, KnownLun, KnownTarget, TARGETS};
use super::luns::Then;
use super::merge::{Here, Kept, Merged, merge, on_pool};
use super::objects::Named;
use super::{LiveTarget, portals};
use crate::engine::{Engine, Live, OpenPool};
use crate::error::{ApiResult, conflict};

/// What a target that waits for its name is told of with.
fn waiting(target: &KnownTarget, other: &str) -> Condition {
    let cause =
        format!("target {} ({}) is not served: target {other} has its name or iSCSI name", target.name, target.iqn);
    Condition::new(cause, format!("it is served after 'holdfast target destroy {other}'"))
}

/// What is told of a target's document that is not known here.
fn unreadable(key: &str, why: &str) -> String {
    format!("document {key} cannot be read ({why})")
}

/// What is told of a document of a target that a pool keeps, that is not known here and names an id. Ids are written
/// alike, whatever else is in it.
fn unread_naming(open: &OpenPool, id: Uuid) -> Option<String> {
    let id = id.to_string();
    let of = |(key, text): (String, Vec<u8>)| {
        let why = Document::read(&key, &text).err()?;
        String::from_utf8_lossy(&text).contains(&id).then(|| unreadable(&key, &why))
    };
    open.pool.documents(TARGETS).into_iter().find_map(of)
}

/// Refuses what takes away the ground of such LUNs of a target that waits for its name.
fn refuse_lun_of(target: &KnownTarget, is_such: impl Fn(&KnownLun) -> bool, object: &str) -> ApiResult<()> {
    let Some((number, lun)) = target.luns.iter().find(|(_, lun)| is_such(lun)) else { return Ok(()) };
    let message = format!(
        "{} is LUN {} of a target that is not served, as another one has its name or iSCSI name",
        lun.path,
        target.lun_name(*number)
    );
    Err(conflict(object, message, "import the pool where its target can be served, and remove the LUN there"))
}

impl Live {
    /// Targets that a pool here keeps and that are not served, as others have their names.
    fn waiting_of(&self, open: &OpenPool) -> Vec<KnownTarget> {
        let is_known = |id: Uuid| self.targets.values().any(|target| target.known.id == id);
        let waiting =
            open.pool.documents(TARGETS).into_iter().filter_map(|(key, text)| match Document::read(&key, &text) {
                Ok(Document::Target(target)) if !is_known(target.id) => Some(*target),
                _ => None,
            });
        waiting.collect()
    }

    /// Those of all pools here.
    pub(super) fn waiting_targets(&self) -> Vec<KnownTarget> {
        self.pools.values().flat_map(|open| self.waiting_of(open)).collect()
    }
}

impl Engine {
    /// The documents of targets that a pool keeps; of those that cannot be read, the target's id and why.
    fn kept_targets(&self, open: &OpenPool) -> (Vec<Document>, Vec<(Option<Uuid>, String)>) {
        let (mut documents, mut unread) = (Vec::new(), Vec::new());
        for (key, text) in open.pool.documents(TARGETS) {
            match Document::read(&key, &text) {
                Ok(document) => documents.push(document),
                Err(why) => unread.push((key[TARGETS.len()..].parse().ok(), format!("its {}", unreadable(&key, &why)))),
            }
        }
        (documents, unread)
    }

    /// The targets of this node by their ids.
    fn targets_by_id(&self) -> BTreeMap<Uuid, KnownTarget> {
        self.live().targets.values().map(|target| (target.known.id, target.known.clone())).collect()
    }

    /// Takes over the targets that a pool keeps; `salvaged` says that it lost all its documents.
    pub(crate) async fn adopt_targets(&self, open: &OpenPool, salvaged: bool) {
        let (documents, unread) = self.kept_targets(open);
        for (_, why) in &unread {
            let next = "run the version that wrote it; until then its LUNs are not served";
            self.events.emit(Severity::Error, &open.object(), &format!("{why}; it stays as it is"), next);
        }
        let kept = Kept {
            pool: open.pool.id(),
            documents,
            unreadable: unread.iter().filter_map(|(id, _)| *id).collect(),
            salvaged,
        };
        let targets = self.targets_by_id();
        let gone = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).gone_targets.clone();
        let merged = merge(&Here { targets: &targets, gone: &gone }, &kept);
        self.note_unread(open, unread);
        self.follow(open, &targets, merged).await;
    }

    /// Keeps the LUNs off initiators whose documents cannot be read.
    fn note_unread(&self, open: &OpenPool, unread: Vec<(Option<Uuid>, String)>) {
        let pool = open.pool.id();
        for target in self.live_mut().targets.values_mut() {
            let found = unread.iter().find(|(id, _)| *id == Some(target.known.id));
            let told = found.map(|(_, why)| {
                Condition::new(format!("pool {}: {why}", open.name()), "run the version that wrote it")
            });
            match told {
                Some(told) => _ = target.unread.insert(pool, told),
                None => _ = target.unread.remove(&pool),
            }
        }
    }

    /// Does what was settled.
    async fn follow(&self, open: &OpenPool, before: &BTreeMap<Uuid, KnownTarget>, merged: Merged) {
        let pool = open.pool.id();
        let here = |id: &Uuid| before.get(id).map(KnownTarget::object);
        for id in &merged.differ {
            let Some(object) = here(id) else { continue };
            let cause = format!("was changed here and, with pool {}, elsewhere; what was set here holds", open.name());
            let next = "'holdfast target show' shows it; repeat what was set elsewhere";
            self.events.emit(Severity::Warning, &object, &cause, next);
        }
        for (target, other) in &merged.wait {
            let told = waiting(target, other);
            self.events.emit(Severity::Warning, &target.object(), &told.cause, &told.next_action);
        }
        for id in merged.drop {
            let Some(known) = before.get(&id) else { continue };
            self.unserve_target(&known.name).await;
            self.keep_elsewhere(known, None, pool).await;
            let cause = format!("is gone: it was destroyed elsewhere, as pool {} tells", open.name());
            self.events.emit(Severity::Warning, &known.object(), &cause, "");
        }
        for taken in merged.take {
            self.take_target(open, before.get(&taken.id), taken).await;
        }
        for (id, document) in merged.write {
            if let Err(error) = self.keep_document(open, id, document).await {
                tracing::warn!("target {id} is not kept on pool {}: {error}", open.name());
            }
        }
        let remembered = self.change_state(|state| state.gone_targets = merged.gone);
        if let Err(error) = remembered {
            tracing::warn!("targets that were destroyed are not noted in the state folder: {error}");
        }
        self.forget_told_ends().await;
    }

    /// Keeps on pools no longer that a target was destroyed of which all pools have heard.
    async fn forget_told_ends(&self) {
        let gone = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).gone_targets.clone();
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        for open in pools {
            for document in self.kept_targets(&open).0 {
                let Document::Gone(end) = document else { continue };
                if gone.iter().any(|known| known.id == end.id) {
                    continue;
                }
                if let Err(error) = self.keep_document(&open, end.id, None).await {
                    tracing::debug!("the end of target {} is still kept on pool {}: {error}", end.name, open.name());
                }
            }
        }
    }

    /// Has a target be as a pool that came says.
    async fn take_target(&self, open: &OpenPool, before: Option<&KnownTarget>, taken: KnownTarget) {
        let same_names = |before: &&KnownTarget| before.name == taken.name && before.iqn == taken.iqn;
        match before {
            Some(known) if same_names(&known) => {
                let changed = known.luns.iter().filter(|(number, lun)| taken.luns.get(number) != Some(lun));
                let is_same =
                    |(number, lun): &(&u16, &KnownLun)| taken.luns.get(number).is_some_and(|one| one.id == lun.id);
                let (back, gone): (Vec<_>, Vec<_>) = changed.partition(is_same);
                for (luns, then) in [(back, Then::Back), (gone, Then::Gone)] {
                    let numbers: Vec<u16> = luns.into_iter().map(|(number, _)| *number).collect();
                    self.withdraw_luns_of(&known.name, &numbers, then).await;
                }
                let iscsi = &self.front_ends.iscsi;
                if let Err(error) = iscsi.set_access(&taken).and_then(|()| iscsi.set_portals(&taken)) {
                    tracing::error!("{}: {error}", taken.object());
                }
                if let Some(target) = self.live_mut().targets.get_mut(&taken.name) {
                    target.device.set_ports(portals::ports(&taken));
                    target.know(taken.clone());
                }
            }
            _ => {
                if let Some(known) = before {
                    self.unserve_target(&known.name).await;
                }
                if let Err(error) = self.begin_target(LiveTarget::new(self, taken.clone())) {
                    tracing::error!("{} is not served: {error}", taken.object());
                }
            }
        }
        if let Some(known) = before {
            self.note(&taken.object(), &format!("is as pool {} tells, where it was changed elsewhere", open.name()));
            self.keep_elsewhere(known, Some(&taken), open.pool.id()).await;
            // Those of other pools that were changed; its own are served when its spaces are open.
            let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
            for other in pools.into_iter().filter(|other| other.pool.id() != open.pool.id()) {
                self.serve_luns(&other).await;
            }
        }
    }

    /// Keeps on the other pools here what the pool `from` told.
    async fn keep_elsewhere(&self, before: &KnownTarget, after: Option<&KnownTarget>, from: Uuid) {
        let mut ids = before.pools();
        ids.extend(after.into_iter().flat_map(KnownTarget::pools));
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        // Where the LUNs of the pool itself were removed elsewhere, it has no document, and gets none.
        for open in pools.into_iter().filter(|open| ids.contains(&open.pool.id()) && open.pool.id() != from) {
            let document = after.and_then(|after| on_pool(after, open.pool.id()));
            if let Err(error) = self.keep_document(&open, before.id, document).await {
                tracing::warn!("{} is not kept on pool {}: {error}", before.object(), open.name());
            }
        }
    }

    /// Why targets that a pool keeps are not served: others have their names, or their documents cannot be read.
    pub(crate) fn waiting_targets(&self, open: &OpenPool) -> Vec<Condition> {
        let (documents, unread) = self.kept_targets(open);
        if documents.is_empty() && unread.is_empty() {
            return Vec::new();
        }
        let live = self.live();
        let waits = documents.iter().filter_map(|document| {
            let Document::Target(target) = document else { return None };
            let others = || live.targets.values().map(|other| &other.known);
            if others().any(|other| other.id == target.id) {
                return None;
            }
            let other = others().find(|other| other.name == target.name || other.iqn == target.iqn)?;
            Some(waiting(target, &other.name))
        });
        let told = unread
            .iter()
            .map(|(_, why)| Condition::new(format!("a target is not served: {why}"), "run the version that wrote it"));
        waits.chain(told).collect()
    }

    /// Refuses a LUN that a target of the pool has which is not served, since others have its names or its document
    /// cannot be read.
    pub(super) fn refuse_kept_lun(&self, named: &Named, object: &str) -> ApiResult<()> {
        let (live, path) = (self.live(), &named.path);
        for target in live.waiting_of(&named.open) {
            let mut others = live.targets.values().map(|other| &other.known);
            let other = others.find(|other| other.name == target.name || other.iqn == target.iqn);
            let number = target.luns.iter().find(|(_, lun)| lun.on == named.on).map(|(number, _)| *number);
            if let (Some(other), Some(number)) = (other, number) {
                let told = waiting(&target, &other.name);
                let message = format!("{path} is LUN {} already; {}", target.lun_name(number), told.cause);
                return Err(conflict(object, message, told.next_action));
            }
        }
        match unread_naming(&named.open, named.id) {
            Some(why) => {
                let message = format!("{path} is a LUN already; its target's {why}");
                Err(conflict(object, message, "run the version that wrote it"))
            }
            None => Ok(()),
        }
    }

    /// Refuses to take away a space or a volume for which LUNs stand of targets that are not served, since others have
    /// their names or their documents cannot be read. They are served on another node, or later.
    pub(crate) fn refuse_waiting_luns(&self, on: Uuid, object: &str) -> ApiResult<()> {
        let live = self.live();
        for target in live.waiting_targets() {
            refuse_lun_of(&target, |lun| lun.is_on(on), object)?;
        }
        match live.pools.values().find_map(|open| unread_naming(open, on)) {
            Some(why) => {
                let message = format!("LUNs of a target stand for it whose {why}");
                Err(conflict(object, message, "run the version that wrote it"))
            }
            None => Ok(()),
        }
    }

    /// The same of a whole pool.
    pub(crate) fn refuse_kept_luns(&self, open: &OpenPool, object: &str) -> ApiResult<()> {
        for target in self.live().waiting_of(open) {
            refuse_lun_of(&target, |lun| lun.pool == open.pool.id(), object)?;
        }
        match self.kept_targets(open).1.into_iter().next() {
            Some((_, why)) => {
                let message = format!("LUNs of a target may stand for what it holds: {why}");
                Err(conflict(object, message, "run the version that wrote it"))
            }
            None => Ok(()),
        }
    }

    /// Serves the targets whose name was taken so far and is free now.
    pub(super) async fn take_waiting_targets(&self) {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        for open in pools {
            let known = self.targets_by_id();
            let (documents, _) = self.kept_targets(&open);
            for document in documents {
                let Document::Target(target) = document else { continue };
                let clashes =
                    |other: &KnownTarget| other.id == target.id || other.name == target.name || other.iqn == target.iqn;
                if !known.values().any(clashes) {
                    self.take_target(&open, None, *target).await;
                }
            }
            self.serve_luns(&open).await;
        }
        self.remember_seen();
    }

    /// The object of a target by its iSCSI name, as events name it.
    pub(crate) fn target_object_of(&self, iqn: &str) -> Option<ObjectRef> {
        self.live().targets.values().find(|target| target.known.iqn == iqn).map(|target| target.known.object())
    }
}
