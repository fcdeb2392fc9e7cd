//! What a job does, as it is written down: one variant a kind.
//!
//! A kind is added here with its object, its total and its work, and has a file of its own beside this one.

use std::sync::Arc;

use holdfast_api::{JobKind, Severity};
use holdfast_model::{Provisioning, Uuid};
use holdfast_pool::SpaceRecord;
use holdfast_space::{Ended, Space};
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::{convert, evacuate, rebalance, repair, replace, scrub, upgrade};
use crate::engine::OpenPool;

/// A space that a job works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpaceRef {
    /// The pool's id.
    pub(crate) pool: Uuid,
    /// The space's id.
    pub(crate) space: Uuid,
    /// `POOL/SPACE`, for people.
    pub(crate) path: String,
}

impl SpaceRef {
    /// A space of a pool.
    pub(crate) fn of(open: &OpenPool, record: &SpaceRecord) -> Self {
        Self { pool: open.pool.id(), space: record.uuid, path: format!("{}/{}", open.name(), record.name) }
    }
}

/// A pool that a job works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoolRef {
    /// Its id.
    pub(crate) pool: Uuid,
    /// `POOL`, for people.
    pub(crate) path: String,
}

impl PoolRef {
    /// A pool.
    pub(crate) fn of(open: &OpenPool) -> Self {
        Self { pool: open.pool.id(), path: open.name() }
    }
}

/// A disk of a pool that a job works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberRef {
    /// The pool's id.
    pub(crate) pool: Uuid,
    /// The disk's id in the pool.
    pub(crate) disk: Uuid,
    /// `POOL/disk PATH`, for people.
    pub(crate) path: String,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum JobSpec {
    /// Reads all data of a space with their copies or parity.
    Scrub(SpaceRef),
    /// Moves the rows of a space to the shape that the pool knows for it.
    Convert {
        /// The space.
        #[serde(flatten)]
        space: SpaceRef,
        /// Whether it has all its rows in the end.
        provisioning: Provisioning,
    },
    /// Rebuilds what a space lost with disks on others.
    Repair(SpaceRef),
    /// Moves all data off a disk.
    Evacuate(MemberRef),
    /// The same, or makes anew what it held, and takes it out of its pool for good.
    Replace(MemberRef),
    /// Evens out how full the disks of a pool are.
    Rebalance(PoolRef),
    /// Lets a pool use all features that are known here.
    Upgrade(PoolRef),
}

/// Where a job works.
pub(super) struct Site {
    /// The pool, in service.
    pub(super) open: Arc<OpenPool>,
    /// The space, or all those of the pool.
    pub(super) spaces: Vec<Arc<Space>>,
    /// Where work is done that would keep a reactor from serving.
    pub(super) runtime: tokio::runtime::Handle,
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

impl JobSpec {
    /// What kind of work it is.
    pub(super) fn kind(&self) -> JobKind {
        match self {
            Self::Scrub(_) => JobKind::Scrub,
            Self::Convert { .. } => JobKind::Convert,
            Self::Repair(_) => JobKind::Repair,
            Self::Evacuate(_) => JobKind::Evacuate,
            Self::Replace(_) => JobKind::Replace,
            Self::Rebalance(_) => JobKind::Rebalance,
            Self::Upgrade(_) => JobKind::Upgrade,
        }
    }

    /// The space that it is done to, where it is one.
    pub(super) fn space(&self) -> Option<&SpaceRef> {
        match self {
            Self::Scrub(space) | Self::Convert { space, .. } | Self::Repair(space) => Some(space),
            Self::Evacuate(_) | Self::Replace(_) | Self::Rebalance(_) | Self::Upgrade(_) => None,
        }
    }

    /// What it is done to: `POOL`, `POOL/SPACE`, or `POOL/disk PATH`.
    pub(super) fn object(&self) -> &str {
        match self {
            Self::Scrub(space) | Self::Convert { space, .. } | Self::Repair(space) => &space.path,
            Self::Evacuate(member) | Self::Replace(member) => &member.path,
            Self::Rebalance(pool) | Self::Upgrade(pool) => &pool.path,
        }
    }

    /// The id of the pool that it is done in.
    pub(super) fn pool(&self) -> Uuid {
        match self {
            Self::Scrub(space) | Self::Convert { space, .. } | Self::Repair(space) => space.pool,
            Self::Evacuate(member) | Self::Replace(member) => member.pool,
            Self::Rebalance(pool) | Self::Upgrade(pool) => pool.pool,
        }
    }

    /// What it is done to, as events call that.
    pub(super) fn subject(&self) -> String {
        match self {
            Self::Scrub(space) | Self::Convert { space, .. } | Self::Repair(space) => format!("space {}", space.path),
            Self::Evacuate(member) | Self::Replace(member) => format!("disk {}", member.disk),
            Self::Rebalance(pool) | Self::Upgrade(pool) => format!("pool {}", pool.path),
        }
    }

    /// Whether this is the same kind of work on the same object.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.kind(), self.pool(), self.target()) == (other.kind(), other.pool(), other.target())
    }

    /// Whether it moves rows or slabs; of a space, one such job at a time does.
    pub(super) fn moves_rows(&self) -> bool {
        matches!(self, Self::Convert { .. } | Self::Evacuate(_) | Self::Replace(_) | Self::Rebalance(_))
    }

    /// Whether there may be a space that both work on.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let both = self.space().zip(other.space());
        self.pool() == other.pool() && both.is_none_or(|(one, other)| one.space == other.space)
    }

    /// The id of what it is done to.
    fn target(&self) -> Uuid {
        match self {
            Self::Scrub(space) | Self::Convert { space, .. } | Self::Repair(space) => space.space,
            Self::Evacuate(member) | Self::Replace(member) => member.disk,
            Self::Rebalance(pool) | Self::Upgrade(pool) => pool.pool,
        }
    }

    /// Bytes that its work goes over.
    pub(super) fn total_bytes(&self, site: &Site) -> u64 {
        match self {
            Self::Scrub(_) => scrub::total_bytes(site),
            Self::Convert { .. } => convert::total_bytes(site),
            Self::Repair(_) => repair::total_bytes(site),
            Self::Evacuate(member) => evacuate::total_bytes(site, member.disk),
            Self::Replace(member) => replace::total_bytes(site, member.disk),
            // What is to move is planned by the work itself.
            Self::Rebalance(_) => 0,
            Self::Upgrade(_) => upgrade::total_bytes(site),
        }
    }

    /// Does its work, on a reactor.
    pub(super) async fn run(&self, site: &Site, pace: &Control) -> Result<Outcome, Ended> {
        match self {
            Self::Scrub(_) => scrub::run(site, pace).await,
            Self::Convert { provisioning, .. } => convert::run(site, *provisioning, pace).await,
            Self::Repair(_) => repair::run(site, pace).await,
            Self::Evacuate(member) => evacuate::run(site, member.disk, pace).await,
            Self::Replace(member) => replace::run(site, member.disk, pace).await,
            Self::Rebalance(_) => rebalance::run(site, pace).await,
            Self::Upgrade(_) => upgrade::run(site, pace).await,
        }
    }
}
