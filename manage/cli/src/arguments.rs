//! The command line: every command, option and help text, and nothing else.
//!
//! Invariant: help, completion, man pages and the parser are made from these types, so they cannot disagree.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use holdfast_api::{HistoryKind, JobPriority, SetPace};
use holdfast_engine::Address;
use holdfast_model::{ByteSize, RetirePolicy, SpacePath, Uuid};

mod access;
mod disks;
mod exports;
mod notify;
mod settings;
mod shape;
mod snapshots;
mod targets;
mod values;
mod volumes;

pub use access::{AccountCommand, Audit, Login, Restore, TokenCommand};
pub use disks::DiskCommand;
pub use exports::{NbdCommand, QosOptions};
pub use notify::{AddChannel, ChannelCommand, MailOptions, NotifyCommand, RuleCommand, WebhookOptions};
pub use settings::{SetSetting, SettingsCommand};
pub use shape::ShapeOptions;
pub use snapshots::{ScheduleCommand, SnapshotCommand, SnapshotPath};
pub use targets::{
    DiscoveryCommand, InitiatorCommand, IscsiCommand, IscsiSessionCommand, LunCommand, PortalCommand,
    ReservationCommand, TargetCommand,
};
pub use values::{AlertPercents, Cap, Chosen, Every, Grace, WakeWithin};
use values::{
    parse_alerts, parse_cap, parse_duration, parse_every, parse_grace, parse_history_kind, parse_listen_address,
    parse_priority, parse_retire_policy, parse_wake_within,
};
pub use volumes::{AclCommand, IntegrityCommand, JournalCommand, QuotaCommand, QuotaSubject, VolumeCommand};

/// Pools disks, keeps virtual disks on the pools, and serves them to NBD clients and iSCSI initiators.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, propagate_version = true, disable_help_subcommand = true, max_term_width = 110)]
pub struct Arguments {
    /// Socket of the daemon's API
    #[arg(long, global = true, env = holdfast_api::SOCKET_VARIABLE, default_value = holdfast_api::DEFAULT_SOCKET, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
    /// Server to manage instead of the local daemon, for example https://HOST:8443; run 'holdfast login' first
    #[arg(long, global = true, env = holdfast_api::SERVER_VARIABLE, value_name = "URL")]
    pub server: Option<String>,
    /// Print JSON instead of tables
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon
    Serve(Box<Serve>),
    /// Disks, in pools and not in any pool
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Pools of disks
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Spaces: virtual disks on a pool
    #[command(subcommand)]
    Space(SpaceCommand),
    /// Volumes: files on spaces, mounted on this server
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Snapshots: files of a volume as they were
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Exports: spaces served to NBD clients
    #[command(subcommand)]
    Nbd(NbdCommand),
    /// Targets: what iSCSI initiators log in to
    #[command(subcommand)]
    Target(TargetCommand),
    /// LUNs: spaces and files as disks of iSCSI targets
    #[command(subcommand)]
    Lun(LunCommand),
    /// Initiators: who may log in to iSCSI targets
    #[command(subcommand)]
    Initiator(InitiatorCommand),
    /// Sessions of iSCSI initiators, and who may ask for targets
    #[command(subcommand)]
    Iscsi(IscsiCommand),
    /// Reservations of LUNs by iSCSI initiators
    #[command(subcommand)]
    Reservation(ReservationCommand),
    /// Jobs: long-running work that can be watched, paused and cancelled
    #[command(subcommand)]
    Job(JobCommand),
    /// Events: what happened, why, and what to do next
    #[command(subcommand)]
    Event(EventCommand),
    /// Notifications: events that go out by mail and webhooks
    #[command(subcommand)]
    Notify(NotifyCommand),
    /// Show what is wrong, what it affects and what to do next, and the daemon
    Status {
        /// Show all objects and all names
        #[arg(long)]
        all: bool,
    },
    /// Log in to a server on the network, and save a token for it
    Login(Login),
    /// Delete the token for --server, on this machine and on the server
    Logout,
    /// Show your account and role
    Whoami,
    /// Accounts: who may log in
    #[command(subcommand)]
    Account(AccountCommand),
    /// Tokens: for programs, instead of a password
    #[command(subcommand)]
    Token(TokenCommand),
    /// List who changed what, and when
    Audit(Audit),
    /// Show or change the settings of the server
    Settings {
        /// What to do; shows them if left out
        #[command(subcommand)]
        command: Option<SettingsCommand>,
    },
    /// Back up configuration, accounts and audit log while the daemon runs
    Backup {
        /// The file; it must not exist yet
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Restore a backup; the daemon must not be running
    Restore(Restore),
    /// Show the throughput and latency of an object over time
    History {
        /// The kind of object
        #[arg(value_parser = parse_history_kind, value_name = "server|pool|space|export|lun|volume|disk")]
        kind: HistoryKind,
        /// Its name; for a disk its path or id; none for the server
        #[arg(default_value = "")]
        name: String,
        /// How far back: up to an hour by the second, up to 30d by the minute
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
        last: Duration,
        /// Maximum number of lines; adjacent values are merged
        #[arg(long, value_name = "N", default_value_t = 20)]
        points: u64,
    },
    /// Run a demonstration: eight file disks, a pool, a mirror served over NBD, a disk pulled and put back
    Demo(Demo),
    /// Print a completion script
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the OpenAPI document
    #[command(hide = true)]
    Openapi,
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder; created if it does not exist
        #[arg(value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

/// How logs look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

/// Which NBD clients must encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsRequired {
    /// None; clients may still choose to
    None,
    /// Clients over TCP
    Tcp,
    /// All
    All,
}

/// Options of the daemon.
#[derive(Args, Debug)]
pub struct Serve {
    /// State folder: known pools, exports, jobs, events, accounts
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state: PathBuf,
    /// NBD address to listen on: unix:PATH or tcp:HOST:PORT; can be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<Address>,
    /// Certificate of the NBD server, PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_key", value_hint = ValueHint::FilePath)]
    pub nbd_tls_cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert", value_hint = ValueHint::FilePath)]
    pub nbd_tls_key: Option<PathBuf>,
    /// Certificate authorities that NBD clients must have a certificate from, PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert", value_hint = ValueHint::FilePath)]
    pub nbd_tls_client_ca: Option<PathBuf>,
    /// Which NBD clients must use TLS when there is a certificate; without a value, all
    #[arg(long, value_name = "WHO", num_args = 0..=1, require_equals = true, default_value = "tcp", default_missing_value = "all", requires_if("all", "nbd_tls_cert"))]
    pub nbd_tls_required: TlsRequired,
    /// Maximum number of NBD connections
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub nbd_connections: u32,
    /// Maximum requests in flight on an NBD connection
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub nbd_requests: u32,
    /// Maximum payload in flight on an NBD connection
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub nbd_payload: ByteSize,
    /// iSCSI address to listen on, HOST:PORT; can be repeated
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_listen_address)]
    pub iscsi: Vec<SocketAddr>,
    /// Maximum number of iSCSI sessions
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub iscsi_sessions: u32,
    /// Maximum commands in flight in an iSCSI session
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub iscsi_tasks: u32,
    /// Maximum payload in flight in all iSCSI sessions together
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub iscsi_memory: ByteSize,
    /// Address to serve the API and the console on over HTTPS, for example 0.0.0.0:8443; can be repeated
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub https: Vec<SocketAddr>,
    /// HTTPS certificate, PEM; self-signed by default
    #[arg(long, value_name = "FILE", requires_all = ["https", "https_key"], value_hint = ValueHint::FilePath)]
    pub https_cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "https_cert", value_hint = ValueHint::FilePath)]
    pub https_key: Option<PathBuf>,
    /// Threads that serve I/O; one per core by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub reactors: Option<u32>,
    /// How long an idle thread polls before it sleeps: longer lowers latency and costs CPU time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub spin: Option<Duration>,
    /// CPU wake-up latency to ask of the kernel under load: lower costs energy, 0 keeps CPUs awake, any asks for
    /// nothing. Needs root
    #[arg(long, value_name = "TIME", default_value = "3us", value_parser = parse_wake_within)]
    pub wake_within: WakeWithin,
    /// Memory for file data of all volumes together; 0B for none
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub data_cache: ByteSize,
    /// How often each space is scrubbed automatically, for example 12h, 7d or never; overrides 'settings set'
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    pub scrub_every: Option<Every>,
    /// How long a disk may be missing before its data is rebuilt on other disks, for example 5m or never; overrides
    /// 'settings set'
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    pub repair_after: Option<Every>,
    /// Log format; HOLDFAST_LOG sets the level, for example HOLDFAST_LOG=debug
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// What to do with pools.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Create a pool
    Create {
        /// Its name
        pool: String,
        /// Its disks: paths, serial numbers or ids
        #[arg(long, required = true, num_args = 1.., value_hint = ValueHint::FilePath)]
        disk: Vec<String>,
        /// Use the disks even if they hold other data, which is lost
        #[arg(long)]
        force: bool,
    },
    /// List all pools
    List,
    /// Show a pool
    Show {
        /// Name or id
        pool: String,
    },
    /// Set a pool's policy for lost disks and its capacity alerts
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["alert", "retire_policy", "grace"]))]
    Set {
        /// Its name
        pool: String,
        /// Alert when this full, in percent, for example 70,85,95, none, or default for the setting of the server
        #[arg(long, value_name = "PERCENTS", value_parser = parse_alerts)]
        alert: Option<AlertPercents>,
        /// What to do about disks that are lost or about to fail: auto retires them and rebuilds their data if all of
        /// it fits on the other disks, always rebuilds as much as fits, never does nothing; auto by default
        #[arg(long, value_name = "POLICY", value_parser = parse_retire_policy)]
        retire_policy: Option<RetirePolicy>,
        /// How long a disk may be missing before that, for example 5m, or default for the setting of the server
        #[arg(long, value_name = "TIME", value_parser = parse_grace)]
        grace: Option<Grace>,
    },
    /// Add disks to a pool
    Add {
        /// Its name
        pool: String,
        /// Paths, serial numbers or ids
        #[arg(long, required = true, num_args = 1.., value_hint = ValueHint::FilePath)]
        disk: Vec<String>,
        /// Use the disks even if they hold other data, which is lost
        #[arg(long)]
        force: bool,
    },
    /// Import pools found on disks, and bring failed disks back into service
    Import {
        /// Name or id; all pools found by default
        pool: Option<String>,
        /// Folder to search for disks, besides the known disks; can be repeated
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        disk_dir: Vec<PathBuf>,
        /// Import even if too few disks are present, or if they are known to lack changes
        #[arg(long)]
        force: bool,
    },
    /// Even out how full the disks of a pool are, as a job; the pool stays in use
    Rebalance {
        /// Its name
        pool: String,
        /// Show what would be moved and how full each disk would be; change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Upgrade a pool to all format features of this version, as a job; older versions can no longer import it
    Upgrade {
        /// Its name
        pool: String,
        /// Show what would change; change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Recover a pool whose metadata is lost on all disks, from its slab headers; only reports what it finds unless
    /// --write is given
    Salvage {
        /// All remaining disks of the pool: paths, serial numbers or ids
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        disk: Vec<String>,
        /// Report only; the default
        #[arg(long, conflicts_with = "write")]
        dry_run: bool,
        /// Write new metadata, so that the pool can be imported; its spaces are read-only until 'space accept'
        #[arg(long)]
        write: bool,
        /// New name of the pool; unchanged by default
        #[arg(long)]
        name: Option<String>,
        /// Id of the pool, if the disks hold slabs of several pools
        #[arg(long, value_name = "ID")]
        pool: Option<Uuid>,
    },
    /// Take a pool out of service, so that another machine may import it
    Export {
        /// Its name
        pool: String,
    },
    /// Destroy a pool and everything in it
    Destroy {
        /// Its name
        pool: String,
        /// Confirm that everything in it is lost
        #[arg(long)]
        yes: bool,
    },
}

/// The resilience of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutWord {
    /// Striped over disks, one copy
    Simple,
    /// Striped over disks, two or three copies
    Mirror,
    /// Striped over disks, one or two columns computed from the others
    Parity,
}

/// The checksums of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum IntegrityWord {
    /// None: silent corruption is not detected
    None,
    /// A CRC-32C of each 4 KiB block
    Crc32c,
}

/// What to do with spaces.
#[derive(Debug, Subcommand)]
pub enum SpaceCommand {
    /// Create a space
    Create {
        /// POOL/SPACE
        space: SpacePath,
        /// Its resilience
        #[arg(long)]
        layout: LayoutWord,
        #[command(flatten)]
        shape: ShapeOptions,
        /// Its size, for example 4GiB; rounded up to blocks of 4 KiB
        #[arg(long)]
        size: ByteSize,
        /// Show capacity and cost of this layout and of the alternatives; create nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// List all spaces
    List,
    /// Show a space
    Show {
        /// POOL/SPACE
        space: SpacePath,
    },
    /// Change the limits of a space, or the journal of a parity space, while it is in use
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true)
        .args(["journal", "max_iops", "burst_iops", "max_bandwidth", "burst_bandwidth", "min_iops"]))]
    Set {
        /// POOL/SPACE
        space: SpacePath,
        /// The new size of its journal, 32MiB to 100GiB
        #[arg(long, value_name = "SIZE")]
        journal: Option<ByteSize>,
        #[command(flatten)]
        qos: QosOptions,
    },
    /// Allow writes to a space recovered by 'pool salvage'
    Accept {
        /// POOL/SPACE
        space: SpacePath,
    },
    /// Make a space larger
    Grow {
        /// POOL/SPACE
        space: SpacePath,
        /// The new size
        #[arg(long)]
        size: ByteSize,
    },
    /// Compare all data of a space with its copies or parity; exit status 1 on any mismatch. The space stays in use
    Verify {
        /// POOL/SPACE
        space: SpacePath,
    },
    /// Read all data of a space with its copies or parity and repair errors, as a job; the space stays in use
    Scrub {
        /// POOL/SPACE
        space: SpacePath,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Rebuild the data of lost disks on other disks, as a job; the space stays in use
    Repair {
        /// POOL/SPACE
        space: SpacePath,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Change the layout, size or provisioning of a space, as a job; the space stays in use
    Convert {
        /// POOL/SPACE
        space: SpacePath,
        #[command(flatten)]
        shape: ConvertOptions,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Show where each slab of a space is
    Map {
        /// POOL/SPACE
        space: SpacePath,
    },
    /// Destroy a space and its data
    Destroy {
        /// POOL/SPACE
        space: SpacePath,
        /// Confirm that its data is lost
        #[arg(long)]
        yes: bool,
    },
}

/// What to change about a space.
#[derive(Args, Debug)]
pub struct ConvertOptions {
    /// The new layout; unchanged by default
    #[arg(long)]
    pub layout: Option<LayoutWord>,
    /// Copies of a mirror, 2 or 3; unchanged by default, or 2 if it becomes a mirror
    #[arg(long, value_name = "N")]
    pub copies: Option<u8>,
    /// Parity columns, 1 or 2: the number of disks that may fail; unchanged by default, or 1 if it becomes parity
    #[arg(long, value_name = "N")]
    pub parity: Option<u8>,
    /// Columns, parity included; unchanged by default, or chosen from the pool's disks if the layout changes
    #[arg(long, value_name = "N")]
    pub columns: Option<u16>,
    /// Interleave: the size of a stripe unit; unchanged by default
    #[arg(long, value_name = "SIZE")]
    pub interleave: Option<ByteSize>,
    /// Block checksums; unchanged by default
    #[arg(long, value_enum)]
    pub integrity: Option<IntegrityWord>,
    /// Journal size if the space becomes parity, 32MiB to 100GiB; chosen by default
    #[arg(long, value_name = "SIZE")]
    pub journal: Option<ByteSize>,
    /// Thin provisioning: keep only room that holds data
    #[arg(long, conflicts_with = "fixed")]
    pub thin: bool,
    /// Fixed provisioning: allocate all its room
    #[arg(long)]
    pub fixed: bool,
    /// The new size; a smaller one is refused while there is data beyond it
    #[arg(long)]
    pub size: Option<ByteSize>,
    /// Discard the data beyond a smaller size
    #[arg(long, requires = "size")]
    pub discard_beyond: bool,
    /// Show what would be moved and how much room it needs; change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How a job is begun.
#[derive(Args, Debug)]
pub struct StartOptions {
    /// Priority against client I/O: low, normal or high; normal by default
    #[arg(long, value_parser = parse_priority)]
    pub priority: Option<JobPriority>,
    /// Maximum bytes per second, for example 50MiB; 0 or none for no cap
    #[arg(long, value_name = "RATE", value_parser = parse_cap)]
    pub cap: Option<Cap>,
    /// Wait until it ends; exit status 1 if it fails or is cancelled
    #[arg(long)]
    pub wait: bool,
}

impl StartOptions {
    /// The pace that they ask for.
    pub fn pace(&self) -> SetPace {
        SetPace { priority: self.priority, cap_bytes_per_second: self.cap.map(|cap| cap.0) }
    }
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List unfinished jobs
    List {
        /// Also list finished jobs
        #[arg(long)]
        all: bool,
    },
    /// Show a job
    Show {
        /// Its number
        id: u64,
    },
    /// Follow a job until it ends; exit status 1 if it fails or is cancelled
    Watch {
        /// Its number
        id: u64,
    },
    /// Pause a job
    Pause {
        /// Its number
        id: u64,
    },
    /// Resume a paused job
    Resume {
        /// Its number
        id: u64,
    },
    /// Cancel a job; what it has done stays done
    Cancel {
        /// Its number
        id: u64,
    },
    /// Change the priority or cap of a job
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["priority", "cap"]))]
    Set {
        /// Its number
        id: u64,
        /// Priority against client I/O: low, normal or high
        #[arg(long, value_parser = parse_priority)]
        priority: Option<JobPriority>,
        /// Maximum bytes per second, for example 50MiB; 0 or none for no cap
        #[arg(long, value_name = "RATE", value_parser = parse_cap)]
        cap: Option<Cap>,
    },
}

/// What to do with events.
#[derive(Debug, Subcommand)]
pub enum EventCommand {
    /// List events
    List {
        /// Keep printing new events until interrupted
        #[arg(long)]
        follow: bool,
    },
}

/// Options of the demonstration.
#[derive(Args, Debug)]
pub struct Demo {
    /// Folder for the demonstration; created if it does not exist
    #[arg(long, default_value = "demo", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Exit when it is done instead of staying up
    #[arg(long)]
    pub once: bool,
}

#[cfg(test)]
mod tests;
