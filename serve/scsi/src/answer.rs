//! What comes of a command.
//!
//! Invariant: data is sent from where the disk wrote it; only what a command makes up itself is a vector of bytes.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use holdfast_device::IoBuf;
use holdfast_device::reactor::{self, spawn_local};

use crate::fate::{Fate, Over};
use crate::sense::Sense;

/// How a command ended (SAM-5 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// It was served.
    Good = 0x00,
    /// It was not; sense data say why.
    CheckCondition = 0x02,
    /// Not now.
    Busy = 0x08,
    /// Somebody has reserved the unit.
    ReservationConflict = 0x18,
    /// Too many commands at once.
    TaskSetFull = 0x28,
    /// Another nexus had it aborted.
    TaskAborted = 0x40,
}

/// Data for the initiator.
#[derive(Debug, Default)]
pub enum DataIn {
    /// None.
    #[default]
    None,
    /// Made by the command, cut to what the CDB allows.
    Bytes(Vec<u8>),
    /// Part of a buffer that a disk has read into.
    Block {
        /// The buffer.
        buf: IoBuf,
        /// Where the data begin in it.
        start: usize,
        /// How many bytes they are.
        len: usize,
    },
}

impl DataIn {
    /// The data.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Bytes(bytes) => bytes,
            Self::Block { buf, start, len } => &buf[*start..*start + *len],
        }
    }
}

/// The answer to a command. How much of the expected data was not moved is for the transport to say.
#[derive(Debug)]
pub struct Response {
    /// How it ended.
    pub status: Status,
    /// Why, with [`Status::CheckCondition`].
    pub sense: Option<Sense>,
    /// What it read.
    pub data: DataIn,
}

impl Response {
    /// A command that was served.
    pub fn good(data: DataIn) -> Self {
        Self { status: Status::Good, sense: None, data }
    }

    /// A command that was not.
    pub fn check(sense: Sense) -> Self {
        Self { status: Status::CheckCondition, sense: Some(sense), data: DataIn::None }
    }

    /// A command that ended by a status that says all.
    pub fn status(status: Status) -> Self {
        Self { status, sense: None, data: DataIn::None }
    }
}

/// Why a command is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Check(Sense),
    Status(Status),
}

impl From<Sense> for Fault {
    fn from(sense: Sense) -> Self {
        Self::Check(sense)
    }
}

/// What a command comes to within this crate.
pub(crate) type Answer = Result<DataIn, Fault>;

/// A command under way. Dropping it aborts it: what waits for its turn never begins, and what has begun is carried to
/// its end, with nobody to hear of it: changes, since they cannot be taken back, and reads, since their buffers are held.
#[must_use = "a command that is dropped is aborted"]
pub struct Running {
    future: Option<Pin<Box<dyn Future<Output = Response>>>>,
    fate: Rc<Fate>,
    /// Whether it has effects until what had begun of it is over.
    changes: bool,
}

impl Running {
    /// A command that has no effect once it is given up.
    pub(crate) fn reading(fate: Rc<Fate>, future: impl Future<Output = Response> + 'static) -> Self {
        Self { future: Some(Box::pin(future)), fate, changes: false }
    }

    /// A command that must be carried to its end once a change of it has begun; its fate tells it to begin no more.
    pub(crate) fn changing(fate: Rc<Fate>, future: impl Future<Output = Response> + 'static) -> Self {
        Self { future: Some(Box::pin(future)), fate, changes: true }
    }

    /// Ends when it has no effect any more, also where it is dropped before.
    pub fn over(&self) -> Over {
        Over::of_effects(&self.fate)
    }

    /// Ends when it holds no buffer any more, also where it is dropped before: the disk may still be filling it then.
    pub fn gone(&self) -> Over {
        Over::of_buffers(&self.fate)
    }
}

impl Future for Running {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let future = self.future.as_mut().expect("an answered command is polled once");
        let Poll::Ready(response) = future.as_mut().poll(cx) else { return Poll::Pending };
        self.future = None;
        self.fate.leave();
        Poll::Ready(response)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        self.fate.given_up().set(true);
        if !self.changes {
            self.fate.end();
        }
        if reactor::current().is_none() {
            drop(future);
            return self.fate.leave();
        }
        let fate = self.fate.clone();
        drop(spawn_local(async move {
            drop(future.await);
            fate.leave();
        }));
    }
}

/// What a command comes to at once.
pub enum Outcome {
    /// The answer.
    Answered(Response),
    /// The answer will come.
    Later(Running),
}
