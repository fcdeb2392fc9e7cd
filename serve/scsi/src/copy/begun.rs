//! A copy operation that its command has begun, and how it ends.
//!
//! Invariant: an operation that was begun ends, also where its command is dropped.

use std::ops::Deref;
use std::sync::Arc;

use crate::answer::{Answer, DataIn, Fault, Status};
use crate::sense::{Sense, SenseKey};
use crate::task::Task;

use super::codes;
use super::operations::{Beginning, Operation, Outcome, Refusal};

/// See the module.
pub(super) struct Begun(Arc<Operation>);

impl Begun {
    /// Begins the operation of a task, which is to be known by `list`.
    pub(super) fn new(task: &Task, list: Option<u32>, action: u16, background: bool) -> Result<Self, Fault> {
        let block_bytes = task.unit().block_bytes();
        let beginning = Beginning { list, action, background, block_bytes };
        task.link.party.copies().begin(beginning).map(Self).map_err(|refusal| match refusal {
            // Identifiers of both forms of EXTENDED COPY are kept apart by another error (SPC-4 6.4.3.2).
            Refusal::InProgress(other) if other < 2 && action < 2 && other != action => Sense::list(0).into(),
            Refusal::InProgress(_) => Sense::illegal(codes::OPERATION_IN_PROGRESS).into(),
            Refusal::Full => Sense::illegal(codes::INSUFFICIENT_RESOURCES).into(),
        })
    }

    /// Ends it as its command does.
    pub(super) fn end(self, ended: Result<(), Fault>) -> Answer {
        let (status, sense) = match ended {
            Ok(()) => (Status::Good, None),
            Err(Fault::Check(sense)) => (Status::CheckCondition, Some(sense)),
            Err(Fault::Status(status)) => (status, None),
        };
        let partial = sense.is_some_and(|sense| sense.code == codes::DATA_UNDERRUN);
        self.0.finish(Outcome { status, sense, partial });
        ended.map(|()| DataIn::None)
    }

    /// Less was moved than was wanted (SBC-3 4.28.2).
    pub(super) fn underrun(&self) -> Fault {
        let moved = self.blocks();
        let key = if moved > 0 { SenseKey::CopyAborted } else { SenseKey::IllegalRequest };
        Sense::new(key, codes::DATA_UNDERRUN).about(moved).into()
    }
}

impl Deref for Begun {
    type Target = Operation;

    fn deref(&self) -> &Operation {
        &self.0
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.0.outcome().is_none() {
            self.0.finish(Outcome { status: Status::TaskAborted, sense: None, partial: false });
        }
    }
}
