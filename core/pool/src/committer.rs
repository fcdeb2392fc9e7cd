//! Changes that wait for the log, and the logs that they go to.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::PoolError;
use crate::change::Change;
use crate::disk::PoolDisk;
use crate::frame::Position;
use crate::log::DiskLog;
use crate::record::{DiskRecord, RowRecord};

/// What must still hold when the changes are written.
#[derive(Clone, Debug)]
pub(crate) enum Guard {
    /// Nothing.
    None,
    /// The disk has not gone out since its outage count was this.
    StillIn(Arc<OutageMark>),
    /// The same of several disks, which the pool has written down as in service.
    AllInService(Arc<[OutageMark]>),
    /// The same of the disk of a slab: space, chunk, index in the row.
    SlabInService(Arc<OutageMark>, u32, u32, usize),
    /// The row of a chunk of a space is as given.
    RowIs(u32, u32, Box<RowRecord>),
    /// The same, and a disk has not gone out since its outage count was this.
    RowIsAndInService(u32, u32, Box<RowRecord>, Arc<OutageMark>),
    /// The disk's outage is not written down yet.
    NotRecorded(u16),
    /// The disk's record is still this one.
    Known(Box<DiskRecord>),
}

/// A disk and its outage count at some time.
pub(crate) struct OutageMark {
    pub disk: Arc<PoolDisk>,
    pub outages: u32,
}

impl std::fmt::Debug for OutageMark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "disk {} at {}", self.disk.index, self.outages)
    }
}

pub(crate) type CommitResult = Result<bool, PoolError>;

/// Changes that wait for the log.
pub(crate) struct Batch {
    pub changes: Vec<Change>,
    pub guard: Guard,
    pub reply: Option<oneshot::Sender<CommitResult>>,
}

impl Batch {
    pub fn answer(self, answer: CommitResult) {
        if let Some(reply) = self.reply {
            let _ = reply.send(answer);
        }
    }
}

/// The logs of all disks, held by the writer.
pub(crate) struct Committer {
    pub logs: BTreeMap<u16, DiskLog>,
    pub position: Position,
    /// The sequence of the last change that each disk holds which is written to no more.
    pub left: BTreeMap<u16, u64>,
}

impl Committer {
    pub fn new(logs: BTreeMap<u16, DiskLog>, position: Position) -> Self {
        Self { logs, position, left: BTreeMap::new() }
    }

    /// Lets the log of a disk go.
    pub fn leave(&mut self, disk: u16) {
        if let Some(position) = self.logs.remove(&disk).and_then(|log| log.position()) {
            self.left.insert(disk, position.sequence);
        }
    }

    /// The last change that a disk is known to hold, and the generation whose promise its label shows.
    pub fn holds(&self, disk: u16) -> Position {
        let written = self.logs.get(&disk).and_then(DiskLog::position).map(|position| position.sequence);
        let known = written.or_else(|| self.left.get(&disk).copied());
        Position { sequence: known.unwrap_or(self.position.sequence.saturating_sub(1)), ..self.position }
    }
}
