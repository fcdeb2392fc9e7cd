//! Files that go with their last close, when that is one of this mount: the table hands them out, whoever asked for it.
//!
//! Invariant: each file that was handed out is reported done, whatever came of it.

use holdfast_opens::{Deletion, LinkName};
use holdfast_volume::VolumeError;
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, Remove};

use crate::connection::Connection;
use crate::notify::Notifier;

impl<S: FileService> Connection<S> {
    /// Deletes a file by the name that it is to go by. Where that is another file's by now, it has gone already.
    pub(crate) async fn carry_out(&self, deletion: Deletion) {
        match LinkName::of(deletion.link()) {
            Some(link) if deletion.file().stream == 0 => {
                if let Err(error) = self.remove_link(&deletion, &link).await {
                    tracing::warn!("{} is closed, but cannot be deleted: {error}", deletion.file());
                }
            }
            _ => tracing::warn!("{} is closed, but it is not said how to delete it", deletion.file()),
        }
        self.client.opens.table().deleted(deletion, self.clock.now());
    }

    async fn remove_link(&self, deletion: &Deletion, link: &LinkName) -> Result<(), VolumeError> {
        let caller = Caller { is_checked: true, ..Caller::default() };
        let dir = FileId { number: link.directory, generation: link.generation };
        let file = deletion.file();
        let is_it = |id: FileId| (id.number, id.generation) == (file.number, file.generation);
        let Some(found) = self.service.lookup(&caller, dir, &link.name).await?.filter(|found| is_it(found.id)) else {
            return Ok(());
        };
        let what = if found.kind == FileKind::Directory { Remove::Directory } else { Remove::File };
        self.service.remove(&caller, dir, &link.name, what).await?;
        let (notifier, name) = (Notifier::new(self.nodes.clone(), &self.life), link.name.clone());
        // The kernel may wait for requests of its own before it takes that.
        let told = std::thread::Builder::new().name("notify".into()).spawn(move || notifier.name_changed(dir, &name));
        if let Err(error) = told {
            tracing::warn!("the kernel is not told that {file} is deleted, and shows it for a while: {error}");
        }
        Ok(())
    }
}
