//! How a pool comes into being: made from disks, or found on them and imported.
//!
//! An import first writes its promise, a new generation, into the labels of a majority, and only then appends. So an
//! earlier owner that still runs, or an import that was cut short, can never add to a history that this one continues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{Device, Durability, IoError, IoSlice};
use holdfast_model::{BLOCK_BYTES, DiskState, Name};

use crate::PoolError;
use crate::admission::{Admission, Electorate};
use crate::area::Area;
use crate::commit::{Committer, Guard};
use crate::config::{Change, Config, DiskRecord, RowRecord};
use crate::disk::PoolDisk;
use crate::event::{Env, Severity, WitnessRecord};
use crate::features::Features;
use crate::frame::Position;
use crate::label::Label;
use crate::log::{Checkpoint, DiskLog, LogPlace};
use crate::pool::{Pool, draw_uuid, new_record, refuse_twice};
use crate::reading::adopt_for_reading;
use crate::scan::{Candidate, FoundPool, Member, OpenChange, front_label};

/// Writes both labels of a disk.
pub(crate) async fn label_disk(device: &Arc<dyn Device>, area: &Area, label: &Label) -> Result<(), IoError> {
    for offset in area.labels() {
        device.write(offset, label.seal(offset).freeze(), Durability::Durable).await?;
    }
    Ok(())
}

/// Removes every trace of a pool from a disk: both labels and the beginnings of both log halves.
pub async fn wipe(device: &Arc<dyn Device>) -> Result<(), PoolError> {
    let size_bytes = device.geometry().size_bytes;
    let labelled = front_label(device).await.map(|label| label.disk_bytes).filter(|labelled| *labelled < size_bytes);
    let mut offsets = BTreeSet::new();
    for size_bytes in labelled.into_iter().chain([size_bytes]) {
        let area = Area::of_disk("", size_bytes)?;
        offsets.extend(area.labels().into_iter().chain((0..2).map(|half| area.log_half(half))));
    }
    for offset in offsets {
        device.write(offset, IoSlice::padded(&[0; BLOCK_BYTES as usize]), Durability::Durable).await?;
    }
    Ok(())
}

pub(crate) async fn create(env: Env, name: Name, disks: Vec<Candidate>, features: Features) -> Result<Arc<Pool>, PoolError> {
    if disks.is_empty() {
        return Err(PoolError::invalid(format!("pool {name} needs at least one disk")));
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
        let record = new_record(index as u16, draw_uuid(env.seed ^ id.as_u128() as u64, index as u64 + 1), &candidate, &area);
        config.apply(&Change::Disk(record.clone())).map_err(impossible)?;
        members.push((record, candidate, area));
    }
    let position = Position { generation: 1, sequence: 1 };
    let checkpoint = Checkpoint::new(&config.checkpoint());
    let starts = members.iter().map(|(record, candidate, area)| async {
        wipe(&candidate.device).await?;
        let place = LogPlace { device: candidate.device.clone(), area: *area, pool: id, disk: record.id };
        let mut log = DiskLog::new(place, None);
        log.checkpoint(position, &checkpoint).await?;
        Ok::<_, PoolError>((record.index, log))
    });
    let logs = join_all(starts).await.into_iter().collect::<Result<BTreeMap<_, _>, _>>()?;
    let mut pool_disks = BTreeMap::new();
    for (record, candidate, area) in &members {
        let label = Label { pool: id, disk: record.id, disk_bytes: area.disk_bytes, promised: position.generation, features };
        label_disk(&candidate.device, area, &label).await?;
        let disk = PoolDisk::new(record.index, record.id, *area, Some(candidate.device.clone()), env.clock.clone());
        pool_disks.insert(record.index, Arc::new(disk));
    }
    let pool = Pool::assemble(env, id, config, pool_disks, Committer { logs, position });
    pool.commit(vec![Change::Opened], Guard::None).await?;
    pool.inform_witness().await;
    Ok(pool)
}

pub(crate) async fn adopt(env: Env, mut found: FoundPool, force: bool) -> Result<Arc<Pool>, PoolError> {
    let (id, position) = (found.id, found.position);
    let by_id = found.numbers();
    let witness = env.witness.load(id);
    let electorate = Electorate::of(&mut found, witness);
    let numbered = || found.members.iter().filter_map(|member| Some((*by_id.get(&member.id)?, member)));
    let mut admission = Admission {
        electorate,
        present: numbered().filter(|(_, member)| member.tip.is_some()).map(|(index, _)| index).collect(),
        unreadable: numbered().filter(|(_, member)| member.tip.is_none()).map(|(index, _)| index).collect(),
        witness,
        force: false,
    };
    admission.force = force && admission.check(&found).is_err();
    admission.check(&found)?;
    let unknown = found.unknown_read_only();
    if unknown != 0 {
        return adopt_for_reading(env, found, unknown);
    }
    let force = admission.force;

    let promised = found.members.iter().map(|member| member.promised).max().unwrap_or(0);
    let highest = promised.max(position.generation).max(witness.map_or(0, |witness| witness.promised));
    // A forced import may run beside another one that nobody here knows of: a random step keeps their generations apart.
    let step = if force { 1 + (draw_uuid(env.seed, highest).as_u128() as u64 & 0xffff_ffff) } else { 1 };
    let generation = highest.checked_add(step).ok_or_else(|| {
        PoolError::damaged(format!("pool {id} names generation {highest}, which cannot be: take the disk away that has it"))
    })?;

    // The witness promises first: were it last, a power cut between would leave it behind half a pool that needs it.
    // What it knows of the last change stays: the disks that are behind do not hold a later one yet.
    let has_witness = admission.has_witness(&found);
    let tip = witness.filter(|_| has_witness).map_or(position, |witness| witness.tip);
    let told = env.witness.store(id, WitnessRecord { promised: generation, tip }).await.is_ok();
    let witness_held = told && has_witness;
    let features = found.config.features;
    let promises = numbered().map(|(index, member)| async move {
        let device = &member.candidate.device;
        // What a killed daemon left in the disk's cache must not be served and then lost.
        let flushed = device.flush().await;
        let label = Label { pool: id, disk: member.id, disk_bytes: member.area.disk_bytes, promised: generation, features };
        let promised = label_disk(device, &member.area, &label).await;
        (flushed.is_ok() && promised.is_ok()).then_some(index)
    });
    let held: BTreeSet<u16> = join_all(promises).await.into_iter().flatten().collect();
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
        let member = members.get(&record.index).filter(|_| held.contains(&record.index));
        let area = Area::of_disk(record.label(), record.disk_bytes)?;
        let in_step = record.state == DiskState::Online;
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
        let place = LogPlace { device: member.candidate.device.clone(), area: member.area, pool: id, disk: member.id };
        logs.insert(*index, DiskLog::new(place, member.tip));
    }
    let repaired = catch_up(&mut logs, &config, position, open_change).await;
    let holders: BTreeSet<u16> = logs.keys().copied().collect();
    if !admission.electorate.carried(&holders, witness_held) && !force {
        return Err(admission.no_quorum(&config));
    }
    logs.retain(|index, _| config.disks.contains_key(index));
    let holders: BTreeSet<u16> = logs.keys().copied().collect();
    let absent: Vec<u16> = (config.disks.values())
        .filter(|record| record.state == DiskState::Online && !holders.contains(&record.index))
        .map(|record| record.index)
        .collect();
    let damaged_labels: Vec<u16> = holders.iter().copied().filter(|index| members[index].labels_whole != [true; 2]).collect();
    let damaged_logs: Vec<u16> = repaired.into_iter().filter(|index| holders.contains(index)).collect();
    let (surplus, surplus_rows) = surplus(&config);
    let started = Position { generation, sequence: position.sequence };
    let pool = Pool::assemble(env, id, config, disks, Committer { logs, position: started });
    pool.open_generation(&absent, position, force).await?;
    let moves = moved(&pool.state().config, &members);
    pool.commit_each(surplus.into_iter().map(|change| (change, Guard::None)).chain(moves)).await?;
    surplus_rows.iter().for_each(|row| pool.state().config.release(row));
    pool.inform_witness().await;
    let label = "a damaged label was rewritten";
    let log = "its metadata log was behind or damaged, and was written anew";
    let repairs = damaged_labels.into_iter().map(|index| (index, label));
    for (index, what) in repairs.chain(damaged_logs.into_iter().map(|index| (index, log))) {
        pool.emit(Severity::Warning, format!("disk {}", pool.disk_label(index)), what.into(), "watch the disk");
    }
    for path in strangers {
        let cause = format!("was a disk of pool {} and is none any more: nothing on it is believed", pool.name());
        pool.emit(Severity::Warning, format!("disk {path}"), cause, "wipe it, then it can be used anew");
    }
    for (index, device, info) in returned {
        let disk = pool.disk(index).expect("every record has a disk");
        if let Err(error) = pool.take_back(&disk, device, &info).await {
            pool.emit(
                Severity::Warning,
                format!("disk {}", info.path),
                format!("could not be taken back: {error}"),
                "replace it",
            );
        }
    }
    Ok(pool)
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
    let checkpoint = Checkpoint::new(&checkpoint);
    let writes = behind.map(|(index, log)| {
        let (checkpoint, last) = (&checkpoint, &last);
        async move {
            let write = async {
                log.checkpoint(at, checkpoint).await?;
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

impl Pool {
    async fn open_generation(&self, absent: &[u16], from: Position, force: bool) -> Result<(), PoolError> {
        for index in absent {
            let path = self.state().config.disks.get(index).map(|record| record.path.clone()).unwrap_or_default();
            if let Some(disk) = self.disk(*index) {
                disk.go_out();
            }
            let cause = format!("missing at import, last seen at {path}");
            self.emit(Severity::Warning, format!("disk {}", self.disk_label(*index)), cause, "attach it again or replace it");
        }
        if force {
            self.force_votes(absent, from).await?;
        }
        let outs = absent.iter().map(|disk| Change::DiskOut { disk: *disk, state: DiskState::Missing });
        let changes = std::iter::once(Change::Opened).chain(outs).collect();
        self.commit(changes, Guard::None).await.map(drop)
    }

    /// On the administrator's word the disks that are not here lose their votes without being asked, and with them those
    /// that turn out not to be writable.
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
                Checkpoint::new(&state.config.checkpoint())
            };
            let writes = committer.logs.iter_mut().map(|(index, log)| {
                let checkpoint = &checkpoint;
                async move { (*index, log.checkpoint(position, checkpoint).await) }
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

/// New records of disks that turned up under another path than before.
fn moved(config: &Config, members: &BTreeMap<u16, Member>) -> Vec<(Change, Guard)> {
    let changed = |(index, member): (&u16, &Member)| {
        let known = config.disks.get(index)?;
        let record = DiskRecord { path: member.candidate.info.path.clone(), ..known.clone() };
        let moved = known.state == DiskState::Online && *known != record;
        moved.then(|| (Change::Disk(record), Guard::Known(Box::new(known.clone()))))
    };
    members.iter().filter_map(changed).collect()
}
