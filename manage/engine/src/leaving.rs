//! Disks that get no more slabs, and disks that leave their pool for good.
//!
//! Invariant: a disk leaves only where the pool says that nothing of it is needed; a request that is repeated, also one
//! that was cut short by a crash, comes to the same end.

use std::sync::Arc;

use holdfast_api::{ApiError, Changed, Code, DiskRef, DiskRetired, JobKind, RemoveDisk, RetireDisk};
use holdfast_model::{ByteSize, DiskState, RetirePolicy, Usage, Uuid, counted};
use holdfast_pool::{DiskChange, NewDisk, SpaceLeaving};

use crate::disks::Carries;
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, from_pool};
use crate::jobs::{JobSpec, Target};
use crate::protection::count;

/// A disk of a pool in service.
pub(crate) struct NamedMember {
    pub(crate) open: Arc<OpenPool>,
    pub(crate) id: Uuid,
    /// Where it is, or was seen last.
    pub(crate) path: String,
}

impl NamedMember {
    /// A job on it.
    pub(crate) fn job(&self, kind: JobKind) -> JobSpec {
        JobSpec::new(kind, Target::disk(&self.open, self.id, &self.path))
    }
}

impl Engine {
    /// The disk of a pool in service that a person names.
    pub(crate) async fn named_member(&self, disk: &DiskRef) -> ApiResult<NamedMember> {
        let path = self.resolve(disk).await?;
        match self.member(disk, &path) {
            Some((open, id)) => Ok(NamedMember { open, id, path }),
            None => Err(conflict(
                format!("disk {disk}"),
                "it is in no imported pool",
                "'holdfast disk list' shows the disks of pools; 'holdfast pool import' imports pools",
            )),
        }
    }

    /// Lets a disk of a pool get no new slabs; false if it was so already.
    pub(crate) async fn retire_member(&self, open: &OpenPool, id: Uuid, object: &str) -> ApiResult<bool> {
        let (pool, change) = (open.pool.clone(), DiskChange { usage: Some(Usage::Retired), ..DiskChange::default() });
        let retired = self.on_reactor(move || async move { pool.set_disk(id, change).await }).await?;
        let retired = retired.map_err(|error| from_pool(object, error))?;
        if retired {
            self.note(&open.disk_object(id), "retired");
        }
        Ok(retired)
    }

    /// Refuses to let a disk leave whose loss takes rows with it for good, unless their spaces are given up.
    fn refuse_loss_of_rows(
        &self,
        member: &NamedMember,
        object: &str,
        spaces: &[SpaceLeaving],
        given_up: &[String],
    ) -> ApiResult<()> {
        let path = |space: &SpaceLeaving| format!("{}/{}", member.open.name(), space.name);
        let loses = |name: &String| spaces.iter().any(|space| space.lost_rows > 0 && path(space) == *name);
        let is_there = |name: &String| {
            member.open.pool.spaces().iter().any(|record| *name == format!("{}/{}", member.open.name(), record.name))
        };
        if let Some(kept) = given_up.iter().find(|name| is_there(name) && !loses(name)) {
            let message = format!("space {kept} loses nothing with it, and is not destroyed for it");
            return Err(ApiError::invalid(object, message, format!("leave {kept} out")));
        }
        let lost: Vec<&SpaceLeaving> =
            spaces.iter().filter(|space| space.lost_rows > 0 && !given_up.contains(&path(space))).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let told: Vec<String> = lost
            .iter()
            .map(|space| {
                format!("{} of {} ({} of data)", count(space.lost_rows, "row"), path(space), ByteSize(space.lost_bytes))
            })
            .collect();
        let message =
            format!("{} cannot be read now and would be lost for good with it; nothing is changed", told.join(", "));
        let options: Vec<String> = lost.iter().map(|space| format!("--give-up {}", path(space))).collect();
        let next = format!(
            "attach the missing disks again, or destroy what is lost and go on: 'holdfast disk replace {} {}', for administrators only",
            member.path,
            options.join(" ")
        );
        Err(conflict(object, message, next))
    }

    /// Refuses to empty a disk where the others, with a new one if one is to take its place, have no room for what it
    /// holds, or rows of spaces that are not given up are lost with it. Nothing is changed, and nothing is asked of a
    /// disk that is being emptied already.
    pub(crate) async fn refuse_without_room(
        &self,
        member: &NamedMember,
        object: &str,
        work: &JobSpec,
        new: Option<(String, NewDisk)>,
        given_up: &[String],
    ) -> ApiResult<()> {
        if self.jobs.like(work).is_some() {
            return Ok(());
        }
        let (open, id, name) = (member.open.clone(), member.id, member.open.name());
        let (named, disk) = new.unzip();
        let planned = self.blocking(move || open.pool.evacuation_with(id, disk.as_ref())).await?;
        let mut stuck = planned.map_err(|error| from_pool(object, error))?.spaces;
        self.refuse_loss_of_rows(member, object, &stuck, given_up)?;
        stuck.retain(|space| !given_up.contains(&format!("{name}/{}", space.name)));
        stuck.retain(|space| space.stuck_slabs > 0);
        if stuck.is_empty() {
            return Ok(());
        }
        let spaces: Vec<String> = stuck.iter().map(|space| format!("{name}/{}", space.name)).collect();
        let (slabs, bytes) =
            stuck.iter().fold((0, 0), |(slabs, bytes), space| (slabs + space.stuck_slabs, bytes + space.stuck_bytes));
        let (with, next) = match named {
            Some(new) => (format!(" and on {new}"), "name a larger disk, or add disks first".to_string()),
            None => {
                let next = format!(
                    "add disks, or name a replacement: 'holdfast disk replace {0} NEW'; 'holdfast disk evacuate {0} --dry-run' shows the plan",
                    member.path
                );
                (String::new(), next)
            }
        };
        let message = format!(
            "{} ({}) of {} on the other disks of pool {name}{with}; nothing was changed",
            counted(slabs, "slab does not fit", "slabs do not fit"),
            ByteSize(bytes),
            spaces.join(", ")
        );
        Err(ApiError::new(Code::NoSpace, object, message, next))
    }

    /// Refuses to let a disk take no more slabs where spaces would get no new rows then, unless that is `force`d.
    pub(crate) fn refuse_without_new_rows(
        &self,
        open: &OpenPool,
        disk: Uuid,
        object: &str,
        new: Option<&NewDisk>,
        force: bool,
    ) -> ApiResult<()> {
        let left = open.pool.spaces_without_new_rows(disk, new).map_err(|error| from_pool(object, error))?;
        if left.is_empty() || force {
            return Ok(());
        }
        let spaces: Vec<String> = left.iter().map(|space| format!("{}/{space}", open.name())).collect();
        let message = format!(
            "without it too few disks of pool {} are left for new rows of {}: writes to new places of {} would be refused; nothing is changed",
            open.name(),
            spaces.join(", "),
            if spaces.len() == 1 { "it" } else { "them" }
        );
        let next = format!(
            "add a disk first, convert to fewer columns with 'holdfast space convert {} --columns N', or repeat with --force",
            spaces[0]
        );
        Err(conflict(object, message, next))
    }

    /// Retires a disk. Its data is moved away by a job, which is answered with, where that is asked for, or the pool's
    /// policy is to do so always.
    ///
    /// # Errors
    /// If it belongs to no pool in service, its data is asked to be moved and has no room elsewhere or is lost with it,
    /// spaces get no new rows then and nobody forces it, or the pool refuses.
    pub async fn retire_disk(self: &Arc<Self>, disk: String, request: RetireDisk) -> ApiResult<DiskRetired> {
        self.change(move |engine| async move {
            let disk = DiskRef::new(&disk);
            let member = engine.named_member(&disk).await?;
            let object = format!("disk {disk}");
            if request.evacuate {
                engine.refuse_without_room(&member, &object, &member.job(JobKind::Evacuate), None, &[]).await?;
            }
            engine.refuse_without_new_rows(&member.open, member.id, &object, None, request.force)?;
            let mut changed = engine.retire_member(&member.open, member.id, &object).await?;
            let always = member.open.pool.loss_policy().retire == RetirePolicy::Always;
            let there = member.open.pool.disk_record(member.id).is_some_and(|record| record.state == DiskState::Online);
            let mut job = None;
            if request.evacuate || (always && there) {
                let answer = engine.evacuate_member(&member, request.pace)?;
                changed |= answer.changed;
                job = Some(answer.job);
            }
            Ok(DiskRetired { changed, disk: engine.disk(&DiskRef::Word(member.id.to_string())).await?, job })
        })
        .await
    }

    /// Takes a disk out of its pool for good, and its labels off it if it is there.
    ///
    /// # Errors
    /// If it holds slabs, the pool cannot do without its vote, or spaces get no new rows then and nobody forces it.
    pub async fn remove_disk(self: &Arc<Self>, disk: String, request: RemoveDisk) -> ApiResult<Changed> {
        self.change(move |engine| async move { engine.remove(&DiskRef::new(&disk), request.force).await }).await
    }

    async fn remove(&self, disk: &DiskRef, force: bool) -> ApiResult<Changed> {
        let absent = || Changed { changed: false, message: format!("no imported pool has a disk {disk}") };
        let path = match self.resolve(disk).await {
            Err(ApiError { code: Code::NotFound, .. }) => return Ok(absent()),
            path => path?,
        };
        let object = format!("disk {disk}");
        let Some((open, id)) = self.member(disk, &path) else {
            return Ok(self.finish_removal(&path, &object).await?.unwrap_or_else(absent));
        };
        let is_empty = open.pool.slabs_on(id) == 0;
        if is_empty {
            self.refuse_without_new_rows(&open, id, &object, None, force)?;
        }
        let (pool, name, gone) = (open.pool.clone(), open.name(), open.disk_object(id));
        let removed = self.on_reactor(move || async move { pool.remove_disk(id).await }).await?;
        let wiped = removed.map_err(|error| from_pool(&object, error))?;
        open.disks().remove(&id);
        self.remember_or_retry(&open.object(), "that a disk left it is not saved");
        self.note(&gone, &format!("was removed from pool {name}"));
        let left = if wiped { "" } else { "; if it returns, wipe it before you use it again" };
        Ok(Changed { changed: true, message: format!("disk {disk} was removed from pool {name}{left}") })
    }

    /// Wipes the labels of a disk that left its pool while it was away, or just before a crash.
    async fn finish_removal(&self, path: &str, object: &str) -> ApiResult<Option<Changed>> {
        if self.probe(path).await.is_err() {
            return Ok(None);
        }
        let found = self.look_at(vec![path.into()]).await?.into_iter().next();
        let Some(Carries::Former(pool)) = found.map(|found| found.carries) else { return Ok(None) };
        let device = self.open_disk(path, false).await?.candidate.device;
        let wiped = self.on_reactor(move || async move { holdfast_pool::wipe(&device).await }).await?;
        wiped.map_err(|error| from_pool(object, error))?;
        Ok(Some(Changed {
            changed: true,
            message: format!("{object} was removed from pool {pool} earlier; its labels are now wiped"),
        }))
    }
}
