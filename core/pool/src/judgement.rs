//! How a disk is: what it did, what somebody who watches it thinks, and what follows from its state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdfast_model::{ByteSize, Condition, DiskDetail, DiskState, Health, Usage, counted};

use crate::disk::DiskCounters;
use crate::record::DiskRecord;

/// What a disk did since the pool was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Blocks that were not as their checksums say.
    pub checksum_errors: u64,
    /// Bad ranges rewritten from another copy.
    pub repaired: u64,
    /// Requests that were timed.
    pub timed: u64,
    /// How long these took together.
    pub timed_for: Duration,
}

impl DiskCounts {
    /// Reads and writes that failed, and blocks that were not as their checksums say.
    pub fn errors(&self) -> u64 {
        self.read_errors + self.write_errors + self.checksum_errors
    }

    /// How long a request took on average, where any was timed.
    pub fn latency(&self) -> Option<Duration> {
        (self.timed > 0).then(|| self.timed_for / self.timed.min(u64::from(u32::MAX)) as u32)
    }
}

impl From<&DiskCounters> for DiskCounts {
    fn from(counters: &DiskCounters) -> Self {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            reads: get(&counters.reads),
            read_bytes: get(&counters.read_bytes),
            read_errors: get(&counters.read_errors),
            writes: get(&counters.writes),
            written_bytes: get(&counters.written_bytes),
            write_errors: get(&counters.write_errors),
            checksum_errors: get(&counters.checksum_errors),
            repaired: get(&counters.repaired),
            timed: get(&counters.timed),
            timed_for: Duration::from_nanos(get(&counters.timed_nanos)),
        }
    }
}

/// What somebody who watches a disk in service thinks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// How urgently it wants its owner; an unhealthy one gets a slab only where no other has room.
    pub health: Health,
    /// What that comes from.
    pub details: Vec<DiskDetail>,
    /// Why, and what to do.
    pub conditions: Vec<Condition>,
}

/// How a disk is; `slabs` counts those that it holds.
pub(crate) fn judge(
    record: &DiskRecord,
    counts: &DiskCounts,
    judgement: Option<&Judgement>,
    slabs: &dyn Fn() -> usize,
) -> Judgement {
    let name = record.label();
    let size = ByteSize(record.disk_bytes);
    let judged = |health, detail, cause, next: &str| Judgement {
        health,
        details: vec![detail],
        conditions: vec![Condition::new(cause, next)],
    };
    match record.state {
        DiskState::Missing | DiskState::Failed if record.usage == Usage::Retired && slabs() == 0 => {
            let how = if record.state == DiskState::Missing { "is missing" } else { "failed" };
            let cause = format!("disk {name} ({size}) {how}, and nothing of it is needed any more");
            let detail =
                if record.state == DiskState::Missing { DiskDetail::LostCommunication } else { DiskDetail::IoError };
            let next = format!("take it out of its pool: 'holdfast disk remove {}'; or attach it again", record.id);
            judged(Health::Warning, detail, cause, &next)
        }
        DiskState::Missing if record.usage == Usage::Retired => {
            let cause = format!(
                "disk {name} ({size}) is missing and retired: {} of it {} to be rebuilt on others",
                slabs_text(slabs()),
                if slabs() == 1 { "is" } else { "are" }
            );
            let next =
                format!("watch the jobs that rebuild it, or 'holdfast disk replace {}', or attach it again", record.id);
            judged(Health::Unhealthy, DiskDetail::LostCommunication, cause, &next)
        }
        DiskState::Missing => {
            let cause = format!("disk {name} ({size}) is missing, last seen at {}", record.path);
            judged(Health::Unhealthy, DiskDetail::LostCommunication, cause, "attach it again or replace it")
        }
        DiskState::Failed => {
            let cause = format!("disk {name} ({size}) at {} failed", record.path);
            let next = "replace it, or check cable and power and bring it back with 'holdfast pool import'";
            judged(Health::Unhealthy, DiskDetail::IoError, cause, next)
        }
        DiskState::Online => match judgement {
            Some(judgement) => judgement.clone(),
            None if counts.errors() > 0 => {
                let cause = format!(
                    "disk {name} at {} answered {} with errors",
                    record.path,
                    counted(counts.errors(), "request", "requests")
                );
                judged(Health::Warning, DiskDetail::IoError, cause, "watch it; replace it if errors continue")
            }
            None => Judgement::default(),
        },
    }
}

fn slabs_text(slabs: usize) -> String {
    format!("{slabs} slab{}", if slabs == 1 { "" } else { "s" })
}
