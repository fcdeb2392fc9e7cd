//! The desk: hears events, decides what goes out when, and notes what became of it. It is handed the time, and does
//! nothing itself.
//!
//! Invariants: an event goes to every rule that matches it, once; a channel has one attempt under way at a time and its
//! messages keep their order; of a channel that fails one event tells, however many messages fail, and a message that
//! tells of channels only changes nothing about any of them, so no failure feeds another.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdfast_api::{Condition, Event, NotifyDeliveryState, Severity};
use holdfast_model::ObjectRef;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::channel::{Channel, reference};
use crate::message::{Entry, Message, Origin};
use crate::pace::{Bucket, Pace};
use crate::rule::{DIGEST_SECONDS, Rule};
use crate::send::Failure;
use crate::work::{Ended, Waiting, Work};

/// How the trouble of a channel begins whose test failed.
const TEST_FAILED: &str = "a test was not delivered";
/// Different events that a rule sent which are remembered to know repeats, at most.
const REMEMBERED: usize = 512;

/// What administrators set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) channels: BTreeMap<String, Channel>,
    pub(crate) rules: BTreeMap<String, Rule>,
}

/// Something to be sent now.
pub(crate) struct Attempt {
    pub(crate) waiting: Waiting,
    pub(crate) channel: Channel,
}

/// What is to be said of an attempt that ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The message, if it is over with it.
    pub(crate) ended: Option<Ended>,
    /// An event about the channel: severity, object, cause, next action.
    pub(crate) event: Option<(Severity, ObjectRef, String, String)>,
}

/// What a rule sent lately: object and cause, and when.
type Sent = HashMap<(ObjectRef, String), i64>;

/// The desk.
pub(crate) struct Desk {
    pub(crate) plan: Plan,
    pub(crate) work: Work,
    pub(crate) origin: Origin,
    pace: Pace,
    buckets: HashMap<String, Bucket>,
    sent: HashMap<String, Sent>,
    /// Messages of which an attempt is under way.
    under_way: BTreeSet<u64>,
}

/// Whether the time has come; one that is further away than any can be was set by a clock that was wrong.
fn has_come(at: i64, now: i64, longest: i64) -> bool {
    at <= now || at > now.saturating_add(longest)
}

impl Desk {
    /// A desk on what was stored; `newest` is the last event that there was.
    pub(crate) fn new(plan: Plan, mut work: Work, newest: u64, pace: Pace, now: i64) -> Self {
        // Events that were lost with the end of their log give their numbers to others.
        work.heard = Some(work.heard.unwrap_or(newest).min(newest));
        // Whatever kept them from being sent before, the daemon is a new one.
        work.waiting.iter_mut().for_each(|waiting| waiting.next_ms = now);
        let (buckets, sent, under_way) = (HashMap::new(), HashMap::new(), BTreeSet::new());
        let mut desk = Self { plan, work, origin: Origin::default(), pace, buckets, sent, under_way };
        desk.maintain();
        desk
    }

    /// Drops what belongs to channels and rules that are not there.
    pub(crate) fn maintain(&mut self) {
        let Plan { channels, rules } = &self.plan;
        self.work.waiting.retain(|waiting| channels.contains_key(&waiting.channel));
        self.work.troubles.retain(|channel, _| channels.contains_key(channel));
        self.work.batches.retain(|rule, _| rules.get(rule).is_some_and(|rule| rule.enabled));
        self.sent.retain(|rule, _| rules.contains_key(rule));
        self.buckets.retain(|channel, _| channels.contains_key(channel));
    }

    /// The last event that was heard.
    pub(crate) fn heard(&self) -> u64 {
        self.work.heard.unwrap_or(0)
    }

    /// Hears an event. Answers whether any rule collects it.
    pub(crate) fn hear(&mut self, event: &Event, now: i64) -> bool {
        if event.id <= self.heard() {
            return false;
        }
        self.work.heard = Some(event.id);
        let time = event.time.parse::<Timestamp>().map_or(now, Timestamp::as_millisecond);
        if now - time > self.pace.stale_ms {
            return false;
        }
        let mut collected = false;
        for rule in self.plan.rules.values().filter(|rule| rule.matches(event.severity, &event.object)) {
            let entry = Entry::new(event);
            let key = (entry.object.clone(), entry.cause.clone());
            let again =
                self.sent.get(&rule.name).and_then(|sent| sent.get(&key)).map(|sent| sent + self.pace.repeat_ms);
            let digest = now + (i64::from(rule.digest_seconds) * 1000).max(self.pace.collect_ms);
            let due = again
                .filter(|again| (now..=now + self.pace.repeat_ms).contains(again))
                .map_or(digest, |again| again.max(digest));
            let batch = self.work.batches.entry(rule.name.clone()).or_default();
            batch.due_ms = if batch.entries.is_empty() { due } else { batch.due_ms.min(due) };
            batch.add(entry);
            collected = true;
        }
        collected
    }

    /// Makes messages of what is due. Answers whether anything changed.
    pub(crate) fn flush(&mut self, now: i64, zone: &TimeZone) -> bool {
        let longest = i64::from(DIGEST_SECONDS) * 1000 + 2 * self.pace.stale_ms;
        let due: Vec<String> = self
            .work
            .batches
            .iter()
            .filter(|(_, batch)| has_come(batch.due_ms, now, longest))
            .map(|(rule, _)| rule.clone())
            .collect();
        let mut changed = false;
        for name in due {
            let (Some(rule), Some(batch)) = (self.plan.rules.get(&name), self.work.batches.get_mut(&name)) else {
                continue;
            };
            // While a channel has enough to do, its rules collect on.
            if self.work.waiting.iter().filter(|waiting| waiting.channel == rule.channel).count() >= self.pace.waiting {
                continue;
            }
            let bucket = self.buckets.entry(rule.channel.clone()).or_insert_with(Bucket::new);
            let next = bucket.next_ms(&self.pace, now);
            changed = true;
            if next > now {
                batch.due_ms = next;
                continue;
            }
            let held = |severity| rule.held_until(severity, now, zone);
            let (entries, omitted) = batch.take(|severity| held(severity).is_none());
            let rest = batch.entries.iter().filter_map(|entry| held(entry.severity)).min();
            match rest {
                Some(until) => batch.due_ms = until,
                None => drop(self.work.batches.remove(&name)),
            }
            if entries.is_empty() {
                continue;
            }
            bucket.take(&self.pace, now);
            let sent = self.sent.entry(name.clone()).or_default();
            sent.retain(|_, at| now - *at < self.pace.repeat_ms);
            for entry in entries.iter().take(REMEMBERED.saturating_sub(sent.len())) {
                sent.insert((entry.object.clone(), entry.cause.clone()), now);
            }
            let channel = rule.channel.clone();
            let message = Message::new(&self.origin, entries, omitted);
            let id = self.work.number();
            self.work.waiting.push(Waiting {
                id,
                channel,
                rule: name,
                message,
                created_ms: now,
                attempts: 0,
                refusals: 0,
                next_ms: now,
                error: None,
            });
        }
        changed
    }

    /// The first message of each channel that has nothing under way.
    fn heads(&self) -> impl Iterator<Item = &Waiting> {
        let mut seen = BTreeSet::new();
        self.work
            .waiting
            .iter()
            .filter(move |waiting| seen.insert(&waiting.channel))
            .filter(|waiting| !self.under_way.contains(&waiting.id))
    }

    /// What is to be sent now, at most `most` messages; each is under way until [`Desk::finish`].
    pub(crate) fn start(&mut self, now: i64, most: usize) -> Vec<Attempt> {
        let most = most.saturating_sub(self.under_way.len());
        let heads = self.heads().filter(|waiting| has_come(waiting.next_ms, now, self.pace.last_retry_ms));
        let attempts: Vec<Attempt> = heads
            .filter_map(|waiting| {
                let channel = self.plan.channels.get(&waiting.channel)?.clone();
                Some(Attempt { waiting: waiting.clone(), channel })
            })
            .take(most)
            .collect();
        self.under_way.extend(attempts.iter().map(|attempt| attempt.waiting.id));
        attempts
    }

    /// When there is something to do next, if nothing happens before.
    pub(crate) fn due(&self) -> Option<i64> {
        let channel = |rule: &String| self.plan.rules.get(rule).map(|rule| rule.channel.as_str()).unwrap_or_default();
        let is_free = |rule: &String| self.work.waiting_for(channel(rule)) < self.pace.waiting;
        let batches = self.work.batches.iter().filter(|(rule, _)| is_free(rule)).map(|(_, batch)| batch.due_ms);
        batches.chain(self.heads().map(|waiting| waiting.next_ms)).min()
    }

    /// Notes what became of the attempt at message `id`.
    pub(crate) fn finish(&mut self, id: u64, result: Result<String, Failure>, now: i64) -> Outcome {
        self.under_way.remove(&id);
        // The channel may have been removed meanwhile.
        let Some(at) = self.work.waiting.iter().position(|waiting| waiting.id == id) else { return Outcome::default() };
        let waiting = &mut self.work.waiting[at];
        waiting.attempts += 1;
        if let Err(failure) = &result {
            waiting.refusals += u32::from(failure.is_refusal);
            waiting.error = Some(failure.message.clone());
            let is_over = now.saturating_sub(waiting.created_ms) >= self.pace.give_up_ms
                || waiting.refusals >= self.pace.refusals;
            if !is_over {
                waiting.next_ms = now + self.pace.backoff_ms(waiting.attempts);
                return Outcome::default();
            }
        }
        let waiting = self.work.waiting.remove(at);
        let counts = !waiting.message.is_about_channels();
        let ended = Ended {
            id,
            channel: waiting.channel.clone(),
            rule: Some(waiting.rule),
            state: if result.is_ok() { NotifyDeliveryState::Delivered } else { NotifyDeliveryState::Failed },
            subject: waiting.message.subject,
            events: waiting.message.entries.iter().map(|entry| entry.count).sum::<u64>() + waiting.message.omitted,
            created_ms: waiting.created_ms,
            attempts: waiting.attempts,
            ended_ms: now,
            error: result.as_ref().err().map(|failure| failure.message.clone()),
        };
        self.work.end(ended.clone());
        let event = counts.then(|| self.judge(&waiting.channel, result.err())).flatten();
        Outcome { ended: Some(ended), event }
    }

    /// Notes whether a channel delivers. Answers the event, if that is news.
    pub(crate) fn judge(
        &mut self,
        channel: &str,
        failure: Option<Failure>,
    ) -> Option<(Severity, ObjectRef, String, String)> {
        let name = reference(channel);
        let Some(failure) = failure else {
            self.work.troubles.remove(channel)?;
            return Some((Severity::Info, name, "delivers again".into(), String::new()));
        };
        let cause = format!("a notification was not delivered: {}", failure.message);
        let next_action = format!("check its settings, then send a test with 'holdfast notify test {channel}'");
        let condition = Condition::new(format!("{name}: {cause}"), &next_action);
        // Whoever tested it knows of the test alone.
        let before = self.work.troubles.insert(channel.into(), condition);
        let is_news = before.is_none_or(|before| before.cause.contains(TEST_FAILED));
        is_news.then_some((Severity::Error, name, cause, next_action))
    }

    /// A test of a channel failed, which its health tells until something is delivered.
    pub(crate) fn note_failed_test(&mut self, channel: &str, why: &str) {
        let next_action = format!("check its settings, then test it again with 'holdfast notify test {channel}'");
        let condition = Condition::new(format!("{}: {TEST_FAILED}: {why}", reference(channel)), next_action);
        self.work.troubles.insert(channel.into(), condition);
    }

    /// A channel was set anew: what waits for it is tried at once.
    pub(crate) fn hurry(&mut self, channel: &str, now: i64) {
        for waiting in self.work.waiting.iter_mut().filter(|waiting| waiting.channel == channel) {
            (waiting.next_ms, waiting.refusals) = (now, 0);
        }
    }

    /// A rule was set anew: what it collected is due when the new one would have it, at the latest.
    pub(crate) fn shorten(&mut self, rule: &str, now: i64) {
        let Some(digest) = self.plan.rules.get(rule).map(|rule| i64::from(rule.digest_seconds) * 1000) else { return };
        if let Some(batch) = self.work.batches.get_mut(rule) {
            batch.due_ms = batch.due_ms.min(now + digest.max(self.pace.collect_ms));
        }
    }
}

#[cfg(test)]
mod tests;
