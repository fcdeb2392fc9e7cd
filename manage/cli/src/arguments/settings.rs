//! The settings of the server: shown and changed.

use clap::{Args, Subcommand};

use super::values::{AlertPercents, Chosen, parse_alerts, parse_chosen};

/// What to do with the settings of the server.
#[derive(Debug, Subcommand)]
pub enum SettingsCommand {
    /// Show the settings, and how management is served
    Show,
    /// Change settings; changes apply at once and survive restarts
    Set(SetSetting),
}

/// Settings to change.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true).args(["host_name", "scrub_every", "repair_after", "alert"]))]
pub struct SetSetting {
    /// Name of the server in the console; '' for the machine's own name
    #[arg(long, value_name = "NAME")]
    pub host_name: Option<String>,
    /// Interval between automatic scrubs of each space, for example 7d or 30d, never, or default
    #[arg(long, value_name = "TIME", value_parser = parse_chosen)]
    pub scrub_every: Option<Chosen>,
    /// How long a disk may be missing before its data is rebuilt on other disks, for example 5m, never, or default; a
    /// pool's own time takes precedence
    #[arg(long, value_name = "TIME", value_parser = parse_chosen)]
    pub repair_after: Option<Chosen>,
    /// Warn when a pool is this full, in percent, for example 70,85,95, none, or default; a pool's own thresholds take
    /// precedence
    #[arg(long, value_name = "PERCENTS", value_parser = parse_alerts)]
    pub alert: Option<AlertPercents>,
}
