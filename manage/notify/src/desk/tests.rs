//! The desk on a clock of the test.

use holdfast_api::{CreateNotifyRule, SetNotifyChannel, SetWebhook};

use super::*;
use crate::message::named;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

struct Office {
    desk: Desk,
    now: i64,
    events: u64,
    sent: Vec<Message>,
    told: Vec<(Severity, ObjectRef)>,
}

fn request(name: &str, channel: &str) -> CreateNotifyRule {
    CreateNotifyRule {
        name: name.into(),
        channel: channel.into(),
        severity: None,
        objects: vec![],
        digest_seconds: 0,
        quiet: None,
        errors_pass_quiet: None,
        enabled: None,
    }
}

impl Office {
    /// One with a rule for each of `channels`, as `change` has it.
    fn new(channels: &[&str], change: impl Fn(&mut CreateNotifyRule)) -> Self {
        let mut plan = Plan::default();
        for name in channels {
            let webhook = SetWebhook { url: Some("http://127.0.0.1/".into()), ..SetWebhook::default() };
            let channel = Channel::new(name, SetNotifyChannel { mail: None, webhook: Some(webhook) }).unwrap();
            plan.channels.insert((*name).into(), channel);
            let mut request = request(&format!("rule-{name}"), name);
            change(&mut request);
            plan.rules.insert(request.name.clone(), Rule::new(request).unwrap());
        }
        let desk = Desk::new(plan, Work::default(), 0, Pace::default(), 0);
        Self { desk, now: 0, events: 0, sent: vec![], told: vec![] }
    }

    fn happen(&mut self, severity: Severity, object: &str, cause: &str) {
        self.events += 1;
        let time = Timestamp::from_millisecond(self.now).unwrap().to_string();
        let event = Event {
            id: self.events,
            time,
            severity,
            object: named(object),
            cause: cause.into(),
            next_action: String::new(),
        };
        self.desk.hear(&event, self.now);
    }

    /// Lets time pass until `until`; each attempt ends as `answer` has it.
    fn pass(&mut self, until: i64, answer: impl Fn(&Waiting) -> Result<String, Failure>) {
        loop {
            self.desk.flush(self.now, &TimeZone::UTC);
            let started = self.desk.start(self.now, 4);
            let idle = started.is_empty();
            for Attempt { waiting, .. } in started {
                let result = answer(&waiting);
                if result.is_ok() {
                    self.sent.push(waiting.message.clone());
                }
                let outcome = self.desk.finish(waiting.id, result, self.now);
                if let Some((severity, object, cause, _)) = outcome.event {
                    self.told.push((severity, object.clone()));
                    self.happen(severity, &object.to_string(), &cause);
                }
            }
            if idle {
                let next = self.desk.due().unwrap_or(i64::MAX);
                assert!(next > self.now, "nothing is to be done, and at once");
                if next > until {
                    self.now = until;
                    return;
                }
                self.now = next;
            }
        }
    }
}

fn taken(_: &Waiting) -> Result<String, Failure> {
    Ok(String::new())
}

fn down(_: &Waiting) -> Result<String, Failure> {
    Err(Failure::passing("cannot be reached"))
}

fn refused(_: &Waiting) -> Result<String, Failure> {
    Err(Failure::refused("no such mailbox"))
}

#[test]
fn what_happens_together_goes_out_together() {
    let mut office = Office::new(&["ops"], |_| ());
    for number in 0..60 {
        office.happen(Severity::Warning, &format!("space tank/{}", number % 3), "is degraded");
    }
    office.happen(Severity::Info, "daemon", "started");
    office.pass(MINUTE, taken);
    assert_eq!(office.sent.len(), 1);
    assert_eq!((office.sent[0].entries.len(), office.sent[0].events()), (3, 60));
}

#[test]
fn a_repeat_waits_and_news_take_it_along() {
    let mut office = Office::new(&["ops"], |_| ());
    let flap = |office: &mut Office, until: i64| {
        while office.now < until {
            office.happen(Severity::Warning, "disk d1", "is missing");
            office.pass((office.now + 20 * SECOND).min(until), taken);
        }
    };
    flap(&mut office, 10 * MINUTE);
    assert_eq!(office.sent.len(), 1, "the others are repeats");
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(10 * MINUTE + 10 * SECOND, taken);
    assert_eq!(office.sent.len(), 2);
    assert_eq!(office.sent[1].events(), 30, "the repeats are counted in it");
    flap(&mut office, HOUR);
    assert!((4..=6).contains(&office.sent.len()), "one each quarter of an hour: {}", office.sent.len());
}

#[test]
fn a_storm_is_few_messages_and_loses_no_count() {
    let mut office = Office::new(&["ops"], |_| ());
    for number in 0..3600 {
        office.happen(Severity::Warning, &format!("job {number}"), "failed");
        office.pass(office.now + SECOND, taken);
    }
    office.pass(3 * HOUR, taken);
    assert!(office.sent.len() <= 70, "{}", office.sent.len());
    assert_eq!(office.sent.iter().map(Message::events).sum::<u64>(), 3600);
}

#[test]
fn a_digest_collects() {
    let mut office = Office::new(&["ops"], |rule| rule.digest_seconds = 15 * 60);
    for minute in 1..=14 {
        office.happen(Severity::Warning, &format!("job {minute}"), "failed");
        office.pass(minute * MINUTE, taken);
    }
    assert!(office.sent.is_empty());
    office.pass(15 * MINUTE, taken);
    assert_eq!(office.sent.iter().map(Message::events).collect::<Vec<_>>(), [14]);
}

#[test]
fn quiet_hours_hold_warnings_until_their_end_and_let_errors_pass() {
    let quiet = |rule: &mut CreateNotifyRule| rule.quiet = Some("00:00-07:00".into());
    let mut office = Office::new(&["ops"], quiet);
    for hour in 1..=6 {
        office.happen(Severity::Warning, &format!("job {hour}"), "failed");
        office.pass(hour * HOUR, taken);
    }
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(7 * HOUR - 1, taken);
    assert_eq!(office.sent.iter().map(|message| message.subject.clone()).collect::<Vec<_>>(), ["[error] : pool tank"]);
    office.pass(7 * HOUR, taken);
    assert_eq!(office.sent[1].events(), 6);
    // An hour after, nothing is held.
    office.now = 8 * HOUR;
    office.happen(Severity::Warning, "job 9", "failed");
    office.pass(8 * HOUR + 10 * SECOND, taken);
    assert_eq!(office.sent.len(), 3);

    let mut office = Office::new(&["ops"], |rule| {
        quiet(rule);
        rule.errors_pass_quiet = Some(false);
    });
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(7 * HOUR - 1, taken);
    assert!(office.sent.is_empty());
    office.pass(7 * HOUR, taken);
    assert_eq!(office.sent.len(), 1);
}

#[test]
fn a_server_that_is_down_is_asked_again_and_nothing_is_lost() {
    let mut office = Office::new(&["ops"], |_| ());
    for number in 0..200 {
        office.happen(Severity::Error, &format!("job {number}"), "failed");
        office.pass(office.now + MINUTE, down);
    }
    assert!(office.sent.is_empty() && office.told.is_empty());
    assert!(office.desk.work.waiting.len() <= 3, "{}", office.desk.work.waiting.len());
    let text = serde_json::to_string(&office.desk.work).unwrap();
    // A daemon that was killed goes on with what is stored.
    let work: Work = serde_json::from_str(&text).unwrap();
    let plan = office.desk.plan.clone();
    office.desk = Desk::new(plan, work, office.events, Pace::default(), office.now);
    office.pass(office.now + HOUR, taken);
    assert_eq!(office.sent.iter().map(Message::events).sum::<u64>(), 200);
    assert!(office.sent.len() <= 6, "{}", office.sent.len());
}

#[test]
fn a_message_is_given_up_after_a_day_and_one_event_tells() {
    let mut office = Office::new(&["ops"], |_| ());
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(23 * HOUR, down);
    assert!(office.told.is_empty());
    office.pass(25 * HOUR, down);
    assert_eq!(office.told, [(Severity::Error, named("channel ops"))]);
    let ended = office.desk.work.ended.back().unwrap();
    assert!(ended.state == NotifyDeliveryState::Failed && ended.attempts > 40, "{ended:?}");
    let condition = office.desk.work.troubles["ops"].clone();
    assert!(condition.cause.contains("channel ops") && condition.cause.contains("cannot be reached"), "{condition:?}");
    office.happen(Severity::Error, "pool tank", "is offline");
    office.pass(26 * HOUR, taken);
    assert_eq!(office.told.last(), Some(&(Severity::Info, named("channel ops"))));
    assert!(office.desk.work.troubles.is_empty());
}

#[test]
fn a_refusal_is_believed_after_three_and_the_next_message_has_its_turn() {
    let mut office = Office::new(&["ops"], |_| ());
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(5 * MINUTE, refused);
    let ended = office.desk.work.ended.back().unwrap();
    assert_eq!((ended.attempts, ended.error.as_deref()), (3, Some("no such mailbox")));
    assert!(office.desk.work.waiting.is_empty());
}

#[test]
fn channels_that_fail_tell_each_other_once_and_not_for_ever() {
    let mut office = Office::new(&["one", "two"], |rule| rule.severity = Some(Severity::Info));
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(7 * 24 * HOUR, refused);
    assert_eq!(office.told.len(), 2, "{:?}", office.told);
    // Each was told of the other, and that was refused as well.
    assert_eq!(office.desk.work.ended.len(), 4);
    // One that works tells of the one that does not.
    let mut office = Office::new(&["one", "two"], |_| ());
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(24 * HOUR, |waiting| if waiting.channel == "one" { refused(waiting) } else { taken(waiting) });
    assert_eq!(
        office.sent.iter().map(|message| message.subject.clone()).collect::<Vec<_>>(),
        ["[error] : pool tank", "[error] : channel one"]
    );
}

#[test]
fn events_are_heard_once_and_old_ones_are_left() {
    let mut office = Office::new(&["ops"], |_| ());
    office.happen(Severity::Error, "pool tank", "one");
    office.events -= 1;
    office.happen(Severity::Error, "pool tank", "one again");
    office.pass(MINUTE, taken);
    assert_eq!(office.sent[0].events(), 1);
    office.events += 1;
    let old = Event {
        id: office.events,
        time: "1969-12-01T00:00:00Z".into(),
        severity: Severity::Error,
        object: named("pool tank"),
        cause: "long ago".into(),
        next_action: String::new(),
    };
    assert!(!office.desk.hear(&old, office.now));
    // A log that lost its end begins again below what was heard.
    let plan = office.desk.plan.clone();
    let desk = Desk::new(plan, Work { heard: Some(900), ..Work::default() }, 7, Pace::default(), 0);
    assert_eq!(desk.heard(), 7);
}

#[test]
fn what_was_removed_is_not_sent() {
    let mut office = Office::new(&["ops", "hook"], |_| ());
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(8 * SECOND, down);
    assert_eq!(office.desk.work.waiting.len(), 2);
    let attempt = office.desk.start(20 * SECOND, 4).remove(0);
    office.desk.plan.channels.remove(&attempt.waiting.channel);
    office.desk.plan.rules.remove(&attempt.waiting.rule);
    office.desk.maintain();
    assert_eq!(office.desk.work.waiting.len(), 1);
    assert_eq!(office.desk.finish(attempt.waiting.id, Ok(String::new()), 20 * SECOND), Outcome::default());
}

#[test]
fn a_channel_that_is_set_anew_is_tried_at_once() {
    let mut office = Office::new(&["ops"], |_| ());
    office.happen(Severity::Error, "pool tank", "is read-only");
    office.pass(HOUR, down);
    office.desk.hurry("ops", office.now);
    office.pass(HOUR + 1, taken);
    assert_eq!(office.sent.len(), 1);
}
