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
        /// Export name; the space's name by default
        #[arg(long)]
        name: Option<String>,
        /// Read-only: refuse writes
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
        /// Whether writes are refused; changing it disconnects clients
        #[arg(long, value_name = "true|false")]
        read_only: Option<bool>,
        #[command(flatten)]
        qos: QosOptions,
    },
    /// List the clients connected to an export
    Connections {
        /// Its name
        name: String,
    },
    /// Remove an export; the space stays
    Unexport {
        /// Its name
        name: String,
        /// Only the export of this space, which may wait for a name that another export has
        #[arg(long, value_name = "POOL/SPACE")]
        space: Option<SpacePath>,
    },
}

/// Limits and a minimum of an export or space; 0 removes one.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct QosOptions {
    /// Maximum IOPS, counted in units of 8 KiB; 0 for no limit
    #[arg(long, value_name = "N")]
    pub max_iops: Option<u64>,
    /// I/Os allowed above the maximum after an idle period; 0 for none
    #[arg(long, value_name = "N")]
    pub burst_iops: Option<u64>,
    /// Maximum bandwidth per second, for example 100MiB; 0 for no limit
    #[arg(long, value_name = "SIZE")]
    pub max_bandwidth: Option<ByteSize>,
    /// Bytes allowed above the maximum after an idle period; 0 for none
    #[arg(long, value_name = "SIZE")]
    pub burst_bandwidth: Option<ByteSize>,
    /// Minimum IOPS, served before other I/O; 0 for none
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
