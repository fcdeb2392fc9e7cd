//! How what was written to a band gets into its place.
//!
//! - A band that was written throughout, or has no place yet, goes to a fresh place, with parity from memory: what was
//!   there before stays until the map is switched, so no crash leaves a mixture. So does one that was written for the
//!   most part, once the rest of it was read.
//! - A band of which nothing remains loses its place.
//! - Anything else changes in place, and a record of all that is about to change stands in the journal before.

use std::sync::Arc;

use holdfast_device::{IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::BLOCK_BYTES;
use holdfast_parity::{ColumnUpdate, Kernel};

use crate::row::Row;

use super::band_map::NOWHERE;
use super::bands::Write;
use super::bands::turns::BandTurn;
use super::dirty::{Content, Extent};
use super::geometry::{Geometry, Rows, bytes_of};
use super::log_record::Draft;
use super::record::{Entry, Intent, StagedPiece};
use super::store::ParityStore;

/// Where a band is when it is destaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// It holds nothing, and needs no place.
    Nowhere,
    /// In a place of its own; what is to be written counts as for place 0.
    Fresh,
    /// Where it was.
    Same,
}

/// What is to be done with a band, whose turn is held.
pub struct Placing {
    /// The row.
    pub row: Arc<Row>,
    /// The band.
    pub band: u32,
    /// Everything written until then is in the plan.
    pub stamp: u64,
    /// Where the band is when it is done.
    pub goal: Goal,
    /// What to write.
    pub writes: Vec<Write>,
    /// What to write down before.
    pub intents: Vec<Planned>,
    /// Blocks that hold data then; all others that were written hold nothing.
    pub filled: Vec<(u32, u32)>,
    /// Blocks that hold nothing then.
    pub emptied: Vec<(u32, u32)>,
    /// Held until it is done.
    pub _turn: BandTurn,
}

/// A change in place.
pub struct Planned {
    /// What is to change.
    pub intent: Intent,
    /// The blocks of its pieces.
    pub blocks: Vec<IoSlice>,
    /// The place that has them already, and where.
    pub staged: Option<(u16, Vec<StagedPiece>)>,
}

/// What parity is computed from where a band changes in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityFrom {
    /// What takes fewer reads: the other columns, or the parity and what changes.
    Cheapest,
    /// The other columns: parity may not agree with what is there.
    Data,
}

/// How a band is to be treated.
enum Way {
    Nothing,
    Empty,
    Fresh,
    /// To a fresh place, with what it holds besides read from the old one.
    Move(u16),
    InPlace(u16),
}

/// How some blocks of a stripe change, each unit alike throughout.
#[derive(Clone, Copy)]
struct Change<'a> {
    /// What each unit gets.
    contents: &'a [Option<Content>],
    /// Units that hold data, a bit for each.
    written: u64,
    /// Units that change.
    changed: u64,
    /// The parity pieces to write.
    parity: &'a [usize],
}

/// The units of one stripe as extents cover them.
struct Units {
    /// For each data unit, its extents: first block within the unit, length, content.
    extents: Vec<Vec<(u32, u32, Content)>>,
}

impl Units {
    /// Sorts the extents of a band by stripe and unit.
    fn of_band(geometry: &Geometry, band: u32, extents: &[(u32, Extent)]) -> Vec<(u32, Self)> {
        let mut stripes: Vec<(u32, Self)> = (band * geometry.stripes()..(band + 1) * geometry.stripes())
            .map(|stripe| (stripe, Self { extents: vec![Vec::new(); geometry.data] }))
            .collect();
        for (start, extent) in extents {
            for run in geometry.runs(*start, start + extent.len) {
                let content = extent.content.part(run.at, run.len);
                let units = &mut stripes[(run.stripe - band * geometry.stripes()) as usize].1;
                units.extents[run.piece].push((run.within, run.len, content));
            }
        }
        stripes.retain(|(_, units)| units.extents.iter().any(|extents| !extents.is_empty()));
        stripes
    }

    /// Where an extent of any unit begins or ends, in order.
    fn borders(&self) -> Vec<u32> {
        let ends = |(start, len, _): &(u32, u32, Content)| [*start, start + len];
        let mut borders: Vec<u32> = self.extents.iter().flatten().flat_map(ends).collect();
        borders.sort_unstable();
        borders.dedup();
        borders
    }

    /// What a unit gets in a range between borders; `None` where it is not touched.
    fn content(&self, piece: usize, start: u32, end: u32) -> Option<Content> {
        let (at, _, content) = self.extents[piece].iter().find(|(at, len, _)| *at <= start && end <= at + len)?;
        Some(content.part(start - at, end - start))
    }
}

impl Row {
    /// Plans what is to be done with a band whose turn is held; `None` where there is nothing. A band with more to
    /// write than `most` bytes does not change in place.
    pub async fn plan(
        self: &Arc<Self>,
        store: &ParityStore,
        band: u32,
        turn: BandTurn,
        most: u64,
        from: ParityFrom,
    ) -> Result<Option<Placing>, IoError> {
        let bands = self.bands();
        let geometry = bands.geometry;
        let (start, end) = (band * geometry.band_blocks(), (band + 1) * geometry.band_blocks());
        let (mut extents, stamp, way) = loop {
            self.log_done(band).await;
            store.finish_torn(self, band).await?;
            let mut state = bands.lock();
            if state.recovering {
                return Ok(None);
            }
            if state.logging.contains(&band) {
                // Something of it went on its way meanwhile.
                continue;
            }
            let Some(dirty) = state.dirty.get(&band) else { return Ok(None) };
            let extents: Vec<(u32, Extent)> = dirty.parts(start, end).collect();
            let Some(stamp) = extents.iter().map(|(_, extent)| extent.stamp).max() else { return Ok(None) };
            let whole = dirty.blocks() == geometry.band_blocks();
            let filled = extents.iter().any(|(_, extent)| extent.holds());
            let place = state.places[band as usize];
            let kept = || {
                let covered: u32 =
                    extents.iter().map(|(at, extent)| state.written.count_in(*at, at + extent.len)).sum();
                state.written.count_in(start, end) > covered
            };
            let way = match (filled, place) {
                (false, NOWHERE) => Way::Nothing,
                (false, _) if !kept() => Way::Empty,
                (true, NOWHERE) => Way::Fresh,
                (true, _) if whole => Way::Fresh,
                (_, place) if dirty.blocks() * 2 > geometry.band_blocks() => Way::Move(place),
                (_, place) if u64::from(dirty.blocks()) * BLOCK_BYTES > most => Way::Move(place),
                (_, place) => Way::InPlace(place),
            };
            state.placing.insert(band, stamp);
            break (extents, stamp, way);
        };
        let mut gathered = store.fetch(&mut extents).await;
        if let (Way::Move(place), Ok(())) = (&way, &gathered) {
            gathered = self.add_rest(&geometry, band, *place, &mut extents).await;
        }
        if let Err(error) = gathered {
            self.bands().lock().placing.remove(&band);
            return Err(error);
        }
        let ranges = |bytes: bool| -> Vec<(u32, u32)> {
            let chosen = extents.iter().filter(|(_, extent)| matches!(extent.content, Content::Bytes(_)) == bytes);
            chosen.map(|(at, extent)| (*at, at + extent.len)).collect()
        };
        let mut placing = Placing {
            row: self.clone(),
            band,
            stamp,
            goal: match way {
                Way::Nothing | Way::Empty => Goal::Nowhere,
                Way::Fresh | Way::Move(_) => Goal::Fresh,
                Way::InPlace(_) => Goal::Same,
            },
            writes: Vec::new(),
            intents: Vec::new(),
            filled: ranges(true),
            emptied: ranges(false),
            _turn: turn,
        };
        let units = Units::of_band(&geometry, band, &extents);
        let planned = match way {
            Way::Nothing | Way::Empty => Ok(()),
            Way::Fresh | Way::Move(_) => {
                for (stripe, units) in &units {
                    self.plan_fresh(&geometry, *stripe, units, &mut placing);
                }
                Ok(())
            }
            Way::InPlace(place) => self.plan_in_place(&geometry, place, &units, from, &mut placing).await,
        };
        if let Err(error) = planned {
            self.bands().lock().placing.remove(&band);
            return Err(error);
        }
        Ok(Some(placing))
    }

    /// Reads what a band holds besides what was written to it, and adds that to the extents.
    async fn add_rest(
        self: &Arc<Self>,
        geometry: &Geometry,
        band: u32,
        place: u16,
        extents: &mut Vec<(u32, Extent)>,
    ) -> Result<(), IoError> {
        let (start, end) = (band * geometry.band_blocks(), (band + 1) * geometry.band_blocks());
        let rest = {
            let state = self.bands().lock();
            let mut rest = Vec::new();
            let mut at = start;
            for (from, to) in extents.iter().map(|(from, extent)| (*from, from + extent.len)).chain([(end, end)]) {
                rest.extend(state.written.runs(at, from));
                at = to;
            }
            rest
        };
        for (from, to) in rest {
            for run in geometry.runs(from, to) {
                let rows = Rows { stripe: run.stripe, place, within: run.within, len: run.len };
                let bytes = self.load_pieces(rows, 1 << run.piece).await?.take(run.piece).freeze();
                let content = Content::Bytes(bytes);
                extents
                    .push((from + run.at, Extent { len: run.len, content, stamp: 0, logged: false, held: Vec::new() }));
            }
        }
        extents.sort_by_key(|(at, _)| *at);
        Ok(())
    }

    /// Data and parity of a stripe of which nothing else counts. Offsets are as if the band were at place 0.
    fn plan_fresh(&self, geometry: &Geometry, stripe: u32, units: &Units, placing: &mut Placing) {
        let borders = units.borders();
        let (Some(first), Some(last)) = (borders.first(), borders.last()) else { return };
        let mut parity: Vec<IoBuf> = (0..geometry.parity).map(|_| IoBuf::new(bytes_of(last - first))).collect();
        for range in borders.windows(2) {
            let (start, end) = (range[0], range[1]);
            let contents: Vec<Option<Content>> =
                (0..geometry.data).map(|piece| units.content(piece, start, end)).collect();
            let data: Vec<Option<&[u8]>> = contents.iter().map(bytes_in).collect();
            let within = bytes_of(start - first)..bytes_of(end - first);
            encode(&data, parity.iter_mut().map(|buf| &mut buf[within.clone()]));
        }
        for (piece, extents) in units.extents.iter().enumerate() {
            for (within, _, content) in extents {
                if let Content::Bytes(bytes) = content {
                    placing.writes.push((
                        geometry.column(stripe, piece),
                        geometry.offset(stripe, *within, 0),
                        bytes.clone(),
                    ));
                }
            }
        }
        for (index, buf) in parity.into_iter().enumerate() {
            let column = geometry.column(stripe, geometry.data + index);
            placing.writes.push((column, geometry.offset(stripe, *first, 0), buf.freeze()));
        }
    }

    async fn plan_in_place(
        self: &Arc<Self>,
        geometry: &Geometry,
        place: u16,
        units: &[(u32, Units)],
        from: ParityFrom,
        placing: &mut Placing,
    ) -> Result<(), IoError> {
        let takes = |column: &usize| self.slabs.get(*column).takes_writes();
        let left_out: Vec<usize> = (0..geometry.columns).filter(|column| !takes(column)).collect();
        // A slab whose parity the journal leaves out must be known as stale before the journal tells of the rest.
        self.confirm_missed(&left_out).await?;
        for (stripe, units) in units {
            let mut borders = units.borders();
            self.add_written_borders(geometry, *stripe, &mut borders);
            for range in borders.windows(2) {
                let touched = (0..geometry.data).any(|piece| units.content(piece, range[0], range[1]).is_some());
                if touched {
                    let rows = Rows { stripe: *stripe, place, within: range[0], len: range[1] - range[0] };
                    self.plan_range(geometry, rows, units, &left_out, from, placing).await?;
                }
            }
        }
        Ok(())
    }

    /// Adds the places where a unit of the stripe begins or ceases to hold data.
    fn add_written_borders(&self, geometry: &Geometry, stripe: u32, borders: &mut Vec<u32>) {
        let (Some(first), Some(last)) = (borders.first().copied(), borders.last().copied()) else { return };
        let state = self.bands().lock();
        for piece in 0..geometry.data {
            let base = geometry.block(stripe, piece, 0);
            for (start, end) in state.written.runs(base + first, base + last) {
                borders.extend([start - base, end - base]);
            }
        }
        borders.sort_unstable();
        borders.dedup();
    }

    /// Plans blocks of a stripe in which each unit is treated alike.
    async fn plan_range(
        self: &Arc<Self>,
        geometry: &Geometry,
        rows: Rows,
        units: &Units,
        left_out: &[usize],
        from: ParityFrom,
        placing: &mut Placing,
    ) -> Result<(), IoError> {
        let Rows { stripe, place, within: start, len } = rows;
        let end = start + len;
        let contents: Vec<Option<Content>> = (0..geometry.data).map(|piece| units.content(piece, start, end)).collect();
        let mask = |test: &dyn Fn(usize) -> bool| {
            (0..geometry.data).filter(|piece| test(*piece)).fold(0u64, |mask, at| mask | 1 << at)
        };
        let filled = mask(&|piece| matches!(contents[piece], Some(Content::Bytes(_))));
        let emptied = mask(&|piece| matches!(contents[piece], Some(Content::Nothing)));
        let written = {
            let state = self.bands().lock();
            mask(&|piece| state.written.contains(geometry.block(stripe, piece, start)))
        };
        let takes = |piece: &usize| !left_out.contains(&geometry.column(stripe, *piece));
        let parity: Vec<usize> = (geometry.data..geometry.columns).filter(takes).collect();
        let remains = (written & !emptied) | filled;
        let parity = if remains == 0 { Vec::new() } else { parity };
        let parity_mask = parity.iter().fold(0u64, |mask, piece| mask | 1 << piece);
        let changed = filled | emptied;
        let by_change = (written & changed) | parity_mask;
        let anew = written & !changed;
        let change = Change { contents: &contents, written, changed, parity: &parity };
        let cheaper = written != 0 && self.cost(geometry, stripe, by_change) < self.cost(geometry, stripe, anew);
        let made = match from {
            _ if parity.is_empty() => Vec::new(),
            ParityFrom::Data => self.parity_from_data(geometry, rows, &change).await?,
            // What cannot be read one way may not be needed the other.
            ParityFrom::Cheapest if cheaper => match self.parity_by_change(geometry, rows, &change).await {
                Err(error) if error.kind == IoErrorKind::Media => {
                    self.parity_from_data(geometry, rows, &change).await?
                }
                made => made?,
            },
            ParityFrom::Cheapest => match self.parity_from_data(geometry, rows, &change).await {
                Err(error) if error.kind == IoErrorKind::Media && written != 0 => {
                    self.parity_by_change(geometry, rows, &change).await?
                }
                made => made?,
            },
        };
        let mut blocks: Vec<IoSlice> = contents
            .iter()
            .filter_map(|content| match content {
                Some(Content::Bytes(bytes)) => Some(bytes.clone()),
                _ => None,
            })
            .collect();
        blocks.extend(made.into_iter().map(IoBuf::freeze));
        let filled_pieces = (0..geometry.data).filter(|piece| filled >> piece & 1 == 1);
        for (piece, bytes) in filled_pieces.chain(parity.iter().copied()).zip(&blocks) {
            let offset = geometry.offset(stripe, start, place);
            placing.writes.push((geometry.column(stripe, piece), offset, bytes.clone()));
        }
        let intent = Intent {
            chunk: self.chunk,
            row: self.record.id,
            stamp: placing.stamp,
            band: placing.band,
            place,
            stripe,
            within: start,
            len,
            filled: filled as u32,
            emptied: emptied as u32,
            parity: (parity_mask >> geometry.data) as u8,
        };
        placing.intents.push(Planned { intent, blocks, staged: None });
        Ok(())
    }

    /// Parity brought up to date: what was there, less what changes, and what takes its place.
    async fn parity_by_change(
        &self,
        geometry: &Geometry,
        rows: Rows,
        change: &Change<'_>,
    ) -> Result<Vec<IoBuf>, IoError> {
        let Change { contents, written, changed, parity } = *change;
        let by_change = parity.iter().fold(written & changed, |mask, piece| mask | 1 << piece);
        let mut old = self.load_pieces(rows, by_change).await?;
        let mut made: Vec<IoBuf> = parity.iter().map(|piece| old.take(*piece)).collect();
        let changes: Vec<ColumnUpdate<'_>> = (0..geometry.data)
            .filter(|piece| changed >> piece & 1 == 1)
            .map(|piece| ColumnUpdate {
                column: piece,
                old: if written >> piece & 1 == 1 { old.bytes(piece) } else { None },
                new: bytes_in(&contents[piece]),
            })
            .collect();
        update(&changes, parity, geometry, &mut made);
        Ok(made)
    }

    /// Parity computed from all data of the stripe.
    async fn parity_from_data(
        &self,
        geometry: &Geometry,
        rows: Rows,
        change: &Change<'_>,
    ) -> Result<Vec<IoBuf>, IoError> {
        let Change { contents, written, changed, parity } = *change;
        let anew = written & !changed;
        let old = self.load_pieces(rows, anew).await?;
        let data: Vec<Option<&[u8]>> = (0..geometry.data)
            .map(|piece| if anew >> piece & 1 == 1 { old.bytes(piece) } else { bytes_in(&contents[piece]) })
            .collect();
        let mut all: Vec<IoBuf> = (0..geometry.parity).map(|_| IoBuf::new(bytes_of(rows.len))).collect();
        encode(&data, all.iter_mut().map(|buf| &mut buf[..]));
        let kept = |(index, buf): (usize, IoBuf)| parity.contains(&(geometry.data + index)).then_some(buf);
        Ok(all.into_iter().enumerate().filter_map(kept).collect())
    }

    /// What it costs to read some pieces: one each, and the whole stripe where one must be computed.
    fn cost(&self, geometry: &Geometry, stripe: u32, pieces: u64) -> usize {
        let chosen = |piece: &usize| pieces >> piece & 1 == 1;
        let lost =
            (0..geometry.columns).filter(chosen).any(|piece| !self.slabs.get(geometry.column(stripe, piece)).usable());
        pieces.count_ones() as usize + if lost { geometry.columns } else { 0 }
    }
}

impl Planned {
    fn staged_sums(&self) -> Vec<&[u32]> {
        match &self.staged {
            Some((_, pieces)) => pieces.iter().map(|piece| &piece.checksums[..]).collect(),
            None => vec![&[]; self.blocks.len()],
        }
    }
}

impl Placing {
    /// Bytes of the blocks that it intends.
    pub fn intended_bytes(&self) -> u64 {
        self.intents.iter().flat_map(|planned| &planned.blocks).map(|block| block.len() as u64).sum()
    }

    /// The checksums of what is written, in the same order: known of what was staged, empty for all else.
    pub fn staged_sums(&self) -> Vec<&[u32]> {
        self.intents.iter().flat_map(Planned::staged_sums).collect()
    }

    /// Adds what it intends to a record, with the blocks that are not staged.
    pub fn note(&self, draft: &mut Draft) {
        for Planned { intent, blocks, staged } in &self.intents {
            let chunk = self.row.chunk;
            match staged {
                Some((_, pieces)) => draft.add(chunk, self.band, Entry::Staged(*intent, pieces.clone()), []),
                None => draft.add(chunk, self.band, Entry::Intent(*intent), blocks.iter().cloned()),
            }
        }
    }

    /// The places that are lent to it, once for each loan.
    pub fn loans(&self) -> Vec<u16> {
        self.intents.iter().filter_map(|planned| planned.staged.as_ref()).map(|(place, _)| *place).collect()
    }
}

fn bytes_in(content: &Option<Content>) -> Option<&[u8]> {
    match content {
        Some(Content::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Computes P, or P and Q.
fn encode<'a>(data: &[Option<&[u8]>], mut parity: impl Iterator<Item = &'a mut [u8]>) {
    match (parity.next(), parity.next()) {
        (Some(p), Some(q)) => Kernel::best().encode_pq(data, p, q),
        (Some(p), None) => Kernel::best().encode_p(data, p),
        _ => unreachable!("a parity layout has parity"),
    }
}

/// Brings the parity pieces that are there up to date.
fn update(changes: &[ColumnUpdate<'_>], parity: &[usize], geometry: &Geometry, made: &mut [IoBuf]) {
    let kernel = Kernel::best();
    match made {
        [p, q] => kernel.update_pq(changes, p, q),
        [p] if parity[0] == geometry.data => kernel.update_p(changes, p),
        [q] => {
            let mut unused = IoBuf::zeroed(q.len());
            kernel.update_pq(changes, &mut unused, q);
        }
        _ => unreachable!("one or two parity pieces"),
    }
}
