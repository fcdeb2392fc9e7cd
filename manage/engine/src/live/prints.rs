//! Whether the lists that consoles show are as they were, told without making them.
//!
//! Invariants: what a list shows and does not only count goes into its print; what only counts does not. A list that
//! changed and changed back between two looks has another print than before, for a console may have fetched it in
//! between.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_api::{Event, JobState, ListKind};
use holdfast_model::ObjectKind;

use super::Live;
use crate::engine::{Engine, OpenPool};
use crate::error::ApiResult;

/// One print for each list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prints([u64; ListKind::ALL.len()]);

impl Prints {
    /// The lists that changed.
    pub(super) fn changed_since(&self, before: &Self) -> Vec<ListKind> {
        let prints = self.0.iter().zip(&before.0);
        ListKind::ALL.into_iter().zip(prints).filter(|(_, (now, then))| now != then).map(|(kind, _)| kind).collect()
    }
}

/// How often something happened of which only an event tells.
#[derive(Default)]
pub(super) struct Happened([AtomicU64; ListKind::ALL.len()]);

impl Happened {
    fn count(&self, kind: ListKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Live {
    /// What an event is about is not as it was.
    pub(super) fn note(&self, event: &Event) {
        match event.object.kind {
            ObjectKind::Disk => self.happened.count(ListKind::Disks),
            ObjectKind::Pool => self.happened.count(ListKind::Pools),
            ObjectKind::Space => self.happened.count(ListKind::Spaces),
            ObjectKind::Volume => self.happened.count(ListKind::Volumes),
            ObjectKind::Export => self.happened.count(ListKind::Exports),
            ObjectKind::Target | ObjectKind::Lun => self.happened.count(ListKind::Targets),
            ObjectKind::Job => self.happened.count(ListKind::Jobs),
            ObjectKind::Server | ObjectKind::Enclosure => {}
            // Those who change these say so themselves.
            ObjectKind::Account | ObjectKind::Session | ObjectKind::Token | ObjectKind::Channel | ObjectKind::Rule => {}
        }
    }

    /// Channels, rules or deliveries are not as they were, nor perhaps the health of channels.
    pub(crate) fn notifications_changed(&self) {
        self.happened.count(ListKind::Notifications);
        self.happened.count(ListKind::Status);
        self.changed.notify_one();
    }

    /// Accounts or tokens are not as they were.
    pub(super) fn accounts_changed(&self) {
        self.happened.count(ListKind::Accounts);
        self.changed.notify_one();
    }
}

/// Adds what is shown of a pool and of all in it.
fn pool(
    open: &OpenPool,
    disks: &mut impl Hasher,
    pools: &mut impl Hasher,
    spaces: &mut impl Hasher,
    exports: &mut impl Hasher,
) {
    let (name, position) = (open.name(), open.pool.status().position);
    let sequence = (position.generation, position.sequence);
    for disk in open.pool.disks() {
        let record = &disk.record;
        (&name, record.id, &record.path, disk.free_bytes).hash(disks);
        format!("{:?}{:?}{:?}{:?}{:?}", record.state, record.usage, disk.health, disk.details, disk.conditions)
            .hash(disks);
    }
    (&name, sequence, open.pool.refusal().is_some()).hash(pools);
    for space in open.spaces().values() {
        let record = space.record();
        (&name, record.name.as_str(), record.size_bytes, sequence, space.is_resyncing(), space.is_read_only())
            .hash(spaces);
        space.losses_noted().hash(spaces);
        space.losses_noted().hash(exports);
    }
    open.pool.pool_disks().iter().filter(|disk| disk.in_service()).count().hash(exports);
}

impl Engine {
    /// The prints of all lists as they are now.
    pub(super) async fn prints(&self) -> ApiResult<Prints> {
        let [mut disks, mut pools, mut spaces, mut volumes, mut exports, mut targets, mut jobs] =
            std::array::from_fn(|_| DefaultHasher::new());
        let open: Vec<_> = self.live().pools.values().cloned().collect();
        open.iter().for_each(|open| pool(open, &mut disks, &mut pools, &mut spaces, &mut exports));
        drop(open);
        for volume in self.volumes() {
            (&volume.name, &volume.space, volume.state, volume.size_bytes, format!("{:?}", volume.mount))
                .hash(&mut volumes);
            format!("{:?}", volume.conditions).hash(&mut volumes);
            volume.shrink.map(|shrink| (shrink.job, shrink.state)).hash(&mut volumes);
        }
        for (id, answered) in self.smart.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            (id, answered.count).hash(&mut disks);
        }
        let files = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            format!("{:?}", state.hints).hash(&mut disks);
            format!("{:?}", state.chosen).hash(&mut pools);
            format!("{:?}", state.chosen).hash(&mut spaces);
            state.file_disks.clone()
        };
        let block_devices = self.settings.block_devices;
        self.blocking(move || there(files, block_devices)).await?.hash(&mut disks);
        {
            let live = self.live();
            for offline in live.offline.values() {
                (&offline.known.name, &offline.reason.message).hash(&mut pools);
            }
            for export in live.exports.values() {
                (format!("{:?}", export.known), export.target.is_some()).hash(&mut exports);
                // What waits for its name shows with its pool.
                (&export.known.name, export.known.pool).hash(&mut pools);
            }
            for target in live.targets.values() {
                format!("{:?}", target.known).hash(&mut targets);
                target.served().for_each(|lun| (lun.name, lun.block.info().geometry.size_bytes).hash(&mut targets));
                (&target.known.name, target.known.id).hash(&mut pools);
            }
        }
        for (protocol, status) in self.front_ends.exports() {
            (protocol, status.name, status.connections, status.attached).hash(&mut exports);
        }
        // What is wrong with a LUN is mostly wrong with its space.
        exports.finish().hash(&mut targets);
        for session in self.front_ends.iscsi.sessions(None) {
            (session.id, session.since).hash(&mut targets);
        }
        for job in self.jobs(None, None) {
            (job.id, job.pace.cap_bytes_per_second).hash(&mut jobs);
            format!("{:?}{:?}", job.state, job.pace.priority).hash(&mut jobs);
            (job.id, job.state.has_ended(), job.state == JobState::Paused).hash(&mut spaces);
        }
        let happened = |kind: ListKind| self.consoles.happened.0[kind as usize].load(Ordering::Relaxed);
        let lists = [disks, pools, spaces, volumes, exports, targets, jobs].map(|list| list.finish());
        let mut status = DefaultHasher::new();
        lists.hash(&mut status);
        self.jobs.outlooks().hash(&mut status);
        let [disks, pools, spaces, volumes, exports, targets, jobs] = lists;
        let print = |kind: ListKind| {
            let list = match kind {
                ListKind::Disks => disks,
                ListKind::Pools => pools,
                ListKind::Spaces => spaces,
                ListKind::Volumes => volumes,
                ListKind::Exports => exports,
                ListKind::Targets => targets,
                ListKind::Jobs => jobs,
                ListKind::Status => status.finish(),
                ListKind::Accounts | ListKind::Notifications => 0,
            };
            list.wrapping_add(happened(kind))
        };
        Ok(Prints(ListKind::ALL.map(print)))
    }
}

/// Which of the files are there, and the names of all block devices.
fn there(files: Vec<String>, block_devices: bool) -> u64 {
    let mut print = DefaultHasher::new();
    for file in files {
        std::fs::metadata(&file).map(|data| (data.dev(), data.ino())).ok().hash(&mut print);
    }
    if let Some(devices) = block_devices.then(|| std::fs::read_dir("/sys/block").ok()).flatten() {
        devices.flatten().for_each(|device| device.file_name().hash(&mut print));
    }
    print.finish()
}
