//! The words that every floor shares: ids, sizes, names, media, layouts, health and states, counts by latency, the
//! order of names, limits of service, numbers of things in words, and the one little-endian wire reader. Nothing here does I/O, reads a
//! clock or draws a random number.

pub mod bytes;
mod counted;
pub mod health;
pub mod histogram;
pub mod layout;
pub mod media;
pub mod name;
pub mod object;
pub mod order;
mod qos;
pub mod wire;

pub use bytes::ByteSize;
pub use counted::counted;
pub use health::{Condition, DiskDetail, DiskState, Health, PoolState, Reason, SpaceState};
pub use histogram::{Histogram, Latencies};
pub use layout::{Integrity, Layout, Provisioning, Shape, ShapeError};
pub use media::{Media, Place, RetirePolicy, Usage};
pub use name::{MAX_NAME_BYTES, Name, NameError, SpacePath};
pub use object::{ObjectKind, ObjectRef};
pub use order::natural_order;
pub use qos::Qos;
pub use uuid::Uuid;

/// The unit in which client data is addressed and kept whole: 4 KiB.
pub const BLOCK_BYTES: u64 = 4096;

/// A version 4 id from sixteen random bytes that the caller drew.
pub fn uuid_from_random(bytes: [u8; 16]) -> Uuid {
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}
