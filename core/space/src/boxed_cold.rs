//! Small requests.
//!
//! Every request is a future that is allocated, moved there and freed. It is as large as the largest of what it may
//! wait for, which would be 20 KiB, so branches that few requests take are allocated when they are taken.
//!
//! Invariant: a request is no larger than [`REQUEST_BYTES`]; one that grows beyond does not compile.

use std::pin::Pin;

/// What a request takes at most: allocators serve this from a list of the thread.
pub const REQUEST_BYTES: usize = 1024;

/// A branch that few requests take, in memory of its own.
pub fn boxed_cold<F: Future>(branch: F) -> Pin<Box<F>> {
    Box::pin(branch)
}

/// `request` as it is, if it is small.
pub fn small<F: Future>(request: F) -> F {
    const { assert!(size_of::<F>() <= REQUEST_BYTES, "a branch that few requests take is to be boxed") }
    request
}
