//! What makes durable what waits, before it is in place: a flush puts into the journal what is only in memory. The log
//! is drained where it has no room for that.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_device::{IoError, IoErrorKind};

use crate::boxed_cold::boxed_cold;
use crate::row::Row;

use super::dirty::Content;
use super::journal::Journal;
use super::log_record::{Draft, Record};
use super::record::{Blocks, Entry, MOST_ENTRIES};
use super::store::ParityStore;

/// The share of the journal that holds what is only written, at most: putting it in place takes up to three times as
/// much.
pub(super) const LOG_SHARE: u64 = 6;
/// How often the oldest record is looked at again before it counts as stuck, and how long each time at first.
const TRIES: u32 = 300;
/// After so many, again and again, all that the log holds is looked at.
const PATIENT_TRIES: u32 = 16;
pub(super) const MOMENT: std::time::Duration = std::time::Duration::from_micros(200);

impl ParityStore {
    /// Makes what was written to rows durable: in the journal, or in place with its maps. With `only`, of bands in a
    /// range.
    pub async fn make_durable(&self, rows: &[Arc<Row>], only: Option<(u32, u32)>) -> Result<(), IoError> {
        if only.is_some() {
            self.ready_by_now().await?;
        } else if let Err(error) = self.place_all_whole().await {
            tracing::debug!(space = %self.path(), %error, "whole bands go to the journal, as they cannot be destaged");
        }
        // What is written meanwhile is not waited for: under load that would have no end.
        let mut left: Vec<(Arc<Row>, u32)> = rows.iter().flat_map(|row| row.unlogged_bands(only)).collect();
        let mut result = Ok(());
        while !left.is_empty() {
            let one = self.logging.lock().await;
            // None takes its place while this is held. A flush of the space saw it open, or tried to: opening it here
            // could wait for a row whose gate waits for a record or a flush.
            let journal = match self.opened_journal() {
                Ok(journal) => journal,
                Err(error) => {
                    // Before the journal was given up, while this waited for the lock, all was destaged.
                    let is_left = |(row, band): &(Arc<Row>, u32)| row.bands().lock().is_unlogged(*band);
                    result = if left.iter().any(is_left) { Err(error) } else { result };
                    break;
                }
            };
            let (mut logging, mut later, mut waits, mut full) =
                (Logging::default(), Vec::new(), Vec::new(), Vec::new());
            let mut logged = self.reserve_log(&journal).await;
            if logged.is_ok() {
                for (row, band) in &left {
                    match logging.collect(row, *band, journal.record_share()) {
                        Collected::Done => {}
                        Collected::Placing(stamp) => waits.push((row.clone(), *band, stamp)),
                        Collected::TooMuch => full.push((row.clone(), *band)),
                        Collected::NoRoom => later.push((row.clone(), *band)),
                    }
                }
                logged = match self.log(logging).await {
                    Err(error) if error.kind != IoErrorKind::NoSpace => return Err(error),
                    logged => logged.map(drop),
                };
            }
            drop(one);
            if let Err(error) = logged {
                tracing::debug!(space = %self.path(), %error, "what is only in memory goes to its place, as the journal has no room");
                result = self.place_bands(left).await.and(result);
                break;
            }
            for (row, band, stamp) in waits {
                drop(row.shared_turn(band).await);
                if row.bands().lock().in_place.get(&band).is_none_or(|placed| *placed < stamp) {
                    later.push((row, band));
                }
            }
            if !full.is_empty() {
                // Where that fails, other bands become durable all the same.
                result = self.place_bands(full).await.and(result);
            }
            left = later;
        }
        self.commit_direct(rows, only).await.and(result)
    }

    /// Writes what was collected to the journal. Answers where the record ends, if there was anything.
    pub(super) async fn log(&self, logging: Logging) -> Result<Option<u64>, IoError> {
        let Logging { draft, extents } = logging;
        if draft.entries.is_empty() {
            return Ok(None);
        }
        let appended = self.append_or_commit(draft, TRIES).await;
        note_logged(&extents, appended.as_ref().ok());
        appended.map(|(_, end)| Some(end))
    }

    /// Sees to it that a record of what is only in memory may go to the journal, and that there is room for all that is
    /// intended when what it holds goes to its place: what the journal holds longest is destaged first.
    async fn reserve_log(&self, journal: &Arc<Journal>) -> Result<(), IoError> {
        let (bytes, most) = (2 * journal.record_share(), journal.capacity() / LOG_SHARE);
        if journal.held() + bytes <= most {
            return Ok(());
        }
        let _turn = self.placing.lock().await;
        let _one = self.intending.lock().await;
        self.drain_log(journal, most - bytes).await
    }

    /// Destages what the log holds longest, until it holds no more than `most` bytes. What that intends takes up to
    /// three times as much of the log before the first of it is done with.
    pub(super) async fn drain_log(&self, journal: &Arc<Journal>, most: u64) -> Result<(), IoError> {
        let mut tries = 0;
        while journal.held() > most {
            let oldest = journal.oldest();
            let before = oldest.as_ref().map(|record| record.at);
            let copied = boxed_cold(self.copy_deferred_forward(journal)).await;
            let bands = oldest.iter().flat_map(|record| &record.bands);
            let bands = bands.flat_map(|(chunk, band)| self.rows_with(*chunk, *band)).collect();
            drop(oldest);
            let placed = self.place_batches(bands, false).await;
            let committed = self.commit_all().await;
            // Others that work on the same bands may hold the record until the next commit.
            let moved = before.is_none() || journal.oldest().map(|record| record.at) != before;
            if !moved {
                placed.and(committed).and(copied)?;
            }
            tries = if moved { 0 } else { tries + 1 };
            self.check_stuck(journal, tries).await?;
            if tries > 0 {
                self.pool.env().clock.sleep(MOMENT * tries).await;
            }
            if tries == TRIES {
                return Err(IoError::new(
                    IoErrorKind::NoSpace,
                    format!("the journal of space {} does not empty", self.path()),
                ));
            }
        }
        Ok(())
    }

    /// Refuses to wait for room in the journal where what it holds longest is of a row that cannot be read now. Where
    /// nothing moves for some time, anything that it holds counts: it may leave too little for what is to be destaged
    /// before that.
    async fn check_stuck(&self, journal: &Journal, tries: u32) -> Result<(), IoError> {
        let held = match tries {
            0..=1 => return Ok(()),
            _ if tries.is_multiple_of(PATIENT_TRIES) => journal.records(),
            _ => Vec::from_iter(journal.oldest()),
        };
        let bands: BTreeSet<(u32, u32)> = held.iter().flat_map(|record| record.bands.iter().copied()).collect();
        for (chunk, band) in bands {
            let mut is_stuck = self.is_deferred(chunk);
            for (row, _) in self.rows_with(chunk, band) {
                is_stuck |= row.settle_group(0).await.is_err();
            }
            if is_stuck {
                let path = self.path();
                let why = format!(
                    "the journal of space {path} is full of writes to chunk {chunk}, of which too many disks are away"
                );
                return Err(IoError::new(IoErrorKind::NoSpace, why));
            }
        }
        Ok(())
    }

    /// The rows of a chunk that have such a band: the open one, and one that is to take its place.
    fn rows_with(&self, chunk: u32, band: u32) -> Vec<(Arc<Row>, u32)> {
        let moving = self.rows.provisional().iter().find(|row| row.chunk == chunk).cloned();
        let rows = self.rows.open_row(chunk).into_iter().chain(moving);
        let has_band = |row: &Arc<Row>| row.bands_if_any().is_some_and(|bands| band < bands.geometry.bands);
        rows.filter(has_band).map(|row| (row, band)).collect()
    }

    /// Appends a record; where the log is full, after a commit, which lets go of what is in place. So often that is
    /// tried.
    pub async fn append_or_commit(&self, draft: Draft, most_tries: u32) -> Result<(Arc<Record>, u64), IoError> {
        for tries in 0..most_tries {
            if let Some(appended) = self.append(&draft, false).await? {
                return Ok(appended);
            }
            if tries > 0 {
                // Others that are about to destage what they intend hold the room until the next commit.
                self.pool.env().clock.sleep(MOMENT * tries).await;
            }
            // A row that cannot be committed keeps the room that its own records take, and no other from being looked
            // for.
            if let Err(error) = self.commit_all().await
                && self.pool.refusal().is_some()
            {
                return Err(error);
            }
            let journal = self.opened_journal()?;
            self.check_stuck(&journal, tries).await?;
        }
        Err(IoError::new(
            IoErrorKind::NoSpace,
            format!("{} bytes in the journal of space {}", draft.bytes(), self.path()),
        ))
    }
}

/// What a flush is about to put into the journal.
#[derive(Default)]
pub(super) struct Logging {
    pub draft: Draft,
    /// Row, band, first block, length, stamp.
    pub extents: Vec<(Arc<Row>, u32, u32, u32, u64)>,
}

/// What becomes of what is only in memory of a band.
pub(super) enum Collected {
    /// It goes into the record, or there is none.
    Done,
    /// So it does, but for what is being destaged, up to a stamp.
    Placing(u64),
    /// It is more than fits a record.
    TooMuch,
    /// It does not fit this record.
    NoRoom,
}

impl Row {
    /// Bands of a row with something that is only in memory, of those in a range.
    fn unlogged_bands(self: &Arc<Self>, only: Option<(u32, u32)>) -> Vec<(Arc<Self>, u32)> {
        let (first, last) = only.unwrap_or((0, u32::MAX));
        let mut guard = self.bands().lock();
        let state = &mut *guard;
        let bands = state.unlogged.range(first..=last).copied();
        let (found, done): (Vec<u32>, Vec<u32>) = bands.partition(|band| state.is_unlogged(*band));
        state.unlogged.retain(|band| done.binary_search(band).is_err());
        found.into_iter().map(|band| (self.clone(), band)).collect()
    }
}

impl Logging {
    /// Collects what is only in memory of a band. Where it is being destaged, that counts as well once it is there.
    pub fn collect(&mut self, row: &Arc<Row>, band: u32, limit: u64) -> Collected {
        let mut guard = row.bands().lock();
        let state = &mut *guard;
        let Some(dirty) = state.dirty.get(&band) else { return Collected::Done };
        let placing = state.placing.get(&band).copied().unwrap_or(0);
        let (placed, open): (Vec<_>, Vec<_>) =
            dirty.extents().filter(|(_, extent)| !extent.logged).partition(|(_, extent)| extent.stamp <= placing);
        let done = if placed.is_empty() { Collected::Done } else { Collected::Placing(placing) };
        if open.is_empty() {
            return done;
        }
        let bytes: u64 = open.iter().map(|(_, extent)| extent.bytes() as u64).sum();
        if bytes > limit || open.len() > MOST_ENTRIES / 2 {
            return Collected::TooMuch;
        }
        if self.draft.bytes() + bytes > 2 * limit || self.draft.entries.len() + open.len() > MOST_ENTRIES {
            return Collected::NoRoom;
        }
        state.logging.insert(band);
        for (start, extent) in open {
            let blocks = Blocks { chunk: row.chunk, row: row.record.id, stamp: extent.stamp, start, len: extent.len };
            match &extent.content {
                Content::Logged(_) => unreachable!("what is in the journal is logged"),
                Content::Bytes(bytes) => self.draft.add(row.chunk, band, Entry::Written(blocks), [bytes.clone()]),
                Content::Nothing => self.draft.add(row.chunk, band, Entry::Emptied(blocks), []),
            }
            self.extents.push((row.clone(), band, start, extent.len, extent.stamp));
        }
        done
    }
}

/// What was collected is in the journal, durably, if it got a record. Whatever replaced some of it meanwhile holds that
/// too.
fn note_logged(extents: &[(Arc<Row>, u32, u32, u32, u64)], record: Option<&(Arc<Record>, u64)>) {
    for (row, band, start, len, stamp) in extents {
        let mut guard = row.bands().lock();
        let state = &mut *guard;
        debug_assert!(
            !state.logging.contains(band) || state.placing.get(band).is_none_or(|placing| placing < stamp),
            "band {band} of row {} was planned while a write of it was on its way into the journal",
            row.record.id
        );
        state.end_logging(*band);
        let Some((record, end)) = record else { continue };
        state.note_logged(*band, *end, *stamp);
        state.hold(record);
        let Some(dirty) = state.dirty.get_mut(band) else { continue };
        for (at, extent) in dirty.extents_mut() {
            if at >= start + len || at + extent.len <= *start {
                continue;
            }
            if extent.stamp == *stamp {
                extent.logged = true;
                extent.held = vec![(*stamp, record.clone())];
            } else if extent.stamp > *stamp {
                extent.hold(*stamp, record);
            }
        }
    }
}
