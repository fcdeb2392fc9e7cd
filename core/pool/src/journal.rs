//! The journal of a parity space: mirror rows under chunk numbers that no data has, made with the space and replaced as
//! a whole.
//!
//! Invariant: a complete parity space has a journal, and while one takes the place of another every import finds
//! exactly one of the two.

use std::sync::Arc;

use holdfast_model::{ByteSize, Layout, Usage};

use crate::change::Change;
use crate::committer::Guard;
use crate::config::SpaceRows;
use crate::event::Severity;
use crate::geometry::{JOURNAL_CHUNK, JournalSpan};
use crate::journal_allot::{bytes_of, check_journal, renewed_journal, suits};
use crate::pool::Pool;
use crate::record::RowRecord;
use crate::room::check_room;
use crate::rows::FreedRow;
use crate::{PoolError, PoolErrorKind};

/// Copies of the journal of single parity.
const LEAST_COPIES: u8 = 2;

/// What a journal takes on the disks, all copies counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPlan {
    /// Now.
    pub bytes_now: u64,
    /// Then.
    pub bytes_then: u64,
    /// What is taken before the journal that is there now, if any, is given back.
    pub new_bytes: u64,
}

impl Pool {
    /// The rows of a space's journal, in the order of their numbers. They are all of one shape and size.
    pub fn journal_rows(&self, space: u32) -> Vec<(u32, RowRecord)> {
        let state = self.state();
        let rows = state.config.spaces.get(&space).map(|space| space.journal_rows());
        rows.into_iter().flatten().map(|(chunk, row)| (*chunk, row.clone())).collect()
    }

    /// Whether a space's journal lies on disks that are there for journals alone.
    pub fn has_journal_disks(&self, space: u32) -> bool {
        let state = self.state();
        let config = &state.config;
        let rows = config.spaces.get(&space).into_iter().flat_map(|space| space.journal_rows());
        let mut disks = rows.flat_map(|(_, row)| &row.slabs).filter_map(|slab| config.disks.get(&slab.disk()));
        disks.any(|disk| disk.usage == Usage::Journal)
    }

    /// All rows of the journal that the row of a chunk belongs to; `None` where it belongs to none.
    pub fn journal_span(&self, space: u32, chunk: u32) -> Option<JournalSpan> {
        if chunk < JOURNAL_CHUNK {
            return None;
        }
        let state = self.state();
        let chunks = || {
            state.config.spaces.get(&space).into_iter().flat_map(|space| space.journal_rows()).map(|(chunk, _)| *chunk)
        };
        let span = JournalSpan { first: chunks().next()?, rows: chunks().count() as u32 };
        span.contains(chunk).then_some(span)
    }

    /// Bytes that a space's journal holds, each copy counted once; 0 where it has none.
    pub fn journal_bytes(&self, space: u32) -> u64 {
        let state = self.state();
        state.config.spaces.get(&space).map_or(0, |space| bytes_of(space.journal_rows().map(|(_, row)| row)))
    }

    /// Whether a space has the journal that it would be given if this size were asked for: that, in whole stripes, or
    /// any where none is given; with the copies that its shape asks for, and on no disk that is lost or retired.
    pub fn has_journal_of(&self, space: u32, bytes: Option<u64>) -> bool {
        let rows = self.journal_rows(space);
        let state = self.state();
        let copies = state.config.spaces.get(&space).map(SpaceRows::journal_copies);
        copies.is_some_and(|copies| suits(&state.config, copies, &rows, bytes))
    }

    /// What would become of a space's journal if all its rows had a layout, with a journal of `bytes` where that is
    /// given. Nothing is changed.
    ///
    /// # Errors
    /// There is no such space, or no room for its journal.
    pub fn plan_journal(&self, space: u32, layout: Layout, bytes: Option<u64>) -> Result<JournalPlan, PoolError> {
        let record = self.known_space(space)?;
        let rows = self.journal_rows(space);
        let bytes_now = rows.iter().map(|(_, row)| row.raw_bytes()).sum();
        if layout.parity() == 0 {
            return Ok(JournalPlan { bytes_now, bytes_then: 0, new_bytes: 0 });
        }
        let copies = layout.parity() + 1;
        let mut state = self.state();
        if !rows.is_empty() && suits(&state.config, copies, &rows, bytes) {
            return Ok(JournalPlan { bytes_now, bytes_then: bytes_now, new_bytes: 0 });
        }
        let new = renewed_journal(&mut state.config, &record, copies, rows.iter().map(|(_, row)| row), bytes)?;
        new.iter().for_each(|row| state.config.release(row));
        let new_bytes = new.iter().map(RowRecord::raw_bytes).sum();
        Ok(JournalPlan { bytes_now, bytes_then: new_bytes, new_bytes })
    }

    /// Gives a space another journal, at once and as a whole, of the size that it has where none is given, or a smaller
    /// one where that finds no room; `None` if it has that already, or keeps no parity any more. The old one must be
    /// empty, its rows are given back: their units stay taken until the answer is dropped.
    ///
    /// # Errors
    /// No parity space, a size that cannot be, too little room, or no quorum; the old journal stays then.
    pub async fn replace_journal(
        self: &Arc<Self>,
        space: u32,
        bytes: Option<u64>,
    ) -> Result<Option<Vec<FreedRow>>, PoolError> {
        let _admin = self.admin.lock().await;
        let gone = || PoolError::new(PoolErrorKind::NotFound, format!("space {space} is gone"));
        let record = self.space(space).ok_or_else(gone)?;
        let path = format!("{}/{}", self.name(), record.name);
        bytes.map_or(Ok(()), |bytes| check_journal(&path, &record.shape, bytes))?;
        self.check_open()?;
        let (old, new) = {
            let mut state = self.state();
            let known = state.config.spaces.get(&space).ok_or_else(gone)?;
            let old: Vec<(u32, RowRecord)> = known.journal_rows().map(|(chunk, row)| (*chunk, row.clone())).collect();
            let copies = known.journal_copies();
            // Where nothing keeps parity any more, the journal is about to go.
            if copies < LEAST_COPIES || suits(&state.config, copies, &old, bytes) {
                return Ok(None);
            }
            let new = renewed_journal(&mut state.config, &record, copies, old.iter().map(|(_, row)| row), bytes)?;
            if let Err(error) = check_room(&state, 0, &[(new.len() as u64, new[0].shape)]) {
                new.iter().for_each(|row| state.config.release(row));
                return Err(error);
            }
            (old, new)
        };
        // Both stand in one change, so they have different numbers.
        let first = match old.first() {
            Some((first, _)) if u64::from(first - JOURNAL_CHUNK) < new.len() as u64 => old[old.len() - 1].0 + 1,
            _ => JOURNAL_CHUNK,
        };
        let given_up = old.iter().map(|(chunk, _)| Change::RowGone { space, chunk: *chunk });
        let rows = (first..).zip(&new).map(|(chunk, row)| Change::Row { space, chunk, row: row.clone() });
        let made = self.commit(given_up.chain(rows).collect(), Guard::None).await;
        if made != Ok(true) {
            new.iter().for_each(|row| self.state().config.release(row));
            made?;
            return Err(gone());
        }
        let [before, now] = [bytes_of(old.iter().map(|(_, row)| row)), bytes_of(new.iter())].map(ByteSize);
        if bytes.is_none() && now < before {
            let cause = format!(
                "its journal has {now} and no longer {before}: the disks that can hold it had no room for more"
            );
            let next = "add disks or free room, then choose a size with 'holdfast space set --journal'";
            self.emit(Severity::Warning, self.space_object(space), cause, next);
        }
        Ok(Some(old.into_iter().map(|(_, row)| FreedRow::new(self.clone(), row)).collect()))
    }
}
