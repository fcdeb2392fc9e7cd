//! Who moves which chunk of a space now.
//!
//! Invariant: a chunk is moved by one mover at a time, and by none while rows are held still.

use std::collections::BTreeSet;

use tokio::sync::Notify;

use crate::lock_order::{Lock, rank};

/// The moves of a space.
#[derive(Default)]
pub struct Movement {
    /// Chunks that are being moved.
    claims: Lock<{ rank::LISTS }, Claims>,
    /// Called when a claim ends: others may wait for that chunk.
    pub ended: Notify,
}

#[derive(Default)]
struct Claims {
    chunks: BTreeSet<u32>,
    /// Set while nothing may be moved.
    still: bool,
}

/// While it lives, nobody else moves the chunk.
pub struct Claim<'a> {
    movement: &'a Movement,
    chunk: u32,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.movement.claims.lock().chunks.remove(&self.chunk);
        self.movement.ended.notify_waiters();
    }
}

/// While it lives, nothing is moved.
pub struct Still<'a>(&'a Movement);

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.claims.lock().still = false;
        self.0.ended.notify_waiters();
    }
}

impl Movement {
    /// Takes a chunk, if nobody moves it and rows are not held still.
    pub fn try_claim(&self, chunk: u32) -> Option<Claim<'_>> {
        let mut claims = self.claims.lock();
        let is_free = !claims.still && claims.chunks.insert(chunk);
        is_free.then(|| Claim { movement: self, chunk })
    }

    /// Keeps everything from being moved, if nothing is.
    pub fn try_hold_still(&self) -> Option<Still<'_>> {
        let mut claims = self.claims.lock();
        let is_free = !claims.still && claims.chunks.is_empty();
        claims.still |= is_free;
        is_free.then(|| Still(self))
    }
}
