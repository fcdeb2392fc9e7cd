//! The journal switched on, resized and off, and its end of files: who closes one that was changed, and who writes over one.
//!
//! ```text
//!   on    flag in the superblocks ─▶ header, under the locks of all trees ─▶ writes in place that were under way end
//!   off   header ─▶ flag taken away; what is left of the records is cut bit by bit
//! ```
//!
//! Invariant: while the journal is on, the superblocks say so: a writer that does not know it would leave holes.

use std::sync::atomic::Ordering;

use holdfast_model::ByteSize;

use super::{FIRST_USN, Header, KEY_JOURNAL, MOST_USN, Note, Reasons, note_key, noted_file, state};
use crate::change::{Need, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::keys;
use crate::open_files::{File, Handle};
use crate::scan::{judge, readable};
use crate::store::{Store, held};
use crate::superblock;
use crate::volume::Volume;
use crate::{JOURNAL_TREE, SETTINGS_TREE, SETTINGS_TWIN, TREES};

/// Bytes that a journal may take, at least and at most, and those that are a good choice.
const LEAST_BYTES: u64 = 64 << 10;
pub(super) const MOST_BYTES: u64 = 4 << 30;
const DEFAULT_BYTES: u64 = 64 << 20;
/// Journals take so much of a volume, at most: one part of so many.
const PART_OF_VOLUME: u64 = 8;
/// A journal outgrows its size by so much of it before it is cut: one part of so many.
const SLACK_PART: u64 = 8;

/// What a journal is (`USN_JOURNAL_DATA` of `winioctl.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalState {
    /// Names it: another journal of the volume has another, greater one.
    pub id: u64,
    /// The first position that can be read.
    pub first: u64,
    /// Where the next record goes.
    pub next: u64,
    /// Bytes of records that are kept at least, once there were so many.
    pub max_bytes: u64,
    /// Bytes beyond those at which the oldest records are cut.
    pub slack_bytes: u64,
}

impl JournalState {
    /// Bytes that a journal is made with where nobody says how many.
    pub const DEFAULT_BYTES: u64 = DEFAULT_BYTES;
}

impl Store {
    /// Takes over what a root has of the journal, before the log is replayed.
    pub(crate) async fn open_journal(&self) -> Result<(), VolumeError> {
        let mut found = Vec::new();
        for tree in [SETTINGS_TREE, SETTINGS_TWIN] {
            let value = readable(self.get(tree, KEY_JOURNAL).await)?.flatten();
            found.extend(value.and_then(|value| Header::decode(&value).ok()));
        }
        if let Some(header) = found.into_iter().max_by_key(|header| (header.id, header.next)) {
            self.journal.load(header);
        }
        Ok(())
    }

    /// Has the flag in the superblocks say what the log left of the journal. They are written by the opening.
    pub(crate) fn settle_feature(&self) {
        match self.journal.is_on() {
            true => self.features.fetch_or(superblock::JOURNAL, Ordering::AcqRel),
            false => self.features.fetch_and(!superblock::JOURNAL, Ordering::AcqRel),
        };
    }
}

pub(super) fn put_header(view: &mut View<'_>, header: &Header) -> Result<(), Stop> {
    for tree in [SETTINGS_TREE, SETTINGS_TWIN] {
        view.put(tree, KEY_JOURNAL.to_vec(), header.encode())?;
    }
    Ok(())
}

/// Whether a file has no name.
fn is_unnamed(view: &View<'_>, number: u64) -> Result<bool, Stop> {
    Ok(judge::record(view, number)?.is_none_or(|record| record.links == 0))
}

impl Volume {
    /// The journal, if there is one.
    pub fn journal(&self) -> Option<JournalState> {
        let header = self.store.journal.header().filter(|header| header.is_on)?;
        let Header { id, first, next, max_bytes, slack_bytes, .. } = header;
        Some(JournalState { id, first, next, max_bytes, slack_bytes })
    }

    /// Switches the journal on, or gives the one that there is another size. All changes that begin after the answer are
    /// recorded. The room that it may come to take is set aside (`FSCTL_CREATE_USN_JOURNAL`).
    ///
    /// # Errors
    /// The volume takes no changes, as a snapshot does not; less than 64 KiB, more than 4 GiB or an eighth of the volume; no
    /// room; a node is damaged, or the device failed.
    pub async fn set_journal(&self, max_bytes: u64) -> Result<JournalState, VolumeError> {
        self.store.check_failed()?;
        let most = MOST_BYTES.min(self.size_bytes() / PART_OF_VOLUME);
        if !(LEAST_BYTES..=most).contains(&max_bytes) {
            let (least, most) = (ByteSize(LEAST_BYTES), ByteSize(most));
            let text = format!("a change journal of volume {} takes {least} to {most}", self.id());
            return Err(VolumeError::new(ErrorKind::Invalid, text));
        }
        let _one = self.journaling.lock().await;
        self.store.use_feature(superblock::JOURNAL).await?;
        let all: Vec<u8> = (0..TREES).collect();
        let now = self.now();
        let ticks = (now.seconds.max(0) as u64).saturating_mul(10_000_000).saturating_add(u64::from(now.nanos) / 100);
        let change = self.store.change(&all, Need::More, |view| {
            let before = self.store.journal.header();
            let (last, next) = before.map_or((0, FIRST_USN), |before| (before.id, before.next));
            let slack_bytes = max_bytes / SLACK_PART;
            let header = match before {
                Some(before) if before.is_on => Header { max_bytes, slack_bytes, ..before },
                _ => {
                    // Whoever followed an earlier one to its end stands before this one, and is told of the gap.
                    let next = if before.is_some() { (next + 8).min(MOST_USN) } else { next };
                    Header { is_on: true, id: ticks.max(last + 1), max_bytes, slack_bytes, first: next, next }
                }
            };
            self.store.check_nodes(state::nodes_for(&header), Need::More)?;
            put_header(view, &header)
        });
        let made = self.store.lasting(change).await;
        if made.is_err() && !self.store.journal.is_on() {
            // Where that fails, too, the next opening does it.
            _ = self.store.end_feature(superblock::JOURNAL).await;
        }
        made?;
        for file in self.open.all() {
            // What was being written in place when the journal came is at its end.
            drop(file.data.write().await);
        }
        let gone = || VolumeError::new(ErrorKind::Busy, "the change journal was switched off meanwhile");
        self.journal().ok_or_else(gone)
    }

    /// Switches the journal off, and gives up what it has; answers whether there was one. Its room comes back bit by bit
    /// (`FSCTL_DELETE_USN_JOURNAL`).
    ///
    /// # Errors
    /// The volume takes no changes, a node is damaged, or the device failed.
    pub async fn remove_journal(&self) -> Result<bool, VolumeError> {
        let _one = self.journaling.lock().await;
        let trees = [SETTINGS_TREE, SETTINGS_TWIN, JOURNAL_TREE];
        let change = self.store.change(trees, Need::Less, |view| {
            let Some(header) = self.store.journal.header().filter(|header| header.is_on) else { return Ok(false) };
            put_header(view, &Header { is_on: false, ..header })?;
            Ok(true)
        });
        let was_on = self.store.lasting(change).await?;
        self.store.end_feature(superblock::JOURNAL).await?;
        Ok(was_on)
    }

    /// Says who changes a file through its handles from now on, until nobody has it open (`FSCTL_MARK_HANDLE`).
    pub fn set_journal_source(&self, handle: &Handle, source: u32) {
        handle.file.source.store(source, Ordering::Relaxed);
    }

    /// Has the journal say that data of a file is written over, before it is: durably, as the data may be at any time.
    pub(crate) async fn note_overwrite(&self, file: &File) -> Result<(), VolumeError> {
        let journal = &self.store.journal;
        if !journal.is_on() || held(&file.state).journaled == journal.stamp() {
            return Ok(());
        }
        Box::pin(async {
            let stamp = journal.stamp();
            let number = file.id.number;
            let change = self.store.change([keys::shard(number)], Need::Less, |view| {
                view.tell(number, Reasons::DATA_OVERWRITE);
                is_unnamed(view, number)
            });
            if !self.store.lasting(change).await? {
                held(&file.state).journaled = stamp;
                return Ok(());
            }
            // Nothing is told of a file without a name; one that was given a name meanwhile is told of the next time.
            let shard = keys::shard(number);
            let note = |view: &View<'_>| {
                if is_unnamed(view, number)? {
                    held(&file.state).journaled = stamp;
                }
                Ok(())
            };
            self.store.look([shard], note).await
        })
        .await
    }

    /// Nobody has a file open any more: the journal says so, if it was changed.
    pub(crate) async fn note_closed(&self, number: u64) -> Result<(), VolumeError> {
        if !self.store.journal.is_on() {
            return Ok(());
        }
        Box::pin(async {
            let key = note_key(number);
            let is_noted = self.store.look([JOURNAL_TREE], |view| Ok(view.get(JOURNAL_TREE, &key)?.is_some()));
            if readable(is_noted.await)? != Some(true) {
                return Ok(());
            }
            let change = self.store.change([keys::shard(number), JOURNAL_TREE], Need::Less, |view| {
                // Whoever opened it again does it.
                if !self.store.journal.is_open(number) {
                    view.tell(number, Reasons::CLOSE);
                }
                Ok(())
            });
            match change.await {
                Err(error) if self.is_left_noted(number, &error) => Ok(()),
                closed => closed.map(drop),
            }
        })
        .await
    }

    /// Has the journal say of files that were open at the end of the last opening that they are closed.
    pub(crate) async fn close_noted(&self) -> Result<(), VolumeError> {
        let Some(header) = self.store.journal.header().filter(|header| header.is_on) else { return Ok(()) };
        for (key, value) in self.store.range(JOURNAL_TREE, &note_key(0), usize::MAX).await? {
            let Some(number) = noted_file(&key) else { continue };
            let is_own = Note::decode(&value).is_some_and(|note| note.id == header.id);
            let change = self.store.change([keys::shard(number), JOURNAL_TREE], Need::Less, |view| {
                let record = judge::record(view, number)?;
                if is_own && record.is_some_and(|record| record.links > 0) {
                    view.tell(number, Reasons::CLOSE);
                } else {
                    view.remove(JOURNAL_TREE, key.clone())?;
                }
                Ok(())
            });
            match change.await {
                Err(error) if self.is_left_noted(number, &error) => {}
                closed => _ = closed?,
            }
        }
        Ok(())
    }

    /// Whether the note of a file stays: the next opening goes by it, and the maintenance before, if there was no room.
    fn is_left_noted(&self, number: u64, error: &VolumeError) -> bool {
        if error.kind == ErrorKind::NoSpace {
            held(&self.unclosed).insert(number);
        }
        matches!(error.kind, ErrorKind::NoSpace | ErrorKind::Corrupt)
    }

    /// Has the journal close what there was no room to close, until there is none again.
    pub(crate) async fn close_unclosed(&self) -> Result<(), VolumeError> {
        loop {
            let Some(number) = held(&self.unclosed).pop_first() else { return Ok(()) };
            // One that is open again is closed with its last handle.
            self.note_closed(number).await?;
            if held(&self.unclosed).contains(&number) {
                return Ok(());
            }
        }
    }
}
