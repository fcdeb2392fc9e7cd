//! A file as a block object: a disk to whoever serves it.
//!
//! ```text
//!   front end ─▶ FileObject ─▶ whole blocks of the file: as through a handle of files, with the durability that is asked for
//!                    │
//!                    └─ dropped on its way ─▶ handed to `Finish`, which brings it to its end
//! ```
//!
//! What the file is beside that stays true: its times, the change journal, snapshots, quotas, checksums. Its length is
//! what it was when it became one, or what [`FileObject::grow`] made of it.
//!
//! Invariants: a flush of a volume that takes no changes any more fails as one that lost answered writes, every time. A
//! request that began comes to its end, also if nobody waits for it any more: blocks that it writes to stay
//! the file's meanwhile. A durable write is durable with all that is needed to find it. The file is closed: by
//! [`FileObject::close`], or by the volume, if that was not called, or not waited for, and nothing is under way any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use holdfast_device::{
    BlockLimits, CloneRange, Device, DiscardLimits, Durability, Extent, Extents, Geometry, Io, IoBuf, IoError,
    IoErrorKind, IoSlice, Limits, StableId, Zeroes,
};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::blocks::{check_blocks, whole_bytes};
use crate::cloning;
use crate::error::{ErrorKind, VolumeError};
use crate::objects::KeptOff;
use crate::open_files::{Handle, Use};
use crate::service::{Allocate, Caller, FileId, Flush, OpenMode};
use crate::store::held;
use crate::volume::Volume;

/// Brings what began to its end on the thread where it was dropped.
pub type Finish = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()>>>) + Send + Sync>;

/// What requests of it are best.
const OPTIMAL_IO_BYTES: u32 = 64 << 10;

/// The id of a file as a block object: always the same for a file, and another one for each.
pub fn object_id(volume: Uuid, file: FileId) -> Uuid {
    // Numbers are below 2^62: all bits of an id but those that tell its version and variant are there for them, the
    // generation, and a mark.
    let mut own = [0; 16];
    let number = file.number.to_be_bytes();
    own[..6].copy_from_slice(&number[2..]);
    own[6] = number[0] & 0x0f;
    own[7] = number[1];
    own[8] = (number[0] >> 4) & 0x03;
    own[9..13].copy_from_slice(&file.generation.to_be_bytes());
    own[13..].copy_from_slice(b"blk");
    let mut id = *volume.as_bytes();
    id.iter_mut().zip(own).for_each(|(byte, own)| *byte ^= own);
    Uuid::from_bytes(id)
}

/// A file as a block object. It is used from any thread.
pub struct FileObject {
    inner: Arc<Inner>,
}

struct Inner {
    id: Uuid,
    volume: Arc<Volume>,
    handle: Handle,
    finish: Finish,
    in_flight: AtomicUsize,
    is_closed: AtomicBool,
    /// Whether the file is known as this block object.
    is_listed: AtomicBool,
    /// Whether the handle's use of the file was ended.
    is_left: AtomicBool,
    /// Told when the last request ends after it was closed.
    idle: tokio::sync::Notify,
}

impl Inner {
    /// The file may be one anew from now on, which is another one's to end.
    fn unlist(&self) {
        if self.is_listed.swap(false, Ordering::SeqCst) {
            self.volume.objects.remove(self.handle.id(), self.id);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.unlist();
        if !*self.is_left.get_mut() {
            self.volume.left.add(self.handle.clone());
        }
    }
}

/// A request under way.
struct Entered(Arc<Inner>);

impl Drop for Entered {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.is_closed.load(Ordering::SeqCst) {
            self.0.idle.notify_waiters();
        }
    }
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, IoError>>>>;

/// An answer that will come, and that is brought to its end where nobody waits for it.
struct Lasting<T: 'static> {
    future: Option<Answer<T>>,
    finish: Finish,
}

impl<T> Future for Lasting<T> {
    type Output = Result<T, IoError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.future.as_mut().expect("an answered request is polled once");
        let answer = future.as_mut().poll(cx);
        if answer.is_ready() {
            self.future = None;
        }
        answer
    }
}

impl<T: 'static> Drop for Lasting<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            (self.finish)(Box::pin(async move { drop(future.await) }));
        }
    }
}

fn from_volume(id: FileId, error: &VolumeError) -> IoError {
    let kind = match error.kind {
        ErrorKind::NoSpace | ErrorKind::Quota => IoErrorKind::NoSpace,
        ErrorKind::ReadOnly => IoErrorKind::ReadOnly,
        ErrorKind::Stale | ErrorKind::NotFound | ErrorKind::BadHandle => IoErrorKind::Gone,
        ErrorKind::Io | ErrorKind::Corrupt | ErrorKind::Format => IoErrorKind::Media,
        _ => IoErrorKind::Invalid,
    };
    IoError::new(kind, format!("file {}.{}: {error}", id.number, id.generation))
}

impl FileObject {
    /// The file of this id as a block object; it must be a regular file of whole blocks, one at least. Requests that are
    /// dropped on their way are given to `finish`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for other sizes, [`ErrorKind::Busy`] if it is one already or is kept from becoming one,
    /// and whatever an opening for reading and writing meets.
    pub async fn open(volume: Arc<Volume>, caller: &Caller, file: FileId, finish: Finish) -> Result<Self, VolumeError> {
        let mode = OpenMode { read: true, write: true, truncate: false };
        volume.close_left().await;
        let handle = volume.open_file(caller, file, mode).await?;
        let id = object_id(volume.id(), file);
        let size = held(&handle.file.state).size;
        let added = if size == 0 || !size.is_multiple_of(BLOCK_BYTES) {
            let text = format!("its length of {size} bytes is no multiple of {BLOCK_BYTES}, or nothing");
            Err(VolumeError::new(ErrorKind::Invalid, text))
        } else {
            volume.objects.add(id, &handle)
        };
        if let Err(error) = added {
            volume.left.add(handle);
            volume.close_left().await;
            return Err(error);
        }
        let inner = Inner {
            id,
            volume,
            handle,
            finish,
            in_flight: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            is_listed: AtomicBool::new(true),
            is_left: AtomicBool::new(false),
            idle: tokio::sync::Notify::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The file.
    pub fn file(&self) -> FileId {
        self.inner.handle.id()
    }

    /// The volume that it is of.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.inner.volume
    }

    /// Lets the file, and what it is as a disk, grow to a size of whole blocks, durably; answers whether it was smaller.
    ///
    /// # Errors
    /// It would shrink, there is no room, or it is closed.
    pub async fn grow(&self, size_bytes: u64) -> Result<bool, VolumeError> {
        let _entered = self.enter().ok_or_else(|| VolumeError::new(ErrorKind::BadHandle, "it is closed"))?;
        if !size_bytes.is_multiple_of(BLOCK_BYTES) {
            let text = format!("{size_bytes} bytes are no multiple of {BLOCK_BYTES}");
            return Err(VolumeError::new(ErrorKind::Invalid, text));
        }
        self.inner.volume.grow_file(&self.inner.handle, size_bytes).await
    }

    /// Ends it once no request is under way: the file is a file like any from then on. Closed twice is closed. Where this
    /// is given up on its way nothing begins any more, and it may be called again; else the volume ends it.
    ///
    /// # Errors
    /// Its times could not be written.
    pub async fn close(&self) -> Result<(), VolumeError> {
        let inner = &self.inner;
        inner.is_closed.store(true, Ordering::SeqCst);
        loop {
            let idle = inner.idle.notified();
            if inner.in_flight.load(Ordering::SeqCst) == 0 {
                break;
            }
            idle.await;
        }
        if inner.is_left.load(Ordering::SeqCst) {
            return Ok(());
        }
        let ended = inner.volume.end_writes(&inner.handle).await;
        if inner.is_left.swap(true, Ordering::SeqCst) {
            return ended;
        }
        let left = inner.volume.leave_surely(&inner.handle.file).await;
        inner.unlist();
        ended.and(left)
    }

    fn enter(&self) -> Option<Entered> {
        self.inner.in_flight.fetch_add(1, Ordering::SeqCst);
        let entered = Entered(self.inner.clone());
        (!self.inner.is_closed.load(Ordering::SeqCst)).then_some(entered)
    }

    /// Begins a request.
    fn begin<T: Unpin + 'static>(
        &self,
        request: impl AsyncFnOnce(&Volume, &Handle) -> Result<T, VolumeError> + 'static,
    ) -> Io<T> {
        let Some(entered) = self.enter() else {
            let file = self.file();
            let closed = format!("file {}.{} is no disk any more", file.number, file.generation);
            return Io::ready(Err(IoError::new(IoErrorKind::Gone, closed)));
        };
        let begun = Io::eager(async move {
            let inner = &*entered.0;
            let done = request(&inner.volume, &inner.handle).await;
            done.map_err(|error| from_volume(inner.handle.id(), &error))
        });
        match begun {
            Io::Pending(future) => {
                let finish = self.inner.finish.clone();
                Io::pending(Lasting { future: Some(future), finish })
            }
            begun => begun,
        }
    }

    /// Changes the room of whole blocks.
    fn allocate(&self, offset: u64, len: u64, durability: Durability, how: Allocate) -> Io<()> {
        self.begin(async move |volume, handle| {
            check_blocks(&handle.file, offset, len)?;
            if len == 0 {
                return Ok(());
            }
            volume.make_room().await;
            volume.allocate_range(handle, offset, len, how).await?;
            match durability {
                Durability::Cached => Ok(()),
                Durability::Durable => volume.flush_open(&handle.file, Flush::Data).await,
            }
        })
    }
}

impl Device for FileObject {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: whole_bytes(&self.inner.handle.file),
            logical_sector_bytes: 512,
            physical_sector_bytes: BLOCK_BYTES as u32,
            discard: true,
            ..self.inner.volume.store.device.geometry()
        }
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.begin(async move |volume, handle| volume.read_blocks(&handle.file, offset, buf).await)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.begin(async move |volume, handle| {
            let len = data.len();
            check_blocks(&handle.file, offset, len as u64)?;
            let done = volume.write_file(handle, offset, data, len, durability).await?;
            if done == len {
                return Ok(());
            }
            let text = format!("there was room for {done} of {len} bytes at {offset}");
            Err(VolumeError::new(ErrorKind::NoSpace, text))
        })
    }

    fn flush(&self) -> Io<()> {
        self.begin(async move |volume, handle| {
            let flushed = volume.flush_open(&handle.file, Flush::Data).await;
            flushed.map_err(|error| match volume.failure() {
                // What was answered and is not durable will never be, whoever's flush or change met that.
                Some(_) => VolumeError::new(ErrorKind::Io, error.to_string()),
                None => error,
            })
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.unmap(offset, len, Durability::Cached)
    }
}

impl StableId for FileObject {
    fn id(&self) -> Uuid {
        self.inner.id
    }
}

impl BlockLimits for FileObject {
    fn limits(&self) -> Limits {
        Limits {
            optimal_io_bytes: OPTIMAL_IO_BYTES,
            discard: Some(DiscardLimits { granularity_bytes: BLOCK_BYTES, reads_zeros: true }),
        }
    }

    fn is_read_only(&self) -> bool {
        self.inner.volume.failure().is_some()
    }

    fn cloning(&self) -> Option<&dyn CloneRange> {
        Some(self)
    }
}

impl Zeroes for FileObject {
    fn unmap(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        self.allocate(offset, len, durability, Allocate::Punch)
    }

    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        let how = if keep_room { Allocate::Zero { keep_size: true } } else { Allocate::Punch };
        self.allocate(offset, len, durability, how)
    }
}

impl Extents for FileObject {
    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        self.begin(async move |volume, handle| volume.runs_of(&handle.file, offset, len, max).await)
    }
}

impl CloneRange for FileObject {
    fn clone_domain(&self) -> Uuid {
        self.inner.volume.id()
    }

    fn clone_range(&self, source: Uuid, from: u64, offset: u64, len: u64) -> Io<()> {
        self.begin(async move |volume, handle| {
            let id = volume.objects.file(source).ok_or_else(|| {
                VolumeError::new(ErrorKind::Invalid, format!("no file of volume {} is disk {source}", volume.id()))
            })?;
            // It may be closed meanwhile; whoever opens it then waits for its locks all the same.
            let file = volume.open.enter(id, Use::Own);
            let cloned = async {
                volume.load_state(&file, Use::Own, |_, _| Ok(())).await?;
                check_blocks(&file, from, len)?;
                check_blocks(&handle.file, offset, len)?;
                let mode = OpenMode { read: true, write: false, truncate: false };
                let source = Handle { file: file.clone(), mode, is_unbuffered: false };
                let range = cloning::CloneRange { from, to: offset, len };
                volume.clone_file_range(&source, handle, range).await.map_err(|(_, error)| error)
            };
            let cloned = cloned.await;
            let left = volume.leave(&file, Use::Own).await;
            cloned.and(left)
        })
    }
}

impl Volume {
    /// The files that are block objects now.
    pub fn block_objects(&self) -> Vec<FileId> {
        self.objects.files()
    }

    /// Keeps a file from becoming a block object for as long as what is answered lives.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if it is one.
    pub fn keep_off_objects(&self, file: FileId) -> Result<KeptOff, VolumeError> {
        self.objects.keep_off(file)
    }
}

#[cfg(test)]
mod tests;
