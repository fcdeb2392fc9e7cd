//! Data and parity, compared: with two parities one wrong piece is found by both.

use std::sync::Arc;

use holdfast_device::IoBuf;
use holdfast_model::BLOCK_BYTES;
use holdfast_parity::{Column, Fault, Kernel, Stripe};

use crate::pace::Ended;
use crate::parity::{Geometry, NOWHERE, Pieces, Rows, bytes_of, index_of, piece_of};
use crate::row::Row;

use super::found::Mismatch;
use super::{STEP_BYTES, Scrub, halves};

/// Blocks of a stripe that do not agree.
#[derive(Debug, PartialEq, Eq)]
struct Wrong {
    /// The wrong piece, or else those that do not agree with the others.
    pieces: Vec<usize>,
    /// Whether it is known which is wrong.
    known: bool,
}

impl Scrub<'_> {
    /// Compares data and parity of a row.
    pub(super) async fn bands(&mut self, row: &Arc<Row>) -> Result<(), Ended> {
        let geometry = row.bands().geometry;
        let step = (STEP_BYTES / (BLOCK_BYTES * geometry.columns as u64)).max(1) as u32;
        for stripe in 0..geometry.bands * geometry.stripes() {
            for start in (0..geometry.unit).step_by(step as usize) {
                let end = (start + step).min(geometry.unit);
                let mut left = vec![(start, end)];
                while let Some((start, end)) = left.pop() {
                    let held: u32 = held(row, stripe, start, end).iter().map(|(start, end)| end - start).sum();
                    if held > 0 {
                        self.pace.step((bytes_of(held) * geometry.columns) as u64).await?;
                        self.stripe(row, stripe, (start, end), &mut left).await?;
                    }
                }
                self.pace.done((bytes_of(end - start) * geometry.columns) as u64);
            }
        }
        for slab in 0..geometry.columns {
            self.checksums(row, slab).await?;
        }
        Ok(())
    }

    /// Compares blocks of a stripe; those that are to be looked at again in smaller pieces are left.
    async fn stripe(
        &mut self,
        row: &Arc<Row>,
        stripe: u32,
        (start, end): (u32, u32),
        left: &mut Vec<(u32, u32)>,
    ) -> Result<(), Ended> {
        let geometry = row.bands().geometry;
        let band = stripe / geometry.stripes();
        let Some(_used) = self.keep(row).await? else { return Ok(()) };
        let _turn = if self.mends { row.band_turn(band).await } else { row.shared_turn(band).await };
        let (place, torn) = {
            let state = row.bands().lock();
            (state.places[band as usize], state.torn.contains_key(&band))
        };
        if place == NOWHERE {
            return Ok(());
        }
        for (from, to) in held(row, stripe, start, end) {
            let rows = Rows { stripe, place, within: from, len: to - from };
            let pieces = if torn { None } else { row.read_pieces(rows, (1 << geometry.columns) - 1).await.ok() };
            match pieces {
                None => self.found.unchecked_bytes += (bytes_of(rows.len) * geometry.columns) as u64,
                Some(pieces) if rows.len > 1 && !pieces.failed().is_empty() => left.extend(halves(from, to)),
                Some(pieces) => self.pieces(row, rows, pieces).await?,
            }
        }
        Ok(())
    }

    /// Compares what was read of a stripe. The turn of its band must be held.
    async fn pieces(&mut self, row: &Row, rows: Rows, mut pieces: Pieces) -> Result<(), Ended> {
        let geometry = row.bands().geometry;
        let (lost, failed) = (pieces.lost(), pieces.failed());
        let compared = if lost < geometry.parity { geometry.columns - lost } else { 0 };
        self.found.checked_bytes += (bytes_of(rows.len) * compared) as u64;
        self.found.unchecked_bytes += (bytes_of(rows.len) * (geometry.columns - compared)) as u64;
        let all = (1 << geometry.columns) - 1;
        let computed = row.compute(&mut pieces, all).is_ok()
            && row.check_computed(&rows, &mut pieces, all, self.mends).await.is_ok();
        let doubtful = pieces.doubtful();
        let failed: Vec<usize> =
            failed.into_iter().filter(|piece| !computed || pieces.failed().contains(piece)).collect();
        let wrong =
            if computed && compared > 0 { disagreeing(&geometry, rows.len, &pieces, lost == 0) } else { Vec::new() };
        for (Wrong { pieces: named, known }, start, end) in &wrong {
            named.iter().for_each(|piece| self.note_piece(row, rows, *piece, (*start, *end)));
            match named.first().filter(|_| *known) {
                Some(piece) => self.correct(row, rows, &pieces, *piece, (*start, *end)).await?,
                None => self.found.unrepaired_blocks += u64::from(end - start) * named.len() as u64,
            }
        }
        doubtful.iter().for_each(|piece| self.note_piece(row, rows, *piece, (0, rows.len)));
        if !computed || !wrong.is_empty() {
            self.found.unrepaired_blocks += failed.len() as u64;
            return Ok(());
        }
        for piece in failed {
            let index = geometry.column(rows.stripe, piece);
            let data = pieces.take(piece).freeze();
            self.mend(row, index, geometry.offset(rows.stripe, rows.within, rows.place), data).await?;
        }
        Ok(())
    }

    /// Computes blocks of a wrong piece anew, and rewrites it if then all agree.
    async fn correct(
        &mut self,
        row: &Row,
        rows: Rows,
        pieces: &Pieces,
        wrong: usize,
        (start, end): (u32, u32),
    ) -> Result<(), Ended> {
        let geometry = row.bands().geometry;
        let bytes = |piece: usize| pieces.bytes(piece).map(|bytes| &bytes[bytes_of(start)..bytes_of(end)]);
        let column = |piece: usize| match bytes(piece) {
            _ if piece == wrong => Column::Lost,
            Some(bytes) => Column::Bytes(bytes),
            None => Column::Zeros,
        };
        let parity = |piece: usize| bytes(piece).filter(|_| piece != wrong);
        let data: Vec<Column<'_>> = (0..geometry.data).map(column).collect();
        let stripe = Stripe { data: &data, p: parity(geometry.data), q: parity(geometry.data + 1) };
        let mut made = IoBuf::new(bytes_of(end - start));
        Kernel::best().recover(&stripe, &mut [(piece_of(wrong, &geometry), &mut made[..])]);
        let right = |piece: usize| if piece == wrong { Some(&made[..]) } else { bytes(piece) };
        let data: Vec<Option<&[u8]>> = (0..geometry.data).map(right).collect();
        let agree = match (right(geometry.data), right(geometry.data + 1)) {
            (Some(p), Some(q)) => Kernel::best().check_pq(&data, p, q).is_whole(),
            _ => false,
        };
        if !agree {
            self.found.unrepaired_blocks += u64::from(end - start);
            return Ok(());
        }
        let offset = geometry.offset(rows.stripe, rows.within + start, rows.place);
        self.mend(row, geometry.column(rows.stripe, wrong), offset, made.freeze()).await
    }

    fn note_piece(&mut self, row: &Row, rows: Rows, piece: usize, (start, end): (u32, u32)) {
        let geometry = row.bands().geometry;
        let slab = row.slabs.get(geometry.column(rows.stripe, piece));
        for within in rows.within + start..rows.within + end {
            let protected = if piece < geometry.data { piece } else { 0 };
            let first = geometry.block(rows.stripe, protected, within);
            self.found.add(Mismatch {
                offset_bytes: u64::from(row.chunk) * self.inner.record.chunk_bytes + bytes_of(first) as u64,
                piece: ["P", "Q"].get(piece.wrapping_sub(geometry.data)).unwrap_or(&"data").to_string(),
                disk: slab.disk.id,
                disk_offset_bytes: slab.at(geometry.offset(rows.stripe, within, rows.place)),
                len_bytes: BLOCK_BYTES,
            });
        }
    }
}

/// The blocks of a stripe's units that count, of some.
fn held(row: &Row, stripe: u32, start: u32, end: u32) -> Vec<(u32, u32)> {
    let held = row.held_blocks(stripe, row.bands().geometry.data).into_iter();
    held.map(|(from, to)| (from.max(start), to.min(end))).filter(|(from, to)| from < to).collect()
}

/// Which blocks do not agree, and where every piece could be read, which is wrong there.
fn disagreeing(geometry: &Geometry, len: u32, pieces: &Pieces, all_read: bool) -> Vec<(Wrong, u32, u32)> {
    let mut found: Vec<(Wrong, u32, u32)> = Vec::new();
    if disagree(geometry, pieces, (0, len), false).is_none() {
        return found;
    }
    for block in 0..len {
        let Some(wrong) = disagree(geometry, pieces, (block, block + 1), all_read) else { continue };
        match found.last_mut() {
            Some((last, _, end)) if *last == wrong && *end == block => *end += 1,
            _ => found.push((wrong, block, block + 1)),
        }
    }
    found
}

/// What does not agree in some blocks, and with `locate` which piece is wrong there.
fn disagree(geometry: &Geometry, pieces: &Pieces, (start, end): (u32, u32), locate: bool) -> Option<Wrong> {
    let bytes = |piece: usize| pieces.bytes(piece).map(|bytes| &bytes[bytes_of(start)..bytes_of(end)]);
    let hole = |piece: usize| pieces.holes(piece).iter().any(|(from, to)| *from <= start && end <= *to);
    let data: Vec<Option<&[u8]>> = (0..geometry.data).map(|piece| bytes(piece).filter(|_| !hole(piece))).collect();
    let p = bytes(geometry.data)?;
    let parities = if geometry.parity == 2 { bytes(geometry.data + 1) } else { None };
    let Some(q) = parities else {
        let agrees = Kernel::best().check_p(&data, p);
        return (!agrees).then(|| Wrong { pieces: vec![geometry.data], known: false });
    };
    if locate && let Fault::One(piece) = Kernel::best().locate(&data, p, q) {
        return Some(Wrong { pieces: vec![index_of(piece, geometry)], known: true });
    }
    let agreement = Kernel::best().check_pq(&data, p, q);
    let parity = [(agreement.p, geometry.data), (agreement.q, geometry.data + 1)];
    let pieces: Vec<usize> = parity.into_iter().filter(|(agrees, _)| !agrees).map(|(_, piece)| piece).collect();
    (!pieces.is_empty()).then_some(Wrong { pieces, known: false })
}
