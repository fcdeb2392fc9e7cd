//! Commands about volumes.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum, ValueHint};
use holdfast_api::{IntegrityMode, ModeChange};
use holdfast_model::{ByteSize, SpacePath};

use super::{LayoutWord, ShapeOptions, StartOptions};

/// Whose quota it is: one of them.
#[derive(Debug, clap::Args)]
#[group(id = "whose", required = true, multiple = false)]
pub struct QuotaSubject {
    /// A directory with all below it, from the volume's root on
    #[arg(long, value_name = "DIR")]
    pub path: Option<String>,
    /// The files of a user, by name as the server knows it or by number
    #[arg(long)]
    pub user: Option<String>,
    /// The files of a group, by name as the server knows it or by number
    #[arg(long)]
    pub group: Option<String>,
    /// The files of an owner without a number, by its security identifier, as S-1-5-21-1-2-3-1000
    #[arg(long, value_name = "SID")]
    pub owner: Option<String>,
}

/// What to do with quotas.
#[derive(Debug, Subcommand)]
pub enum QuotaCommand {
    /// Limit what a directory tree, a user or a group takes; limits left out are removed
    #[command(group = clap::ArgGroup::new("limit").required(true).multiple(true).args(["size", "files", "soft_size", "soft_files"]))]
    Set {
        /// POOL/VOLUME
        volume: SpacePath,
        #[command(flatten)]
        subject: QuotaSubject,
        /// Room that may be taken, for example 100GiB; what goes beyond is refused
        #[arg(long)]
        size: Option<ByteSize>,
        /// Files and directories that there may be; what goes beyond is refused
        #[arg(long)]
        files: Option<u64>,
        /// Room beyond which an event tells of it
        #[arg(long)]
        soft_size: Option<ByteSize>,
        /// Files and directories beyond which an event tells of it
        #[arg(long)]
        soft_files: Option<u64>,
    },
    /// List the quotas of a volume, and what is taken of them
    List {
        /// POOL/VOLUME
        volume: SpacePath,
        /// Also users and groups without a quota
        #[arg(long)]
        all: bool,
    },
    /// Remove a quota
    Remove {
        /// POOL/VOLUME
        volume: SpacePath,
        #[command(flatten)]
        subject: QuotaSubject,
    },
}

/// What to do with permissions of files.
#[derive(Debug, Subcommand)]
pub enum AclCommand {
    /// Show the permissions of a file: its security descriptor
    Get {
        /// POOL/VOLUME/PATH, or a path below a mounted volume
        path: String,
    },
    /// Set permissions of a file
    Set {
        /// POOL/VOLUME/PATH, or a path below a mounted volume
        path: String,
        /// Parts of a descriptor as text, for example 'D:(A;OICI;FA;;;S-1-22-1-1000)'; parts left out stay
        #[arg(long, value_name = "TEXT")]
        sddl: String,
        /// Of a directory, also have what is below inherit it, as a job
        #[arg(long)]
        below: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Show what a user may do with a file, and why
    Access {
        /// POOL/VOLUME/PATH, or a path below a mounted volume
        path: String,
        /// The user, by name as the server knows it or by number
        #[arg(long)]
        user: String,
    },
}

/// What a file keeps to prove its data.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Mode {
    /// Nothing of its own; its space has checksums
    PassThrough,
    /// A checksum of each block; data is written to new places
    Strict,
    /// Nothing of its own, and scrubs leave it alone
    None,
}

impl From<Mode> for IntegrityMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::PassThrough => Self::PassThrough,
            Mode::Strict => Self::Strict,
            Mode::None => Self::None,
        }
    }
}

/// What chmod does to a file that has a security descriptor of its own.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OnModeChange {
    /// Limit what the descriptor grants
    Mask,
    /// Take the descriptor away
    Discard,
    /// Fail
    Refuse,
}

impl From<OnModeChange> for ModeChange {
    fn from(change: OnModeChange) -> Self {
        match change {
            OnModeChange::Mask => Self::Mask,
            OnModeChange::Discard => Self::Discard,
            OnModeChange::Refuse => Self::Refuse,
        }
    }
}

/// What to do with checksums of files.
#[derive(Debug, Subcommand)]
pub enum IntegrityCommand {
    /// Show what a file or directory keeps
    Get {
        /// POOL/VOLUME/PATH, or a path of the server below a mounted volume
        path: String,
    },
    /// Have a file, as a job, or the new files of a directory keep something else
    Set {
        /// POOL/VOLUME/PATH, or a path of the server below a mounted volume
        path: String,
        /// What it is to keep
        mode: Mode,
        /// Of a directory, also have what is below keep it, as a job
        #[arg(long)]
        below: bool,
        #[command(flatten)]
        start: StartOptions,
    },
}

/// What to do with change journals.
#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Switch the change journal on, or give it another size
    Set {
        /// POOL/VOLUME
        volume: SpacePath,
        /// How much of the last changes to keep at least, 64 KiB to 4 GiB; 64 MiB for a new one
        #[arg(long)]
        size: Option<ByteSize>,
    },
    /// Show the change journal
    Show {
        /// POOL/VOLUME
        volume: SpacePath,
    },
    /// Read what changed; with --json up to 1000 records, and the position from which to go on
    Read {
        /// POOL/VOLUME
        volume: SpacePath,
        /// The position from which to read, as an earlier reading ended; the first one that there is without it
        #[arg(long, value_name = "POSITION")]
        from: Option<u64>,
        /// Go on with what happens, until Ctrl-C
        #[arg(long)]
        follow: bool,
    },
    /// Switch the change journal off; its records are gone
    Remove {
        /// POOL/VOLUME
        volume: SpacePath,
        /// Confirm: programs that follow it have to look at all files afterwards
        #[arg(long)]
        yes: bool,
    },
}

/// What to do with volumes.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Create a volume, with a space of its own or on an empty one
    #[command(group = clap::ArgGroup::new("where").required(true).args(["size", "on"]))]
    Create {
        /// POOL/VOLUME
        volume: SpacePath,
        /// Its size, for example 4GiB; a space of this size is created for it, with the same name
        #[arg(long)]
        size: Option<ByteSize>,
        /// POOL/SPACE: put it on this empty space instead
        #[arg(long, value_name = "POOL/SPACE", conflicts_with_all = ["layout", "copies", "parity", "columns", "interleave", "integrity", "journal", "thin", "enclosure_aware"])]
        on: Option<SpacePath>,
        /// Resilience of its space
        #[arg(long, default_value = "mirror")]
        layout: LayoutWord,
        #[command(flatten)]
        shape: ShapeOptions,
        /// Treat names that differ only in case as different for all clients, not only for POSIX ones
        #[arg(long)]
        case_sensitive: bool,
    },
    /// List all volumes
    List,
    /// Show a volume
    Show {
        /// POOL/VOLUME
        volume: SpacePath,
    },
    /// Change properties of a volume while it is in use
    #[command(group = clap::ArgGroup::new("property").required(true).multiple(true).args(["mode_change"]))]
    Set {
        /// POOL/VOLUME
        volume: SpacePath,
        /// What chmod does to files that have a security descriptor of their own
        #[arg(long, value_enum, value_name = "WHAT")]
        mode_change: Option<OnModeChange>,
    },
    /// Mount a volume on a directory of the server, now and at every start
    Mount {
        /// POOL/VOLUME
        volume: SpacePath,
        /// The directory
        #[arg(value_hint = ValueHint::DirPath)]
        directory: PathBuf,
        /// Also if the directory is not empty: its files are hidden while the volume is mounted
        #[arg(long)]
        over: bool,
        /// Make the directory, and those above it, where they are missing
        #[arg(long)]
        create_directory: bool,
    },
    /// Unmount a volume, which programs must not use
    Unmount {
        /// POOL/VOLUME
        volume: SpacePath,
        /// Also while programs use it: what they have open fails
        #[arg(long)]
        force: bool,
    },
    /// Make a volume larger while it is in use
    Grow {
        /// POOL/VOLUME
        volume: SpacePath,
        /// The new size
        #[arg(long)]
        size: ByteSize,
    },
    /// Make a volume smaller while it is in use, with the space created for it, as a job
    Shrink {
        /// POOL/VOLUME
        volume: SpacePath,
        /// The new size
        #[arg(long)]
        size: ByteSize,
        /// Only tell what would be moved, and the smallest size; fails if it cannot be done
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Take up a volume that lies on a space and that the pool does not know, as after a salvage of the pool
    Adopt {
        /// POOL/VOLUME
        volume: SpacePath,
        /// POOL/SPACE, which stays when the volume is destroyed
        #[arg(long)]
        on: SpacePath,
    },
    /// Show what the files of a volume take, and which names take most
    Du {
        /// POOL/VOLUME
        volume: SpacePath,
        /// The directory, from the volume's root on
        #[arg(default_value = "/")]
        path: String,
    },
    /// Limit what directory trees, users and groups of a volume take
    #[command(subcommand)]
    Quota(QuotaCommand),
    /// Have files keep checksums of their own
    #[command(subcommand)]
    Integrity(IntegrityCommand),
    /// Read all data of strict files, in every copy, and mend what can be mended, as a job; the volume stays in use
    Scrub {
        /// POOL/VOLUME
        volume: SpacePath,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Bring together what lies scattered of files, as a job; the volume stays in use
    ///
    /// Snapshots and clones scatter what is written over while they are there. What they still have stays where it is.
    Gather {
        /// POOL/VOLUME
        volume: SpacePath,
        #[command(flatten)]
        start: StartOptions,
    },
    /// List blocks of strict files that are right in no copy
    Damage {
        /// POOL/VOLUME
        volume: SpacePath,
    },
    /// Keep a record of what changes on a volume, for programs that follow it
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Permissions of files, by the rules of Windows
    #[command(subcommand)]
    Acl(AclCommand),
    /// Read all metadata of a volume and list what does not agree, as a job; the volume stays in use
    Scan {
        /// POOL/VOLUME
        volume: SpacePath,
        #[command(flatten)]
        start: StartOptions,
    },
    /// List what the last scan found and is not repaired yet
    Findings {
        /// POOL/VOLUME
        volume: SpacePath,
    },
    /// Repair what can be repaired while the volume is in use, or all of it with --offline, as a job
    Spotfix {
        /// POOL/VOLUME
        volume: SpacePath,
        /// Unmount the volume, repair what needs that, mount it again, and repair the rest in use; refused while programs
        /// use it
        #[arg(long)]
        offline: bool,
        /// With --offline: also while programs use it; what they have open fails
        #[arg(long, requires = "offline")]
        force: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Give room that files do not use back to the thin space now, as a job; otherwise that takes about a minute
    Trim {
        /// POOL/VOLUME
        volume: SpacePath,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Copy out what can be read of a damaged volume, as a job; nothing on the volume is changed
    Salvage {
        /// POOL/VOLUME
        volume: SpacePath,
        /// A directory of the server, new or empty, on another file system
        #[arg(long, value_name = "DIRECTORY")]
        to: PathBuf,
        /// Also while programs use the volume; what they have open fails
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Destroy a volume with its files, and the space created for it
    Destroy {
        /// POOL/VOLUME
        volume: SpacePath,
        /// Confirm: its files are lost
        #[arg(long)]
        yes: bool,
        /// Also while it is mounted: what programs have open fails
        #[arg(long)]
        force: bool,
    },
}
