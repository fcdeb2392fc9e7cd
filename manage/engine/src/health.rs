//! How well disks are, judged from what they do and tell, and what follows where the pool's policy says so.
//!
//! ```text
//!              Warning                                           Unhealthy                    over when
//!  I/O errors  one                                               20                           an hour went by without another
//!  slow        6 looks in a row with 8 times the latency of      -                            30 looks in a row with less than
//!              the median of its peers, 50 ms (SSD: 5 ms) or more                             4 times the median, or the least
//!  SMART       it tells of its end                               -                            3 answers in a row without a word of it
//! ```
//!
//! Peers are the other disks of the same medium in the same pool, two at least. A look at which a disk, or too few of
//! its peers, did too little counts for nothing. Invariant: to come and to go takes different thresholds, so that no
//! judgement flaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use holdfast_api::{RetireDisk, Severity};
use holdfast_model::{Condition, DiskDetail, DiskState, Health, Media, ObjectRef, RetirePolicy, Usage, Uuid, counted};
use holdfast_pool::{DiskCounts, DiskRecord, DiskStatus, Judgement};
use tokio::sync::watch;

use crate::engine::{Engine, OpenPool};

const QUIET: Duration = Duration::from_secs(60 * 60);
const UNHEALTHY_ERRORS: u64 = 20;
const SLOW_FACTOR: u32 = 8;
const FAST_FACTOR: u32 = 4;
const SLOW_LOOKS: u32 = 6;
const FAST_LOOKS: u32 = 30;
const LEAST_PEERS: usize = 2;
/// Of so many timed requests a look needs to know a latency.
const LEAST_TIMED: u64 = 4;
const CLEAN_ANSWERS: u64 = 3;

/// What is remembered of a disk.
#[derive(Default)]
struct Past {
    counts: DiskCounts,
    errors: u64,
    last_error: Duration,
    is_slow: bool,
    /// Looks in a row that speak against what it is taken for.
    against: u32,
    warnings: Vec<String>,
    /// How many answers it had given when it last told of its end.
    warned_at: u64,
    /// Why it was not emptied although it is about to fail, and what to do about it.
    unemptied: Option<Condition>,
    judged: (Health, Vec<DiskDetail>),
}

/// What is seen of a disk at one look.
struct Seen {
    counts: DiskCounts,
    /// Its latency and the median of that of its peers, where both are known.
    latency: Option<(Duration, Duration)>,
    media: Media,
}

impl Past {
    /// The latency since the last look.
    fn latency(&self, counts: &DiskCounts) -> Option<Duration> {
        let timed = counts.timed.saturating_sub(self.counts.timed);
        let took = counts.timed_for.saturating_sub(self.counts.timed_for);
        (timed >= LEAST_TIMED).then(|| took / timed.min(u64::from(u32::MAX)) as u32)
    }

    fn look(&mut self, now: Duration, seen: &Seen) {
        let new = seen.counts.errors().saturating_sub(self.counts.errors());
        self.counts = seen.counts;
        if new > 0 {
            self.errors += new;
            self.last_error = now;
        } else if now.saturating_sub(self.last_error) >= QUIET {
            self.errors = 0;
        }
        let Some((latency, peers)) = seen.latency else { return };
        let least = Duration::from_millis(if seen.media == Media::Hdd { 50 } else { 5 });
        let (factor, looks) = if self.is_slow { (FAST_FACTOR, FAST_LOOKS) } else { (SLOW_FACTOR, SLOW_LOOKS) };
        let looks_slow = latency >= least.max(peers * factor);
        self.against = if looks_slow == self.is_slow { 0 } else { self.against + 1 };
        if self.against >= looks {
            (self.is_slow, self.against) = (looks_slow, 0);
        }
    }

    fn hear(&mut self, answers: u64, warnings: &[String]) {
        if !warnings.is_empty() {
            (self.warnings, self.warned_at) = (warnings.to_vec(), answers);
        } else if answers >= self.warned_at + CLEAN_ANSWERS {
            self.warnings.clear();
        }
    }

    fn judgement(&self, disk: &str) -> Judgement {
        let mut judgement = Judgement::default();
        let mut add = |health: Health, detail: DiskDetail, cause: String, next: &str| {
            judgement.health = judgement.health.max(health);
            judgement.details.push(detail);
            judgement.conditions.push(Condition::new(cause, next));
        };
        let replace = "replace it with 'holdfast disk replace'";
        match self.errors {
            0 => {}
            UNHEALTHY_ERRORS.. => {
                let requests = counted(self.errors, "request", "requests");
                let cause = format!("disk {disk} answered {requests} with errors and gets no new data");
                add(Health::Unhealthy, DiskDetail::IoError, cause, replace);
            }
            _ => {
                let requests = counted(self.errors, "request", "requests");
                let cause = format!("disk {disk} answered {requests} with errors");
                add(Health::Warning, DiskDetail::IoError, cause, "watch it; replace it if errors continue");
            }
        }
        if !self.warnings.is_empty() {
            let cause = format!("disk {disk} is about to fail: {}", self.warnings.join("; "));
            add(Health::Warning, DiskDetail::PredictiveFailure, cause, replace);
        }
        if self.is_slow {
            let cause = format!("disk {disk} is much slower than the other disks of its kind");
            add(Health::Warning, DiskDetail::Slow, cause, "check its cable and slot, or replace it");
        }
        judgement
    }
}

/// The median of the latencies of the others.
fn median_of_peers(latencies: &[(usize, Duration)], disk: usize) -> Option<Duration> {
    let mut peers: Vec<Duration> =
        latencies.iter().filter(|(other, _)| *other != disk).map(|(_, latency)| *latency).collect();
    peers.sort_unstable();
    (peers.len() >= LEAST_PEERS).then(|| peers[peers.len() / 2])
}

/// Judges until `stop` says so or the engine is gone.
pub(crate) async fn watch(engine: Weak<Engine>, mut stop: watch::Receiver<bool>) {
    let Some(interval) = engine.upgrade().map(|engine| engine.settings.health_interval) else { return };
    let (started, mut past) = (Instant::now(), BTreeMap::new());
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(interval) => {}
        }
        let Some(engine) = engine.upgrade() else { return };
        engine.judge_disks(&mut past, started.elapsed()).await;
    }
}

impl Engine {
    async fn judge_disks(self: &Arc<Self>, past: &mut BTreeMap<Uuid, Past>, now: Duration) {
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let mut there = BTreeSet::new();
        let mut leaving: Vec<DiskRecord> = Vec::new();
        for open in pools {
            let disks = open.pool.disks();
            there.extend(disks.iter().map(|disk| disk.record.id));
            let online: Vec<DiskStatus> =
                disks.into_iter().filter(|disk| disk.record.state == DiskState::Online).collect();
            let latency = |(at, disk): (usize, &DiskStatus)| {
                let known = past
                    .get(&disk.record.id)
                    .map_or_else(|| Past::default().latency(&disk.counts), |past| past.latency(&disk.counts));
                known.map(|latency| (at, disk.record.media, latency))
            };
            let latencies: Vec<_> = online.iter().enumerate().filter_map(latency).collect();
            for (at, disk) in online.iter().enumerate() {
                let of_kind = latencies.iter().filter(|(_, media, _)| *media == disk.record.media);
                let of_kind: Vec<_> = of_kind.map(|(at, _, latency)| (*at, *latency)).collect();
                let own = of_kind.iter().find(|(other, _)| *other == at).map(|(_, latency)| *latency);
                let latency = own.zip(median_of_peers(&of_kind, at));
                let past = past.entry(disk.record.id).or_default();
                past.look(now, &Seen { counts: disk.counts, latency, media: disk.record.media });
                self.judge_disk(&open, disk, past);
                if self.is_to_be_emptied(&open, disk, past, &leaving) {
                    leaving.push(disk.record.clone());
                }
            }
        }
        past.retain(|disk, _| there.contains(disk));
        self.smart.lock().unwrap_or_else(PoisonError::into_inner).retain(|disk, _| there.contains(disk));
        for disk in leaving {
            let request = RetireDisk { evacuate: true, ..RetireDisk::default() };
            let refused = self.retire_disk(disk.id.to_string(), request).await.err();
            if let Some(past) = past.get_mut(&disk.id) {
                self.note_unemptied(
                    past,
                    &disk.object(),
                    refused.map(|refused| (refused.message, refused.next_action)),
                );
            }
        }
    }

    /// Says once why a disk that is about to fail was not emptied, and keeps it for the disk's health.
    fn note_unemptied(&self, past: &mut Past, object: &ObjectRef, refused: Option<(String, String)>) {
        let Some((why, next)) = refused else {
            past.unemptied = None;
            return;
        };
        let condition = Condition::new(format!("{object} is about to fail and was not emptied: {why}"), &next);
        if past.unemptied.as_ref() != Some(&condition) {
            let cause = format!("is about to fail and was not emptied: {why}");
            self.events.emit(Severity::Warning, object, &cause, &next);
        }
        past.unemptied = Some(condition);
    }

    fn judge_disk(&self, open: &OpenPool, disk: &DiskStatus, past: &mut Past) {
        if let Some(answered) = self.smart.lock().unwrap_or_else(PoisonError::into_inner).get(&disk.record.id) {
            past.hear(answered.count, &answered.smart.warnings);
        }
        let mut judgement = past.judgement(disk.record.label());
        let judged = (judgement.health, judgement.details.clone());
        if judged != past.judged {
            let object = disk.record.object();
            match judgement.conditions.last() {
                Some(told) => self.events.emit(Severity::Warning, &object, &told.cause, &told.next_action),
                None => self.events.emit(Severity::Info, &object, "is healthy again", ""),
            }
            past.judged = judged;
        }
        judgement.conditions.extend(past.unemptied.clone().filter(|_| !past.warnings.is_empty()));
        open.pool.set_judgement(disk.record.index, judgement);
    }

    /// Whether a disk that tells of its end is to be emptied of itself, besides others that are about to be.
    fn is_to_be_emptied(&self, open: &OpenPool, disk: &DiskStatus, past: &mut Past, others: &[DiskRecord]) -> bool {
        if past.warnings.is_empty() || disk.record.usage == Usage::Retired {
            past.unemptied = None;
            return false;
        }
        if open.pool.refusal().is_some() {
            return false;
        }
        // What is on those that are being emptied already needs room as well.
        let is_leaving = |other: &DiskRecord| {
            other.id == disk.record.id || other.usage == Usage::Retired || others.iter().any(|one| one.id == other.id)
        };
        let members = || open.pool.disks().into_iter().map(|other| other.record);
        let together = || members().filter(is_leaving).map(|other| other.index).collect();
        let fits = || open.pool.has_room_without(&together());
        match open.pool.loss_policy().retire {
            RetirePolicy::Never => false,
            RetirePolicy::Always => true,
            RetirePolicy::Auto => {
                let fits = fits();
                if !fits {
                    let why = "its data does not fit on the other disks".into();
                    let next = "replace it with 'holdfast disk replace OLD NEW'".into();
                    self.note_unemptied(past, &disk.record.object(), Some((why, next)));
                }
                fits
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn errors(count: u64) -> DiskCounts {
        DiskCounts { read_errors: count / 2, write_errors: count - count / 2, ..DiskCounts::default() }
    }

    fn seen(counts: DiskCounts) -> Seen {
        Seen { counts, latency: None, media: Media::Ssd }
    }

    #[test]
    fn errors_warn_then_condemn_and_are_forgotten_after_a_quiet_hour() {
        let (mut past, mut now) = (Past::default(), MINUTE);
        let mut health = |count: u64, minutes: u32| {
            now += MINUTE * minutes;
            past.look(now, &seen(errors(count)));
            past.judgement("x").health
        };
        assert_eq!(health(0, 1), Health::Healthy);
        assert_eq!([health(1, 1), health(1, 59)], [Health::Warning; 2]);
        assert_eq!(health(19, 1), Health::Warning);
        assert_eq!([health(20, 30), health(20, 59)], [Health::Unhealthy; 2]);
        assert_eq!(health(21, 1), Health::Unhealthy, "it does not become better by a few errors");
        assert_eq!([health(21, 60), health(22, 1)], [Health::Healthy, Health::Warning]);
    }

    #[test]
    fn one_that_is_slow_for_long_is_told_and_does_not_flap() {
        let millis = Duration::from_millis;
        let mut past = Past::default();
        let mut slow = |own: u64, peers: u64, looks: u32| {
            for _ in 0..looks {
                let latency = Some((millis(own), millis(peers)));
                past.look(MINUTE, &Seen { counts: DiskCounts::default(), latency, media: Media::Ssd });
            }
            past.judgement("x").details.contains(&DiskDetail::Slow)
        };
        assert!(!slow(80, 10, 5) && !slow(20, 10, 1) && !slow(80, 10, 5), "not for long");
        assert!(slow(80, 10, 1));
        assert!(slow(60, 10, 100), "better, and still far behind");
        assert!(slow(20, 10, 29) && slow(60, 10, 1) && slow(20, 10, 29));
        assert!(!slow(20, 10, 1));
        assert!(!slow(60, 10, 100), "not that much slower");
        assert!(!slow(4, 0, 100), "fast enough, however fast the others are");
    }

    #[test]
    fn peers_are_the_others_and_two_at_least() {
        let latency = |at, millis| (at, Duration::from_millis(millis));
        let all = [latency(0, 900), latency(1, 10), latency(2, 30), latency(3, 20)];
        assert_eq!(median_of_peers(&all, 0), Some(Duration::from_millis(20)));
        assert_eq!(median_of_peers(&all[..2], 0), None);
        let idle = DiskCounts { timed: LEAST_TIMED - 1, timed_for: MINUTE, ..DiskCounts::default() };
        assert_eq!(Past::default().latency(&idle), None);
    }

    #[test]
    fn a_told_end_is_believed_at_once_and_taken_back_after_three_answers() {
        let (mut past, bad) = (Past::default(), vec!["its overall SMART verdict is that it is failing".to_string()]);
        let mut told = |answer: u64, warnings: &[String]| {
            past.hear(answer, warnings);
            let judgement = past.judgement("x");
            assert_eq!(judgement.health == Health::Warning, judgement.details.contains(&DiskDetail::PredictiveFailure));
            !judgement.details.is_empty()
        };
        assert!(
            !told(1, &[])
                && told(2, &bad)
                && told(3, &[])
                && told(3, &[])
                && told(4, &[])
                && told(4, &bad)
                && told(6, &[])
        );
        assert!(!told(7, &[]));
    }
}
