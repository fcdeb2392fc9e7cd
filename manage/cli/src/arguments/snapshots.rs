//! Commands about snapshots of volumes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Subcommand;
use holdfast_model::SpacePath;

use super::{StartOptions, parse_duration};

/// A snapshot, written `POOL/VOLUME@NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPath {
    /// The volume.
    pub volume: SpacePath,
    /// The name of the snapshot.
    pub name: String,
}

impl FromStr for SnapshotPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a snapshot: write POOL/VOLUME@NAME");
        let (volume, name) = text.split_once('@').ok_or_else(wrong)?;
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(Self { volume: volume.parse().map_err(|error| format!("{error}"))?, name: name.to_owned() })
    }
}

impl fmt::Display for SnapshotPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.volume, self.name)
    }
}

/// The name of another snapshot of the same volume, with or without `@`.
fn parse_other(text: &str) -> Result<String, String> {
    let name = text.strip_prefix('@').unwrap_or(text);
    if name.is_empty() || name.contains('@') {
        return Err(format!("'{text}' is not a snapshot of the same volume: write @NAME"));
    }
    Ok(name.to_owned())
}

fn parse_interval(text: &str) -> Result<u64, String> {
    let time: Duration = parse_duration(text)?;
    Ok(time.as_secs())
}

/// Minutes after midnight, of `03:00`.
fn parse_time_of_day(text: &str) -> Result<u16, String> {
    let wrong = || format!("'{text}' is no time of day: write HH:MM, for example 03:00");
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str, below: u16| text.parse::<u16>().ok().filter(|number| text.len() == 2 && *number < below);
    Ok(number(hours, 24).ok_or_else(wrong)? * 60 + number(minutes, 60).ok_or_else(wrong)?)
}

/// What to do with schedules.
#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Make snapshots by the clock and keep the newest; several intervals may stand side by side
    Set {
        /// POOL/VOLUME
        volume: SpacePath,
        /// The time from one to the next, for example 15m, 1h or 1d; at multiples of it, in UTC
        #[arg(long, value_name = "TIME", value_parser = parse_interval)]
        every: u64,
        /// The time of day, in the server's time zone, where they are whole days apart
        #[arg(long, value_name = "HH:MM", value_parser = parse_time_of_day)]
        at: Option<u16>,
        /// How many of them to keep; those beyond are destroyed
        #[arg(long, value_name = "N")]
        keep: u32,
        /// Confirm: snapshots that are there beyond that are destroyed
        #[arg(long)]
        yes: bool,
    },
    /// Show the schedule of a volume
    Show {
        /// POOL/VOLUME
        volume: SpacePath,
    },
    /// Make no snapshots any more; those that were made stay
    Remove {
        /// POOL/VOLUME
        volume: SpacePath,
        /// Only those of this interval
        #[arg(long, value_name = "TIME", value_parser = parse_interval)]
        every: Option<u64>,
    },
}

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Keep all files of a volume as they are now
    Create {
        /// POOL/VOLUME@NAME
        snapshot: SnapshotPath,
    },
    /// List the snapshots of a volume
    List {
        /// POOL/VOLUME
        volume: SpacePath,
    },
    /// List the files that differ between a snapshot and now, or another snapshot
    Diff {
        /// POOL/VOLUME@NAME
        snapshot: SnapshotPath,
        /// @NAME of the other one
        #[arg(value_name = "@OTHER", value_parser = parse_other)]
        to: Option<String>,
        /// Only at this path and below it, from the volume's root on
        #[arg(long)]
        path: Option<String>,
    },
    /// Have files be as a snapshot has them, as a job; the volume stays in use
    Restore {
        /// POOL/VOLUME@NAME
        snapshot: SnapshotPath,
        /// The file or directory, from the volume's root on
        #[arg(long, default_value = "/")]
        path: String,
        /// Put it there instead, where nothing may be yet
        #[arg(long, value_name = "PATH")]
        to: Option<String>,
        /// Make no snapshot of what is there now before
        #[arg(long, conflicts_with = "to")]
        discard: bool,
        /// Confirm: what is there now is replaced
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        start: StartOptions,
    },
    /// Destroy a snapshot
    Destroy {
        /// POOL/VOLUME@NAME
        snapshot: SnapshotPath,
        /// Confirm: that state of the files is lost
        #[arg(long)]
        yes: bool,
    },
    /// Make and destroy snapshots by the clock
    #[command(subcommand)]
    Schedule(ScheduleCommand),
}
