//! LUNs: spaces, and files of volumes, as disks of iSCSI targets.

use holdfast_model::{Condition, Health};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::export::ExportCounters;
use crate::qos::{Qos, QosSchema, SetQos};
use crate::schema::{self, ConditionSchema};

/// The blocks in which initiators address a LUN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub enum LunBlocks {
    /// 512 bytes.
    #[serde(rename = "512")]
    B512,
    /// 512 bytes, and best written in units of 4096.
    #[default]
    #[serde(rename = "512e")]
    B512e,
    /// 4096 bytes.
    #[serde(rename = "4096")]
    B4096,
}

/// When initiators are warned that a LUN runs out of room (THIN PROVISIONING SOFT THRESHOLD REACHED).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LunAlert {
    /// When its thin space or the volume of its file takes so much of what it can take, in percent; never if 0.
    pub percent: u8,
    /// Whether that follows the alerts of its pool, as nothing was set for the LUN.
    pub default: bool,
    /// Whether so much is taken now.
    pub reached: bool,
}

/// A logical unit of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Lun {
    /// `TARGET/NUMBER`.
    pub name: String,
    /// Its number in the target.
    pub lun: u16,
    /// The id by which initiators know the disk; it never changes.
    pub id: Uuid,
    /// `POOL/SPACE` or `POOL/VOLUME:PATH`.
    pub backing: String,
    /// The blocks in which initiators address it.
    pub blocks: LunBlocks,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether initiators can use it now.
    pub served: bool,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub conditions: Vec<Condition>,
    /// Its size; none while it is not served.
    pub size_bytes: Option<u64>,
    /// Whether its file was given all of its room when it was added.
    pub full: bool,
    /// When initiators are warned that it runs out of room; none where it has all of its room, or is not served.
    pub alert: Option<LunAlert>,
    /// Whether it is reserved by initiators.
    pub reserved: bool,
    /// What initiators did.
    pub counters: ExportCounters,
    /// What it may do at most, and is to get at least.
    #[schema(value_type = QosSchema)]
    pub qos: Qos,
}

/// Adds a LUN to a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddLun {
    /// `POOL/SPACE` or `POOL/VOLUME:PATH`.
    pub backing: String,
    /// Its number, 0 to 255; the lowest that is free if left out.
    #[serde(default)]
    pub lun: Option<u16>,
    /// The blocks in which initiators address it; 512e if left out.
    #[serde(default)]
    pub blocks: Option<LunBlocks>,
    /// Refuses writes.
    #[serde(default)]
    pub read_only: bool,
    /// Makes the file, of this size. One that is there must have it.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Gives the file all of its room now, also what it grows by, so that it cannot run out of it. Initiators give none of
    /// it back.
    #[serde(default)]
    pub full: bool,
    /// Warns initiators when so much of its room is taken, in percent; never if 0, as its pool's alerts say if left out.
    /// For thin spaces and files.
    #[serde(default)]
    pub alert_percent: Option<u8>,
}

/// Changes a LUN in use. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetLun {
    /// What it may do at most, and is to get at least.
    #[serde(default)]
    pub qos: Option<SetQos>,
    /// Warns initiators when so much of its room is taken, in percent; never if 0.
    #[serde(default)]
    pub alert_percent: Option<u8>,
    /// Leaves that to the alerts of its pool again. Not together with a percentage.
    #[serde(default)]
    pub default_alert: bool,
}

/// Makes a LUN larger: its space or file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrowLun {
    /// The new size.
    pub size_bytes: u64,
}

/// The answer to a change of a LUN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LunChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The LUN as it is now.
    pub lun: Lun,
}

/// An initiator that is registered for reservations of a LUN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registrant {
    /// The initiator and its session, as SCSI names the port.
    pub initiator: String,
    /// Its key, in hexadecimal digits.
    pub key: String,
    /// Whether it holds the reservation.
    pub holder: bool,
}

/// The persistent reservation of a LUN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservation {
    /// `TARGET/NUMBER` of the LUN.
    pub lun: String,
    /// Its type: `write-exclusive`, `exclusive-access`, or one of these with `-registrants-only` or `-all-registrants`;
    /// none where nobody holds one.
    pub kind: Option<String>,
    /// How often registrations changed.
    pub generation: u32,
    /// Whether it outlives a loss of power.
    pub persists: bool,
    /// Who reserved it by the older command, which no restart outlives.
    pub reserved_by: Option<String>,
    /// Why what was kept of it cannot be read, which keeps initiators from the LUN until it is cleared.
    pub unreadable: Option<String>,
    /// Who is registered.
    pub registrants: Vec<Registrant>,
}
