//! What is done to single disks: files made to serve as disks, properties set by hand, content wiped.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use holdfast_api::{ApiError, CreateFileDisk, Disk, DiskChanged, DiskRef, SetDisk};
use holdfast_device::{Device, Durability, IoSlice, file};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, ObjectKind, ObjectRef, Place, Uuid, natural_order};
use holdfast_pool::{DiskChange, LARGEST_DISK_BYTES, SMALLEST_DISK_BYTES};

use crate::disks::{Carries, Taken, real_path};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, exists_with, from_io, from_pool, not_confirmed, not_found, system, unwritten};
use crate::spaces::whole_blocks;

/// At both ends of a disk, what a wipe overwrites: every file system, table and array that `blkid` knows begins there.
const WIPED_BYTES: u64 = 16 << 20;
const STEP_BYTES: u64 = 1 << 20;
/// The highest slot of an enclosure.
const LAST_SLOT: u32 = 9999;

impl Engine {
    /// All disks: those of pools, and those that belong to none.
    pub async fn disks(&self) -> ApiResult<Vec<Disk>> {
        let mut disks: Vec<Disk> = Vec::new();
        let open: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        for open in &open {
            disks.extend(self.member_views(open));
        }
        let pooled = self.pooled_paths();
        let paths =
            self.known_paths().await?.into_iter().filter(|path| !pooled.contains_key(&real_path(path))).collect();
        disks.extend(self.look_at(paths).await?.into_iter().map(crate::view::free_disk));
        let pool = |disk: &Disk| disk.pool.clone().unwrap_or_default();
        disks.sort_by(|a, b| natural_order(&pool(a), &pool(b)).then_with(|| natural_order(&a.path, &b.path)));
        Ok(disks)
    }

    /// The disk that a person names.
    ///
    /// # Errors
    /// If there is none.
    pub async fn disk(&self, disk: &DiskRef) -> ApiResult<Disk> {
        let path = self.resolve(disk).await?;
        if let Some((open, id)) = self.member(disk, &path) {
            let shown = self.member_views(&open).into_iter().find(|shown| shown.id == Some(id));
            return shown.ok_or_else(|| not_found(format!("disk {disk}"), "'holdfast disk list' shows the disks"));
        }
        self.probe(&path).await?;
        let found = self.look_at(vec![path.clone()]).await?.into_iter().next();
        found.map(crate::view::free_disk).ok_or_else(|| not_found(format!("disk {path}"), "check the path"))
    }

    /// The member of a pool that a person names; `path` is what its name was resolved to. At a path where one was seen
    /// last and another one is now, the latter is meant.
    pub(crate) fn member(&self, disk: &DiskRef, path: &str) -> Option<(Arc<OpenPool>, Uuid)> {
        let (real, word) = (real_path(path), disk.as_str());
        let pools: Vec<Arc<OpenPool>> = self.live().pools.values().cloned().collect();
        let members: Vec<_> =
            pools.iter().flat_map(|open| open.pool.disks().into_iter().map(move |disk| (open, disk.record))).collect();
        let named = members
            .iter()
            .find(|(_, record)| record.id.to_string() == word || (!word.is_empty() && record.serial == word));
        let there = || {
            let at_path = members.iter().filter(|(_, record)| real_path(&record.path) == real);
            at_path.min_by_key(|(_, record)| record.state != DiskState::Online)
        };
        named.or_else(there).map(|(open, record)| ((*open).clone(), record.id))
    }

    /// Makes a sparse file that serves as a disk.
    ///
    /// # Errors
    /// If the size cannot be, or something else is at the path.
    pub async fn create_file_disk(self: &Arc<Self>, request: CreateFileDisk) -> ApiResult<DiskChanged> {
        self.change(move |engine| async move { engine.make_file(request).await }).await
    }

    async fn make_file(&self, request: CreateFileDisk) -> ApiResult<DiskChanged> {
        let CreateFileDisk { path, size_bytes } = request;
        let object = format!("disk {path}");
        if !path.starts_with('/') {
            return Err(ApiError::invalid(object, "its path is not absolute", "write the full path, beginning with /")
                .at("path"));
        }
        let size_bytes = whole_blocks(size_bytes);
        let [size, least, most] = [size_bytes, SMALLEST_DISK_BYTES, LARGEST_DISK_BYTES].map(ByteSize);
        if !(least..=most).contains(&size) {
            let message = format!("it cannot have {}", size.beside(if size < least { least } else { most }));
            let next = format!("choose a size from {least} to {most}");
            return Err(ApiError::invalid(object, message, next).at("size_bytes"));
        }
        let changed = match std::fs::metadata(&path) {
            Ok(data) if data.is_file() && data.len() == size_bytes => false,
            Ok(data) if data.is_file() => {
                let has = ByteSize(data.len());
                return Err(exists_with(&object, "size", has.beside(size), size.beside(has)).at("size_bytes"));
            }
            Ok(_) => {
                return Err(conflict(object, "the path exists and is not a file", "choose another path").at("path"));
            }
            Err(_) => {
                let owned = path.clone();
                let made = self.blocking(move || file::create(owned, size_bytes)).await?;
                made.map_err(|error| ApiError { message: error.to_string(), ..system(&object, "making it", &error) })?;
                true
            }
        };
        let real = real_path(&path).to_string_lossy().into_owned();
        if let Err(error) = self.remember_files(std::slice::from_ref(&real)) {
            if changed {
                let _ = std::fs::remove_file(&path);
            }
            return Err(error);
        }
        Ok(DiskChanged { changed, disk: self.disk(&DiskRef::Path(real)).await? })
    }

    /// Remembers files that serve as disks, so that an import looks at them.
    pub(crate) fn remember_files(&self, files: &[String]) -> ApiResult<()> {
        let noted = self.change_state(|state| {
            let new: Vec<&String> = files.iter().filter(|file| !state.file_disks.contains(file)).collect();
            if !new.is_empty() {
                state.file_disks.retain(|known| Path::new(known).exists());
                state.file_disks.extend(new.into_iter().cloned());
            }
        });
        noted.map_err(unwritten)
    }

    /// Sets what the disk itself does not tell, or what its pool may use it for.
    ///
    /// # Errors
    /// If there is no such disk, or its pool refuses.
    pub async fn set_disk(self: &Arc<Self>, disk: String, request: SetDisk) -> ApiResult<DiskChanged> {
        self.change(move |engine| async move { engine.set(&DiskRef::new(&disk), request).await }).await
    }

    async fn set(&self, disk: &DiskRef, request: SetDisk) -> ApiResult<DiskChanged> {
        let path = self.resolve(disk).await?;
        let object = format!("disk {disk}");
        let place = place_of(&object, request.enclosure, request.slot)?;
        let changed = match self.member(disk, &path) {
            Some((open, id)) => {
                if request.usage.is_some_and(|usage| !usage.takes_slabs()) {
                    self.refuse_without_new_rows(&open, id, &object, None, request.force)?;
                }
                let change = DiskChange { media: request.media, usage: request.usage, place };
                let pool = open.pool.clone();
                let changed = self.on_reactor(move || async move { pool.set_disk(id, change).await }).await?;
                changed.map_err(|error| from_pool(object, error))?
            }
            None if request.usage.is_some() => {
                return Err(conflict(object, "it is in no pool, so it has no usage", "add it to a pool first"));
            }
            None => {
                self.probe(&path).await?;
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                let mut next = state.clone();
                let hint = next.hints.entry(path.clone()).or_default();
                hint.media = request.media.or(hint.media);
                hint.place = place.or(hint.place.take());
                let changed = next != *state && (request.media.is_some() || hint_changed(&state, &next, &path));
                if changed {
                    self.state_dir.store(&self.store, &next).map_err(unwritten)?;
                    *state = next;
                }
                changed
            }
        };
        Ok(DiskChanged { changed, disk: self.disk(disk).await? })
    }

    /// Makes a disk blank.
    ///
    /// # Errors
    /// If it is in use or belongs to a pool, or nobody said that its content may be lost.
    pub async fn wipe_disk(self: &Arc<Self>, disk: String, force: bool) -> ApiResult<DiskChanged> {
        self.change(move |engine| async move { engine.wipe(&DiskRef::new(&disk), force).await }).await
    }

    async fn wipe(&self, disk: &DiskRef, force: bool) -> ApiResult<DiskChanged> {
        let path = self.resolve(disk).await?;
        let object = format!("disk {disk}");
        if let Some((open, _)) = self.member(disk, &path) {
            let name = open.name();
            return Err(conflict(
                object,
                format!("it belongs to pool {name}"),
                format!("destroy or export pool {name} first"),
            ));
        }
        let shown = self.disk(&DiskRef::Path(path.clone())).await?;
        let carries = self.look_at(vec![path.clone()]).await?.into_iter().next().map(|found| found.carries);
        match carries {
            Some(Carries::Nothing) | None => return Ok(DiskChanged { changed: false, disk: shown }),
            Some(Carries::InUse(how)) => {
                return Err(conflict(object, format!("it is in use: {how}"), "end that use first"));
            }
            _ if !force => {
                let causes: Vec<String> = shown.conditions.iter().map(|condition| condition.cause.clone()).collect();
                return Err(not_confirmed(object, causes.join("; "), "if that data may be lost, repeat with --force"));
            }
            _ => {}
        }
        let taken = self.open_disk(&path, false).await?;
        self.zero_ends(&taken).await?;
        drop(taken);
        self.note(&ObjectRef::named(ObjectKind::Disk, &path), "wiped");
        Ok(DiskChanged { changed: true, disk: self.disk(&DiskRef::Path(path)).await? })
    }

    /// Wipes what forced disks carry, so that no old signature is found beside the pool's labels.
    pub(crate) async fn wipe_foreign(&self, taken: &[Taken], force: bool) -> ApiResult<()> {
        if force {
            for taken in taken {
                self.zero_ends(taken).await?;
            }
        }
        Ok(())
    }

    async fn zero_ends(&self, taken: &Taken) -> ApiResult<()> {
        let device = taken.device.clone();
        let object = format!("disk {}", taken.candidate.info.path);
        let wiped = self.on_reactor(move || async move {
            let size = device.geometry().size_bytes;
            let zeros = IoSlice::padded(&vec![0; STEP_BYTES as usize]);
            let front = (0, WIPED_BYTES.min(size));
            let end = (size.saturating_sub(WIPED_BYTES).max(front.1), size);
            for (mut at, to) in [front, end] {
                while at < to {
                    let len = STEP_BYTES.min(to - at);
                    device.write(at, zeros.slice(0, len as usize), Durability::Cached).await?;
                    at += len;
                }
            }
            if let Ok(area) = holdfast_pool::Area::of_disk("", size) {
                for offset in area.labels().into_iter().chain(area.log_heads()) {
                    device.write(offset, zeros.slice(0, BLOCK_BYTES as usize), Durability::Cached).await?;
                }
            }
            device.flush().await
        });
        wiped.await?.map_err(|error| from_io(object, error))
    }
}

/// A checked place; `None` where none is given.
fn place_of(object: &str, enclosure: Option<String>, slot: Option<u32>) -> ApiResult<Option<Place>> {
    let refuse = |field: &str, message: String, next: &str| Err(ApiError::invalid(object, message, next).at(field));
    match (enclosure, slot) {
        (None, None) => Ok(None),
        (Some(_), None) => refuse("slot", "an enclosure is given without a slot".into(), "give both or none"),
        (None, Some(_)) => refuse("enclosure", "a slot is given without an enclosure".into(), "give both or none"),
        (Some(enclosure), Some(_)) if enclosure.is_empty() || enclosure.len() > 255 => {
            refuse("enclosure", format!("the enclosure's name has {} bytes", enclosure.len()), "choose 1 to 255 bytes")
        }
        (Some(_), Some(slot)) if slot > LAST_SLOT => {
            refuse("slot", format!("an enclosure has no slot {slot}"), "choose a slot from 0 to 9999")
        }
        (Some(enclosure), Some(slot)) => Ok(Some(Place { enclosure, slot })),
    }
}

fn hint_changed(old: &crate::state::State, new: &crate::state::State, path: &str) -> bool {
    old.hints.get(path).cloned().unwrap_or_default() != new.hints.get(path).cloned().unwrap_or_default()
}
