//! Extended attributes.
//!
//! POSIX access control lists are not kept: who may do what is said by the mode, and by security descriptors. An
//! attempt to set one is refused, not forgotten.

use holdfast_volume::service::{FileService, SetMode};

use super::caller;
use super::privileges::CAPABILITIES;
use crate::answer::{Answer, Answered, Body, Errno};
use crate::connection::Channel;
use crate::protocol::constants::*;
use crate::protocol::request::Header;

/// Takes names of the name spaces that are kept (`xattr(7)`). Those of POSIX access control lists are not.
fn check_name(name: &[u8]) -> Result<(), Errno> {
    let spaces: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    match spaces.into_iter().find_map(|space| name.strip_prefix(space)) {
        None => Err(Errno(EOPNOTSUPP)),
        Some([]) => Err(Errno(EINVAL)),
        Some(_) => Ok(()),
    }
}

/// A value, or its size where that is what is asked (`getxattr(2)` with a size of 0).
fn sized(value: Vec<u8>, room: usize) -> Answered {
    if room == 0 {
        return Ok(Answer::of(|writer| {
            writer.u32(value.len() as u32).u32(0);
        }));
    }
    if value.len() > room { Err(Errno(ERANGE)) } else { Ok(Answer::new(Body::Bytes(value))) }
}

impl<S: FileService> Channel<S> {
    pub(super) async fn get_extended(&self, header: &Header, name: &[u8], room: usize) -> Answered {
        check_name(name)?;
        let found = self.service().extended(&caller(header), self.subject(header)?, name).await?;
        sized(found.ok_or(Errno(ENODATA))?, room)
    }

    pub(super) async fn list_extended(&self, header: &Header, room: usize) -> Answered {
        let names = self.service().list_extended(&caller(header), self.subject(header)?).await?;
        let mut joined = Vec::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names {
            joined.extend_from_slice(&name);
            joined.push(0);
        }
        sized(joined, room)
    }

    pub(super) async fn set_extended(&self, header: &Header, name: &[u8], value: &[u8], flags: u32) -> Answered {
        check_name(name)?;
        let mode = match flags {
            0 => SetMode::Any,
            XATTR_CREATE => SetMode::Create,
            XATTR_REPLACE => SetMode::Replace,
            _ => return Err(Errno(EINVAL)),
        };
        let id = self.subject(header)?;
        if name == CAPABILITIES {
            self.connection.nodes.set_plain(header.node, false);
        }
        self.service().set_extended(&caller(header), id, name, value, mode).await?;
        Ok(Answer::nothing())
    }

    pub(super) async fn remove_extended(&self, header: &Header, name: &[u8]) -> Answered {
        check_name(name)?;
        self.service().remove_extended(&caller(header), self.subject(header)?, name).await?;
        Ok(Answer::nothing())
    }
}
