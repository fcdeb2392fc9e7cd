//! Disks that join a pool, go out of service and come back.
//!
//! Invariant: a disk is in service only with a log that was brought up to date first.

use std::sync::Arc;

use holdfast_device::Device;
use holdfast_model::{ByteSize, DiskState, Media, Place, Usage, Uuid};

use crate::area::Area;
use crate::candidate::{Candidate, DiskInfo, new_record, refuse_twice};
use crate::change::{Change, UNKNOWN};
use crate::committer::{Guard, OutageMark};
use crate::disk::PoolDisk;
use crate::event::Severity;
use crate::frame::Position;
use crate::log::{Checkpoint, DiskLog, LogPlace};
use crate::place::MAX_DISKS;
use crate::pool::Pool;
use crate::promise::{Shown, label_disk, shown};
use crate::record::DiskRecord;
use crate::scan::scan;
use crate::{PoolError, PoolErrorKind};

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

impl Pool {
    /// Takes a disk out of service, at once for readers, and durably when answered.
    pub async fn disk_out(&self, index: u16, state: DiskState, cause: &str) -> Result<(), PoolError> {
        // Queued first: who sees the disk out of service on another thread, and waits for the queue, finds the change
        // there.
        let answer =
            self.queue(vec![Change::DiskOut { disk: index, state, holds: UNKNOWN }], Guard::NotRecorded(index));
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
            (state.config.next_disk, Checkpoint::of(&state.config))
        };
        if usize::from(MAX_DISKS - next) < disks.len() {
            let message =
                format!("pool {} has had {next} disks, and a pool can have {MAX_DISKS} over its lifetime", self.name());
            return Err(PoolError::invalid(message).about("disks"));
        }
        refuse_twice(&disks)?;
        let mut added = Vec::new();
        for candidate in disks {
            let area = Area::of_disk(&candidate.info.path, candidate.device.geometry().size_bytes)?;
            if !DiskLog::fits(&area, checkpoint.payload_len() * 2) {
                return Err(PoolError::invalid(format!(
                    "disk {} is too small for the configuration of pool {}: add a larger one",
                    candidate.info.path,
                    self.name()
                ))
                .about("disks"));
            }
            if let Some(member) = self.member_on(&candidate).await {
                return Err(PoolError::invalid(format!(
                    "disk {} is in pool {} already, as {}: choose another disk, or have it taken back with 'holdfast pool import'",
                    candidate.info.path,
                    self.name(),
                    self.disk_label(member)
                ))
                .about("disks"));
            }
            let record = new_record(next, self.draw_uuid(), &candidate, &area);
            next += 1;
            added.push((record, candidate, area));
        }
        for (record, candidate, area) in &added {
            let place = LogPlace { device: candidate.device.clone(), area: *area, pool: self.id(), disk: record.id };
            let mut log = DiskLog::new(place, None);
            log.checkpoint(committer.position, &checkpoint, 0).await?;
            label_disk(&candidate.device, area, &self.own_label(record.id, area)).await?;
            committer.logs.insert(record.index, log);
        }
        {
            let mut state = self.state();
            for (record, candidate, area) in &added {
                let disk = PoolDisk::new(
                    record.index,
                    record.id,
                    *area,
                    Some(candidate.device.clone()),
                    self.env.clock.clone(),
                );
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
        let (member, _) = scan(vec![candidate.clone()]).await.alone(self.id())?;
        self.pool_disks().iter().find(|disk| disk.id == member.id).map(|disk| disk.index)
    }

    /// Changes what the pool knows of a disk; false if it knew that already.
    pub async fn set_disk(&self, id: Uuid, change: DiskChange) -> Result<bool, PoolError> {
        let _admin = self.admin.lock().await;
        loop {
            let known = self.disk_record(id).ok_or_else(|| {
                PoolError::new(PoolErrorKind::NotFound, format!("disk {id} is not in pool {}", self.name()))
            })?;
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
        let stranger = || PoolError::invalid(format!("disk {} is not a member of pool {}", info.path, self.name()));
        let (member, position) = scan(vec![candidate]).await.alone(self.id()).ok_or_else(stranger)?;
        let disk = self.pool_disks().into_iter().find(|disk| disk.id == member.id).ok_or_else(stranger)?;
        if member.area != disk.area {
            return Err(PoolError::invalid(format!(
                "disk {} has {} now and had {} in pool {}: restore its size, or wipe it and add it again",
                info.path,
                ByteSize(member.area.disk_bytes).beside(ByteSize(disk.area.disk_bytes)),
                ByteSize(disk.area.disk_bytes).beside(ByteSize(member.area.disk_bytes)),
                self.name()
            )));
        }
        let generation = self.position.lock().expect("no panic while held").generation;
        let elsewhere = match position {
            Some(position) if self.state().config.departed_before(position) => {
                Some(format!("changes up to {position}"))
            }
            // Its log cannot say what it took part in, but its label does.
            None if member.promised > generation => Some(format!("a promise of generation {}", member.promised)),
            _ => None,
        };
        if let Some(what) = elsewhere {
            return Err(PoolError::damaged(format!(
                "disk {} has {what} that pool {} does not have, because one was imported with force without the other: wipe the disk and add it again if you do not want them",
                info.path,
                self.name()
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
        info: &DiskInfo,
    ) -> Result<(), PoolError> {
        self.disk_out(disk.index, DiskState::Missing, "it is being attached again").await?;
        let label = self.own_label(disk.id, &disk.area);
        if let Shown::Later(generation) = shown(&device, &disk.area, &label).await {
            return Err(PoolError::new(
                PoolErrorKind::Conflict,
                format!(
                    "disk {} was promised to an import of pool {} as generation {generation}, and here it is generation {}: export the pool here, and import it with this disk attached",
                    info.path,
                    self.name(),
                    label.promised
                ),
            ));
        }
        let place = LogPlace { device: device.clone(), area: disk.area, pool: self.id(), disk: disk.id };
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
        let checkpoint = Checkpoint::of(&self.state().config);
        let known_place = known.place.clone().or_else(|| info.place.clone());
        let record = DiskRecord {
            path: info.path.clone(),
            place: known_place,
            state: DiskState::Online,
            voting: true,
            holds: Position::default(),
            ..known
        };
        let mut log = DiskLog::new(place, tip);
        log.checkpoint(committer.position, &checkpoint, 0).await?;
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
        let object = self.disk_object(disk.index);
        match outdated {
            false => {
                self.emit(Severity::Info, object, "back in service; the writes it missed are being copied".into(), "")
            }
            true => {
                let cause =
                    "back in service with an older state than it had in this pool; all its data is copied again";
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
}
