//! What belongs to a file beside its bytes, as a snapshot has it: attributes, permissions, streams, what it stands for.

use holdfast_identity::{Node, trivial_mode};
use holdfast_volume::service::{
    Attributes, DosAttributes, FileId, FileKind, FileService, ReparsePoint, SecurityParts, SetAttributes, SetMode,
    SetTime, Stream,
};
use holdfast_volume::{ErrorKind, KeptOff, VolumeError};

use super::super::acl::administrator;
use super::{Revert, Step};

impl Revert<'_> {
    /// Keeps the file of a name from being a disk; refused if it is one.
    pub(super) async fn keep_off(&self, dir: FileId, name: &[u8]) -> Step<Option<KeptOff>> {
        let found = self.is.lookup(&administrator(), dir, name).await?;
        Ok(found.map(|found| self.is.keep_off_objects(found.id)).transpose()?)
    }

    /// Has a file have the attributes that it had; answers whether any differed.
    pub(super) async fn set_attributes(&mut self, is: FileId, was: &Attributes) -> Step<bool> {
        let mut differs = self.set_extended(is, was).await? | self.set_streams(is, was).await?;
        differs |= self.set_integrity(is, was).await?;
        let mut is_trivial = true;
        if was.kind != FileKind::Symlink {
            differs |= self.set_reparse(is, was).await?;
            let wanted = self.was.security(&administrator(), was.id).await?;
            let node = if was.kind == FileKind::Directory { Node::Directory } else { Node::File };
            is_trivial = trivial_mode(&wanted, node).is_some();
            if self.is.security(&administrator(), is).await? != wanted {
                self.is.set_security(&administrator(), is, SecurityParts::all(), &wanted.requested()).await?;
                differs = true;
            }
        }
        let found = self.is.stat(is).await?;
        let owned = |facts: &Attributes| (facts.mode, facts.uid, facts.gid);
        let rest = |facts: &Attributes| (facts.modified, facts.created, facts.dos & DosAttributes::SETTABLE);
        // What a descriptor of its own amounts to is not set again.
        let is_owned = !is_trivial || owned(&found) == owned(was);
        if is_owned && rest(&found) == rest(was) {
            return Ok(differs);
        }
        let set = SetAttributes {
            mode: (is_trivial && was.kind != FileKind::Symlink).then_some(was.mode),
            uid: is_trivial.then_some(was.uid),
            gid: is_trivial.then_some(was.gid),
            size_bytes: None,
            accessed: Some(SetTime::At(was.accessed)),
            modified: Some(SetTime::At(was.modified)),
            created: Some(SetTime::At(was.created)),
            dos: (was.kind != FileKind::Symlink).then_some(was.dos & DosAttributes::SETTABLE),
        };
        self.is.set(&administrator(), is, &set).await?;
        Ok(true)
    }

    /// The same of what it keeps to prove its data.
    pub(super) async fn set_integrity(&self, is: FileId, was: &Attributes) -> Step<bool> {
        if !matches!(was.kind, FileKind::Regular | FileKind::Directory) {
            return Ok(false);
        }
        let wanted = was.dos.integrity();
        let differs = self.is.stat(is).await?.dos.integrity() != wanted;
        if differs {
            self.is.set_integrity(&administrator(), is, wanted).await?;
        }
        Ok(differs)
    }

    /// The same of extended attributes.
    async fn set_extended(&self, is: FileId, was: &Attributes) -> Step<bool> {
        let mut differs = false;
        let wanted = self.was.list_extended(&administrator(), was.id).await?;
        for name in self.is.list_extended(&administrator(), is).await? {
            if !wanted.contains(&name) {
                self.is.remove_extended(&administrator(), is, &name).await?;
                differs = true;
            }
        }
        for name in &wanted {
            let value = self.was.extended(&administrator(), was.id, name).await?.unwrap_or_default();
            if self.is.extended(&administrator(), is, name).await?.as_ref() != Some(&value) {
                self.is.set_extended(&administrator(), is, name, &value, SetMode::Any).await?;
                differs = true;
            }
        }
        Ok(differs)
    }

    /// The same of streams.
    async fn set_streams(&self, is: FileId, was: &Attributes) -> Step<bool> {
        if !matches!(was.kind, FileKind::Regular | FileKind::Directory) {
            return Ok(false);
        }
        let (wanted, found) =
            (self.was.streams(&administrator(), was.id).await?, self.is.streams(&administrator(), is).await?);
        let mut differs = false;
        for stream in found.iter().filter(|one| wanted.iter().all(|other| other.name != one.name)) {
            self.is.remove_stream(&administrator(), is, &stream.name).await?;
            differs = true;
        }
        for Stream { name, size_bytes, .. } in wanted {
            let bytes = self.was.read_stream(&administrator(), was.id, &name, 0, size_bytes as usize).await?;
            let known = found.iter().find(|one| one.name == name);
            if let Some(known) = known.filter(|known| known.size_bytes == size_bytes)
                && self.is.read_stream(&administrator(), is, &name, 0, known.size_bytes as usize).await? == bytes
            {
                continue;
            }
            self.is.create_stream(&administrator(), is, &name, SetMode::Any).await?;
            self.is.set_stream_length(&administrator(), is, &name, 0).await?;
            if !bytes.is_empty() {
                self.is.write_stream(&administrator(), is, &name, 0, &bytes).await?;
            }
            differs = true;
        }
        Ok(differs)
    }

    /// The same of what a file stands for.
    async fn set_reparse(&self, is: FileId, was: &Attributes) -> Step<bool> {
        let known = |point: Result<ReparsePoint, VolumeError>| match point {
            Ok(point) => Ok(Some(point)),
            Err(error) if error.kind == ErrorKind::NoReparse => Ok(None),
            Err(error) => Err(error),
        };
        let wanted = known(self.was.reparse(&administrator(), was.id).await)?;
        let found = known(self.is.reparse(&administrator(), is).await)?;
        if wanted == found {
            return Ok(false);
        }
        if let Some(point) = found {
            self.is.remove_reparse(&administrator(), is, point.tag, point.guid).await?;
        }
        if let Some(point) = wanted {
            self.is.set_reparse(&administrator(), is, &point).await?;
        }
        Ok(true)
    }
}
