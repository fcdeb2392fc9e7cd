//! The replacement of a disk: it is emptied, or what it held is made anew on others, and it leaves its pool for good.
//!
//! Invariant: whatever the disk does meanwhile, and however often the work is begun anew, the disk leaves only when
//! nothing of it is needed.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{AddDisks, ApiError, DiskRef, EvacuationPlan, JobChanged, JobKind, JobState, ReplaceDisk};
use holdfast_device::IoError;
use holdfast_model::{ByteSize, DiskState, Usage, Uuid};
use holdfast_pool::{NewDisk, PoolErrorKind};
use holdfast_space::{Ended, Pace};

use super::spec::{JobSpec, Outcome, Site};
use crate::engine::Engine;
use crate::error::{ApiResult, conflict};
use crate::leaving::NamedMember;
use crate::spaces::parse_path;

/// How often it is looked whether slabs are left, as when the disk went out or came back meanwhile.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// The disk that comes in the place of another one.
enum Newcomer {
    /// None: the others take over.
    None,
    /// One that is of the pool already.
    Member,
    /// One that is to come into the pool, as far as it can be looked at.
    Offered { path: String, disk: Option<NewDisk> },
}

impl Newcomer {
    /// What it brings with it, and how it is called.
    fn offered(&self) -> Option<(String, NewDisk)> {
        match self {
            Self::Offered { path, disk: Some(disk) } => {
                Some((format!("disk {path} of {}", ByteSize(disk.disk_bytes)), disk.clone()))
            }
            _ => None,
        }
    }
}

impl Engine {
    /// Replaces a disk by another one or by all others: answers with the job that does it, the one that is there
    /// already if there is one.
    ///
    /// # Errors
    /// If it belongs to no pool in service, the new one cannot be had, there is no room for what it holds, rows would
    /// be lost with it whose spaces are not given up, or spaces get no new rows then and nobody forces it; nothing is
    /// changed then.
    pub async fn replace_disk(self: &Arc<Self>, disk: String, request: ReplaceDisk) -> ApiResult<JobChanged> {
        self.change(move |engine| async move {
            let disk = DiskRef::new(&disk);
            let old = match engine.named_member(&disk).await {
                Ok(old) => old,
                Err(error) => {
                    let done = engine.jobs.last_replacement(&engine.resolve(&disk).await?);
                    return done.map(|job| JobChanged { changed: false, job }).ok_or(error);
                }
            };
            let object = format!("disk {disk}");
            let new = engine.newcomer(&old, &object, &request).await?;
            engine.check_given_up(&old, &object, &request.give_up)?;
            let work = old.job(JobKind::Replace);
            let offered = new.offered();
            engine.refuse_without_room(&old, &object, &work, offered.clone(), &request.give_up).await?;
            let forced = request.force && request.new.is_none();
            engine.refuse_without_new_rows(
                &old.open,
                old.id,
                &object,
                offered.map(|(_, disk)| disk).as_ref(),
                forced,
            )?;
            if let Newcomer::Offered { path, .. } = new {
                let add = AddDisks { disks: vec![path], force: request.force };
                engine.grow_pool(&old.open.name(), add).await?;
            }
            engine.retire_member(&old.open, old.id, &object).await?;
            for space in &request.give_up {
                engine.end_space(space, true).await?;
            }
            engine.add_job(work, request.pace)
        })
        .await
    }

    /// What a replacement would move or make anew, and what would be lost. Nothing is changed.
    ///
    /// # Errors
    /// If the disk belongs to no pool in service, or the new one cannot be had.
    pub async fn plan_replacement(&self, disk: &str, request: &ReplaceDisk) -> ApiResult<EvacuationPlan> {
        let disk = DiskRef::new(disk);
        let old = self.named_member(&disk).await?;
        let object = format!("disk {disk}");
        let new = self.newcomer(&old, &object, request).await?;
        self.plan_leaving(&old, &object, new.offered().map(|(_, disk)| disk)).await
    }

    /// Refuses to give up what is no space of the disk's pool, or is served to clients.
    fn check_given_up(&self, old: &NamedMember, object: &str, spaces: &[String]) -> ApiResult<()> {
        for space in spaces {
            let path = parse_path(space)?;
            if path.pool.as_str() != old.open.name() {
                let message = format!("space {space} is not of pool {}", old.open.name());
                return Err(ApiError::invalid(object, message, "name spaces of the disk's own pool"));
            }
            // One that is gone was given up before.
            if let Some(found) = old.open.pool.spaces().into_iter().find(|record| record.name == path.space) {
                self.refuse_exported(&format!("space {space}"), found.uuid)?;
            }
        }
        Ok(())
    }

    /// The disk that is to take the place of another one, if one is named.
    async fn newcomer(&self, old: &NamedMember, object: &str, request: &ReplaceDisk) -> ApiResult<Newcomer> {
        let Some(named) = &request.new else { return Ok(Newcomer::None) };
        let new = &DiskRef::new(named);
        let path = self.resolve(new).await?;
        match self.member(new, &path) {
            Some((_, id)) if id == old.id && self.is_in_service(&old.open, id) => {
                Err(ApiError::invalid(object, "it is named as its own replacement", "name another disk, or none"))
            }
            Some((open, id)) if open.pool.id() == old.open.pool.id() && id != old.id => {
                let record = open.pool.disk_record(id);
                let takes = |usage: Usage| usage.takes_slabs() || usage == Usage::HotSpare;
                if !record.is_some_and(|record| record.state == DiskState::Online && takes(record.usage)) {
                    let message = format!("disk {new} is in its pool and takes no slabs");
                    return Err(conflict(object, message, "set its usage to auto, or name another disk"));
                }
                Ok(Newcomer::Member)
            }
            _ => {
                self.probe(&path).await?;
                let found = self.look_at(vec![path.clone()]).await?.into_iter().next();
                let disk = found.map(|found| NewDisk {
                    disk_bytes: found.size_bytes,
                    media: found.info.media,
                    place: found.info.place,
                });
                Ok(Newcomer::Offered { path, disk })
            }
        }
    }

    fn is_in_service(&self, open: &crate::engine::OpenPool, id: Uuid) -> bool {
        open.pool.pool_disks().iter().any(|disk| disk.id == id && disk.in_service())
    }
}

/// Bytes that a replacement moves or makes anew.
pub(super) fn total_bytes(site: &Site, disk: Uuid) -> u64 {
    match site.open.pool.pool_disks().iter().find(|member| member.id == disk) {
        Some(member) if member.in_service() => site.spaces.iter().map(|space| space.bytes_on(member.index)).sum(),
        Some(_) => super::repair::total_bytes(site),
        None => 0,
    }
}

/// Replaces.
pub(super) async fn run(site: &Site, disk: Uuid, pace: &dyn Pace) -> Result<Outcome, Ended> {
    let pool = &site.open.pool;
    let mut tries = 0;
    loop {
        let Some(member) = pool.pool_disks().into_iter().find(|member| member.id == disk) else {
            return Ok(done("it had already been removed from the pool"));
        };
        for space in &site.spaces {
            match member.in_service() {
                true => space.leave(member.index, pace).await?,
                false => space.rebuild(pace).await?,
            }
        }
        drop(member);
        match pool.remove_disk(disk).await {
            Ok(wiped) => {
                site.open.disks().remove(&disk);
                return Ok(done(match wiped {
                    true => "it was emptied and removed from the pool",
                    false => "its data was rebuilt, and it was removed from the pool",
                }));
            }
            Err(error) if error.kind == PoolErrorKind::Conflict && tries < TRIES => tries += 1,
            Err(error) => return Err(Ended::Failed(IoError::from(error))),
        }
        pace.step(0).await?;
        pool.env().clock.sleep(PAUSE).await;
    }
}

fn done(result: &str) -> Outcome {
    Outcome { result: result.into(), findings: Vec::new() }
}

impl super::Jobs {
    /// The job that took the disk that was at `path` out of its pool.
    fn last_replacement(&self, path: &str) -> Option<holdfast_api::Job> {
        let inner = self.inner();
        let of = |spec: &JobSpec| spec.kind == JobKind::Replace && spec.target.name == path;
        let done = inner.table.ended.iter().rev().find(|record| record.state == JobState::Done && of(&record.spec));
        done.and_then(|record| inner.view(record.id))
    }

    /// The job by which a disk is to leave its pool.
    pub(crate) fn replacing(&self, disk: Uuid) -> Option<holdfast_api::Job> {
        let inner = self.inner();
        let replaces = |record: &&super::table::Record| record.spec.is(JobKind::Replace, disk);
        inner.table.jobs.iter().find(replaces).and_then(|record| inner.view(record.id))
    }
}
