//! Names: looked up, given, changed and taken away.

use holdfast_opens::{Access, Act, LinkName, Seat};
use holdfast_volume::ErrorKind;
use holdfast_volume::service::{Attributes, Caller, FileId, FileKind, FileService, NewFile, Remove, Rename};

use super::caller;
use crate::answer::{Answer, Answered, Errno};
use crate::connection::Channel;
use crate::nodes::Nodes;
use crate::opens::access;
use crate::protocol::constants::*;
use crate::protocol::reply::{entry, kind_of, no_entry, open};
use crate::protocol::request::Header;

/// The twelve permission bits.
const PERMISSIONS: u32 = 0o7777;
/// How often a file is created or opened whose name others take and give.
const MOST_TRIES: u32 = 64;
/// Of `renameat2(2)`: the new name must be free, and a whiteout stands where the old one was.
const WHITEOUT_OF_NEW: u32 = RENAME_WHITEOUT | RENAME_NOREPLACE;

impl<S: FileService> Channel<S> {
    /// The answer that names a file, which the kernel knows from then on.
    pub(super) fn entry(&self, found: &Attributes) -> Answer {
        let node = self.connection.nodes.add(found.id);
        let found = self.told(node, *found);
        Answer::of(|writer| entry(writer, node, &found, &self.connection.timeouts)).with_node(node)
    }

    pub(super) async fn look_up(&self, header: &Header, name: &[u8]) -> Answered {
        let removals = self.service().removals();
        let found = match name {
            b"." => Some(Box::pin(self.find(header.node)).await?),
            b".." => Some(Box::pin(self.service().parent(self.subject(header)?)).await?),
            _ => self.service().lookup(&caller(header), self.subject(header)?, name).await?,
        };
        let Some(found) = found else {
            return Ok(Answer::of(|writer| no_entry(writer, &self.connection.timeouts)));
        };
        let answer = self.entry(&found);
        if removals == self.service().removals() {
            return Ok(answer);
        }
        Box::pin(self.confirm(header, name, found.id, answer)).await
    }

    /// Gives the answer to a look-up beside which files were removed, or looks again where its file lost its last name
    /// before the kernel was to know it.
    async fn confirm(&self, header: &Header, name: &[u8], id: FileId, answer: Answer) -> Answered {
        if !self.is_gone(id).await {
            return Ok(answer);
        }
        self.take_back_nodes(&answer.nodes).await;
        Box::pin(self.look_up(header, name)).await
    }

    async fn is_gone(&self, id: FileId) -> bool {
        self.service().stat(id).await.is_err_and(|error| error.kind == ErrorKind::Stale)
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
        let created = self.service().create(&caller(header), dir, name, &new).await?;
        self.changed(dir).await;
        Ok(self.entry(&created))
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
        let seat = self.pass(header, target, Access::NONE, Act::Rename).await?;
        let linked = self.service().link(&caller(header), target, dir, name).await;
        self.passed(&seat, Act::Rename).await;
        let linked = linked?;
        self.changed(dir).await;
        Ok(self.entry(&linked))
    }

    pub(super) async fn remove_file(&self, header: &Header, name: &[u8]) -> Answered {
        self.remove(header, name, Remove::File).await
    }

    pub(super) async fn remove_directory(&self, header: &Header, name: &[u8]) -> Answered {
        self.remove(header, name, Remove::Directory).await
    }

    /// Takes a name away. Its file lives on for all who have it open, of whatever protocol.
    async fn remove(&self, header: &Header, name: &[u8], what: Remove) -> Answered {
        let (dir, caller) = (self.subject(header)?, caller(header));
        let was = self.service().lookup(&caller, dir, name).await?;
        Box::pin(self.remove_known(header, &caller, (dir, name), was, what)).await
    }

    async fn remove_known(
        &self,
        header: &Header,
        caller: &Caller,
        (dir, name): (FileId, &[u8]),
        was: Option<Attributes>,
        what: Remove,
    ) -> Answered {
        let seat = self.pass_by_name(header, was.as_ref(), Act::Delete).await?;
        let removed = self.service().remove(caller, dir, name, what).await;
        self.passed_by_name(seat, Act::Delete).await;
        removed?;
        self.changed(dir).await;
        self.note_gone(was);
        Ok(Answer::nothing())
    }

    /// Before a name of a file changes or goes, if there is one.
    async fn pass_by_name(&self, header: &Header, file: Option<&Attributes>, act: Act) -> Result<Option<Seat>, Errno> {
        match file {
            Some(file) => self.pass(header, file.id, Access::DELETE, act).await.map(Some),
            None => Ok(None),
        }
    }

    async fn passed_by_name(&self, seat: Option<Seat>, act: Act) {
        if let Some(seat) = seat {
            self.passed(&seat, act).await;
        }
    }

    pub(super) async fn rename(&self, header: &Header, from: &[u8], to: (u64, &[u8]), flags: u32) -> Answered {
        let mode = match flags {
            0 => Rename::Replace,
            RENAME_NOREPLACE => Rename::NoReplace,
            RENAME_EXCHANGE => Rename::Exchange,
            RENAME_WHITEOUT => Rename::Whiteout { replaces: true },
            WHITEOUT_OF_NEW => Rename::Whiteout { replaces: false },
            _ => return Err(Errno(EINVAL)),
        };
        let (dir, new_dir) = (self.subject(header)?, self.file(to.0)?);
        let (caller, to) = (caller(header), (new_dir, to.1));
        let moved = self.service().lookup(&caller, dir, from).await?;
        let was = self.service().lookup(&caller, to.0, to.1).await?;
        // What is only exchanged has another name, and is not gone.
        let act = if mode == Rename::Exchange { Act::Rename } else { Act::Delete };
        let seat = self.pass_by_name(header, moved.as_ref(), Act::Rename).await?;
        let replaced = match self.pass_by_name(header, was.as_ref().filter(|_| !mode.needs_free()), act).await {
            Ok(replaced) => replaced,
            Err(refused) => {
                self.passed_by_name(seat, Act::Rename).await;
                return Err(refused);
            }
        };
        let renamed = self.rename_passed(&caller, (moved, was), (dir, from), to, mode).await;
        self.passed_by_name(replaced, act).await;
        self.passed_by_name(seat, Act::Rename).await;
        renamed
    }

    async fn rename_passed(
        &self,
        caller: &Caller,
        (moved, was): (Option<Attributes>, Option<Attributes>),
        from: (FileId, &[u8]),
        to: (FileId, &[u8]),
        mode: Rename,
    ) -> Answered {
        self.service().rename(caller, from, to, mode).await?;
        self.relink(moved.as_ref(), from, to);
        if mode == Rename::Exchange {
            self.relink(was.as_ref(), to, from);
        }
        self.changed(from.0).await;
        if to.0 != from.0 {
            self.changed(to.0).await;
        }
        self.note_gone(was.filter(|_| mode.replaces()));
        Ok(Answer::nothing())
    }

    /// Where a file is to go by the name that it had, it goes by its new one.
    fn relink(&self, file: Option<&Attributes>, from: (FileId, &[u8]), to: (FileId, &[u8])) {
        let Some(file) = file else { return };
        let link = |(dir, name): (FileId, &[u8])| {
            LinkName { directory: dir.number, generation: dir.generation, name: name.to_vec() }.to_link()
        };
        let key = self.connection.client.opens.key(file.id);
        self.table().relink(key, &link(from), &link(to), self.now());
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
        for _ in 0..MOST_TRIES {
            let (found, is_new) = match self.service().create(&caller, dir, name, &new).await {
                Ok(created) => (created, true),
                // The kernel took the name for free, and it is not.
                Err(error) if error.kind == ErrorKind::Exists && !super::data::is_exclusive(flags) => {
                    match Box::pin(self.service().lookup(&caller, dir, name)).await? {
                        Some(found) => (found, false),
                        // It is free again.
                        None => continue,
                    }
                }
                Err(error) => return Err(error.into()),
            };
            match Box::pin(self.open_found(header, &caller, found, is_new.then_some(dir), flags)).await {
                // Another file took its name meanwhile.
                Err(Errno(ESTALE)) => {}
                opened => return opened,
            }
        }
        Err(Errno(ESTALE))
    }

    /// Opens a file that a name was found to be of, or that is new in a directory.
    async fn open_found(
        &self,
        header: &Header,
        caller: &Caller,
        found: Attributes,
        new_in: Option<FileId>,
        flags: u32,
    ) -> Answered {
        let mut mode = super::data::open_mode(flags);
        mode.truncate &= new_in.is_none();
        let seat = self.seat(header, found.id, access(mode), mode.truncate).await?;
        let handle = self.open_in(caller, found.id, mode, &seat).await?;
        if let Some(dir) = new_in {
            self.changed(dir).await;
        }
        Ok(self.opened(&found, handle, seat, flags))
    }

    pub(super) async fn create_unnamed(&self, header: &Header, flags: u32, mode: u32) -> Answered {
        let dir = self.subject(header)?;
        let new = NewFile { kind: FileKind::Regular, mode: mode & PERMISSIONS, target: &[] };
        let (found, handle) = self.service().create_unnamed(&caller(header), dir, &new).await?;
        match self.seat(header, found.id, access(super::data::open_mode(flags)), false).await {
            Ok(seat) => Ok(self.opened(&found, handle, seat, flags)),
            Err(refused) => {
                self.service().close(handle).await?;
                Err(refused)
            }
        }
    }

    /// The answer that names a file and its open handle.
    fn opened(&self, found: &Attributes, handle: S::Handle, seat: Seat, flags: u32) -> Answer {
        let node = self.connection.nodes.add(found.id);
        let is_disk = seat.is_disk();
        let handle = self.number(node, handle, seat, flags);
        let found = self.told(node, *found);
        let answer = Answer::of(|writer| {
            entry(writer, node, &found, &self.connection.timeouts);
            open(writer, handle, self.open_flags(node, flags, is_disk));
        });
        answer.with_node(node).with_handle(node, handle)
    }
}
