//! What an act causes outside of the table: breaks to send, tasks to wake.
//!
//! Invariant: effects are gathered under a file's lock and carried out after it was let go of. Until the breaks of an act
//! are sent, the file counts them as unsent, and no reply that relies on them is given.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::caching::{Caching, LeaseKind};
use crate::common::Common;
use crate::key::{ClientId, FileKey, OpenId};
use crate::leases::LeaseName;

/// A mutex is as good after a panic as before: what is under it is changed in steps that cannot fail.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A break, as its client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The file.
    pub file: FileKey,
    /// Whose it was.
    pub client: ClientId,
    /// Which of its leases.
    pub lease: LeaseName,
    /// Its kind.
    pub kind: LeaseKind,
    /// What was held.
    pub from: Caching,
    /// What may be kept.
    pub to: Caching,
    /// Its epoch from now on (MS-SMB2 2.2.23.2).
    pub epoch: u16,
    /// Whether an answer is waited for; otherwise it is as the break says from now on.
    pub answer: bool,
    /// Whether the client took too long to answer, and lost it.
    pub revoked: bool,
}

/// Tells a client what the table takes from it. It is called without any lock of the table; it must not block, and hands
/// on what it is given in the order in which it is called.
pub trait Recall: Send + Sync {
    /// A lease is broken.
    fn broken(&self, notice: &Notice);

    /// An open was closed by somebody else.
    fn closed(&self, file: FileKey, open: OpenId);
}

/// What somebody is told.
pub(crate) enum Message {
    Broken(Notice),
    Closed(FileKey, OpenId),
}

/// An act on a file: what it has at hand, and what it causes.
pub(crate) struct Context<'a> {
    pub common: &'a Common,
    pub file: FileKey,
    pub now: Duration,
    pub messages: Vec<(Arc<dyn Recall>, Message)>,
    pub wake: Vec<Waker>,
    /// Something may be possible now that was not.
    pub released: bool,
    /// Locks changed.
    pub relocked: bool,
    /// A time limit began or ended.
    pub timed: bool,
    /// The number of the breaks among the file's.
    pub batch: u64,
}

impl<'a> Context<'a> {
    pub fn new(common: &'a Common, file: FileKey, now: Duration) -> Self {
        let (messages, wake) = (Vec::new(), Vec::new());
        Self { common, file, now, messages, wake, released: false, relocked: false, timed: false, batch: 0 }
    }

    /// When a break that begins now runs out of time.
    pub fn break_ends(&self) -> Duration {
        self.now + self.common.settings.break_timeout
    }

    /// Carries the messages out.
    pub fn tell(&mut self) {
        for (recall, message) in self.messages.drain(..) {
            match message {
                Message::Broken(notice) => recall.broken(&notice),
                Message::Closed(file, open) => recall.closed(file, open),
            }
        }
    }
}
