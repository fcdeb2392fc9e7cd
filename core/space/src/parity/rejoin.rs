//! A slab of a parity row that was away, brought in step: what its bands missed is computed from the other slabs.
//!
//! While it joins it takes every write; the bands that it missed are computed one by one while their turn is held.
//!
//! Invariant: when it comes in step, no record counts that was in place before its bands were computed. While it was
//! away records left its parity out, and those before them have it as it was: carried out once more, they would undo
//! what was computed.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_device::{IoBuf, IoError, IoErrorKind};
use holdfast_model::wire::crc32c;

use crate::pace::{Ended, Pace};
use crate::row::Row;

use super::band_map::NOWHERE;
use super::geometry::{Rows, bytes_of};
use super::store::ParityStore;

impl ParityStore {
    /// Brings a joining slab in step. Answers whether it is; false where its disk went out meanwhile.
    pub async fn join_bands(&self, row: &Arc<Row>, index: usize, outages: u32, pace: &dyn Pace) -> Result<bool, Ended> {
        let slab = row.slabs.get(index);
        row.settle_group(index).await?;
        if !row.bands().lock().returned.is_empty() {
            // What others lost must be known before anything is computed from them.
            self.commit_row(row).await?;
        }
        row.write_header(index).await?;
        // A commit under way has taken what it works on: it is over before anything is looked at.
        let bands: BTreeSet<u32> = {
            let _one = self.committing.lock().await;
            let state = row.bands().lock();
            let changed = [&state.missed, &state.uncommitted.changed];
            let runs = changed.into_iter().flat_map(|set| set.runs(0, set.limit())).flat_map(|(start, end)| start..end);
            runs.chain(state.busy_bands()).chain(state.torn.keys().copied()).collect()
        };
        for band in bands {
            if slab.disk.outages() != outages {
                return Ok(false);
            }
            pace.step(row.shape().band_bytes()).await?;
            let turn = row.band_turn(band).await;
            self.finish_torn(row, band).await?;
            row.join_band(index, band).await?;
            row.bands().lock().void_placed(band);
            drop(turn);
            pace.done(row.shape().band_bytes());
        }
        if let Err(error) = slab.disk.flush().await {
            row.write_failed(index, &slab, &error).await?;
            return Ok(false);
        }
        // With the voids: from here on the slab is what was computed.
        self.commit_whole(row).await?;
        if slab.disk.outages() != outages {
            return Ok(false);
        }
        let marked = self.pool.mark_in_step(self.record.id, row.chunk, index, &slab.disk, outages).await;
        Ok(marked.map_err(IoError::from)?)
    }
}

impl Row {
    /// Computes what a slab is to hold of a band and writes it. The turn of the band must be held.
    async fn join_band(self: &Arc<Self>, index: usize, band: u32) -> Result<(), IoError> {
        let geometry = self.bands().geometry;
        for (rows, piece) in self.pieces_of(index, band) {
            let bytes = match self.load_pieces(rows, 1 << piece).await {
                Ok(mut pieces) => pieces.take(piece).freeze(),
                Err(error) if error.kind == IoErrorKind::Media && self.checksums.is_some() => {
                    self.join_blocks(index, rows, piece).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let offset = geometry.offset(rows.stripe, rows.within, rows.place);
            if !self.write_durably(index, offset, bytes.clone()).await? {
                return Ok(());
            }
            if let Some(checksums) = &self.checksums {
                checksums.note_data(index, geometry.first_block(&rows), &bytes);
            }
        }
        Ok(())
    }

    /// As [`Row::join_band`], block by block. One that cannot be computed gets a checksum that it does not have, so
    /// that it is not served.
    async fn join_blocks(&self, index: usize, rows: Rows, piece: usize) -> Result<(), IoError> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        let geometry = self.bands().geometry;
        for at in 0..rows.len {
            let one = Rows { within: rows.within + at, len: 1, ..rows };
            let (bytes, lost) = match self.load_pieces(one, 1 << piece).await {
                Ok(mut pieces) => (pieces.take(piece).freeze(), false),
                Err(error) if error.kind == IoErrorKind::Media => (IoBuf::zeroed(bytes_of(1)).freeze(), true),
                Err(error) => return Err(error),
            };
            let offset = geometry.offset(one.stripe, one.within, one.place);
            if !self.write_durably(index, offset, bytes.clone()).await? {
                return Ok(());
            }
            if lost {
                self.tell_unproven(one.stripe);
            }
            let sum = crc32c(&bytes);
            checksums.note(index, geometry.first_block(&one), &[if lost { !sum } else { sum }]);
        }
        Ok(())
    }

    /// What counts of a band on a slab: blocks of each stripe, and the piece that they are of. The turn of the band
    /// must be held.
    pub fn pieces_of(&self, index: usize, band: u32) -> Vec<(Rows, usize)> {
        let geometry = self.bands().geometry;
        let place = self.bands().lock().places[band as usize];
        if place == NOWHERE {
            return Vec::new();
        }
        let stripes = band * geometry.stripes()..(band + 1) * geometry.stripes();
        let pieces = stripes.flat_map(|stripe| {
            let piece = (0..geometry.columns)
                .find(|piece| geometry.column(stripe, *piece) == index)
                .expect("each column has a piece");
            let rows = move |(start, end)| (Rows { stripe, place, within: start, len: end - start }, piece);
            self.held_blocks(stripe, piece).into_iter().map(rows)
        });
        pieces.collect()
    }

    /// The blocks of a piece that count: those that hold data, or for parity those for which any data unit does.
    pub fn held_blocks(&self, stripe: u32, piece: usize) -> Vec<(u32, u32)> {
        let geometry = self.bands().geometry;
        let state = self.bands().lock();
        let pieces = if piece < geometry.data { piece..piece + 1 } else { 0..geometry.data };
        let mut held = crate::block_set::BlockSet::new(geometry.unit);
        for piece in pieces {
            let first = geometry.block(stripe, piece, 0);
            for (start, end) in state.written.runs(first, first + geometry.unit) {
                held.insert(start - first, end - first);
            }
        }
        held.runs(0, geometry.unit).collect()
    }
}
