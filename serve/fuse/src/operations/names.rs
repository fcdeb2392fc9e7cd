//! Names: looked up, given, changed and taken away.

use holdfast_volume::ErrorKind;
use holdfast_volume::service::{Attributes, FileKind, FileService, NewFile, OpenMode, Remove, Rename};

use super::caller;
use crate::answer::{Answer, Answered, Errno};
use crate::connection::Channel;
use crate::protocol::constants::*;
use crate::protocol::reply::{entry, kind_of, no_entry, open};
use crate::protocol::request::Header;

/// The twelve permission bits.
const PERMISSIONS: u32 = 0o7777;

impl<S: FileService> Channel<S> {
    /// The answer that names a file, which the kernel knows from then on.
    pub(super) fn entry(&self, found: &Attributes) -> Answer {
        let node = self.connection.nodes.add(found.id);
        Answer::of(|writer| entry(writer, node, found, &self.connection.timeouts)).with_node(node)
    }

    pub(super) async fn look_up(&self, header: &Header, name: &[u8]) -> Answered {
        let dir = self.subject(header)?;
        let found = match name {
            // Asked by the kernel for files that it knows by a handle alone.
            b"." => Some(self.service().stat(dir).await?),
            b".." => Some(self.service().parent(dir).await?),
            _ => self.service().lookup(&caller(header), dir, name).await?,
        };
        Ok(match found {
            Some(found) => self.entry(&found),
            None => Answer::of(|writer| no_entry(writer, &self.connection.timeouts)),
        })
    }

    async fn make(&self, header: &Header, name: &[u8], new: NewFile<'_>) -> Answered {
        let dir = self.subject(header)?;
        Ok(self.entry(&self.service().create(&caller(header), dir, name, &new).await?))
    }

    pub(super) async fn make_node(&self, header: &Header, name: &[u8], mode: u32, device: u32) -> Answered {
        let kind = kind_of(mode, device).filter(|kind| *kind != FileKind::Directory).ok_or(Errno(EINVAL))?;
        self.make(header, name, NewFile { kind, mode: mode & PERMISSIONS, target: &[] }).await
    }

    pub(super) async fn make_directory(&self, header: &Header, name: &[u8], mode: u32) -> Answered {
        self.make(header, name, NewFile { kind: FileKind::Directory, mode: mode & PERMISSIONS, target: &[] }).await
    }

    pub(super) async fn symlink(&self, header: &Header, name: &[u8], target: &[u8]) -> Answered {
        self.make(header, name, NewFile { kind: FileKind::Symlink, mode: 0o777, target }).await
    }

    pub(super) async fn link(&self, header: &Header, target: u64, name: &[u8]) -> Answered {
        let (dir, target) = (self.subject(header)?, self.file(target)?);
        Ok(self.entry(&self.service().link(&caller(header), target, dir, name).await?))
    }

    pub(super) async fn remove(&self, header: &Header, name: &[u8], directory: bool) -> Answered {
        let dir = self.subject(header)?;
        let what = if directory { Remove::Directory } else { Remove::File };
        self.service().remove(&caller(header), dir, name, what).await?;
        Ok(Answer::nothing())
    }

    pub(super) async fn rename(&self, header: &Header, from: &[u8], to: (u64, &[u8]), flags: u32) -> Answered {
        let mode = match flags {
            0 => Rename::Replace,
            RENAME_NOREPLACE => Rename::NoReplace,
            RENAME_EXCHANGE => Rename::Exchange,
            _ => return Err(Errno(EINVAL)),
        };
        let (dir, new_dir) = (self.subject(header)?, self.file(to.0)?);
        self.service().rename(&caller(header), (dir, from), (new_dir, to.1), mode).await?;
        Ok(Answer::nothing())
    }

    pub(super) async fn create(&self, header: &Header, name: &[u8], flags: u32, mode: u32) -> Answered {
        let (dir, caller) = (self.subject(header)?, caller(header));
        let new = NewFile { kind: FileKind::Regular, mode: mode & PERMISSIONS, target: &[] };
        let (found, truncate) = match self.service().create(&caller, dir, name, &new).await {
            Ok(created) => (created, false),
            // The kernel took the name for free, and it is not.
            Err(error) if error.kind == ErrorKind::Exists && !super::data::is_exclusive(flags) => {
                let known = self.service().lookup(&caller, dir, name).await?.ok_or(Errno(ENOENT))?;
                (known, super::data::is_truncating(flags))
            }
            Err(error) => return Err(error.into()),
        };
        let mode = OpenMode { truncate, ..super::data::open_mode(flags) };
        let handle = self.service().open(&caller, found.id, mode).await?;
        Ok(self.opened(&found, handle, flags))
    }

    pub(super) async fn create_unnamed(&self, header: &Header, flags: u32, mode: u32) -> Answered {
        let dir = self.subject(header)?;
        let new = NewFile { kind: FileKind::Regular, mode: mode & PERMISSIONS, target: &[] };
        let (found, handle) = self.service().create_unnamed(&caller(header), dir, &new).await?;
        Ok(self.opened(&found, handle, flags))
    }

    /// The answer that names a file and its open handle.
    fn opened(&self, found: &Attributes, handle: S::Handle, flags: u32) -> Answer {
        let (node, handle) = (self.connection.nodes.add(found.id), self.connection.handles.insert(handle));
        let answer = Answer::of(|writer| {
            entry(writer, node, found, &self.connection.timeouts);
            open(writer, handle, self.open_flags(flags));
        });
        answer.with_node(node).with_handle(handle)
    }
}
