//! What moves while requests go on: a chunk to another row, or one slab of a row to another disk. Both copy in the same
//! way.
//!
//! ```text
//!   claim ─▶ copied ─▶ what was changed since is copied ─▶ ... ─▶ gate: nobody begins to change the chunk
//!                                  the last changes are copied, all is settled ─▶ one change of the pool: relocate.rs, slab_move.rs
//! ```
//!
//! Several movers are at work at once, each on a chunk of its own that it *claims*. A repair claims nothing: it waits
//! for no mover, and a mover waits at its gate as long as a repair uses the row.
//!
//! Invariants: a chunk is moved by one mover at a time, since there is one list of what changes under it. While rows
//! are held still, nobody moves anything.
//!
//! What shape a row gets, and on which disks, is the pool's answer to
//! [`Pool::reserve_row`](holdfast_pool::Pool::reserve_row), the same for all chunks of a space. A medium wanted for
//! some chunks is asked for there.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_device::IoError;
use holdfast_model::BLOCK_BYTES;
use holdfast_pool::{FreedRow, PoolErrorKind, RowRecord};

use crate::block_set::BlockSet;
use crate::claims::Claim;
use crate::pace::{Ended, Pace, Unlimited};
use crate::row_table::{Gate, UsedRow};
use crate::space::Inner;

/// Bytes that are copied with one request.
const PIECE_BYTES: u64 = 512 << 10;
/// Requests at a time.
pub const PIECES: usize = 8;
/// The gate is tried when so little is left to copy, or after so many passes.
const SMALL_BYTES: u64 = 4 << 20;
/// So many passes.
const PASSES: u32 = 6;
/// Before the gate, or a claim, is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// Work that may wait for other work, and whether it said so.
struct Waiting<'a> {
    pace: &'a dyn Pace,
    said: bool,
}

impl Waiting<'_> {
    fn say(&mut self) {
        if !std::mem::replace(&mut self.said, true) {
            self.pace.waits(true);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.said {
            self.pace.waits(false);
        }
    }
}

/// A copy of a row, or of a part of it, that is being made while the row is in use.
pub trait Copying {
    /// How often the gate is tried.
    const GATE_TRIES: u32;

    /// All that there is to copy: blocks, or bands.
    fn everything(&self) -> BlockSet;

    /// What was changed since this was asked last.
    fn take_changed(&self) -> BlockSet;

    /// About how many bytes that is to copy.
    fn bytes(&self, todo: &BlockSet) -> u64;

    /// Copies that. With `again` it was copied before, and may hold nothing any more. Answers false where it cannot be
    /// done now.
    async fn copy(&self, todo: &BlockSet, again: bool, pace: &dyn Pace) -> Result<bool, Ended>;

    /// Before the gate is shut: has as much as possible destaged and made durable. Answers false where the copy failed.
    async fn settle(&self) -> Result<bool, IoError>;

    /// Behind the gate: has all that the row was given in its place. Answers false where something is left.
    async fn settle_source(&self) -> Result<bool, IoError>;

    /// Behind the gate: makes all that was copied durable. Answers false where the copy failed.
    async fn settle_copy(&self) -> Result<bool, IoError>;
}

impl Inner {
    /// Waits until nobody else moves the chunk. The other mover may be paused, so an end that is asked for is heard
    /// meanwhile.
    pub async fn claim(&self, chunk: u32, pace: &dyn Pace) -> Result<Claim<'_>, Ended> {
        let mut waiting = Waiting { pace, said: false };
        loop {
            if let Some(claim) = self.movement.try_claim(chunk) {
                return Ok(claim);
            }
            self.other_move(&mut waiting).await?;
        }
    }

    /// Room for another row of a chunk. What other movers have reserved comes back, or makes room elsewhere, so they
    /// are waited for.
    pub async fn reserve(&self, without: &[u16], pace: &dyn Pace) -> Result<(RowRecord, FreedRow), Ended> {
        let mut waiting = Waiting { pace, said: false };
        loop {
            match self.pool.reserve_row(self.record.id, without).await {
                Err(full) if full.kind == PoolErrorKind::NoSpace && !self.rows.provisional().is_empty() => {
                    self.other_move(&mut waiting).await?;
                }
                reserved => return Ok(reserved.map_err(IoError::from)?),
            }
        }
    }

    /// Waits until another move ends, or for some time.
    async fn other_move(&self, waiting: &mut Waiting<'_>) -> Result<(), Ended> {
        let (ended, pause) = (pin!(self.movement.ended.notified()), self.pool.env().clock.sleep(PAUSE));
        if let Either::Right(_) = select(ended, pause).await {
            waiting.say();
            waiting.pace.step(0).await?;
        }
        Ok(())
    }

    /// Copies all of it, and what is changed meanwhile, until nobody changes the row and the copy has everything,
    /// durably. Answers the gate, shut, or `None` where that cannot be done now.
    pub async fn copy_behind_gate<'a, C: Copying>(
        &'a self,
        row: &'a UsedRow,
        copying: &C,
        pace: &dyn Pace,
    ) -> Result<Option<Gate<'a>>, Ended> {
        let mut todo = copying.everything();
        let (mut pass, mut tries) = (0, 0);
        let gate = loop {
            if !copying.copy(&todo, pass > 0, pace).await? {
                return Ok(None);
            }
            todo = copying.take_changed();
            pass += 1;
            if copying.bytes(&todo) > SMALL_BYTES && pass < PASSES {
                continue;
            }
            if !copying.settle().await? {
                return Ok(None);
            }
            if let Some(gate) = self.rows.close_gate(row).await {
                break gate;
            }
            tries += 1;
            if tries == C::GATE_TRIES {
                return Ok(None);
            }
            // Other users of the row may be paused.
            pace.step(0).await?;
            self.pool.env().clock.sleep(PAUSE).await;
        };
        if !copying.settle_source().await? {
            return Ok(None);
        }
        todo.insert_all(&copying.take_changed());
        let is_copied = copying.copy(&todo, true, &Unlimited).await? && copying.settle_copy().await?;
        Ok(is_copied.then_some(gate))
    }
}

impl UsedRow {
    /// The blocks of the chunk, which has so many, that were changed since this was asked last.
    pub fn take_changed(&self, blocks: u32) -> BlockSet {
        self.changed().replace(BlockSet::new(blocks)).unwrap_or_else(|| BlockSet::new(blocks))
    }
}

/// Cuts runs of blocks into what one request copies.
pub fn cut(runs: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let most = (PIECE_BYTES / BLOCK_BYTES) as u32;
    let pieces = |(start, end): (u32, u32)| (start..end).step_by(most as usize).map(move |at| (at, end.min(at + most)));
    runs.flat_map(pieces).collect()
}
