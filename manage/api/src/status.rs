//! Health of every object, and of the daemon itself.

use holdfast_model::{Condition, Health, ObjectRef};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cause::Cause;
use crate::schema::{self, ConditionSchema, ObjectRefSchema};

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
    #[schema(value_type = Vec<ConditionSchema>)]
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
    /// Where iSCSI initiators connect.
    pub iscsi_addresses: Vec<String>,
    /// iSCSI targets.
    pub targets: u64,
    /// Sessions of iSCSI initiators now.
    pub iscsi_sessions: u64,
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
    /// Every pool, disk of a pool, space, export, target and LUN.
    pub objects: Vec<ObjectHealth>,
    /// The daemon.
    pub daemon: Daemon,
}
