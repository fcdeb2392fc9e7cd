//! Reads of parity rows: what waits in memory first, then what is in place, then what can be computed.

use std::sync::Arc;

use holdfast_device::{IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;

use crate::boxed_cold::boxed_cold;
use crate::checksums::Check;
use crate::lock_order::join_all;
use crate::read::gather;
use crate::row::Row;
use crate::stripe::ChunkPart;

use super::band_map::NOWHERE;
use super::bands::turns::PlaceInUse;
use super::dirty::{Content, Extent};
use super::geometry::{Rows, Run, bytes_of, clear};
use super::store::ParityStore;

/// What waits in memory, by first block.
type Waiting = Vec<(u32, Extent)>;

/// Where the blocks of a run come from.
enum Source {
    Zeros,
    Place { place: u16, holes: Vec<(u32, u32)>, in_use: PlaceInUse },
}

impl ParityStore {
    /// Fills `buf` from a part of a chunk that has a parity row.
    pub async fn read_bands(&self, row: &Arc<Row>, part: &ChunkPart, mut buf: IoBuf) -> Result<IoBuf, IoError> {
        let start = (part.offset / BLOCK_BYTES) as u32;
        let end = start + (buf.len() as u64 / BLOCK_BYTES) as u32;
        let len = buf.len();
        let (mut waiting, mut sources) = row.sources(start, end);
        let mut whole = if sources.len() == 1 {
            let (run, source) = sources.remove(0);
            row.read_run(self, run, source, buf).await?
        } else {
            let pieces: Vec<(Run, Source, IoBuf)> =
                sources.into_iter().map(|(run, source)| (run, source, buf.split_to(bytes_of(run.len)))).collect();
            let reads = pieces.into_iter().map(|(run, source, piece)| row.read_run(self, run, source, piece));
            let pieces = join_all(reads).await.into_iter().collect::<Result<Vec<IoBuf>, IoError>>()?;
            gather(pieces, len)
        };
        if !waiting.is_empty() {
            boxed_cold(self.fetch(&mut waiting)).await?;
        }
        for (at, extent) in waiting {
            let target = &mut whole[bytes_of(at - start)..bytes_of(at - start + extent.len)];
            match &extent.content {
                Content::Bytes(bytes) => target.copy_from_slice(bytes),
                Content::Logged(_) | Content::Nothing => target.fill(0),
            }
        }
        Ok(whole)
    }
}

impl Row {
    /// What waits in memory for blocks, and where each run of them is in place.
    fn sources(self: &Arc<Self>, start: u32, end: u32) -> (Waiting, Vec<(Run, Source)>) {
        let geometry = self.bands().geometry;
        let mut state = self.bands().lock();
        let mut waiting = Vec::new();
        for (_, dirty) in state.dirty.range(geometry.band_of(start)..=geometry.band_of(end - 1)) {
            waiting.extend(dirty.parts(start, end));
        }
        let covered = |from: u32, to: u32| {
            let within = |(at, extent): &(u32, Extent)| (to.min(at + extent.len)).saturating_sub(from.max(*at));
            waiting.iter().map(within).sum::<u32>() == to - from
        };
        let mut sources = Vec::new();
        for run in geometry.runs(start, end) {
            let first = start + run.at;
            let place = state.places[geometry.band_of(first) as usize];
            let holes = state.holes(first, run.len);
            let empty = place == NOWHERE || holes.first() == Some(&(0, run.len));
            let source = if empty || (!waiting.is_empty() && covered(first, first + run.len)) {
                Source::Zeros
            } else {
                Source::Place { place, holes, in_use: state.use_place(self, place) }
            };
            sources.push((run, source));
        }
        (waiting, sources)
    }

    /// Runs of blocks that hold data and of such that do not, in order.
    pub fn held_runs(&self, start: u32, end: u32) -> Vec<(u32, u32, bool)> {
        let geometry = self.bands().geometry;
        let state = self.bands().lock();
        let mut waiting = Vec::new();
        for (_, dirty) in state.dirty.range(geometry.band_of(start)..=geometry.band_of(end - 1)) {
            waiting.extend(dirty.parts(start, end).map(|(at, extent)| (at, at + extent.len, extent.holds())));
        }
        let mut found = Vec::new();
        let mut at = start;
        for (from, to, holds) in waiting.into_iter().chain([(end, end, false)]) {
            while at < from {
                let inside = state.written.contains(at);
                let next = state.written.next(at, from, !inside).unwrap_or(from);
                found.push((at, next, inside));
                at = next;
            }
            if from < to {
                found.push((from, to, holds));
            }
            at = to;
        }
        found
    }

    async fn read_run(
        self: &Arc<Self>,
        store: &ParityStore,
        run: Run,
        source: Source,
        mut buf: IoBuf,
    ) -> Result<IoBuf, IoError> {
        let Source::Place { place, holes, in_use } = source else {
            buf.fill(0);
            return Ok(buf);
        };
        let geometry = self.bands().geometry;
        let index = geometry.column(run.stripe, run.piece);
        let slab = self.slabs.get(index);
        if slab.usable() {
            let under_way = slab.disk.enter();
            let result = slab.disk.read(slab.at(geometry.offset(run.stripe, run.within, place)), buf).await;
            drop(under_way);
            match result {
                Ok(mut buf) => {
                    let first =
                        geometry.first_block(&Rows { stripe: run.stripe, place, within: run.within, len: run.len });
                    if let Ok(Check::Right) = self.check_sums(index, first, &buf, &holes).await {
                        clear(&mut buf, &holes);
                        return Ok(buf);
                    }
                }
                Err(error) => boxed_cold(self.read_failed(&slab, &error)).await,
            }
        }
        // Who changes the band may wait for a place that nobody reads.
        drop(in_use);
        boxed_cold(self.read_lost(store, run)).await
    }

    /// What a run holds now that cannot be read where it is.
    async fn read_lost(self: &Arc<Self>, store: &ParityStore, run: Run) -> Result<IoBuf, IoError> {
        let geometry = self.bands().geometry;
        let first = geometry.block(run.stripe, run.piece, run.within);
        let band = geometry.band_of(first);
        let mut _turn = self.shared_turn(band).await;
        while self.bands().lock().torn.contains_key(&band) {
            drop(_turn);
            let alone = self.band_turn(band).await;
            store.finish_torn(self, band).await?;
            drop(alone);
            _turn = self.shared_turn(band).await;
        }
        let place = self.bands().lock().places[band as usize];
        if place == NOWHERE {
            return Ok(IoBuf::zeroed(bytes_of(run.len)));
        }
        let rows = Rows { stripe: run.stripe, place, within: run.within, len: run.len };
        match self.load_pieces(rows, 1 << run.piece).await {
            Ok(mut pieces) => Ok(pieces.take(run.piece)),
            Err(error) => {
                if error.kind == IoErrorKind::Media {
                    self.tell_unproven(run.stripe);
                }
                Err(error)
            }
        }
    }
}
