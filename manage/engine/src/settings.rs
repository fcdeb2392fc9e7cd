//! What a daemon is told at its start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use holdfast_iscsi::{IscsiSettings, TargetLimits};
use holdfast_listener::Address;
use holdfast_nbd::NbdSettings;

/// What the command line gives of the settings that administrators change otherwise. It overrides what they set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// How often each space is scrubbed unasked; never if none within.
    pub scrub_every: Option<Option<Duration>>,
    /// How long a disk may be away before what it held is rebuilt unasked; never if none within.
    pub repair_after: Option<Option<Duration>>,
}

/// How an engine is set up.
pub struct Settings {
    /// The state folder.
    pub state_dir: PathBuf,
    /// Threads that serve I/O; each takes a core while it is busy.
    pub reactors: usize,
    /// For how long an idle reactor polls before it sleeps.
    pub spin: Duration,
    /// Within what time sleeping processors are to wake while reactors are under load; as the machine has it if none.
    pub wake_within: Option<Duration>,
    /// Where NBD clients connect.
    pub nbd_addresses: Vec<Address>,
    /// How NBD is spoken.
    pub nbd: NbdSettings,
    /// Where iSCSI initiators connect.
    pub iscsi_addresses: Vec<SocketAddr>,
    /// How iSCSI is spoken.
    pub iscsi: IscsiSettings,
    /// How many sessions targets have.
    pub iscsi_limits: TargetLimits,
    /// Bytes of memory for data of files of all volumes; 0 has all reads go to the disks.
    pub data_cache_bytes: usize,
    /// How long what a killed daemon still holds is waited for: state folder, addresses, disks.
    pub patience: Duration,
    /// How often paths of disks are looked at.
    pub watch_interval: Duration,
    /// How often metadata of each pool is looked at in use: of one of its disks after the other.
    pub metadata_interval: Duration,
    /// Whether block devices of this machine are shown and looked at for pools.
    pub block_devices: bool,
    /// Settings that the command line gives.
    pub given: Given,
    /// How long a disk may be away before what it held is rebuilt unasked, where nothing is set; never if none.
    pub repair_after: Option<Duration>,
    /// How often the health of disks is judged.
    pub health_interval: Duration,
    /// How often disks are asked what they tell of themselves.
    pub smart_interval: Duration,
    /// The program that asks them.
    pub smartctl: PathBuf,
    /// The program that switches the lights of disks' slots.
    pub ledctl: PathBuf,
    /// How often each space is scrubbed unasked, where nothing is set; never if none.
    pub scrub_every: Option<Duration>,
}

impl Settings {
    /// A daemon on `state_dir` that serves nothing yet: one reactor a core, the reactor's own idle behaviour.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            reactors: std::thread::available_parallelism().map_or(1, usize::from),
            spin: holdfast_device::reactor::ReactorSettings::default().spin,
            wake_within: Some(Duration::from_micros(3)),
            nbd_addresses: Vec::new(),
            nbd: NbdSettings::default(),
            iscsi_addresses: Vec::new(),
            iscsi: IscsiSettings::default(),
            iscsi_limits: TargetLimits::default(),
            data_cache_bytes: 256 << 20,
            patience: Duration::from_secs(3),
            watch_interval: Duration::from_secs(1),
            metadata_interval: Duration::from_secs(10),
            block_devices: true,
            given: Given::default(),
            repair_after: Some(Duration::from_secs(5 * 60)),
            health_interval: Duration::from_secs(10),
            smart_interval: Duration::from_secs(10 * 60),
            smartctl: "smartctl".into(),
            ledctl: "ledctl".into(),
            scrub_every: Some(Duration::from_secs(7 * 24 * 60 * 60)),
        }
    }
}
