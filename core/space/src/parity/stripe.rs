//! What a stripe holds in some of its blocks: read, and computed where it cannot be read.
//!
//! Blocks that were never written count as zeros whatever is on the disk, so that data that was there before, or went
//! when it was discarded, is neither served nor mixed into parity.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_device::{IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_parity::{Column, Kernel, Piece, Stripe};

use holdfast_pool::Severity;

use crate::block_set::BlockSet;
use crate::checksums::Check;
use crate::row::Row;

use super::geometry::{Geometry, Rows, bytes_of, clear};

/// What is known of a piece.
enum Known {
    Not,
    Zeros,
    Bytes(IoBuf),
    Lost,
}

impl Known {
    fn column(&self) -> Column<'_> {
        match self {
            Self::Bytes(bytes) => Column::Bytes(bytes),
            Self::Zeros => Column::Zeros,
            Self::Not | Self::Lost => Column::Lost,
        }
    }
}

/// Pieces of a stripe: data from 0, then P, then Q.
pub struct Pieces {
    known: Vec<Known>,
    /// Blocks of each data piece that hold nothing.
    holes: Vec<Vec<(u32, u32)>>,
    len: usize,
    /// Pieces that could not be read though their disks are there, a bit for each.
    failed: u64,
    /// Of these, what those hold that are not as their checksums say.
    doubtful: Vec<Option<IoBuf>>,
    error: Option<IoError>,
}

impl Pieces {
    /// The bytes of a piece that was asked for; `None` for zeros.
    pub fn bytes(&self, piece: usize) -> Option<&[u8]> {
        match &self.known[piece] {
            Known::Bytes(bytes) => Some(bytes),
            Known::Zeros => None,
            Known::Not | Known::Lost => unreachable!("piece {piece} was not asked for"),
        }
    }

    /// Takes the bytes of a piece that was asked for.
    pub fn take(&mut self, piece: usize) -> IoBuf {
        match std::mem::replace(&mut self.known[piece], Known::Not) {
            Known::Bytes(bytes) => bytes,
            Known::Zeros => IoBuf::zeroed(self.len),
            Known::Not | Known::Lost => unreachable!("piece {piece} was not asked for"),
        }
    }

    /// Blocks of a piece that hold nothing; parity has none.
    pub fn holes(&self, piece: usize) -> &[(u32, u32)] {
        self.holes.get(piece).map_or(&[], Vec::as_slice)
    }

    /// Pieces that could not be read though their disks are there.
    pub fn failed(&self) -> Vec<usize> {
        (0..self.known.len()).filter(|piece| self.failed >> piece & 1 == 1).collect()
    }

    /// Whether a piece was read, or holds nothing.
    pub fn is_read(&self, piece: usize) -> bool {
        matches!(self.known[piece], Known::Bytes(_) | Known::Zeros)
    }

    /// Why one was not read.
    pub fn error(&self) -> Option<&IoError> {
        self.error.as_ref()
    }

    /// Pieces that are not as their checksums say, or have none and are not known to be what the others say.
    pub fn doubtful(&self) -> Vec<usize> {
        (0..self.known.len()).filter(|piece| self.doubtful[*piece].is_some()).collect()
    }

    /// How many pieces were not read, for whatever reason, and are not computed yet.
    pub fn lost(&self) -> usize {
        self.known.iter().filter(|known| matches!(known, Known::Lost)).count()
    }
}

/// Which piece the kernels call so.
pub fn piece_of(index: usize, geometry: &Geometry) -> Piece {
    match index.checked_sub(geometry.data) {
        None => Piece::Data(index),
        Some(0) => Piece::P,
        Some(_) => Piece::Q,
    }
}

/// The number of a piece, as [`piece_of`] takes it.
pub fn index_of(piece: Piece, geometry: &Geometry) -> usize {
    match piece {
        Piece::Data(index) => index,
        Piece::P => geometry.data,
        Piece::Q => geometry.data + 1,
    }
}

impl Row {
    /// Reads the `wanted` pieces of some blocks, a bit for each. Those on slabs that are not in step or fail are
    /// computed from the others; what failed is rewritten. The turn of the band must be held, shared or alone.
    ///
    /// # Errors
    /// More pieces are lost than parity makes good.
    pub async fn load_pieces(&self, rows: Rows, wanted: u64) -> Result<Pieces, IoError> {
        let mut pieces = self.read_pieces(rows, wanted).await?;
        match self.compute(&mut pieces, wanted) {
            Err(_) if rows.len > 1 && pieces.failed != 0 => return Box::pin(self.load_blockwise(rows, wanted)).await,
            computed => computed?,
        }
        match self.check_computed(&rows, &mut pieces, wanted, true).await {
            Err(_) if rows.len > 1 => return Box::pin(self.load_blockwise(rows, wanted)).await,
            checked => checked?,
        }
        self.rewrite_pieces(&rows, &pieces, wanted).await;
        Ok(pieces)
    }

    /// As [`Row::load_pieces`], block by block: what fails may lie in different pieces of different blocks.
    async fn load_blockwise(&self, rows: Rows, wanted: u64) -> Result<Pieces, IoError> {
        let geometry = self.bands().geometry;
        let wants = |piece: &usize| wanted >> piece & 1 == 1;
        let mut whole: Vec<Option<IoBuf>> = (0..geometry.columns).map(|_| None).collect();
        for at in 0..rows.len {
            let one = Rows { within: rows.within + at, len: 1, ..rows };
            let mut pieces = self.load_pieces(one, wanted).await?;
            for piece in (0..geometry.columns).filter(wants) {
                let into = whole[piece].get_or_insert_with(|| IoBuf::zeroed(bytes_of(rows.len)));
                into[bytes_of(at)..bytes_of(at + 1)].copy_from_slice(&pieces.take(piece));
            }
        }
        let known = whole.into_iter().map(|bytes| bytes.map_or(Known::Not, Known::Bytes)).collect();
        Ok(Pieces { known, ..self.no_pieces(&rows) })
    }

    /// Compares what a piece holds, or is computed to hold, with its checksums.
    async fn check_piece(&self, rows: &Rows, pieces: &Pieces, piece: usize, bytes: &[u8]) -> Result<Check, IoError> {
        if self.checksums.is_none() {
            return Ok(Check::Right);
        }
        let geometry = self.bands().geometry;
        let holes = self.unheld(&geometry, pieces, piece, rows.len);
        self.check_sums(geometry.column(rows.stripe, piece), geometry.first_block(rows), bytes, &holes).await
    }

    /// Compares what was computed in place of what was not as its checksum says. Where a piece holds what was computed,
    /// it is right: it had no checksum, or its checksum is wrong, which `mends` repairs.
    ///
    /// # Errors
    /// Neither is: other pieces are wrong too.
    pub async fn check_computed(
        &self,
        rows: &Rows,
        pieces: &mut Pieces,
        wanted: u64,
        mends: bool,
    ) -> Result<(), IoError> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        let geometry = self.bands().geometry;
        for piece in pieces.failed().into_iter().filter(|piece| wanted >> piece & 1 == 1) {
            let Known::Bytes(bytes) = &pieces.known[piece] else { continue };
            let check = self.check_piece(rows, pieces, piece, bytes).await?;
            if check == Check::Right {
                continue;
            }
            let holes = self.unheld(&geometry, pieces, piece, rows.len);
            let alike = |held: &IoBuf| {
                let block = |at: u32| bytes_of(at)..bytes_of(at + 1);
                let counts = |at: &u32| !holes.iter().any(|(from, to)| (*from..*to).contains(at));
                (0..rows.len).filter(counts).all(|at| held[block(at)] == bytes[block(at)])
            };
            let held = pieces.doubtful[piece].as_ref().is_some_and(alike);
            if check == Check::Unproven {
                // What it is computed from is proven, and nothing contradicts it.
                if mends {
                    checksums.note_data(geometry.column(rows.stripe, piece), geometry.first_block(rows), bytes);
                }
                if held {
                    pieces.failed &= !(1 << piece);
                    pieces.doubtful[piece] = None;
                }
                continue;
            }
            if !held {
                return Err(self.not_as_summed(rows));
            }
            if mends {
                let index = geometry.column(rows.stripe, piece);
                self.slabs.get(index).disk.counters.repaired.fetch_add(1, Ordering::Relaxed);
                checksums.note_data(index, geometry.first_block(rows), bytes);
                pieces.failed &= !(1 << piece);
            }
        }
        Ok(())
    }

    /// Blocks of a piece that do not count: those that hold nothing, or for parity those for which no data unit does.
    fn unheld(&self, geometry: &Geometry, pieces: &Pieces, piece: usize, len: u32) -> Vec<(u32, u32)> {
        if piece < geometry.data {
            return pieces.holes(piece).to_vec();
        }
        let mut held = BlockSet::new(len);
        for data in 0..geometry.data {
            let mut at = 0;
            for (start, end) in pieces.holes(data).iter().copied().chain([(len, len)]) {
                held.insert(at, start);
                at = end;
            }
        }
        held.gaps(0, len).collect()
    }

    fn no_pieces(&self, rows: &Rows) -> Pieces {
        let geometry = self.bands().geometry;
        let holes = {
            let state = self.bands().lock();
            (0..geometry.data)
                .map(|piece| state.holes(geometry.block(rows.stripe, piece, rows.within), rows.len))
                .collect()
        };
        Pieces {
            known: (0..geometry.columns).map(|_| Known::Not).collect(),
            holes,
            len: bytes_of(rows.len),
            failed: 0,
            doubtful: (0..geometry.columns).map(|_| None).collect(),
            error: None,
        }
    }

    /// Reads the `wanted` pieces of some blocks, and what it takes to compute those of them that are lost.
    ///
    /// # Errors
    /// Too few slabs are in step.
    pub async fn read_pieces(&self, rows: Rows, wanted: u64) -> Result<Pieces, IoError> {
        self.settle_group(0).await?;
        let pieces = self.no_pieces(&rows);
        self.read_into(rows, wanted, pieces).await
    }

    /// Reads what it takes to compute the `lost` pieces of some blocks, whatever is in their place.
    ///
    /// # Errors
    /// Too few slabs are in step.
    pub async fn read_pieces_without(&self, rows: Rows, lost: u64) -> Result<Pieces, IoError> {
        self.settle_group(0).await?;
        let mut pieces = self.no_pieces(&rows);
        let known = pieces.known.iter_mut().enumerate().filter(|(piece, _)| lost >> piece & 1 == 1);
        known.for_each(|(_, known)| *known = Known::Lost);
        self.read_into(rows, lost, pieces).await
    }

    async fn read_into(&self, rows: Rows, wanted: u64, mut pieces: Pieces) -> Result<Pieces, IoError> {
        let geometry = self.bands().geometry;
        let bytes = bytes_of(rows.len);
        let unwritten = |pieces: &Pieces, piece: usize| pieces.holes(piece).first() == Some(&(0, rows.len));
        if (0..geometry.data).all(|piece| unwritten(&pieces, piece)) {
            pieces.known.iter_mut().for_each(|known| *known = Known::Zeros);
            return Ok(pieces);
        }
        for piece in 0..geometry.data {
            if unwritten(&pieces, piece) {
                pieces.known[piece] = Known::Zeros;
            }
        }
        loop {
            for piece in 0..geometry.columns {
                let slab = self.slabs.get(geometry.column(rows.stripe, piece));
                if matches!(pieces.known[piece], Known::Not) && !slab.usable() {
                    pieces.known[piece] = Known::Lost;
                }
            }
            let lost = |piece: &usize| matches!(pieces.known[*piece], Known::Lost);
            let wants = |piece: &usize| wanted >> piece & 1 == 1;
            let compute = (0..geometry.columns).any(|piece| wants(&piece) && lost(&piece));
            let open = |piece: &usize| matches!(pieces.known[*piece], Known::Not);
            let missing = (0..geometry.data).filter(lost).count();
            let kept =
                (geometry.data..geometry.columns).filter(|piece| !lost(piece)).take(missing.max(1)).collect::<Vec<_>>();
            let needed = |piece: &usize| wants(piece) || (compute && (*piece < geometry.data || kept.contains(piece)));
            let read: Vec<usize> = (0..geometry.columns).filter(open).filter(needed).collect();
            if read.is_empty() {
                return Ok(pieces);
            }
            let reads = read.iter().map(|piece| async {
                let slab = self.slabs.get(geometry.column(rows.stripe, *piece));
                let result = if slab.usable() {
                    let _under_way = slab.disk.enter();
                    slab.disk
                        .read(slab.at(geometry.offset(rows.stripe, rows.within, rows.place)), IoBuf::new(bytes))
                        .await
                } else {
                    Err(self.too_few())
                };
                (slab, result)
            });
            for (piece, (slab, result)) in read.iter().zip(join_all(reads).await) {
                let checked = match &result {
                    Ok(buf) => self.check_piece(&rows, &pieces, *piece, buf).await,
                    Err(_) => Ok(Check::Right),
                };
                let result = match &checked {
                    // Its checksums cannot be had: nobody can tell what it answers from corruption.
                    Err(error) => result.and(Err(error.clone())),
                    Ok(_) => result,
                };
                match result {
                    Ok(buf) if checked != Ok(Check::Right) => {
                        slab.disk.counters.checksum_errors.fetch_add(1, Ordering::Relaxed);
                        pieces.error.get_or_insert_with(|| self.not_as_summed(&rows));
                        pieces.failed |= 1 << piece;
                        pieces.doubtful[*piece] = Some(buf);
                        pieces.known[*piece] = Known::Lost;
                    }
                    Ok(mut buf) => {
                        clear(&mut buf, pieces.holes(*piece));
                        pieces.known[*piece] = Known::Bytes(buf);
                    }
                    Err(error) => {
                        self.read_failed(&slab, &error).await;
                        if error.kind != IoErrorKind::Gone {
                            pieces.failed |= 1 << piece;
                        }
                        pieces.error.get_or_insert(error);
                        pieces.known[*piece] = Known::Lost;
                    }
                }
            }
        }
    }

    pub(super) fn not_as_summed(&self, rows: &Rows) -> IoError {
        IoError::new(IoErrorKind::Media, self.unproven(rows.stripe))
    }

    fn unproven(&self, stripe: u32) -> String {
        format!("more of stripe {stripe} is not as its checksums say, or away, than parity makes good: {}", self.part())
    }

    /// Tells that blocks of a stripe cannot be read, with all that is there.
    pub(super) fn tell_unproven(&self, stripe: u32) {
        let (object, next) = (self.object(), "restore that data from a backup");
        self.pool.emit(Severity::Error, object, self.unproven(stripe), next);
    }

    /// Computes lost pieces that are wanted.
    ///
    /// # Errors
    /// More pieces are lost than parity makes good.
    pub fn compute(&self, pieces: &mut Pieces, wanted: u64) -> Result<(), IoError> {
        let geometry = &self.bands().geometry;
        let lost: Vec<usize> = (0..geometry.columns)
            .filter(|piece| wanted >> piece & 1 == 1 && matches!(pieces.known[*piece], Known::Lost))
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        let mut made: Vec<IoBuf> = lost.iter().map(|_| IoBuf::new(pieces.len)).collect();
        {
            let data: Vec<Column<'_>> = pieces.known[..geometry.data].iter().map(Known::column).collect();
            let parity = |index: usize| match pieces.known.get(geometry.data + index) {
                Some(Known::Bytes(bytes)) => Some(&bytes[..]),
                _ => None,
            };
            let stripe = Stripe { data: &data, p: parity(0), q: parity(1) };
            if !stripe.is_recoverable() {
                return Err(pieces.error.take().unwrap_or_else(|| self.too_few()));
            }
            for (piece, made) in lost.chunks(2).zip(made.chunks_mut(2)) {
                let mut into: Vec<(Piece, &mut [u8])> =
                    piece.iter().zip(made).map(|(piece, made)| (piece_of(*piece, geometry), &mut made[..])).collect();
                Kernel::best().recover(&stripe, &mut into);
            }
        }
        for (piece, mut bytes) in lost.into_iter().zip(made) {
            clear(&mut bytes, pieces.holes(piece));
            pieces.known[piece] = Known::Bytes(bytes);
        }
        Ok(())
    }

    /// Rewrites wanted pieces that could not be read, on disks that are still in service.
    async fn rewrite_pieces(&self, rows: &Rows, pieces: &Pieces, wanted: u64) {
        let geometry = self.bands().geometry;
        for piece in pieces.failed().into_iter().filter(|piece| wanted >> piece & 1 == 1) {
            let index = geometry.column(rows.stripe, piece);
            let Known::Bytes(bytes) = &pieces.known[piece] else { continue };
            if self.slabs.get(index).usable() {
                let offset = geometry.offset(rows.stripe, rows.within, rows.place);
                self.rewrite_failed(index, offset, IoSlice::padded(bytes)).await;
            }
        }
    }
}
