//! One change at a time. Callers put their changes into a queue; whoever gets the log takes all that wait and writes
//! them as one record to every disk in service. It counts when a quorum holds it, and only then the configuration in
//! memory follows.
//!
//! Invariant: the configuration in memory is the one at `Committer::position`, and a quorum holds it. When a quorum
//! cannot be had, or whoever writes is dropped in the middle, the pool turns read-only until the next import: nothing
//! may build on a change of unknown fate. Nothing is written that the configuration would not take.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::IoError;
use holdfast_model::DiskState;
use holdfast_model::wire::Writer;
use tokio::sync::oneshot;

use crate::config::{Change, Config, DiskRecord, RowRecord, SpaceRecord};
use crate::disk::PoolDisk;
use crate::event::{Severity, WitnessRecord};
use crate::frame::Position;
use crate::log::{Checkpoint, DiskLog};
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
    /// The same of several disks, which the pool has written down as in service.
    AllInService(Arc<[OutageMark]>),
    /// The same of the disk of a slab: space, chunk, index in the row.
    SlabInService(Arc<OutageMark>, u32, u32, usize),
    /// The row of a chunk of a space is as told.
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

type Answer = Result<bool, PoolError>;

/// Changes are gathered into one record up to this.
const MOST_RECORD_BYTES: usize = 64 << 10;

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
    /// Writes `changes` as one. Answers whether they were made; false where the guard no longer held, or where the
    /// configuration does not take them: their space, row or disk is gone, or their row is there already.
    pub(crate) async fn commit(&self, changes: Vec<Change>, guard: Guard) -> Answer {
        let answer = self.queue(changes, guard);
        self.answered(answer).await
    }

    /// Sees to it that queued changes are written, and gives their answer.
    pub(crate) async fn answered(&self, mut answer: oneshot::Receiver<Answer>) -> Answer {
        let mut committer = self.committer.lock().await;
        if let Ok(answer) = answer.try_recv() {
            return answer;
        }
        self.drain(&mut committer).await;
        answer.try_recv().unwrap_or_else(|_| Err(self.refused("its configuration")))
    }

    /// Writes changes that do not depend on each other, many in a record.
    pub(crate) async fn commit_each(&self, changes: impl IntoIterator<Item = (Change, Guard)>) -> Result<(), PoolError> {
        let answers: Vec<_> = changes.into_iter().map(|(change, guard)| self.queue(vec![change], guard)).collect();
        let mut committer = self.committer.lock().await;
        self.drain(&mut committer).await;
        for mut answer in answers {
            answer.try_recv().unwrap_or_else(|_| Err(self.refused("its configuration")))?;
        }
        Ok(())
    }

    /// Puts changes into the queue.
    pub(crate) fn queue(&self, changes: Vec<Change>, guard: Guard) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        self.pending().push_back(Batch { changes, guard, reply: Some(reply) });
        answer
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, VecDeque<Batch>> {
        self.pending.lock().expect("no panic while held")
    }

    /// Writes everything that waits. A change of the voters gets a record behind it that changes nothing: it proves to
    /// every later import that the change counted, whoever of the old voters is missing then. The witness hears of it too: a
    /// disk whose log lost its end must not find its vote among voters that are no more.
    pub(crate) async fn drain(&self, committer: &mut Committer) {
        while let Some(record) = self.next_record() {
            if record.batches.is_empty() {
                continue;
            }
            let abandoned = Abandoned { pool: self, armed: true };
            let votes = Votes::of(&self.state().config);
            let mut result = self.write(committer, &record.changes).await;
            if result.is_ok() && Votes::of(&self.state().config) != votes {
                let proof = self.state().config.counters();
                result = self.write(committer, &[proof]).await;
                self.inform_witness().await;
            }
            abandoned.disarm();
            if let Err(error) = &result
                && error.kind == PoolErrorKind::NoQuorum
            {
                self.refuse_changes(&error.context);
            }
            record.batches.into_iter().for_each(|batch| batch.answer(result.clone().map(|()| true)));
        }
    }

    /// Takes from what waits as much as one record may hold; `None` where nothing waits. What touches the same thing as
    /// a change before it goes into a later record, so that it is judged by what the first one made of it.
    fn next_record(&self) -> Option<Record> {
        let waiting = std::mem::take(&mut *self.pending());
        if waiting.is_empty() {
            return None;
        }
        let mut record = Record::default();
        let mut later = VecDeque::new();
        for batch in waiting {
            let apart = batch.changes.iter().all(|change| record.touched.is_apart(change));
            batch.changes.iter().for_each(|change| record.touched.add(change));
            if !apart || record.bytes >= MOST_RECORD_BYTES {
                later.push_back(batch);
            } else if self.holds(&batch.guard) && self.state().config.takes_all(&batch.changes) {
                record.take(batch);
            } else {
                batch.answer(Ok(false));
            }
        }
        record.mark_slabs_of_lost_disks(&self.state().config);
        let mut pending = self.pending();
        while let Some(batch) = later.pop_back() {
            pending.push_front(batch);
        }
        Some(record)
    }

    fn holds(&self, guard: &Guard) -> bool {
        let state = self.state();
        let recorded = |index: &u16| state.config.disks.get(index).is_some_and(|record| record.state == DiskState::Online);
        let in_service = |mark: &OutageMark| mark.disk.outages() == mark.outages && recorded(&mark.disk.index);
        let row = |space, chunk| state.config.spaces.get(space).and_then(|space| space.rows.get(chunk));
        match guard {
            Guard::None => true,
            Guard::StillIn(mark) => mark.disk.outages() == mark.outages,
            Guard::AllInService(marks) => marks.iter().all(in_service),
            Guard::SlabInService(mark, space, chunk, slab) => {
                let place = row(space, chunk).and_then(|row| row.slabs.get(*slab));
                in_service(mark) && place.is_some_and(|place| place.disk() == mark.disk.index)
            }
            Guard::RowIs(space, chunk, known) => row(space, chunk) == Some(known),
            Guard::RowIsAndInService(space, chunk, known, mark) => row(space, chunk) == Some(known) && in_service(mark),
            Guard::NotRecorded(index) => recorded(index),
            Guard::Known(known) => state.config.disks.get(&known.index) == Some(known),
        }
    }

    async fn write(&self, committer: &mut Committer, changes: &[Change]) -> Result<(), PoolError> {
        self.check_open()?;
        let mut writer = Writer::new();
        changes.iter().for_each(|change| change.write(&mut writer));
        let payload = writer.into_bytes();
        let position = Position { sequence: committer.position.sequence + 1, ..committer.position };
        let (votes, checkpoint) = {
            let state = self.state();
            committer.logs.retain(|index, _| state.disks.get(index).is_some_and(|disk| disk.in_service()));
            let full = committer.logs.values().any(|log| !log.has_room(payload.len()));
            (Votes::of(&state.config), full.then(|| Checkpoint::new(&state.config.checkpoint())))
        };
        let at = committer.position;
        let writes =
            committer.logs.iter_mut().map(|(index, log)| append(*index, log, at, position, &payload, checkpoint.as_ref()));
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
        if carried(true) && self.tell_witness(position).await {
            return Ok(());
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

    /// Tells the witness of the last change, so that its vote counts from now on. Where disks suffice, a failure is no more
    /// than a vote less.
    pub(crate) async fn inform_witness(&self) {
        let position = *self.position.lock().expect("no panic while held");
        self.tell_witness(position).await;
    }

    /// Whether the witness holds `position` now. One that has promised itself to a later import does not.
    async fn tell_witness(&self, position: Position) -> bool {
        let known = self.env.witness.load(self.id());
        if known.is_some_and(|known| known.promised > position.generation) {
            return false;
        }
        let record = WitnessRecord { promised: position.generation, tip: position };
        self.env.witness.store(self.id(), record).await.is_ok()
    }

    /// Takes a disk out in memory at once, and queues the change that writes it down.
    pub(crate) fn note_out(&self, index: u16, state: DiskState, cause: &str) {
        let changes = vec![Change::DiskOut { disk: index, state }];
        let batch = Batch { changes, guard: Guard::NotRecorded(index), reply: None };
        self.pending().push_back(batch);
        self.go_out(index, state, cause);
    }

    /// Takes a disk out in memory: from now on nobody reads from it.
    pub(crate) fn go_out(&self, index: u16, state: DiskState, cause: &str) {
        if self.disk(index).is_some_and(|disk| disk.go_out()) {
            let next = match state {
                DiskState::Missing => "attach it again; until then what lies on it is less protected",
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
            state.config.apply(change).expect("changes are checked before they are written");
            if let Change::DiskGone(disk) = change
                && let Some(disk) = state.disks.remove(disk)
            {
                disk.go_out();
            }
            if let Some(row) = gone {
                let held = state.config.reserve(&row);
                debug_assert!(held, "units just released are free");
            }
        }
    }
}

/// Turns the pool read-only if a write is dropped before its end: what the disks hold is not known then, and requests
/// of it may still be under way.
struct Abandoned<'a> {
    pool: &'a Pool,
    armed: bool,
}

impl Abandoned<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if self.armed {
            let why =
                format!("pool {} is read-only: a change of it was given up in the middle; import it again", self.pool.name());
            self.pool.refuse_changes(&why);
        }
    }
}

/// Batches that are written together.
#[derive(Default)]
struct Record {
    batches: Vec<Batch>,
    changes: Vec<Change>,
    bytes: usize,
    touched: Touched,
}

impl Record {
    fn take(&mut self, mut batch: Batch) {
        let changes = std::mem::take(&mut batch.changes);
        let mut writer = Writer::new();
        changes.iter().for_each(|change| change.write(&mut writer));
        self.bytes += writer.len();
        self.changes.extend(changes);
        self.batches.push(batch);
    }

    /// A row whose disk went out after it was allotted has missed whatever that disk's outage stands for.
    fn mark_slabs_of_lost_disks(&mut self, config: &Config) {
        let going: BTreeSet<u16> = (self.changes.iter())
            .filter_map(|change| if let Change::DiskOut { disk, .. } = change { Some(*disk) } else { None })
            .collect();
        let online = |disk: u16| config.disks.get(&disk).is_some_and(|record| record.state == DiskState::Online);
        let mut marks = Vec::new();
        for change in &self.changes {
            let Change::Row { space, chunk, row } = change else { continue };
            let lost = row.slabs.iter().enumerate().filter(|(_, slab)| going.contains(&slab.disk()) || !online(slab.disk()));
            marks.extend(lost.map(|(slab, _)| Change::Stale { space: *space, chunk: *chunk, slab: slab as u16, stale: true }));
        }
        self.changes.extend(marks);
    }
}

/// What the changes of a record are about.
#[derive(Default)]
struct Touched {
    rows: BTreeSet<(u32, u32)>,
    spaces: BTreeSet<u32>,
    spaces_of_rows: BTreeSet<u32>,
    disks: BTreeSet<u16>,
    disk_gone: bool,
}

impl Touched {
    fn is_apart(&self, change: &Change) -> bool {
        match change {
            Change::Row { space, chunk, .. } | Change::RowGone { space, chunk } | Change::Stale { space, chunk, .. } => {
                !self.rows.contains(&(*space, *chunk)) && !self.spaces.contains(space) && !self.disk_gone
            }
            Change::Space(SpaceRecord { id, .. }) | Change::SpaceGone(id) => {
                !self.spaces.contains(id) && !self.spaces_of_rows.contains(id)
            }
            Change::Disk(DiskRecord { index, .. }) | Change::DiskOut { disk: index, .. } => !self.disks.contains(index),
            // Rows that come or go decide whether it may.
            Change::DiskGone(index) => !self.disks.contains(index) && self.rows.is_empty() && self.spaces.is_empty(),
            Change::Pool(_)
            | Change::Features(_)
            | Change::Opened
            | Change::Closed
            | Change::Counters { .. }
            | Change::LossPolicy(_)
            | Change::Forced { .. } => true,
        }
    }

    fn add(&mut self, change: &Change) {
        match change {
            Change::Row { space, chunk, .. } | Change::RowGone { space, chunk } | Change::Stale { space, chunk, .. } => {
                self.rows.insert((*space, *chunk));
                self.spaces_of_rows.insert(*space);
            }
            Change::Space(SpaceRecord { id, .. }) | Change::SpaceGone(id) => {
                self.spaces.insert(*id);
            }
            Change::Disk(DiskRecord { index, .. }) | Change::DiskOut { disk: index, .. } => {
                self.disks.insert(*index);
            }
            Change::DiskGone(index) => {
                self.disks.insert(*index);
                self.disk_gone = true;
            }
            Change::Pool(_)
            | Change::Features(_)
            | Change::Opened
            | Change::Closed
            | Change::Counters { .. }
            | Change::LossPolicy(_)
            | Change::Forced { .. } => {}
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
    checkpoint: Option<&Checkpoint>,
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
