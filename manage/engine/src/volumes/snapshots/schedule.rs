//! Snapshots by the clock: rules, what is due, and which ones go.
//!
//! ```text
//!   rule 1 h, keep 24     auto-1h-20261126T060000Z … auto-1h-20261127T050000Z │ due at the next full hour
//!   rule 1 d, keep 30     auto-1d-…
//! ```
//!
//! A rule knows its snapshots by their names, so nothing of it is written down but the rule itself. Volumes are served side
//! by side: one whose mount does not answer holds up no other. Mapped memory is handed over once for all rules of a volume.
//!
//! Invariants: only snapshots that a rule made are destroyed by it, the oldest first, and never so many that fewer than it
//! keeps are left. A rule that cannot be kept is told of in the health of its volume until it can, and intervals that were
//! skipped are told when it is kept again.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use holdfast_api::{
    ApiError, Code, Condition, SetSnapshotRule, Severity, SnapshotRule, SnapshotSchedule, SnapshotScheduleChanged,
    interval,
};
use holdfast_model::counted;
use holdfast_volume::{Snapshot, Volume};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tokio::sync::{OnceCell, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::clock::{DAY_MINUTES, DAY_SECONDS, begin_of, interval_at, server_zone, zone_name};
use super::side_by_side::SideBySide;
use super::{shown_time, stamp};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, not_confirmed};
use crate::events::moment;

/// What names of snapshots that rules make begin with.
pub(super) const PREFIX: &str = "auto-";
/// How often it is looked for what is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Rules of one volume, at most.
const MOST_RULES: usize = 8;
/// Snapshots that the rules of one volume keep, at most: some are left for those that are made by hand.
const MOST_KEPT: u32 = 1000;
/// The longest time from one to the next: ten years.
const MOST_SECONDS: u64 = 3653 * 24 * 3600;

/// How often a snapshot is made, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub(crate) every_seconds: u64,
    pub(crate) keep: u32,
    /// The time of day, in minutes after midnight where the server is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at_minutes: Option<u16>,
}

impl Rule {
    fn of(set: SetSnapshotRule) -> Self {
        let SetSnapshotRule { every_seconds, keep, at_minutes } = set;
        Self { every_seconds, keep, at_minutes }
    }
}

/// What hinders the rules of a volume.
#[derive(Debug, Default)]
pub(in crate::volumes) struct ScheduleWatch {
    /// By the interval, why no snapshot could be made.
    unmade: BTreeMap<u64, ApiError>,
    /// By the interval, why one could not be destroyed.
    left: BTreeMap<u64, ApiError>,
    /// By the interval, what the last one lacks.
    lacking: BTreeMap<u64, ApiError>,
    /// By the interval, up to which one it was kept.
    kept_up: BTreeMap<u64, i64>,
}

impl ScheduleWatch {
    /// Notes that a rule was looked at in an interval, and whether it is kept in that; answers how many were skipped.
    fn skipped(&mut self, every_seconds: u64, now: i64, is_kept: bool) -> i64 {
        let last = self.kept_up.entry(every_seconds).or_insert(now - 1);
        if !is_kept {
            return 0;
        }
        let before = std::mem::replace(last, now);
        (now - before - 1).max(0)
    }
}

/// A volume with rules, in service.
struct Ruled {
    open: Arc<OpenPool>,
    name: String,
    rules: Vec<Rule>,
    volume: Arc<Volume>,
}

fn prefix(every_seconds: u64) -> String {
    format!("{PREFIX}{}-", interval(every_seconds))
}

/// The interval of the rule that made a snapshot of this name, if one did.
pub(super) fn rule_of(name: &str) -> Option<u64> {
    let (time, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let (number, unit) = time.split_at(time.len().checked_sub(1)?);
    let each = match unit {
        "d" => 24 * 3600,
        "h" => 3600,
        "m" => 60,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(each)
}

/// The snapshots of a rule, the oldest first.
fn of_rule(rule: Rule, snapshots: &[Snapshot]) -> Vec<&Snapshot> {
    snapshots.iter().filter(|one| rule_of(&one.name) == Some(rule.every_seconds)).collect()
}

/// Whether a rule is to make one now: its last one is of another interval, also where the clock was set back.
fn is_due(rule: Rule, snapshots: &[Snapshot], now: Timestamp, zone: &TimeZone) -> bool {
    let made = of_rule(rule, snapshots).last().and_then(|last| Timestamp::from_second(last.created.seconds).ok());
    made.map(|made| interval_at(rule, made, zone)) != Some(interval_at(rule, now, zone))
}

fn shown_rule(rule: Rule, snapshots: &[Snapshot], now: Timestamp, zone: &TimeZone) -> SnapshotRule {
    let own = of_rule(rule, snapshots);
    let next = match is_due(rule, snapshots, now, zone) {
        true => now,
        false => begin_of(rule, interval_at(rule, now, zone) + 1, zone).unwrap_or(now),
    };
    SnapshotRule {
        every_seconds: rule.every_seconds,
        at_minutes: rule.at_minutes,
        keep: rule.keep,
        snapshots: own.len() as u32,
        last_at: own.last().map(|last| shown_time(last.created)),
        next_at: moment(next),
    }
}

fn shown(rules: &[Rule], volume: &Volume) -> SnapshotSchedule {
    let (snapshots, now, zone) = (volume.snapshots(), Timestamp::now(), server_zone());
    let rules = rules.iter().map(|rule| shown_rule(*rule, &snapshots, now, &zone)).collect();
    SnapshotSchedule { rules, zone: zone_name(&zone) }
}

/// What hinders the rules of a volume, `POOL/VOLUME`.
pub(in crate::volumes) fn conditions(name: &str, watch: &ScheduleWatch) -> Vec<Condition> {
    let unmade = watch.unmade.iter().map(|(every, error)| {
        let cause = format!("has no snapshot of the last {}: {}", interval(*every), error.message);
        Condition::new(cause, error.next_action.clone())
    });
    let left = watch.left.iter().map(|(every, error)| {
        let cause = format!("keeps more snapshots of each {} than it is to: {}", interval(*every), error.message);
        let next = format!("'holdfast snapshot list {name}' lists them; {}", error.next_action);
        Condition::new(cause, next)
    });
    let lacking = watch.lacking.iter().map(|(every, error)| {
        let cause = format!("the last snapshot of each {}: {}", interval(*every), error.message);
        Condition::new(cause, error.next_action.clone())
    });
    unmade.chain(left).chain(lacking).collect()
}

/// Refuses rules that cannot be meant.
fn check(object: &str, rules: &[Rule], set: SetSnapshotRule) -> ApiResult<()> {
    let refuse = |message: String, next: &str, field| Err(ApiError::invalid(object, message, next).at(field));
    let SetSnapshotRule { every_seconds, keep, at_minutes } = set;
    if at_minutes.is_some_and(|minutes| minutes >= DAY_MINUTES) {
        return refuse("a day has 1440 minutes".into(), "count them from midnight, from 0", "at_minutes");
    }
    if at_minutes.is_some() && !every_seconds.is_multiple_of(DAY_SECONDS) {
        let message = "only snapshots that are whole days apart are made at a time of day".into();
        return refuse(message, "write for example 1d or 7d, or leave the time of day out", "at_minutes");
    }
    if every_seconds == 0 || !every_seconds.is_multiple_of(60) || every_seconds > MOST_SECONDS {
        let message = format!("snapshots are made every so many whole minutes, not every {every_seconds} s");
        return refuse(message, "write for example 15m, 1h or 1d", "every_seconds");
    }
    if keep == 0 {
        return refuse("a rule keeps at least one snapshot".into(), "remove the rule to keep none", "keep");
    }
    let others = rules.iter().filter(|rule| rule.every_seconds != every_seconds);
    let (count, kept) = others.fold((0, 0), |(count, kept), rule| (count + 1, kept + u64::from(rule.keep)));
    if count >= MOST_RULES {
        return refuse(format!("a volume has {MOST_RULES} rules at most"), "remove one first", "every_seconds");
    }
    if kept + u64::from(keep) > u64::from(MOST_KEPT) {
        let message = format!("the rules of a volume keep {MOST_KEPT} snapshots at most, and others keep {kept}");
        return refuse(message, "keep fewer", "keep");
    }
    Ok(())
}

/// Refuses a rule that would have snapshots destroyed that are kept so far; those that rules of before left count too.
fn refuse_loss(object: &str, rules: &[Rule], snapshots: &[Snapshot], set: SetSnapshotRule) -> ApiResult<()> {
    let SetSnapshotRule { every_seconds, keep, .. } = set;
    // What a rule of before does not keep goes anyhow.
    let is_kept = |rule: &Rule| rule.every_seconds == every_seconds && rule.keep <= keep;
    let own = of_rule(Rule::of(set), snapshots);
    let beyond = own.len().saturating_sub(keep as usize);
    let Some(oldest) = own.first().filter(|_| beyond > 0 && !rules.iter().any(is_kept)) else { return Ok(()) };
    let which = counted(beyond as u64, "snapshot of that interval", "snapshots of that interval");
    let message = format!(
        "{which} would be destroyed at once: there are {}, the oldest is of {}, and {keep} would be kept",
        own.len(),
        shown_time(oldest.created)
    );
    Err(not_confirmed(object, message, "keep more, or repeat with --yes to destroy them"))
}

impl Engine {
    /// The rules by which snapshots of a volume are made.
    ///
    /// # Errors
    /// If there is no such volume, or it is not open.
    pub fn snapshot_schedule(&self, path: &str) -> ApiResult<SnapshotSchedule> {
        let (open, name, object) = self.volume_at(path)?;
        let (known, volume) = open.open_volume_named(&name, &object)?;
        Ok(shown(&known.snapshot_rules, &volume))
    }

    /// Adds a rule, or changes the one of the same interval.
    ///
    /// # Errors
    /// If there is no such volume, it is not open, the rule cannot be meant, snapshots would be destroyed by it and that is
    /// not confirmed, or its pool takes no changes.
    pub async fn set_snapshot_rule(
        self: &Arc<Self>,
        path: String,
        set: SetSnapshotRule,
        confirmed: bool,
    ) -> ApiResult<SnapshotScheduleChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let (known, volume) = open.open_volume_named(&name, &object)?;
            check(&format!("volume {path}"), &known.snapshot_rules, set)?;
            if !confirmed {
                refuse_loss(&format!("volume {path}"), &known.snapshot_rules, &volume.snapshots(), set)?;
            }
            let SetSnapshotRule { every_seconds, keep, at_minutes } = set;
            let at = at_minutes.map_or_else(String::new, |at| format!(" at {:02}:{:02}", at / 60, at % 60));
            let words = format!("snapshots are made every {}{at}, and {keep} of them kept", interval(every_seconds));
            let change = |rules: &mut Vec<Rule>| {
                rules.retain(|rule| rule.every_seconds != every_seconds);
                rules.push(Rule::of(set));
                rules.sort_by_key(|rule| rule.every_seconds);
            };
            engine.change_rules(&path, &words, change).await
        })
        .await
    }

    /// Removes the rule of an interval, or all of them. The snapshots that it made stay.
    ///
    /// # Errors
    /// If there is no such volume, it is not open, or its pool takes no changes.
    pub async fn remove_snapshot_rule(
        self: &Arc<Self>,
        path: String,
        every_seconds: Option<u64>,
    ) -> ApiResult<SnapshotScheduleChanged> {
        self.change(move |engine| async move {
            let which = every_seconds.map_or_else(String::new, |every| format!(" every {}", interval(every)));
            let change = |rules: &mut Vec<Rule>| {
                rules.retain(|rule| every_seconds.is_some_and(|every| rule.every_seconds != every))
            };
            engine.change_rules(&path, &format!("no snapshots are made{which} any more"), change).await
        })
        .await
    }

    async fn change_rules(
        &self,
        path: &str,
        words: &str,
        change: impl FnOnce(&mut Vec<Rule>),
    ) -> ApiResult<SnapshotScheduleChanged> {
        let (open, name, object) = self.volume_at(path)?;
        let (mut known, volume) = open.open_volume_named(&name, &object)?;
        let before = known.snapshot_rules.clone();
        change(&mut known.snapshot_rules);
        let changed = known.snapshot_rules != before;
        if changed {
            self.keep_volume(&open, &known).await?;
            if let Some(live) = open.volumes().get_mut(&name) {
                live.known.snapshot_rules.clone_from(&known.snapshot_rules);
                // What hindered rules that are gone hinders nothing.
                live.schedule = ScheduleWatch::default();
            }
            self.note(&open.volume_object(&known), words);
        }
        Ok(SnapshotScheduleChanged { changed, schedule: shown(&known.snapshot_rules, &volume) })
    }

    /// The volumes that have rules and are in service.
    fn ruled(&self) -> Vec<Ruled> {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let of_pool = |open: Arc<OpenPool>| {
            let volumes = open.volumes();
            let ruled = volumes.iter().filter(|(_, live)| !live.known.snapshot_rules.is_empty() && !live.is_away);
            let ruled = ruled.filter_map(|(name, live)| {
                let (rules, volume) = (live.known.snapshot_rules.clone(), live.open.as_ref()?.volume.clone());
                Some(Ruled { open: open.clone(), name: name.clone(), rules, volume })
            });
            ruled.collect::<Vec<_>>()
        };
        pools.into_iter().flat_map(of_pool).collect()
    }

    /// Makes the snapshots of a volume that are due, and destroys those that its rules keep no more.
    async fn keep_rules(self: &Arc<Self>, ruled: &Ruled) {
        let Ruled { open, name, rules, volume } = ruled;
        let path = format!("{}/{name}", open.name());
        let handed = OnceCell::new();
        for rule in rules.iter().copied() {
            let (now, zone) = (Timestamp::now(), server_zone());
            let mut snapshots = volume.snapshots();
            let mut is_kept = true;
            let mut hindered = None;
            if is_due(rule, &snapshots, now, &zone) {
                let handed = handed.get_or_init(|| self.hand_over_mapped(&path)).await.clone();
                let made = match handed {
                    Ok(lacks) => self.make_by_rule(&path, rule, now).await.map(|()| lacks),
                    Err(error) => Err(error),
                };
                is_kept = made.is_ok();
                let (unmade, lacks) = made.map_or_else(|error| (Some(error), None), |lacks| (None, lacks));
                let told = |lacks: Condition| ApiError::new(Code::Failed, &path, lacks.cause, lacks.next_action);
                hindered = self.note_rule(open, name, unmade, |watch| &mut watch.unmade, rule);
                self.note_rule(open, name, lacks.map(told), |watch| &mut watch.lacking, rule);
                snapshots = volume.snapshots();
            }
            self.note_interval(open, name, (rule, interval_at(rule, now, &zone)), is_kept, hindered);
            let own = of_rule(rule, &snapshots);
            let beyond = own.len().saturating_sub(rule.keep as usize);
            let mut failed = None;
            for one in &own[..beyond] {
                let (path, name) = (path.clone(), one.name.clone());
                let ended = self.change(move |engine| async move { engine.end_snapshot(&path, &name).await });
                failed = ended.await.err().or(failed);
            }
            self.note_rule(open, name, failed, |watch| &mut watch.left, rule);
        }
    }

    async fn make_by_rule(self: &Arc<Self>, path: &str, rule: Rule, now: Timestamp) -> ApiResult<()> {
        let (path, name) = (path.to_owned(), format!("{}{}", prefix(rule.every_seconds), stamp(now)));
        self.change(move |engine| async move { engine.make_snapshot(&path, &name).await.map(drop) }).await
    }

    /// Notes that a rule was looked at, and tells of intervals that were skipped when it is kept again.
    fn note_interval(
        &self,
        open: &OpenPool,
        name: &str,
        (rule, now): (Rule, i64),
        is_kept: bool,
        hindered: Option<ApiError>,
    ) {
        let (known, skipped) = {
            let mut volumes = open.volumes();
            let Some(live) = volumes.get_mut(name) else { return };
            (live.known.clone(), live.schedule.skipped(rule.every_seconds, now, is_kept))
        };
        if skipped > 0 {
            let which = counted(skipped as u64, "snapshot", "snapshots");
            let every = interval(rule.every_seconds);
            let why = hindered.as_ref().map_or("it was not in service, or there was no time", |error| &error.message);
            let cause = format!("{which} of each {every} were skipped: {why}");
            let next = hindered.as_ref().map_or("see its events", |error| &error.next_action);
            self.events.emit(Severity::Warning, &open.volume_object(&known), &cause, next);
        }
    }

    /// Notes what hinders a rule, and tells of it once; answers what did so far.
    fn note_rule(
        &self,
        open: &OpenPool,
        name: &str,
        failed: Option<ApiError>,
        which: impl Fn(&mut ScheduleWatch) -> &mut BTreeMap<u64, ApiError>,
        rule: Rule,
    ) -> Option<ApiError> {
        let (known, before) = {
            let mut volumes = open.volumes();
            let live = volumes.get_mut(name)?;
            let notes = which(&mut live.schedule);
            let before = match &failed {
                Some(error) => notes.insert(rule.every_seconds, error.clone()),
                None => notes.remove(&rule.every_seconds),
            };
            (live.known.clone(), before)
        };
        let is_new = before.as_ref().map(|error| &error.message) != failed.as_ref().map(|error| &error.message);
        if let Some(error) = failed.filter(|_| is_new) {
            let cause = format!(
                "its snapshots of each {} are not kept as they are to be: {}",
                interval(rule.every_seconds),
                error.message
            );
            self.events.emit(Severity::Warning, &open.volume_object(&known), &cause, &error.next_action);
        }
        before
    }
}

/// Keeps the rules of all volumes, until `stop` says so or the engine is gone.
pub(crate) async fn keep_schedules(engine: Weak<Engine>, mut stop: watch::Receiver<bool>) {
    let mut works = SideBySide::default();
    let mut look = tokio::time::interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = works.ended() => continue,
            _ = look.tick() => {}
        }
        let Some(engine) = engine.upgrade() else { return };
        for ruled in engine.ruled() {
            let engine = engine.clone();
            works.begin(ruled.volume.id(), async move { engine.keep_rules(&ruled).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(name: &str, seconds: i64) -> Snapshot {
        let created = holdfast_volume::service::Time { seconds, nanos: 0 };
        Snapshot { name: name.into(), number: 1, generation: 1, created, files: 1, kept_bytes: 0 }
    }

    fn rule(every_seconds: u64, keep: u32) -> Rule {
        Rule { every_seconds, keep, at_minutes: None }
    }

    #[test]
    fn a_rule_knows_its_snapshots_by_their_names() {
        for (seconds, short) in [(60, "1m"), (5400, "90m"), (3600, "1h"), (86_400, "1d"), (604_800, "7d")] {
            assert_eq!(interval(seconds), short);
            assert_eq!(rule_of(&format!("{}{}", prefix(seconds), "20261126T060000Z")), Some(seconds));
        }
        for other in ["auto-", "auto-1h", "auto-h-1", "auto-1y-2", "hourly", "auto--", "auto-99999999999999999999d-1"] {
            assert_eq!(rule_of(other), None, "{other}");
        }
    }

    #[test]
    fn one_is_due_in_each_interval_and_after_the_clock_was_set() {
        let rule = rule(3600, 2);
        let at = |seconds| Timestamp::from_second(seconds).expect("a time");
        let is_due = |rule, made: &[Snapshot], now| super::is_due(rule, made, now, &TimeZone::UTC);
        assert!(is_due(rule, &[], at(7200)));
        let made = [snapshot("auto-1h-a", 7205), snapshot("auto-1d-b", 9000), snapshot("by hand", 10_900)];
        assert!(!is_due(rule, &made, at(10_799)));
        assert!(is_due(rule, &made, at(10_800)), "the next hour");
        assert!(is_due(rule, &made, at(3600)), "set back");
        assert!(!is_due(super::tests::rule(86_400, 2), &made, at(10_800)));
        let told = shown_rule(rule, &made, at(7300), &TimeZone::UTC);
        assert_eq!((told.snapshots, &told.next_at[..]), (1, "1970-01-01T03:00:00.000Z"));
    }

    #[test]
    fn intervals_that_were_skipped_are_counted_once() {
        let mut watch = ScheduleWatch::default();
        let mut looked = |now, is_kept| watch.skipped(60, now, is_kept);
        assert_eq!((looked(100, true), looked(100, true), looked(101, true)), (0, 0, 0));
        assert_eq!((looked(102, false), looked(104, false), looked(105, true), looked(106, true)), (0, 0, 3, 0));
        assert_eq!((looked(50, true), looked(51, true)), (0, 0), "the clock was set back");
        let mut late = ScheduleWatch::default();
        assert_eq!((late.skipped(60, 7, false), late.skipped(60, 9, true)), (0, 2), "it was never kept");
    }

    #[test]
    fn a_rule_that_keeps_fewer_says_what_is_destroyed() {
        let made: Vec<Snapshot> = (0..365).map(|day| snapshot(&format!("auto-1d-{day}"), day * 86_400)).collect();
        let hand = [snapshot("by hand", 0), snapshot("auto-1h-a", 0)];
        let all = [&hand[..], &made[..]].concat();
        let set = |rules: &[Rule], keep| {
            let set = SetSnapshotRule { every_seconds: 86_400, keep, at_minutes: None };
            refuse_loss("volume tank/files", rules, &all, set)
        };
        let yearly = [rule(86_400, 365)];
        let refused = set(&yearly, 36).expect_err("329 go");
        assert_eq!(refused.code, Code::NotConfirmed);
        let told =
            "329 snapshots of that interval would be destroyed at once: there are 365, the oldest is of 1970-01-01";
        assert!(refused.message.starts_with(told) && refused.next_action.contains("--yes"), "{refused}");
        assert!(set(&[], 7).expect_err("those of a rule that was removed").message.starts_with("358 snapshots"));
        assert!(set(&yearly, 364).expect_err("one").message.starts_with("1 snapshot of"));
        for (rules, keep) in [(&yearly[..], 365), (&yearly[..], 400), (&[][..], 365)] {
            set(rules, keep).expect("nothing goes");
        }
        let narrow = [rule(86_400, 30)];
        set(&narrow, 30).expect("they go already");
        set(&narrow, 40).expect("they go already");
    }

    #[test]
    fn rules_that_cannot_be_meant_are_refused() {
        let rules = [rule(3600, 990)];
        let refused = |every_seconds, keep| {
            let checked = check("volume tank/files", &rules, SetSnapshotRule { every_seconds, keep, at_minutes: None });
            checked.err().and_then(|error| error.field)
        };
        assert_eq!(refused(60, 10), None);
        assert_eq!(refused(3600, 1000), None, "in place of the other");
        assert_eq!(refused(60, 11).as_deref(), Some("keep"));
        assert_eq!(refused(60, 0).as_deref(), Some("keep"));
        for every in [0, 59, 90, MOST_SECONDS + 60] {
            assert_eq!(refused(every, 1).as_deref(), Some("every_seconds"));
        }
        let at = |every_seconds, minutes| {
            let set = SetSnapshotRule { every_seconds, keep: 1, at_minutes: Some(minutes) };
            check("volume tank/files", &rules, set).err().and_then(|error| error.field)
        };
        assert_eq!((at(86_400, 180), at(604_800, 0)), (None, None));
        assert_eq!(
            (at(3600, 0).as_deref(), at(86_400, DAY_MINUTES).as_deref()),
            (Some("at_minutes"), Some("at_minutes"))
        );
    }
}
