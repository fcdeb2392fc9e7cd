//! What is under way: events that are collected for each rule, and messages that wait for their channel.
//!
//! ```text
//!   event ─▶ batch of its rule ─▶ queue of the channel ─▶ attempt ─▶ ended
//!            until it is due       until its time comes     │
//!                   ▲                    ▲──── failed ──────┘
//!                   └ while the channel has enough to do
//! ```
//!
//! Invariants: what a rule collects and what waits for a channel is bounded; an event that was heard is in a batch, in
//! a message, or counted in one, until the message is delivered or given up.

use std::collections::{BTreeMap, VecDeque};

use holdfast_api::{Condition, NotifyDeliveryState, Severity};
use serde::{Deserialize, Serialize};

use crate::message::{ENTRIES, Entry, Message};

/// Messages that are remembered after their end.
pub(crate) const ENDED: usize = 200;

/// What a rule has collected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<Entry>,
    /// Events that found no place, and the worst of them.
    pub(crate) omitted: u64,
    pub(crate) omitted_severity: Option<Severity>,
    /// When it is sent.
    pub(crate) due_ms: i64,
}

impl Batch {
    /// Adds an event. One that says the same as another counts there.
    pub(crate) fn add(&mut self, entry: Entry) {
        if let Some(same) = self.entries.iter_mut().find(|other| other.is_like(&entry)) {
            same.count += entry.count;
            same.last_time = entry.last_time;
            return;
        }
        if self.entries.len() >= ENTRIES {
            // The least of them gives way to what is worse.
            let least =
                self.entries.iter().enumerate().min_by_key(|(at, entry)| (entry.severity, std::cmp::Reverse(*at)));
            match least {
                Some((at, least)) if least.severity < entry.severity => {
                    let gone = self.entries.remove(at);
                    self.omit(gone.count, gone.severity);
                }
                _ => return self.omit(entry.count, entry.severity),
            }
        }
        self.entries.push(entry);
    }

    fn omit(&mut self, count: u64, severity: Severity) {
        self.omitted += count;
        self.omitted_severity = self.omitted_severity.max(Some(severity));
    }

    /// Events in it.
    pub(crate) fn events(&self) -> u64 {
        self.entries.iter().map(|entry| entry.count).sum::<u64>() + self.omitted
    }

    /// Takes out the entries that `may` be sent now, with the count of those that found no place.
    pub(crate) fn take(&mut self, may: impl Fn(Severity) -> bool) -> (Vec<Entry>, u64) {
        let (sent, held) = std::mem::take(&mut self.entries).into_iter().partition(|entry| may(entry.severity));
        self.entries = held;
        let omitted = match self.omitted_severity {
            Some(severity) if may(severity) || self.entries.is_empty() => {
                self.omitted_severity = None;
                std::mem::take(&mut self.omitted)
            }
            _ => 0,
        };
        (sent, omitted)
    }
}

/// A message that waits for its channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) id: u64,
    pub(crate) channel: String,
    pub(crate) rule: String,
    pub(crate) message: Message,
    pub(crate) created_ms: i64,
    pub(crate) attempts: u32,
    /// How many of these the server refused.
    pub(crate) refusals: u32,
    pub(crate) next_ms: i64,
    pub(crate) error: Option<String>,
}

/// A message that was delivered or given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) id: u64,
    pub(crate) channel: String,
    pub(crate) rule: Option<String>,
    pub(crate) state: NotifyDeliveryState,
    pub(crate) subject: String,
    pub(crate) events: u64,
    pub(crate) created_ms: i64,
    pub(crate) attempts: u32,
    pub(crate) ended_ms: i64,
    pub(crate) error: Option<String>,
}

/// Everything that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// The last event that was heard; none before the first start.
    pub(crate) heard: Option<u64>,
    pub(crate) next_id: u64,
    /// By rule.
    pub(crate) batches: BTreeMap<String, Batch>,
    /// The oldest first.
    pub(crate) waiting: Vec<Waiting>,
    /// In the order in which they ended.
    pub(crate) ended: VecDeque<Ended>,
    /// By channel, why its last message was not delivered.
    pub(crate) troubles: BTreeMap<String, Condition>,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            heard: None,
            next_id: 1,
            batches: BTreeMap::new(),
            waiting: Vec::new(),
            ended: VecDeque::new(),
            troubles: BTreeMap::new(),
        }
    }
}

impl Work {
    /// A number for a message.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Messages that wait for `channel`.
    pub(crate) fn waiting_for(&self, channel: &str) -> usize {
        self.waiting.iter().filter(|waiting| waiting.channel == channel).count()
    }

    /// Remembers a message that ended.
    pub(crate) fn end(&mut self, ended: Ended) {
        if self.ended.len() >= ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::entry;

    #[test]
    fn repeats_are_counted_and_a_batch_is_bounded() {
        let mut batch = Batch::default();
        for _ in 0..60 {
            batch.add(entry(Severity::Warning, "disk d1", "answered with an error"));
        }
        assert_eq!((batch.entries.len(), batch.entries[0].count), (1, 60));
        for number in 0..100 {
            batch.add(entry(Severity::Warning, &format!("job {number}"), "failed"));
        }
        batch.add(entry(Severity::Error, "pool tank", "is read-only"));
        assert_eq!((batch.entries.len(), batch.events()), (ENTRIES, 161));
        assert!(
            batch.entries.iter().any(|entry| entry.object == crate::message::named("pool tank")),
            "the worst is not left out"
        );
        let (sent, omitted) = batch.take(|_| true);
        assert_eq!((sent.len(), omitted), (ENTRIES, 52));
        assert_eq!(batch.events(), 0);
    }

    #[test]
    fn what_may_not_be_sent_stays() {
        let mut batch = Batch::default();
        batch.add(entry(Severity::Warning, "disk d1", "is slow"));
        batch.add(entry(Severity::Error, "pool tank", "is read-only"));
        let (sent, omitted) = batch.take(|severity| severity == Severity::Error);
        assert_eq!((sent.len(), omitted, batch.events()), (1, 0, 1));
    }
}
