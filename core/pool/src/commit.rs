//! One change at a time. Callers put their changes into a queue; the first to get the log takes all that wait and
//! writes them as one record to every disk in service. It counts when a quorum holds it and still shows this owner's
//! promise, and only then the configuration in memory follows.
//!
//! Invariant: the configuration in memory is the one at `Committer::position`, and a quorum holds it. When a quorum
//! cannot be had, or the writer is dropped in the middle, the pool turns read-only until the next import: nothing
//! may build on a change of unknown fate. Nothing is written that the configuration would not take.

use std::collections::{BTreeSet, VecDeque};

use futures_util::future::join_all;
use holdfast_model::DiskState;
use holdfast_model::wire::Writer;
use tokio::sync::oneshot;

use crate::batch::Record;
use crate::change::{Change, UNKNOWN};
use crate::committer::{Batch, CommitResult, Committer, Guard, OutageMark};
use crate::event::{Severity, WitnessRecord};
use crate::features::Features;
use crate::frame::Position;
use crate::label::Label;
use crate::log::{Checkpoint, DiskLog};
use crate::pool::Pool;
use crate::promise::{Shown, label_disk, shown};
use crate::quorum::Votes;
use crate::{PoolError, PoolErrorKind};

/// Changes are gathered into one record up to this.
const MOST_RECORD_BYTES: usize = 64 << 10;

/// What became of a record on a disk.
enum Fate {
    /// The disk holds it and shows this owner's promise.
    Held,
    /// The same, after its labels were written anew.
    Relabelled,
    /// The disk shows the promise of a later import.
    Passed(u64),
    /// The disk is of no use any more.
    Failed(String),
}

impl Pool {
    /// Waits until every change asked for so far is made or refused.
    pub async fn settled(&self) {
        let mut committer = self.committer.lock().await;
        self.drain(&mut committer).await;
    }

    /// Writes `changes` as one. Answers whether they were made; false where the guard no longer held, or where the
    /// configuration does not take them: their space, row or disk is gone, or their row is there already.
    pub(crate) async fn commit(&self, changes: Vec<Change>, guard: Guard) -> CommitResult {
        let answer = self.queue(changes, guard);
        self.answered(answer).await
    }

    /// Sees to it that queued changes are written, and gives their answer.
    pub(crate) async fn answered(&self, mut answer: oneshot::Receiver<CommitResult>) -> CommitResult {
        let mut committer = self.committer.lock().await;
        if let Ok(answer) = answer.try_recv() {
            return answer;
        }
        self.drain(&mut committer).await;
        answer.try_recv().unwrap_or_else(|_| Err(self.refused("its configuration")))
    }

    /// Writes changes that do not depend on each other, many in a record.
    pub(crate) async fn commit_each(
        &self,
        changes: impl IntoIterator<Item = (Change, Guard)>,
    ) -> Result<(), PoolError> {
        let answers: Vec<_> = changes.into_iter().map(|(change, guard)| self.queue(vec![change], guard)).collect();
        let mut committer = self.committer.lock().await;
        self.drain(&mut committer).await;
        for mut answer in answers {
            answer.try_recv().unwrap_or_else(|_| Err(self.refused("its configuration")))?;
        }
        Ok(())
    }

    /// Puts changes into the queue.
    pub(crate) fn queue(&self, changes: Vec<Change>, guard: Guard) -> oneshot::Receiver<CommitResult> {
        let (reply, answer) = oneshot::channel();
        self.pending().push_back(Batch { changes, guard, reply: Some(reply) });
        answer
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, VecDeque<Batch>> {
        self.pending.lock().expect("no panic while held")
    }

    /// Writes everything that waits. A change of the voters gets a record behind it that changes nothing: it proves to
    /// every later import that the change counted, whichever of the old voters are missing then. The witness hears of
    /// it too: a disk whose log lost its end must not find its vote among voters that are no more.
    pub(crate) async fn drain(&self, committer: &mut Committer) {
        while let Some(mut record) = self.next_record() {
            if record.batches.is_empty() {
                continue;
            }
            record.say_what_lost_disks_hold(committer);
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
        let recorded =
            |index: &u16| state.config.disks.get(index).is_some_and(|record| record.state == DiskState::Online);
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
        let begun = self.env.clock.now();
        let (votes, checkpoint) = {
            let state = self.state();
            let in_service = |index: &u16| state.disks.get(index).is_some_and(|disk| disk.in_service());
            let gone: Vec<u16> = committer.logs.keys().copied().filter(|index| !in_service(index)).collect();
            gone.into_iter().for_each(|index| committer.leave(index));
            let added =
                changes.iter().filter_map(|change| if let Change::Features(to) = change { Some(*to) } else { None });
            let features = added.fold(state.config.features, Features::with);
            let twice = features.keep_logs_twice(committer.logs.len());
            let full = committer.logs.values().any(|log| !log.has_room(payload.len(), twice));
            (Votes::of(&state.config), full.then(|| Checkpoint::new(&state.config.checkpoint(), twice)))
        };
        let at = committer.position;
        let writes = committer.logs.iter_mut().map(|(index, log)| {
            let label = self.own_label(log.place.disk, &log.place.area);
            let (payload, checkpoint) = (&payload, checkpoint.as_ref());
            async move { (*index, append(log, &label, at, position, payload, checkpoint).await) }
        });
        let fates = join_all(writes).await;
        let holds = |fate: &Fate| matches!(fate, Fate::Held | Fate::Relabelled);
        let held: BTreeSet<u16> = fates.iter().filter(|(_, fate)| holds(fate)).map(|(index, _)| *index).collect();
        let passed = |fate: &Fate| if let Fate::Passed(generation) = fate { Some(*generation) } else { None };
        let later = fates.iter().filter_map(|(_, fate)| passed(fate)).max();
        let failed = |fate: &Fate| if let Fate::Failed(why) = fate { Some(why.clone()) } else { None };
        let why = fates.iter().find_map(|(_, fate)| failed(fate));
        if let Err(error) = self.settle(&votes, changes, &held, position, why).await {
            let later = later.or_else(|| self.promised_by_witness(position));
            return Err(later.map_or(error, |generation| self.lose(generation)));
        }
        committer.position = position;
        *self.position.lock().expect("no panic while held") = position;
        *self.recorded.lock().expect("no panic while held") = begun;
        self.apply(changes);
        for (index, fate) in fates {
            match fate {
                Fate::Held => {}
                Fate::Relabelled => self.tell_relabelled(index),
                Fate::Passed(_) => {
                    committer.leave(index);
                }
                Fate::Failed(why) => {
                    committer.leave(index);
                    self.note_out(index, DiskState::Failed, &why);
                }
            }
        }
        later.into_iter().for_each(|generation| {
            self.lose(generation);
        });
        Ok(())
    }

    /// Tells that the labels of a disk were written anew.
    pub(crate) fn tell_relabelled(&self, index: u16) {
        self.emit(Severity::Warning, self.disk_object(index), "a damaged label was rewritten".into(), "watch the disk");
    }

    /// Makes sure that a quorum of the old and of the new voters holds `position`; `why` is how the first other one
    /// failed.
    async fn settle(
        &self,
        votes: &Votes,
        changes: &[Change],
        held: &BTreeSet<u16>,
        position: Position,
        why: Option<String>,
    ) -> Result<(), PoolError> {
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
                "pool {} is read-only: only {} of its {} voting disks could be written{}; attach the missing disks and import it again",
                self.name(),
                held.len(),
                votes.disks(),
                why.map_or(String::new(), |why| format!(" ({why})"))
            ),
        ))
    }

    /// Tells the witness of the last change, so that its vote counts from now on. Where disks suffice, a failure is no
    /// more than a vote less.
    pub(crate) async fn inform_witness(&self) {
        let position = *self.position.lock().expect("no panic while held");
        self.tell_witness(position).await;
    }

    /// The generation of a later import that the witness has promised itself to.
    fn promised_by_witness(&self, position: Position) -> Option<u64> {
        let known = self.env.witness.load(self.id());
        known.map(|known| known.promised).filter(|promised| *promised > position.generation)
    }

    /// Whether the witness holds `position` now. One that has promised itself to a later import does not.
    async fn tell_witness(&self, position: Position) -> bool {
        if self.promised_by_witness(position).is_some() {
            return false;
        }
        let record = WitnessRecord { promised: position.generation, tip: position };
        self.env.witness.store(self.id(), record).await.is_ok()
    }

    /// Takes a disk out in memory at once, and queues the change that writes it down.
    pub(crate) fn note_out(&self, index: u16, state: DiskState, cause: &str) {
        self.note_out_with(vec![Change::DiskOut { disk: index, state, holds: UNKNOWN }], index, state, cause);
    }

    /// The same of one that was set back: whatever its log tells when it returns, nothing on it counts that was not
    /// copied there since.
    pub(crate) fn note_set_back(&self, index: u16, cause: &str) {
        let state = DiskState::Failed;
        let out = Change::DiskOut { disk: index, state, holds: UNKNOWN };
        self.note_out_with(vec![out, Change::DiskOutdated(index)], index, state, cause);
    }

    fn note_out_with(&self, changes: Vec<Change>, index: u16, state: DiskState, cause: &str) {
        self.pending().push_back(Batch { changes, guard: Guard::NotRecorded(index), reply: None });
        self.go_out(index, state, cause);
    }

    /// Takes a disk out in memory: from now on nobody reads from it.
    pub(crate) fn go_out(&self, index: u16, state: DiskState, cause: &str) {
        if self.disk(index).is_some_and(|disk| disk.go_out()) && !self.is_lost() {
            let next = match state {
                DiskState::Missing => "attach it again; until then its data is less protected",
                _ => "replace it, or check cable and power and attach it again",
            };
            self.emit(Severity::Warning, self.disk_object(index), format!("out of service: {cause}"), next);
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
            let why = format!("pool {} is read-only: a change was interrupted; import it again", self.pool.name());
            self.pool.refuse_changes(&why);
        }
    }
}

/// Writes a record, and then sees that the disk still shows the promise of `label`.
async fn append(
    log: &mut DiskLog,
    label: &Label,
    at: Position,
    position: Position,
    payload: &[u8],
    checkpoint: Option<&Checkpoint>,
) -> Fate {
    let unwritten = |error| Fate::Failed(format!("its metadata log could not be written: {error}"));
    if let Some(checkpoint) = checkpoint
        && !log.has_room(payload.len(), checkpoint.is_twice())
    {
        // The half that it goes to may be the one that a later owner uses.
        match shown(&log.place.device, &log.place.area, label).await {
            Shown::Later(generation) => return Fate::Passed(generation),
            Shown::Strange(why) => return Fate::Failed(why),
            Shown::Own | Shown::Damaged => {}
        }
        if let Err(error) = log.checkpoint(at, checkpoint, payload.len()).await {
            return unwritten(error);
        }
    }
    if let Err(error) = log.append(position, payload).await {
        return unwritten(error);
    }
    match shown(&log.place.device, &log.place.area, label).await {
        Shown::Own => Fate::Held,
        Shown::Later(generation) => Fate::Passed(generation),
        Shown::Strange(why) => Fate::Failed(why),
        Shown::Damaged => match label_disk(&log.place.device, &log.place.area, label).await {
            Ok(()) => Fate::Relabelled,
            Err(error) => Fate::Failed(format!("its damaged labels could not be rewritten: {error}")),
        },
    }
}
