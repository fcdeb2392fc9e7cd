//! What a copy does next.
//!
//! ```text
//!   piece ─▶ the same bytes in both         nothing
//!        ├─▶ overlaps itself                slide
//!        ├─▶ lies alike in blocks, one domain   data · clone · data
//!        └─▶ else                           as the source's extents are: zeroes · chunks of data
//! ```
//!
//! Invariant: the steps cover the pieces, in order, without a gap.

use std::collections::VecDeque;

use holdfast_device::ExtentKind;
use holdfast_model::BLOCK_BYTES;

use super::{CopyError, Piece, Source};
use crate::blocks::{blocks_around, clip};
use crate::session::Session;

/// The most that is cloned, zeroed or asked for extents in one step: a copy can be given up between two.
const STRIDE: u64 = 1 << 30;
/// The least that is worth a clone.
const CLONED: u64 = 64 << 10;
/// Runs of extents that are asked for at once.
const RUNS: usize = 256;

/// A step of a copy.
pub enum Step {
    /// Zeros at the destination.
    Zeroes { to: u64, len: u64, keep_room: bool },
    /// A chunk that is read and written.
    Data(Piece),
    /// A piece that overlaps itself.
    Slide(Piece),
    /// Whole blocks that are cloned.
    Clone(Piece),
}

impl Step {
    /// The bytes of memory that it takes.
    pub fn memory(&self) -> u64 {
        match self {
            Self::Data(piece) => piece.len,
            _ => 0,
        }
    }
}

/// How what is left of a piece is copied.
#[derive(Clone, Copy)]
enum Way {
    Clone,
    Extents,
}

/// The steps of a copy.
pub struct Plan<'a> {
    source: Source<'a>,
    destination: &'a Session,
    pieces: std::slice::Iter<'a, Piece>,
    chunk_bytes: u64,
    rest: VecDeque<(Piece, Way)>,
    /// Runs of the first of the rest.
    runs: VecDeque<(ExtentKind, u64)>,
}

impl<'a> Plan<'a> {
    /// That of copying pieces.
    pub fn new(source: Source<'a>, destination: &'a Session, pieces: &'a [Piece], chunk_bytes: u64) -> Self {
        let (rest, runs) = Default::default();
        Self { source, destination, pieces: pieces.iter(), chunk_bytes, rest, runs }
    }

    /// The next step, and the bytes of the pieces that it deals with.
    pub async fn next(&mut self) -> Result<Option<(Step, u64)>, CopyError> {
        loop {
            let Some((piece, way)) = self.rest.front().copied() else {
                let Some(piece) = self.pieces.next() else { return Ok(None) };
                if let Some(step) = self.begin(*piece) {
                    return Ok(Some((step, piece.len)));
                }
                continue;
            };
            let (step, len) = match way {
                Way::Clone => {
                    let len = piece.len.min(STRIDE);
                    (Step::Clone(Piece { len, ..piece }), len)
                }
                Way::Extents => self.next_of_extents(piece).await?,
            };
            self.advance(len);
            return Ok(Some((step, len)));
        }
    }

    /// Takes up a piece, or answers the one step that it is.
    fn begin(&mut self, piece: Piece) -> Option<Step> {
        let Piece { from, to, len } = piece;
        let mut rest = |piece: Piece, way| {
            if piece.len > 0 {
                self.rest.push_back((piece, way));
            }
        };
        let Source::Data(source, _) = self.source else {
            rest(piece, Way::Extents);
            return None;
        };
        let same = source.target().object().id() == self.destination.target().object().id();
        if same && from < to + len && to < from + len {
            // What is written to where it lies is there already.
            return Some(if from == to { Step::Slide(Piece { len: 0, ..piece }) } else { Step::Slide(piece) });
        }
        let alike = from % BLOCK_BYTES == to % BLOCK_BYTES;
        if len < CLONED || !alike || !self.destination.target().shares_domain(source.target()) {
            rest(piece, Way::Extents);
            return None;
        }
        let head = from.next_multiple_of(BLOCK_BYTES) - from;
        let whole = (len - head) / BLOCK_BYTES * BLOCK_BYTES;
        let part = |skip, len| Piece { from: from + skip, to: to + skip, len };
        rest(part(0, head), Way::Extents);
        rest(part(head, whole), Way::Clone);
        rest(part(head + whole, len - head - whole), Way::Extents);
        None
    }

    async fn next_of_extents(&mut self, piece: Piece) -> Result<(Step, u64), CopyError> {
        let Source::Data(source, holds) = self.source else {
            let len = piece.len.min(STRIDE);
            return Ok((Step::Zeroes { to: piece.to, len, keep_room: false }, len));
        };
        if self.runs.is_empty() {
            let asked = piece.len.min(STRIDE);
            let blocks = blocks_around(piece.from, asked);
            let extents = source.target().extents(blocks.start, blocks.end - blocks.start, RUNS);
            let extents = extents.await.map_err(CopyError::Source)?;
            if !holds() {
                return Err(CopyError::Changed);
            }
            self.runs = clip(piece.from, asked, extents).into_iter().map(|run| (run.kind, run.len)).collect();
        }
        // An object that says nothing of itself holds data.
        let (kind, run) = self.runs.front().copied().unwrap_or((ExtentKind::Data, piece.len));
        Ok(match kind {
            ExtentKind::Data => {
                let to_boundary = self.chunk_bytes - piece.to % BLOCK_BYTES;
                let len = run.min(to_boundary).min(piece.len);
                (Step::Data(Piece { len, ..piece }), len)
            }
            ExtentKind::Hole | ExtentKind::Zero => {
                let keep_room = kind == ExtentKind::Zero;
                (Step::Zeroes { to: piece.to, len: run.min(piece.len), keep_room }, run.min(piece.len))
            }
        })
    }

    /// So much of the first of the rest is dealt with.
    fn advance(&mut self, len: u64) {
        if let Some((piece, _)) = self.rest.front_mut() {
            *piece = Piece { from: piece.from + len, to: piece.to + len, len: piece.len - len };
            if piece.len == 0 {
                self.rest.pop_front();
                self.runs.clear();
                return;
            }
        }
        if let Some((_, run)) = self.runs.front_mut() {
            *run -= len;
            if *run == 0 {
                self.runs.pop_front();
            }
        }
    }
}
