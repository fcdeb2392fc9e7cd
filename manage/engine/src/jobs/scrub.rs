//! The scrub of a space: the labels and logs of its pool's disks are checked, all of the space is read, what is known
//! to be wrong is repaired, and what was found is reported.
//!
//! One that was cut short goes on from the chunk that it was at, and counts what it had found before.
//!
//! Invariant: of what is found, at most [`TOLD`] pieces become events; the result counts all.

use std::collections::HashMap;
use std::sync::Arc;

use holdfast_api::{JobChanged, JobKind, SetPace, Severity};
use holdfast_model::{ByteSize, Uuid, counted};
use holdfast_pool::Audit;
use holdfast_space::{Ended, Mismatch, Verified};

use super::control::{Control, ResumePoint};
use super::spec::{Finding, Outcome, Site};
use crate::engine::Engine;
use crate::error::ApiResult;

/// Findings of one scrub that are told one by one.
const TOLD: usize = 100;

impl Engine {
    /// Scrubs a space: answers with the job that does it, the one that is there already if there is one.
    ///
    /// # Errors
    /// If there is no such space, or the job cannot be written down.
    pub async fn scrub_space(self: &Arc<Self>, path: String, request: SetPace) -> ApiResult<JobChanged> {
        self.add_space_job(path, JobKind::Scrub, request).await
    }
}

/// Bytes that a scrub goes over.
pub(super) fn total_bytes(site: &Site) -> u64 {
    site.spaces.iter().map(|space| space.scrub_bytes(0)).sum()
}

/// Bytes that a scrub which goes on at `chunk` has behind it, by what lies from a chunk on. Rows may come and go
/// between the two counts.
fn bytes_behind(bytes_from: impl Fn(u32) -> u64, chunk: u32) -> u64 {
    let left = bytes_from(chunk);
    bytes_from(0).saturating_sub(left)
}

/// Scrubs.
pub(super) async fn run(site: &Site, control: &Control) -> Result<Outcome, Ended> {
    let begun = control.resume_point().unwrap_or_default();
    // What it repairs there becomes events of the disks; a pool that takes no changes has nothing repaired.
    let labels_and_logs = site.open.pool.audit().await;
    let mut found = Verified::default();
    for space in &site.spaces {
        control.progress.skip(bytes_behind(|from| space.scrub_bytes(from), begun.chunk));
        let passed = |chunk, found: &Verified| control.set_resume_point(Some(begun.after(chunk, found)));
        found = space.scrub_from(begun.chunk, control, &passed).await?;
    }
    let counts = begun.after(u32::MAX, &found);
    let paths: HashMap<Uuid, String> =
        site.open.pool.disks().into_iter().map(|disk| (disk.record.id, disk.record.path)).collect();
    let (severity, next_action) = match counts.unrepaired_blocks {
        0 => (Severity::Warning, "watch the disk; replace it if this continues"),
        _ => (Severity::Error, "where it was not repaired, compare the data with a backup"),
    };
    let told = |mismatch: &Mismatch| Finding {
        severity,
        cause: format!(
            "scrub: {} at {} did not match its copies or parity (disk {}, at {})",
            mismatch.piece,
            mismatch.offset_bytes,
            paths.get(&mismatch.disk).map_or("gone", String::as_str),
            mismatch.disk_offset_bytes
        ),
        next_action: next_action.into(),
    };
    let unchecked = labels_and_logs.as_ref().err().map(|error| Finding {
        severity: Severity::Warning,
        cause: format!("scrub: labels and logs were not all checked: {error}"),
        next_action: "see the state of the pool's disks".into(),
    });
    let findings = unchecked.into_iter().chain(found.mismatches.iter().take(TOLD).map(told)).collect();
    Ok(Outcome { result: result(&counts, &labels_and_logs.unwrap_or_default()), findings })
}

impl ResumePoint {
    /// What was found before and since, all before a chunk done.
    fn after(&self, chunk: u32, found: &Verified) -> Self {
        Self {
            chunk,
            checked_bytes: self.checked_bytes + found.checked_bytes,
            unchecked_bytes: self.unchecked_bytes + found.unchecked_bytes,
            repaired_blocks: self.repaired_blocks + found.repaired_blocks,
            unrepaired_blocks: self.unrepaired_blocks + found.unrepaired_blocks,
            kept: None,
        }
    }
}

fn result(found: &ResumePoint, labels_and_logs: &Audit) -> String {
    let wrong = found.repaired_blocks + found.unrepaired_blocks;
    let mut text = format!("{} compared", ByteSize(found.checked_bytes));
    text += &match wrong {
        0 => ", all agree".into(),
        wrong => format!(
            "; {} or could not be read: {} repaired, {} not repaired",
            counted(wrong, "block did not match", "blocks did not match"),
            found.repaired_blocks,
            found.unrepaired_blocks
        ),
    };
    if found.unchecked_bytes > 0 {
        text += &format!("; {} could not be compared", ByteSize(found.unchecked_bytes));
    }
    if labels_and_logs.damaged() > 0 {
        let labels = counted(labels_and_logs.labels, "damaged label", "damaged labels");
        text += &format!("; {labels} and {} rewritten", counted(labels_and_logs.logs, "log", "logs"));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_behind_a_scrub_is_right_while_rows_come_and_go() {
        let still = |from: u32| 100 - u64::from(from);
        assert_eq!(bytes_behind(still, 30), 30);
        let added = Cell::new(0);
        let growing = |from: u32| 100 + added.replace(added.get() + 50) - u64::from(from);
        assert_eq!(bytes_behind(growing, 30), 80);
        let left = Cell::new(200);
        let shrinking = |from: u32| left.replace(50) - u64::from(from);
        assert_eq!(bytes_behind(shrinking, 30), 0, "less than what was left a moment ago");
    }
}
