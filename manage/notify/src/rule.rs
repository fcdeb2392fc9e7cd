//! Rules: which events go out, and when they have to wait.
//!
//! ```text
//!   event ─▶ severity, object ─▶ collected ─▶ due, and not in quiet hours ─▶ message
//! ```
//!
//! Invariant: whether an event matches and until when it waits follows from the rule, the event and the time alone.

use holdfast_api::{ApiError, CreateNotifyRule, NotifyRule, SetNotifyRule, Severity};
use holdfast_model::{ObjectKind, ObjectRef};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};

/// Object patterns of a rule at most.
const PATTERNS: usize = 32;
/// Bytes of an object pattern at most.
const PATTERN_BYTES: usize = 256;
/// The longest digest.
pub(crate) const DIGEST_SECONDS: u32 = 7 * 24 * 60 * 60;

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) channel: String,
    severity: Severity,
    objects: Vec<String>,
    pub(crate) digest_seconds: u32,
    quiet: Option<Quiet>,
    errors_pass_quiet: bool,
    pub(crate) enabled: bool,
}

/// From when to when it is quiet, in minutes of the day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Quiet {
    begin: u16,
    end: u16,
}

/// Minutes of the day of `HH:MM`.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |text: &str, most: u16| {
        let plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|value| plain && *value <= most)
    };
    Some(number(hours, 23)? * 60 + number(minutes, 59).filter(|_| minutes.len() == 2)?)
}

impl Quiet {
    fn parse(text: &str) -> Option<Self> {
        let (begin, end) = text.split_once('-')?;
        let quiet = Self { begin: minutes(begin)?, end: minutes(end)? };
        (quiet.begin != quiet.end).then_some(quiet)
    }

    fn text(self) -> String {
        let time = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        format!("{}-{}", time(self.begin), time(self.end))
    }

    /// When it ends, in milliseconds since 1970, if it is quiet now.
    fn until(self, now_ms: i64, zone: &TimeZone) -> Option<i64> {
        let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned(zone.clone());
        let minute = now.hour() as u16 * 60 + now.minute() as u16;
        let quiet = if self.begin < self.end {
            (self.begin..self.end).contains(&minute)
        } else {
            minute >= self.begin || minute < self.end
        };
        if !quiet {
            return None;
        }
        let day = if minute < self.end { now.date() } else { now.date().checked_add(1.day()).ok()? };
        let end = Time::new((self.end / 60) as i8, (self.end % 60) as i8, 0, 0).ok()?;
        // An hour that is skipped or comes twice settles itself: in any case the end lies after now.
        let end = day.to_datetime(end).to_zoned(zone.clone()).ok()?.timestamp().as_millisecond();
        Some(end.max(now_ms + 1))
    }
}

/// Whether `text` is as `pattern` says, in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let Some((tail, middle)) = parts.split_last() else { return true };
    for part in middle {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(tail)
}

/// Whether an object is one that `pattern`, `KIND` or `KIND NAME`, means. Its id stands for its name, and a part of the
/// server is meant by its name alone as well.
fn means(pattern: &str, object: &ObjectRef) -> bool {
    let (kind, name) = pattern.split_once(' ').unwrap_or((pattern, "*"));
    let is_part = object.kind == ObjectKind::Server && is_like(pattern, &object.name);
    is_part || is_like(kind, object.kind.word()) && (is_like(name, &object.name) || name == object.id)
}

/// How messages call a rule.
pub(crate) fn object(name: &str) -> String {
    format!("rule {name}")
}

impl Rule {
    /// A new rule.
    pub(crate) fn new(request: CreateNotifyRule) -> Result<Self, ApiError> {
        let rule = Self {
            name: request.name,
            channel: request.channel,
            severity: request.severity.unwrap_or(Severity::Warning),
            objects: Vec::new(),
            digest_seconds: 0,
            quiet: None,
            errors_pass_quiet: request.errors_pass_quiet.unwrap_or(true),
            enabled: request.enabled.unwrap_or(true),
        };
        rule.with(SetNotifyRule {
            objects: Some(request.objects),
            digest_seconds: Some(request.digest_seconds),
            quiet: request.quiet,
            ..SetNotifyRule::default()
        })
    }

    /// The rule after what `set` changes.
    pub(crate) fn with(&self, set: SetNotifyRule) -> Result<Self, ApiError> {
        let object = object(&self.name);
        let wrong =
            |field: &str, message: String, next: &str| Err(ApiError::invalid(&*object, message, next).at(field));
        let mut next = self.clone();
        next.channel = set.channel.unwrap_or(next.channel);
        next.severity = set.severity.unwrap_or(next.severity);
        next.digest_seconds = set.digest_seconds.unwrap_or(next.digest_seconds);
        next.errors_pass_quiet = set.errors_pass_quiet.unwrap_or(next.errors_pass_quiet);
        next.enabled = set.enabled.unwrap_or(next.enabled);
        if let Some(objects) = set.objects {
            next.objects =
                objects.iter().map(|pattern| pattern.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        }
        if next.digest_seconds > DIGEST_SECONDS {
            return wrong(
                "digest_seconds",
                format!("it would collect for {} seconds", next.digest_seconds),
                "choose 7 days at most",
            );
        }
        if next.objects.len() > PATTERNS {
            return wrong("objects", format!("it names {} objects", next.objects.len()), "name 32 at most, or use '*'");
        }
        let bad = |pattern: &String| {
            pattern.is_empty() || pattern.len() > PATTERN_BYTES || pattern.chars().any(char::is_control)
        };
        if next.objects.iter().any(bad) {
            let hint = "write KIND or KIND NAME, as in 'pool tank', 'space tank/*' or disk";
            return wrong("objects", "one of its objects cannot be used".into(), hint);
        }
        match set.quiet.as_deref() {
            None => {}
            Some("") => next.quiet = None,
            Some(text) => match Quiet::parse(text) {
                Some(quiet) => next.quiet = Some(quiet),
                None => {
                    let text: String = text.chars().filter(|c| !c.is_control()).take(40).collect();
                    return wrong(
                        "quiet",
                        format!("'{text}' are no quiet hours"),
                        "write begin and end as in 22:00-07:00",
                    );
                }
            },
        }
        Ok(next)
    }

    /// Whether it sends events of this severity about this object.
    pub(crate) fn matches(&self, severity: Severity, object: &ObjectRef) -> bool {
        let own = crate::channel::reference(&self.channel);
        self.enabled
            && severity >= self.severity
            && !object.is(&own)
            && (self.objects.is_empty() || self.objects.iter().any(|pattern| means(pattern, object)))
    }

    /// Until when events of this severity have to wait for the end of quiet hours; none if they need not.
    pub(crate) fn held_until(&self, severity: Severity, now_ms: i64, zone: &TimeZone) -> Option<i64> {
        if self.errors_pass_quiet && severity >= Severity::Error {
            return None;
        }
        self.quiet?.until(now_ms, zone)
    }

    /// The rule as the API shows it.
    pub(crate) fn shown(&self, collected: u32) -> NotifyRule {
        NotifyRule {
            name: self.name.clone(),
            channel: self.channel.clone(),
            severity: self.severity,
            objects: self.objects.clone(),
            digest_seconds: self.digest_seconds,
            quiet: self.quiet.map(Quiet::text),
            errors_pass_quiet: self.errors_pass_quiet,
            enabled: self.enabled,
            collected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::named;

    fn rule(change: impl FnOnce(&mut CreateNotifyRule)) -> Result<Rule, ApiError> {
        let mut request = CreateNotifyRule {
            name: "r".into(),
            channel: "ops".into(),
            severity: None,
            objects: vec![],
            digest_seconds: 0,
            quiet: None,
            errors_pass_quiet: None,
            enabled: None,
        };
        change(&mut request);
        Rule::new(request)
    }

    #[test]
    fn objects_are_meant_by_kind_and_name() {
        let meant = |pattern: &str, object: &str| {
            rule(|rule| rule.objects = vec!["job *".into(), pattern.into()])
                .unwrap()
                .matches(Severity::Error, &named(object))
        };
        for (pattern, object) in [
            ("pool tank", "pool tank"),
            ("pool", "pool tank"),
            (" space   tank/* ", "space tank/vm"),
            ("space */v*1", "space tank/vm-1"),
            ("*", "audit log"),
            ("audit log", "audit log"),
            ("daemon", "daemon"),
            ("server", "daemon"),
            ("disk *", "disk /dev/sd a"),
            ("pool", "job 7"), // by the other one
        ] {
            assert!(meant(pattern, object), "{pattern} {object}");
        }
        for (pattern, object) in [
            ("pool tank", "pool tank2"),
            ("pool", "space tank/vm"),
            ("space tank/*", "space tank"),
            ("space */v*1", "space tank/vm"),
            ("disk a*a", "disk a"),
            ("tank", "pool tank"),
        ] {
            assert!(!meant(pattern, object), "{pattern} {object}");
        }
    }

    #[test]
    fn a_rule_begins_at_its_severity_and_never_tells_a_channel_of_itself() {
        let warning = rule(|_| ()).unwrap();
        assert!(
            !warning.matches(Severity::Info, &named("daemon")) && warning.matches(Severity::Warning, &named("daemon"))
        );
        assert!(
            !warning.matches(Severity::Error, &named("channel ops"))
                && warning.matches(Severity::Error, &named("channel other"))
        );
        assert!(!rule(|rule| rule.enabled = Some(false)).unwrap().matches(Severity::Error, &named("daemon")));
    }

    #[test]
    fn what_no_rule_can_be_is_refused_by_name() {
        type Change = fn(&mut CreateNotifyRule);
        let refused: [Change; 7] = [
            |rule| rule.quiet = Some("22:00".into()),
            |rule| rule.quiet = Some("22:00-24:00".into()),
            |rule| rule.quiet = Some("07:00-07:00".into()),
            |rule| rule.quiet = Some("+7:00-08:00".into()),
            |rule| rule.digest_seconds = DIGEST_SECONDS + 1,
            |rule| rule.objects = vec![" ".into()],
            |rule| rule.objects = vec!["x".into(); PATTERNS + 1],
        ];
        for change in refused {
            let error = rule(change).unwrap_err();
            assert!(error.object == "rule r" && !error.next_action.is_empty(), "{error}");
        }
    }

    /// Summer from the last Sunday of March to that of October.
    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    /// The end of quiet hours, written as local time, at a local time.
    fn quiet_at(quiet: &str, zone: &str, at: &str) -> Option<String> {
        let zone = TimeZone::posix(zone).unwrap();
        let rule = rule(|rule| rule.quiet = Some(quiet.into())).unwrap();
        let at: jiff::civil::DateTime = at.parse().unwrap();
        let now = at.to_zoned(zone.clone()).unwrap().timestamp().as_millisecond();
        let until = rule.held_until(Severity::Warning, now, &zone)?;
        assert!(until > now);
        Some(Timestamp::from_millisecond(until).unwrap().to_zoned(zone).datetime().to_string())
    }

    #[test]
    fn quiet_hours_end_in_the_zone_of_the_server_also_over_midnight() {
        let berlin = |at| quiet_at("22:00-07:00", BERLIN, at);
        assert_eq!(berlin("2026-01-10T21:59:59"), None);
        assert_eq!(berlin("2026-01-10T22:00:00").as_deref(), Some("2026-01-11T07:00:00"));
        assert_eq!(berlin("2026-01-11T06:59:59").as_deref(), Some("2026-01-11T07:00:00"));
        assert_eq!(berlin("2026-01-11T07:00:00"), None);
        // The nights in which clocks change.
        assert_eq!(berlin("2026-03-28T23:00:00").as_deref(), Some("2026-03-29T07:00:00"));
        assert_eq!(berlin("2026-10-24T23:00:00").as_deref(), Some("2026-10-25T07:00:00"));
        // An end in the hour that is skipped comes as soon as there is a later one.
        let skipped = quiet_at("01:00-02:30", BERLIN, "2026-03-29T01:30:00");
        assert_eq!(skipped.as_deref(), Some("2026-03-29T03:30:00"));
        let noon = |at| quiet_at("12:00-13:30", "IST-5:30", at);
        assert_eq!(noon("2026-06-01T13:29:00").as_deref(), Some("2026-06-01T13:30:00"));
        assert_eq!([noon("2026-06-01T11:59:00"), noon("2026-06-01T13:30:00")], [None, None]);
    }

    #[test]
    fn errors_pass_quiet_hours_unless_they_may_not() {
        let now = Timestamp::from_second(0).unwrap().as_millisecond();
        let held = |pass: Option<bool>, severity| {
            let rule = rule(|rule| (rule.quiet, rule.errors_pass_quiet) = (Some("00:00-01:00".into()), pass)).unwrap();
            rule.held_until(severity, now, &TimeZone::UTC)
        };
        assert_eq!(held(None, Severity::Error), None);
        assert_eq!(held(None, Severity::Warning), Some(3_600_000));
        assert_eq!(held(Some(false), Severity::Error), Some(3_600_000));
    }
}
