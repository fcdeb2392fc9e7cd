//! Open files: their data, and the room that it takes.

use std::sync::atomic::Ordering;

use std::sync::Arc;

use holdfast_device::IoSlice;
use holdfast_opens::{Act, Seat};
use holdfast_volume::ErrorKind;
use holdfast_volume::service::{Allocate, Caller, FileId, FileService, Flush, OpenMode, Seek};
use rustix::fs::OFlags;

use super::caller;
use super::gate::bytes;
use crate::answer::{Answer, Answered, Body, Errno, Way};
use crate::connection::Channel;
use crate::nodes::Keep;
use crate::notify::Notifier;
use crate::open_file::OpenFile;
use crate::opens::access;
use crate::protocol::constants::*;
use crate::protocol::reply::open;
use crate::protocol::request::{Copy, Header, Range};

/// Of `asm-generic/fcntl.h`: the second has the first in it. Those of rustix are one and the same.
const O_DSYNC: u32 = 0o10000;
const O_SYNC: u32 = 0o4_010_000;
/// What one request copies at most: the old form of the answer has 32 bits for it.
const MOST_COPIED_BYTES: u64 = 1 << 30;

fn has(flags: u32, flag: OFlags) -> bool {
    OFlags::from_bits_retain(flags).contains(flag)
}

/// Whether a file must be new (`O_EXCL`).
pub(super) fn is_exclusive(flags: u32) -> bool {
    has(flags, OFlags::EXCL)
}

/// Whether a file is cut to nothing (`O_TRUNC`).
pub(super) fn is_truncating(flags: u32) -> bool {
    has(flags, OFlags::TRUNC)
}

/// What an open file is used for.
pub(super) fn open_mode(flags: u32) -> OpenMode {
    let access = OFlags::from_bits_retain(flags) & OFlags::RWMODE;
    OpenMode { read: access != OFlags::WRONLY, write: access != OFlags::RDONLY, truncate: is_truncating(flags) }
}

impl<S: FileService> Channel<S> {
    /// What the kernel is told of an open file: what it keeps of the file stays true, direct writes go side by side, and
    /// unless locks are kept here, which a close lets go of, it has nothing to ask then.
    ///
    /// The kernel drops pages of a range before it sends a direct write, and not again after one that is asynchronous. A
    /// page that is read in between would stay as it was before. So a file that is open for direct writes is not kept
    /// through what is opened meanwhile, and what it kept before is dropped at the next opening after them.
    ///
    /// A file that is a disk to somebody is read past the kernel's pages: what is written to it passes them by.
    pub(super) fn open_flags(&self, node: u64, flags: u32, is_disk: bool) -> u32 {
        let cache = if is_disk {
            FOPEN_DIRECT_IO
        } else if has(flags, OFlags::DIRECT) {
            FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            match self.connection.nodes.keep(node) {
                Keep::All => FOPEN_KEEP_CACHE,
                Keep::New => 0,
                Keep::Nothing => FOPEN_DIRECT_IO,
            }
        };
        if self.connection.life.has_agreed(INIT_POSIX_LOCKS) { cache } else { cache | FOPEN_NOFLUSH }
    }

    /// Gives an open file of a node a number.
    pub(super) fn number(&self, node: u64, handle: S::Handle, seat: Seat, flags: u32) -> u64 {
        let asks_disks = has(flags, OFlags::DIRECT);
        let handle = if asks_disks { self.service().unbuffered(handle) } else { handle };
        let mode = open_mode(flags);
        let is_direct = asks_disks && mode.write;
        if is_direct {
            self.connection.nodes.open_direct(node);
        }
        let keeps_writes = self.connection.life.has_agreed(INIT_WRITEBACK_CACHE);
        // What is mapped to be written is open for both.
        let may_hide = mode.write && (mode.read || keeps_writes);
        if may_hide && self.connection.nodes.open_hiding(node) {
            self.tell_no_hole(node);
        }
        self.connection.handles.insert(Arc::new(OpenFile::new(handle, seat, may_hide)), is_direct)
    }

    /// Has the kernel not rely on attributes by which a file is one hole.
    fn tell_no_hole(&self, node: u64) {
        if let Some(id) = self.connection.nodes.file(node) {
            Notifier::new(self.connection.nodes.clone(), &self.connection.life).attributes_changed(id);
        }
    }

    pub(super) async fn open(&self, header: &Header, flags: u32, open_flags: u32) -> Answered {
        let id = self.subject(header)?;
        if let Some(own) = self.own_open(header.thread) {
            return Ok(own);
        }
        let mode = open_mode(flags);
        if mode.truncate {
            self.drop_privileges(header, open_flags & OPEN_KILL_SUIDGID != 0).await?;
        }
        let seat = self.seat(header, id, access(mode), mode.truncate).await?;
        let handle = self.open_in(&caller(header), id, mode, &seat).await?;
        let is_disk = seat.is_disk();
        let number = self.number(header.node, handle, seat, flags);
        let answer = Answer::of(|writer| open(writer, number, self.open_flags(header.node, flags, is_disk)));
        Ok(answer.with_handle(header.node, number))
    }

    /// Opens a file in the service. Where that is refused its seat is given back.
    pub(super) async fn open_in(
        &self,
        caller: &Caller,
        id: FileId,
        mode: OpenMode,
        seat: &Seat,
    ) -> Result<S::Handle, Errno> {
        let opened = self.service().open(caller, id, mode).await;
        if mode.truncate {
            self.after(seat, Act::Write(None), self.now()).await;
        }
        if opened.is_err() {
            self.unseat(seat).await;
        }
        Ok(opened?)
    }

    pub(super) async fn release(&self, header: &Header, number: u64) -> Answered {
        if !self.is_own_open(number) {
            self.close(header.node, number).await?;
        }
        Ok(Answer::nothing())
    }

    pub(super) async fn read_data(&self, range: Range) -> Answered {
        let file = self.open_file(range.handle)?;
        let act = Act::PosixRead(bytes(range.offset, range.size.into())?);
        self.before(None, &file.seat, act, self.now()).await?;
        let begun = self.now();
        let data = self.service().read(&file.handle, range.offset, range.size as usize).await;
        drop(file);
        let data = data?;
        self.counters.read_latency.add(self.now().saturating_sub(begun));
        self.counters.read_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(Answer::new(Body::Data(data)))
    }

    pub(super) async fn write_data(&self, header: &Header, range: Range, payload: Option<IoSlice>) -> Answered {
        let len = range.size as usize;
        let mut done = 0;
        let file = self.open_file(range.handle)?;
        if let Some(payload) = payload.filter(|payload| len > 0 && payload.len() >= len) {
            let act = Act::PosixWrite(bytes(range.offset, range.size.into())?);
            self.before(None, &file.seat, act, self.now()).await?;
            self.drop_privileges(header, range.flags & WRITE_KILL_SUIDGID != 0).await?;
            let begun = self.now();
            let written = self.service().write(&file.handle, range.offset, payload, len).await;
            self.after(&file.seat, act, begun).await;
            drop(file);
            done = written?;
            // The kernel leaves that to the server where a write passes its cache by.
            if range.open_flags & O_DSYNC != 0 {
                let how = if range.open_flags & O_SYNC == O_SYNC { Flush::All } else { Flush::Data };
                Box::pin(self.service().flush(self.subject(header)?, how)).await?;
            }
            self.counters.write_latency.add(self.now().saturating_sub(begun));
        } else if len > 0 {
            return Err(Errno(EIO));
        }
        self.counters.written_bytes.fetch_add(done as u64, Ordering::Relaxed);
        Ok(Answer::of(|writer| {
            writer.u32(done as u32).u32(0);
        }))
    }

    pub(super) async fn make_durable(&self, header: &Header, flags: u32) -> Answered {
        let how = if flags & FSYNC_FDATASYNC != 0 { Flush::Data } else { Flush::All };
        self.service().flush(self.subject(header)?, how).await?;
        Ok(Answer::nothing())
    }

    pub(super) async fn allocate(
        &self,
        header: &Header,
        way: &Way,
        number: u64,
        range: (u64, u64),
        mode: u32,
    ) -> Answered {
        const PUNCH: u32 = FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE;
        let keep_size = mode & FALLOC_KEEP_SIZE != 0;
        let how = match mode {
            0 | FALLOC_KEEP_SIZE => Allocate::Reserve { keep_size },
            PUNCH => Allocate::Punch,
            _ if mode & !FALLOC_KEEP_SIZE == FALLOC_ZERO_RANGE => Allocate::Zero { keep_size },
            _ => return Err(Errno(EOPNOTSUPP)),
        };
        let file = self.open_file(number)?;
        let act = Act::PosixWrite(bytes(range.0, range.1)?);
        self.before(None, &file.seat, act, self.now()).await?;
        self.drop_privileges(header, header.uid != 0).await?;
        let done = self.service().allocate(&file.handle, range.0, range.1, how).await;
        self.after(&file.seat, act, self.now()).await;
        drop(file);
        if done.is_err() && !matches!(how, Allocate::Reserve { .. }) {
            // It may have come to a part of the range, and the kernel keeps what was there.
            self.drop_pages(way, header.node).await;
        }
        done?;
        Ok(Answer::nothing())
    }

    pub(super) async fn seek(&self, header: &Header, way: &Way, number: u64, offset: u64, whence: u32) -> Answered {
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno(EINVAL)),
        };
        self.write_back_mapped(way, header.node).await?;
        let file = self.open_file(number)?;
        self.before(None, &file.seat, Act::Read(None), self.now()).await?;
        let found = self.service().seek(&file.handle, offset, what).await;
        drop(file);
        // lseek(2) has an error of its own for this.
        let beyond = |error: &holdfast_volume::VolumeError| error.kind == ErrorKind::NoData;
        let at = found.map_err(|error| if beyond(&error) { Errno(ENXIO) } else { error.into() })?;
        Ok(Answer::of(|writer| {
            writer.u64(at);
        }))
    }

    pub(super) async fn copy_range(&self, header: &Header, way: &Way, copy: &Copy, wide: bool) -> Answered {
        if copy.flags != 0 {
            return Err(Errno(EINVAL));
        }
        self.write_back_mapped(way, header.node).await?;
        let (from, to) = (self.open_file(copy.from.0)?, self.open_file(copy.to.1)?);
        let len = copy.len.min(MOST_COPIED_BYTES);
        let act = Act::PosixWrite(bytes(copy.to.2, len)?);
        self.before(None, &from.seat, Act::PosixRead(bytes(copy.from.1, len)?), self.now()).await?;
        self.before(None, &to.seat, act, self.now()).await?;
        let mut target = *header;
        target.node = copy.to.0;
        self.drop_privileges(&target, header.uid != 0).await?;
        let copied = self.service().copy((&from.handle, copy.from.1), (&to.handle, copy.to.2), len).await;
        self.after(&to.seat, act, self.now()).await;
        drop((from, to));
        let copied = copied?;
        Ok(Answer::of(|writer| {
            if wide {
                writer.u64(copied)
            } else {
                writer.u32(copied as u32).u32(0)
            };
        }))
    }
}
