//! Pools of hundreds of large disks: what they cost in memory and in bytes written. A binary of its own, since it
//! counts what the whole process allocates.

#[allow(dead_code)]
#[path = "../sim/common.rs"]
mod common;
mod disks;
mod scale;
mod vast;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use peak_alloc::PeakAlloc;

/// Counts what is allocated now and at most.
#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// Keeps other tests from allocating while one measures.
static MEASURING: RwLock<()> = RwLock::new(());

fn alone() -> RwLockWriteGuard<'static, ()> {
    MEASURING.write().unwrap_or_else(PoisonError::into_inner)
}

fn beside_others() -> RwLockReadGuard<'static, ()> {
    MEASURING.read().unwrap_or_else(PoisonError::into_inner)
}
