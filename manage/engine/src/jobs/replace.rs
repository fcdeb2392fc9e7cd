//! The replacement of a disk: it is emptied, or what it held is made anew on others, and it leaves its pool for good.
//!
//! Invariant: whatever the disk does meanwhile, and however often the work is begun anew, the disk leaves only when nothing of it
//! is needed.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{AddDisks, ApiError, DiskRef, JobChanged, JobState, ReplaceDisk, StartJob};
use holdfast_device::IoError;
use holdfast_model::{ByteSize, DiskState, Usage, Uuid};
use holdfast_pool::{NewDisk, PoolErrorKind};
use holdfast_space::{Ended, Pace};

use super::spec::{JobSpec, Outcome, Site};
use crate::engine::Engine;
use crate::error::{Answer, conflict};
use crate::leaving::NamedMember;

/// How often it is looked whether slabs are left, as when the disk went out or came back meanwhile.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

impl Engine {
    /// Replaces a disk by another one or by all others: answers with the job that does it, the one that is there already if there
    /// is one.
    ///
    /// # Errors
    /// If it belongs to no pool in service, the new one cannot be had, or there is no room for what it holds.
    pub async fn replace_disk(self: &Arc<Self>, disk: String, request: ReplaceDisk) -> Answer<JobChanged> {
        self.change(move |engine| async move {
            let disk = DiskRef::new(&disk);
            let old = match engine.named_member(&disk).await {
                Ok(old) => old,
                Err(error) => {
                    let done = engine.jobs.last_replacement(&engine.resolve(&disk).await?);
                    return done.map(|job| JobChanged { changed: false, job }).ok_or(error);
                }
            };
            let (object, work) = (format!("disk {disk}"), JobSpec::Replace(old.job_object()));
            match &request.new {
                Some(new) => engine.take_in(&old, &object, &DiskRef::new(new), request.force).await?,
                None => engine.refuse_without_room(&old, &object, &work, None).await?,
            }
            engine.retire_member(&old.open, old.id, &object).await?;
            let start = StartJob { priority: request.priority, cap_bytes_per_second: request.cap_bytes_per_second };
            engine.add_job(work, start)
        })
        .await
    }

    /// Sees that a disk can take the place of another one, and takes it into its pool if it is not there.
    async fn take_in(&self, old: &NamedMember, object: &str, new: &DiskRef, force: bool) -> Answer<()> {
        let (path, work) = (self.resolve(new).await?, JobSpec::Replace(old.job_object()));
        match self.member(new, &path) {
            Some((_, id)) if id == old.id && self.is_in_service(&old.open, id) => {
                Err(ApiError::invalid(object, "it is named as its own replacement", "name another disk, or none"))
            }
            Some((open, id)) if open.pool.id() == old.open.pool.id() && id != old.id => {
                let record = open.pool.disk_record(id);
                let takes = |usage: Usage| usage.takes_slabs() || usage == Usage::HotSpare;
                if !record.is_some_and(|record| record.state == DiskState::Online && takes(record.usage)) {
                    let message = format!("disk {new} is of its pool and takes no slabs");
                    return Err(conflict(object, message, "set its usage to auto, or name another disk"));
                }
                self.refuse_without_room(old, object, &work, None).await
            }
            _ => {
                self.probe(&path).await?;
                if let Some(found) = self.look_at(vec![path.clone()]).await?.into_iter().next() {
                    let (media, place) = (found.info.media, found.info.place);
                    let disk = NewDisk { disk_bytes: found.size_bytes, media, place };
                    let named = format!("disk {path} of {}", ByteSize(found.size_bytes));
                    self.refuse_without_room(old, object, &work, Some((&named, disk))).await?;
                }
                self.grow_pool(&old.open.name(), AddDisks { disks: vec![path], force }).await.map(drop)
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
            return Ok(done("it was out of the pool already"));
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
                    true => "nothing is on it any more, and it is out of the pool",
                    false => "what it held is made anew, and it is out of the pool",
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
        let of = |spec: &JobSpec| matches!(spec, JobSpec::Replace(member) if member.path.ends_with(&format!("/disk {path}")));
        let done = inner.table.ended.iter().rev().find(|record| record.state == JobState::Done && of(&record.spec));
        done.and_then(|record| inner.view(record.id))
    }

    /// Whether a disk is to leave its pool.
    pub(crate) fn replaces(&self, disk: Uuid) -> bool {
        let replaces = |spec: &JobSpec| matches!(spec, JobSpec::Replace(member) if member.disk == disk);
        self.inner().table.jobs.iter().any(|record| replaces(&record.spec))
    }
}
