//! Health of every object, and of the daemon itself.

use holdfast_model::{Health, ObjectRef, Reason};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cause::Cause;
use crate::schema::{self, ObjectRefSchema};

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Condition {
    /// What is wrong, naming the object.
    pub cause: String,
    /// What its owner should do.
    pub next_action: String,
    /// Which condition it is, where programs act on it.
    #[schema(schema_with = schema::reason_or_none)]
    pub reason: Option<Reason>,
    /// The part that it is about, where it is told of the whole: a disk or a space of a pool.
    #[schema(value_type = Option<ObjectRefSchema>)]
    pub about: Option<ObjectRef>,
}

impl Condition {
    /// A condition of this cause and next action.
    pub fn new(cause: impl Into<String>, next_action: impl Into<String>) -> Self {
        Self { cause: cause.into(), next_action: next_action.into(), reason: None, about: None }
    }

    /// The same, for programs to know.
    #[must_use]
    pub fn because(self, reason: Reason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The same, of a part of what it is told of.
    #[must_use]
    pub fn about(self, part: ObjectRef) -> Self {
        Self { about: Some(part), ..self }
    }
}

impl From<holdfast_model::Condition> for Condition {
    fn from(condition: holdfast_model::Condition) -> Self {
        let holdfast_model::Condition { cause, next_action, reason, about } = condition;
        Self { cause, next_action, reason, about }
    }
}

/// How well one object is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ObjectHealth {
    /// The object.
    #[schema(value_type = ObjectRefSchema)]
    pub object: ObjectRef,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy.
    pub conditions: Vec<Condition>,
}

/// The daemon itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Daemon {
    /// What the server is called.
    pub host_name: String,
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Since when it runs, RFC 3339.
    pub started: String,
    /// Where its state lies.
    pub state_dir: String,
    /// Threads that serve I/O.
    pub reactors: u32,
    /// Where NBD clients connect, as URIs without the export's name.
    pub nbd_addresses: Vec<String>,
    /// Memory that it holds, in bytes.
    pub resident_bytes: u64,
}

/// Everything at a glance: the worst health, what is wrong once each, and each object's own health.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The worst of all objects.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// What is wrong, the worst first. All effects of one cause are listed once, under the cause.
    pub causes: Vec<Cause>,
    /// Every pool, disk of a pool, space and export.
    pub objects: Vec<ObjectHealth>,
    /// The daemon.
    pub daemon: Daemon,
}
