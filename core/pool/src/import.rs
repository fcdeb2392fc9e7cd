//! How a pool comes into being: made from disks, or found on them and imported.
//!
//! An import first writes its promise, a new generation, into the labels of a majority, and only then appends. So an
//! earlier owner that still runs, or an import that was cut short, can never add to a history that this one continues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{Device, Durability, IoError, IoSlice};
use holdfast_model::{BLOCK_BYTES, DiskState, Name, Uuid};

use crate::area::Area;
use crate::commit::{Committer, Guard};
use crate::config::{Change, Config, DiskRecord};
use crate::disk::PoolDisk;
use crate::event::{Env, Severity, WitnessRecord};
use crate::frame::Position;
use crate::label::Label;
use crate::log::{DiskLog, LogPlace};
use crate::pool::{Pool, draw_uuid, new_record};
use crate::quorum::Votes;
use crate::scan::{Candidate, FoundPool};
use crate::{PoolError, PoolErrorKind};

/// Writes both labels of a disk.
pub(crate) async fn label_disk(
    device: &Arc<dyn Device>,
    area: &Area,
    pool: Uuid,
    disk: Uuid,
    promised: u64,
) -> Result<(), IoError> {
    let label = Label { pool, disk, disk_bytes: area.disk_bytes, promised, features: [0; 3] };
    for offset in area.labels() {
        device.write(offset, label.seal(offset).freeze(), Durability::Durable).await?;
    }
    Ok(())
}

/// Removes every trace of a pool from a disk: both labels and the beginnings of both log halves.
pub async fn wipe(device: &Arc<dyn Device>) -> Result<(), PoolError> {
    let area = Area::of_disk("", device.geometry().size_bytes)?;
    for offset in area.labels().into_iter().chain((0..2).map(|half| area.log_half(half))) {
        device.write(offset, IoSlice::padded(&[0; BLOCK_BYTES as usize]), Durability::Durable).await?;
    }
    Ok(())
}

pub(crate) async fn create(env: Env, name: Name, disks: Vec<Candidate>) -> Result<Arc<Pool>, PoolError> {
    if disks.is_empty() {
        return Err(PoolError::invalid(format!("pool {name} needs at least one disk")));
    }
    let mut paths = BTreeSet::new();
    if let Some(twice) = disks.iter().find(|candidate| !paths.insert(&candidate.info.path)) {
        return Err(PoolError::invalid(format!("disk {} is named twice", twice.info.path)));
    }
    let id = draw_uuid(env.seed, env.clock.now().as_nanos() as u64);
    let mut config = Config { next_row: 1, next_space: 1, ..Config::default() };
    let mut members = Vec::new();
    let impossible = |error| PoolError::damaged(format!("pool {id}: {error}"));
    config.apply(&Change::Pool(name.clone())).map_err(impossible)?;
    for (index, candidate) in disks.into_iter().enumerate() {
        let area = Area::of_disk(&candidate.info.path, candidate.device.geometry().size_bytes)?;
        let record = new_record(index as u16, draw_uuid(env.seed ^ id.as_u128() as u64, index as u64 + 1), &candidate, &area);
        config.apply(&Change::Disk(record.clone())).map_err(impossible)?;
        members.push((record, candidate, area));
    }
    let position = Position { generation: 1, sequence: 1 };
    let checkpoint = config.checkpoint();
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
        label_disk(&candidate.device, area, id, record.id, position.generation).await?;
        let disk = PoolDisk::new(record.index, record.id, *area, Some(candidate.device.clone()));
        pool_disks.insert(record.index, Arc::new(disk));
    }
    let pool = Pool::assemble(env, id, config, pool_disks, Committer { logs, position });
    pool.commit(vec![Change::Opened], Guard::None).await?;
    pool.inform_witness().await;
    Ok(pool)
}

pub(crate) async fn adopt(env: Env, found: FoundPool, force: bool) -> Result<Arc<Pool>, PoolError> {
    let FoundPool { id, config, position, members, .. } = found;
    let by_id: BTreeMap<Uuid, u16> = config.disks.values().map(|record| (record.id, record.index)).collect();
    let members: Vec<_> = members.into_iter().filter_map(|member| Some((*by_id.get(&member.id)?, member))).collect();
    let present: BTreeSet<u16> = members.iter().filter(|(_, member)| member.tip.is_some()).map(|(index, _)| *index).collect();
    let votes = Votes::of(&config);
    let witness = env.witness.load(id);
    check_quorum(&config, &votes, &present, witness, position, force)?;

    let promised = members.iter().map(|(_, member)| member.promised).max().unwrap_or(0);
    let highest = promised.max(position.generation).max(witness.map_or(0, |witness| witness.promised));
    // A forced import may run beside another one that nobody here knows of: a random step keeps their generations apart.
    let step = if force { 1 + (draw_uuid(env.seed, highest).as_u128() as u64 & 0xffff_ffff) } else { 1 };
    let generation = highest + step;

    // What a killed daemon left in the disks' caches must not be served and then lost.
    join_all(members.iter().map(|(_, member)| member.candidate.device.flush())).await;
    let promises = members.iter().map(|(index, member)| async move {
        (*index, label_disk(&member.candidate.device, &member.area, id, member.id, generation).await.is_ok())
    });
    let held: BTreeSet<u16> = join_all(promises).await.into_iter().filter(|(_, ok)| *ok).map(|(index, _)| index).collect();
    let voters_held: BTreeSet<u16> = held.intersection(&present).copied().collect();
    if !votes.carried(&voters_held, false) {
        let tip = witness.map_or(position, |witness| witness.tip.max(position));
        let record = WitnessRecord { promised: generation, tip };
        let witness_held = (witness.is_some() || force) && env.witness.store(id, record).await.is_ok();
        if !votes.carried(&voters_held, witness_held) && !force {
            return Err(no_quorum(&config, &present));
        }
    }

    let mut disks = BTreeMap::new();
    let mut logs = BTreeMap::new();
    let mut returned = Vec::new();
    for record in config.disks.values() {
        let member = members.iter().find(|(index, _)| *index == record.index && held.contains(index)).map(|(_, member)| member);
        let area = Area::of_disk(record.label(), record.disk_bytes)?;
        let in_step = record.state == DiskState::Online;
        let device = member.map(|member| member.candidate.device.clone());
        disks.insert(record.index, Arc::new(PoolDisk::new(record.index, record.id, area, device.clone().filter(|_| in_step))));
        let (Some(member), Some(device)) = (member, device) else { continue };
        if !in_step {
            returned.push((record.index, device, member.candidate.info.clone()));
            continue;
        }
        let place = LogPlace { device, area, pool: id, disk: record.id };
        logs.insert(record.index, (DiskLog::new(place, member.tip), member.labels_whole));
    }
    let checkpoint = config.checkpoint();
    let behind = logs.iter_mut().filter(|(_, (log, _))| log.position() != Some(position));
    let repairs = join_all(behind.map(|(index, (log, _))| {
        let checkpoint = &checkpoint;
        async move { (*index, log.checkpoint(position, checkpoint).await) }
    }));
    let repairs = repairs.await;
    let damaged_labels: Vec<u16> = logs.iter().filter(|(_, (_, whole))| *whole != [true; 2]).map(|(index, _)| *index).collect();
    let mut logs: BTreeMap<u16, DiskLog> = logs.into_iter().map(|(index, (log, _))| (index, log)).collect();
    let unwritable: Vec<u16> = repairs.iter().filter(|(_, result)| result.is_err()).map(|(index, _)| *index).collect();
    logs.retain(|index, _| !unwritable.contains(index));
    let paths = moved(&config, &members);
    let incomplete: Vec<u32> =
        config.spaces.values().filter(|space| !space.record.complete).map(|space| space.record.id).collect();
    let absent: Vec<u16> = config
        .disks
        .values()
        .filter(|record| {
            record.state == DiskState::Online && (!held.contains(&record.index) || unwritable.contains(&record.index))
        })
        .map(|record| record.index)
        .collect();
    let started = Position { generation, sequence: position.sequence };
    let pool = Pool::assemble(env, id, config, disks, Committer { logs, position: started });
    let mut changes = vec![Change::Opened];
    changes.extend(paths.into_iter().map(Change::Disk));
    changes.extend(incomplete.into_iter().map(Change::SpaceGone));
    pool.open_generation(changes, &absent, force).await?;
    pool.inform_witness().await;
    for index in damaged_labels {
        pool.emit(
            Severity::Warning,
            format!("disk {}", pool.disk_label(index)),
            "a damaged label was rewritten".into(),
            "watch the disk",
        );
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

impl Pool {
    /// Tells the witness how far the pool is, so that its vote counts from now on. It is asked only where disks do not suffice, so
    /// a failure is no more than a vote less.
    async fn inform_witness(&self) {
        let tip = *self.position.lock().expect("no panic while held");
        let _ = self.env.witness.store(self.id(), WitnessRecord { promised: tip.generation, tip }).await;
    }

    async fn open_generation(&self, mut changes: Vec<Change>, absent: &[u16], force: bool) -> Result<(), PoolError> {
        for index in absent {
            let path = self.state().config.disks.get(index).map(|record| record.path.clone()).unwrap_or_default();
            if let Some(disk) = self.disk(*index) {
                disk.go_out();
            }
            let cause = format!("missing at import, last seen at {path}");
            self.emit(Severity::Warning, format!("disk {}", self.disk_label(*index)), cause, "attach it again or replace it");
        }
        let outs = absent.iter().map(|disk| Change::DiskOut { disk: *disk, state: DiskState::Missing });
        if force {
            self.force_votes(absent).await?;
        }
        changes.extend(outs);
        self.commit(changes, Guard::None).await.map(drop)
    }

    /// On the administrator's word the disks that are not here lose their votes without being asked.
    async fn force_votes(&self, absent: &[u16]) -> Result<(), PoolError> {
        let mut committer = self.committer.lock().await;
        let position = Position { sequence: committer.position.sequence + 1, ..committer.position };
        let checkpoint = {
            let mut state = self.state();
            for record in state.config.disks.values_mut().filter(|record| absent.contains(&record.index)) {
                record.voting = false;
            }
            state.config.checkpoint()
        };
        for log in committer.logs.values_mut() {
            log.checkpoint(position, &checkpoint).await?;
        }
        committer.position = position;
        Ok(())
    }
}

/// Records of disks that turned up under another path than before.
fn moved(config: &Config, members: &[(u16, crate::scan::Member)]) -> Vec<DiskRecord> {
    let changed = |(index, member): &(u16, crate::scan::Member)| {
        let record = config.disks.get(index)?;
        let moved = record.state == DiskState::Online && record.path != member.candidate.info.path;
        moved.then(|| DiskRecord { path: member.candidate.info.path.clone(), ..record.clone() })
    };
    members.iter().filter_map(changed).collect()
}

fn check_quorum(
    config: &Config,
    votes: &Votes,
    present: &BTreeSet<u16>,
    witness: Option<WitnessRecord>,
    position: Position,
    force: bool,
) -> Result<(), PoolError> {
    if force || votes.carried(present, false) {
        return Ok(());
    }
    match witness {
        Some(witness) if votes.carried(present, true) && witness.tip <= position => Ok(()),
        Some(witness) if votes.carried(present, true) => Err(PoolError::new(
            PoolErrorKind::NoQuorum,
            format!(
                "pool {} went on to change {} without the disks that are here, which end at {position}: {}",
                config.name.as_ref().map(Name::to_string).unwrap_or_default(),
                witness.tip,
                missing_text(config, present)
            ),
        )),
        _ => Err(no_quorum(config, present)),
    }
}

fn missing_text(config: &Config, present: &BTreeSet<u16>) -> String {
    let missing: Vec<String> = config
        .disks
        .values()
        .filter(|record| !present.contains(&record.index))
        .map(|record| {
            format!("{} {} (serial {}, last seen at {})", record.model, record.id, or_none(&record.serial), record.path)
        })
        .collect();
    format!("attach the missing disks: {}", missing.join("; "))
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn no_quorum(config: &Config, present: &BTreeSet<u16>) -> PoolError {
    PoolError::new(
        PoolErrorKind::NoQuorum,
        format!(
            "pool {} cannot be imported: {} of its {} disks are here, too few to be sure that they know the last state; {}; or import with force if the missing disks are lost for good",
            config.name.as_ref().map(Name::to_string).unwrap_or_default(),
            present.len(),
            config.disks.len(),
            missing_text(config, present)
        ),
    )
}
