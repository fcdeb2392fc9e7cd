//! One change at a time. Callers put their changes into a queue; whoever gets the log takes all that wait and writes
//! them as one record to every disk in service. It counts when a quorum holds it, and only then the configuration in
//! memory follows.
//!
//! Invariant: the configuration in memory is the one at `Committer::position`, and a quorum holds it. When a quorum
//! cannot be had the pool turns read-only until the next import: nothing may build on a change of unknown fate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::IoError;
use holdfast_model::DiskState;
use holdfast_model::wire::Writer;
use tokio::sync::oneshot;

use crate::config::Change;
use crate::disk::PoolDisk;
use crate::event::{Severity, WitnessRecord};
use crate::frame::Position;
use crate::log::DiskLog;
use crate::pool::Pool;
use crate::quorum::Votes;
use crate::{PoolError, PoolErrorKind};

/// What must still hold when the changes are written.
#[derive(Clone, Debug)]
pub(crate) enum Guard {
    /// Nothing.
    None,
    /// The disk has not gone out since its outage count was this.
    StillIn(Arc<OutageMark>),
    /// As above, and the pool has it written down as in service.
    InService(Arc<OutageMark>),
    /// The disk's outage is not written down yet.
    NotRecorded(u16),
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

type Answer = Result<bool, PoolError>;

/// Changes that wait for the log.
pub(crate) struct Batch {
    changes: Vec<Change>,
    guard: Guard,
    reply: Option<oneshot::Sender<Answer>>,
}

/// The logs of all disks, held by whoever writes.
pub(crate) struct Committer {
    pub logs: BTreeMap<u16, DiskLog>,
    pub position: Position,
}

impl Pool {
    /// Writes `changes` as one. Answers whether they were made; false where the guard no longer held.
    pub(crate) async fn commit(&self, changes: Vec<Change>, guard: Guard) -> Answer {
        let (reply, mut answer) = oneshot::channel();
        self.pending.lock().expect("no panic while held").push(Batch { changes, guard, reply: Some(reply) });
        let mut committer = self.committer.lock().await;
        if let Ok(answer) = answer.try_recv() {
            return answer;
        }
        self.drain(&mut committer).await;
        answer.try_recv().unwrap_or_else(|_| Err(self.refused("its configuration")))
    }

    /// Writes everything that waits.
    pub(crate) async fn drain(&self, committer: &mut Committer) {
        loop {
            let batches = std::mem::take(&mut *self.pending.lock().expect("no panic while held"));
            if batches.is_empty() {
                return;
            }
            let (go, hold): (Vec<Batch>, Vec<Batch>) = batches.into_iter().partition(|batch| self.holds(&batch.guard));
            hold.into_iter().for_each(|batch| batch.answer(Ok(false)));
            if go.is_empty() {
                continue;
            }
            let changes: Vec<Change> = go.iter().flat_map(|batch| batch.changes.iter().cloned()).collect();
            let result = self.write(committer, &changes).await;
            if let Err(error) = &result
                && error.kind == PoolErrorKind::NoQuorum
            {
                self.refuse_changes(&error.context);
            }
            go.into_iter().for_each(|batch| batch.answer(result.clone().map(|()| true)));
        }
    }

    fn holds(&self, guard: &Guard) -> bool {
        let recorded = |index| self.state().config.disks.get(index).is_some_and(|record| record.state == DiskState::Online);
        match guard {
            Guard::None => true,
            Guard::StillIn(mark) => mark.disk.outages() == mark.outages,
            Guard::InService(mark) => mark.disk.outages() == mark.outages && recorded(&mark.disk.index),
            Guard::NotRecorded(index) => recorded(index),
        }
    }

    async fn write(&self, committer: &mut Committer, changes: &[Change]) -> Result<(), PoolError> {
        if let Some(why) = self.refusal() {
            return Err(PoolError::new(PoolErrorKind::ReadOnly, why));
        }
        let mut writer = Writer::new();
        changes.iter().for_each(|change| change.write(&mut writer));
        let payload = writer.into_bytes();
        let position = Position { sequence: committer.position.sequence + 1, ..committer.position };
        let (votes, checkpoint) = {
            let state = self.state();
            committer.logs.retain(|index, _| state.disks.get(index).is_some_and(|disk| disk.in_service()));
            let full = committer.logs.values().any(|log| !log.has_room(payload.len()));
            (Votes::of(&state.config), full.then(|| state.config.checkpoint()))
        };
        let at = committer.position;
        let writes =
            committer.logs.iter_mut().map(|(index, log)| append(*index, log, at, position, &payload, checkpoint.as_deref()));
        let results = join_all(writes).await;
        let held: BTreeSet<u16> = results.iter().filter(|(_, result)| result.is_ok()).map(|(index, _)| *index).collect();
        self.settle(&votes, changes, &held, position).await?;
        committer.position = position;
        *self.position.lock().expect("no panic while held") = position;
        self.apply(changes);
        for (index, result) in results {
            if let Err(error) = result {
                committer.logs.remove(&index);
                self.note_out(index, DiskState::Failed, &format!("its metadata log could not be written: {error}"));
            }
        }
        Ok(())
    }

    /// Makes sure that a quorum of the old and of the new voters holds `position`.
    async fn settle(&self, votes: &Votes, changes: &[Change], held: &BTreeSet<u16>, position: Position) -> Result<(), PoolError> {
        let after = votes.after(changes.iter());
        let carried = |witness| votes.carried(held, witness) && after.carried(held, witness);
        if carried(false) {
            return Ok(());
        }
        if carried(true) {
            let record = WitnessRecord { promised: position.generation, tip: position };
            if self.env.witness.store(self.id(), record).await.is_ok() {
                return Ok(());
            }
        }
        Err(PoolError::new(
            PoolErrorKind::NoQuorum,
            format!(
                "pool {} is read-only: only {} of its {} voting disks could be written; attach the missing disks and import it again",
                self.name(),
                held.len(),
                votes.disks()
            ),
        ))
    }

    /// Takes a disk out in memory at once, and queues the change that writes it down.
    fn note_out(&self, index: u16, state: DiskState, cause: &str) {
        self.go_out(index, state, cause);
        let changes = vec![Change::DiskOut { disk: index, state }];
        let batch = Batch { changes, guard: Guard::NotRecorded(index), reply: None };
        self.pending.lock().expect("no panic while held").push(batch);
    }

    /// Takes a disk out in memory: from now on nobody reads from it.
    pub(crate) fn go_out(&self, index: u16, state: DiskState, cause: &str) {
        if self.disk(index).is_some_and(|disk| disk.go_out()) {
            let next = match state {
                DiskState::Missing => "attach it again; until then the rows on it have fewer copies",
                _ => "replace it, or check cable and power and attach it again",
            };
            self.emit(Severity::Warning, format!("disk {}", self.disk_label(index)), format!("out of service: {cause}"), next);
        }
    }

    fn apply(&self, changes: &[Change]) {
        let mut state = self.state();
        for change in changes {
            let gone = match change {
                Change::Row { row, .. } => {
                    state.config.release(row);
                    None
                }
                Change::RowGone { space, chunk } => {
                    state.config.spaces.get(space).and_then(|space| space.rows.get(chunk)).cloned()
                }
                _ => None,
            };
            state.config.apply(change).expect("changes are checked before they are queued");
            if let Some(row) = gone {
                let held = state.config.reserve(&row);
                debug_assert!(held, "units just released are free");
            }
        }
    }
}

impl Batch {
    fn answer(self, answer: Answer) {
        if let Some(reply) = self.reply {
            let _ = reply.send(answer);
        }
    }
}

async fn append(
    index: u16,
    log: &mut DiskLog,
    at: Position,
    position: Position,
    payload: &[u8],
    checkpoint: Option<&[u8]>,
) -> (u16, Result<(), IoError>) {
    let write = async {
        if let Some(checkpoint) = checkpoint
            && !log.has_room(payload.len())
        {
            log.checkpoint(at, checkpoint).await?;
        }
        log.append(position, payload).await
    };
    (index, write.await)
}
