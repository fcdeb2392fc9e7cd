//! What programs ask of mounted volumes.
//!
//! Invariant: counts are those of a mount, and begin anew with the next one.

use holdfast_block::Totals;
use holdfast_fuse::MountStats;
use holdfast_model::{Latencies, Uuid};

use crate::engine::OpenPool;

/// What was asked of a mounted volume so far.
pub(crate) struct VolumeTraffic {
    /// The volume's id.
    pub(crate) id: Uuid,
    /// `POOL/VOLUME`.
    pub(crate) name: String,
    /// Requests by kind, and bytes.
    pub(crate) stats: MountStats,
    /// How long reads and writes took.
    pub(crate) latencies: (Latencies, Latencies),
}

impl VolumeTraffic {
    /// Reads and writes, with their bytes.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            reads: self.stats.count("read"),
            read_bytes: self.stats.read_bytes,
            writes: self.stats.count("write"),
            written_bytes: self.stats.written_bytes,
        }
    }
}

impl OpenPool {
    /// What was asked of its mounted volumes.
    pub(crate) fn volume_traffic(&self) -> Vec<VolumeTraffic> {
        let pool = self.name();
        let volumes = self.volumes();
        let of = |live: &super::LiveVolume| {
            let mounted = live.open.as_ref()?.mounted.as_ref()?;
            let name = format!("{pool}/{}", live.known.name);
            Some(VolumeTraffic { id: live.known.id, name, stats: mounted.stats(), latencies: mounted.latencies() })
        };
        volumes.values().filter_map(of).collect()
    }
}
