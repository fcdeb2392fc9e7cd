//! iSCSI targets: what initiators log in to, who may, and by which addresses.
//!
//! Invariant: no answer carries a secret of CHAP.

use holdfast_model::{Condition, Health};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::lun::Lun;
use crate::schema::{self, ConditionSchema};

/// What initiators find at a portal, as ALUA tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortalState {
    /// To be used.
    #[default]
    Active,
    /// To be used where no active one is left.
    NonOptimized,
    /// Answers what initiators ask about it, and no I/O.
    Standby,
    /// Answers next to nothing.
    Unavailable,
}

/// An address by which a target is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetPortal {
    /// `HOST:PORT`.
    pub address: String,
    /// Its portal group, 1 to 65535: what SCSI takes for one port.
    pub group: u16,
    /// What initiators find there: the same at all portals of a group.
    pub state: PortalState,
    /// Whether the daemon listens there.
    pub listening: bool,
}

/// An initiator that may log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetInitiator {
    /// Its iSCSI name.
    pub iqn: String,
    /// The user with whose secret it proves who it is; none if its name is enough.
    pub chap_user: Option<String>,
    /// Sessions of it now.
    pub sessions: u64,
}

/// For which system commands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitiatorSystem {
    /// Linux with open-iscsi.
    Linux,
    /// Windows with PowerShell.
    Windows,
    /// VMware ESXi.
    Esxi,
}

/// How a system connects to a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectCommands {
    /// Which.
    pub system: InitiatorSystem,
    /// Commands in order. What begins with `#` is a remark; `SECRET` stands for a secret.
    pub commands: Vec<String>,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Target {
    /// Its name on this server.
    pub name: String,
    /// Its id, the same wherever its pools are imported.
    pub id: Uuid,
    /// The name by which initiators know it.
    pub iqn: String,
    /// Whether any initiator may log in.
    pub open: bool,
    /// By which addresses it is reached; all on which the daemon listens if none is set.
    pub portals: Vec<TargetPortal>,
    /// Whether `portals` were set, and are not simply all.
    pub portals_set: bool,
    /// Who may log in.
    pub initiators: Vec<TargetInitiator>,
    /// The user with whose secret the target proves who it is to initiators that ask; none if it does not.
    pub mutual_user: Option<String>,
    /// Its logical units, by number.
    pub luns: Vec<Lun>,
    /// Whether initiators find it now.
    pub served: bool,
    /// How well it is.
    #[schema(schema_with = schema::health)]
    pub health: Health,
    /// Why it is not healthy, or lets nobody in.
    #[schema(value_type = Vec<ConditionSchema>)]
    pub conditions: Vec<Condition>,
    /// Sessions now.
    pub sessions: u64,
    /// How initiators connect.
    pub connect: Vec<ConnectCommands>,
}

/// Makes a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTarget {
    /// Its name on this server.
    pub name: String,
    /// The name by which initiators know it; made from the server's name and its own if left out.
    #[serde(default)]
    pub iqn: Option<String>,
    /// `HOST:PORT` of each address by which it is reached; all on which the daemon listens if empty.
    #[serde(default)]
    pub portals: Vec<String>,
    /// Lets any initiator log in. For administrators only.
    #[serde(default)]
    pub open: bool,
}

/// An account of CHAP.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapAccount {
    /// The user's name.
    pub user: String,
    /// The secret, 12 to 255 characters; Windows takes 12 to 16. It is stored and never shown.
    pub secret: String,
}

impl std::fmt::Debug for ChapAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChapAccount").field("user", &self.user).field("secret", &"***").finish()
    }
}

/// Changes a target in use. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTarget {
    /// Lets any initiator log in, or only those that are listed, whose sessions alone go on. Opening is for
    /// administrators only.
    #[serde(default)]
    pub open: Option<bool>,
    /// With what the target proves who it is to initiators that ask.
    #[serde(default)]
    pub mutual: Option<ChapAccount>,
    /// Has the target prove nothing any more.
    #[serde(default)]
    pub no_mutual: bool,
}

/// The answer to a change of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// The target as it is now.
    pub target: Target,
}

/// Lets an initiator log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowInitiator {
    /// Its iSCSI name.
    pub iqn: String,
    /// With what it is to prove who it is.
    #[serde(default)]
    pub chap: Option<ChapAccount>,
    /// Its name is enough, also where an account was needed so far.
    #[serde(default)]
    pub no_chap: bool,
}

/// Adds an address by which a target is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddPortal {
    /// `HOST:PORT`; port 3260 if left out.
    pub address: String,
    /// Its portal group, 1 if left out.
    #[serde(default)]
    pub group: Option<u16>,
    /// What initiators find in its group; active if left out and the group is new.
    #[serde(default)]
    pub state: Option<PortalState>,
}

/// Changes an address by which a target is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetPortal {
    /// Its portal group.
    #[serde(default)]
    pub group: Option<u16>,
    /// What initiators find at all portals of its group.
    #[serde(default)]
    pub state: Option<PortalState>,
}

/// A session of an initiator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IscsiSession {
    /// Its number on this server.
    pub id: u16,
    /// The target's name; none for a session that only asks which targets there are.
    pub target: Option<String>,
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// What tells sessions of one initiator apart, in hexadecimal digits.
    pub isid: String,
    /// From where it came.
    pub client: String,
    /// The address to which it came.
    pub portal: String,
    /// The portal group.
    pub group: u16,
    /// Since when, RFC 3339.
    pub since: String,
    /// The user who proved who it is; none where its name was enough.
    pub chap_user: Option<String>,
    /// Whether headers are protected by checksums.
    pub header_digest: bool,
    /// Whether data is protected by checksums.
    pub data_digest: bool,
    /// Reads asked for.
    pub reads: u64,
    /// Writes asked for.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Commands in flight.
    pub in_flight: u32,
}

/// Who may ask which targets there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IscsiDiscovery {
    /// The user with whose secret initiators prove who they are; none where everybody may ask.
    pub chap_user: Option<String>,
}

/// The answer to a change of discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IscsiDiscoveryChanged {
    /// False if everything was so already.
    pub changed: bool,
    /// As it is now.
    pub discovery: IscsiDiscovery,
}
