//! What an owner does with a pool: its disks and the rows of its spaces.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use holdfast_device::Device;
use holdfast_model::{ByteSize, DiskState, Media, Name, Place, Provisioning, Shape, Usage, Uuid};

use crate::allot::allot;
use crate::area::Area;
use crate::commit::{Batch, Committer, Guard, OutageMark};
use crate::config::{Change, Config, DiskRecord, MAX_DISKS, RowRecord, SpaceRecord, UNKNOWN};
use crate::disk::PoolDisk;
use crate::event::{Env, Event, Severity};
use crate::features::Features;
use crate::frame::Position;
use crate::import::adopt;
use crate::journal::JOURNAL_CHUNK;
use crate::log::{Checkpoint, DiskLog, LogPlace};
use crate::promise::{Shown, label_disk, shown};
use crate::refusal::Refusal;
use crate::room::check_room;
use crate::scan::{Candidate, FoundPool, scan};
use crate::status::Judgement;
use crate::{PoolError, PoolErrorKind};

/// A pool in use.
pub struct Pool {
    pub(crate) env: Env,
    id: Uuid,
    name: Name,
    was_closed: bool,
    state: Mutex<State>,
    pub(crate) admin: tokio::sync::Mutex<()>,
    pub(crate) committer: tokio::sync::Mutex<Committer>,
    pub(crate) pending: Mutex<VecDeque<Batch>>,
    pub(crate) position: Mutex<Position>,
    /// When the last record was begun: whatever a disk was given before is older than its last record.
    pub(crate) recorded: Mutex<Duration>,
    pub(crate) refusal: Mutex<Option<Refusal>>,
    /// Whether another owner has it.
    pub(crate) lost: AtomicBool,
    /// Behind the disk whose metadata was looked at last.
    pub(crate) audited: AtomicU32,
    drawn: AtomicU64,
}

pub(crate) struct State {
    pub config: Config,
    pub disks: BTreeMap<u16, Arc<PoolDisk>>,
    pub judgements: BTreeMap<u16, Judgement>,
}

/// A space to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceSpec {
    /// Its name.
    pub name: Name,
    /// Its shape.
    pub shape: Shape,
    /// Fixed or thin.
    pub provisioning: Provisioning,
    /// Its size, a multiple of 4 KiB.
    pub size_bytes: u64,
    /// The size of its journal, for parity only; `None` leaves it to the pool.
    pub journal_bytes: Option<u64>,
    /// Whether the loss of an enclosure must be survived.
    pub enclosure_aware: bool,
}

/// What an administrator says of a disk; `None` leaves as is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskChange {
    /// Its medium, where detection is wrong.
    pub media: Option<Media>,
    /// What it may be used for.
    pub usage: Option<Usage>,
    /// Where it sits.
    pub place: Option<Place>,
}

/// The units of a row that was given back. They are free for others when this is dropped: when the last request that
/// could touch them is over.
pub struct FreedRow {
    pool: Arc<Pool>,
    row: RowRecord,
}

impl FreedRow {
    pub(crate) fn new(pool: Arc<Pool>, row: RowRecord) -> Self {
        Self { pool, row }
    }

    /// Lets them stay taken: the row has its place now.
    pub fn keep(mut self) {
        self.row.slabs = Box::default();
    }
}

impl Drop for FreedRow {
    fn drop(&mut self) {
        self.pool.state().config.release(&self.row);
    }
}

impl Pool {
    pub(crate) fn assemble(
        env: Env,
        id: Uuid,
        config: Config,
        disks: BTreeMap<u16, Arc<PoolDisk>>,
        committer: Committer,
    ) -> Arc<Self> {
        let generation = committer.position.generation;
        Arc::new(Self {
            env,
            id,
            name: config.name.clone().expect("a configuration with a name"),
            was_closed: config.closed,
            position: Mutex::new(committer.position),
            recorded: Mutex::default(),
            state: Mutex::new(State { config, disks, judgements: BTreeMap::new() }),
            admin: tokio::sync::Mutex::new(()),
            committer: tokio::sync::Mutex::new(committer),
            pending: Mutex::default(),
            refusal: Mutex::default(),
            lost: AtomicBool::new(false),
            audited: AtomicU32::new(0),
            // No two generations draw the same ids, though they may be handed the same seed.
            drawn: AtomicU64::new(generation.wrapping_mul(1 << 32)),
        })
    }

    /// Makes a pool of `disks`, whatever is on them.
    ///
    /// # Errors
    /// Disks of a wrong size, the same disk twice, or a disk that cannot be written.
    pub async fn create(env: Env, name: Name, disks: Vec<Candidate>) -> Result<Arc<Self>, PoolError> {
        Self::create_with(env, name, disks, Features::known()).await
    }

    /// The same with certain features only, so that a version that does not know the others can import it.
    ///
    /// # Errors
    /// As [`Pool::create`]; features that are not known here.
    pub async fn create_with(env: Env, name: Name, disks: Vec<Candidate>, features: Features) -> Result<Arc<Self>, PoolError> {
        crate::import::create(env, name, disks, features).await
    }

    /// Takes a found pool into use. With `force`, also where fewer disks than a quorum are here: the administrator vouches that the
    /// missing ones do not know better.
    ///
    /// # Errors
    /// No quorum; the text names every missing disk.
    pub async fn import(env: Env, found: FoundPool, force: bool) -> Result<Arc<Self>, PoolError> {
        adopt(env, found, force).await
    }

    /// Its identity.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Whether it was closed in good order before this import, so that no region can be dirty.
    pub fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// What it was handed.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Its spaces.
    pub fn spaces(&self) -> Vec<SpaceRecord> {
        self.state().config.spaces.values().map(|space| space.record.clone()).collect()
    }

    /// One of its spaces.
    pub fn space(&self, id: u32) -> Option<SpaceRecord> {
        self.state().config.spaces.get(&id).map(|space| space.record.clone())
    }

    /// One of its disks.
    pub fn disk(&self, index: u16) -> Option<Arc<PoolDisk>> {
        self.state().disks.get(&index).cloned()
    }

    /// All its disks.
    pub fn pool_disks(&self) -> Vec<Arc<PoolDisk>> {
        self.state().disks.values().cloned().collect()
    }

    /// What it remembers of a disk.
    pub fn disk_record(&self, id: Uuid) -> Option<DiskRecord> {
        self.state().config.disks.values().find(|record| record.id == id).cloned()
    }

    /// What it remembers of the state of a disk.
    pub fn disk_state(&self, index: u16) -> Option<DiskState> {
        self.state().config.disks.get(&index).map(|record| record.state)
    }

    /// Tells its owner something.
    pub fn emit(&self, severity: Severity, object: String, cause: String, next_action: &str) {
        self.env.events.emit(Event { severity, object, cause, next_action: next_action.into() });
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    pub(crate) fn disk_label(&self, index: u16) -> String {
        self.state().config.disks.get(&index).map_or_else(|| index.to_string(), |record| record.label().to_string())
    }

    pub(crate) fn draw_uuid(&self) -> Uuid {
        draw_uuid(self.env.seed, self.id.as_u128() as u64 ^ self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes a disk out of service, at once for readers, and durably when answered.
    pub async fn disk_out(&self, index: u16, state: DiskState, cause: &str) -> Result<(), PoolError> {
        // Queued first: who sees the disk out of service on another thread, and waits for the queue, finds the change there.
        let answer = self.queue(vec![Change::DiskOut { disk: index, state, holds: UNKNOWN }], Guard::NotRecorded(index));
        self.go_out(index, state, cause);
        self.answered(answer).await?;
        if self.state().config.disks.get(&index).is_some_and(|record| record.state == DiskState::Online) {
            return Err(self.refused("a disk's state"));
        }
        Ok(())
    }

    /// Lets the device of a disk that is out of service go, so that it can be opened anew, under whatever path.
    pub fn let_go(&self, index: u16) {
        if let Some(disk) = self.disk(index).filter(|disk| !disk.in_service()) {
            disk.detach();
        }
    }

    /// Waits until every change asked for so far is made or refused.
    pub async fn settled(&self) {
        let mut committer = self.committer.lock().await;
        self.drain(&mut committer).await;
    }

    /// Writes down that a slab missed a write. Does nothing to one that is needed: the last copy of its column, or one of the
    /// last slabs that a parity row can be computed from.
    pub async fn mark_stale(&self, space: u32, chunk: u32, slab: usize) -> Result<(), PoolError> {
        let change = Change::Stale { space, chunk, slab: slab as u16, stale: true };
        self.commit(vec![change], Guard::None).await.map(drop)
    }

    /// Writes down that a slab is in step again, unless its disk went out since its outage count was `outages`.
    pub async fn mark_in_step(
        &self,
        space: u32,
        chunk: u32,
        slab: usize,
        disk: &Arc<PoolDisk>,
        outages: u32,
    ) -> Result<bool, PoolError> {
        let change = Change::Stale { space, chunk, slab: slab as u16, stale: false };
        let mark = OutageMark { disk: disk.clone(), outages };
        self.commit(vec![change], Guard::SlabInService(Arc::new(mark), space, chunk, slab)).await
    }

    /// The row of a chunk, where it has one.
    pub fn row(&self, space: u32, chunk: u32) -> Option<RowRecord> {
        self.state().config.spaces.get(&space)?.rows.get(&chunk).cloned()
    }

    /// All rows of a space but those of its journal.
    pub fn rows(&self, space: u32) -> Vec<(u32, RowRecord)> {
        let state = self.state();
        let rows = state.config.spaces.get(&space).map(|space| space.data_rows(0));
        rows.into_iter().flatten().map(|(chunk, row)| (*chunk, row.clone())).collect()
    }

    /// The chunks of a space that have a row, from `from`, at most `most`, without those of its journal.
    pub fn chunks_from(&self, space: u32, from: u32, most: usize) -> Vec<u32> {
        let state = self.state();
        let rows = state.config.spaces.get(&space).map(|space| space.data_rows(from));
        rows.into_iter().flatten().take(most).map(|(chunk, _)| *chunk).collect()
    }

    /// The chunks of a space that have a stale slab on a disk that is in service, those of its journal among them. A space that a salvage
    /// made has none before it is accepted.
    pub fn stale_chunks(&self, space: u32) -> Vec<u32> {
        let state = self.state();
        let back =
            |slab: &crate::config::SlabPlace| slab.stale() && state.disks.get(&slab.disk()).is_some_and(|disk| disk.in_service());
        let accepted = state.config.spaces.get(&space).filter(|space| !space.record.read_only);
        let rows = accepted.map(|space| space.rows.iter());
        rows.into_iter().flatten().filter(|(_, row)| row.slabs.iter().any(back)).map(|(chunk, _)| *chunk).collect()
    }

    /// How many rows a space has, without those of its journal.
    pub fn row_count(&self, space: u32) -> usize {
        self.state().config.spaces.get(&space).map_or(0, |space| space.data_row_count())
    }

    /// The row of a chunk, allotted now if it has none. Callers see to it that a chunk is asked for once at a time.
    ///
    /// # Errors
    /// No room on enough disks, no quorum, or a chunk beyond the end of the space.
    pub async fn allot_row(&self, space: u32, chunk: u32) -> Result<RowRecord, PoolError> {
        let gone = || PoolError::new(PoolErrorKind::NotFound, format!("space {space} is gone"));
        if let Some(row) = self.row(space, chunk) {
            return Ok(row);
        }
        self.check_open()?;
        let row = {
            let mut state = self.state();
            let record = state.config.spaces.get(&space).map(|space| space.record.clone());
            let record = record.ok_or_else(gone)?;
            if chunk >= record.chunks() {
                return Err(PoolError::invalid(format!(
                    "space {}/{} has {} chunks, there is no chunk {chunk}",
                    self.name,
                    record.name,
                    record.chunks()
                )));
            }
            check_room(&state, 0, &[(1, record.shape)])?;
            allot(&mut state.config, &record)?
        };
        let change = Change::Row { space, chunk, row: row.clone() };
        let made = self.commit(vec![change], Guard::None).await;
        if made != Ok(true) {
            self.state().config.release(&row);
        }
        made?;
        // A slab may be stale from the start, or another task may have been faster.
        self.row(space, chunk).ok_or_else(gone)
    }

    /// Gives the row of a chunk back. Its units stay taken until the answer is dropped.
    ///
    /// # Errors
    /// No quorum, or a row of a journal: that is replaced as a whole.
    pub async fn free_row(self: &Arc<Self>, space: u32, chunk: u32) -> Result<Option<FreedRow>, PoolError> {
        if chunk >= JOURNAL_CHUNK {
            return Err(PoolError::invalid(format!("chunk {chunk} of space {space} is its journal: replace that as a whole")));
        }
        let Some(row) = self.row(space, chunk) else { return Ok(None) };
        let freed = self.commit(vec![Change::RowGone { space, chunk }], Guard::None).await?;
        Ok(freed.then(|| FreedRow::new(self.clone(), row)))
    }

    /// Adds disks, whatever is on them.
    ///
    /// # Errors
    /// Disks of a wrong size or already in the pool; none is added then.
    pub async fn add_disks(&self, disks: Vec<Candidate>) -> Result<(), PoolError> {
        let _admin = self.admin.lock().await;
        self.check_open()?;
        let mut committer = self.committer.lock().await;
        self.drain(&mut committer).await;
        let (mut next, checkpoint) = {
            let state = self.state();
            (state.config.next_disk, Checkpoint::new(&state.config.checkpoint()))
        };
        if usize::from(MAX_DISKS - next) < disks.len() {
            let message = format!("pool {} has had {next} disks, and a pool can have {MAX_DISKS} over its lifetime", self.name);
            return Err(PoolError::invalid(message).about("disks"));
        }
        refuse_twice(&disks)?;
        let mut added = Vec::new();
        for candidate in disks {
            let area = Area::of_disk(&candidate.info.path, candidate.device.geometry().size_bytes)?;
            if !DiskLog::fits(&area, checkpoint.payload_len() * 2) {
                return Err(PoolError::invalid(format!(
                    "disk {} is too small for the configuration of pool {}: add a larger one",
                    candidate.info.path, self.name
                ))
                .about("disks"));
            }
            if let Some(member) = self.member_on(&candidate).await {
                return Err(PoolError::invalid(format!(
                    "disk {} is in pool {} already, as {}: choose another disk, or wipe it if that member is gone for good",
                    candidate.info.path,
                    self.name,
                    self.disk_label(member)
                ))
                .about("disks"));
            }
            let record = new_record(next, self.draw_uuid(), &candidate, &area);
            next += 1;
            added.push((record, candidate, area));
        }
        for (record, candidate, area) in &added {
            let place = LogPlace { device: candidate.device.clone(), area: *area, pool: self.id, disk: record.id };
            let mut log = DiskLog::new(place, None);
            log.checkpoint(committer.position, &checkpoint).await?;
            label_disk(&candidate.device, area, &self.own_label(record.id, area)).await?;
            committer.logs.insert(record.index, log);
        }
        {
            let mut state = self.state();
            for (record, candidate, area) in &added {
                let disk = PoolDisk::new(record.index, record.id, *area, Some(candidate.device.clone()), self.env.clock.clone());
                state.disks.insert(record.index, Arc::new(disk));
            }
        }
        drop(committer);
        let indices: Vec<u16> = added.iter().map(|(record, ..)| record.index).collect();
        let changes = added.into_iter().map(|(record, ..)| Change::Disk(record)).collect();
        self.commit(changes, Guard::None).await?;
        // One that failed before it had a record could not be noted as failed then.
        for index in indices {
            if self.disk(index).is_some_and(|disk| !disk.in_service()) {
                self.disk_out(index, DiskState::Failed, "it failed while it was added").await?;
            }
        }
        Ok(())
    }

    /// The member that a candidate is, whatever its name.
    async fn member_on(&self, candidate: &Candidate) -> Option<u16> {
        let same = |disk: &Arc<PoolDisk>| disk.device().is_some_and(|device| Arc::ptr_eq(&device, &candidate.device));
        if let Some(disk) = self.pool_disks().iter().find(|disk| same(disk)) {
            return Some(disk.index);
        }
        let (member, _) = scan(vec![candidate.clone()]).await.alone(self.id)?;
        self.pool_disks().iter().find(|disk| disk.id == member.id).map(|disk| disk.index)
    }

    /// Changes what the pool knows of a disk; false if it knew that already.
    pub async fn set_disk(&self, id: Uuid, change: DiskChange) -> Result<bool, PoolError> {
        let _admin = self.admin.lock().await;
        loop {
            let known = self
                .disk_record(id)
                .ok_or_else(|| PoolError::new(PoolErrorKind::NotFound, format!("disk {id} is not in pool {}", self.name)))?;
            let mut record = known.clone();
            record.media = change.media.unwrap_or(record.media);
            record.usage = change.usage.unwrap_or(record.usage);
            record.place = change.place.clone().or(record.place);
            if record == known {
                return Ok(false);
            }
            // The disk may go out meanwhile; then its new record is begun from the one that says so.
            if self.commit(vec![Change::Disk(record)], Guard::Known(Box::new(known))).await? {
                return Ok(true);
            }
        }
    }

    /// Takes a member back that was out. Its slabs stay stale until their spaces have brought them in step.
    ///
    /// # Errors
    /// A disk that is not a member, or that cannot be written.
    pub async fn disk_back(&self, candidate: Candidate) -> Result<(), PoolError> {
        let _admin = self.admin.lock().await;
        let device = candidate.device.clone();
        let info = candidate.info.clone();
        let stranger = || PoolError::invalid(format!("disk {} is not a member of pool {}", info.path, self.name));
        let (member, position) = scan(vec![candidate]).await.alone(self.id).ok_or_else(stranger)?;
        let disk = self.pool_disks().into_iter().find(|disk| disk.id == member.id).ok_or_else(stranger)?;
        if member.area != disk.area {
            return Err(PoolError::invalid(format!(
                "disk {} has {} now and had {} in pool {}: restore its size, or wipe it and add it again",
                info.path,
                ByteSize(member.area.disk_bytes).beside(ByteSize(disk.area.disk_bytes)),
                ByteSize(disk.area.disk_bytes).beside(ByteSize(member.area.disk_bytes)),
                self.name
            )));
        }
        let generation = self.position.lock().expect("no panic while held").generation;
        let elsewhere = match position {
            Some(position) if self.state().config.departed_before(position) => Some(format!("changes up to {position}")),
            // Its log cannot say what it took part in, but its label does.
            None if member.promised > generation => Some(format!("a promise of generation {}", member.promised)),
            _ => None,
        };
        if let Some(what) = elsewhere {
            return Err(PoolError::damaged(format!(
                "disk {} has {what} that pool {} does not have, because one was imported with force without the other: wipe the disk and add it again if you do not want them",
                info.path, self.name
            )));
        }
        self.take_back(&disk, device, &info).await
    }

    fn record_of(&self, disk: &PoolDisk) -> Result<DiskRecord, PoolError> {
        let record = self.state().config.disks.get(&disk.index).cloned();
        record.ok_or_else(|| PoolError::damaged(format!("disk {} has no record", disk.id)))
    }

    /// Puts a disk back in service behind `device`: its log is brought up to date first, then it votes again.
    pub(crate) async fn take_back(
        &self,
        disk: &Arc<PoolDisk>,
        device: Arc<dyn Device>,
        info: &crate::scan::DiskInfo,
    ) -> Result<(), PoolError> {
        self.disk_out(disk.index, DiskState::Missing, "it is being attached again").await?;
        let label = self.own_label(disk.id, &disk.area);
        if let Shown::Later(generation) = shown(&device, &disk.area, &label).await {
            return Err(PoolError::new(
                PoolErrorKind::Conflict,
                format!(
                    "disk {} was promised to an import of pool {} as generation {generation}, and here it is generation {}: export the pool here, and import it with this disk attached",
                    info.path, self.name, label.promised
                ),
            ));
        }
        let place = LogPlace { device: device.clone(), area: disk.area, pool: self.id, disk: disk.id };
        let tip = place.find_tip().await;
        let known = self.record_of(disk)?;
        let outdated = self.is_outdated(&known, &place, tip).await;
        if outdated {
            self.refuse_needed(&known, &info.path)?;
            // Before its label and its log tell of now: after a crash nothing else would say what it was.
            self.commit(vec![Change::DiskOutdated(disk.index)], Guard::None).await?;
        }
        let mut committer = self.committer.lock().await;
        self.drain(&mut committer).await;
        self.check_open()?;
        let known = self.record_of(disk)?;
        let checkpoint = Checkpoint::new(&self.state().config.checkpoint());
        let told = known.place.clone().or_else(|| info.place.clone());
        let record = DiskRecord {
            path: info.path.clone(),
            place: told,
            state: DiskState::Online,
            voting: true,
            holds: Position::default(),
            ..known
        };
        let mut log = DiskLog::new(place, tip);
        log.checkpoint(committer.position, &checkpoint).await?;
        label_disk(&device, &disk.area, &label).await?;
        committer.logs.insert(disk.index, log);
        disk.come_back(device);
        let outages = disk.outages();
        drop(committer);
        let guard = Guard::StillIn(Arc::new(OutageMark { disk: disk.clone(), outages }));
        if !self.commit(vec![Change::Disk(record)], guard).await? {
            return Err(PoolError::new(
                PoolErrorKind::Io,
                format!("disk {} failed again while it was brought back into service", info.path),
            ));
        }
        let object = format!("disk {}", self.disk_label(disk.index));
        match outdated {
            false => self.emit(Severity::Info, object, "back in service; the writes it missed are being copied".into(), ""),
            true => {
                let cause = "back in service with an older state than it had in this pool; all its data is copied again";
                self.emit(
                    Severity::Warning,
                    object,
                    cause.into(),
                    "find out what set the disk back: a restored image, or a swapped disk",
                );
            }
        }
        Ok(())
    }

    /// Closes the pool in good order. Its spaces must be closed. Every later change is refused.
    pub async fn export(&self) -> Result<(), PoolError> {
        let _admin = self.admin.lock().await;
        self.commit(vec![Change::Closed], Guard::None).await?;
        let why = format!("pool {} is exported: import it first", self.name);
        self.refuse(Refusal { why, next_action: "", is_over: true, reopens: false });
        Ok(())
    }

    /// Wipes the labels and logs of all its disks in service. Its spaces must be closed.
    pub async fn destroy(&self) -> Result<(), PoolError> {
        let _admin = self.admin.lock().await;
        let _committer = self.committer.lock().await;
        let why = format!("pool {} is destroyed", self.name);
        self.refuse(Refusal { why, next_action: "", is_over: true, reopens: false });
        let mut failed = Vec::new();
        for disk in self.pool_disks().into_iter().filter(|disk| disk.in_service()) {
            if let Some(device) = disk.device()
                && let Err(error) = crate::import::wipe(&device).await
            {
                failed.push(format!("{} ({error})", self.disk_label(disk.index)));
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => {
                let disks = failed.join(", ");
                Err(PoolError::new(
                    PoolErrorKind::Io,
                    format!("pool {} is destroyed, but these were not wiped: {disks}", self.name),
                ))
            }
        }
    }
}

/// Refuses a list that names a disk twice, under one name or under two.
pub(crate) fn refuse_twice(disks: &[Candidate]) -> Result<(), PoolError> {
    for (at, candidate) in disks.iter().enumerate() {
        let same = |other: &&Candidate| other.info.path == candidate.info.path || Arc::ptr_eq(&other.device, &candidate.device);
        if let Some(other) = disks[..at].iter().find(same) {
            return Err(PoolError::invalid(format!(
                "disk {} is named twice, the first time as {}: name it once",
                candidate.info.path, other.info.path
            ))
            .about("disks"));
        }
    }
    Ok(())
}

pub(crate) fn new_record(index: u16, id: Uuid, candidate: &Candidate, area: &Area) -> DiskRecord {
    let info = candidate.info.clone();
    DiskRecord {
        index,
        id,
        serial: info.serial,
        model: info.model,
        path: info.path,
        media: info.media,
        usage: Usage::Auto,
        place: info.place,
        disk_bytes: area.disk_bytes,
        state: DiskState::Online,
        voting: true,
        holds: Position::default(),
    }
}

/// A version 4 id from the seed that was handed in and a number that was not used before.
pub(crate) fn draw_uuid(seed: u64, number: u64) -> Uuid {
    let mix = |value: u64| {
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    let high = mix(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let low = mix(high ^ seed.rotate_left(32) ^ number);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_le_bytes());
    bytes[8..].copy_from_slice(&low.to_le_bytes());
    holdfast_model::uuid_from_random(bytes)
}
