//! Commands about exports, and options of quality of service.

use clap::{Args, Subcommand};
use holdfast_api::SetQos;
use holdfast_model::{ByteSize, SpacePath};

/// What to do with exports.
#[derive(Debug, Subcommand)]
pub enum NbdCommand {
    /// Export a space to NBD clients
    Export {
        /// POOL/SPACE
        space: SpacePath,
        /// Name that clients ask for; the space's own if left out
        #[arg(long)]
        name: Option<String>,
        /// Refuse writes
        #[arg(long)]
        read_only: bool,
    },
    /// List all exports
    List,
    /// Change an export while it is in use
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true)
        .args(["read_only", "max_iops", "burst_iops", "max_bandwidth", "burst_bandwidth", "min_iops"]))]
    Set {
        /// Its name
        name: String,
        /// Whether writes are refused; its clients are disconnected if that changes
        #[arg(long, value_name = "true|false")]
        read_only: Option<bool>,
        #[command(flatten)]
        qos: QosOptions,
    },
    /// List the clients that are connected to an export
    Connections {
        /// Its name
        name: String,
    },
    /// Withdraw an export
    Unexport {
        /// Its name
        name: String,
    },
}

/// What something may do at most, and is to get at least; 0 lifts a limit.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct QosOptions {
    /// I/Os a second at most, of 8 KiB each; 0 for no limit
    #[arg(long, value_name = "N")]
    pub max_iops: Option<u64>,
    /// I/Os beyond the maximum that may be done at once after a rest
    #[arg(long, value_name = "N")]
    pub burst_iops: Option<u64>,
    /// Bytes a second at most, for example 100MiB; 0 for no limit
    #[arg(long, value_name = "SIZE")]
    pub max_bandwidth: Option<ByteSize>,
    /// Bytes beyond the maximum that may be moved at once after a rest
    #[arg(long, value_name = "SIZE")]
    pub burst_bandwidth: Option<ByteSize>,
    /// I/Os a second that it gets before others get theirs; 0 for none
    #[arg(long, value_name = "N")]
    pub min_iops: Option<u64>,
}

impl QosOptions {
    /// The change that they ask for, if any.
    pub fn change(self) -> Option<SetQos> {
        let set = SetQos {
            max_iops: self.max_iops,
            burst_iops: self.burst_iops,
            max_bytes_per_second: self.max_bandwidth.map(ByteSize::bytes),
            burst_bytes_per_second: self.burst_bandwidth.map(ByteSize::bytes),
            min_iops: self.min_iops,
        };
        (set != SetQos::default()).then_some(set)
    }
}
