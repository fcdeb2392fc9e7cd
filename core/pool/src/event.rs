//! What a pool tells its owner, and what it is handed from outside.

use std::sync::Arc;

use holdfast_device::{Clock, Io};
use holdfast_model::{ObjectRef, Uuid};

use crate::frame::Position;

/// How urgent an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For the record.
    Info,
    /// Less protection or room than wanted.
    Warning,
    /// Something does not do its job.
    Error,
}

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// How urgent it is.
    pub severity: Severity,
    /// The object.
    pub object: ObjectRef,
    /// What happened.
    pub cause: String,
    /// What the owner should do; empty where nothing is to be done.
    pub next_action: String,
}

/// Takes events.
pub trait EventSink: Send + Sync {
    /// Notes an event. Must not block.
    fn emit(&self, event: Event);
}

/// What the witness of a pool remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WitnessRecord {
    /// The highest generation that it agreed to.
    pub promised: u64,
    /// The last change that was committed with its vote.
    pub tip: Position,
}

/// The vote that breaks a tie between two equal halves of a pool. It keeps no configuration, only how far the pool was.
pub trait Witness: Send + Sync {
    /// What it remembers of a pool; `None` if it never heard of it.
    fn load(&self, pool: Uuid) -> Option<WitnessRecord>;

    /// Remembers; durable when answered.
    fn store(&self, pool: Uuid, record: WitnessRecord) -> Io<()>;
}

/// What a pool is handed from outside.
#[derive(Clone)]
pub struct Env {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Random bits, from which the ids of new objects are drawn.
    pub seed: u64,
    /// The vote beside the disks.
    pub witness: Arc<dyn Witness>,
    /// Where events go.
    pub events: Arc<dyn EventSink>,
}
