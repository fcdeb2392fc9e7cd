//! What commands print: JSON as the API has it, or tables for people.
//!
//! Invariant: JSON has the shape of the API's own types, whatever the tables show; a reader that goes away ends the
//! command without complaint.

use std::fmt;
use std::io::{self, Write};

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use holdfast_api::pool::PoolHealth;
use holdfast_api::{
    ApiError, Condition, Disk, DiskErrors, Event, Job, JobState, LayoutKind, Pool, Salvaged, Space, SpaceJournal,
    SpaceRow, SpaceVerified, UpgradePlan, word,
};
use holdfast_model::{BLOCK_BYTES, ByteSize, RetirePolicy, counted};
use serde::Serialize;

mod access;
mod acls;
mod conditions;
mod exports;
mod integrity;
mod journals;
mod notify;
mod plans;
mod scrubs;
mod settings;
mod snapshots;
mod status;
mod targets;
mod volumes;

pub use status::status_text;

pub use conditions::grouped;
pub use conditions::with_conditions;

/// Something that is shown as a table.
pub trait Shown: Serialize {
    /// The text for people.
    fn text(&self) -> String;
}

/// Prints `value` as JSON or as a text for people.
pub fn print<T: Shown + ?Sized>(json: bool, value: &T) -> Result<()> {
    if json { print_json(value) } else { print_line(&value.text()) }
}

/// Prints `value` as JSON.
pub fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<()> {
    print_line(&serde_json::to_string_pretty(value)?)
}

/// Prints a text and a line feed.
pub fn print_line(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    printed.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => NobodyReads.into(),
        _ => error.into(),
    })
}

/// Whoever read what is printed went away.
#[derive(Debug)]
struct NobodyReads;

impl fmt::Display for NobodyReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads what is printed")
    }
}

impl std::error::Error for NobodyReads {}

/// An error with its causes, each once: many errors name theirs in their own text.
pub fn in_full(error: &anyhow::Error) -> String {
    error.chain().skip(1).map(ToString::to_string).fold(error.to_string(), |text, cause| match text.contains(&cause) {
        true => text,
        false => format!("{text}: {cause}"),
    })
}

/// Whether an error only says that nobody reads what is printed any more. A connection that broke is another matter.
pub fn is_without_reader(error: &anyhow::Error) -> bool {
    error.is::<NobodyReads>()
}

fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    rows.into_iter().for_each(|row| {
        table.add_row(row.iter().map(|cell| harmless(cell)));
    });
    table.lines().map(|line| line.trim().to_string()).collect::<Vec<_>>().join("\n")
}

/// A text without what a terminal would obey: names come from clients, disks and other machines.
pub fn harmless(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '\u{fffd}' } else { character }).collect()
}

fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:<width$}  {}", harmless(value))).collect::<Vec<_>>().join("\n")
}

fn size(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}

fn some<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "-".into(), T::to_string)
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".into() } else { text.into() }
}

impl Shown for Vec<Disk> {
    fn text(&self) -> String {
        let rows = self.iter().map(|disk| {
            vec![
                disk.path.clone(),
                or_dash(&disk.serial),
                size(disk.size_bytes),
                word(&disk.media),
                disk.pool.clone().unwrap_or_else(|| "(primordial)".into()),
                disk.usage.map_or_else(|| "-".into(), |usage| word(&usage)),
                word(&disk.state),
                word(&disk.health),
                disk.free_bytes.map_or_else(|| if disk.can_pool { "can be pooled".into() } else { "-".into() }, size),
            ]
        });
        table(&["PATH", "SERIAL", "SIZE", "MEDIA", "POOL", "USAGE", "STATE", "HEALTH", "FREE"], rows)
    }
}

impl Shown for Salvaged {
    fn text(&self) -> String {
        let disks = self.disks.iter().map(|disk| {
            vec![
                disk.path.clone(),
                disk.id.to_string(),
                disk.slabs.to_string(),
                disk.counting.to_string(),
                disk.unreadable.to_string(),
            ]
        });
        let spaces = self.spaces.iter().map(|space| {
            let (chunks, layout) = (&space.chunks, layout_text(space.layout, space.copies, space.parity));
            vec![
                space.name.clone(),
                size(space.size_bytes),
                layout,
                chunks.total.to_string(),
                chunks.complete.to_string(),
                chunks.degraded.to_string(),
                chunks.missing.to_string(),
                chunks.conflicting.to_string(),
                chunks.absent.to_string(),
                space.journal.map_or_else(|| "-".into(), |journal| word(&journal)),
            ]
        });
        let mut text = format!(
            "pool {} ({})\n\n{}\n\n{}",
            self.name,
            self.id,
            table(&["DISK", "ID", "SLABS", "COUNTING", "FAILED READS"], disks),
            table(
                &[
                    "SPACE",
                    "SIZE",
                    "LAYOUT",
                    "CHUNKS",
                    "COMPLETE",
                    "DEGRADED",
                    "MISSING",
                    "CONFLICTING",
                    "ABSENT",
                    "JOURNAL"
                ],
                spaces
            ),
        );
        let doubts = self
            .spaces
            .iter()
            .flat_map(|space| space.doubts.iter().map(|doubt| format!("\n! {}: {doubt}", space.name)));
        text.extend(self.doubts.iter().map(|doubt| format!("\n! {doubt}")).chain(doubts));
        text.extend(
            self.other_pools
                .iter()
                .map(|other| format!("\n! these disks also hold slabs of pool {other}: select it with --pool")),
        );
        match (&self.obstacle, self.changed) {
            (Some(why), _) => text + &format!("\n! nothing can be written: {why}"),
            (None, true) => text + &format!("\nwritten: now 'holdfast pool import {}'", self.name),
            (None, false) => text + "\nnothing was changed: repeat with --write to write new metadata",
        }
    }
}

impl Shown for Disk {
    fn text(&self) -> String {
        let text = facts(&[
            ("path", self.path.clone()),
            ("id", some(&self.id)),
            ("serial", or_dash(&self.serial)),
            ("model", or_dash(&self.model)),
            ("media", word(&self.media)),
            ("enclosure", some(&self.enclosure)),
            ("slot", some(&self.slot)),
            ("size", size(self.size_bytes)),
            ("usable", self.usable_bytes.map_or_else(|| "-".into(), size)),
            ("free", self.free_bytes.map_or_else(|| "-".into(), size)),
            ("pool", self.pool.clone().unwrap_or_else(|| "(primordial)".into())),
            ("usage", self.usage.map_or_else(|| "-".into(), |usage| word(&usage))),
            ("state", word(&self.state)),
            ("health", word(&self.health)),
            ("can be pooled", if self.can_pool { "yes".into() } else { "no".into() }),
            ("details", self.details.iter().map(word).collect::<Vec<_>>().join(" ")),
            ("errors", {
                let DiskErrors { failed, checksum, repaired } = self.errors;
                format!("{failed} failed, {checksum} of them found by checksums, {repaired} repaired")
            }),
        ]);
        let did = self.reliability.iter().map(|did| {
            let latency = did.latency_microseconds.map_or_else(|| "-".into(), |latency| format!("{latency} us"));
            facts(&[
                ("reads", format!("{}, {}, {} failed", did.reads, size(did.read_bytes), did.read_errors)),
                ("writes", format!("{}, {}, {} failed", did.writes, size(did.written_bytes), did.write_errors)),
                ("latency", latency),
            ])
        });
        let smart = self.smart.iter().map(|smart| {
            facts(&[
                (
                    "SMART",
                    smart
                        .passed
                        .map_or_else(|| "-".into(), |passed| if passed { "passed".into() } else { "failed".into() }),
                ),
                ("temperature", smart.temperature_celsius.map_or_else(|| "-".into(), |degrees| format!("{degrees} C"))),
                ("power-on hours", some(&smart.power_on_hours)),
                ("reallocated sectors", some(&smart.reallocated_sectors)),
                ("pending sectors", some(&smart.pending_sectors)),
                ("wear", smart.wear_percent.map_or_else(|| "-".into(), |wear| format!("{wear} %"))),
            ])
        });
        let text = std::iter::once(text).chain(did).chain(smart).collect::<Vec<_>>().join("\n\n");
        with_conditions(text, &self.conditions)
    }
}

impl Shown for Vec<Pool> {
    fn text(&self) -> String {
        let rows = self.iter().map(|pool| {
            vec![
                pool.name.clone(),
                word(&pool.state),
                word(&pool.health),
                size(pool.raw_bytes),
                size(pool.free_bytes),
                pool.disks.len().to_string(),
                pool.spaces.len().to_string(),
                pool.id.to_string(),
            ]
        });
        table(&["POOL", "STATE", "HEALTH", "RAW", "FREE", "DISKS", "SPACES", "ID"], rows)
    }
}

impl Shown for Pool {
    fn text(&self) -> String {
        let mut text = facts(&[
            ("pool", self.name.clone()),
            ("id", self.id.to_string()),
            ("state", word(&self.state)),
            ("health", word(&self.health)),
            ("raw", size(self.raw_bytes)),
            ("free", size(self.free_bytes)),
            ("spaces", or_dash(&self.spaces.join(" "))),
            ("position", format!("{}.{}", self.generation, self.sequence)),
            (
                "room",
                format!(
                    "{} of {} used ({:.1} %), {} provisioned: {:.2} × the capacity",
                    size(self.room.used_bytes),
                    size(self.room.data_bytes),
                    self.room.used_percent,
                    size(self.room.provisioned_bytes),
                    self.room.ratio
                ),
            ),
            (
                "alerts",
                match self.alert.percents.iter().map(|percent| format!("{percent} %")).collect::<Vec<_>>().join(", ") {
                    none if none.is_empty() => "none".into(),
                    percents => match self.alert.reached_percent {
                        None => format!("at {percents}"),
                        Some(reached) => format!("at {percents}; {reached} % is reached"),
                    },
                } + if self.alert.default { " (default)" } else { "" },
            ),
            ("features", or_dash(&self.features.join(" "))),
            (
                "upgrade",
                match self.upgrade_available.join(" ") {
                    none if none.is_empty() => "-".into(),
                    features => format!("available: {features}"),
                },
            ),
            (
                "retire policy",
                word(&self.retire_policy)
                    + if self.retire_policy == RetirePolicy::default() { " (default)" } else { "" },
            ),
            (
                "grace",
                match (self.grace_seconds, self.default_grace_seconds) {
                    (Some(grace), _) => format!("{grace} s"),
                    (None, Some(grace)) => format!("{grace} s (default)"),
                    (None, None) => "lost disks are not handled automatically (default)".into(),
                },
            ),
        ]);
        if !self.usable.is_empty() {
            let rows = self.usable.iter().map(|layout| {
                vec![
                    layout_text(layout.layout, layout.copies, layout.parity),
                    match (layout.columns, layout.default) {
                        (0, _) => "-".into(),
                        (columns, true) => format!("{columns} (default)"),
                        (columns, false) => columns.to_string(),
                    },
                    size(layout.usable_bytes),
                    layout.enclosure_aware_bytes.map_or_else(|| "-".into(), size),
                    size(layout.unused_bytes),
                    layout.reason.clone(),
                ]
            });
            let header = ["LAYOUT", "COLUMNS", "COULD HOLD", "OVER ENCLOSURES", "UNUSED", "LIMITED BY"];
            text = format!("{text}\n\n{}", table(&header, rows));
        }
        if self.state != PoolHealth::Offline || !self.disks.is_empty() {
            let rows = self
                .disks
                .iter()
                .map(|disk| vec![disk.path.clone(), or_dash(&disk.serial), word(&disk.state), some(&disk.id)]);
            text = format!("{text}\n\n{}", table(&["DISK", "SERIAL", "STATE", "ID"], rows));
        }
        with_conditions(text, &self.conditions)
    }
}

/// A layout as people call it.
pub fn layout_text(layout: LayoutKind, copies: u8, parity: u8) -> String {
    match (layout, parity) {
        (LayoutKind::Simple, _) => "simple".into(),
        (LayoutKind::Mirror, _) => format!("mirror of {copies} copies"),
        (LayoutKind::Parity, 1) => "single parity".into(),
        (LayoutKind::Parity, _) => "dual parity".into(),
    }
}

fn requests(number: u64, bytes: u64) -> String {
    format!("{}, {}", counted(number, "request", "requests"), size(bytes))
}

fn journal_text(journal: SpaceJournal) -> String {
    let used = journal.used_bytes.map_or_else(|| "not looked at yet".into(), |used| format!("{} in use", size(used)));
    format!("{}, {used}, {} not in place yet", size(journal.size_bytes), size(journal.dirty_bytes))
}

impl Shown for Vec<Space> {
    fn text(&self) -> String {
        let rows = self.iter().map(|space| {
            vec![
                space.name.clone(),
                word(&space.layout),
                space.copies.to_string(),
                space.parity.to_string(),
                space.columns.to_string(),
                size(space.interleave_bytes),
                word(&space.provisioning),
                size(space.size_bytes),
                size(space.allocated_bytes),
                space.journal.map_or_else(|| "-".into(), |journal| size(journal.size_bytes)),
                format!("{} of {}", space.protection.held_losses, space.protection.wanted_losses),
                word(&space.state),
                word(&space.health),
            ]
        });
        let header = [
            "SPACE",
            "LAYOUT",
            "COPIES",
            "PARITY",
            "COLUMNS",
            "INTERLEAVE",
            "PROVISIONING",
            "SIZE",
            "ALLOCATED",
            "JOURNAL",
            "SURVIVES",
            "STATE",
            "HEALTH",
        ];
        table(&header, rows)
    }
}

impl Shown for Space {
    fn text(&self) -> String {
        let counters = &self.counters;
        let text = facts(&[
            ("space", self.name.clone()),
            ("id", self.id.to_string()),
            ("layout", word(&self.layout)),
            ("copies", self.copies.to_string()),
            ("parity", self.parity.to_string()),
            ("columns", self.columns.to_string()),
            ("interleave", size(self.interleave_bytes)),
            ("integrity", self.integrity.to_string()),
            ("provisioning", word(&self.provisioning)),
            ("size", size(self.size_bytes)),
            ("chunk", size(self.chunk_bytes)),
            ("spread over", if self.enclosure_aware { "enclosures".into() } else { "disks".into() }),
            ("allocated", format!("{}, on disks {}", size(self.allocated_bytes), size(self.raw_bytes))),
            ("journal", self.journal.map_or_else(|| "-".into(), journal_text)),
            ("dirty", size(self.dirty_bytes)),
            ("stale slabs", self.stale_slabs.to_string()),
            ("protection", self.protection.summary.clone()),
            ("state", word(&self.state)),
            ("health", word(&self.health)),
            ("read", requests(counters.reads, counters.read_bytes)),
            ("written", requests(counters.writes, counters.written_bytes)),
            ("discarded", requests(counters.discards, counters.discarded_bytes)),
            ("errors", counters.errors.to_string()),
            ("limits", exports::qos_text(&self.qos)),
            ("last scrub", scrubs::last(&self.scrub)),
            ("next scrub", scrubs::next(&self.scrub)),
        ]);
        with_conditions(with_conditions(text, &self.conditions), &self.notes)
    }
}

impl Shown for UpgradePlan {
    fn text(&self) -> String {
        match self.added.is_empty() {
            true => {
                format!("pool {} uses all features of this version: {}", self.name, or_dash(&self.features.join(", ")))
            }
            false => format!(
                "pool {} would also use {}; {} to write, and versions without these features can no longer import it",
                self.name,
                self.added.join(", "),
                counted(self.labels, "label", "labels")
            ),
        }
    }
}

impl Shown for SpaceVerified {
    fn text(&self) -> String {
        let rows = self.mismatches.iter().map(|found| {
            vec![
                found.offset_bytes.to_string(),
                found.piece.clone(),
                found.path.clone(),
                found.disk_offset_bytes.to_string(),
                size(found.length_bytes),
            ]
        });
        let mut text = match self.mismatches.len() {
            0 => String::new(),
            _ => table(&["AT", "PIECE", "DISK", "DISK OFFSET", "LENGTH"], rows) + "\n",
        };
        let told = self.mismatches.iter().map(|found| found.length_bytes.div_ceil(BLOCK_BYTES)).sum::<u64>();
        if told < self.mismatched_blocks {
            text += &format!("... and {}\n", counted(self.mismatched_blocks - told, "more block", "more blocks"));
        }
        text += &format!(
            "{} compared, {}",
            size(self.checked_bytes),
            counted(self.mismatched_blocks, "block does not match", "blocks do not match")
        );
        if self.unchecked_bytes > 0 {
            text +=
                &format!("; {} could not be compared, because it was stale or unreadable", size(self.unchecked_bytes));
        }
        text
    }
}

impl Shown for Vec<SpaceRow> {
    fn text(&self) -> String {
        let rows = self.iter().flat_map(|row| {
            row.slabs.iter().map(move |slab| {
                vec![
                    if row.journal { "journal".into() } else { row.chunk.to_string() },
                    size(row.offset_bytes),
                    slab.column.to_string(),
                    slab.copy.to_string(),
                    slab.path.clone(),
                    size(slab.offset_bytes),
                    size(slab.length_bytes),
                    if slab.stale { "stale".into() } else { "in step".into() },
                ]
            })
        });
        table(&["CHUNK", "AT", "COLUMN", "COPY", "DISK", "DISK OFFSET", "LENGTH", "STATE"], rows)
    }
}

fn percent(done_bytes: u64, total_bytes: u64) -> String {
    match total_bytes {
        0 => "-".into(),
        total => format!("{:.1} %", done_bytes as f64 * 100.0 / total as f64),
    }
}

fn left(job: &Job) -> String {
    let Some(seconds) = job.seconds_left else { return "-".into() };
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{hours} h {minutes} min"),
    }
}

fn cap(job: &Job) -> String {
    job.pace.cap_bytes_per_second.map_or_else(|| "none".into(), |cap| format!("{}/s", size(cap)))
}

/// How much of its work a job did.
fn progress(job: &Job) -> String {
    match (job.done_bytes, job.total_bytes) {
        (done, 0) => size(done),
        (done, total) => format!("{} of {} ({})", size(done), size(total), percent(done, total)),
    }
}

/// How far a job is, in a line.
pub fn job_line(job: &Job) -> String {
    let progress = progress(job);
    let pace = match job.state {
        JobState::Running => format!(", {}/s, {} left", size(job.rate_bytes_per_second), left(job)),
        _ => job.reason.as_ref().map_or(String::new(), |reason| format!("; {}: {}", reason.cause, reason.next_action)),
    };
    format!("job {}, {} of {}: {}, {progress}{pace}", job.id, word(&job.kind), job.target(), word(&job.state))
}

impl Shown for Vec<Job> {
    fn text(&self) -> String {
        let rows = self.iter().map(|job| {
            vec![
                job.id.to_string(),
                word(&job.kind),
                job.target(),
                word(&job.state),
                size(job.done_bytes),
                if job.total_bytes == 0 { "-".into() } else { size(job.total_bytes) },
                percent(job.done_bytes, job.total_bytes),
                format!("{}/s", size(job.rate_bytes_per_second)),
                left(job),
                word(&job.pace.priority),
                cap(job),
            ]
        });
        table(&["JOB", "KIND", "OBJECT", "STATE", "DONE", "TOTAL", "PART", "RATE", "LEFT", "PRIORITY", "CAP"], rows)
    }
}

impl Shown for Job {
    fn text(&self) -> String {
        let text = facts(&[
            ("job", self.id.to_string()),
            ("kind", word(&self.kind)),
            ("object", self.target()),
            ("state", word(&self.state)),
            ("done", progress(self)),
            ("rate", format!("{}/s", size(self.rate_bytes_per_second))),
            ("left", left(self)),
            ("priority", word(&self.pace.priority)),
            ("cap", cap(self)),
            ("created", self.created.clone()),
            ("started", some(&self.started)),
            ("ended", some(&self.ended)),
            ("result", some(&self.result)),
        ]);
        let condition = |error: &ApiError| Condition::new(&error.message, &error.next_action);
        let why: Vec<Condition> = self.error.as_ref().map(condition).or(self.reason.clone()).into_iter().collect();
        with_conditions(text, &why)
    }
}

impl Shown for Event {
    fn text(&self) -> String {
        let next = if self.next_action.is_empty() { String::new() } else { format!("; next: {}", self.next_action) };
        harmless(&format!("{}  {:<7}  {}: {}{next}", self.time, word(&self.severity), self.object, self.cause))
    }
}

impl Shown for Vec<Event> {
    fn text(&self) -> String {
        self.iter().map(Shown::text).collect::<Vec<_>>().join("\n")
    }
}
