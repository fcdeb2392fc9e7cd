//! A request to a simulated disk, and the answer that its sender awaits.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::content::Unfinished;
use super::latency::{Work, WorkKind};
use crate::{Durability, IoBuf, IoError, IoSlice};

/// What a disk answers: the filled buffer of a read, nothing for everything else.
pub(super) type Reply = Result<Option<IoBuf>, IoError>;

#[derive(Default)]
struct Waiting {
    reply: Option<Reply>,
    waker: Option<Waker>,
}

/// Where the reply is left and picked up.
#[derive(Clone, Default)]
pub(super) struct ReplySlot(Arc<Mutex<Waiting>>);

impl ReplySlot {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Leaves the reply, and gives whom to wake for it.
    pub(super) fn give(&self, reply: Reply) -> Option<Waker> {
        let mut waiting = self.lock();
        waiting.reply = Some(reply);
        waiting.waker.take()
    }
}

impl Future for ReplySlot {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut waiting = self.lock();
        match waiting.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => {
                waiting.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

pub(super) enum Operation {
    Read {
        offset: u64,
        buf: IoBuf,
    },
    Write {
        offset: u64,
        data: IoSlice,
        durability: Durability,
    },
    /// Covers the writes that were answered before `mark` in the disk's count of answers.
    Flush {
        mark: u64,
    },
    Discard {
        offset: u64,
        len: u64,
    },
}

impl Operation {
    pub(super) fn work(&self, request: u64) -> Work {
        let (kind, offset, len) = match self {
            Self::Read { offset, buf } => (WorkKind::Read, *offset, buf.len() as u64),
            Self::Write { offset, data, .. } => (WorkKind::Write, *offset, data.len() as u64),
            Self::Flush { .. } | Self::Discard { .. } => (WorkKind::Flush, 0, 0),
        };
        Work { request, kind, offset, len }
    }

    /// Whether it changes what is, or what is certain to stay, on the medium.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self, Self::Read { .. })
    }

    /// What is left of it where the disk stops in the middle.
    pub(super) fn unfinished(&self) -> Option<Unfinished> {
        match self {
            Self::Write { offset, data, .. } => Some(Unfinished::Write { offset: *offset, data: data.clone() }),
            Self::Discard { offset, len } => Some(Unfinished::Discard { offset: *offset, len: *len }),
            Self::Read { .. } | Self::Flush { .. } => None,
        }
    }

    /// A number that tells this operation from others, for the trace.
    pub(super) fn fingerprint(&self) -> u64 {
        match self {
            Self::Read { offset, buf } => offset.wrapping_mul(8) ^ (buf.len() as u64) << 1,
            Self::Write { offset, data, .. } => {
                let start = data.first_chunk::<16>().map_or(0, |bytes| u128::from_le_bytes(*bytes));
                offset.wrapping_mul(8) ^ (data.len() as u64) << 1 ^ (start as u64) ^ (start >> 64) as u64 ^ 1
            }
            Self::Flush { mark } => mark.wrapping_mul(8) ^ 2,
            Self::Discard { offset, len } => offset.wrapping_mul(8) ^ len << 1 ^ 3,
        }
    }
}

/// A request under way.
pub(super) struct Request {
    pub(super) operation: Operation,
    pub(super) answer: ReplySlot,
    /// Changes that a part of it has made already.
    pub(super) parts: Option<Range<u64>>,
    /// Whether it stands in the world's count of device writes.
    pub(super) counted: bool,
    /// The disk went away under it: what it still does is settled, and only the answer is missing.
    pub(super) gone: bool,
}

impl Request {
    pub(super) fn new(operation: Operation) -> Self {
        Self { operation, answer: ReplySlot::default(), parts: None, counted: false, gone: false }
    }
}
