//! What a job does and to what, as it is written down.
//!
//! A kind is added here with its total and its work, and has a file of its own beside this one. Invariant: whether two
//! jobs are about one thing follows from kinds and ids; names are for people.

use std::sync::Arc;

use holdfast_api::{ApiError, Code, IntegrityMode, JobKind, Severity};
use holdfast_device::reactor::ReactorHandle;
use holdfast_model::{ObjectKind, ObjectRef, Provisioning, Uuid};
use holdfast_pool::SpaceRecord;
use holdfast_space::{Ended, Space};
use holdfast_volume::service::FileId;
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::{
    convert, evacuate, gather, inherit, integrity, rebalance, reclaim, repair, replace, restore, scrub, scrub_files,
    shrink, trim, upgrade, volumes,
};
use crate::engine::OpenPool;
use crate::error::from_space;
use crate::events::EventLog;

/// What a job works on: a pool, or a space, volume or disk of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    /// The pool's id.
    pub(crate) pool: Uuid,
    /// The pool's name when the job was asked for.
    pub(crate) pool_name: String,
    /// What it is: a pool, a space, a volume or a disk.
    pub(crate) kind: ObjectKind,
    /// Its id.
    pub(crate) id: Uuid,
    /// Its name when the job was asked for: `POOL`, `POOL/SPACE`, or the path of the disk.
    pub(crate) name: String,
}

impl Target {
    fn of(open: &OpenPool, kind: ObjectKind, id: Uuid, name: String) -> Self {
        Self { pool: open.pool.id(), pool_name: open.name(), kind, id, name }
    }

    /// A pool.
    pub(crate) fn pool(open: &OpenPool) -> Self {
        Self::of(open, ObjectKind::Pool, open.pool.id(), open.name())
    }

    /// A space of a pool.
    pub(crate) fn space(open: &OpenPool, record: &SpaceRecord) -> Self {
        Self::of(open, ObjectKind::Space, record.uuid, format!("{}/{}", open.name(), record.name))
    }

    /// A volume of a pool.
    pub(crate) fn volume(open: &OpenPool, id: Uuid, name: &str) -> Self {
        Self::of(open, ObjectKind::Volume, id, format!("{}/{name}", open.name()))
    }

    /// A disk of a pool.
    pub(crate) fn disk(open: &OpenPool, id: Uuid, path: &str) -> Self {
        Self::of(open, ObjectKind::Disk, id, path.into())
    }

    /// It, as answers and events name it.
    pub(crate) fn object(&self) -> ObjectRef {
        ObjectRef::new(self.kind, self.id.to_string(), &self.name)
    }

    /// Its pool, as answers name it.
    pub(super) fn pool_object(&self) -> ObjectRef {
        ObjectRef::pool(self.pool, &self.pool_name)
    }

    /// The id of the space that it is, if it is one.
    pub(super) fn as_space(&self) -> Option<Uuid> {
        (self.kind == ObjectKind::Space).then_some(self.id)
    }

    /// Whether there may be a space that work on both goes over.
    fn meets(&self, other: &Self) -> bool {
        // What is done to files moves no rows.
        if [self.kind, other.kind].contains(&ObjectKind::Volume) {
            return false;
        }
        let both = self.as_space().zip(other.as_space());
        self.pool == other.pool && both.is_none_or(|(one, other)| one == other)
    }
}

/// What a job does, and to what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    /// What kind of work it is.
    pub(crate) kind: JobKind,
    /// What it is done to.
    pub(crate) target: Target,
    /// Of a conversion, whether the space has all its rows in the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) provisioning: Option<Provisioning>,
    /// Of work that takes a volume away for it, whether also from programs that use it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) force: bool,
    /// Of a salvage, the directory of this machine that takes what is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// Of a shrink, the size that is to be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size_bytes: Option<u64>,
    /// The directory of a volume that it begins at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    /// What a restore restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restoring: Option<Restoring>,
    /// What files are to keep to prove their data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) integrity: Option<IntegrityMode>,
}

/// Files that are made as a snapshot has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Restoring {
    /// The snapshot.
    pub(crate) snapshot: String,
    /// The file or directory, from the volume's root on.
    pub(crate) path: String,
    /// Where it is to go instead, where nothing is.
    pub(crate) to: Option<String>,
    /// The snapshot that is made of what is there before.
    pub(crate) keep: Option<String>,
}

impl Restoring {
    /// Whether the same files are to become the same.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        let what = |one: &Self| (one.snapshot.clone(), one.path.clone(), one.to.clone());
        what(self) == what(other)
    }
}

/// Where a job works.
pub(super) struct Site {
    /// The pool, in service.
    pub(super) open: Arc<OpenPool>,
    /// The space, or all those of the pool.
    pub(super) spaces: Vec<Arc<Space>>,
    /// Where work is done that would keep a reactor from serving.
    pub(super) runtime: tokio::runtime::Handle,
    /// All reactors, for mounts.
    pub(super) reactors: Vec<ReactorHandle>,
    /// Files of the volume that are LUNs, served or not.
    pub(super) luns: Vec<FileId>,
    /// Where is told what cannot wait for the outcome.
    pub(super) events: Arc<EventLog>,
}

impl Site {
    /// Does what needs the runtime rather than a reactor, to its end.
    pub(super) async fn outside<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Cut> {
        let gone = |error: tokio::task::JoinError| {
            Cut::Failed(ApiError::new(Code::Failed, self.open.object(), error.to_string(), "see the daemon's log"))
        };
        self.runtime.spawn(work).await.map_err(gone)
    }
}

/// Something that a job found, for its owner to hear.
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) cause: String,
    pub(super) next_action: String,
}

/// What came of a job.
pub(super) struct Outcome {
    /// In a sentence.
    pub(super) result: String,
    /// What its owner should hear of each thing; a bounded number.
    pub(super) findings: Vec<Finding>,
}

/// Why work came to no outcome.
#[derive(Debug)]
pub(super) enum Cut {
    /// It was stopped, and can go on.
    Stopped,
    /// It cannot go on.
    Failed(ApiError),
}

impl Cut {
    /// The same of work on spaces, about `object`.
    fn of_spaces(object: ObjectRef, ended: Ended) -> Self {
        match ended {
            Ended::Stopped => Self::Stopped,
            Ended::Failed(error) => Self::Failed(from_space(object, error)),
        }
    }
}

impl JobSpec {
    /// Work of a kind that its target says all about.
    pub(crate) fn new(kind: JobKind, target: Target) -> Self {
        Self {
            kind,
            target,
            provisioning: None,
            force: false,
            to: None,
            size_bytes: None,
            path: None,
            restoring: None,
            integrity: None,
        }
    }

    /// The conversion of a space to the shape that the pool knows for it.
    pub(super) fn convert(space: Target, provisioning: Provisioning) -> Self {
        Self { provisioning: Some(provisioning), ..Self::new(JobKind::Convert, space) }
    }

    /// How texts call it: `scrub of tank/vm`, `evacuate of disk /dev/sda`.
    pub(super) fn title(&self) -> String {
        let Target { kind, name, .. } = &self.target;
        let disk = if *kind == ObjectKind::Disk { "disk " } else { "" };
        format!("{} of {disk}{name}", holdfast_api::word(&self.kind))
    }

    /// Whether this is the same kind of work on the same object.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let key = |spec: &Self| (spec.kind, spec.target.pool, spec.target.id);
        key(self) == key(other)
    }

    /// Whether this is a job of that kind on the object with that id.
    pub(super) fn is(&self, kind: JobKind, id: Uuid) -> bool {
        (self.kind, self.target.id) == (kind, id)
    }

    /// Whether it moves rows or slabs; of a space, one such job at a time does.
    pub(super) fn moves_rows(&self) -> bool {
        matches!(self.kind, JobKind::Convert | JobKind::Evacuate | JobKind::Replace | JobKind::Rebalance)
    }

    /// Whether there may be a space that both this and work on `target` go over.
    pub(super) fn meets(&self, target: &Target) -> bool {
        self.target.meets(target)
    }

    /// Bytes that its work goes over.
    pub(super) fn total_bytes(&self, site: &Site) -> u64 {
        match self.kind {
            JobKind::Scrub => scrub::total_bytes(site),
            JobKind::Convert => convert::total_bytes(site),
            JobKind::Repair => repair::total_bytes(site),
            JobKind::Evacuate => evacuate::total_bytes(site, self.target.id),
            JobKind::Replace => replace::total_bytes(site, self.target.id),
            // What is to move is planned by the work itself.
            JobKind::Rebalance => 0,
            JobKind::Upgrade => upgrade::total_bytes(site),
            // How much metadata there is shows on the way.
            JobKind::Scan
            | JobKind::Spotfix
            | JobKind::SpotfixOffline
            | JobKind::Salvage
            | JobKind::Shrink
            | JobKind::Quota
            | JobKind::Trim
            | JobKind::Reclaim
            | JobKind::Restore
            | JobKind::Inherit
            | JobKind::Integrity
            | JobKind::ScrubFiles
            | JobKind::Gather => 0,
        }
    }

    /// Does its work, on a reactor.
    pub(super) async fn run(&self, site: &Site, pace: &Control) -> Result<Outcome, Cut> {
        let target = &self.target;
        if matches!(
            self.kind,
            JobKind::Convert | JobKind::Repair | JobKind::Evacuate | JobKind::Replace | JobKind::Rebalance
        ) {
            scrub_files::before_moving(site, self.kind, pace).await?;
        }
        let brought = match self.kind {
            JobKind::Scrub => scrub::run(site, pace).await,
            JobKind::Convert => convert::run(site, self.provisioning, pace).await,
            JobKind::Repair => repair::run(site, pace).await,
            JobKind::Evacuate => evacuate::run(site, target.id, pace).await,
            JobKind::Replace => replace::run(site, target.id, pace).await,
            JobKind::Rebalance => rebalance::run(site, pace).await,
            JobKind::Upgrade => upgrade::run(site, pace).await,
            JobKind::Scan => return volumes::scan(site, target, pace).await,
            JobKind::Spotfix => return volumes::spotfix(site, target, pace).await,
            JobKind::Quota => return volumes::count(site, target, pace).await,
            JobKind::Trim => return trim::run(site, target, pace).await,
            JobKind::SpotfixOffline => return volumes::spotfix_offline(site, self, pace).await,
            JobKind::Salvage => return volumes::salvage(site, self, pace).await,
            JobKind::Shrink => return shrink::run(site, self, pace).await,
            JobKind::Reclaim => return reclaim::run(site, target, pace).await,
            JobKind::Restore => return restore::run(site, self, pace).await,
            JobKind::Inherit => return inherit::run(site, self, pace).await,
            JobKind::Integrity => return integrity::run(site, self, pace).await,
            JobKind::ScrubFiles => return scrub_files::run(site, target, pace).await,
            JobKind::Gather => return gather::run(site, target, pace).await,
        };
        brought.map_err(|ended| Cut::of_spaces(target.object(), ended))
    }
}
