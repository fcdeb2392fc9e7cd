//! A command on its way: what it is, whose, and with which data.
//!
//! Invariant: a task holds its work and its unit, so that neither is gone while it runs.

use std::rc::Rc;
use std::sync::Arc;

use holdfast_block::{Later, Session, Started, blocks_around};
use holdfast_device::{Durability, Io, IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;

use crate::answer::{Answer, DataIn, Fault, Outcome, Response, Running, Status};
use crate::cdb::Cdb;
use crate::device::{Link, NexusState};
use crate::fate::Fate;
use crate::party::Work;
use crate::sense::{Sense, SenseKey, code};
use crate::unit::Unit;

/// The data that a command wants from the initiator, in a buffer as the block service wants it.
#[derive(Debug)]
pub(crate) struct DataOut {
    pub(crate) buf: Option<IoBuf>,
    start: usize,
    len: usize,
}

/// How much data a command wants, and how they are to lie in their buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    start: usize,
    len: usize,
    buf_len: usize,
}

impl Wanted {
    /// A list of so many bytes.
    pub(crate) fn list(len: usize) -> Self {
        Self { start: 0, len, buf_len: len }
    }

    /// Data that lie in their buffer as they lie in the 4 KiB blocks around their place.
    pub(crate) fn blocks(offset: u64, len: u64) -> Self {
        let blocks = blocks_around(offset, len);
        let start = (offset - blocks.start) as usize;
        Self { start, len: len as usize, buf_len: (blocks.end - blocks.start) as usize }
    }
}

impl DataOut {
    pub(crate) fn new(wanted: Wanted) -> Self {
        let Wanted { start, len, buf_len } = wanted;
        Self { buf: (len > 0).then(|| IoBuf::new(buf_len)), start, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf[self.start..self.start + self.len])
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.buf.as_mut().map_or(&mut [], |buf| &mut buf[self.start..self.start + self.len])
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// No more than so many bytes came: the buffer ends with the block that they end in.
    pub(crate) fn shorten(&mut self, len: usize) {
        if len < self.len {
            self.len = len;
            let end = (self.start + len).next_multiple_of(BLOCK_BYTES as usize);
            self.buf = self.buf.take().filter(|_| len > 0);
            self.buf.iter_mut().for_each(|buf| buf.truncate(end));
        }
    }
}

/// See the module.
pub(crate) struct Task {
    pub(crate) nexus: Arc<NexusState>,
    pub(crate) cdb: Cdb,
    pub(crate) out: DataOut,
    pub(crate) fate: Rc<Fate>,
    /// Before the link, so that the block service's session is let go of before the unit.
    pub(crate) work: Arc<Work>,
    pub(crate) link: Arc<Link>,
}

impl Task {
    pub(crate) fn unit(&self) -> &Arc<Unit> {
        &self.link.unit
    }

    pub(crate) fn session(&self) -> &Session {
        &self.work.session
    }

    /// Whether nobody waits for the answer any more, and no change may begin.
    pub(crate) fn is_given_up(&self) -> bool {
        self.fate.given_up().get()
    }

    /// The outcome of a request that changes nothing, or begins no more once the task is given up.
    pub(crate) async fn finish<T: Unpin>(&self, io: Io<T>) -> Result<T, IoError> {
        self.session().finish_unless(io, self.fate.given_up()).await
    }

    /// The outcome of a change.
    pub(crate) async fn settle(&self, later: Later) -> Result<(), IoError> {
        self.session().settle_unless(later, self.fate.given_up()).await
    }

    /// The outcome of a change, from its start on.
    pub(crate) async fn settled(&self, started: Started) -> Result<(), IoError> {
        match started {
            Started::Answered(outcome) => outcome,
            Started::Later(later) => self.settle(later).await,
        }
    }

    /// A command that is a flush of its unit.
    pub(crate) fn flush(self) -> Outcome {
        let told = self.link.party.told_losses();
        match self.session().target().flush() {
            Io::Ready(Some(outcome)) => {
                let answer = self.flushed(outcome, told);
                self.answered(answer)
            }
            io => self.reading(async move |task| task.flushed(task.finish(io).await, told)),
        }
    }

    /// What a flush of its unit is to the nexus, which was told of so many losses when it began. A loss is told once to
    /// each, whoever's flush met it: another's writes may be among those that are lost.
    pub(crate) fn flushed(&self, outcome: Result<(), IoError>, told: u64) -> Answer {
        let lost = self.link.party.hears_of_losses();
        match outcome {
            Ok(()) if !lost => {
                self.link.party.note_flushed(told);
                Ok(DataIn::None)
            }
            Ok(()) => Err(Fault::Check(lost_writes())),
            Err(error) => Err(flush_fault(&error)),
        }
    }

    /// A command that an async block serves and that changes nothing.
    pub(crate) fn reading<F: Future<Output = Answer> + 'static>(
        self,
        serve: impl FnOnce(Self) -> F + 'static,
    ) -> Outcome {
        let (fate, descriptors) = (self.fate.clone(), self.unit().mode().descriptor_sense());
        Outcome::Later(Running::reading(fate, async move { response(serve(self).await, descriptors) }))
    }

    /// A command that an async block serves and that may change the unit.
    pub(crate) fn changing<F: Future<Output = Answer> + 'static>(
        self,
        serve: impl FnOnce(Self) -> F + 'static,
    ) -> Outcome {
        let (fate, descriptors) = (self.fate.clone(), self.unit().mode().descriptor_sense());
        let cached = (!self.unit().mode().writes_through()).then(|| self.link.clone());
        Outcome::Later(Running::changing(fate, async move {
            let mut answer = serve(self).await;
            if let Some(link) = cached.filter(|_| answer.is_ok()) {
                let settled = settle_cache(&link.unit, Durability::Cached).await;
                answer = answer.and_then(|data| settled.map(|()| data).map_err(|error| flush_fault(&error)));
            }
            response(answer, descriptors)
        }))
    }

    /// A command that is answered.
    pub(crate) fn answered(&self, answer: Answer) -> Outcome {
        Outcome::Answered(response(answer, self.unit().mode().descriptor_sense()))
    }
}

/// An answer as it goes out.
pub(crate) fn response(answer: Answer, descriptors: bool) -> Response {
    match answer {
        Ok(data) => Response::good(data),
        Err(Fault::Check(sense)) => Response::check(Sense { descriptors, ..sense }),
        Err(Fault::Status(status)) => Response::status(status),
    }
}

/// Data that a command made, cut to what the CDB allows.
pub(crate) fn cut(mut bytes: Vec<u8>, allowed: usize) -> Answer {
    bytes.truncate(allowed);
    Ok(if bytes.is_empty() { DataIn::None } else { DataIn::Bytes(bytes) })
}

/// How durable a command's changes must be before it is answered.
pub(crate) fn durability(fua: bool) -> Durability {
    if fua { Durability::Durable } else { Durability::Cached }
}

/// Ends changes of a unit that began with this durability: where its write cache was turned off since, they are made
/// durable.
pub(crate) async fn settle_cache(unit: &Unit, began: Durability) -> Result<(), IoError> {
    match unit.mode().writes_through() && began == Durability::Cached {
        true => Box::pin(unit.target().flush()).await,
        false => Ok(()),
    }
}

/// Initiators try again what failed by the medium, and would take the second flush for the truth: the unit is at fault.
fn lost_writes() -> Sense {
    Sense::new(SenseKey::HardwareError, code::WRITE_ERROR)
}

/// What a failed flush is to an initiator.
fn flush_fault(error: &IoError) -> Fault {
    match error.kind {
        IoErrorKind::Media | IoErrorKind::Stale => {
            tracing::debug!(%error, "a SCSI flush failed");
            Fault::Check(lost_writes())
        }
        _ => fault(error, 0, true),
    }
}

/// What a failed request is to an initiator that read or wrote at `lba`.
pub(crate) fn fault(error: &IoError, lba: u64, writing: bool) -> Fault {
    tracing::debug!(%error, lba, writing, "a SCSI command failed");
    let new = Sense::new;
    let sense = match error.kind {
        IoErrorKind::GivenUp => return Fault::Status(Status::TaskAborted),
        IoErrorKind::Media | IoErrorKind::Stale if writing => new(SenseKey::MediumError, code::WRITE_ERROR).about(lba),
        IoErrorKind::Media | IoErrorKind::Stale => new(SenseKey::MediumError, code::UNRECOVERED_READ_ERROR).about(lba),
        IoErrorKind::NoSpace => new(SenseKey::DataProtect, code::SPACE_ALLOCATION_FAILED),
        IoErrorKind::ReadOnly => new(SenseKey::DataProtect, code::WRITE_PROTECTED),
        // The object has shrunk or moved below: what was checked no longer holds.
        IoErrorKind::Invalid => Sense::illegal(code::LBA_OUT_OF_RANGE).about(lba),
        IoErrorKind::Gone => new(SenseKey::HardwareError, code::INTERNAL_FAILURE),
    };
    Fault::Check(sense)
}
