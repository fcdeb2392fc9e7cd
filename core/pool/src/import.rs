//! How a pool comes into being: made from disks, or found on them and imported.
//!
//! An import first writes its promise, a new generation, into the labels of a majority, then sees that their logs end
//! where they were found to end, and only then appends. So an earlier owner that still runs, or an import that was cut
//! short, can never add to a history that this one continues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_model::{DiskState, Name, ObjectKind, ObjectRef, Uuid};

use crate::admission::{Admission, Electorate};
use crate::area::Area;
use crate::candidate::{Candidate, new_record, refuse_twice};
use crate::change::Change;
use crate::committer::{Committer, Guard};
use crate::config::Config;
use crate::disk::PoolDisk;
use crate::ending::wipe;
use crate::event::{Env, Severity, WitnessRecord};
use crate::features::Features;
use crate::frame::Position;
use crate::label::Label;
use crate::log::{Checkpoint, DiskLog, LogPlace, Tip};
use crate::pool::{Pool, draw_uuid};
use crate::promise::{Raised, label_disk, raise};
use crate::reading::adopt_for_reading;
use crate::record::{DiskRecord, RowRecord};
use crate::scan::{FoundPool, Member, OpenChange, scan};
use crate::{PoolError, PoolErrorKind};

/// How often the disks are looked at anew where somebody else wrote to them meanwhile.
const MOST_LOOKS: u32 = 4;
/// No two imports promise the same: their generations are apart by a random number, below this.
const APART: u64 = 1 << 16;
/// A forced import may run beside others that nobody here knows of: it is ahead of them by so much, and by a random
/// number below it.
const FORCED_APART: u64 = 1 << 32;

pub(crate) async fn create(
    env: Env,
    name: Name,
    disks: Vec<Candidate>,
    features: Features,
) -> Result<Arc<Pool>, PoolError> {
    if disks.is_empty() {
        return Err(PoolError::invalid(format!("pool {name} needs at least one disk")).about("disks"));
    }
    refuse_twice(&disks)?;
    let id = draw_uuid(env.seed, env.clock.now().as_nanos() as u64);
    let mut config = Config { next_row: 1, next_space: 1, ..Config::default() };
    let mut members = Vec::new();
    let impossible = |error| PoolError::damaged(format!("pool {id}: {error}"));
    config.apply(&Change::Pool(name.clone())).map_err(impossible)?;
    config.apply(&Change::Features(features)).map_err(impossible)?;
    for (index, candidate) in disks.into_iter().enumerate() {
        let area = Area::of_disk(&candidate.info.path, candidate.device.geometry().size_bytes)?;
        let record =
            new_record(index as u16, draw_uuid(env.seed ^ id.as_u128() as u64, index as u64 + 1), &candidate, &area);
        config.apply(&Change::Disk(record.clone())).map_err(impossible)?;
        members.push((record, candidate, area));
    }
    let position = Position { generation: 1, sequence: 1 };
    let checkpoint = Checkpoint::of(&config);
    let starts = members.iter().map(|(record, candidate, area)| async {
        wipe(&candidate.device).await?;
        let place = LogPlace { device: candidate.device.clone(), area: *area, pool: id, disk: record.id };
        let mut log = DiskLog::new(place, None);
        log.checkpoint(position, &checkpoint, 0).await?;
        Ok::<_, PoolError>((record.index, log))
    });
    let logs = join_all(starts).await.into_iter().collect::<Result<BTreeMap<_, _>, _>>()?;
    let mut pool_disks = BTreeMap::new();
    for (record, candidate, area) in &members {
        let label =
            Label { pool: id, disk: record.id, disk_bytes: area.disk_bytes, promised: position.generation, features };
        label_disk(&candidate.device, area, &label).await?;
        let disk = PoolDisk::new(record.index, record.id, *area, Some(candidate.device.clone()), env.clock.clone());
        pool_disks.insert(record.index, Arc::new(disk));
    }
    let pool = Pool::assemble(env, id, config, pool_disks, Committer::new(logs, position));
    pool.commit(vec![Change::Opened], Guard::None).await?;
    pool.inform_witness().await;
    Ok(pool)
}

/// Takes a found pool into use. Where somebody wrote to its disks since it was found, it is looked for anew.
pub(crate) async fn adopt(env: Env, mut found: FoundPool, force: bool) -> Result<Arc<Pool>, PoolError> {
    let (id, name) = (found.id, found.name());
    for _ in 0..MOST_LOOKS {
        let candidates = found.members.iter().map(|member| member.candidate.clone()).collect();
        if let Some(pool) = take_over(env.clone(), found, force).await? {
            return Ok(pool);
        }
        let again = scan(candidates).await.pools.into_iter().find(|found| found.id == id);
        found = again
            .ok_or_else(|| PoolError::damaged(format!("pool {name} changed while it was imported: import it again")))?;
    }
    Err(PoolError::new(
        PoolErrorKind::Conflict,
        format!("pool {name} is in use: another owner wrote to its disks while it was imported; export it there first"),
    ))
}

/// The same; `None` where a disk is not as it was found any more.
async fn take_over(env: Env, mut found: FoundPool, force: bool) -> Result<Option<Arc<Pool>>, PoolError> {
    let (id, position) = (found.id, found.position);
    let by_id = found.numbers();
    let witness = env.witness.load(id);
    let electorate = Electorate::of(&mut found, witness);
    let set_back = set_back(&found, &by_id).await;
    let numbered = || found.members.iter().filter_map(|member| Some((*by_id.get(&member.id)?, member)));
    let knows = |(index, member): &(u16, &Member)| member.tip.is_some() && !set_back.contains_key(index);
    let mut admission = Admission {
        electorate,
        present: numbered().filter(knows).map(|(index, _)| index).collect(),
        unreadable: numbered().filter(|(_, member)| member.tip.is_none()).map(|(index, _)| index).collect(),
        witness,
        force: false,
    };
    let lacking = admission.lacking(&found);
    if lacking.is_some() && found.has_moved().await {
        return Ok(None);
    }
    admission.force = force && admission.check(&found).is_err();
    admission.check(&found)?;
    let may_lack_last = found.may_lack_last();
    let unknown = found.unknown_read_only();
    if unknown != 0 {
        return adopt_for_reading(env, found, unknown).map(Some);
    }
    let force = admission.force;

    let promised = found.members.iter().map(|member| member.promised).max().unwrap_or(0);
    let highest = promised.max(position.generation).max(witness.map_or(0, |witness| witness.promised));
    let random = draw_uuid(env.seed, highest).as_u128() as u64;
    let step = if force { FORCED_APART + random % FORCED_APART } else { 1 + random % APART };
    let generation = highest.checked_add(step).ok_or_else(|| {
        PoolError::damaged(format!("pool {id} has the impossible generation {highest}: detach the disk with it"))
    })?;

    // The witness promises first: were it last, a power cut between would leave it behind half a pool that needs it.
    // What it knows of the last change stays: the disks that are behind do not hold a later one yet.
    let has_witness = admission.has_witness(&found);
    let tip = witness.filter(|_| has_witness).map_or(position, |witness| witness.tip);
    if env.witness.load(id) != witness {
        return Ok(None);
    }
    let is_stored = env.witness.store(id, WitnessRecord { promised: generation, tip }).await.is_ok();
    let witness_held = is_stored && has_witness;
    let features = found.config.features;
    // The label of a disk that was set back, and of one that returns, goes on telling what it was until all its slabs
    // are marked.
    let returns =
        |index: &u16| found.config.disks.get(index).is_some_and(|disk| disk.state != DiskState::Online && !disk.voting);
    let keeps_label = |index: &u16| set_back.contains_key(index) || returns(index);
    let kept: BTreeSet<u16> = numbered().map(|(index, _)| index).filter(keeps_label).collect();
    let promises = numbered().filter(|(index, _)| !kept.contains(index)).map(|(index, member)| async move {
        let label =
            Label { pool: id, disk: member.id, disk_bytes: member.area.disk_bytes, promised: generation, features };
        (index, raise(&member.log(id), member.tip, &label).await)
    });
    let raised = join_all(promises).await;
    if raised.iter().any(|(_, raised)| *raised == Raised::Overtaken) {
        return Ok(None);
    }
    let held: BTreeSet<u16> =
        raised.iter().filter(|(_, raised)| *raised == Raised::Held).map(|(index, _)| *index).collect();
    admission.present = admission.present.intersection(&held).copied().collect();
    if !admission.electorate.carried(&admission.present, witness_held) && !force {
        return Err(admission.no_quorum(&found.config));
    }

    let FoundPool { config, members, open_change, .. } = found;
    let strangers = members.iter().filter(|member| config.disks.values().all(|record| record.id != member.id));
    let strangers: Vec<String> = strangers.map(|member| member.candidate.info.path.clone()).collect();
    let members: BTreeMap<u16, Member> =
        members.into_iter().filter_map(|member| Some((*by_id.get(&member.id)?, member))).collect();
    let mut disks = BTreeMap::new();
    let mut logs = BTreeMap::new();
    let mut returned = Vec::new();
    for record in config.disks.values() {
        let is_ours = |index: &u16| held.contains(index) || kept.contains(index);
        let member = members.get(&record.index).filter(|_| is_ours(&record.index));
        let area = Area::of_disk(record.label(), record.disk_bytes)?;
        let in_step = record.state == DiskState::Online && !set_back.contains_key(&record.index);
        let device = member.map(|member| member.candidate.device.clone());
        let attached = device.clone().filter(|_| in_step);
        disks.insert(record.index, Arc::new(PoolDisk::new(record.index, record.id, area, attached, env.clock.clone())));
        let (Some(member), Some(device)) = (member, device) else { continue };
        if !in_step {
            returned.push((record.index, device, member.candidate.info.clone()));
            continue;
        }
        let place = LogPlace { device, area, pool: id, disk: record.id };
        logs.insert(record.index, DiskLog::new(place, member.tip));
    }
    // Those that the open change takes out have a say in whether it counts, and nothing else any more.
    let leaving = members.iter().filter(|(index, _)| !config.disks.contains_key(index) && held.contains(index));
    for (index, member) in leaving {
        logs.insert(*index, DiskLog::new(member.log(id), member.tip));
    }
    let repaired = catch_up(&mut logs, &config, position, open_change).await;
    let holders: BTreeSet<u16> = logs.keys().copied().collect();
    if !admission.electorate.carried(&holders, witness_held) && !force {
        return Err(admission.no_quorum(&config));
    }
    logs.retain(|index, _| config.disks.contains_key(index));
    let holders: BTreeSet<u16> = logs.keys().copied().collect();
    let absent: Vec<Absent> = (config.disks.values())
        .filter(|record| record.state == DiskState::Online && !holders.contains(&record.index))
        .map(|record| Absent { disk: record.index, log: set_back.get(&record.index).copied() })
        .collect();
    let damaged_labels: Vec<u16> =
        holders.iter().copied().filter(|index| members[index].labels_whole != [true; 2]).collect();
    let damaged_copies: Vec<u16> = (holders.iter().copied())
        .filter(|index| members.get(index).is_some_and(|member| !member.log_whole) && !repaired.contains(index))
        .collect();
    let damaged_logs: Vec<u16> = repaired.into_iter().filter(|index| holders.contains(index)).collect();
    let (surplus, surplus_rows) = surplus(&config);
    let started = Position { generation, sequence: position.sequence };
    let pool = Pool::assemble(env, id, config, disks, Committer::new(logs, started));
    pool.open_generation(&absent, position, force).await?;
    let moves = moved(&pool.state().config, &members);
    pool.commit_each(surplus.into_iter().map(|change| (change, Guard::None)).chain(moves)).await?;
    surplus_rows.iter().for_each(|row| pool.state().config.release(row));
    pool.inform_witness().await;
    let label = "a damaged label was rewritten";
    let log = "its metadata log was out of date or damaged and was rewritten";
    let copy = "a copy of its metadata log was damaged and was written anew";
    if let Some(why) = lacking {
        let cause = format!("{why}; it was imported with force, and goes on without them");
        let next = "check what its spaces hold; what was made or changed since is lost";
        pool.emit(Severity::Error, pool.object(), cause, next);
    } else if may_lack_last {
        let cause = "its metadata log ended in a block that is not whole: a change that was cut short and never answered, or the last one that was is lost".into();
        pool.emit(Severity::Warning, pool.object(), cause, "look whether its spaces are as they were left");
    }
    let repairs = damaged_labels.into_iter().map(|index| (index, label));
    let repairs = repairs.chain(damaged_copies.into_iter().map(|index| (index, copy)));
    for (index, what) in repairs.chain(damaged_logs.into_iter().map(|index| (index, log))) {
        pool.emit(Severity::Warning, pool.disk_object(index), what.into(), "watch the disk");
    }
    for path in strangers {
        let cause = format!("was removed from pool {}: its content is ignored", pool.name());
        pool.emit(Severity::Warning, ObjectRef::named(ObjectKind::Disk, path), cause, "wipe it to use it again");
    }
    for (index, device, info) in returned {
        let disk = pool.disk(index).expect("every record has a disk");
        if let Err(error) = pool.take_back(&disk, device, &info).await {
            pool.emit(
                Severity::Warning,
                pool.disk_object(index),
                format!("could not be brought back into service: {error}"),
                "replace it",
            );
        }
    }
    Ok(Some(pool))
}

/// Brings every log to `position`; drops those that cannot be written, and gives those that were behind.
async fn catch_up(
    logs: &mut BTreeMap<u16, DiskLog>,
    config: &Config,
    position: Position,
    open_change: Option<OpenChange>,
) -> Vec<u16> {
    if logs.values().all(|log| log.position() == Some(position)) {
        return Vec::new();
    }
    let (at, checkpoint, last) = match open_change {
        Some(change) => (change.position_before, change.checkpoint_before, Some(change.payload)),
        None => (position, config.checkpoint(), None),
    };
    let behind = logs.iter_mut().filter(|(_, log)| log.position() != Some(position));
    let checkpoint = Checkpoint::new(&checkpoint, config.keeps_logs_twice());
    let writes = behind.map(|(index, log)| {
        let (checkpoint, last) = (&checkpoint, &last);
        async move {
            let write = async {
                log.checkpoint(at, checkpoint, last.as_ref().map_or(0, Vec::len)).await?;
                match last {
                    Some(last) => log.append(position, last).await,
                    None => Ok(()),
                }
            };
            (*index, write.await.is_ok())
        }
    });
    let written = join_all(writes).await;
    let failed: Vec<u16> = written.iter().filter(|(_, ok)| !*ok).map(|(index, _)| *index).collect();
    logs.retain(|index, _| !failed.contains(index));
    written.into_iter().map(|(index, _)| index).collect()
}

/// What creations and enlargements that were cut short left behind, and the rows of which nobody else lets go.
fn surplus(config: &Config) -> (Vec<Change>, Vec<RowRecord>) {
    let (mut changes, mut rows) = (Vec::new(), Vec::new());
    for (id, space) in &config.spaces {
        if !space.record.complete {
            changes.push(Change::SpaceGone(*id));
            continue;
        }
        for (chunk, row) in space.data_rows(space.record.chunks()) {
            changes.push(Change::RowGone { space: *id, chunk: *chunk });
            rows.push(row.clone());
        }
    }
    (changes, rows)
}

/// A disk that the pool takes for in service and that cannot be.
struct Absent {
    disk: u16,
    /// What its log tells, if it is here and was set back to an older state.
    log: Option<Outdated>,
}

/// What the log of a disk tells that is not believed.
#[derive(Clone, Copy)]
struct Outdated {
    /// The last change that it holds.
    tip: Position,
    /// Whether it ends otherwise than any log is left, so that it may have held more.
    damaged: bool,
}

/// Members that are taken for in service and whose disks were set back to an older state since.
///
/// A change is written only when every disk in service has the one before, or has it written down that it is out; so a
/// log that lacks more than the last one and ends in order was longer once. One that ends otherwise is damaged, or an
/// image that was taken while a record was on its way: it is believed on its label's word, if that names the present
/// generation, only where something can be read from nowhere else.
async fn set_back(found: &FoundPool, numbers: &BTreeMap<Uuid, u16>) -> BTreeMap<u16, Outdated> {
    let reaches = |position: Position| position.sequence + 1 >= found.position.sequence;
    let (mut set_back, mut doubtful) = (BTreeMap::new(), BTreeMap::new());
    for member in &found.members {
        let Some(record) = numbers.get(&member.id).and_then(|index| found.config.disks.get(index)) else { continue };
        // Every disk in service has the promise of a generation in its label before the first change of that is
        // written.
        let promised = member.promised == 0 || member.promised >= found.position.generation;
        let current = |tip: Tip| tip.position == found.position || (promised && reaches(tip.position));
        if record.state != DiskState::Online || member.tip.is_some_and(current) {
            continue;
        }
        let place = member.log(found.id);
        let furthest = place.furthest().await;
        if promised && furthest.is_some_and(reaches) {
            continue;
        }
        match member.tip {
            Some(tip) if place.ends_in_order(&tip).await => {
                set_back.insert(record.index, Outdated { tip: tip.position, damaged: false });
            }
            _ => {
                let tip = furthest.unwrap_or(Position { generation: member.promised, sequence: 0 });
                let log = Outdated { tip, damaged: true };
                let into = if member.promised >= found.position.generation { &mut doubtful } else { &mut set_back };
                into.insert(record.index, log);
            }
        }
    }
    let is_here = |index: &u16| found.members.iter().any(|member| numbers.get(&member.id) == Some(index));
    let mut away: BTreeSet<u16> =
        found.config.disks.keys().copied().filter(|index| !is_here(index) || set_back.contains_key(index)).collect();
    for (index, log) in doubtful {
        if found.config.can_copy_anew(index, &away) {
            set_back.insert(index, log);
            away.insert(index);
        }
    }
    set_back
}

impl Pool {
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
    pub async fn create_with(
        env: Env,
        name: Name,
        disks: Vec<Candidate>,
        features: Features,
    ) -> Result<Arc<Self>, PoolError> {
        create(env, name, disks, features).await
    }

    /// Takes a found pool into use. With `force`, also where fewer disks than a quorum are here: the administrator
    /// vouches that the missing ones do not know better.
    ///
    /// # Errors
    /// No quorum; the text names every missing disk.
    pub async fn import(env: Env, found: FoundPool, force: bool) -> Result<Arc<Self>, PoolError> {
        adopt(env, found, force).await
    }

    async fn open_generation(&self, absent: &[Absent], from: Position, force: bool) -> Result<(), PoolError> {
        for Absent { disk: index, log } in absent {
            let path = self.state().config.disks.get(index).map(|record| record.path.clone()).unwrap_or_default();
            if let Some(disk) = self.disk(*index) {
                disk.go_out();
            }
            let object = self.disk_object(*index);
            match log {
                None => {
                    let cause = format!("missing at import, last seen at {path}");
                    self.emit(Severity::Warning, object, cause, "attach it again or replace it");
                }
                Some(Outdated { tip, damaged }) => {
                    let what = if *damaged { "has a damaged log, or was set back" } else { "was set back" };
                    let cause =
                        format!("{what} to an older state: it holds changes up to {tip}, and had all up to {from}");
                    let next = "find out why, for example a restored image or a swapped disk; its data is not used until it is copied again";
                    self.emit(Severity::Error, object, cause, next);
                }
            }
        }
        if force {
            let absent: Vec<u16> = absent.iter().map(|absent| absent.disk).collect();
            self.force_votes(&absent, from).await?;
        }
        let holds = Position { sequence: from.sequence.saturating_sub(1), ..from };
        let outs = absent.iter().map(|absent| {
            let state = if absent.log.is_some() { DiskState::Failed } else { DiskState::Missing };
            Change::DiskOut { disk: absent.disk, state, holds }
        });
        let changes = std::iter::once(Change::Opened).chain(outs).collect();
        self.commit(changes, Guard::None).await.map(drop)
    }

    /// On the administrator's word the disks that are not here lose their votes without being asked, and with them
    /// those that turn out not to be writable.
    async fn force_votes(&self, absent: &[u16], from: Position) -> Result<(), PoolError> {
        let mut committer = self.committer.lock().await;
        let forced = Change::Forced { from, generation: committer.position.generation };
        self.state().config.apply(&forced).expect("it can always be noted");
        let mut silenced = absent.to_vec();
        loop {
            let position = Position { sequence: committer.position.sequence + 1, ..committer.position };
            let checkpoint = {
                let mut state = self.state();
                for index in &silenced {
                    state.config.disks.entry(*index).and_modify(|record| record.voting = false);
                }
                Checkpoint::of(&state.config)
            };
            let writes = committer.logs.iter_mut().map(|(index, log)| {
                let checkpoint = &checkpoint;
                async move { (*index, log.checkpoint(position, checkpoint, 0).await) }
            });
            let results = join_all(writes).await;
            committer.position = position;
            silenced.clear();
            for (index, result) in results {
                if let Err(error) = result {
                    committer.logs.remove(&index);
                    self.note_out(index, DiskState::Failed, &format!("its metadata log could not be written: {error}"));
                    silenced.push(index);
                }
            }
            if committer.logs.is_empty() {
                return Err(PoolError::damaged(format!(
                    "no disk of pool {} can be written: check cables and power",
                    self.name()
                )));
            }
            if silenced.is_empty() {
                return Ok(());
            }
        }
    }
}

/// New records of disks that turned up under another path than before, or whose place was not known and is reported
/// now.
fn moved(config: &Config, members: &BTreeMap<u16, Member>) -> Vec<(Change, Guard)> {
    let changed = |(index, member): (&u16, &Member)| {
        let known = config.disks.get(index)?;
        let info = &member.candidate.info;
        let place = known.place.clone().or_else(|| info.place.clone());
        let record = DiskRecord { path: info.path.clone(), place, ..known.clone() };
        let moved = known.state == DiskState::Online && *known != record;
        moved.then(|| (Change::Disk(record), Guard::Known(Box::new(known.clone()))))
    };
    members.iter().filter_map(changed).collect()
}
