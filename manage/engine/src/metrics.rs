//! Everything countable, as Prometheus reads it (text exposition format 0.0.4).
//!
//! Invariant: each family is written once, with its help and type, and its labels are escaped; nothing is kept between
//! two readings, so metrics cost nothing while nobody asks.

mod latency;
mod targets;
mod volumes;

use std::fmt::Write;

use holdfast_api::{JobState, word};
use holdfast_block::{Limiter, Qos};
use holdfast_model::{Health, ObjectRef};

use crate::engine::Engine;
use crate::status::resident_bytes;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric family: name, kind, help, and samples of label values.
struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    labels: &'static [&'static str],
    samples: Vec<(Vec<String>, u64)>,
}

impl Family {
    fn new(name: &'static str, kind: Kind, help: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, kind, help, labels, samples: Vec::new() }
    }

    fn add(&mut self, labels: &[&str], value: u64) {
        debug_assert_eq!(labels.len(), self.labels.len());
        self.samples.push((labels.iter().map(|label| escape(label)).collect(), value));
    }

    fn write(&self, text: &mut String) {
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let _ = writeln!(text, "# HELP {} {}\n# TYPE {} {kind}", self.name, self.help, self.name);
        for (values, value) in &self.samples {
            let pairs: Vec<String> =
                self.labels.iter().zip(values).map(|(label, value)| format!("{label}=\"{value}\"")).collect();
            let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
            let _ = writeln!(text, "{}{labels} {value}", self.name);
        }
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn level(health: Health) -> u64 {
    match health {
        Health::Healthy => 0,
        Health::Warning => 1,
        Health::Unhealthy => 2,
    }
}

impl Engine {
    /// All metrics as text.
    pub fn metrics(&self) -> String {
        let mut families = self.health_metrics();
        families.extend(self.disk_metrics());
        families.extend(self.space_metrics());
        families.extend(self.export_metrics());
        families.extend(self.target_metrics());
        families.extend(self.volume_metrics());
        families.extend(self.cache_metrics());
        families.extend(self.job_metrics());
        families.extend(self.qos_metrics());
        families.extend(self.daemon_metrics());
        let mut text = String::new();
        families.iter().for_each(|family| family.write(&mut text));
        self.latency_metrics(&mut text);
        text
    }

    fn health_metrics(&self) -> Vec<Family> {
        let mut health =
            Family::new("holdfast_health", Kind::Gauge, "0 healthy, 1 warning, 2 unhealthy.", &["kind", "object"]);
        for object in self.status().objects {
            let ObjectRef { kind, name, .. } = &object.object;
            health.add(&[kind.word(), name], level(object.health));
        }
        let mut raw = Family::new("holdfast_pool_raw_bytes", Kind::Gauge, "Bytes that spaces may use.", &["pool"]);
        let mut free = Family::new("holdfast_pool_free_bytes", Kind::Gauge, "Bytes that no space uses.", &["pool"]);
        let mut provisioned = Family::new(
            "holdfast_pool_provisioned_bytes",
            Kind::Gauge,
            "Bytes that its spaces take when written throughout.",
            &["pool"],
        );
        let mut used = Family::new(
            "holdfast_pool_used_bytes",
            Kind::Gauge,
            "Bytes that its spaces take of data disks.",
            &["pool"],
        );
        let mut alert = Family::new(
            "holdfast_pool_alert_percent",
            Kind::Gauge,
            "The highest alert threshold that is reached, or 0.",
            &["pool"],
        );
        for pool in self.pools() {
            raw.add(&[&pool.name], pool.raw_bytes);
            free.add(&[&pool.name], pool.free_bytes);
            provisioned.add(&[&pool.name], pool.room.provisioned_bytes);
            used.add(&[&pool.name], pool.room.used_bytes);
            alert.add(&[&pool.name], pool.alert.reached_percent.unwrap_or(0).into());
        }
        vec![health, raw, free, provisioned, used, alert]
    }

    fn disk_metrics(&self) -> Vec<Family> {
        use std::sync::atomic::Ordering::Relaxed;
        const LABELS: &[&str] = &["pool", "disk", "path"];
        const OPERATION: &[&str] = &["pool", "disk", "path", "operation"];
        let mut operations =
            Family::new("holdfast_disk_operations_total", Kind::Counter, "Requests to the disk.", OPERATION);
        let mut bytes = Family::new("holdfast_disk_bytes_total", Kind::Counter, "Bytes read and written.", OPERATION);
        let mut errors = Family::new("holdfast_disk_errors_total", Kind::Counter, "Requests that failed.", OPERATION);
        let mut checksums = Family::new(
            "holdfast_disk_checksum_errors_total",
            Kind::Counter,
            "Blocks that were not as their checksums say.",
            LABELS,
        );
        let mut repaired = Family::new("holdfast_disk_repaired_total", Kind::Counter, "Bad ranges rewritten.", LABELS);
        let mut free = Family::new("holdfast_disk_free_bytes", Kind::Gauge, "Bytes that no space uses.", LABELS);
        let mut in_flight = Family::new("holdfast_disk_in_flight", Kind::Gauge, "Requests under way.", LABELS);
        let open: Vec<_> = self.live().pools.values().cloned().collect();
        for open in open {
            let pool = open.name();
            let statuses = open.pool.disks();
            for disk in open.pool.pool_disks() {
                let Some(status) = statuses.iter().find(|status| status.record.id == disk.id) else { continue };
                let (id, path, counters) = (disk.id.to_string(), status.record.path.as_str(), &disk.counters);
                let rows = [
                    ("read", &counters.reads, &counters.read_bytes, &counters.read_errors),
                    ("write", &counters.writes, &counters.written_bytes, &counters.write_errors),
                ];
                for (operation, count, amount, failed) in rows {
                    let labels = [pool.as_str(), &id, path, operation];
                    operations.add(&labels, count.load(Relaxed));
                    bytes.add(&labels, amount.load(Relaxed));
                    errors.add(&labels, failed.load(Relaxed));
                }
                let labels = [pool.as_str(), &id, path];
                checksums.add(&labels, counters.checksum_errors.load(Relaxed));
                repaired.add(&labels, counters.repaired.load(Relaxed));
                free.add(&labels, status.free_bytes);
                in_flight.add(&labels, disk.in_flight().into());
            }
        }
        vec![operations, bytes, errors, checksums, repaired, free, in_flight]
    }

    fn space_metrics(&self) -> Vec<Family> {
        const OPERATION: &[&str] = &["space", "operation"];
        let mut operations =
            Family::new("holdfast_space_operations_total", Kind::Counter, "Requests answered.", OPERATION);
        let mut bytes = Family::new("holdfast_space_bytes_total", Kind::Counter, "Bytes read and written.", OPERATION);
        let mut errors = Family::new("holdfast_space_errors_total", Kind::Counter, "Requests that failed.", &["space"]);
        let mut size = Family::new("holdfast_space_size_bytes", Kind::Gauge, "Size as clients see it.", &["space"]);
        let mut allocated = Family::new(
            "holdfast_space_allocated_bytes",
            Kind::Gauge,
            "Bytes taken of the pool, copies and parity counted.",
            &["space"],
        );
        let mut dirty = Family::new(
            "holdfast_space_dirty_bytes",
            Kind::Gauge,
            "Bytes whose copies or parity may differ.",
            &["space"],
        );
        let mut stale =
            Family::new("holdfast_space_stale_slabs", Kind::Gauge, "Slabs that are not up to date.", &["space"]);
        let mut losses = Family::new(
            "holdfast_space_survivable_losses",
            Kind::Gauge,
            "Disks that may be lost: as wanted, held now, and with others left to rebuild on.",
            &["space", "part"],
        );
        let mut unreadable =
            Family::new("holdfast_space_unreadable_rows", Kind::Gauge, "Rows that cannot be read.", &["space"]);
        let mut journal = Family::new(
            "holdfast_space_journal_bytes",
            Kind::Gauge,
            "Journals: size, in use, not in place.",
            &["space", "part"],
        );
        for space in self.spaces() {
            let (name, counters) = (space.name.as_str(), space.counters);
            operations.add(&[name, "read"], counters.reads);
            operations.add(&[name, "write"], counters.writes);
            bytes.add(&[name, "read"], counters.read_bytes);
            bytes.add(&[name, "write"], counters.written_bytes);
            errors.add(&[name], counters.errors);
            operations.add(&[name, "discard"], counters.discards);
            bytes.add(&[name, "discard"], counters.discarded_bytes);
            size.add(&[name], space.size_bytes);
            allocated.add(&[name], space.raw_bytes);
            dirty.add(&[name], space.dirty_bytes);
            stale.add(&[name], space.stale_slabs);
            losses.add(&[name, "wanted"], space.protection.wanted_losses.into());
            losses.add(&[name, "held"], space.protection.held_losses.into());
            losses.add(&[name, "rebuildable"], space.protection.rebuildable_losses.into());
            unreadable.add(&[name], space.protection.unreadable_rows);
            if let Some(held) = space.journal {
                journal.add(&[name, "size"], held.size_bytes);
                journal.add(&[name, "used"], held.used_bytes.unwrap_or(0));
                journal.add(&[name, "dirty"], held.dirty_bytes);
            }
        }
        vec![operations, bytes, errors, size, allocated, dirty, stale, losses, unreadable, journal]
    }

    fn export_metrics(&self) -> Vec<Family> {
        const OPERATION: &[&str] = &["export", "space", "operation"];
        let mut operations =
            Family::new("holdfast_export_operations_total", Kind::Counter, "Requests of clients.", OPERATION);
        let mut bytes =
            Family::new("holdfast_export_bytes_total", Kind::Counter, "Bytes of these requests.", OPERATION);
        let mut connections =
            Family::new("holdfast_export_connections", Kind::Gauge, "Clients connected.", &["export", "space"]);
        for export in self.exports() {
            let (name, space, counters) = (export.name.as_str(), export.space.as_str(), export.counters);
            operations.add(&[name, space, "read"], counters.reads);
            operations.add(&[name, space, "write"], counters.writes);
            operations.add(&[name, space, "flush"], counters.flushes);
            operations.add(&[name, space, "discard"], counters.discards);
            bytes.add(&[name, space, "read"], counters.read_bytes);
            bytes.add(&[name, space, "write"], counters.written_bytes);
            bytes.add(&[name, space, "discard"], counters.discarded_bytes);
            connections.add(&[name, space], export.connections);
        }
        vec![operations, bytes, connections]
    }

    fn job_metrics(&self) -> Vec<Family> {
        use JobState::{Cancelled, Done, Failed, Paused, Queued, Running};
        const LABELS: &[&str] = &["job", "kind", "object", "part"];
        let mut states =
            Family::new("holdfast_jobs", Kind::Gauge, "Jobs; of those that ended, the last 200.", &["state"]);
        let mut bytes = Family::new("holdfast_job_bytes", Kind::Gauge, "Bytes of jobs that have not ended.", LABELS);
        let jobs = self.jobs(None, None);
        for state in [Queued, Running, Paused, Done, Failed, Cancelled] {
            states.add(&[&word(&state)], jobs.iter().filter(|job| job.state == state).count() as u64);
        }
        for job in jobs.iter().filter(|job| !job.state.has_ended()) {
            let (id, kind) = (job.id.to_string(), word(&job.kind));
            bytes.add(&[&id, &kind, &job.object.name, "done"], job.done_bytes);
            bytes.add(&[&id, &kind, &job.object.name, "total"], job.total_bytes);
        }
        vec![states, bytes]
    }

    fn qos_metrics(&self) -> Vec<Family> {
        const LABELS: &[&str] = &["kind", "name"];
        let mut throttled =
            Family::new("holdfast_qos_throttled_total", Kind::Counter, "Requests that waited for a maximum.", LABELS);
        let mut waited = Family::new(
            "holdfast_qos_wait_microseconds_total",
            Kind::Counter,
            "For how long they did together.",
            LABELS,
        );
        let mut limit =
            Family::new("holdfast_qos_limit", Kind::Gauge, "Limits that are set.", &["kind", "name", "limit"]);
        let mut balanced = Family::new(
            "holdfast_qos_balanced_total",
            Kind::Counter,
            "Requests that waited for those of other spaces.",
            &["pool"],
        );
        let mut add = |kind: &str, name: &str, qos: &Qos, limiter: &Limiter| {
            let (count, time) = limiter.throttled();
            throttled.add(&[kind, name], count);
            waited.add(&[kind, name], time.as_micros() as u64);
            let limits = [
                ("max-iops", qos.max_iops),
                ("burst-iops", qos.burst_iops),
                ("max-bytes-per-second", qos.max_bytes_per_second),
                ("burst-bytes-per-second", qos.burst_bytes_per_second),
                ("min-iops", qos.min_iops),
            ];
            limits
                .into_iter()
                .for_each(|(word, value)| value.into_iter().for_each(|value| limit.add(&[kind, name, word], value)));
        };
        let live = self.live();
        for open in live.pools.values() {
            balanced.add(&[&open.name()], open.balancer.waited());
            for (name, service) in open.named_services() {
                add("space", &name, &service.qos(), service.limiter());
            }
        }
        for export in live.exports.values() {
            if let Some(target) = &export.target {
                add("export", &export.known.name, &export.known.qos, target.limiter());
            }
        }
        for target in live.targets.values() {
            for lun in target.served() {
                add("lun", &lun.name, &lun.known.qos, lun.block.limiter());
            }
        }
        vec![throttled, waited, limit, balanced]
    }

    fn daemon_metrics(&self) -> Vec<Family> {
        let family = |name, help| Family::new(name, Kind::Counter, help, &["reactor"]);
        let mut loops = family("holdfast_reactor_loops_total", "Turns of the reactor's loop.");
        let mut sleeps = family("holdfast_reactor_sleeps_total", "Times that it slept.");
        let mut spins = family("holdfast_reactor_spins_total", "Turns in which it polled and found nothing.");
        let mut submitted = family("holdfast_reactor_submitted_total", "Entries given to the ring.");
        let mut completed = family("holdfast_reactor_completed_total", "Completions taken from the ring.");
        for (at, reactor) in self.reactors.iter().enumerate() {
            let (label, stats) = (at.to_string(), reactor.stats());
            loops.add(&[&label], stats.loops);
            sleeps.add(&[&label], stats.sleeps);
            spins.add(&[&label], stats.spins);
            submitted.add(&[&label], stats.submitted);
            completed.add(&[&label], stats.completed);
        }
        let (noted, lost) = self.events.counts();
        let mut events = Family::new("holdfast_events_total", Kind::Counter, "Events noted.", &[]);
        events.add(&[], noted);
        let mut unwritten =
            Family::new("holdfast_events_unwritten_total", Kind::Counter, "Events that are in no file.", &[]);
        unwritten.add(&[], lost);
        let mut resident = Family::new("process_resident_memory_bytes", Kind::Gauge, "Memory held.", &[]);
        resident.add(&[], resident_bytes());
        let help = "Whether the kernel is asked now that sleeping processors wake quickly.";
        let mut latency = Family::new("holdfast_cpu_latency_asked", Kind::Gauge, help, &[]);
        latency.add(&[], u64::from(self.cpu_latency.as_ref().is_some_and(|latency| latency.is_asked())));
        let mut information = Family::new("holdfast_build_info", Kind::Gauge, "The version that runs.", &["version"]);
        information.add(&[env!("CARGO_PKG_VERSION")], 1);
        vec![loops, sleeps, spins, submitted, completed, events, unwritten, resident, latency, information]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_written_with_escaped_labels() {
        let mut family = Family::new("x_total", Kind::Counter, "Things.", &["path"]);
        family.add(&["a\"b\\c\nd"], 7);
        let mut text = String::new();
        family.write(&mut text);
        assert_eq!(text, "# HELP x_total Things.\n# TYPE x_total counter\nx_total{path=\"a\\\"b\\\\c\\nd\"} 7\n");
    }
}
