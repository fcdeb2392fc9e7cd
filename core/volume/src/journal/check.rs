//! The journal held against itself by a scan: records follow each other from `first` to `next`.
//!
//! Invariant: memory for one gap at a time, and for those that are found.

use super::{Header, JournalRecord, KEY_JOURNAL, Note, note_key, noted_file, record_key, span_of, usn_of};
use crate::change::{Need, Stop, View};
use crate::error::VolumeError;
use crate::graft::Graft;
use crate::repair::Repaired;
use crate::scan::readable;
use crate::verbs::Verb;
use crate::volume::Volume;
use crate::{JOURNAL_TREE, SETTINGS_TREE, SETTINGS_TWIN};

/// Gaps and notes that are told, at most: one is repaired with all before it.
const MOST: usize = 64;

/// What a scan saw of the journal of a root.
#[derive(Default)]
pub(crate) struct JournalCheck {
    header: Option<Header>,
    /// Where the next record has to begin.
    at: Option<u64>,
    /// Whether the last one could not be read, so that nobody knows how far it reached.
    is_in_gap: bool,
    /// Positions where some are missing or cannot be read.
    gaps: Vec<u64>,
    notes: Vec<u64>,
}

impl JournalCheck {
    /// The next entry of a tree, in the order of trees and keys.
    pub fn entry(&mut self, tree: u8, key: &[u8], value: &[u8]) {
        if matches!(tree, SETTINGS_TREE | SETTINGS_TWIN) && key == KEY_JOURNAL {
            self.header = Header::decode(value).ok().or(self.header);
        }
        let Some(header) = self.header.filter(|header| tree == JOURNAL_TREE && header.is_on) else { return };
        if let Some(usn) = usn_of(key) {
            if usn < header.first || usn >= header.next {
                return;
            }
            let at = self.at.unwrap_or(header.first);
            let is_readable = JournalRecord::decode(usn, value).is_some();
            if !self.is_in_gap && (usn != at || !is_readable) {
                self.gap(at);
            }
            (self.at, self.is_in_gap) = (Some(usn + span_of(value)), !is_readable);
        } else if (noted_file(key).is_none() || Note::decode(value).is_none()) && self.notes.len() < MOST {
            self.notes.extend(noted_file(key));
        }
    }

    fn gap(&mut self, at: u64) {
        if self.gaps.len() < MOST {
            self.gaps.push(at);
        }
    }

    /// What is to be looked at once more: positions of gaps, and files with notes that cannot be read.
    pub fn end(mut self) -> (Vec<u64>, Vec<u64>) {
        if let Some(header) = self.header.filter(|header| header.is_on) {
            let at = self.at.unwrap_or(header.first);
            if at != header.next && !self.is_in_gap {
                self.gap(at);
            }
        }
        (self.gaps, self.notes)
    }
}

/// Where records go on behind a position at which one is missing or cannot be read; nothing where none is.
pub(crate) fn judge_gap(view: &View<'_>, at: u64) -> Result<Option<u64>, Stop> {
    let header = view.store().journal.header().filter(|header| header.is_on);
    let Some(header) = header.filter(|header| (header.first..header.next).contains(&at)) else { return Ok(None) };
    let found = view.range(JOURNAL_TREE, &record_key(at), b"", 2)?;
    let mut records = found.iter().filter_map(|(key, value)| Some((usn_of(key)?, value)));
    match records.next() {
        Some((usn, value)) if usn == at => match JournalRecord::decode(usn, value) {
            Some(_) => Ok(None),
            None => Ok(Some(records.next().map_or(header.next, |(usn, _)| usn))),
        },
        Some((usn, _)) => Ok(Some(usn)),
        None => Ok(Some(header.next)),
    }
}

/// Whether the note of a file cannot be read.
pub(crate) fn judge_note(view: &View<'_>, file: u64) -> Result<Option<Verb>, Stop> {
    let value = view.get(JOURNAL_TREE, &note_key(file))?;
    let is_wrong = value.is_some_and(|value| Note::decode(&value).is_none());
    Ok(is_wrong.then_some(Verb::JournalNote { file }))
}

impl Volume {
    /// What a scan saw of the journal, looked at once more as it is now.
    pub(crate) async fn judge_journal(&self, check: JournalCheck) -> Result<Vec<Verb>, VolumeError> {
        let (gaps, notes) = check.end();
        let mut verbs = Vec::new();
        for usn in gaps {
            let judged = self.store.look([JOURNAL_TREE], |view| judge_gap(view, usn)).await;
            verbs.extend(readable(judged)?.flatten().map(|_| Verb::JournalGap { usn }));
        }
        for file in notes {
            let judged = self.store.look([JOURNAL_TREE], |view| judge_note(view, file)).await;
            verbs.extend(readable(judged)?.flatten());
        }
        Ok(verbs)
    }

    /// Writes a node that is lost anew, if it is in memory, or takes it out: the journal begins behind it.
    pub(crate) async fn repair_journal_node(&self, address: u64, low: &[u8]) -> Result<Repaired, VolumeError> {
        let key = if low.is_empty() { &[0][..] } else { low };
        let rewritten = readable(self.store.graft(JOURNAL_TREE, address, low, Graft::Rewrite).await)?;
        if rewritten != Some(true) && !self.store.mend_journal(key).await? {
            return Ok(Repaired::AlreadyGone);
        }
        self.checkpoint().await?;
        Ok(Repaired::Fixed)
    }

    /// Has the journal begin behind a gap.
    pub(crate) async fn repair_journal_gap(&self, usn: u64) -> Result<Repaired, VolumeError> {
        let Some(next) = self.store.look([JOURNAL_TREE], |view| judge_gap(view, usn)).await? else {
            return Ok(Repaired::AlreadyGone);
        };
        self.store.begin_journal_behind(Some(next)).await?;
        Ok(Repaired::Fixed)
    }

    /// Takes out a note that cannot be read.
    pub(crate) async fn repair_journal_note(&self, file: u64) -> Result<Repaired, VolumeError> {
        let change = self.store.change([JOURNAL_TREE], Need::Less, |view| {
            if judge_note(view, file)?.is_none() {
                return Ok(Repaired::AlreadyGone);
            }
            view.remove(JOURNAL_TREE, note_key(file))?;
            Ok(Repaired::Fixed)
        });
        Ok(change.await?.0)
    }
}
