//! The commands for disks.

use std::path::PathBuf;

use clap::{Subcommand, ValueHint};
use holdfast_model::{ByteSize, Media, SpacePath, Usage};

use super::StartOptions;
use super::values::{parse_media, parse_usage};

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
        /// Go ahead although too few disks are left for new rows of some spaces
        #[arg(long)]
        force: bool,
    },
    /// Retire a disk of a pool and move all data off it, as a job
    Evacuate {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Show what would be moved, whether the other disks have room for it and how full they would be, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Go ahead although too few disks are left for new rows of some spaces
        #[arg(long)]
        force: bool,
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
        /// Go ahead although too few disks are left for new rows of some spaces
        #[arg(long)]
        force: bool,
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
        /// Take a new disk that carries something else; that is lost. Without a new disk: go ahead although too few disks are left for
        /// new rows of some spaces
        #[arg(long)]
        force: bool,
        /// Destroy this space, a part of whose data is lost with the disk; may be given several times, for administrators only
        #[arg(long, value_name = "POOL/SPACE")]
        give_up: Vec<SpacePath>,
        /// Show what would be moved or rebuilt, what would be lost, and how full the disks would be, and change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Take a disk that holds no data out of its pool for good, also one that is away
    Remove {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Go ahead although too few disks are left for new rows of some spaces
        #[arg(long)]
        force: bool,
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
