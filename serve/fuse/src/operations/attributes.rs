//! Facts about files and the volume.

use holdfast_opens::{Access, Act, Seat};
use holdfast_volume::ErrorKind;
use holdfast_volume::service::{Attributes, FileId, FileKind, FileService, SetAttributes, SetTime, Time};

use super::caller;
use super::gate::bytes;
use super::privileges::without_privileges;
use crate::answer::{Answer, Answered, Body, Errno, Way};
use crate::connection::Channel;
use crate::protocol::constants::*;
use crate::protocol::reply::{attributes_out, statx, usage};
use crate::protocol::request::{Header, SetAttr};

/// The longest name in bytes, as `statfs` tells it.
const NAME_BYTES: u32 = 255;

/// The time that a change names, if it does.
fn time(valid: u32, flags: (u32, u32), (seconds, nanos): (i64, u32)) -> Option<SetTime> {
    if valid & flags.1 != 0 {
        Some(SetTime::Now)
    } else if valid & flags.0 != 0 {
        Some(SetTime::At(Time { seconds, nanos }))
    } else {
        None
    }
}

impl<S: FileService> Channel<S> {
    /// Facts about a file, and about a directory that is open though it was removed.
    async fn facts(&self, header: &Header) -> Result<Attributes, Errno> {
        match self.service().stat(self.subject(header)?).await {
            Err(error) if error.kind == ErrorKind::Stale => {
                self.connection.nodes.gone(header.node).ok_or_else(|| error.into())
            }
            found => Ok(found?),
        }
    }

    /// Facts as the kernel is told them: a file that the kernel may keep data of takes some room, as whoever is told that it
    /// takes none takes all of it for a hole.
    pub(super) fn told(&self, node: u64, found: Attributes) -> Attributes {
        let is_hole = found.kind == FileKind::Regular && found.size_bytes > 0 && found.allocated_bytes == 0;
        let allocated_bytes = if is_hole && self.connection.nodes.may_hide(node) { 1 } else { found.allocated_bytes };
        Attributes { allocated_bytes, ..found }
    }

    pub(super) async fn get_attributes(&self, header: &Header) -> Answered {
        let found = self.told(header.node, self.facts(header).await?);
        Ok(Answer::of(|writer| attributes_out(writer, &found, &self.connection.timeouts)))
    }

    pub(super) async fn get_extended_attributes(&self, header: &Header) -> Answered {
        let found = self.told(header.node, self.facts(header).await?);
        Ok(Answer::of(|writer| statx(writer, &found, &self.connection.timeouts)))
    }

    pub(super) async fn set_attributes(&self, header: &Header, wire: &SetAttr) -> Answered {
        let id = self.subject(header)?;
        if wire.valid & FATTR_SIZE == 0 {
            return self.set_passed(header, id, wire).await;
        }
        let open = (wire.valid & FATTR_FH != 0).then(|| self.open_file(wire.handle)).transpose()?;
        let passing = match &open {
            Some(_) => None,
            None => Some(self.seat(header, id, Access::WRITE, false).await?),
        };
        let seat = open.as_ref().map(|open| &open.seat).or(passing.as_ref()).expect("one of both is there");
        let set = self.cut(header, (id, seat), wire).await;
        if let Some(passing) = passing {
            self.unseat(&passing).await;
        }
        set
    }

    /// Sets the length of a file, and what else comes with it, by a seat.
    async fn cut(&self, header: &Header, (id, seat): (FileId, &Seat), wire: &SetAttr) -> Answered {
        let mut act = Act::Write(None);
        if seat.is_locked() {
            // What is cut off may be locked. To NT that is no write; it is one to whoever relies on the lock.
            let before = self.service().stat(id).await?.size_bytes;
            if wire.size < before {
                act = Act::PosixWrite(bytes(wire.size, before - wire.size)?);
            }
        }
        self.before(Some(header.unique), seat, act, self.now()).await?;
        let set = self.set_passed(header, id, wire).await;
        self.after(seat, act, self.now()).await;
        set
    }

    async fn set_passed(&self, header: &Header, id: FileId, wire: &SetAttr) -> Answered {
        let given = |flag: u32| wire.valid & flag != 0;
        let mut set = SetAttributes {
            mode: given(FATTR_MODE).then_some(wire.mode & 0o7777),
            uid: given(FATTR_UID).then_some(wire.uid),
            gid: given(FATTR_GID).then_some(wire.gid),
            size_bytes: given(FATTR_SIZE).then_some(wire.size),
            accessed: time(wire.valid, (FATTR_ATIME, FATTR_ATIME_NOW), wire.atime),
            modified: time(wire.valid, (FATTR_MTIME, FATTR_MTIME_NOW), wire.mtime),
            ..SetAttributes::default()
        };
        if given(FATTR_UID | FATTR_GID | FATTR_SIZE) && !self.connection.nodes.is_plain(header.node) {
            self.drop_capabilities(header, id).await?;
        }
        if given(FATTR_KILL_SUIDGID) && set.mode.is_none() {
            let file = self.service().stat(id).await?;
            set.mode = Some(without_privileges(&file, header)).filter(|plain| *plain != file.mode);
        }
        if given(FATTR_MODE) {
            self.connection.nodes.set_plain(header.node, false);
        }
        let found = self.told(header.node, self.service().set(&caller(header), id, &set).await?);
        Ok(Answer::of(|writer| attributes_out(writer, &found, &self.connection.timeouts)))
    }

    pub(super) async fn read_link(&self, header: &Header) -> Answered {
        Ok(Answer::new(Body::Bytes(self.service().read_link(self.subject(header)?).await?)))
    }

    pub(super) async fn access(&self, header: &Header, mask: u32) -> Answered {
        let unchecked = holdfast_volume::service::Caller { is_checked: false, ..caller(header) };
        self.service().access(&unchecked, self.subject(header)?, mask).await?;
        Ok(Answer::nothing())
    }

    pub(super) async fn usage(&self, header: &Header) -> Answered {
        let found = self.service().usage(self.subject(header)?).await?;
        Ok(Answer::of(|writer| usage(writer, &found, NAME_BYTES)))
    }

    /// Makes all durable that was answered, and what programs wrote to mapped memory before. With `sync` the kernel has
    /// written that back itself.
    pub(super) async fn sync(&self, way: Option<&Way>) -> Answered {
        if let Some(way) = way {
            self.write_back_all_mapped(way).await?;
        }
        self.service().sync().await?;
        Ok(Answer::nothing())
    }
}
