//! What a job does, as it is written down: one variant a kind.
//!
//! A kind is added here with its object, its total and its work, and has a file of its own beside this one.

use std::sync::Arc;

use holdfast_api::{JobKind, Severity};
use holdfast_model::Uuid;
use holdfast_space::{Ended, Pace, Space};
use serde::{Deserialize, Serialize};

use super::scrub;
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

/// What a job does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum JobSpec {
    /// Reads all data of a space with their copies or parity.
    Scrub(SpaceRef),
}

/// Where a job works.
pub(super) struct Site {
    /// The pool, in service.
    pub(super) open: Arc<OpenPool>,
    /// The space.
    pub(super) space: Arc<Space>,
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
    fn space(&self) -> &SpaceRef {
        match self {
            Self::Scrub(space) => space,
        }
    }

    /// What kind of work it is.
    pub(super) fn kind(&self) -> JobKind {
        match self {
            Self::Scrub(_) => JobKind::Scrub,
        }
    }

    /// Whether this is the same kind of work on the same object.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let key = |spec: &Self| (spec.kind(), spec.pool(), spec.object().to_string());
        key(self) == key(other)
    }

    /// What it is done to: `POOL/SPACE`.
    pub(super) fn object(&self) -> &str {
        &self.space().path
    }

    /// The id of the pool that it is done in.
    pub(super) fn pool(&self) -> Uuid {
        self.space().pool
    }

    /// The id of the space that it is done to.
    pub(super) fn space_id(&self) -> Uuid {
        self.space().space
    }

    /// Bytes that its work goes over.
    pub(super) fn total_bytes(&self, site: &Site) -> u64 {
        match self {
            Self::Scrub(_) => scrub::total_bytes(site),
        }
    }

    /// Does its work, on a reactor.
    pub(super) async fn run(&self, site: &Site, pace: &dyn Pace) -> Result<Outcome, Ended> {
        match self {
            Self::Scrub(_) => scrub::run(site, pace).await,
        }
    }
}
