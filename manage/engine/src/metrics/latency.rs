//! Latencies as Prometheus reads histograms: one bucket for each octave, in seconds.

use std::fmt::Write;

use holdfast_model::Latencies;

use super::{Family, Kind, escape};
use crate::engine::Engine;

/// The labels of one histogram, as they are written.
type Series = (String, Latencies);

/// Writes a family of histograms.
fn write(text: &mut String, name: &'static str, help: &'static str, all: &[Series]) {
    Family::new(name, Kind::Histogram, help, &[]).write(text);
    for (labels, latencies) in all {
        let mut below = 0;
        for (end, count) in latencies.octaves() {
            below += count;
            let limit = if end == u64::MAX { "+Inf".into() } else { (end as f64 / 1e6).to_string() };
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{limit}\"}} {below}");
        }
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}", latencies.sum_us() as f64 / 1e6);
        let _ = writeln!(text, "{name}_count{{{labels}}} {below}");
    }
}

/// Reads and writes of one object.
fn both(labels: &[(&str, &str)], (reads, writes): (Latencies, Latencies)) -> [Series; 2] {
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    let labels = labels.join(",");
    [(format!("{labels},operation=\"read\""), reads), (format!("{labels},operation=\"write\""), writes)]
}

impl Engine {
    /// Adds how long requests took.
    pub(super) fn latency_metrics(&self, text: &mut String) {
        let [mut disks, mut spaces, mut exports, mut luns, mut volumes] = [const { Vec::new() }; 5];
        let live = self.live();
        for open in live.pools.values() {
            let pool = open.name();
            for disk in open.pool.pool_disks() {
                let latencies = (disk.counters.read_latency.counts(), disk.counters.write_latency.counts());
                disks.extend(both(&[("pool", &pool), ("disk", &disk.id.to_string())], latencies));
            }
            for traffic in open.volume_traffic() {
                volumes.extend(both(&[("volume", &traffic.name)], traffic.latencies));
            }
            for (name, service) in open.named_services() {
                spaces.extend(both(&[("space", &name)], service.traffic().latencies()));
            }
        }
        for export in live.exports.values() {
            if let Some(target) = &export.target {
                let labels = [("export", export.known.name.as_str()), ("space", &export.known.path)];
                exports.extend(both(&labels, target.traffic().latencies()));
            }
        }
        for lun in live.targets.values().flat_map(|target| target.served()) {
            let labels = [("lun", lun.name.as_str()), ("backing", &lun.known.path)];
            luns.extend(both(&labels, lun.block.traffic().latencies()));
        }
        drop(live);
        write(text, "holdfast_disk_latency_seconds", "How long requests to the disk took, of one in sixteen.", &disks);
        write(
            text,
            "holdfast_space_latency_seconds",
            "How long requests of clients took, waits for limits included.",
            &spaces,
        );
        write(text, "holdfast_export_latency_seconds", "The same, by export.", &exports);
        write(text, "holdfast_lun_latency_seconds", "The same, by LUN.", &luns);
        write(text, "holdfast_volume_latency_seconds", "How long reads and writes of files took.", &volumes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use holdfast_model::Histogram;

    use super::*;

    #[test]
    fn buckets_count_all_below_them() {
        let histogram = Histogram::default();
        [5, 20, 20, 3000].into_iter().for_each(|micros| histogram.add(Duration::from_micros(micros)));
        let mut text = String::new();
        let series = both(&[("space", "a\"b")], (histogram.counts(), Latencies::default()));
        write(&mut text, "x_seconds", "Times.", &series);
        assert!(text.starts_with("# HELP x_seconds Times.\n# TYPE x_seconds histogram\n"), "{text}");
        for line in [
            "x_seconds_bucket{space=\"a\\\"b\",operation=\"read\",le=\"0.000008\"} 1",
            "x_seconds_bucket{space=\"a\\\"b\",operation=\"read\",le=\"0.000032\"} 3",
            "x_seconds_bucket{space=\"a\\\"b\",operation=\"read\",le=\"+Inf\"} 4",
            "x_seconds_count{space=\"a\\\"b\",operation=\"read\"} 4",
            "x_seconds_count{space=\"a\\\"b\",operation=\"write\"} 0",
        ] {
            assert!(text.lines().any(|is| is == line), "{line} is not in {text}");
        }
    }
}
