//! The journal read from a position on (`FSCTL_READ_USN_JOURNAL`).
//!
//! Invariant: what a reader is given is durable, so that no crash takes it back and gives its positions to others; and it
//! is all that there is between two positions, or the reader is told that it is not.

use super::{ENTRY_BYTES, Header, JournalRecord, Reasons, judge_gap, record_key, usn_of};
use crate::JOURNAL_TREE;
use crate::change::{Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::volume::Volume;

/// Records that one request answers, at most.
const MOST_RECORDS: usize = 4096;
/// How far a record reaches, at most: one with a name of 765 bytes takes less.
const MOST_SPAN: u64 = 1024;
/// Leaves that one request looks through, at most.
const MOST_LEAVES: usize = 256;

/// What a reader of the journal is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRead {
    /// Records in order, and the position from which to go on.
    Records {
        /// Those with any of the reasons that were asked for.
        records: Vec<JournalRecord>,
        /// Where the reader goes on; as far as the journal goes if that is where it began.
        next: u64,
    },
    /// The position is of records that were cut or lost: the reader looks at all files, and goes on from the first one
    /// that is left, or a later one that it learned before (`STATUS_JOURNAL_ENTRY_DELETED`).
    Cut {
        /// That one.
        first: u64,
    },
    /// The journal is another one by now, or there is none: the reader looks at all files, and begins with that one
    /// (`STATUS_JOURNAL_NOT_ACTIVE`, or an id that does not fit).
    Other {
        /// The one that there is.
        id: Option<u64>,
    },
}

/// The position of the record that one lies within, if it is not its own.
fn record_around(view: &View<'_>, at: u64) -> Result<Option<u64>, Stop> {
    let from = record_key(at.saturating_sub(MOST_SPAN));
    let before = view.range(JOURNAL_TREE, &from, b"", MOST_SPAN as usize / ENTRY_BYTES)?;
    let mut before = before.iter().filter_map(|(key, value)| Some((usn_of(key).filter(|usn| *usn < at)?, value)));
    let reaches = |(usn, value): (u64, &Vec<u8>)| {
        JournalRecord::decode(usn, value).filter(|record| record.next > at).map(|record| record.usn)
    };
    Ok(before.next_back().and_then(reaches))
}

impl Volume {
    /// Records of a journal from a position on that have any of some reasons, `most` of them at most. Position 0 is that of
    /// the first one that there is.
    ///
    /// # Errors
    /// A position beyond the end, a node is damaged, or the device failed.
    pub async fn read_journal(
        &self,
        id: u64,
        from: u64,
        most: usize,
        reasons: Reasons,
    ) -> Result<JournalRead, VolumeError> {
        let read = self.records_from(id, from, most.clamp(1, MOST_RECORDS), reasons).await?;
        // What an opening found is durable, also where nothing can be changed.
        if self.store.last() != self.store.recovered {
            self.store.sync(self.store.last()).await?;
        }
        Ok(read)
    }

    /// Where the leaf stands that has a record, as the newest durable root has it.
    ///
    /// # Errors
    /// A node on the way is damaged, or the device failed.
    pub async fn journal_place(&self, usn: u64) -> Result<Option<u64>, VolumeError> {
        self.store.place_of(JOURNAL_TREE, &record_key(usn)).await
    }

    async fn records_from(
        &self,
        id: u64,
        from: u64,
        most: usize,
        reasons: Reasons,
    ) -> Result<JournalRead, VolumeError> {
        let first = self.store.journal.header().map_or(0, |header| header.first);
        let from = if from == 0 { first } else { from };
        let (mut records, mut at) = (Vec::new(), from);
        for _ in 0..MOST_LEAVES {
            let look = self.store.look([JOURNAL_TREE], |view| {
                Ok((self.store.journal.header(), view.entries_from(JOURNAL_TREE, &record_key(at))?.0))
            });
            let (header, entries) = match look.await {
                Err(error) if error.kind == ErrorKind::Corrupt => {
                    if !self.store.mend_journal(&record_key(at)).await? {
                        return Err(error);
                    }
                    // What stands before it counts, and whoever goes on from there is told.
                    if at > from {
                        break;
                    }
                    (self.store.journal.header(), Vec::new())
                }
                looked => looked?,
            };
            let Some(header) = header.filter(|header| header.is_on && header.id == id) else {
                return Ok(JournalRead::Other { id: self.journal().map(|journal| journal.id) });
            };
            let Header { first, next, .. } = header;
            if at < first {
                return Ok(JournalRead::Cut { first });
            }
            if at > next {
                let text = format!("position {from} lies beyond the end of the change journal, {next}");
                return Err(VolumeError::new(ErrorKind::Invalid, text));
            }
            let is_end = entries.first().is_none_or(|(key, _)| usn_of(key).is_none());
            for (key, value) in entries {
                let Some(usn) = usn_of(&key) else { break };
                let record = JournalRecord::decode(usn, &value).filter(|_| usn == at);
                let Some(record) = record else {
                    // Some before it is lost, or this one is.
                    return Ok(JournalRead::Cut { first: self.behind_gap(at).await? });
                };
                at = record.next;
                if record.reasons.has(reasons) {
                    records.push(record);
                    if records.len() == most {
                        return Ok(JournalRead::Records { records, next: at });
                    }
                }
            }
            if is_end && at < next {
                return Ok(JournalRead::Cut { first: self.behind_gap(at).await? });
            }
            if at == next {
                break;
            }
        }
        Ok(JournalRead::Records { records, next: at })
    }

    /// Has the journal begin behind records that are lost at a position; answers where.
    async fn behind_gap(&self, at: u64) -> Result<u64, VolumeError> {
        // A position that nobody was told of is no sign of damage.
        if let Ok(Some(record)) = self.store.look([JOURNAL_TREE], |view| record_around(view, at)).await {
            let text =
                format!("position {at} lies within the record of the change journal at {record}: go on from there");
            return Err(VolumeError::new(ErrorKind::Invalid, text));
        }
        let next = self.store.look([JOURNAL_TREE], |view| judge_gap(view, at)).await?;
        if let Some(next) = next {
            self.store.begin_journal_behind(Some(next)).await?;
        }
        Ok(self.store.journal.header().map_or(0, |header| header.first))
    }
}
