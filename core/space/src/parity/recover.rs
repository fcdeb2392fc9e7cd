//! What was staged when a crash came: read back from the slabs, and carried out with the rest of the journal.
//!
//! Blocks that a slab does not have as the journal says are computed from the other pieces, once the whole journal is
//! carried out: before that the pieces of a stripe need not belong together.
//!
//! Invariant: the places that records tell of are used anew only after all that is staged there is in place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::counted;
use holdfast_model::wire::crc32c;
use holdfast_pool::Severity;

use crate::checksums::sums_of;
use crate::lock_order::join_all;
use crate::row::Row;

use super::bands::BandState;
use super::geometry::{Rows, bytes_of};
use super::record::{Intent, StagedPiece};

/// What is left to do for the rows of which staged blocks were carried out.
#[derive(Default)]
pub struct Recovery {
    rows: BTreeMap<u64, Recovered>,
}

/// What is found of a piece.
pub struct Found {
    /// Its blocks.
    pub data: IoSlice,
    /// Those that are not as they should be.
    pub lost: Vec<u32>,
}

struct Recovered {
    row: Arc<Row>,
    /// Band, stamp and place of what was staged.
    loans: Vec<(u32, u64, u16)>,
    /// Stripe, block within its units, place and piece of blocks that no slab has as they should be.
    lost: BTreeSet<(u32, u32, u16, usize)>,
}

impl Recovery {
    fn of(&mut self, row: &Arc<Row>) -> &mut Recovered {
        let fresh = || Recovered { row: row.clone(), loans: Vec::new(), lost: BTreeSet::new() };
        self.rows.entry(row.record.id).or_insert_with(fresh)
    }

    /// Keeps the places in which an intent is staged as they are; false where it cannot be staged so.
    pub fn keep(&mut self, row: &Arc<Row>, intent: &Intent, pieces: &[StagedPiece]) -> bool {
        let geometry = row.bands().geometry;
        let places: Option<BTreeSet<u16>> =
            pieces.iter().map(|piece| geometry.place_of_staged(piece, intent.len)).collect();
        let Some(places) = places else { return false };
        let mut state = row.bands().lock();
        for place in places {
            state.keep_staged(place);
            self.of(row).loans.push((intent.band, intent.stamp, place));
        }
        true
    }

    /// Notes what an intent wrote of a piece, and which of its blocks it could not.
    pub fn note(&mut self, row: &Arc<Row>, intent: &Intent, piece: usize, lost: &[u32]) {
        let known = self.rows.get(&row.record.id).is_some_and(|recovered| !recovered.lost.is_empty());
        if !known && lost.is_empty() {
            return;
        }
        let all = &mut self.of(row).lost;
        for at in 0..intent.len {
            let block = (intent.stripe, intent.within + at, intent.place, piece);
            if lost.contains(&at) {
                all.insert(block)
            } else {
                all.remove(&block)
            };
        }
    }

    /// Computes what is lost, and lets the places be used anew at the next commit.
    ///
    /// # Errors
    /// A row that cannot be read or written. What is lost beyond parity is reported by an event, and is no error.
    pub async fn finish(self) -> Result<(), IoError> {
        for Recovered { row, loans, lost } in self.rows.into_values() {
            row.compute_lost(&lost).await?;
            let mut state = row.bands().lock();
            for (band, stamp, place) in loans {
                state.void_until(band, stamp);
                state.give_up_staged(place);
            }
        }
        Ok(())
    }
}

impl BandState {
    fn keep_staged(&mut self, place: u16) {
        if self.take_free(place) {
            self.staging.keep(place);
        }
    }

    fn give_up_staged(&mut self, place: u16) {
        if self.staging.forget(place) {
            self.uncommitted.left.push(place);
        }
    }
}

impl Row {
    /// Reads the staged blocks of an intent, piece by piece; `None` where the slab is not in step. What is not there as
    /// it should be may be in its place already.
    pub async fn read_staged(&self, intent: &Intent, pieces: &[StagedPiece]) -> Vec<Option<Found>> {
        let geometry = self.bands().geometry;
        let places = geometry.pieces_of(intent).zip(pieces);
        join_all(places.map(|(piece, staged)| self.read_staged_piece(intent, piece, staged))).await
    }

    async fn read_staged_piece(&self, intent: &Intent, piece: usize, staged: &StagedPiece) -> Option<Found> {
        let geometry = self.bands().geometry;
        let slab = self.slabs.get(geometry.column(intent.stripe, piece));
        if !slab.usable() {
            return None;
        }
        let from = bytes_of(staged.at) as u64;
        let mut data = match slab.disk.read(slab.at(from), IoBuf::new(bytes_of(intent.len))).await {
            Ok(data) => data,
            Err(error) => {
                self.read_failed(&slab, &error).await;
                if !slab.usable() {
                    return None;
                }
                let mut data = IoBuf::zeroed(bytes_of(intent.len));
                for at in 0..intent.len {
                    if let Ok(block) =
                        slab.disk.read(slab.at(from + bytes_of(at) as u64), IoBuf::new(bytes_of(1))).await
                    {
                        data[bytes_of(at)..bytes_of(at + 1)].copy_from_slice(&block);
                    }
                }
                data
            }
        };
        let in_place = geometry.offset(intent.stripe, intent.within, intent.place);
        let wrong: Vec<u32> = (0..)
            .zip(sums_of(&data))
            .zip(&staged.checksums)
            .filter(|((_, found), sum)| found != *sum)
            .map(|((at, _), _)| at)
            .collect();
        let mut lost = Vec::new();
        for at in wrong {
            slab.disk.counters.checksum_errors.fetch_add(1, Ordering::Relaxed);
            let read = slab.disk.read(slab.at(in_place + bytes_of(at) as u64), IoBuf::new(bytes_of(1))).await;
            match read.ok().filter(|block| crc32c(block) == staged.checksums[at as usize]) {
                Some(block) => data[bytes_of(at)..bytes_of(at + 1)].copy_from_slice(&block),
                None => lost.push(at),
            }
        }
        Some(Found { data: data.freeze(), lost })
    }

    /// Computes blocks that no slab has as they should be, and writes them to their place.
    async fn compute_lost(&self, lost: &BTreeSet<(u32, u32, u16, usize)>) -> Result<(), IoError> {
        let geometry = self.bands().geometry;
        let mut codewords: BTreeMap<(u32, u32, u16), u64> = BTreeMap::new();
        for (stripe, within, place, piece) in lost {
            *codewords.entry((*stripe, *within, *place)).or_default() |= 1 << piece;
        }
        let mut given_up = 0;
        for ((stripe, within, place), lost) in codewords {
            let rows = Rows { stripe, place, within, len: 1 };
            let mut pieces = self.read_pieces_without(rows, lost).await?;
            if let Some(error) = pieces.error().filter(|error| error.kind == IoErrorKind::Gone) {
                // A disk went out just now: without it there may be enough to tell.
                return Err(error.clone());
            }
            if self.compute(&mut pieces, lost).is_err() {
                self.give_up_lost(&rows, lost).await?;
                given_up += 1;
                continue;
            }
            let offset = geometry.offset(stripe, within, place);
            let computed = (0..geometry.columns).filter(|piece| lost >> piece & 1 == 1);
            let writes: Vec<_> =
                computed.map(|piece| (geometry.column(stripe, piece), offset, pieces.take(piece).freeze())).collect();
            self.write_pieces(&writes, Durability::Cached).await?;
        }
        if given_up > 0 {
            let part = self.part();
            let places = counted(given_up, "place", "places");
            let cause = format!(
                "in {places} a write that was interrupted by a crash is lost, together with the data before it: {part}"
            );
            let next = "restore that data from a backup, then scrub the space";
            self.pool.emit(Severity::Error, self.object(), cause, next);
        }
        Ok(())
    }

    /// Gives blocks that are lost checksums that they do not have, so that they are not served. Without checksums they
    /// stay as the crash left them.
    async fn give_up_lost(&self, rows: &Rows, lost: u64) -> Result<(), IoError> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        let geometry = self.bands().geometry;
        let zeros = IoBuf::zeroed(bytes_of(1)).freeze();
        for column in (0..geometry.columns)
            .filter(|piece| lost >> piece & 1 == 1)
            .map(|piece| geometry.column(rows.stripe, piece))
        {
            let offset = geometry.offset(rows.stripe, rows.within, rows.place);
            if !self.write_durably(column, offset, zeros.clone()).await? {
                self.confirm_missed(&[column]).await?;
            }
            checksums.note(column, geometry.first_block(rows), &[!crc32c(&zeros)]);
        }
        Ok(())
    }
}
