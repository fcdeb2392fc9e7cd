//! Quality of service: maximum and burst for each object and target, and a balancer between the objects on the same
//! disks.
//!
//! ```text
//!   request ─▶ limit of the target ─▶ limit of the object ─▶ balancer of the disks ─▶ object
//!              bucket.rs, limiter.rs                          balancer.rs
//! ```
//!
//! Invariants: where nothing is limited and one object alone is used, a request pays a few loads. What waits is bounded
//! by what front ends take up, waits on its own reactor, and leaves nothing behind when it is given up.

mod balancer;
mod bucket;
mod limiter;

use crate::traffic::RequestKind;

pub use balancer::{Balancer, Entry, FlowId, QueuedEntry};
pub use holdfast_model::Qos;
pub use limiter::Limiter;

/// What a request counts as one I/O for.
pub const NORMAL_BYTES: u64 = 8192;

/// What a request takes of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Normalised I/Os.
    pub ios: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl Cost {
    /// That of a request; one without a payload is one I/O, whatever its range.
    pub fn of(kind: RequestKind, bytes: u64) -> Self {
        match kind {
            RequestKind::Read | RequestKind::Write => Self { ios: bytes.div_ceil(NORMAL_BYTES).max(1), bytes },
            RequestKind::Discard | RequestKind::Flush => Self { ios: 1, bytes: 0 },
        }
    }
}
