//! What a write takes away from a file: set-user-id and set-group-id, and capabilities (`FUSE_HANDLE_KILLPRIV_V2`).
//!
//! The kernel leaves that to the server, so that it need not ask for capabilities before each write. Here a file is
//! looked at when it is written for the first time, and again only after something was changed that could give it
//! privileges.
//!
//! Invariant: a file that is noted as plain has neither those bits nor capabilities.

use holdfast_volume::ErrorKind;
use holdfast_volume::service::{Attributes, FileId, FileService, SetAttributes};

use super::caller;
use crate::answer::Errno;
use crate::connection::Channel;
use crate::notify::Notifier;
use crate::protocol::constants::*;
use crate::protocol::request::Header;

/// Where Linux keeps the capabilities of a program.
pub(super) const CAPABILITIES: &[u8] = b"security.capability";

/// The mode without what a change by `header`'s user takes away. A set-group-id bit without execution by the group means
/// something else; it stays only for those of the group, of which no more is known than their first one.
pub(super) fn without_privileges(file: &Attributes, header: &Header) -> u32 {
    let group = if file.mode & S_IXGRP != 0 || header.gid != file.gid { S_ISGID } else { 0 };
    file.mode & !(S_ISUID | group)
}

impl<S: FileService> Channel<S> {
    /// Before the data of a file changes. `bits` says whether the one who changes it may not keep the bits of the mode.
    pub(super) async fn drop_privileges(&self, header: &Header, bits: bool) -> Result<(), Errno> {
        if self.connection.nodes.is_plain(header.node) {
            return Ok(());
        }
        Box::pin(self.take_privileges(header, bits)).await
    }

    async fn take_privileges(&self, header: &Header, bits: bool) -> Result<(), Errno> {
        let (nodes, node) = (&self.connection.nodes, header.node);
        let id = self.subject(header)?;
        self.drop_capabilities(header, id).await?;
        let file = self.service().stat(id).await?;
        let plain = without_privileges(&file, header);
        if bits && plain != file.mode {
            let set = SetAttributes { mode: Some(plain), ..SetAttributes::default() };
            self.service().set(&caller(header), id, &set).await?;
            // It keeps the mode over a write that passes its cache by.
            Notifier::new(nodes.clone(), &self.connection.life).attributes_changed(id);
        }
        // Users of other groups take more away.
        nodes.set_plain(node, if bits { plain } else { file.mode } & (S_ISUID | S_ISGID) == 0);
        Ok(())
    }

    /// Takes the capabilities of a program away, if it has any.
    pub(super) async fn drop_capabilities(&self, header: &Header, id: FileId) -> Result<(), Errno> {
        match self.service().remove_extended(&caller(header), id, CAPABILITIES).await {
            Err(error) if !matches!(error.kind, ErrorKind::NoData | ErrorKind::NotSupported) => Err(error.into()),
            _ => Ok(()),
        }
    }
}
