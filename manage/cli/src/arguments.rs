//! The command line: every command, option and help text, and nothing else.
//!
//! Invariant: help, completion, man pages and the parser are made from these types, so they cannot disagree.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use holdfast_api::{HistoryKind, JobPriority};
use holdfast_engine::Address;
use holdfast_model::{ByteSize, Media, RetirePolicy, SpacePath, Usage, Uuid};

mod access;
mod exports;
mod values;

pub use access::{AccountCommand, Audit, Login, Restore, TokenCommand};
pub use exports::{NbdCommand, QosOptions};
pub use values::{AlertPercents, Cap, Every, Grace, WakeWithin};
use values::{
    parse_alerts, parse_cap, parse_duration, parse_every, parse_grace, parse_history_kind, parse_media, parse_priority,
    parse_retire_policy, parse_usage, parse_wake_within,
};

/// Pools disks, keeps virtual disks on them, and serves these to NBD clients.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, propagate_version = true, disable_help_subcommand = true, max_term_width = 110)]
pub struct Arguments {
    /// Socket of the daemon's API
    #[arg(long, global = true, env = holdfast_api::SOCKET_VARIABLE, default_value = holdfast_api::DEFAULT_SOCKET, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
    /// Server to ask instead of the socket, as in https://HOST:8443; 'holdfast login' comes first
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
    /// Disks: those of pools, and those that belong to none
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Pools of disks
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Spaces: virtual disks on a pool
    #[command(subcommand)]
    Space(SpaceCommand),
    /// Exports: spaces that NBD clients can reach
    #[command(subcommand)]
    Nbd(NbdCommand),
    /// Jobs: long work that is watched and steered while it runs
    #[command(subcommand)]
    Job(JobCommand),
    /// Events: what happened, why, and what to do next
    #[command(subcommand)]
    Event(EventCommand),
    /// Show the health of everything, and the daemon
    Status,
    /// Log in to a server on the network, and keep a token for it
    Login(Login),
    /// Remove the token for the server that --server names, here and there
    Logout,
    /// Show who you are to the daemon, and what you may do
    Whoami,
    /// Accounts: who may log in
    #[command(subcommand)]
    Account(AccountCommand),
    /// Tokens: what programs show instead of a password
    #[command(subcommand)]
    Token(TokenCommand),
    /// List who changed what
    Audit(Audit),
    /// Show how management is served
    Settings,
    /// Write a copy of configuration, accounts and audit log while the daemon runs
    Backup {
        /// The file; it must not be there yet
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Put a backup in place of the configuration of a daemon that does not run
    Restore(Restore),
    /// Show what was asked of an object over time, and how long it took
    History {
        /// The kind of object
        #[arg(value_parser = parse_history_kind, value_name = "server|pool|space|export|disk")]
        kind: HistoryKind,
        /// Its name; of a disk its path or id; none for the server
        #[arg(default_value = "")]
        name: String,
        /// How far back: up to an hour by the second, up to 30d by the minute
        #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
        last: Duration,
        /// At most so many lines; neighbours are merged
        #[arg(long, value_name = "N", default_value_t = 20)]
        points: u64,
    },
    /// Show what it does: eight file disks, a pool, a mirror served over NBD, a disk pulled and put back
    Demo(Demo),
    /// Print a completion script
    Completion {
        /// The shell that it is for
        shell: clap_complete::Shell,
    },
    /// Print the OpenAPI document
    #[command(hide = true)]
    Openapi,
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder; it is made if it is not there
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
    /// None; those who want may
    None,
    /// Those that come over TCP
    Tcp,
    /// All
    All,
}

/// Options of the daemon.
#[derive(Args, Debug)]
pub struct Serve {
    /// Folder for what must outlive the daemon: which pools and exports there are, events, votes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state: PathBuf,
    /// Where NBD clients connect: unix:PATH or tcp:HOST:PORT; may be given several times
    #[arg(long, value_name = "ADDRESS")]
    pub nbd: Vec<Address>,
    /// Certificate of the NBD server, PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_key", value_hint = ValueHint::FilePath)]
    pub nbd_tls_cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert", value_hint = ValueHint::FilePath)]
    pub nbd_tls_key: Option<PathBuf>,
    /// Authorities of which NBD clients must show a certificate, PEM
    #[arg(long, value_name = "FILE", requires = "nbd_tls_cert", value_hint = ValueHint::FilePath)]
    pub nbd_tls_client_ca: Option<PathBuf>,
    /// Which NBD clients must encrypt, where there is a certificate; without a value all
    #[arg(long, value_name = "WHO", num_args = 0..=1, require_equals = true, default_value = "tcp", default_missing_value = "all", requires_if("all", "nbd_tls_cert"))]
    pub nbd_tls_required: TlsRequired,
    /// NBD connections at once, at most
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub nbd_connections: u32,
    /// Requests in flight on an NBD connection, at most
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub nbd_requests: u32,
    /// Payload in flight on an NBD connection, at most
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub nbd_payload: ByteSize,
    /// Address where management and the console are served over HTTPS, as in 0.0.0.0:8443; may be given several times
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub https: Vec<SocketAddr>,
    /// Certificate of HTTPS, PEM; the daemon makes one of its own if left out
    #[arg(long, value_name = "FILE", requires_all = ["https", "https_key"], value_hint = ValueHint::FilePath)]
    pub https_cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "https_cert", value_hint = ValueHint::FilePath)]
    pub https_key: Option<PathBuf>,
    /// Threads that serve I/O; one a core if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub reactors: Option<u32>,
    /// For how long an idle thread polls before it sleeps: longer answers faster and costs processor time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub spin: Option<Duration>,
    /// While requests follow each other closely, processors that sleep are to wake within this time, which costs energy; 0 keeps them
    /// awake, any leaves them alone. Only root may ask the kernel for it
    #[arg(long, value_name = "TIME", default_value = "3us", value_parser = parse_wake_within)]
    pub wake_within: WakeWithin,
    /// How often each space is scrubbed by itself, for example 12h, 7d, or never
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_every)]
    pub scrub_every: Every,
    /// How long a disk may be away before what it held is rebuilt on others, for example 5m, or never; pools may say otherwise
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_every)]
    pub repair_after: Every,
    /// How logs look; what is logged is set by HOLDFAST_LOG, as in HOLDFAST_LOG=debug
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// What to do with disks.
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// List all disks
    List,
    /// Show a disk
    Show {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
    },
    /// Make a sparse file that serves as a disk
    CreateFile {
        /// Path of the file
        #[arg(value_hint = ValueHint::FilePath)]
        path: PathBuf,
        /// Its size, for example 1GiB
        #[arg(long)]
        size: ByteSize,
    },
    /// Set what a disk does not tell itself, or what its pool may use it for
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["media", "enclosure", "slot", "usage"]))]
    Set {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// What it is made of
        #[arg(long, value_parser = parse_media)]
        media: Option<Media>,
        /// The enclosure that it sits in
        #[arg(long, value_name = "NAME", requires = "slot")]
        enclosure: Option<String>,
        /// Its slot in the enclosure
        #[arg(long, value_name = "N", requires = "enclosure")]
        slot: Option<u32>,
        /// What its pool may use it for: auto, manual, hot-spare, journal or retired
        #[arg(long, value_parser = parse_usage)]
        usage: Option<Usage>,
    },
    /// Retire a disk of a pool and move all data off it, as a job
    Evacuate {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Show what would be moved, whether the other disks have room for it and how full they would be, and change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Let a disk of a pool get no new slabs
    Retire {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Move its data away as well, as a job
        #[arg(long)]
        evacuate: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Empty a disk of a pool, or rebuild what it held, and take it out of the pool for good, as a job
    Replace {
        /// Path, serial number or id of the disk that goes
        #[arg(value_hint = ValueHint::FilePath)]
        old: String,
        /// The disk that comes in its stead: a new one, or one of the pool; if left out, the other disks take over
        #[arg(value_hint = ValueHint::FilePath)]
        new: Option<String>,
        /// Take a new disk that carries something else; that is lost
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Take a disk that holds no data out of its pool for good, also one that is away
    Remove {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
    },
    /// Switch the light at the slot of a disk on
    Locate {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Switch it off
        #[arg(long)]
        off: bool,
    },
    /// Make a disk of no pool blank
    Wipe {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// What it carries may be lost
        #[arg(long)]
        force: bool,
    },
}

/// What to do with pools.
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Make a pool of disks
    Create {
        /// Its name
        pool: String,
        /// Its disks: paths, serial numbers or ids
        #[arg(long, required = true, num_args = 1.., value_hint = ValueHint::FilePath)]
        disk: Vec<String>,
        /// Take disks that carry something else; that is lost
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
    /// Set how a pool takes care of itself, and when it tells that it fills up
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["alert", "retire_policy", "grace"]))]
    Set {
        /// Its name
        pool: String,
        /// Thresholds in percent of its room, for example 70,85,95, or none
        #[arg(long, value_name = "PERCENTS", value_parser = parse_alerts)]
        alert: Option<AlertPercents>,
        /// What is done about disks that are lost, or that tell of their end: auto retires them and makes what they held anew if all of
        /// it has room on the others, always as far as there is room, never leaves them to you; auto unless it is set
        #[arg(long, value_name = "POLICY", value_parser = parse_retire_policy)]
        retire_policy: Option<RetirePolicy>,
        /// For how long a disk may be away before, for example 5m, or default: as the daemon's --repair-after has it
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
        /// Take disks that carry something else; that is lost
        #[arg(long)]
        force: bool,
    },
    /// Look for pools on disks and bring them in, and disks that are out of service back
    Import {
        /// Name or id; all that are found if left out
        pool: Option<String>,
        /// Folder whose files and devices are looked at, besides the disks that are known; may be given several times
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        disk_dir: Vec<PathBuf>,
        /// Go ahead with too few disks to be sure that they carry the last state
        #[arg(long)]
        force: bool,
    },
    /// Even out how full the disks of a pool are, as a job, while it is in use
    Rebalance {
        /// Its name
        pool: String,
        /// Show what would be moved and how full each disk would be, and change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Let a pool use all features of the format that this version knows, as a job; older versions cannot import it then
    Upgrade {
        /// Its name
        pool: String,
        /// Show what would be changed, and change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Put a pool together again whose metadata is lost on all disks, from the heads of its slabs; shows what there is, and
    /// changes nothing unless told to write
    Salvage {
        /// All disks of it that are left: paths, serial numbers or ids
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        disk: Vec<String>,
        /// Show what there is and change nothing, as is done anyway
        #[arg(long, conflicts_with = "write")]
        dry_run: bool,
        /// Write new metadata, so that the pool can be imported; its spaces are read-only until they are accepted
        #[arg(long)]
        write: bool,
        /// What the pool is to be called; as before if left out
        #[arg(long)]
        name: Option<String>,
        /// Id of the pool, where slabs of several are on these disks
        #[arg(long, value_name = "ID")]
        pool: Option<Uuid>,
    },
    /// Take a pool out of service, so that another machine may import it
    Export {
        /// Its name
        pool: String,
    },
    /// Destroy a pool with everything in it
    Destroy {
        /// Its name
        pool: String,
        /// Everything in it may be lost
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
    /// None: what a disk answers is believed
    None,
    /// A CRC-32C of each block of 4 KiB
    Crc32c,
}

/// What to do with spaces.
#[derive(Debug, Subcommand)]
pub enum SpaceCommand {
    /// Make a space
    Create {
        /// POOL/SPACE
        space: SpacePath,
        /// Its resilience
        #[arg(long)]
        layout: LayoutWord,
        /// Copies of a mirror, 2 or 3; 2 if left out
        #[arg(long, value_name = "N")]
        copies: Option<u8>,
        /// Columns of parity, 1 or 2: so many disks may fail; 1 if left out
        #[arg(long, value_name = "N")]
        parity: Option<u8>,
        /// Stripe units side by side, those of parity included; chosen from the pool's disks if left out
        #[arg(long, value_name = "N")]
        columns: Option<u16>,
        /// Size of a stripe unit; 256KiB if left out
        #[arg(long, value_name = "SIZE")]
        interleave: Option<ByteSize>,
        /// A checksum of each block, so that silent corruption is caught and healed; crc32c if left out
        #[arg(long, value_enum)]
        integrity: Option<IntegrityWord>,
        /// Size of the journal of a parity space, 32MiB to 100GiB; chosen from the pool's disks if left out
        #[arg(long, value_name = "SIZE")]
        journal: Option<ByteSize>,
        /// Its size, for example 4GiB
        #[arg(long)]
        size: ByteSize,
        /// Take room only as it is written to
        #[arg(long)]
        thin: bool,
        /// Spread it so that the loss of a whole enclosure is survived; 'disk set' tells where disks are
        #[arg(long)]
        enclosure_aware: bool,
        /// Show what it would be, with room and costs, beside what else it could be; make nothing
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
    /// Change the journal of a parity space, or the limits of any, while it is in use
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
    /// Let clients write to a space that a salvage put together
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
    /// Compare all data of a space with their copies or parity, while it is in use; exit status 1 if any disagrees
    Verify {
        /// POOL/SPACE
        space: SpacePath,
    },
    /// Read all data of a space with their copies or parity and make good what can be, as a job, while it is in use
    Scrub {
        /// POOL/SPACE
        space: SpacePath,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Rebuild what a space lost with disks on others, as a job, while it is in use
    Repair {
        /// POOL/SPACE
        space: SpacePath,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Give a space another shape, as a job, while it is in use
    Convert {
        /// POOL/SPACE
        space: SpacePath,
        #[command(flatten)]
        shape: ConvertOptions,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Show where every slab of a space lies
    Map {
        /// POOL/SPACE
        space: SpacePath,
    },
    /// Destroy a space with its data
    Destroy {
        /// POOL/SPACE
        space: SpacePath,
        /// Its data may be lost
        #[arg(long)]
        yes: bool,
    },
}

/// What a space shall become.
#[derive(Args, Debug)]
pub struct ConvertOptions {
    /// Its resilience from now on; as it is if left out
    #[arg(long)]
    pub layout: Option<LayoutWord>,
    /// Copies of a mirror, 2 or 3; if left out as they are, or 2 where it becomes a mirror
    #[arg(long, value_name = "N")]
    pub copies: Option<u8>,
    /// Columns of parity, 1 or 2: so many disks may fail; if left out as they are, or 1 where it gets parity
    #[arg(long, value_name = "N")]
    pub parity: Option<u8>,
    /// Stripe units side by side, those of parity included; if left out as they are, or chosen from the pool's disks
    /// where the resilience changes
    #[arg(long, value_name = "N")]
    pub columns: Option<u16>,
    /// Size of a stripe unit; as it is if left out
    #[arg(long, value_name = "SIZE")]
    pub interleave: Option<ByteSize>,
    /// A checksum of each block, or none; as it is if left out
    #[arg(long, value_enum)]
    pub integrity: Option<IntegrityWord>,
    /// Size of the journal if it gets one, 32MiB to 100GiB; chosen from the pool's disks if left out
    #[arg(long, value_name = "SIZE")]
    pub journal: Option<ByteSize>,
    /// Take room only as it is written to
    #[arg(long, conflicts_with = "fixed")]
    pub thin: bool,
    /// Take all its room at the end
    #[arg(long)]
    pub fixed: bool,
    /// Its new size; a smaller one is refused while data lies beyond it
    #[arg(long)]
    pub size: Option<ByteSize>,
    /// Give up what lies beyond a smaller size
    #[arg(long, requires = "size")]
    pub discard_beyond: bool,
    /// Show what would be moved and how much room it takes, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How a job is begun.
#[derive(Args, Debug)]
pub struct StartOptions {
    /// How much it makes way for clients: low, normal or high; normal if left out
    #[arg(long, value_parser = parse_priority)]
    pub priority: Option<JobPriority>,
    /// What it does in a second at most, for example 50MiB; 0 or none for no cap
    #[arg(long, value_name = "RATE", value_parser = parse_cap)]
    pub cap: Option<Cap>,
    /// Wait for its end; exit status 1 if it fails or is cancelled
    #[arg(long)]
    pub wait: bool,
}

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// List the jobs that have not ended
    List {
        /// Also the last that have
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
    /// Let a job wait until it is resumed
    Pause {
        /// Its number
        id: u64,
    },
    /// Let a paused job go on
    Resume {
        /// Its number
        id: u64,
    },
    /// End a job before it is done; what it did stays
    Cancel {
        /// Its number
        id: u64,
    },
    /// Change how a job is done, while it runs
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["priority", "cap"]))]
    Set {
        /// Its number
        id: u64,
        /// How much it makes way for clients: low, normal or high
        #[arg(long, value_parser = parse_priority)]
        priority: Option<JobPriority>,
        /// What it does in a second at most, for example 50MiB; 0 or none for no cap
        #[arg(long, value_name = "RATE", value_parser = parse_cap)]
        cap: Option<Cap>,
    },
}

/// What to do with events.
#[derive(Debug, Subcommand)]
pub enum EventCommand {
    /// List what happened
    List {
        /// Go on with what happens, until interrupted
        #[arg(long)]
        follow: bool,
    },
}

/// Options of the demonstration.
#[derive(Args, Debug)]
pub struct Demo {
    /// Folder of the demonstration; it is made if it is not there
    #[arg(long, default_value = "demo", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// End after the showing instead of staying up
    #[arg(long)]
    pub once: bool,
}

#[cfg(test)]
mod tests;
