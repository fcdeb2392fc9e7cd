//! Volumes mounted by the kernel, over `/dev/fuse`.
//!
//! It serves any [`FileService`](holdfast_volume::service::FileService) on reactors, and knows nothing of what stands
//! behind it.
//!
//! ```text
//!   mount ─▶ mounted ─▶ connection     reads requests, a task each, answers      (a channel on each reactor)
//!                          ├─ ring         requests over io_uring, where the kernel has that
//!                          ├─ payload      memory that requests are read into
//!                          ├─ operations   requests as calls of the service
//!                          │     ├─ nodes     files that the kernel knows         (no I/O)
//!                          │     ├─ handles   open files, each an open_file       (no I/O)
//!                          │     └─ opens     the table that all protocols share  (no I/O)
//!                          ├─ waits        requests that wait for others; interrupts, leaving
//!                          ├─ mapped       what programs wrote to mapped memory, written back
//!                          ├─ deletions    files that go with their last close
//!                          └─ answer       what goes back
//!   protocol            the numbers and records of the wire                       (no I/O)
//!   named_device        a block device to mount, so that `sync` is passed on
//!   notify              what the kernel keeps is not true any more
//!   holders             who uses a mount                               (reads /proc)
//!   groups              which groups who asks is of                    (reads /proc)
//! ```
//!
//! The payload of a write is read into aligned memory and goes on by reference; what was read is sent from the buffers
//! of the service.
//!
//! Invariant: the kernel knows a file by one number for as long as it knows it, and no answer names what it does not
//! keep.

mod answer;
mod connection;
mod counters;
mod deletions;
mod error;
mod groups;
mod handles;
mod holders;
mod interrupts;
mod leaving;
mod mapped;
mod mount;
mod mounted;
mod named_device;
mod nodes;
mod notify;
mod open_file;
mod opens;
mod operations;
mod payload;
pub mod protocol;
mod ring;
mod settings;
mod waits;

pub use counters::MountStats;
pub use error::FuseError;
pub use holders::Holder;
pub use mounted::{Mounted, mount};
pub use notify::Notifier;
pub use opens::Opens;
pub use settings::MountSettings;
