//! The one table of opens of all protocols: share modes, byte-range locks and leases of the same files, seen alike by
//! whoever serves them.
//!
//! ```text
//!   SMB ──┐    poll_open, poll_lock        Table: 256 shards by file
//!   NFS ──┼──▶ poll_begin, I/O, poll_end ─▶  └─ a file's entry: one lock, and one word that I/O loads
//!   FUSE ─┘    close, answer                      ├─ opens        what each does and lets others do
//!       ◀── Recall: breaks                        ├─ locks        NT, POSIX, flock
//!                                                 └─ leases       oplocks, leases, delegations
//! ```
//!
//! ```text
//!  table.rs     shards, acts and what they cause           seat.rs      a file's entry, and who waits there
//!  opening.rs   opens and what is in their way             closing.rs   closes, forced ones, files that go
//!  gate.rs      before and after I/O                       answering.rs answers to breaks
//!  aside.rs     opens that outlive connections             lists.rs     what is there, for people
//!  access.rs    share modes                                open.rs      an open
//!  locking.rs   locks asked for and let go of              locks.rs     the locks of a file
//!  queue.rs     locks that wait                            deadlock.rs  who waits for whom
//!  intervals.rs ranges found by what they meet             range.rs     a range
//!  leases.rs    the leases of a file                       caching.rs   the lattice of what may be cached
//!  summary.rs   the word                                   effects.rs   breaks to send, tasks to wake
//!  settings.rs  limits                                     common.rs    what files share
//!  key.rs       files, clients, owners                     error.rs     what is refused
//!  link.rs      by which name a file goes                  holders.rs   who holds locks of a file
//! ```
//!
//! It knows no protocol, keeps no time, starts no thread and does no I/O. A request that has to wait is `Pending`: its
//! [`Waiting`] holds the place, its waker is called without any lock, and it asks again. In a task:
//!
//! ```
//! # use std::{future::poll_fn, sync::Arc, time::Duration};
//! # use holdfast_opens::{Error, OpenRequest, Opening, Table, Waiting};
//! async fn open(table: &Table, request: &OpenRequest, clock: impl Fn() -> Duration) -> Result<Opening, Error> {
//!     let mut waiting = Waiting::new();
//!     poll_fn(|task| table.poll_open(request, &mut waiting, clock(), task.waker())).await
//! }
//! ```
//!
//! Invariants:
//! - No two opens exclude each other, no two locks are in each other's way, and who caches writes is alone.
//! - A break is sent before the reply to the act that caused it, whoever of several decided on it.
//! - Everything is limited ([`Settings`]), and says which limit it met.

mod access;
mod answering;
mod aside;
mod caching;
mod closing;
mod common;
mod deadlock;
mod effects;
mod error;
mod gate;
mod holders;
mod intervals;
mod key;
mod leases;
mod link;
mod lists;
mod locking;
mod locks;
mod open;
mod opening;
mod queue;
mod range;
mod seat;
mod settings;
mod summary;
mod table;

pub use access::Access;
pub use aside::{Expired, Keep, Restored};
pub use caching::{Caching, LeaseKind};
pub use closing::Deletion;
pub use effects::{Notice, Recall};
pub use error::{Error, Limit};
pub use gate::Act;
pub use key::{ClientId, FileKey, OpenId, Owner};
pub use leases::{LeaseKey, LeaseName};
pub use link::LinkName;
pub use lists::{LeaseInfo, OpenInfo};
pub use locking::{LockBy, LockRequest};
pub use locks::{LockInfo, LockKind, LockOwner};
pub use open::Link;
pub use opening::{LeaseRequest, OpenRequest, Opened, Opening};
pub use range::ByteRange;
pub use seat::Waiting;
pub use settings::Settings;
pub use table::{Counts, Seat, Table};
