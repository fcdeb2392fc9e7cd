//! Names: looked up, given, changed and taken away.

use holdfast_volume::ErrorKind;
use holdfast_volume::service::{Attributes, FileKind, FileService, NewFile, OpenMode, Remove, Rename};

use super::caller;
use crate::answer::{Answer, Answered, Errno};
use crate::connection::Channel;
use crate::nodes::Nodes;
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
        let found = match name {
            b"." => Some(Box::pin(self.find(header.node)).await?),
            b".." => Some(Box::pin(self.service().parent(self.subject(header)?)).await?),
            _ => self.service().lookup(&caller(header), self.subject(header)?, name).await?,
        };
        Ok(match found {
            Some(found) => self.entry(&found),
            None => Answer::of(|writer| no_entry(writer, &self.connection.timeouts)),
        })
    }

    /// The file of a node that the kernel has from a handle, which outlives what was known of it. The kernel then
    /// compares generations.
    async fn find(&self, node: u64) -> Result<Attributes, Errno> {
        match self.connection.nodes.file(node) {
            Some(id) => Ok(self.service().stat(id).await?),
            None if Nodes::is_given(node) => Err(Errno(ESTALE)),
            None => Ok(self.service().find(node).await?),
        }
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

    pub(super) async fn remove_file(&self, header: &Header, name: &[u8]) -> Answered {
        self.service().remove(&caller(header), self.subject(header)?, name, Remove::File).await?;
        Ok(Answer::nothing())
    }

    pub(super) async fn remove_directory(&self, header: &Header, name: &[u8]) -> Answered {
        let (dir, caller) = (self.subject(header)?, caller(header));
        let was = self.service().lookup(&caller, dir, name).await?;
        self.service().remove(&caller, dir, name, Remove::Directory).await?;
        self.note_gone(was);
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
        let caller = caller(header);
        let was = if mode == Rename::Replace { self.service().lookup(&caller, new_dir, to.1).await? } else { None };
        self.service().rename(&caller, (dir, from), (new_dir, to.1), mode).await?;
        self.note_gone(was);
        Ok(Answer::nothing())
    }

    /// A directory that a change took the name of may be open, or be where a program stands. The kernel lets no other
    /// change of its name come between.
    fn note_gone(&self, was: Option<Attributes>) {
        if let Some(was) = was.filter(|was| was.kind == FileKind::Directory) {
            self.connection.nodes.set_gone(&was);
        }
    }

    pub(super) async fn create(&self, header: &Header, name: &[u8], flags: u32, mode: u32) -> Answered {
        let (dir, caller) = (self.subject(header)?, caller(header));
        let new = NewFile { kind: FileKind::Regular, mode: mode & PERMISSIONS, target: &[] };
        let (found, truncate) = match self.service().create(&caller, dir, name, &new).await {
            Ok(created) => (created, false),
            // The kernel took the name for free, and it is not.
            Err(error) if error.kind == ErrorKind::Exists && !super::data::is_exclusive(flags) => {
                let known = Box::pin(self.service().lookup(&caller, dir, name)).await?.ok_or(Errno(ENOENT))?;
                (known, super::data::is_truncating(flags))
            }
            Err(error) => return Err(error.into()),
        };
        let mode = OpenMode { truncate, ..super::data::open_mode(flags) };
        let handle = Box::pin(self.service().open(&caller, found.id, mode)).await?;
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
        let node = self.connection.nodes.add(found.id);
        let handle = self.number(node, handle, flags);
        let answer = Answer::of(|writer| {
            entry(writer, node, found, &self.connection.timeouts);
            open(writer, handle, self.open_flags(node, flags));
        });
        answer.with_node(node).with_handle(node, handle)
    }
}
