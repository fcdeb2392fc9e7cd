//! Targets and LUNs as the API shows them, with what is wrong with them.
//!
//! Invariant: a LUN that is not served, or of which not all can be read, is told at the LUN and at its target, with what
//! to do about it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use holdfast_api::{
    Condition, IscsiSession, Lun, LunAlert, PortalState, Target as TargetView, TargetInitiator, TargetPortal,
};
use holdfast_model::{Health, Uuid, natural_order};

use super::LiveTarget;
use super::connect::{Way, commands};
use super::known::{Backing, KnownLun};
use super::portals::is_reached;
use crate::engine::{Engine, Live};
use crate::protection::count;
use crate::qos::counters_from_block;

impl Engine {
    /// The targets, or the one of this name.
    pub(super) fn target_views(&self, only: Option<&str>) -> Vec<TargetView> {
        let sessions = self.front_ends.iscsi.sessions(None);
        let listening = self.front_ends.iscsi.addresses();
        let discovery = self.known_discovery().map(|account| account.user);
        let usual = self.usual_alerts();
        let live = self.live();
        let wanted = live.targets.values().filter(|target| only.is_none_or(|only| only == target.known.name));
        let around =
            Around { sessions: &sessions, listening: &listening, discovery: discovery.as_deref(), usual: &usual };
        let mut views: Vec<TargetView> = wanted.map(|target| view(&live, target, &around)).collect();
        views.sort_by(|a, b| natural_order(&a.name, &b.name));
        views
    }
}

/// What is known beside the target itself.
struct Around<'a> {
    sessions: &'a [IscsiSession],
    listening: &'a [SocketAddr],
    discovery: Option<&'a str>,
    /// When initiators are warned of LUNs without a percentage of their own, by pool.
    usual: &'a BTreeMap<Uuid, u8>,
}

fn view(live: &Live, target: &LiveTarget, around: &Around<'_>) -> TargetView {
    let known = &target.known;
    let own: Vec<&IscsiSession> =
        around.sessions.iter().filter(|session| session.target.as_deref() == Some(&known.iqn)).collect();
    let portals_set = !known.portals.is_empty();
    let mut portals: Vec<TargetPortal> = known
        .portals
        .iter()
        .map(|portal| TargetPortal {
            address: portal.address.to_string(),
            group: portal.group,
            state: known.state_of(portal.group),
            listening: is_reached(portal.address, around.listening),
        })
        .collect();
    if !portals_set {
        let all = |address: &SocketAddr| TargetPortal {
            address: address.to_string(),
            group: 1,
            state: known.state_of(1),
            listening: true,
        };
        portals = around.listening.iter().map(all).collect();
    }
    let luns: Vec<Lun> = known.luns.iter().map(|(number, lun)| lun_view(live, target, *number, lun, around)).collect();
    let served = target.unserved.is_none() && portals.iter().any(|portal| portal.listening);
    let (health, conditions) = trouble(target, &portals, &luns, served);
    let addresses: Vec<SocketAddr> = portals
        .iter()
        .filter(|portal| portal.listening && portal.state != PortalState::Unavailable)
        .filter_map(|portal| portal.address.parse().ok())
        .collect();
    let chap_user = known.initiators.values().find_map(|initiator| Some(initiator.chap.as_ref()?.user.as_str()));
    let mutual_user = known.mutual.as_ref().map(|account| account.user.as_str());
    let way = Way { iqn: &known.iqn, addresses: &addresses, chap_user, mutual_user, discovery: around.discovery };
    TargetView {
        name: known.name.clone(),
        id: known.id,
        iqn: known.iqn.clone(),
        open: known.open,
        portals,
        portals_set,
        initiators: known
            .initiators
            .iter()
            .map(|(iqn, initiator)| TargetInitiator {
                iqn: iqn.clone(),
                chap_user: initiator.chap.as_ref().map(|account| account.user.clone()),
                sessions: own.iter().filter(|session| session.initiator == *iqn).count() as u64,
            })
            .collect(),
        mutual_user: mutual_user.map(str::to_owned),
        luns,
        served,
        health,
        conditions,
        sessions: own.len() as u64,
        connect: if addresses.is_empty() { Vec::new() } else { commands(&way) },
    }
}

/// How well a target is, and why it is not healthy.
fn trouble(target: &LiveTarget, portals: &[TargetPortal], luns: &[Lun], served: bool) -> (Health, Vec<Condition>) {
    let known = &target.known;
    let name = &known.name;
    let mut told: Vec<(Health, Condition)> = Vec::new();
    let mut tell = |health: Health, cause: String, next: String| told.push((health, Condition::new(cause, next)));
    if let Some(why) = &target.unserved {
        tell(
            Health::Unhealthy,
            format!("target {name} is not served: {why}"),
            "destroy one of those that have its iSCSI name".into(),
        );
    } else if portals.is_empty() {
        let next = "start the daemon with --iscsi HOST:PORT";
        tell(Health::Unhealthy, format!("target {name} is not served: the daemon has no iSCSI address"), next.into());
    } else if !served {
        let next = format!("'holdfast target portal add {name} ADDRESS', then remove those of another server");
        tell(
            Health::Unhealthy,
            format!("target {name} is not served: the daemon listens at none of its portals"),
            next,
        );
    } else if let Some(deaf) = portals.iter().find(|portal| !portal.listening) {
        let next =
            format!("start the daemon with --iscsi {0}, or 'holdfast target portal remove {name} {0}'", deaf.address);
        tell(
            Health::Warning,
            format!("target {name}: the daemon does not listen at its portal {}", deaf.address),
            next,
        );
    }
    if !known.open && known.initiators.is_empty() {
        let next = format!("'holdfast initiator allow {name} IQN' lets one in");
        tell(Health::Warning, format!("target {name} lets nobody in: no initiator is allowed"), next);
    }
    for condition in target.unread.values() {
        told.push((
            Health::Unhealthy,
            Condition::new(format!("target {name}: {}", condition.cause), condition.next_action.clone()),
        ));
    }
    for lun in luns.iter().filter(|lun| lun.health != Health::Healthy) {
        let conditions = lun.conditions.iter().cloned();
        told.extend(conditions.map(|condition| (lun.health, condition.about(known.lun_object(lun.lun)))));
    }
    let health = told.iter().map(|(health, _)| *health).max().unwrap_or_default();
    (health, told.into_iter().map(|(_, condition)| condition).collect())
}

fn lun_view(live: &Live, target: &LiveTarget, number: u16, known: &KnownLun, around: &Around<'_>) -> Lun {
    let served = target.luns.get(&number);
    let block = served.map(|lun| lun.unit.target());
    let reservations = served.map(|lun| lun.unit.reservations());
    let (health, conditions) = lun_trouble(live, target, number, known);
    let alert = served.filter(|lun| lun.unit.settings().thin).map(|lun| LunAlert {
        percent: known.alert_by(around.usual),
        default: known.alert_percent.is_none(),
        reached: lun.unit.room().is_some_and(|room| room.is_crossed()),
    });
    Lun {
        name: target.known.lun_name(number),
        lun: number,
        id: known.id,
        backing: path_now(live, known),
        blocks: known.blocks,
        read_only: known.read_only,
        served: served.is_some(),
        health,
        conditions,
        size_bytes: block.map(|block| block.info().geometry.size_bytes),
        full: known.full,
        alert,
        reserved: reservations.is_some_and(|view| view.kind.is_some() || view.reserved_by.is_some()),
        counters: block.map(|block| counters_from_block(&block.counters())).unwrap_or_default(),
        qos: known.qos,
    }
}

/// What a LUN stands for, by the names that it has now.
fn path_now(live: &Live, known: &KnownLun) -> String {
    let open = live.pools.values().find(|open| open.pool.id() == known.pool);
    let now = open.and_then(|open| match &known.on {
        Backing::Space(id) => {
            let record = open.pool.spaces().into_iter().find(|record| record.uuid == *id)?;
            Some(format!("{}/{}", open.name(), record.name))
        }
        Backing::File { .. } => None,
    });
    now.unwrap_or_else(|| known.path.clone())
}

/// How well a LUN is, and why it is not healthy.
fn lun_trouble(live: &Live, target: &LiveTarget, number: u16, known: &KnownLun) -> (Health, Vec<Condition>) {
    let name = target.known.lun_name(number);
    let path = path_now(live, known);
    let bad = |cause: String, next: String| (Health::Unhealthy, vec![Condition::new(cause, next)]);
    let open = live.pools.values().find(|open| open.pool.id() == known.pool);
    let Some(lun) = target.luns.get(&number) else {
        if open.is_none() {
            let offline = live.offline.get(&known.pool);
            let pool = offline
                .map_or_else(|| path.split('/').next().unwrap_or_default().to_owned(), |pool| pool.known.name.clone());
            let remove = format!("'holdfast lun remove {} {number}'", target.known.name);
            let cause = format!("LUN {name} is not served: pool {pool} of {path} is not imported");
            let Some(offline) = offline else {
                let cause = format!("{cause}; initiators are told that it is not ready until somebody imports it");
                return bad(cause, format!("'holdfast pool import {pool}' where its disks are, or {remove}"));
            };
            let next = format!("attach the pool's disks and import it, or {remove}");
            return bad(format!("{cause} ({})", offline.reason.message), next);
        }
        let told = target.unread.get(&known.pool).or_else(|| target.troubles.get(&number));
        let (cause, next) = told.map_or_else(
            || (format!("{path} is not open"), "see the health of its pool".to_owned()),
            |told| (told.cause.clone(), told.next_action.clone()),
        );
        return bad(format!("LUN {name} is not served: {cause}"), next);
    };
    if let Some(why) = lun.unit.reservations().unreadable {
        let cause = format!("LUN {name} refuses initiators: its reservations cannot be read ({why})");
        return bad(cause, format!("'holdfast reservation clear {} {number} --yes' gives them up", target.known.name));
    }
    let (volume, space, what) = match &known.on {
        Backing::Space(id) => (None, open.and_then(|open| open.space_with(*id)), "space"),
        Backing::File { volume, .. } => {
            let found = open.and_then(|open| open.volume_and_space(*volume));
            let (volume, space) = found.map_or((None, None), |(volume, space)| (Some(volume), space));
            (volume, space, "the space below")
        }
    };
    match space.map_or(0, |space| space.unreadable_rows()) {
        0 => match volume.as_ref().and_then(|volume| volume.failure()) {
            None => (Health::Healthy, Vec::new()),
            Some(why) => {
                let cause = format!("LUN {name} takes no writes: the volume of {path} takes no changes: {why}");
                bad(cause, "see the health of its volume".into())
            }
        },
        rows => {
            let cause =
                format!("LUN {name} answers with errors: {} of {what} {path} cannot be read", count(rows, "row"));
            let all_there = open.is_some_and(|open| open.pool.pool_disks().iter().all(|disk| disk.in_service()));
            let next =
                if all_there { "see the health of its space" } else { "attach the missing disks of its pool again" };
            bad(cause, next.into())
        }
    }
}
