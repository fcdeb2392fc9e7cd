//! Files of volumes that clients use as disks.
//!
//! ```text
//!   file ─▶ its place in the table of opens ─▶ what kernels keep of it dropped ─▶ block object ─▶ service of the object
//!           nobody else may write to it, cut, rename or remove it; whoever reads it does so past caches
//! ```
//!
//! Invariants: a file is open as a disk once, by whomever and however often it is asked for. A volume is not closed,
//! destroyed or taken away before its files are no disks any more.

mod ending;

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use holdfast_api::{ApiError, Code};
use holdfast_block::ObjectService;
use holdfast_device::Device as _;
use holdfast_device::reactor::{self, ReactorHandle};
use holdfast_fuse::Opens;
use holdfast_model::{BLOCK_BYTES, ByteSize, Uuid, counted};
use holdfast_opens::{Access, ClientId, FileKey, Notice, OpenId, OpenRequest, Opening, Recall, Seat, Table, Waiting};
use holdfast_volume::service::{
    Allocate, Attributes, FileId, FileKind, FileService, NewFile, OpenMode, Remove, SetAttributes,
};
use holdfast_volume::{ErrorKind, FileObject, Finish, Volume, VolumeError};
use tokio::sync::watch;

use self::ending::{carry_out, end_file_disk, give_back, stand_up};
use super::acl::administrator;
use super::mounts::VOLUME_IN_TABLE;
use super::usage::find_any;
use super::{CLOSE_TIMEOUT, from_volume};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, not_found};

/// What all block front ends are called in tables of opens.
const CLIENT: ClientId = ClientId(u128::from_be_bytes(*b"Holdfast disks\0\0"));
/// How often a file that somebody has open is asked for again: the kernel tells of closes a moment later.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);
/// Names of a file that are looked at to find whether a directory has it.
const MOST_NAMES: usize = 4096;

/// Nothing is cached by disks, and nobody else closes their opens.
struct Nothing;

impl Recall for Nothing {
    fn broken(&self, _: &Notice) {}

    fn closed(&self, file: FileKey, open: OpenId) {
        tracing::warn!("{open} of {file}, which is a disk, was closed by order");
    }
}

/// A file that is open as a disk.
pub(crate) struct FileDisk {
    /// What requests of all clients go through.
    pub(crate) service: Arc<ObjectService>,
    /// Where it is, for messages.
    pub(crate) path: String,
    object: Arc<FileObject>,
    seat: Seat,
    opens: Arc<Table>,
    /// Whether it is a file like any again.
    ended: watch::Sender<bool>,
}

/// A file that is open as a disk for one user. What is dropped is given back a moment later.
pub(crate) struct HeldDisk {
    pub(crate) disk: Arc<FileDisk>,
    open: Arc<OpenPool>,
    volume: Uuid,
    reactor: ReactorHandle,
    runtime: tokio::runtime::Handle,
    is_released: bool,
}

impl HeldDisk {
    /// Gives it back; with its last user it is a file like any. No request may be asked for any more; those under way are
    /// waited for.
    pub(crate) async fn release(mut self) {
        self.is_released = true;
        give_back(&self.open, &self.reactor, self.volume, self.disk.clone()).await;
    }

    /// Lets it grow; answers whether it was smaller. Who serves it tells its clients.
    pub(crate) async fn grow(&self, size_bytes: u64) -> ApiResult<bool> {
        let (object, path) = (self.disk.object.clone(), format!("file {}", self.disk.path));
        let grown = self.reactor.call(move || async move { object.grow(size_bytes).await }).await;
        let grown = grown.map_err(|_| conflict(&path, "the daemon is stopping", "ask again when it has started"))?;
        grown.map_err(|error| from_object(&path, &error))
    }
}

impl Drop for HeldDisk {
    fn drop(&mut self) {
        if !self.is_released {
            let (open, reactor, volume, disk) =
                (self.open.clone(), self.reactor.clone(), self.volume, self.disk.clone());
            self.runtime.spawn(async move { give_back(&open, &reactor, volume, disk).await });
        }
    }
}

/// One of a volume, and how many have it: none while it ends.
pub(super) struct Shared {
    disk: Arc<FileDisk>,
    users: usize,
}

impl Shared {
    /// Where the file was when it became a disk.
    pub(super) fn path(&self) -> String {
        self.disk.path.clone()
    }
}

/// A file that was found for a disk, or made for one.
pub(crate) struct FoundFile {
    /// The volume's id.
    pub(crate) volume: Uuid,
    /// The file.
    pub(crate) file: FileId,
    /// Its path from the root on.
    pub(crate) path: String,
    /// Whether it was made.
    pub(crate) is_new: bool,
}

/// What is to be made where there is no file.
#[derive(Clone, Copy)]
pub(crate) struct NewDisk {
    /// Its length.
    pub(crate) size_bytes: u64,
    /// Whether room is set aside for all of it.
    pub(crate) allocates: bool,
}

fn finish() -> Finish {
    Arc::new(|left| match reactor::current() {
        Some(_) => drop(reactor::spawn_local(left)),
        // Its reactor has ended, and with it what it had begun.
        None => drop(left),
    })
}

/// `POOL/VOLUME:PATH`, in its parts.
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    text.split_once(':').filter(|(volume, path)| !volume.is_empty() && !path.trim_matches('/').is_empty())
}

/// Whether a path is another one, or below it.
fn is_within(path: &[u8], above: &str) -> bool {
    let names = |path: &[u8]| -> Vec<Vec<u8>> {
        path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect()
    };
    names(path).starts_with(&names(above.as_bytes()))
}

/// Where files that are disks are, or that are to be as soon as they can, of those at or below a path.
pub(crate) async fn disks_within(volume: &Volume, more: &[FileId], above: &str) -> Result<Vec<String>, VolumeError> {
    let mut found = Vec::new();
    let files: BTreeSet<FileId> = volume.block_objects().into_iter().chain(more.iter().copied()).collect();
    for file in files {
        let paths = match volume.paths_of(file, MOST_NAMES).await {
            Err(error) if error.kind == ErrorKind::Stale => continue,
            paths => paths?,
        };
        let within = paths.into_iter().find(|path| is_within(path, above));
        found.extend(within.map(|path| String::from_utf8_lossy(&path).into_owned()));
    }
    Ok(found)
}

/// Refuses what would change files that are disks.
pub(crate) fn in_use(object: &str, paths: &[String]) -> ApiError {
    let first = paths.first().map_or("", String::as_str);
    let more = match paths.len() {
        0 | 1 => String::new(),
        all => format!(" and {}", counted(all as u64 - 1, "other file", "other files")),
    };
    let next = "'holdfast target list' shows its LUN: 'holdfast lun remove TARGET N' first";
    conflict(object, format!("clients use {first}{more} as a disk"), next)
}

/// Where a new file is to be, and its name.
async fn directory_of<'a>(volume: &Volume, path: &'a str) -> Result<Option<(Attributes, &'a [u8])>, VolumeError> {
    let path = path.trim_end_matches('/');
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let directory = find_any(volume, parent).await?.filter(|facts| facts.kind == FileKind::Directory);
    Ok(directory.map(|directory| (directory, name.as_bytes())))
}

/// Gives a file all the room of a size, which need not be its own.
async fn set_aside(volume: &Volume, file: FileId, size_bytes: u64) -> Result<(), VolumeError> {
    let mode = OpenMode { read: true, write: true, truncate: false };
    let handle = volume.open(&administrator(), file, mode).await?;
    let reserved = volume.allocate(&handle, 0, size_bytes, Allocate::Reserve { keep_size: true }).await;
    volume.close(handle).await?;
    reserved
}

/// Makes a file for a disk. Until it is all that it is to be it has no name: one that a crash or a failure leaves goes with
/// the next opening of the volume, and a name is never that of half a disk.
async fn make(volume: &Volume, dir: FileId, name: &[u8], new: NewDisk) -> Result<FileId, VolumeError> {
    let caller = administrator();
    let file = NewFile { kind: FileKind::Regular, mode: 0o600, target: b"" };
    let (made, handle) = volume.create_unnamed(&caller, dir, &file).await?;
    let sized = async {
        let set = SetAttributes { size_bytes: Some(new.size_bytes), ..SetAttributes::default() };
        volume.set(&caller, made.id, &set).await?;
        if new.allocates {
            volume.allocate(&handle, 0, new.size_bytes, Allocate::Reserve { keep_size: true }).await?;
        }
        volume.link(&caller, made.id, dir, name).await
    };
    let named = sized.await;
    let closed = volume.close(handle).await;
    named?;
    let kept = closed.and(volume.sync().await);
    if kept.is_err() {
        volume.remove(&caller, dir, name, Remove::File).await?;
    }
    kept.map(|()| made.id)
}

impl FileDisk {
    /// The file.
    pub(crate) fn file(&self) -> FileId {
        self.object.file()
    }

    /// Its size.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.object.geometry().size_bytes
    }

    /// Takes its place in the table of opens, if nobody else has the file open. One that was to go with an open that was
    /// kept for a client, and that ends for this, goes.
    async fn sit_down(
        reactor: &ReactorHandle,
        volume: &Arc<Volume>,
        opens: &Arc<Table>,
        file: FileId,
    ) -> Result<Seat, &'static str> {
        let key = Opens::new(opens.clone(), VOLUME_IN_TABLE).key(file);
        let request = OpenRequest {
            file: key,
            client: CLIENT,
            protocol: "block",
            access: Access::READ.and(Access::WRITE),
            share: Access::READ,
            ignores_denials: false,
            excludes_all: true,
            overwrites: false,
            delete_on_close: None,
            lease: None,
            waits_for_kept: false,
            recall: Arc::new(Nothing),
        };
        let mut why = "";
        for turn in 0..TRIES {
            if turn > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let asked = opens.poll_open(&request, &mut Waiting::new(), reactor::clock().now(), Waker::noop());
            let seat = match asked {
                Poll::Ready(Ok(Opening::Opened(opened))) => opened.seat,
                Poll::Ready(Ok(Opening::DeleteFirst(deletion))) => {
                    carry_out(reactor, volume, opens, deletion).await;
                    return Err("it is being removed");
                }
                Poll::Ready(Err(_)) | Poll::Pending => {
                    why = "others have it open";
                    continue;
                }
            };
            // Whoever has it open for reading may have its pages, and would be shown them for ever.
            if opens.opens_of(key, 2).len() < 2 {
                return Ok(seat);
            }
            stand_up(reactor, volume, opens, &seat).await;
            why = "others have it open to read it, and may keep what it held";
        }
        Err(why)
    }
}

impl OpenPool {
    /// The files of a volume that are disks, by their paths when they became that.
    pub(crate) fn file_disks(&self, volume: Uuid) -> Vec<String> {
        let volumes = self.volumes();
        let live = volumes.values().find(|live| live.known.id == volume).and_then(|live| live.open.as_ref());
        live.map(|open| open.disks.values().map(Shared::path).collect()).unwrap_or_default()
    }

    /// Refuses to take a volume from clients that use files of it as disks.
    pub(crate) fn refuse_file_disks(&self, volume: Uuid, object: &str) -> ApiResult<()> {
        let paths = self.file_disks(volume);
        if paths.is_empty() { Ok(()) } else { Err(in_use(object, &paths)) }
    }

    /// Has what kernels keep of a file be dropped, and what programs wrote to mapped memory be written before.
    async fn drop_pages(&self, volume: Uuid, file: FileId) {
        let Some(notifier) = self.notifier_of(volume) else { return };
        // The kernel may wait for what a reactor serves.
        let told = tokio::task::spawn_blocking(move || notifier.file_changed(file));
        if tokio::time::timeout(CLOSE_TIMEOUT, told).await.is_err() {
            tracing::warn!("the kernel did not drop what it keeps of file {} within {CLOSE_TIMEOUT:?}", file.number);
        }
    }
}

impl Engine {
    /// The file `POOL/VOLUME:PATH`; with `new` it is made where there is none.
    ///
    /// # Errors
    /// There is no such volume or file, one of another size where one is to be made, or what is there is no file.
    pub(crate) async fn find_file(&self, text: &str, new: Option<NewDisk>) -> ApiResult<(Arc<OpenPool>, FoundFile)> {
        let object = format!("file {text}");
        let next = "write POOL/VOLUME:PATH, the path from the volume's root on";
        let (volume_path, path) =
            split(text).ok_or_else(|| ApiError::invalid(&object, "it is no path of a file of a volume", next))?;
        let (open, name, about) = self.volume_at(volume_path)?;
        let (known, volume) = open.open_volume_named(&name, &about)?;
        if let Some(new) = new
            && (new.size_bytes == 0 || !new.size_bytes.is_multiple_of(BLOCK_BYTES))
        {
            let message = format!("{} bytes are no whole blocks of {BLOCK_BYTES}", new.size_bytes);
            return Err(ApiError::invalid(object, message, "choose a multiple").at("size_bytes"));
        }
        let path = format!("/{}", path.trim_matches('/'));
        let (asked, room) = (path.clone(), volume.clone());
        let found = self.on_reactor(move || async move {
            if let Some(found) = find_any(&*volume, &asked).await? {
                return Ok(Some((found, false)));
            }
            let Some(new) = new else { return Ok(None) };
            let Some((directory, name)) = directory_of(&volume, &asked).await? else { return Ok(None) };
            let made = make(&volume, directory.id, name, new).await?;
            Ok(Some((volume.stat(made).await?, true)))
        });
        let found = found.await?.map_err(|error| match new {
            Some(new) if new.allocates => no_room(&object, &error, new.size_bytes, room.room().free_bytes),
            _ => from_volume(&object, &error),
        });
        let found = found?;
        let Some((facts, is_new)) = found else {
            let next = match new {
                Some(_) => "make the directory first",
                None => "make it with --size SIZE, or name one that is there",
            };
            return Err(not_found(object, next));
        };
        if facts.kind != FileKind::Regular {
            return Err(ApiError::invalid(object, "it is no regular file", "name a file"));
        }
        if let Some(new) = new.filter(|new| new.size_bytes != facts.size_bytes) {
            let (has, wanted) = (ByteSize(facts.size_bytes), ByteSize(new.size_bytes));
            let message = format!("it is there and has {}, not {}", has.beside(wanted), wanted.beside(has));
            return Err(conflict(object, message, "leave the size out, or name another file").at("size_bytes"));
        }
        Ok((open, FoundFile { volume: known.id, file: facts.id, path, is_new }))
    }

    /// Gives a file of a volume all the room of a size, durably.
    ///
    /// # Errors
    /// The volume is not open, or has not so much; the file keeps what it has.
    pub(crate) async fn give_all_room(
        &self,
        open: &OpenPool,
        id: Uuid,
        file: FileId,
        size_bytes: u64,
        path: &str,
    ) -> ApiResult<()> {
        let object = format!("file {path}");
        let volume = open.volume_of(id);
        let volume = volume.ok_or_else(|| conflict(&object, "its volume is not open", "see the health of its pool"))?;
        let asked = volume.clone();
        let given = self.on_reactor(move || async move {
            set_aside(&volume, file, size_bytes).await?;
            volume.sync().await
        });
        given.await?.map_err(|error| no_room(&object, &error, size_bytes, asked.room().free_bytes))
    }

    /// Removes a file again that was made for a disk which could not be had.
    pub(crate) async fn unmake_file(&self, open: &OpenPool, found: &FoundFile) {
        let Some(volume) = open.volume_of(found.volume).filter(|_| found.is_new) else { return };
        let (path, file) = (found.path.clone(), found.file);
        let removed = self.on_reactor(move || async move {
            let Some((directory, name)) = directory_of(&volume, &path).await? else { return Ok(()) };
            let there = volume.lookup(&administrator(), directory.id, name).await?;
            match there.filter(|there| there.id == file) {
                Some(_) => volume.remove(&administrator(), directory.id, name, Remove::File).await,
                None => Ok(()),
            }
        });
        if let Ok(Err(error)) = removed.await {
            tracing::warn!("file {} of a disk that was not made stays: {error}", found.path);
        }
    }

    /// Opens a file of a volume as a disk, or has one more user of it.
    ///
    /// # Errors
    /// The volume is not open, the file is gone, has no whole blocks, is open elsewhere, or is being restored.
    pub(crate) async fn open_file_disk(&self, open: &Arc<OpenPool>, volume: Uuid, file: FileId) -> ApiResult<HeldDisk> {
        let reactor = self.next_reactor().clone();
        let hold = |disk: Arc<FileDisk>| HeldDisk {
            disk,
            open: open.clone(),
            volume,
            reactor: reactor.clone(),
            runtime: tokio::runtime::Handle::current(),
            is_released: false,
        };
        let (known, served) = loop {
            let ending = {
                let mut volumes = open.volumes();
                let live = volumes.values_mut().find(|live| live.known.id == volume);
                let live = live.ok_or_else(|| not_found("volume", "'holdfast volume list' lists the volumes"))?;
                let object = format!("volume {}/{}", open.name(), live.known.name);
                if live.is_away {
                    let next = "see 'holdfast job list', and wait for its end";
                    return Err(conflict(object, "a job repairs it offline", next));
                }
                let refusal = live.refusal(&object);
                let opened = live.open.as_mut().ok_or(refusal)?;
                match opened.disks.get_mut(&file) {
                    None => break (live.known.clone(), (opened.volume.clone(), opened.opens.clone())),
                    Some(shared) if shared.users == 0 => shared.disk.clone(),
                    Some(shared) => {
                        shared.users += 1;
                        return Ok(hold(shared.disk.clone()));
                    }
                }
            };
            if !ending.has_ended().await {
                let object = format!("file {}", ending.path);
                return Err(conflict(object, "requests of it as a disk are still being finished", "ask again later"));
            }
        };
        let (serving, opens) = served;
        let inner = serving.clone();
        let paths = self.on_reactor(move || async move { inner.paths_of(file, MOST_NAMES).await }).await?;
        let place = format!("file {}/{}", open.name(), known.name);
        let paths = paths.map_err(|error| match error.kind {
            ErrorKind::Stale => gone(&place, &serving),
            _ => from_volume(&place, &error),
        })?;
        let path = paths.first().map(|path| String::from_utf8_lossy(path).into_owned());
        let path = path.ok_or_else(|| gone(&place, &serving))?;
        let object = format!("{place}:{path}");
        if let Some((job, _)) =
            self.jobs.restores(volume).into_iter().find(|(_, above)| paths.iter().any(|path| is_within(path, above)))
        {
            let next = format!("wait for its end, or 'holdfast job cancel {job}'");
            return Err(conflict(object, format!("job {job} restores it"), next));
        }
        let seat = FileDisk::sit_down(&reactor, &serving, &opens, file).await;
        let seat = seat.map_err(|why| conflict(&object, why, "end what has it open, and repeat"))?;
        open.drop_pages(volume, file).await;
        let inner = serving.clone();
        let opening =
            self.on_reactor(move || async move { FileObject::open(inner, &administrator(), file, finish()).await });
        let opening = match opening.await {
            Ok(opening) => opening.map_err(|error| from_object(&object, &error)),
            Err(stopping) => Err(stopping),
        };
        let made = match opening {
            Ok(made) => Arc::new(made),
            Err(error) => {
                stand_up(&reactor, &serving, &opens, &seat).await;
                return Err(error);
            }
        };
        let service = ObjectService::new(made.clone(), open.balancer.clone(), reactor::clock());
        let disk = Arc::new(FileDisk {
            service: Arc::new(service),
            path,
            object: made,
            seat,
            opens,
            ended: watch::Sender::new(false),
        });
        let is_kept = {
            let mut volumes = open.volumes();
            let live = volumes.values_mut().find(|live| live.known.id == volume && !live.is_away);
            let opened = live.and_then(|live| live.open.as_mut());
            let opened = opened.filter(|opened| Arc::ptr_eq(&opened.volume, disk.object.volume()));
            match opened.map(|opened| opened.disks.entry(file)) {
                Some(Entry::Vacant(place)) => {
                    place.insert(Shared { disk: disk.clone(), users: 1 });
                    true
                }
                Some(Entry::Occupied(_)) | None => false,
            }
        };
        if !is_kept {
            end_file_disk(open, &reactor, volume, disk).await;
            return Err(conflict(object, "its volume was closed just now", "ask again"));
        }
        Ok(hold(disk))
    }

    /// Refuses to restore what is at a path while files there are disks.
    pub(crate) async fn refuse_restored_disks(&self, volume: Arc<Volume>, path: &str, object: &str) -> ApiResult<()> {
        let above = path.to_owned();
        let luns: Vec<FileId> = self.luns_on_volume(volume.id()).into_iter().map(|(.., file)| file).collect();
        let found = self.on_reactor(move || async move { disks_within(&volume, &luns, &above).await });
        let found = found.await?.map_err(|error| from_volume(object, &error))?;
        if found.is_empty() { Ok(()) } else { Err(in_use(object, &found)) }
    }
}

/// Why a file was not given all of its room.
fn no_room(object: &str, error: &VolumeError, size_bytes: u64, free_bytes: u64) -> ApiError {
    if error.kind != ErrorKind::NoSpace {
        return from_volume(object, error);
    }
    let message =
        format!("its volume has no room for all of its {}: {} are free", ByteSize(size_bytes), ByteSize(free_bytes));
    let next = "choose a smaller size, let the volume grow, or leave it to take room as it is written";
    ApiError::new(Code::NoSpace, object, message, next).at("size_bytes")
}

/// A file is not found. On a volume that is damaged it may be there, and be found again with the disks of its pool.
fn gone(place: &str, volume: &Volume) -> ApiError {
    if volume.is_damaged() {
        let next = "see the health of its volume; once the disks of its pool are back, export and import the pool";
        return conflict(place, "its volume is damaged, and the file cannot be found", next);
    }
    conflict(place, "the file is gone", "remove what stands for it")
}

/// Why a file is no disk.
fn from_object(object: &str, error: &VolumeError) -> ApiError {
    let (code, next) = match error.kind {
        ErrorKind::Invalid => (Code::Invalid, "choose a larger multiple of 4096 bytes"),
        ErrorKind::Busy => (Code::Conflict, "wait until it is restored, or see who uses it"),
        ErrorKind::IsDirectory => (Code::Invalid, "name a file"),
        _ => return from_volume(object, error),
    };
    ApiError::new(code, object, error.to_string(), next)
}

#[cfg(test)]
mod tests;
