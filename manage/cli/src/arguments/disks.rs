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
    /// Set the medium, enclosure and slot of a disk, or its usage in its pool
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["media", "enclosure", "slot", "usage"]))]
    Set {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Kind of medium
        #[arg(long, value_parser = parse_media)]
        media: Option<Media>,
        /// Enclosure of the disk
        #[arg(long, value_name = "NAME", requires = "slot")]
        enclosure: Option<String>,
        /// Slot in the enclosure
        #[arg(long, value_name = "N", requires = "enclosure")]
        slot: Option<u32>,
        /// Usage in its pool: auto, manual, hot-spare, journal or retired
        #[arg(long, value_parser = parse_usage)]
        usage: Option<Usage>,
        /// Continue although too few disks are left for new rows of some spaces
        #[arg(long)]
        force: bool,
    },
    /// Retire a disk of a pool and move all data off it, as a job
    Evacuate {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Show what would be moved, whether the other disks have room for it and how full they would be, and change
        /// nothing
        #[arg(long)]
        dry_run: bool,
        /// Continue although too few disks are left for new rows of some spaces
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Stop placing new data on a disk of a pool
    Retire {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Also move its data to other disks, as a job
        #[arg(long)]
        evacuate: bool,
        /// Continue although too few disks are left for new rows of some spaces
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Move or rebuild the data of a disk and remove it from its pool, as a job
    Replace {
        /// Path, serial number or id of the disk to replace
        #[arg(value_hint = ValueHint::FilePath)]
        old: String,
        /// Replacement: a new disk or one of the pool; if left out, the data goes to the other disks
        #[arg(value_hint = ValueHint::FilePath)]
        new: Option<String>,
        /// Use a new disk that holds other data, which is lost. Without a new disk: continue although too few disks are
        /// left for new rows of some spaces
        #[arg(long)]
        force: bool,
        /// Destroy this space, which loses data with the disk; may be given several times, for administrators only
        #[arg(long, value_name = "POOL/SPACE")]
        give_up: Vec<SpacePath>,
        /// Show what would be moved or rebuilt, what would be lost, and how full the disks would be, and change nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Remove a disk that holds no data from its pool; the disk may be missing
    Remove {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Continue although too few disks are left for new rows of some spaces
        #[arg(long)]
        force: bool,
    },
    /// Turn on the locate light of a disk's slot
    Locate {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Turn it off
        #[arg(long)]
        off: bool,
    },
    /// Erase the signatures of a disk that is in no pool
    Wipe {
        /// Path, serial number or id
        #[arg(value_hint = ValueHint::FilePath)]
        disk: String,
        /// Erase the disk although it holds data
        #[arg(long)]
        force: bool,
    },
}
