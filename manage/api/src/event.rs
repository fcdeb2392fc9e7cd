//! What happened, why, and what to do next.

use holdfast_model::ObjectRef;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema::ObjectRefSchema;

/// How urgent an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// For the record.
    Info,
    /// Less protection or room than wanted.
    Warning,
    /// Something does not do its job.
    Error,
}

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Counts up, also over restarts of the daemon.
    pub id: u64,
    /// When, RFC 3339 in UTC.
    pub time: String,
    /// How urgent it is.
    pub severity: Severity,
    /// What it happened to.
    #[schema(value_type = ObjectRefSchema)]
    pub object: ObjectRef,
    /// What happened.
    pub cause: String,
    /// What its owner should do; empty where nothing is to be done.
    pub next_action: String,
}
