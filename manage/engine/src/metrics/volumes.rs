//! Volumes as Prometheus reads them.

use super::{Family, Kind};
use crate::engine::Engine;

impl Engine {
    /// Data of files that is kept in memory for all volumes.
    pub(super) fn cache_metrics(&self) -> Vec<Family> {
        let counts = self.data_cache.as_ref().map(|cache| cache.counts()).unwrap_or_default();
        let family = |name, kind, help, value| {
            let mut family = Family::new(name, kind, help, &[]);
            family.add(&[], value);
            family
        };
        const HITS: &str = "Reads of files that were answered from memory.";
        const MISSES: &str = "Reads of files that went to the disks and might have been answered from memory.";
        const EVICTIONS: &str = "Pieces that were given up for others.";
        const INVALIDATIONS: &str = "Pieces that were taken out because what they held was written over.";
        vec![
            family("holdfast_data_cache_hits_total", Kind::Counter, HITS, counts.hits),
            family("holdfast_data_cache_misses_total", Kind::Counter, MISSES, counts.misses),
            family("holdfast_data_cache_evictions_total", Kind::Counter, EVICTIONS, counts.evictions),
            family("holdfast_data_cache_invalidations_total", Kind::Counter, INVALIDATIONS, counts.invalidations),
            family("holdfast_data_cache_bytes", Kind::Gauge, "Memory that it takes.", counts.bytes),
            family("holdfast_data_cache_limit_bytes", Kind::Gauge, "Memory that it may take.", counts.most_bytes),
        ]
    }

    pub(super) fn volume_metrics(&self) -> Vec<Family> {
        const OPERATION: &[&str] = &["volume", "operation"];
        let gauge = |name, help| Family::new(name, Kind::Gauge, help, &["volume"]);
        let mut size = gauge("holdfast_volume_size_bytes", "Bytes of its space that it uses.");
        let mut free = gauge("holdfast_volume_free_bytes", "Bytes that may still be written.");
        let mut files = gauge("holdfast_volume_files", "Files and directories that it has.");
        let mut findings = gauge("holdfast_volume_findings", "What its last scan found and nobody repaired since.");
        let mut mounted = gauge("holdfast_volume_mounted", "1 while it is mounted.");
        let mut snapshots = gauge("holdfast_volume_snapshots", "Snapshots that it has.");
        let mut kept = gauge("holdfast_volume_snapshot_bytes", "Bytes that only snapshots keep.");
        let mut blocks = Family::new(
            "holdfast_volume_checked_blocks_total",
            Kind::Counter,
            "Blocks of strict files that were read since the volume was opened, and what came of those that were wrong.",
            &["volume", "outcome"],
        );
        for volume in self.volumes() {
            let label = [volume.name.as_str()];
            let known = [
                (&mut size, volume.size_bytes),
                (&mut free, volume.free_bytes),
                (&mut files, volume.files),
                (&mut findings, volume.findings),
                (&mut snapshots, volume.snapshots.map(u64::from)),
                (&mut kept, volume.snapshot_bytes),
            ];
            known.into_iter().for_each(|(family, value)| value.into_iter().for_each(|value| family.add(&label, value)));
            if let Some(counts) = &volume.checksums {
                let outcomes = [("checked", counts.checked), ("healed", counts.healed), ("lost", counts.lost)];
                outcomes.into_iter().for_each(|(outcome, count)| blocks.add(&[&volume.name, outcome], count));
            }
            mounted.add(&label, volume.mount.is_some_and(|mount| mount.mounted).into());
        }
        let mut operations = Family::new(
            "holdfast_volume_operations_total",
            Kind::Counter,
            "Requests of the kernel, since it is mounted.",
            OPERATION,
        );
        let mut bytes = Family::new("holdfast_volume_bytes_total", Kind::Counter, "Bytes read and written.", OPERATION);
        let mut errors =
            Family::new("holdfast_volume_errors_total", Kind::Counter, "Requests answered with an error.", &["volume"]);
        const QUOTA: &[&str] = &["volume", "kind", "name"];
        let quota = |name, help| Family::new(name, Kind::Gauge, help, QUOTA);
        let mut quota_bytes = quota("holdfast_volume_quota_used_bytes", "Bytes that are taken of a quota.");
        let mut quota_limit = quota("holdfast_volume_quota_limit_bytes", "Its hard limit of bytes.");
        let mut quota_files = quota("holdfast_volume_quota_used_files", "Files that are taken of a quota.");
        let mut quota_most = quota("holdfast_volume_quota_limit_files", "Its hard limit of files.");
        let mut refused = Family::new(
            "holdfast_volume_quota_refused_total",
            Kind::Counter,
            "Requests that a quota refused since the volume was opened.",
            QUOTA,
        );
        let pools: Vec<_> = self.live().pools.values().cloned().collect();
        for (volume, (kind, name), quota) in pools.iter().flat_map(|open| open.limited_quotas()) {
            let label = [volume.as_str(), kind, name.as_str()];
            let limits = quota.limits.unwrap_or_default();
            quota_bytes.add(&label, quota.used_bytes);
            quota_files.add(&label, quota.used_files);
            limits.hard_bytes.into_iter().for_each(|bytes| quota_limit.add(&label, bytes));
            limits.hard_files.into_iter().for_each(|files| quota_most.add(&label, files));
            refused.add(&label, quota.refused);
        }
        for traffic in pools.iter().flat_map(|open| open.volume_traffic()) {
            let name = traffic.name.as_str();
            traffic.stats.requests.iter().for_each(|(kind, count)| operations.add(&[name, kind], *count));
            bytes.add(&[name, "read"], traffic.stats.read_bytes);
            bytes.add(&[name, "write"], traffic.stats.written_bytes);
            errors.add(&[name], traffic.stats.errors);
        }
        let quotas = [quota_bytes, quota_limit, quota_files, quota_most, refused];
        let shown = [size, free, files, findings, snapshots, kept, blocks, mounted, operations, bytes, errors];
        shown.into_iter().chain(quotas).collect()
    }
}
