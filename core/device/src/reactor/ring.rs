//! The io_uring of one reactor: how it is set up, filled, entered and emptied.
//!
//! Invariant: entries reach the kernel in the order in which they were pushed, and a full queue is submitted, never
//! dropped.

use std::cell::RefCell;
use std::io;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, squeue};

use super::shared::Counters;

/// What a completion belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A storage operation.
    Operation(u32),
    /// A poll of a waiting socket.
    Poll(u32),
    /// The bell.
    Bell,
    /// A cancelled poll: nobody waits for the answer.
    Nobody,
}

impl Token {
    pub(crate) fn pack(self) -> u64 {
        match self {
            Self::Operation(key) => 1 << 32 | u64::from(key),
            Self::Poll(key) => 2 << 32 | u64::from(key),
            Self::Bell => 3 << 32,
            Self::Nobody => 4 << 32,
        }
    }

    fn unpack(packed: u64) -> Self {
        match packed >> 32 {
            1 => Self::Operation(packed as u32),
            2 => Self::Poll(packed as u32),
            3 => Self::Bell,
            _ => Self::Nobody,
        }
    }
}

pub(crate) struct Ring {
    uring: RefCell<IoUring>,
}

impl Ring {
    pub(crate) fn new(entries: u32) -> io::Result<Self> {
        let build = |modern: bool| {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(entries.saturating_mul(4).clamp(256, 65_536)).setup_clamp();
            if modern {
                builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun().setup_taskrun_flag();
            }
            builder.build(entries.clamp(8, 4096))
        };
        let uring = build(true).or_else(|_| build(false)).map_err(|error| {
            let needs = "Linux 5.11, sysctl kernel.io_uring_disabled = 0, and in a container a profile that allows it";
            io::Error::new(error.kind(), format!("io_uring cannot be set up: {error}; it needs {needs}"))
        })?;
        if !uring.params().is_feature_ext_arg() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring of this kernel is too old: Linux 5.11 is needed",
            ));
        }
        Ok(Self { uring: RefCell::new(uring) })
    }

    /// # Safety
    /// Whatever `entry` points to stays valid until its completion is reaped.
    pub(crate) unsafe fn push(&self, entry: &squeue::Entry, counters: &Counters) {
        counters.submitted.add(1);
        loop {
            // SAFETY: the caller keeps what the entry points to.
            if unsafe { self.uring.borrow_mut().submission().push(entry) }.is_ok() {
                return;
            }
            self.enter(0, None).expect("a full submission queue is taken by the kernel");
        }
    }

    /// Whether the kernel should be entered: to take entries, or to post completions that it holds back.
    pub(crate) fn wants_enter(&self) -> bool {
        let mut uring = self.uring.borrow_mut();
        let submission = uring.submission();
        !submission.is_empty() || submission.taskrun() || submission.cq_overflow()
    }

    /// Submits everything, lets the kernel post completions, and waits for `want` of them or until `timeout` is over.
    pub(crate) fn enter(&self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        let mut uring = self.uring.borrow_mut();
        let to_submit = uring.submission().len() as u32;
        let submitter = uring.submitter();
        let outcome = match timeout {
            Some(timeout) if want > 0 => {
                let time = Timespec::from(timeout);
                submitter.submit_with_args(want as usize, &SubmitArgs::new().timespec(&time))
            }
            // SAFETY: no argument is passed, and the entries were vouched for when they were pushed.
            _ => unsafe { submitter.enter::<libc::sigset_t>(to_submit, want, EnterFlags::GETEVENTS.bits(), None) },
        };
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // Time is over, a signal came, or completions must be taken first: the loop goes round.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Appends the completions that are there to `into`.
    pub(crate) fn reap(&self, into: &mut Vec<(Token, i32)>) {
        into.extend(
            self.uring.borrow_mut().completion().map(|entry| (Token::unpack(entry.user_data()), entry.result())),
        );
    }
}
