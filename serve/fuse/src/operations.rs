//! Requests of the kernel as calls of the service.
//!
//! ```text
//!   names.rs        look-up, create, link, rename, remove     attributes.rs   facts, times, modes, room of the volume
//!   data.rs         open files: read, write, room, copy       directories.rs  listings
//!   extended.rs     extended attributes                       privileges.rs   what a write takes away
//!   locks.rs        fcntl and flock                           gate.rs         before and after each act
//! ```
//!
//! Invariant: an open file that a request uses is let go before the request is answered, so that the kernel's RELEASE,
//! which follows the last answer, closes the last use of it.

mod attributes;
mod data;
mod directories;
mod extended;
mod gate;
mod locks;
mod names;
mod privileges;

use std::sync::Arc;

use holdfast_device::IoSlice;
use holdfast_volume::service::{Caller, FileId, FileService, Groups};

use crate::answer::{Answer, Answered, Body, Errno, Way};
use crate::connection::Channel;
use crate::groups;
use crate::open_file::OpenFile;
use crate::protocol::constants::*;
use crate::protocol::request::{Header, Operation};

/// Who asks. The kernel checked permissions by the attributes that it was given (`default_permissions`).
fn caller(header: &Header) -> Caller {
    Caller {
        uid: header.uid,
        gid: header.gid,
        groups: Groups::Asked(groups::read),
        asker: header.thread,
        is_checked: true,
        keeps_unnamed: true,
        ..Caller::default()
    }
}

impl<S: FileService> Channel<S> {
    /// The file that a node is.
    fn file(&self, node: u64) -> Result<FileId, Errno> {
        self.connection.nodes.file(node).ok_or(Errno(ESTALE))
    }

    /// The file that a request is about.
    fn subject(&self, header: &Header) -> Result<FileId, Errno> {
        self.file(header.node)
    }

    /// The open file of a number.
    fn open_file(&self, number: u64) -> Result<Arc<OpenFile<S::Handle>>, Errno> {
        self.connection.handles.get(number).ok_or(Errno(EBADF))
    }

    fn service(&self) -> &S {
        &self.connection.service
    }

    /// Does what is asked. What is rare has its memory when it comes to that, so that a request takes little.
    pub(crate) async fn operate(
        &self,
        header: &Header,
        operation: &Operation<'_>,
        payload: Option<IoSlice>,
        way: &Way,
    ) -> Answered {
        match *operation {
            Operation::Read(range) => self.read_data(range).await,
            Operation::Write(range) => self.write_data(header, range, payload).await,
            Operation::Lookup { name } => self.look_up(header, name).await,
            Operation::GetAttr => self.get_attributes(header).await,
            Operation::Statx => Box::pin(self.get_extended_attributes(header)).await,
            Operation::SetAttr(ref set) => Box::pin(self.set_attributes(header, set)).await,
            Operation::ReadLink => Box::pin(self.read_link(header)).await,
            Operation::Symlink { name, target } => Box::pin(self.symlink(header, name, target)).await,
            Operation::MkNod { name, mode, device } => Box::pin(self.make_node(header, name, mode, device)).await,
            Operation::MkDir { name, mode } => Box::pin(self.make_directory(header, name, mode)).await,
            Operation::Unlink { name } => Box::pin(self.remove_file(header, name)).await,
            Operation::RmDir { name } => Box::pin(self.remove_directory(header, name)).await,
            Operation::Rename { name, new_node, new_name, flags } => {
                Box::pin(self.rename(header, name, (new_node, new_name), flags)).await
            }
            Operation::Link { target, name } => Box::pin(self.link(header, target, name)).await,
            Operation::Open { flags, open_flags } => self.open(header, flags, open_flags).await,
            Operation::Create { name, flags, mode } => Box::pin(self.create(header, name, flags, mode)).await,
            Operation::TmpFile { flags, mode } => Box::pin(self.create_unnamed(header, flags, mode)).await,
            Operation::Release { handle } => self.release(header, handle).await,
            // Whoever makes the top directory durable means all that is below it.
            Operation::FsyncDir { .. } if header.node == ROOT_ID => Box::pin(self.sync(Some(way))).await,
            Operation::Fsync { flags } | Operation::FsyncDir { flags } => {
                Box::pin(self.make_durable(header, flags)).await
            }
            Operation::Fallocate { handle, offset, len, mode } => {
                Box::pin(self.allocate(header, way, handle, (offset, len), mode)).await
            }
            Operation::Seek { handle, offset, whence } => {
                Box::pin(self.seek(header, way, handle, offset, whence)).await
            }
            Operation::CopyFileRange { ref copy, wide } => Box::pin(self.copy_range(header, way, copy, wide)).await,
            Operation::Flush { handle, owner } => self.flush(header, handle, owner).await,
            Operation::GetLock(ref lock) => Box::pin(self.get_lock(header, lock)).await,
            Operation::SetLock { ref lock, waits } => Box::pin(self.set_lock(header, way, lock, waits)).await,
            Operation::OpenDir => Box::pin(self.open_directory(header)).await,
            Operation::ReleaseDir { handle } => Box::pin(self.release_directory(handle)).await,
            Operation::Destroy => Ok(Answer::nothing()),
            Operation::ReadDir { offset, size, plus } => Box::pin(self.list(header, offset, size as usize, plus)).await,
            Operation::Access { mask } => Box::pin(self.access(header, mask)).await,
            Operation::StatFs => Box::pin(self.usage(header)).await,
            Operation::SyncFs => Box::pin(self.sync(None)).await,
            Operation::SetXattr { name, value, flags } => Box::pin(self.set_extended(header, name, value, flags)).await,
            Operation::GetXattr { name, size } => Box::pin(self.get_extended(header, name, size as usize)).await,
            Operation::ListXattr { size } => Box::pin(self.list_extended(header, size as usize)).await,
            Operation::RemoveXattr { name } => Box::pin(self.remove_extended(header, name)).await,
            Operation::Init(ref init) => Ok(Answer::new(Body::Bytes(self.connection.begin(init)?))),
            // What has begun is brought to its end: only what waits for others minds them.
            Operation::Interrupt { unique } => {
                self.connection.interrupts.interrupt(unique);
                Ok(Answer::new(Body::Silence))
            }
            Operation::Unknown => Err(Errno(ENOSYS)),
            Operation::Forget { .. } | Operation::BatchForget(_) => Ok(Answer::new(Body::Silence)),
        }
    }
}
