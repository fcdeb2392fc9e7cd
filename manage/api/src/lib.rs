//! The types of the management API: what requests carry and what answers look like.
//!
//! One invariant: these types are the whole contract. The HTTP server, the command line and the OpenAPI document are
//! built from them and from nothing else, so they cannot disagree. Sizes are plain numbers of bytes and say so in their
//! names; enumerations are lower-case words; every answer to a change says whether anything changed.

pub mod access;
pub mod acl;
pub mod cause;
pub mod disk;
mod error;
pub mod event;
mod exact;
pub mod export;
mod file;
pub mod history;
mod id;
pub mod integrity;
pub mod job;
pub mod journal;
pub mod lun;
pub mod notify;
pub mod plan;
pub mod pool;
pub mod protection;
pub mod qos;
pub mod quota;
pub mod salvage;
pub mod schema;
pub mod settings;
pub mod snapshot;
pub mod space;
pub mod status;
pub mod target;
pub mod verify;
pub mod volume;

pub use access::{
    Account, AccountChanged, AuditChange, AuditRecord, Certificate, ChangePassword, CreateAccount, CreateToken, Login,
    Role, ServerSettings, Session, SetAccount, Setup, SetupState, Token, TokenCreated, Via,
};
pub use acl::{
    AclEntry, AclEntryKind, EffectiveAccess, FileAcl, FileAclChanged, KnownPrincipal, Principal, PrincipalKind,
    SetFileAcl,
};
pub use cause::{Affected, Cause, CauseDisk, CauseKind};
pub use disk::{
    CreateFileDisk, Disk, DiskChanged, DiskErrors, DiskLatency, DiskReliability, DiskRetired, DiskSmart, EvacuateDisk,
    LocateDisk, RemoveDisk, ReplaceDisk, RetireDisk, SetDisk, WipeDisk,
};
pub use error::{ApiError, Code, ErrorBody};
pub use event::{Event, Severity};
pub use export::{Connection, CreateExport, Export, ExportChanged, ExportCounters, Protocol, SetExport};
pub use file::{FileEntry, FileListing, FileType};
pub use history::{History, HistoryKind, ListKind, ListsChanged, LiveSample, Rates};
pub use holdfast_model::Condition;
pub use id::DiskRef;
pub use integrity::{
    DamagedBlock, FileIntegrity, FileIntegrityChanged, IntegrityMode, SetFileIntegrity, VolumeChecksums,
};
pub use job::{Job, JobChanged, JobKind, JobPace, JobPriority, JobState, SetPace};
pub use journal::{JournalEntries, JournalEntry, JournalReason, SetVolumeJournal, VolumeJournal, VolumeJournalChanged};
pub use lun::{AddLun, GrowLun, Lun, LunAlert, LunBlocks, LunChanged, Registrant, Reservation, SetLun};
pub use notify::{
    CreateNotifyChannel, CreateNotifyRule, MailChannel, MailSecurity, NotifyChannel, NotifyChannelChanged,
    NotifyChannelKind, NotifyChannelTested, NotifyDelivery, NotifyDeliveryState, NotifyRule, NotifyRuleChanged,
    SetMail, SetNotifyChannel, SetNotifyRule, SetWebhook, WebhookChannel, WebhookTemplate,
};
pub use plan::{
    ConversionPlan, DiskBalance, EvacuationPlan, RebalancePlan, SpaceEvacuation, SpaceOption, SpacePlan, UpgradePlan,
};
pub use pool::{
    AddDisks, CapacityLimit, CreatePool, ImportPools, ImportedPool, LayoutCapacity, Pool, PoolAlert, PoolChanged,
    PoolHealth, PoolMember, PoolRoom, PoolsImported, SetPool,
};
pub use protection::Protection;
pub use qos::{Qos, SetQos};
pub use quota::{QuotaKind, QuotaState, SetVolumeQuota, VolumeQuota, VolumeQuotaChanged};
pub use salvage::{SalvagePool, Salvaged, SalvagedDisk, SalvagedJournal, SalvagedSpace};
pub use settings::{
    PercentsSetting, Preferences, SetSettings, SettingName, SettingOrigin, SettingsChanged, TextSetting, TimeSetting,
};
pub use snapshot::{
    CreateSnapshot, RestoreSnapshot, SetSnapshotRule, SnapshotChange, SnapshotCreated, SnapshotDestroyed,
    SnapshotDifference, SnapshotDifferences, SnapshotFileKind, SnapshotRule, SnapshotSchedule, SnapshotScheduleChanged,
    VolumeSnapshot, interval,
};
pub use space::{
    ConvertSpace, CreateSpace, GrowSpace, LayoutKind, SetSpace, Slab, Space, SpaceChanged, SpaceCounters, SpaceJournal,
    SpaceRow, SpaceScrub,
};
pub use status::{Daemon, ObjectHealth, Status};
pub use target::{
    AddPortal, AllowInitiator, ChapAccount, ConnectCommands, CreateTarget, InitiatorSystem, IscsiDiscovery,
    IscsiDiscoveryChanged, IscsiSession, PortalState, SetPortal, SetTarget, Target, TargetChanged, TargetInitiator,
    TargetPortal,
};
pub use verify::{Mismatch, SpaceVerified};
pub use volume::{
    AdoptVolume, CreateVolume, GrowVolume, ModeChange, MountVolume, SetVolume, ShrinkVolume, Volume, VolumeChanged,
    VolumeFinding, VolumeMount, VolumeShrinkPlan, VolumeShrinking, VolumeShrunk, VolumeState, VolumeUsage,
    VolumeUsagePart,
};

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where the daemon listens and clients connect by default.
pub const DEFAULT_SOCKET: &str = "/run/holdfast.sock";
/// The variable that tells clients another socket.
pub const SOCKET_VARIABLE: &str = "HOLDFAST_SOCKET";
/// The variable that tells clients a server on the network.
pub const SERVER_VARIABLE: &str = "HOLDFAST_SERVER";
/// The header that proves that a change comes from the console itself.
pub const CSRF_HEADER: &str = "x-csrf-token";
/// Under what every path of this version begins.
pub const BASE_PATH: &str = "/api/v1";

/// The answer to a change that leaves no object behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// False if everything was so already.
    pub changed: bool,
    /// What was done, or why there was nothing to do.
    pub message: String,
}

/// A text as one line, its control characters escaped: names and paths come from others.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character.is_control() {
            true => plain.extend(character.escape_default()),
            false => plain.push(character),
        }
    }
    Cow::Owned(plain)
}

/// The lower-case word that stands for `value` in the API.
pub fn word<T: Serialize>(value: &T) -> String {
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut text);
    if value.serialize(&mut serializer).is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&text).trim_matches('"').to_string()
}
