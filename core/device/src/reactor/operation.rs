//! Storage operations in flight.
//!
//! An operation owns its buffer and holds its device open. It is continued here until it is whole: short reads and
//! writes and interrupted calls never reach the task that asked.
//!
//! ```text
//!   start ──▶ submitted ──▶ completed ──▶ taken by its OperationHandle
//!     │          ▲              └──▶ dropped, where the OperationHandle was
//!     └─ parked ─┘  while the ring, or its device, is full
//! ```
//!
//! Invariant: an operation leaves the table only after its last completion.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use io_uring::{opcode, squeue, types};
use slab::Slab;

use super::core::{Core, with_core};
use super::ring::Token;
use crate::{IoBuf, IoSlice};

/// The longest part of an operation that is asked of the kernel at once.
const LONGEST_PART: usize = 1 << 30;

/// What is done, with the memory that it needs.
pub(crate) enum Action {
    /// Fills the buffer.
    Read(IoBuf),
    /// Writes the bytes with `RWF_` flags.
    Write(IoSlice, i32),
    /// `fdatasync`.
    Sync,
    /// `fallocate` in a mode, over so many bytes.
    Allocate(i32, u64),
}

/// Who an operation is done for.
pub(crate) trait Owner: Send + Sync {
    /// Where it is done. Stays open as long as the owner lives.
    fn fd(&self) -> RawFd;

    /// An operation ended so.
    fn count(&self, action: &Action, outcome: Result<(), i32>);

    /// There is room for another operation. May start operations.
    fn finished(&self);
}

enum Stage {
    Parked,
    Submitted,
    Done(Result<(), i32>),
}

struct Operation {
    /// Until the operation has ended.
    owner: Option<Arc<dyn Owner>>,
    action: Action,
    offset: u64,
    done: usize,
    stage: Stage,
    waker: Option<Waker>,
    abandoned: bool,
}

impl Operation {
    fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.owner.as_ref().expect("not ended yet").fd());
        let at = self.offset + self.done as u64;
        match &mut self.action {
            Action::Read(buf) => {
                let part = &mut buf[self.done..];
                opcode::Read::new(fd, part.as_mut_ptr(), part.len().min(LONGEST_PART) as u32).offset(at).build()
            }
            Action::Write(data, flags) => {
                let part = &data[self.done..];
                let len = part.len().min(LONGEST_PART) as u32;
                opcode::Write::new(fd, part.as_ptr(), len).offset(at).rw_flags(*flags).build()
            }
            Action::Sync => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Action::Allocate(mode, len) => opcode::Fallocate::new(fd, *len).offset(at).mode(*mode).build(),
        }
    }

    /// Takes the kernel's answer to one part. `None`: there is more to do.
    fn advance(&mut self, result: i32) -> Option<Result<(), i32>> {
        let whole = match &self.action {
            Action::Read(buf) => buf.len(),
            Action::Write(data, _) => data.len(),
            Action::Sync | Action::Allocate(..) => 0,
        };
        match result {
            moved if moved >= 0 => {
                self.done += moved as usize;
                if self.done >= whole {
                    Some(Ok(()))
                } else if moved == 0 {
                    // The end of the file, where there should be content.
                    Some(Err(libc::ENODATA))
                } else {
                    None
                }
            }
            error if error == -libc::EINTR || error == -libc::EAGAIN => None,
            error => Some(Err(-error)),
        }
    }
}

pub(crate) struct Operations {
    table: RefCell<Slab<Operation>>,
    backlog: RefCell<VecDeque<u32>>,
    in_flight: Cell<u32>,
    /// Parked and in flight.
    unfinished: Cell<u32>,
    limit: u32,
}

impl Operations {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            table: RefCell::default(),
            backlog: RefCell::default(),
            in_flight: Cell::new(0),
            unfinished: Cell::new(0),
            limit,
        }
    }

    pub(crate) fn any_unfinished(&self) -> bool {
        self.unfinished.get() > 0
    }

    /// Drops everything that is not in the kernel, and hands out the wakers.
    pub(crate) fn clear(&self) -> Vec<Waker> {
        let table = self.table.take();
        table.into_iter().filter_map(|(_, operation)| operation.waker).collect()
    }
}

impl Core {
    /// Starts an operation; a parked one waits for [`submit_operation`](Self::submit_operation).
    pub(crate) fn start_operation(
        &self,
        owner: Arc<dyn Owner>,
        offset: u64,
        action: Action,
        parked: bool,
    ) -> OperationHandle {
        let operation = Operation {
            owner: Some(owner),
            action,
            offset,
            done: 0,
            stage: Stage::Parked,
            waker: None,
            abandoned: false,
        };
        let operations = self.operations();
        let key = operations.table.borrow_mut().insert(operation) as u32;
        operations.unfinished.set(operations.unfinished.get() + 1);
        if !parked {
            self.submit_operation(key);
        }
        OperationHandle { serial: self.serial(), key, taken: false }
    }

    /// Gives an operation to the ring, or puts it behind those that wait for room in it.
    pub(crate) fn submit_operation(&self, key: u32) {
        let operations = self.operations();
        if operations.in_flight.get() >= operations.limit {
            operations.backlog.borrow_mut().push_back(key);
            return;
        }
        operations.in_flight.set(operations.in_flight.get() + 1);
        self.push_operation(key);
    }

    fn push_operation(&self, key: u32) {
        let entry = {
            let mut table = self.operations().table.borrow_mut();
            let operation = &mut table[key as usize];
            operation.stage = Stage::Submitted;
            operation.entry()
        };
        // SAFETY: the buffer's heap memory is owned by the table until the completion, and the descriptor by the owner.
        unsafe { self.push(&entry.user_data(Token::Operation(key).pack())) };
    }

    pub(crate) fn operation_completed(&self, key: u32, result: i32) {
        let operations = self.operations();
        let (owner, waker, removed) = {
            let mut table = operations.table.borrow_mut();
            let operation = &mut table[key as usize];
            let Some(outcome) = operation.advance(result) else {
                drop(table);
                self.push_operation(key);
                return;
            };
            operation.stage = Stage::Done(outcome);
            let owner = operation.owner.take().expect("an operation ends once");
            owner.count(&operation.action, outcome);
            let waker = operation.waker.take();
            let removed = operation.abandoned.then(|| table.remove(key as usize));
            (owner, waker, removed)
        };
        operations.in_flight.set(operations.in_flight.get() - 1);
        operations.unfinished.set(operations.unfinished.get() - 1);
        let next = operations.backlog.borrow_mut().pop_front();
        if let Some(next) = next {
            self.submit_operation(next);
        }
        owner.finished();
        drop(removed);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The right to the outcome of an operation. The operation goes on when this is dropped.
pub(crate) struct OperationHandle {
    serial: u64,
    key: u32,
    taken: bool,
}

impl OperationHandle {
    /// The operation's place in its reactor's table.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }
}

impl Future for OperationHandle {
    /// The memory, and what the kernel said: an error number.
    type Output = (Action, Result<(), i32>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(!self.taken, "an outcome is taken once");
        with_core(|core| {
            assert_eq!(self.serial, core.serial(), "an operation is awaited on the reactor that started it");
            let mut table = core.operations().table.borrow_mut();
            let operation = &mut table[self.key as usize];
            if let Stage::Done(outcome) = operation.stage {
                let operation = table.remove(self.key as usize);
                self.taken = true;
                return Poll::Ready((operation.action, outcome));
            }
            match &mut operation.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                empty => *empty = Some(cx.waker().clone()),
            }
            Poll::Pending
        })
        .expect("an operation is awaited on a reactor's thread")
    }
}

impl Drop for OperationHandle {
    fn drop(&mut self) {
        let removed = with_core(|core| {
            if self.taken || self.serial != core.serial() {
                return None;
            }
            let mut table = core.operations().table.borrow_mut();
            let operation = table.get_mut(self.key as usize)?;
            operation.abandoned = true;
            let done = matches!(operation.stage, Stage::Done(_));
            done.then(|| table.remove(self.key as usize))
        });
        drop(removed);
    }
}
