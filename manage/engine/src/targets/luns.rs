//! LUNs: added, served with their pools, removed.
//!
//! Invariants: a LUN is kept before its first initiator sees it, and gone from where it was kept before its last one is
//! turned away. What was kept of its reservations is there before its first command; what was kept of those of an earlier
//! one is gone before it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_api::{
    AddLun, ApiError, Changed, Condition, GrowLun, Lun as LunView, LunBlocks, LunChanged, Severity, word,
};
use holdfast_block::Target;
use holdfast_device::reactor::ReactorHandle;
use holdfast_model::Uuid;
use holdfast_scsi::{Device, Held, LogicalBlocks, Unit, UnitSettings};
use holdfast_volume::service::FileId;

use super::known::{Backing, KnownLun, KnownTarget};
use super::lun_settings::{check_alert, no_warning};
use super::objects::Named;
use super::{DRAIN_TIMEOUT, reservation_key, target_object};
use crate::engine::{Engine, Live, OpenPool};
use crate::error::{ApiResult, conflict, exists_with, not_found};
use crate::exports::about_export;
use crate::pools::parse_name;
use crate::view::row;
use crate::volumes::HeldDisk;

/// LUNs of a target, at most, and their highest number: what all initiators look at.
const MOST_LUNS: u16 = 256;

/// A LUN that is served.
pub(super) struct LiveLun {
    pub(super) unit: Arc<Unit>,
    /// The size that they know of.
    pub(super) size_bytes: u64,
    /// The file that it is, if it is one.
    pub(super) file: Option<HeldDisk>,
    /// What initiators were told last of how full its ground is, and as of when.
    pub(super) room: super::room::RoomTold,
}

impl LiveLun {
    /// Lets go of what it is, where no initiator has seen it.
    async fn give_back(self) {
        drop(self.unit);
        if let Some(file) = self.file {
            file.release().await;
        }
    }
}

/// What becomes of LUNs that are served no more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// They are gone.
    Gone,
    /// They come back: initiators find them not ready, and their reservations stay.
    Back,
}

/// Makes what initiators wrote to a unit durable that is taken from them for a time: its object is let go of, and what
/// waits in memory with it. Answers why it could not be, or may not be: that is a loss to them.
async fn settle(reactor: &ReactorHandle, unit: &Unit, is_idle: bool) -> Result<(), String> {
    if !is_idle {
        return Err("commands were still under way".into());
    }
    let target = unit.target().clone();
    if !target.object().has_unflushed() {
        return Ok(());
    }
    let flushing = reactor.call(move || async move { target.flush().await });
    match tokio::time::timeout(DRAIN_TIMEOUT, flushing).await {
        Ok(Ok(flushed)) => flushed.map_err(|error| error.to_string()),
        Ok(Err(_)) => Err("the daemon is stopping".into()),
        Err(_) => Err(format!("that took more than {} s", DRAIN_TIMEOUT.as_secs())),
    }
}

/// Ends the service of LUNs, and waits until nothing uses them. Answers those of which answered writes may be lost, and why.
pub(super) async fn let_go(
    reactor: &ReactorHandle,
    device: &Device,
    luns: BTreeMap<u16, LiveLun>,
    then: Then,
) -> Vec<(u16, String)> {
    let mut losses = Vec::new();
    for (number, lun) in luns {
        let unused = match then {
            Then::Gone => device.remove_unit(number),
            Then::Back => device.suspend_unit(number),
        };
        let is_idle = tokio::time::timeout(DRAIN_TIMEOUT, unused).await.is_ok();
        if !is_idle {
            tracing::warn!("commands to LUN {number} of {} are still being finished", device.name());
        }
        let LiveLun { unit, file, .. } = lun;
        // What is only removed stays open, or its volume does, and is flushed with that.
        if then == Then::Back
            && let Err(why) = settle(reactor, &unit, is_idle).await
        {
            unit.note_loss();
            losses.push((number, why));
        }
        drop(unit);
        if let Some(file) = file {
            file.release().await;
        }
    }
    losses
}

fn blocks(blocks: LunBlocks) -> LogicalBlocks {
    match blocks {
        LunBlocks::B512 => LogicalBlocks::B512,
        LunBlocks::B512e => LogicalBlocks::B512e,
        LunBlocks::B4096 => LogicalBlocks::B4096,
    }
}

/// LUNs by name, a few of them.
pub(crate) fn lun_names(luns: &[(String, u16)]) -> String {
    row(luns.iter().map(|(target, number)| format!("{target}/{number}")))
}

impl Live {
    /// The LUNs that are files of a volume, served or not, those of targets that wait for their names counted: the target,
    /// the number, and the file.
    pub(crate) fn luns_on_volume(&self, volume: Uuid) -> Vec<(String, u16, FileId)> {
        let (mut found, waiting) = (Vec::new(), self.waiting_targets());
        for target in self.targets.values().map(|target| &target.known).chain(&waiting) {
            for (number, lun) in &target.luns {
                if let Backing::File { volume: on, number: file, generation } = lun.on
                    && on == volume
                {
                    found.push((target.name.clone(), *number, FileId { number: file, generation }));
                }
            }
        }
        found
    }
}

impl Engine {
    /// The LUN of this number.
    ///
    /// # Errors
    /// If there is no such target or LUN.
    pub fn lun(&self, target: &str, lun: u16) -> ApiResult<LunView> {
        let found = self.target(target)?.luns.into_iter().find(|view| view.lun == lun);
        let next = format!("'holdfast target show {target}' lists its LUNs");
        found.ok_or_else(|| not_found(format!("LUN {target}/{lun}"), next))
    }

    /// Adds a LUN to a target.
    ///
    /// # Errors
    /// If what it is to stand for cannot be had, or the number is taken; nothing is changed then.
    pub async fn add_lun(self: &Arc<Self>, target: String, request: AddLun) -> ApiResult<LunChanged> {
        self.change(move |engine| async move { engine.make_lun(&target, request).await }).await
    }

    async fn make_lun(&self, name: &str, request: AddLun) -> ApiResult<LunChanged> {
        let object = target_object(name);
        let before = self.known_target(name)?;
        if let Some(number) = request.lun.filter(|number| *number >= MOST_LUNS) {
            let message = format!("{number} is no LUN");
            return Err(ApiError::invalid(&object, message, "choose 0 to 255").at("lun"));
        }
        check_alert(&object, request.alert_percent)?;
        let named = self.named_object(&object, &request.backing, request.size_bytes, request.full).await;
        let mut named = named.map_err(|error| if error.field.is_some() { error } else { error.at("backing") })?;
        let made = named.made.take().map(|found| (named.open.clone(), found));
        let done = self.make_named_lun(name, request, before, named).await;
        if done.is_err()
            && let Some((open, found)) = made
        {
            self.unmake_file(&open, &found).await;
        }
        done
    }

    async fn make_named_lun(
        &self,
        name: &str,
        request: AddLun,
        before: KnownTarget,
        named: Named,
    ) -> ApiResult<LunChanged> {
        let object = target_object(name);
        if let Some(number) = self.same_lun(&object, &before, &named.on, &named.path, &request)? {
            return Ok(LunChanged { changed: false, lun: self.lun(name, number)? });
        }
        self.refuse_kept_lun(&named, &object).map_err(|error| error.at("backing"))?;
        let free = || (0..MOST_LUNS).find(|number| !before.luns.contains_key(number));
        let Some(number) = request.lun.or_else(free) else {
            return Err(conflict(object, format!("it has {MOST_LUNS} LUNs"), "make another target"));
        };
        let known = KnownLun {
            id: named.id,
            pool: named.open.pool.id(),
            on: named.on,
            path: named.path,
            blocks: request.blocks.unwrap_or_default(),
            read_only: request.read_only,
            qos: Default::default(),
            alert_percent: request.alert_percent,
            full: request.full,
        };
        let mut after = before.clone();
        after.changes += 1;
        after.luns.insert(number, known.clone());
        let live = self.make_unit(&named.open, &after, number, &known, None).await;
        let live = live.map_err(|why| conflict(&object, why.cause, why.next_action).at("backing"))?;
        if known.alert_percent.is_some() && !live.unit.settings().thin {
            live.give_back().await;
            return Err(no_warning(&object, &known.path));
        }
        // One that was there may have holes.
        if let Err(full) = self.give_room(&named.open, &known, live.size_bytes).await {
            live.give_back().await;
            return Err(full);
        }
        // What is kept of an earlier LUN of it, which its pool was not here to forget, counts no more. It goes before the
        // LUN is kept, since a crash between the two would bring it back, and comes back where the LUN is not added.
        let earlier = self.take_reservations(&named.open, known.id).await;
        let earlier = earlier.map_err(|error| about_export(after.lun_object(number), error))?;
        if let Err(error) = self.keep_target(Some(&before), Some(&after)).await {
            live.give_back().await;
            self.keep_again(&named.open, known.id, earlier).await;
            return Err(error);
        }
        if let Err(cause) = self.show_unit(&after, number, live) {
            let back = KnownTarget { changes: after.changes + 1, ..before.clone() };
            self.keep_target(Some(&after), Some(&back)).await?;
            self.keep_again(&named.open, known.id, earlier).await;
            if let Some(target) = self.live_mut().targets.get_mut(name) {
                target.known = back;
            }
            return Err(conflict(object, cause, "choose another number").at("lun"));
        }
        let read_only = if known.read_only { ", read-only" } else { "" };
        let what = format!("added: {} in blocks of {}{read_only}", known.path, word(&known.blocks));
        self.note(&after.lun_object(number), &what);
        if let Backing::Space(space) = known.on {
            self.warn_of_both(space, &known.path);
        }
        Ok(LunChanged { changed: true, lun: self.lun(name, number)? })
    }

    /// The number of the LUN that is asked for, where it is there; refused where it is there and another.
    fn same_lun(
        &self,
        object: &str,
        target: &KnownTarget,
        on: &Backing,
        path: &str,
        request: &AddLun,
    ) -> ApiResult<Option<u16>> {
        if let Some((other, number)) = self.lun_of(on) {
            let name = format!("{other}/{number}");
            if other != target.name {
                // Initiators would not see the reservations of those of another target.
                let message = format!("{path} is LUN {name} already");
                let next = format!(
                    "add portals or initiators to target {other}, or 'holdfast lun remove {other} {number}' first"
                );
                return Err(conflict(object, message, next).at("backing"));
            }
            let has = |wanted: u16| exists_with(&format!("LUN of {path}"), "number", number, wanted).at("lun");
            if let Some(wanted) = request.lun.filter(|wanted| *wanted != number) {
                return Err(has(wanted));
            }
            let known = &target.luns[&number];
            if let Some(wanted) = request.blocks.filter(|wanted| *wanted != known.blocks) {
                return Err(exists_with(&format!("LUN {name}"), "size of blocks", word(&known.blocks), word(&wanted))
                    .at("blocks"));
            }
            if let Some(wanted) = request.alert_percent.filter(|wanted| known.alert_percent != Some(*wanted)) {
                let has = known.alert_percent.map_or_else(|| "its pool's".into(), |percent| format!("{percent} %"));
                let error = exists_with(&format!("LUN {name}"), "alert", has, format!("{wanted} %"));
                return Err(error.at("alert_percent"));
            }
            if known.full != request.full {
                let word = |full: bool| if full { "all at once" } else { "as it is written" };
                let error = exists_with(&format!("LUN {name}"), "room", word(known.full), word(request.full));
                return Err(error.at("full"));
            }
            if known.read_only != request.read_only {
                let word = |read_only: bool| if read_only { "read-only" } else { "read-write" };
                let error =
                    exists_with(&format!("LUN {name}"), "access", word(known.read_only), word(request.read_only));
                return Err(error.at("read_only"));
            }
            return Ok(Some(number));
        }
        match request.lun.and_then(|number| Some((number, target.luns.get(&number)?))) {
            Some((number, taken)) => {
                let error = exists_with(&format!("LUN {}/{number}", target.name), "backing", &taken.path, path);
                Err(error.at("lun"))
            }
            None => Ok(None),
        }
    }

    /// The target and the number of the LUN that stands for this.
    pub(super) fn lun_of(&self, on: &Backing) -> Option<(String, u16)> {
        let live = self.live();
        let luns = live
            .targets
            .values()
            .flat_map(|target| target.known.luns.iter().map(|(number, lun)| (target.known.name.clone(), *number, lun)));
        luns.into_iter().find(|(_, _, lun)| lun.on == *on).map(|(target, number, _)| (target, number))
    }

    /// The LUNs that are files of a volume: the target, the number, and the file.
    pub(crate) fn luns_on_volume(&self, volume: Uuid) -> Vec<(String, u16, FileId)> {
        self.live().luns_on_volume(volume)
    }

    /// `TARGET/NUMBER` of the LUN that stands for a space.
    pub(crate) fn lun_on_space(&self, space: Uuid) -> Option<(String, u16)> {
        self.lun_of(&Backing::Space(space))
    }

    /// The same of one that initiators may write to.
    pub(crate) fn writable_lun_on_space(&self, space: Uuid) -> Option<(String, u16)> {
        let (target, number) = self.lun_on_space(space)?;
        let is_read_only = self.live().targets.get(&target)?.known.luns.get(&number)?.read_only;
        (!is_read_only).then_some((target, number))
    }

    /// Opens what a LUN stands for, with what stayed of it while it was away; no initiator sees it yet.
    async fn make_unit(
        &self,
        open: &Arc<OpenPool>,
        target: &KnownTarget,
        number: u16,
        known: &KnownLun,
        held: Option<Held>,
    ) -> Result<LiveLun, Condition> {
        let object = self.open_object(open, &known.on).await?;
        let name = format!("LUN {}", target.lun_name(number));
        let block = Target::new(&name, known.path.clone(), object.service, known.read_only, &known.qos);
        let block = block.map_err(|claimed| Condition::new(claimed.to_string(), "see the health of its pool"))?;
        let settings = UnitSettings {
            id: known.id,
            name: known.path.clone(),
            blocks: blocks(known.blocks),
            thin: object.thin && !known.full,
        };
        let unit = Unit::resumed(settings, Arc::new(block), self.front_ends.iscsi.shared(), held);
        let size_bytes = unit.target().info().geometry.size_bytes;
        Ok(LiveLun { unit, size_bytes, file: object.file, room: Default::default() })
    }

    /// Has a LUN have the reservations that its pool keeps.
    fn restore_reservations(&self, open: &OpenPool, target: &KnownTarget, number: u16, unit: &Unit) {
        let kept = open.pool.document(&reservation_key(unit.settings().id));
        if let Some(why) = kept.and_then(|kept| unit.restore_reservations(&kept).err()) {
            let cause = format!("its reservations cannot be read ({why}); initiators are refused");
            let next = format!("'holdfast reservation clear {} {number} --yes' gives them up", target.name);
            self.events.emit(Severity::Error, &target.lun_object(number), &cause, &next);
        }
    }

    /// Shows a LUN to initiators.
    fn show_unit(&self, known: &KnownTarget, number: u16, lun: LiveLun) -> Result<(), String> {
        {
            let mut live = self.live_mut();
            let Some(target) = live.targets.get_mut(&known.name) else { return Err("the target is gone".into()) };
            target.device.add_unit(number, lun.unit.clone()).map_err(|error| error.to_string())?;
            target.known = known.clone();
            target.troubles.remove(&number);
            target.luns.insert(number, lun);
        }
        self.apply_qos_of_all();
        Ok(())
    }

    /// Serves the LUNs that lie on a pool that came into service.
    pub(crate) async fn serve_luns(&self, open: &Arc<OpenPool>) {
        let id = open.pool.id();
        let waiting: Vec<(KnownTarget, u16, KnownLun)> = {
            let live = self.live();
            let of_pool = live.targets.values().filter(|target| !target.unread.contains_key(&id)).flat_map(|target| {
                let luns = target
                    .known
                    .luns
                    .iter()
                    .filter(|(number, lun)| lun.pool == id && !target.luns.contains_key(number));
                luns.map(|(number, lun)| (target.known.clone(), *number, lun.clone()))
            });
            of_pool.collect()
        };
        for (target, number, known) in waiting {
            // Those of this daemon's life say more than what is kept, which is of those alone that outlive power.
            let held = self.live().targets.get(&target.name).and_then(|live| live.device.held(number, known.id));
            let is_new = !held.as_ref().is_some_and(Held::has_reservations);
            let made = self.make_unit(open, &target, number, &known, held).await;
            let shown = made.and_then(|lun| {
                if is_new {
                    self.restore_reservations(open, &target, number, &lun.unit);
                }
                self.show_unit(&target, number, lun).map_err(|cause| Condition::new(cause, "see the daemon's log"))
            });
            // It is tried again and again, and told once.
            if let Err(why) = shown
                && let Some(live) = self.live_mut().targets.get_mut(&target.name)
                && live.troubles.get(&number) != Some(&why)
            {
                tracing::error!("LUN {} is not served: {}", target.lun_name(number), why.cause);
                live.troubles.insert(number, why);
            }
        }
    }

    /// Ends the service of these LUNs of a target.
    pub(super) async fn withdraw_luns_of(&self, name: &str, numbers: &[u16], then: Then) {
        let taken = {
            let mut live = self.live_mut();
            let Some(target) = live.targets.get_mut(name) else { return };
            let luns = numbers.iter().filter_map(|number| target.luns.remove_entry(number)).collect();
            numbers.iter().for_each(|number| _ = target.troubles.remove(number));
            (target.device.clone(), luns, target.known.clone())
        };
        let (device, luns, known) = taken;
        for (number, why) in let_go(self.next_reactor(), &device, luns, then).await {
            let cause = format!("what initiators wrote to it last may be lost: it could not be made durable ({why})");
            let next = "its initiators are told; look at what they wrote last, or restore it from a backup";
            self.events.emit(Severity::Error, &known.lun_object(number), &cause, next);
        }
        self.apply_qos_of_all();
    }

    /// Ends the service of all LUNs on a pool that is closed, and keeps them for when it is back.
    pub(crate) async fn withdraw_luns(&self, open: &OpenPool) {
        let id = open.pool.id();
        let of_pool = |known: &KnownTarget| -> Vec<u16> {
            known.luns.iter().filter(|(_, lun)| lun.pool == id).map(|(number, _)| *number).collect()
        };
        let targets: Vec<(String, Vec<u16>)> = {
            let live = self.live();
            live.targets.values().map(|target| (target.known.name.clone(), of_pool(&target.known))).collect()
        };
        for (name, numbers) in targets {
            self.withdraw_luns_of(&name, &numbers, Then::Back).await;
        }
    }

    /// Says to initiators of LUNs that are away which of them come back by themselves: those of pools that are here or
    /// looked for. Others wait for somebody who imports their pool.
    pub(crate) fn tell_left_luns(&self) {
        let live = self.live();
        let here: BTreeSet<Uuid> = live.pools.values().map(|open| open.pool.id()).collect();
        for target in live.targets.values() {
            for (number, lun) in &target.known.luns {
                let comes = here.contains(&lun.pool) || live.offline.contains_key(&lun.pool);
                target.device.set_left(*number, !comes);
            }
        }
    }

    /// The pool is let go of, and may be changed elsewhere: when it comes, what it keeps of reservations counts.
    pub(crate) fn forget_held_reservations(&self, pool: Uuid) {
        for target in self.live().targets.values() {
            let own = target.known.luns.iter().filter(|(_, lun)| lun.pool == pool);
            own.for_each(|(number, _)| target.device.forget_reservations(*number));
        }
    }

    /// Makes a LUN larger, and tells its initiators.
    ///
    /// # Errors
    /// If there is none, its pool is away, or it would become smaller; nothing is changed then.
    pub async fn grow_lun(self: &Arc<Self>, target: String, lun: u16, request: GrowLun) -> ApiResult<LunChanged> {
        self.change(move |engine| async move {
            engine.lun(&target, lun)?;
            let known = engine.known_target(&target)?;
            let object = known.lun_object(lun);
            let wanted = known.luns.get(&lun).ok_or_else(|| not_found(&object, "ask again"))?;
            let open = engine.live().pools.values().find(|open| open.pool.id() == wanted.pool).cloned();
            let open = open.ok_or_else(|| conflict(&object, "its pool is not imported", "import it first"))?;
            let changed = engine.grow_object(&open, wanted, request.size_bytes).await;
            let changed = changed.map_err(|error| error.at("size_bytes"))?;
            engine.look_at_luns().await?;
            Ok(LunChanged { changed, lun: engine.lun(&target, lun)? })
        })
        .await
    }

    /// Removes a LUN from a target. What it stands for stays.
    ///
    /// # Errors
    /// If somebody is logged in or registered and it is not confirmed, or a pool that keeps the target takes no changes;
    /// nothing is changed then.
    pub async fn remove_lun(self: &Arc<Self>, target: String, lun: u16, confirmed: bool) -> ApiResult<Changed> {
        self.change(move |engine| async move { engine.end_lun(&target, lun, confirmed).await }).await
    }

    async fn end_lun(&self, name: &str, number: u16, confirmed: bool) -> ApiResult<Changed> {
        parse_name("target", name)?;
        let absent = || Ok(Changed { changed: false, message: format!("there is no LUN {name}/{number}") });
        let Ok(before) = self.known_target(name) else { return absent() };
        let Some(known) = before.luns.get(&number).cloned() else { return absent() };
        self.refuse_used(before.lun_object(number), &before, &[number], confirmed)?;
        let mut after = before.clone();
        after.changes += 1;
        after.luns.remove(&number);
        self.keep_target(Some(&before), Some(&after)).await?;
        let block = {
            let mut live = self.live_mut();
            let target = live.targets.get_mut(name);
            target.and_then(|target| {
                target.know(after);
                Some(target.luns.get(&number)?.unit.target().object().clone())
            })
        };
        self.withdraw_luns_of(name, &[number], Then::Gone).await;
        if let Some(block) = block {
            self.apply_qos(&block);
        }
        self.forget_reservations(&known, &before.lun_name(number)).await;
        self.note(&before.lun_object(number), &format!("removed; {} stays", known.path));
        Ok(Changed { changed: true, message: format!("LUN {name}/{number} is removed; {} stays", known.path) })
    }

    /// The LUNs that lie on a pool.
    pub(crate) fn luns_on_pool(&self, live: &Live, pool: Uuid) -> Vec<(String, u16)> {
        let luns = live.targets.values().flat_map(|target| {
            let own = target.known.luns.iter().filter(|(_, lun)| lun.pool == pool);
            own.map(|(number, _)| (target.known.name.clone(), *number))
        });
        luns.collect()
    }

    /// Refuses to close a pool with LUNs that initiators use.
    pub(crate) fn refuse_logged_in(&self, open: &OpenPool) -> ApiResult<()> {
        let sessions = self.front_ends.iscsi.sessions(None);
        let found = {
            let live = self.live();
            let own = live.targets.values().filter(|target| target.known.pools().contains(&open.pool.id()));
            let mut used = own.filter_map(|target| {
                let of = |session: &&holdfast_api::IscsiSession| session.target.as_ref() == Some(&target.known.iqn);
                let session = sessions.iter().find(of)?;
                Some((target.known.name.clone(), session.initiator.clone()))
            });
            used.next()
        };
        let Some((target, initiator)) = found else { return Ok(()) };
        let message = format!("initiators are logged in to target {target}, which has LUNs on it: {initiator}");
        let next = format!("log them out, or 'holdfast lun remove {target} NUMBER', first");
        Err(conflict(format!("pool {}", open.name()), message, next))
    }

    /// I/Os a second that the LUNs on an object are to get at least, together.
    pub(crate) fn least_of_luns(&self, object: Uuid) -> u64 {
        let live = self.live();
        let luns = live.targets.values().flat_map(|target| target.served());
        let own = luns.filter(|lun| lun.block.object().id() == object);
        own.fold(0, |min: u64, lun| min.saturating_add(lun.known.qos.min_iops.unwrap_or(0)))
    }

    /// The LUN of the name `TARGET/NUMBER`.
    pub(crate) fn lun_named(&self, name: &str) -> ApiResult<LunView> {
        let parsed = name.split_once('/').and_then(|(target, number)| Some((target, number.parse().ok()?)));
        let Some((target, number)) = parsed else {
            return Err(ApiError::invalid(format!("LUN {name}"), "it is no name of a LUN", "write TARGET/NUMBER"));
        };
        self.lun(target, number)
    }

    /// Hands all objects that are open what their exports and LUNs are to get at least.
    pub(super) fn apply_qos_of_all(&self) {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        for open in pools {
            for (_, service) in open.named_services() {
                self.apply_qos(&service);
            }
        }
    }
}
