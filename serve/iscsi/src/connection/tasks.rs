//! The tasks of a session that are not answered yet.
//!
//! Invariant: a tag is one task's at a time, and a task that is taken out of the table is never answered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::RandomState;
use holdfast_device::reactor::JoinHandle;
use holdfast_scsi::{Over, Prepared};

use crate::memory::Share;
use crate::transfer::Transfer;

/// What is known of a command from its header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) tag: u32,
    pub(super) lun: u64,
    pub(super) cmd_sn: u32,
    pub(super) immediate: bool,
    /// Bytes that the initiator means to receive.
    pub(super) read_len: u32,
    /// Bytes that it means to send.
    pub(super) write_len: u32,
    /// Bytes that the command wants of it.
    pub(super) wants: u64,
}

/// A command that gathers its data, or waits for its turn.
pub(super) struct Gathering {
    pub(super) command: Command,
    pub(super) prepared: Prepared,
    pub(super) share: Share,
    pub(super) transfer: Transfer,
    /// It waits for commands before it.
    pub(super) early: bool,
    /// When it came, or a little before.
    pub(super) since: Duration,
}

/// A task.
pub(super) enum Task {
    Gathering(Box<Gathering>),
    Running(Command, JoinHandle<()>, Over),
}

impl Task {
    pub(super) fn command(&self) -> &Command {
        match self {
            Self::Gathering(gathering) => &gathering.command,
            Self::Running(command, ..) => command,
        }
    }
}

/// The table.
#[derive(Default)]
pub(super) struct Tasks(RefCell<HashMap<u32, Task, RandomState>>);

impl Tasks {
    pub(super) fn has(&self, tag: u32) -> bool {
        self.0.borrow().contains_key(&tag)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    pub(super) fn insert(&self, task: Task) {
        self.0.borrow_mut().insert(task.command().tag, task);
    }

    pub(super) fn remove(&self, tag: u32) -> Option<Task> {
        self.0.borrow_mut().remove(&tag)
    }

    /// Takes a task out that gathers data.
    pub(super) fn take_gathering(&self, tag: u32) -> Option<Box<Gathering>> {
        let mut tasks = self.0.borrow_mut();
        match tasks.remove(&tag)? {
            Task::Gathering(gathering) => Some(gathering),
            running => {
                tasks.insert(tag, running);
                None
            }
        }
    }

    /// Of the commands that wait for data or for their turn: since when the first does, and how much data is missing.
    pub(super) fn owed(&self) -> Option<(Duration, u64)> {
        let tasks = self.0.borrow();
        let gathering = tasks.values().filter_map(|task| match task {
            Task::Gathering(gathering) => Some((gathering.since, gathering.transfer.missing().into())),
            Task::Running(..) => None,
        });
        gathering.reduce(|one, other| (one.0.min(other.0), one.1 + other.1))
    }

    /// Takes all out that are of a unit, or all.
    pub(super) fn take(&self, lun: Option<u64>) -> Vec<Task> {
        let mut tasks = self.0.borrow_mut();
        tasks.extract_if(|_, task| lun.is_none_or(|lun| task.command().lun == lun)).map(|(_, task)| task).collect()
    }
}
