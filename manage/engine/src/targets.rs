//! iSCSI targets: their LUNs, who may log in, and by which addresses; kept on the pools of their LUNs.
//!
//! ```text
//!   change ─▶ keep.rs     on every pool with a LUN of it, and in the state folder ─▶ served
//!   pool comes ─▶ adopt.rs ─▶ merge.rs    which document holds ─▶ luns.rs ─▶ objects.rs    spaces, files of volumes
//!   names.rs, access.rs, portals.rs       what a request may say          ─▶ reservations.rs
//!   view.rs, connect.rs, looks.rs         what is told             ─▶ users.rs    who would be cut off
//! ```
//!
//! Invariants: what a change was answered is on all pools here that have a LUN of the target, and in the state folder;
//! a change that could not be kept has changed nothing. A LUN has the id by which initiators know it for as long as it
//! lives, wherever its pool goes.

mod access;
mod adopt;
mod connect;
mod keep;
mod known;
mod looks;
mod lun_settings;
mod luns;
mod merge;
mod names;
mod objects;
mod portals;
mod reservations;
mod room;
mod sessions;
mod users;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{ApiError, Changed, Condition, CreateTarget, SetTarget, Target as TargetView, TargetChanged};
use holdfast_model::Uuid;
use holdfast_scsi::Device;

use crate::engine::Engine;
use crate::error::{ApiResult, conflict, exists_with, not_found};
use crate::pools::parse_name;
#[cfg(test)]
pub(crate) use known::Backing;
pub(crate) use known::{GoneTarget, KnownAccount, KnownLun, KnownPortal, KnownTarget};
pub(crate) use looks::TargetEvents;
use luns::LiveLun;
pub(crate) use luns::lun_names;
use names::{checked_account, checked_name, default_iqn};
pub(crate) use reservations::{Keeper, reservation_key};

/// Targets of a daemon at most.
const MOST_TARGETS: usize = 256;
/// How long the end of a target or LUN waits for what is in flight; it goes on being drained after it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A target of this node.
pub(crate) struct LiveTarget {
    pub(crate) known: KnownTarget,
    device: Arc<Device>,
    /// The LUNs that are served.
    luns: BTreeMap<u16, LiveLun>,
    /// Why others are not, where more is known than that their pool is away.
    troubles: BTreeMap<u16, Condition>,
    /// Why it is not served, by pools whose documents of it cannot be read, and by its own.
    unread: BTreeMap<Uuid, Condition>,
    unserved: Option<String>,
}

impl LiveTarget {
    /// One that nobody finds yet.
    pub(crate) fn new(engine: &Engine, known: KnownTarget) -> Self {
        let device = Device::new(&known.iqn, engine.front_ends.iscsi.shared().clone());
        device.set_ports(portals::ports(&known));
        device.set_luns(&known.unit_ids());
        let (luns, troubles, unread) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { known, device, luns, troubles, unread, unserved: None }
    }

    /// It is so from now on. LUNs that are not served yet are not ready.
    fn know(&mut self, known: KnownTarget) {
        self.known = known;
        self.device.set_luns(&self.known.unit_ids());
    }

    /// The LUNs that are served.
    pub(crate) fn served(&self) -> impl Iterator<Item = ServedLun<'_>> {
        self.luns.iter().filter_map(|(number, lun)| {
            let known = self.known.luns.get(number)?;
            Some(ServedLun { name: self.known.lun_name(*number), known, block: lun.unit.target() })
        })
    }
}

/// A LUN that is served.
pub(crate) struct ServedLun<'a> {
    /// `TARGET/NUMBER`.
    pub(crate) name: String,
    /// How it is kept.
    pub(crate) known: &'a KnownLun,
    /// What its requests go through.
    pub(crate) block: &'a Arc<holdfast_block::Target>,
}

fn target_object(name: &str) -> String {
    format!("target {name}")
}

impl Engine {
    /// All targets, by name.
    pub fn targets(&self) -> Vec<TargetView> {
        self.target_views(None)
    }

    /// The target of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn target(&self, name: &str) -> ApiResult<TargetView> {
        let found = self.target_views(Some(name)).pop();
        found.ok_or_else(|| not_found(target_object(name), "'holdfast target list' lists the targets"))
    }

    /// What is known of a target.
    pub(super) fn known_target(&self, name: &str) -> ApiResult<KnownTarget> {
        let known = self.live().targets.get(name).map(|target| target.known.clone());
        known.ok_or_else(|| not_found(target_object(name), "'holdfast target list' lists the targets"))
    }

    /// Makes a target.
    ///
    /// # Errors
    /// If the name is taken by another one, or an address cannot be; nothing is changed then.
    pub async fn create_target(self: &Arc<Self>, request: CreateTarget) -> ApiResult<TargetChanged> {
        self.change(move |engine| async move { engine.make_target(request).await }).await
    }

    async fn make_target(&self, request: CreateTarget) -> ApiResult<TargetChanged> {
        let name = parse_name("target", &request.name).map_err(|error| error.at("name"))?.to_string();
        let object = target_object(&name);
        let iqn = request.iqn.as_deref().map(|iqn| checked_name(&object, "iqn", iqn)).transpose()?;
        let portals = self.portals_of(&object, &request.portals).await?;
        if let Some(target) = self.same_target(&object, &name, iqn.as_deref(), &portals, &request)? {
            return Ok(TargetChanged { changed: false, target });
        }
        if !self.front_ends.iscsi.is_configured() {
            let next = "start the daemon with --iscsi HOST:PORT";
            return Err(conflict(object, "the daemon has no iSCSI address", next));
        }
        let iqn = iqn.unwrap_or_else(|| default_iqn(&self.host_name(), &name));
        {
            let live = self.live();
            if let Some(other) = live.targets.values().find(|other| other.known.iqn == iqn) {
                let message = format!("target {} has the iSCSI name {iqn}", other.known.name);
                return Err(conflict(object, message, "choose another one with --iqn").at("iqn"));
            }
            if live.targets.len() >= MOST_TARGETS {
                let message = format!("there are {MOST_TARGETS} targets, and there may be no more");
                return Err(conflict(object, message, "add LUNs to one that is there"));
            }
        }
        let mut known = KnownTarget::new(&name, iqn);
        (known.open, known.portals) = (request.open, portals);
        self.keep_target(None, Some(&known)).await?;
        if let Err(cause) = self.begin_target(LiveTarget::new(self, known.clone())) {
            self.live_mut().targets.remove(&name);
            self.keep_target(Some(&known), None).await?;
            return Err(conflict(object, cause, "choose another iSCSI name"));
        }
        let open = if known.open { ", open to any initiator" } else { "" };
        self.note(&known.object(), &format!("created as {}{open}", known.iqn));
        Ok(TargetChanged { changed: true, target: self.target(&name)? })
    }

    /// The target that is asked for, where it is there; refused where it is there and another.
    fn same_target(
        &self,
        object: &str,
        name: &str,
        iqn: Option<&str>,
        portals: &[KnownPortal],
        request: &CreateTarget,
    ) -> ApiResult<Option<TargetView>> {
        let Ok(known) = self.known_target(name) else { return Ok(None) };
        if let Some(iqn) = iqn.filter(|iqn| *iqn != known.iqn) {
            return Err(exists_with(object, "iSCSI name", &known.iqn, iqn).at("iqn"));
        }
        let list = |portals: &[KnownPortal]| {
            let mut list: Vec<String> = portals.iter().map(|portal| portal.address.to_string()).collect();
            list.sort();
            if list.is_empty() { "all".into() } else { list.join(", ") }
        };
        if list(&known.portals) != list(portals) {
            return Err(exists_with(object, "set of portals", list(&known.portals), list(portals)).at("portals"));
        }
        if known.open != request.open {
            let word = |open: bool| if open { "open" } else { "closed" };
            return Err(exists_with(object, "access", word(known.open), word(request.open)).at("open"));
        }
        self.target(name).map(Some)
    }

    /// Lets initiators find a target.
    fn begin_target(&self, mut target: LiveTarget) -> Result<(), String> {
        let served = self.front_ends.iscsi.serve(&target.known, target.device.clone());
        target.unserved = served.as_ref().err().cloned();
        self.live_mut().targets.insert(target.known.name.clone(), target);
        served
    }

    /// Makes what was remembered of targets known, and lets initiators find them; their LUNs come with their pools.
    pub(crate) fn begin_known_targets(&self, known: Vec<KnownTarget>, discovery: Option<&KnownAccount>) {
        for known in known {
            let name = known.name.clone();
            if let Err(error) = self.begin_target(LiveTarget::new(self, known)) {
                tracing::error!("target {name} is not served: {error}");
            }
        }
        if let Err(error) = self.front_ends.iscsi.set_discovery(discovery) {
            tracing::error!("discovery of targets needs no account: {error}");
        }
    }

    /// Changes a target: kept first, then in force. False if it was so already.
    async fn alter_target(
        &self,
        name: &str,
        change: impl FnOnce(&mut KnownTarget) -> ApiResult<()>,
    ) -> ApiResult<bool> {
        let before = self.known_target(name)?;
        let mut after = before.clone();
        change(&mut after)?;
        if after == before {
            return Ok(false);
        }
        after.changes += 1;
        self.keep_target(Some(&before), Some(&after)).await?;
        self.put_in_force(&before, after).await.map(|()| true)
    }

    /// Has a kept change hold for those who are connected, or takes it back.
    async fn put_in_force(&self, before: &KnownTarget, after: KnownTarget) -> ApiResult<()> {
        let iscsi = &self.front_ends.iscsi;
        let access =
            (&after.open, &after.initiators, &after.mutual) != (&before.open, &before.initiators, &before.mutual);
        let done = if access { iscsi.set_access(&after) } else { Ok(()) };
        let done = done.and_then(|()| if after.portals == before.portals { Ok(()) } else { iscsi.set_portals(&after) });
        if let Err(cause) = done {
            let back = KnownTarget { changes: after.changes + 1, ..before.clone() };
            self.keep_target(Some(&after), Some(&back)).await?;
            if let Some(target) = self.live_mut().targets.get_mut(&before.name) {
                target.known = back;
            }
            // What was in force before can be so again.
            let _ = iscsi.set_access(before).and_then(|()| iscsi.set_portals(before));
            return Err(conflict(target_object(&before.name), cause, "choose something else"));
        }
        let mut live = self.live_mut();
        if let Some(target) = live.targets.get_mut(&after.name) {
            if (&after.portals, &after.states) != (&before.portals, &before.states) {
                target.device.set_ports(portals::ports(&after));
            }
            target.known = after;
        }
        Ok(())
    }

    /// Changes a target in use.
    ///
    /// # Errors
    /// If there is none of this name, or an account cannot be; nothing is changed then.
    pub async fn set_target(self: &Arc<Self>, name: String, request: SetTarget) -> ApiResult<TargetChanged> {
        self.change(move |engine| async move { engine.change_target(&name, &request).await }).await
    }

    async fn change_target(&self, name: &str, request: &SetTarget) -> ApiResult<TargetChanged> {
        let object = target_object(name);
        let mutual = request.mutual.as_ref().map(|account| checked_account(&object, "mutual", account)).transpose()?;
        if mutual.is_some() && request.no_mutual {
            let message = "it cannot prove who it is and prove nothing";
            return Err(ApiError::invalid(object, message, "give mutual or no_mutual").at("no_mutual"));
        }
        let before = self.known_target(name)?;
        let changed = self
            .alter_target(name, |target| {
                target.open = request.open.unwrap_or(target.open);
                if mutual.is_some() || request.no_mutual {
                    target.mutual = mutual;
                }
                access::check_secrets(&object, target)
            })
            .await?;
        let known = self.known_target(name)?;
        if known.open != before.open {
            self.note(
                &known.object(),
                if known.open { "is open to any initiator" } else { "is closed but to those allowed" },
            );
        }
        if known.mutual != before.mutual {
            let user = known.mutual.as_ref().map(|account| format!("proves who it is as {}", account.user));
            self.note(&known.object(), user.as_deref().unwrap_or("proves to initiators no more who it is"));
        }
        Ok(TargetChanged { changed, target: self.target(name)? })
    }

    /// Ends a target. Its initiators are logged out; what its LUNs stand for stays.
    ///
    /// # Errors
    /// If somebody is logged in or registered and it is not confirmed, or a pool with a LUN of it takes no changes; nothing
    /// is changed then.
    pub async fn destroy_target(self: &Arc<Self>, name: String, confirmed: bool) -> ApiResult<Changed> {
        self.change(move |engine| async move { engine.end_target(&name, confirmed).await }).await
    }

    async fn end_target(&self, name: &str, confirmed: bool) -> ApiResult<Changed> {
        parse_name("target", name)?;
        let Ok(known) = self.known_target(name) else {
            return Ok(Changed { changed: false, message: format!("there is no target {name}") });
        };
        let numbers: Vec<u16> = known.luns.keys().copied().collect();
        self.refuse_used(known.object(), &known, &numbers, confirmed)?;
        self.keep_target(Some(&known), None).await?;
        self.unserve_target(name).await;
        for (number, lun) in &known.luns {
            self.forget_reservations(lun, &known.lun_name(*number)).await;
        }
        self.note(&known.object(), "destroyed");
        self.take_waiting_targets().await;
        self.tell_left_luns();
        Ok(Changed { changed: true, message: format!("target {name} is destroyed; what its LUNs stood for stays") })
    }

    /// Turns the initiators of a target away, and knows it no more.
    async fn unserve_target(&self, name: &str) {
        let Some(mut target) = self.live_mut().targets.remove(name) else { return };
        let gone = self.front_ends.iscsi.unserve(&target.known.iqn);
        if tokio::time::timeout(DRAIN_TIMEOUT, gone).await.is_err() {
            tracing::warn!("commands to target {name} are still being finished");
        }
        let luns = std::mem::take(&mut target.luns);
        luns::let_go(self.next_reactor(), &target.device, luns, luns::Then::Gone).await;
        drop(target);
        self.apply_qos_of_all();
    }
}
