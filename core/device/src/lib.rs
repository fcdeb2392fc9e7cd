//! Disks, and everything that looks like one.
//!
//! A [`Device`] is a range of bytes that is read, written, flushed and discarded in whole 4 KiB blocks. A disk is a
//! device and a space is a device, so anything can stand on anything. Payload travels in [`IoBuf`] and [`IoSlice`]:
//! aligned, allocated once, handed on by ownership and never copied.
//!
//! ```text
//!  reactor/   thread-per-core executor, io_uring, sockets, timers     (the real world)
//!  file/      files and block devices as devices, probing through sysfs
//!  sim/       seeded executor, clock and disks that fail               (the simulated world)
//! ```
//!
//! What only some devices offer is a trait of its own: those of `capability.rs`, [`Copies`], [`Integrity`], [`Hints`].
//!
//! One invariant: a request that was started runs to its end in the device even where its future is dropped, and its
//! buffer lives until then.

pub mod buffer;
mod capability;
mod copies;
mod device;
mod error;
pub mod file;
mod hints;
mod integrity;
mod io;
pub mod loop_device;
pub mod reactor;
mod signal;
pub mod sim;
mod time;

pub use buffer::{IoBuf, IoSlice};
pub use capability::{
    BlockLimits, BlockObject, CloneRange, DiscardLimits, Extent, ExtentKind, Extents, Limits, StableId, Zeroes,
};
pub use copies::Copies;
pub use device::{Device, Durability, Geometry};
pub use error::{IoError, IoErrorKind};
pub use hints::Hints;
pub use integrity::Integrity;
pub use io::{Io, RequestTag, Watch, Watcher};
pub use signal::{Raised, Signal};
pub use time::Clock;
