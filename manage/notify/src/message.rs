//! Messages: what happened, in the words of the events, with what to do next.
//!
//! Invariant: a message holds a bounded number of bounded texts; what happened beyond is counted. Subjects are one
//! line.

use std::fmt::Write;

use holdfast_api::{Event, Severity, word};
use holdfast_model::{ObjectKind, ObjectRef};
use serde::{Deserialize, Serialize};

/// Different events that a message tells of at most; more are counted.
pub(crate) const ENTRIES: usize = 50;
/// Bytes of a cause or next action at most.
const TEXT_BYTES: usize = 1024;
/// Bytes of an object's name at most.
const OBJECT_BYTES: usize = 256;

/// Something that happened, once or several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) time: String,
    pub(crate) severity: Severity,
    pub(crate) object: ObjectRef,
    pub(crate) cause: String,
    pub(crate) next_action: String,
    /// How often.
    pub(crate) count: u64,
    /// When it happened last.
    pub(crate) last_time: String,
}

fn cut(text: &str, bytes: usize) -> String {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let whole = if end < text.len() { "…" } else { "" };
    text[..end].chars().map(plain).collect::<String>() + whole
}

impl Entry {
    /// An event that happened once.
    pub(crate) fn new(event: &Event) -> Self {
        Self {
            id: event.id,
            time: event.time.clone(),
            severity: event.severity,
            object: ObjectRef::new(
                event.object.kind,
                cut(&event.object.id, OBJECT_BYTES),
                cut(&event.object.name, OBJECT_BYTES),
            ),
            cause: cut(&event.cause, TEXT_BYTES),
            next_action: cut(&event.next_action, TEXT_BYTES),
            count: 1,
            last_time: event.time.clone(),
        }
    }

    /// Whether both tell the same of the same object.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.severity, &self.object, &self.cause) == (other.severity, &other.object, &other.cause)
    }
}

/// Where messages come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The name of this machine.
    pub(crate) host: String,
    /// Where its console is, if anywhere.
    pub(crate) console: Option<String>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) host: String,
    pub(crate) console: Option<String>,
    pub(crate) severity: Severity,
    pub(crate) subject: String,
    pub(crate) entries: Vec<Entry>,
    /// Events that are only counted.
    pub(crate) omitted: u64,
    pub(crate) is_test: bool,
}

impl Message {
    /// Tells of `entries`, and that there were `omitted` more.
    pub(crate) fn new(origin: &Origin, entries: Vec<Entry>, omitted: u64) -> Self {
        let severity = entries.iter().map(|entry| entry.severity).max().unwrap_or(Severity::Info);
        let worst = entries.iter().find(|entry| entry.severity == severity);
        let object = worst.map(|entry| entry.object.to_string()).unwrap_or_default();
        let mut others: Vec<String> =
            entries.iter().map(|entry| entry.object.to_string()).filter(|one| *one != object).collect();
        others.sort_unstable();
        others.dedup();
        let more = match others.len() {
            0 => String::new(),
            1 => format!(" and {}", others[0]),
            count => format!(" and {count} others"),
        };
        Self {
            host: origin.host.clone(),
            console: origin.console.clone(),
            severity,
            subject: cut(&format!("[{}] {}: {object}{more}", word(&severity), origin.host), OBJECT_BYTES),
            entries,
            omitted,
            is_test: false,
        }
    }

    /// A message that only shows that messages arrive.
    pub(crate) fn test(origin: &Origin, channel: &str, time: &str) -> Self {
        let entry = Entry {
            id: 0,
            time: time.into(),
            severity: Severity::Info,
            object: crate::channel::reference(channel),
            cause: "this is a test: notifications arrive here".into(),
            next_action: String::new(),
            count: 1,
            last_time: time.into(),
        };
        Self { is_test: true, ..Self::new(origin, vec![entry], 0) }
    }

    /// Events that it tells of.
    pub(crate) fn events(&self) -> u64 {
        self.entries.iter().map(|entry| entry.count).sum::<u64>() + self.omitted
    }

    /// Whether it tells of channels only.
    pub(crate) fn is_about_channels(&self) -> bool {
        self.omitted == 0 && self.entries.iter().all(|entry| entry.object.kind == ObjectKind::Channel)
    }

    /// Where its events are shown.
    pub(crate) fn link(&self) -> Option<String> {
        self.console.as_ref().map(|console| format!("{console}/events"))
    }

    /// The whole message for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let _ = writeln!(text, "{} {}", word(&entry.severity).to_uppercase(), entry.object);
            let _ = writeln!(text, "{}", entry.cause);
            if !entry.next_action.is_empty() {
                let _ = writeln!(text, "Next: {}", entry.next_action);
            }
            let _ = match entry.count {
                1 => writeln!(text, "{}\n", entry.time),
                count => writeln!(text, "{}, {count} times until {}\n", entry.time, entry.last_time),
            };
        }
        if self.omitted > 0 {
            let events =
                if self.omitted == 1 { "1 more event".into() } else { format!("{} more events", self.omitted) };
            let _ = writeln!(text, "{events}: see 'holdfast event list'.\n");
        }
        let _ = write!(text, "Sent by Holdfast on {}.", self.host);
        if let Some(link) = self.link() {
            let _ = write!(text, " Console: {link}");
        }
        text.push('\n');
        text
    }
}

/// The object that tests call `KIND NAME`; what begins with no kind is a part of the server.
#[cfg(test)]
pub(crate) fn named(text: &str) -> ObjectRef {
    let (kind, name) = text.split_once(' ').unwrap_or((text, ""));
    let kind = ObjectKind::ALL.into_iter().find(|one| one.word() == kind);
    kind.map_or_else(|| ObjectRef::server(text), |kind| ObjectRef::named(kind, name))
}

/// An entry for tests.
#[cfg(test)]
pub(crate) fn entry(severity: Severity, object: &str, cause: &str) -> Entry {
    let time = "2026-01-01T00:00:00.000Z".to_owned();
    Entry::new(&Event {
        id: 1,
        time,
        severity,
        object: named(object),
        cause: cause.into(),
        next_action: "see to it".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin { host: "nas".into(), console: Some("https://nas:8443".into()) }
    }

    #[test]
    fn a_message_names_severity_host_object_cause_and_next_step() {
        let message = Message::new(&origin(), vec![entry(Severity::Error, "disk d1", "is missing")], 0);
        assert_eq!(message.subject, "[error] nas: disk d1");
        let text = message.text();
        for part in ["ERROR disk d1", "is missing", "Next: see to it", "2026-01-01", "https://nas:8443/events"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        let nowhere = Message::new(&Origin { console: None, ..origin() }, message.entries, 0).text();
        assert!(!nowhere.contains("Console"), "{nowhere}");
    }

    #[test]
    fn the_subject_is_about_the_worst_and_counts_the_others() {
        let entries =
            ["a", "b", "b"].map(|name| entry(Severity::Warning, &format!("space tank/{name}"), "is degraded"));
        let subject = |entries: &[Entry]| Message::new(&origin(), entries.to_vec(), 0).subject;
        assert_eq!(subject(&entries), "[warning] nas: space tank/a and space tank/b");
        let worse = [&entries[..], &[entry(Severity::Error, "disk d1", "x")]].concat();
        assert_eq!(subject(&worse), "[error] nas: disk d1 and 2 others");
    }

    #[test]
    fn no_text_is_endless_or_breaks_its_line() {
        let long = entry(Severity::Error, &format!("disk a\r\nBcc: x{}", "ü".repeat(4000)), &"y\u{7}".repeat(4000));
        let message = Message::new(&origin(), vec![long; 2], 3);
        assert!(message.subject.len() <= OBJECT_BYTES + 3 && !message.subject.chars().any(char::is_control));
        assert!(message.text().len() < 2 * (TEXT_BYTES + OBJECT_BYTES + 200) && !message.text().contains('\u{7}'));
        assert!(message.text().contains("3 more events") && message.events() == 5);
    }
}
