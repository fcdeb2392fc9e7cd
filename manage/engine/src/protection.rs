//! What a space bears now, why that is less than wanted, and what brings it back, in numbers and in words.
//!
//! ```text
//!   core/space: rows counted as they are ─┐
//!   jobs that work on the space           ├─▶ Protection { held, wanted, percents, summary, reasons }, conditions, notes
//!   disks that the pool has for new rows ─┘
//! ```
//!
//! Invariant: no word promises more than the numbers of the rows say. A condition is something to do or to wait for; a
//! note is something to know.

use std::sync::PoisonError;

use holdfast_api::{Condition, Job, JobKind, JobState, Protection, Space as SpaceView};
use holdfast_model::{DiskState, Health, Reason, Shape, Usage};
use holdfast_pool::DiskStatus;
use holdfast_space::{Protection as Held, Space};

use crate::engine::{Engine, OpenPool};
use crate::jobs::Target;
use crate::view::percent;

/// A number and its unit: `1 row`, `2 rows`.
pub(crate) fn count(number: u64, unit: &str) -> String {
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

/// Losses as people say it: `no lost disk`, `1 lost disk`, `2 lost disks`.
fn losses(number: u8) -> String {
    match number {
        0 => "no lost disk".into(),
        number => count(number.into(), "lost disk"),
    }
}

/// Disks in service that rows may lie on once disks are lost: those for data, and hot spares.
fn disks_to_rebuild_on(open: &OpenPool) -> usize {
    let takes = |usage: Usage| usage.takes_slabs() || usage == Usage::HotSpare;
    let statuses = open.pool.disks();
    statuses.iter().filter(|disk| disk.record.state == DiskState::Online && takes(disk.record.usage)).count()
}

/// Disks that may be lost one after another, at most as many as the layout survives, for which others are left to
/// rebuild on.
pub(crate) fn rebuildable_losses(open: &OpenPool, shape: &Shape) -> u8 {
    let wanted = shape.layout.tolerates();
    disks_to_rebuild_on(open).saturating_sub(shape.width()).min(wanted.into()) as u8
}

/// Says where a pool has too few disks to rebuild a shape on after as many losses as it survives.
pub(crate) fn too_few_to_rebuild(open: &OpenPool, object: &str, shape: &Shape) -> Option<Condition> {
    let (wanted, disks) = (shape.layout.tolerates(), disks_to_rebuild_on(open));
    let needed = shape.width() + usize::from(wanted);
    if wanted == 0 || disks >= needed {
        return None;
    }
    let fewer = Shape::choose(shape.layout, None, Some(shape.interleave), disks).ok();
    let fewer = fewer.filter(|fewer| fewer.columns < shape.columns && fewer.width() + usize::from(wanted) <= disks);
    let borne = disks.saturating_sub(shape.width());
    let after = match borne {
        0 => "after the loss of a disk it cannot be rebuilt".to_string(),
        borne => format!("after the loss of more than {} it cannot be rebuilt", count(borne as u64, "disk")),
    };
    let cause = format!("{object}: {after}: as {shape} that takes {needed} disks, the pool has {disks}");
    let add = count((needed - disks) as u64, "disk");
    let next = match fewer {
        Some(fewer) => format!("add {add}, or use fewer columns: --columns {}", fewer.columns),
        None => format!("add {add} if it is to be rebuilt at once; until then replace a lost disk soon"),
    };
    Some(Condition::new(cause, next))
}

/// How a job goes on, and what to do about it.
fn job_words(job: &Job) -> (String, String) {
    let done = job_percent(job);
    match job.state {
        JobState::Paused => (
            format!("job {} is paused at {done:.0} %", job.id),
            format!("continue it: 'holdfast job resume {}'", job.id),
        ),
        JobState::Queued => {
            (format!("job {} is queued at {done:.0} %", job.id), "nothing: it starts automatically".into())
        }
        _ => (format!("job {} is at {done:.0} %", job.id), "nothing: wait for its end".into()),
    }
}

fn job_percent(job: &Job) -> f64 {
    if job.total_bytes == 0 { 0.0 } else { percent(job.done_bytes, job.total_bytes) }
}

/// One thing that is wrong with how a space is protected.
struct Trouble {
    cause: String,
    next: String,
    /// Whether it is that slabs are lost or out of step.
    missing: bool,
    /// When it is over, for `1 again when ...`.
    over: String,
}

/// What is known of a space where its troubles are told.
struct Case<'a> {
    name: &'a str,
    shape: Shape,
    held: &'a Held,
    jobs: &'a [Job],
    /// The job that rebuilds what was on disks that are out.
    rebuild: Option<&'a Job>,
    in_step: Option<f64>,
    /// Disks in service with slabs that are behind.
    returned: usize,
}

impl Case<'_> {
    fn job(&self, kinds: &[JobKind]) -> Option<&Job> {
        self.jobs.iter().find(|job| kinds.contains(&job.kind))
    }

    /// Whether it holds less than is wanted.
    fn is_below(&self) -> bool {
        self.held.held_losses < self.held.wanted_losses || self.held.held_enclosures < self.held.wanted_enclosures
    }

    fn is_away(&self) -> bool {
        self.held.out_slabs + self.held.behind_slabs > 0
    }

    /// Rows that too few disks are there for.
    fn unreadable(&self) -> Option<Trouble> {
        let rows = Some(self.held.unreadable_rows).filter(|rows| *rows > 0)?;
        let it = if rows == 1 { "it" } else { "them" };
        if self.held.lost_slabs > 0 && self.held.out_slabs == 0 {
            let are = if self.held.lost_slabs == 1 { "was" } else { "were" };
            let slabs = count(self.held.lost_slabs, "slab");
            let cause = format!(
                "{} cannot be read: {slabs} {are} overwritten on disks that are in service",
                count(rows, "row")
            );
            let next =
                "find out what writes to the disks besides this pool; restore what cannot be read from a backup".into();
            return Some(Trouble { cause, next, missing: true, over: "it is restored".into() });
        }
        let cause =
            format!("{} cannot be read: too few of the disks that hold {it} are in service", count(rows, "row"));
        let next = format!(
            "attach the missing disks again; if they are lost for good, 'holdfast space destroy {}' and restore it from a backup",
            self.name
        );
        Some(Trouble { cause, next, missing: true, over: "the missing disks are attached again".into() })
    }

    /// Disks that are back and being brought in step.
    fn behind(&self) -> Option<Trouble> {
        Some(self.held.behind_slabs).filter(|slabs| *slabs > 0)?;
        let (disks, part) = (self.returned.max(1) as u64, self.in_step.unwrap_or(0.0));
        let are = if disks == 1 { "is" } else { "are" };
        let cause = format!("{} {are} back: {part:.0} % of the missed writes are resynced", count(disks, "disk"));
        let over = format!("the missed writes are resynced, {part:.0} %");
        Some(Trouble { cause, next: "nothing: wait for the resync".into(), missing: true, over })
    }

    /// Disks that are out.
    fn out(&self) -> Option<Trouble> {
        let slabs = Some(self.held.out_slabs).filter(|slabs| *slabs > 0 && self.held.unreadable_rows == 0)?;
        let are = if slabs == 1 { "is" } else { "are" };
        let cause = format!("{} of it {are} on disks out of service", count(slabs, "slab"));
        Some(match self.rebuild {
            Some(job) => {
                let (how, next) = job_words(job);
                let over = format!("the rebuild by job {} is done, {:.0} %", job.id, job_percent(job));
                Trouble { cause: format!("{cause}, and rebuilt on others: {how}"), next, missing: true, over }
            }
            None => Trouble {
                cause,
                missing: true,
                next: "attach the missing disks again, or replace them; disks that return are resynced automatically"
                    .into(),
                over: "the missing disks are attached again or replaced".into(),
            },
        })
    }

    /// Rows of an earlier layout.
    fn converting(&self) -> Option<Trouble> {
        let converted = self.held.converted_percent?;
        let part = format!("{converted} % converted to {}", self.shape);
        Some(match self.job(&[JobKind::Convert]) {
            Some(job) => {
                let (how, next) = job_words(job);
                let over = format!("the conversion by job {} is done, {converted} %", job.id);
                Trouble { cause: format!("{part}: {how}"), next, missing: false, over }
            }
            None => {
                let resume = format!("resume with 'holdfast space convert {}'", self.name);
                Trouble {
                    cause: format!("{part}; {resume}"),
                    next: resume,
                    missing: false,
                    over: "the conversion is done".into(),
                }
            }
        })
    }

    /// Slabs of a row that are together where its enclosure-aware space would not have them, or a journal with too few
    /// copies.
    fn elsewhere(&self) -> Trouble {
        let cause = match self.held.weak_rows {
            0 => "some of its rows have too many slabs in one enclosure".into(),
            rows => {
                format!(
                    "{} {} fewer lost disks than wanted",
                    count(rows, "row"),
                    if rows == 1 { "survives" } else { "survive" }
                )
            }
        };
        let next = format!("'holdfast space convert {}' moves them", self.name);
        Trouble { cause, next, missing: false, over: "they are moved".into() }
    }

    /// What it survives, in a sentence.
    fn summary(&self, troubles: &[Trouble]) -> String {
        if self.held.unreadable_rows > 0 {
            return format!("{} cannot be read", count(self.held.unreadable_rows, "row"));
        }
        let enclosures = match self.held.held_enclosures {
            Some(0) => ", and no lost enclosure",
            Some(_) => ", and a lost enclosure",
            None => "",
        };
        let (held, wanted) = (self.held.held_losses, self.held.wanted_losses);
        let survives = match (self.is_below() && self.is_away(), held) {
            (true, 0) => format!("survives no more lost disk now{enclosures}"),
            (true, more) => format!("survives {} now{enclosures}", count(more.into(), "more lost disk")),
            (false, held) => format!("survives {}{enclosures}", losses(held)),
        };
        match troubles.last().filter(|_| self.is_below()) {
            Some(last) if self.is_away() && held < wanted => format!("{survives}; {wanted} again when {}", last.over),
            Some(last) => format!("{survives}: {}", last.cause),
            None => survives,
        }
    }

    /// What stands in a condition after its cause.
    fn consequence(&self) -> String {
        match (self.held.unreadable_rows, self.is_away()) {
            (0, true) if self.held.held_losses == 0 => "no more lost disk is survived now".into(),
            (0, true) => format!("{} can be survived now", count(self.held.held_losses.into(), "more lost disk")),
            (0, false) => format!("survives {}, {} wanted", losses(self.held.held_losses), self.held.wanted_losses),
            _ => "what is in them cannot be served".into(),
        }
    }
}

impl Engine {
    /// A space of a pool in service.
    pub(crate) fn space_view(&self, open: &OpenPool, space: &Space) -> SpaceView {
        let (record, status) = (space.record(), space.status());
        let mut view = crate::view::space(open, space, &status);
        view.scrub = self.scrub_of(record.uuid);
        let (held, object) = (&status.protection, format!("space {}", view.name));
        let jobs = self.jobs.on_space(&Target::space(open, &record));
        let away = open.pool.disks().into_iter().filter(|disk| disk.record.state != DiskState::Online);
        let repair = jobs.iter().find(|job| job.kind == JobKind::Repair).cloned();
        let rebuild = repair.or_else(|| away.map(|disk| disk.record.id).find_map(|disk| self.jobs.replacing(disk)));
        let in_step = open.in_step_percent(record.uuid, held.behind_slabs);
        let returned = if held.behind_slabs > 0 { open.pool.stale_disks().len() } else { 0 };
        let case = Case {
            name: &view.name,
            shape: record.shape,
            held,
            jobs: &jobs,
            rebuild: rebuild.as_ref(),
            in_step,
            returned,
        };

        let mut troubles: Vec<Trouble> = [case.unreadable(), case.behind(), case.out()].into_iter().flatten().collect();
        match case.converting() {
            // Rows of a stronger layout are no trouble.
            Some(trouble) if !case.is_below() => {
                view.notes.push(Condition::new(format!("{object}: {}", trouble.cause), trouble.next));
            }
            converting => troubles.extend(converting),
        }
        if case.is_below() && troubles.is_empty() {
            troubles.push(case.elsewhere());
        }
        let consequence = case.consequence();
        let told = troubles.iter().map(|trouble| {
            let condition = Condition::new(format!("{object}: {}; {consequence}", trouble.cause), trouble.next.clone());
            if trouble.missing { condition.because(Reason::MissingSlabs) } else { condition }
        });
        let told: Vec<Condition> = told.collect();
        let work = [JobKind::Repair, JobKind::Replace, JobKind::Evacuate, JobKind::Convert];
        let protection = Protection {
            wanted_losses: held.wanted_losses,
            held_losses: held.held_losses,
            wanted_enclosures: held.wanted_enclosures,
            held_enclosures: held.held_enclosures,
            rows: held.rows,
            weak_rows: held.weak_rows,
            unreadable_rows: held.unreadable_rows,
            converted_percent: held.converted_percent,
            in_step_percent: in_step,
            job_percent: case.job(&work).map(job_percent),
            rebuildable_losses: rebuildable_losses(open, &record.shape),
            summary: case.summary(&troubles),
            reasons: if case.is_below() {
                troubles.into_iter().map(|trouble| trouble.cause).collect()
            } else {
                Vec::new()
            },
        };
        view.protection = protection;
        view.conditions.splice(0..0, told);
        if open.pool.has_no_room_for_row(record.id) {
            let cause = format!(
                "{object} is full: the pool has no room for another row of it, and writes to new places are refused"
            );
            let next =
                format!("add disks: 'holdfast pool add {} --disk DISK', or discard what is not needed", open.name());
            view.conditions.push(Condition::new(cause, next).because(Reason::NoRoom));
            view.health = view.health.max(Health::Warning);
        }
        view.notes.extend(too_few_to_rebuild(open, &object, &record.shape));
        view
    }
}

/// What there is to say of a disk that a job replaces: that it does so stands for what led to it.
pub(crate) fn replaced(disk: &DiskStatus, job: &Job, conditions: Vec<Condition>) -> Vec<Condition> {
    let (how, next) = job_words(job);
    let cause = format!("disk {} is being replaced: {how}; it leaves the pool at its end", disk.record.label());
    let away = disk.record.state != DiskState::Online;
    std::iter::once(Condition::new(cause, next)).chain(conditions.into_iter().filter(|_| !away)).collect()
}

impl OpenPool {
    /// How much of what slabs missed is in step again, counted since the last time that all of it was; none where
    /// nothing is behind.
    fn in_step_percent(&self, space: holdfast_model::Uuid, behind: u64) -> Option<f64> {
        let mut most = self.most_behind.lock().unwrap_or_else(PoisonError::into_inner);
        if behind == 0 {
            most.remove(&space);
            return None;
        }
        let most = most.entry(space).or_default();
        *most = behind.max(*most);
        Some(percent(*most - behind, *most))
    }
}
