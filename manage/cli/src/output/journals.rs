//! Change journals.

use holdfast_api::{JournalEntries, JournalEntry, JournalReason, VolumeJournal, word};

use super::{Shown, facts, harmless, size, table};

impl Shown for VolumeJournal {
    fn text(&self) -> String {
        facts(&[
            ("journal", self.id.to_string()),
            ("first position", self.first.to_string()),
            ("next position", self.next.to_string()),
            ("keeps", size(self.max_bytes)),
        ])
    }
}

fn place(one: &JournalEntry) -> String {
    match &one.directory {
        Some(directory) => format!("{}/{}", harmless(directory.trim_end_matches('/')), harmless(&one.name)),
        None => harmless(&one.name),
    }
}

fn words(reasons: &[JournalReason]) -> String {
    let words: Vec<String> = reasons.iter().map(word).collect();
    words.join(", ")
}

impl Shown for JournalEntries {
    fn text(&self) -> String {
        if self.entries.is_empty() && !self.gap {
            return format!("nothing changed from position {} on", self.next);
        }
        let rows = self
            .entries
            .iter()
            .map(|one| vec![one.usn.to_string(), one.time.clone(), one.file.to_string(), words(&one.new), place(one)]);
        let text = table(&["POSITION", "TIME", "FILE", "REASONS", "PATH"], rows);
        match self.gap {
            true => format!("! records before these are gone: look at all files once\n{text}"),
            false => text,
        }
    }
}
