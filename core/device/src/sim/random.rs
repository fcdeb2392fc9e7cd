//! Random numbers of the simulated world.
//!
//! Invariant: the numbers that tests draw and the numbers that the world draws come from two streams of one seed, so
//! what a test asks for does not depend on how the world happened to schedule it.

use std::sync::Arc;

use rand::distr::uniform::{SampleRange, SampleUniform};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::world::World;

/// One stream of numbers.
pub(super) struct Stream(SmallRng);

impl Stream {
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        Self(SmallRng::seed_from_u64(mix(seed, purpose)))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn chance(&mut self, times: u32, of: u32) -> bool {
        self.0.random_ratio(times, of)
    }

    /// A number below `limit`, which is not zero.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        debug_assert!(limit > 0);
        ((u128::from(self.0.next_u64()) * limit as u128) >> 64) as usize
    }

    pub(super) fn below_u64(&mut self, limit: u64) -> u64 {
        debug_assert!(limit > 0);
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

/// Stirs two numbers into one, the same on every machine.
pub(super) fn mix(left: u64, right: u64) -> u64 {
    let mut mixed = left.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ right;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The stream of numbers that a test draws from. Handles of one [`Sim`](super::Sim) share one stream.
#[derive(Clone)]
pub struct SimRandom {
    pub(super) world: Arc<World>,
}

impl SimRandom {
    /// A number within `range`.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn range<T: SampleUniform>(&self, range: impl SampleRange<T>) -> T {
        self.world.lock().tests.0.random_range(range)
    }

    /// True `times` out of `of` times.
    ///
    /// # Panics
    /// If `times` is more than `of`.
    pub fn chance(&self, times: u32, of: u32) -> bool {
        self.world.lock().tests.chance(times, of)
    }

    /// Any number.
    pub fn next_u64(&self) -> u64 {
        self.world.lock().tests.next()
    }

    /// Fills `bytes`.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.world.lock().tests.0.fill_bytes(bytes);
    }

    /// One of `items`, or none where there are none.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> Option<&'a T> {
        if items.is_empty() { None } else { items.get(self.world.lock().tests.below(items.len())) }
    }

    /// Brings `items` into a random order.
    pub fn shuffle<T>(&self, items: &mut [T]) {
        self.world.lock().tests.shuffle(items);
    }
}

impl RngCore for SimRandom {
    fn next_u32(&mut self) -> u32 {
        Self::next_u64(self) as u32
    }

    fn next_u64(&mut self) -> u64 {
        Self::next_u64(self)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.fill(bytes);
    }
}
