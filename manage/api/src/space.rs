//! Spaces: virtual disks on a pool.

use holdfast_model::{Condition, Health, Integrity, Provisioning, SpaceState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::job::{JobState, SetPace};
use crate::protection::Protection;
use crate::qos::{Qos, QosSchema, SetQos};
use crate::schema::{self, ConditionSchema};

/// The resilience of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutKind {
    /// Striped, one copy.
    Simple,
    /// Striped, two or three copies.
    Mirror,
    /// Striped, one or two of the columns computed from the others.
    Parity,
}

/// What a space did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceCounters {
    /// Reads answered.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes answered.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Discards and write-zeroes answered.
    pub discards: u64,
    /// Bytes of them.
    pub discarded_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// The journal of a parity space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceJournal {
    /// Its size, each copy counted once.
    pub size_bytes: u64,
    /// Bytes of it that a crash would need now; nothing while it was not looked at since the daemon started.
    pub used_bytes: Option<u64>,
    /// Bytes written to the space that are in memory and not in place on the disks yet.
    pub dirty_bytes: u64,
}

/// When a space was scrubbed, and when it is next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceScrub {
    /// When the last scrub ended, RFC 3339; none if there was none yet.
    pub last_at: Option<String>,
    /// How it ended; none if there was none yet.
    pub last_state: Option<JobState>,
    /// What it found; none where it did not come to its end.
    pub last_result: Option<String>,
    /// When the next one is due, RFC 3339; none if none is scheduled, or one is under way.
    pub next_at: Option<String>,
    /// The job that scrubs it now.
    pub job: Option<u64>,
}

/// A space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Space {
    /// `POOL/SPACE`.
    pub name: String,
    /// Its id.
    pub id: Uuid,
    /// Its resilience.
    pub layout: LayoutKind,
    /// Disks that hold each block.
    pub copies: u8,
    /// Columns of parity: 1 or 2 with parity, else 0.
    pub parity: u8,
    /// Stripe units side by side, those of parity included.
    pub columns: u16,
    /// Bytes of a stripe unit.
    pub interleave_bytes: u64,
    /// Whether each block has a checksum; what it is changing to while it is converted.
    #[schema(schema_with = schema::integrity)]
    pub integrity: Integrity,
    /// Whether its slabs are allotted at creation or at the first write.
    #[schema(schema_with = schema::provisioning)]
    pub provisioning: Provisioning,
    /// Its size, as clients see it.
    pub size_bytes: u64,
    /// The unit in which it takes room.
    pub chunk_bytes: u64,
    /// Whether its slabs are spread so that the loss of a whole enclosure is survived.
    pub enclosure_aware: bool,
    /// Bytes of data that it has room for; less than its size while it is thin.
    pub allocated_bytes: u64,
    /// Bytes that it takes of the pool, with copies, parity and all else counted.
    pub raw_bytes: u64,
    /// Its journal, where it has parity.
    pub journal: Option<SpaceJournal>,
    /// Bytes whose copies or parity may differ if power fails now.
    pub dirty_bytes: u64,
    /// Slabs whose content is not up to date.
    pub stale_slabs: u64,
    /// How many losses it is to bear and bears now.
    pub protection: Protection,
    /// Whether it serves its data, and how well protected.
    #[schema(schema_with = schema::space_state)]
    pub state: SpaceState,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub conditions: Vec<Condition>,
    /// What to know of it that is no trouble now, as that the pool has too few disks to rebuild on; its health does not
    /// follow these.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub notes: Vec<Condition>,
    /// What it did since it was opened.
    pub counters: SpaceCounters,
    /// What it may do at most, and is to get at least.
    #[schema(value_type = QosSchema)]
    pub qos: Qos,
    /// When it was scrubbed, and when it is next.
    pub scrub: SpaceScrub,
}

/// Makes a space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSpace {
    /// `POOL/SPACE`.
    pub name: String,
    /// Its resilience.
    pub layout: LayoutKind,
    /// Copies of a mirror, 2 or 3; 2 if left out.
    #[serde(default)]
    pub copies: Option<u8>,
    /// Columns of parity, 1 or 2; 1 if left out.
    #[serde(default)]
    pub parity: Option<u8>,
    /// Stripe units side by side, those of parity included; chosen from the pool's disks if left out.
    #[serde(default)]
    pub columns: Option<u16>,
    /// Bytes of a stripe unit: a power of two, 4 KiB to 16 MiB; 256 KiB if left out.
    #[serde(default)]
    pub interleave_bytes: Option<u64>,
    /// Its size; rounded up to whole blocks of 4 KiB.
    pub size_bytes: u64,
    /// Whether it takes room only as it is written to.
    #[serde(default)]
    pub thin: bool,
    /// Size of the journal of a parity space, 32 MiB to 100 GiB; chosen from the pool's disks if left out.
    #[serde(default)]
    pub journal_bytes: Option<u64>,
    /// Whether each block has a checksum; it has if left out, unless the pool is of a format that knows none.
    #[serde(default)]
    #[schema(schema_with = schema::integrity_or_none)]
    pub integrity: Option<Integrity>,
    /// Whether the loss of a whole enclosure must be survived.
    #[serde(default)]
    pub enclosure_aware: bool,
}

/// Makes a space larger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrowSpace {
    /// The new size; rounded up to whole blocks of 4 KiB.
    pub size_bytes: u64,
}

/// Changes what can be changed of a space in use; what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSpace {
    /// The new size of the journal of a parity space, 32 MiB to 100 GiB.
    #[serde(default)]
    pub journal_bytes: Option<u64>,
    /// What it may do at most, and is to get at least.
    #[serde(default)]
    pub qos: Option<SetQos>,
}

/// Gives a space another shape, while it is in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConvertSpace {
    /// Its resilience from now on; as it is if left out.
    #[serde(default)]
    pub layout: Option<LayoutKind>,
    /// Copies of a mirror, 2 or 3; if left out as they are, or 2 where it becomes a mirror.
    #[serde(default)]
    pub copies: Option<u8>,
    /// Columns of parity, 1 or 2; if left out as they are, or 1 where it gets parity.
    #[serde(default)]
    pub parity: Option<u8>,
    /// Stripe units side by side, those of parity included; if left out as they are, or chosen from the pool's disks
    /// where the resilience changes.
    #[serde(default)]
    pub columns: Option<u16>,
    /// Bytes of a stripe unit: a power of two, 4 KiB to 16 MiB; as it is if left out.
    #[serde(default)]
    pub interleave_bytes: Option<u64>,
    /// Whether each block has a checksum; as it is if left out.
    #[serde(default)]
    #[schema(schema_with = schema::integrity_or_none)]
    pub integrity: Option<Integrity>,
    /// Size of the journal that a parity space gets if it has none, 32 MiB to 100 GiB; chosen from the pool's disks if
    /// left out.
    #[serde(default)]
    pub journal_bytes: Option<u64>,
    /// Whether it takes room only as it is written to; as it is if left out.
    #[serde(default)]
    pub thin: Option<bool>,
    /// Its new size, rounded up to whole blocks of 4 KiB; unchanged if left out. A smaller one is refused while there
    /// is data beyond it.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Gives up what lies beyond a smaller size; only administrators may.
    #[serde(default)]
    pub discard_beyond: bool,
    /// How the job is done.
    #[serde(flatten)]
    pub pace: SetPace,
}

impl ConvertSpace {
    /// Whether it asks for anything to be other than it is.
    pub fn names_a_change(&self) -> bool {
        let pace = Self { discard_beyond: false, pace: SetPace::default(), ..self.clone() };
        pace != Self::default()
    }
}

/// The answer to a change of a space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpaceChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The space as it is now.
    pub space: Space,
}

/// A part of a row on one disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Slab {
    /// Which stripe unit of each stripe it holds.
    pub column: u16,
    /// Which copy.
    pub copy: u8,
    /// Id of the disk.
    pub disk: Uuid,
    /// Where the disk is, or was seen last.
    pub path: String,
    /// Where on the disk it begins.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// Whether its content is not up to date.
    pub stale: bool,
}

/// A chunk of a space that takes room, and where its slabs lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceRow {
    /// Which chunk.
    pub chunk: u64,
    /// Whether it is part of the space's journal.
    pub journal: bool,
    /// Where in the space, or in its journal, it begins.
    pub offset_bytes: u64,
    /// How much of it that is.
    pub length_bytes: u64,
    /// Its slabs.
    pub slabs: Vec<Slab>,
}
