//! How files that are disks become files like any again.
//!
//! ```text
//!   last user gone ─▶ no requests any more ─▶ what kernels keep of it dropped ─▶ its place among opens given back ─▶ out of the list
//! ```
//!
//! Invariants: a disk stays in the list of its volume, without users, until all of that is done, so that whoever closes
//! the volume, or asks for the disk again, waits for it. What is given back counts for the disk that was had, not for one
//! that the same file became since.

use std::sync::Arc;

use holdfast_device::reactor::{self, ReactorHandle};
use holdfast_model::Uuid;
use holdfast_opens::{Deletion, FileKey, LinkName, Seat, Table};
use holdfast_volume::service::{FileId, FileService, Remove};
use holdfast_volume::{Volume, VolumeError};

use super::super::CLOSE_TIMEOUT;
use super::super::acl::administrator;
use super::{FileDisk, Shared};
use crate::engine::{Engine, OpenPool};

impl FileDisk {
    /// Waits until it is a file like any, if that does not take too long; answers whether it is.
    pub(super) async fn has_ended(&self) -> bool {
        let mut ended = self.ended.subscribe();
        let told = tokio::time::timeout(CLOSE_TIMEOUT, ended.wait_for(|ended| *ended)).await;
        told.is_ok_and(|told| told.is_ok())
    }
}

impl Engine {
    /// Ends the disks of a volume that is closed, whoever has them, and waits for those that end already.
    pub(in crate::volumes) async fn end_disks(&self, disks: impl IntoIterator<Item = Shared>) {
        for Shared { disk, users } in disks {
            if users > 0 {
                end_disk(self.next_reactor(), disk, async {}, || ()).await;
            } else if !disk.has_ended().await {
                tracing::warn!("requests of file {} are still being finished", disk.path);
            }
        }
    }
}

/// Gives its place in the table of opens back. A file that is to go with that goes.
pub(super) async fn stand_up(reactor: &ReactorHandle, volume: &Arc<Volume>, opens: &Arc<Table>, seat: &Seat) {
    // Somebody may have closed it by order.
    if let Ok(Some(deletion)) = opens.close(seat, reactor::clock().now()) {
        carry_out(reactor, volume, opens, deletion).await;
    }
}

/// Deletes a file that the table of opens handed out for that, and reports it done, whatever came of it.
pub(super) async fn carry_out(reactor: &ReactorHandle, volume: &Arc<Volume>, opens: &Arc<Table>, deletion: Deletion) {
    let (volume, opens) = (volume.clone(), opens.clone());
    let deleting = reactor.call(move || async move {
        let file = deletion.file();
        match LinkName::of(deletion.link()).filter(|_| file.stream == 0) {
            Some(link) => {
                if let Err(error) = remove_link(&volume, file, &link).await {
                    tracing::warn!("{file} is closed, but cannot be deleted: {error}");
                }
            }
            None => tracing::warn!("{file} is closed, but it is not said how to delete it"),
        }
        opens.deleted(deletion, reactor::clock().now());
    });
    if deleting.await.is_err() {
        tracing::warn!("a file that was to go with its last close stays: the daemon is stopping");
    }
}

/// Removes a file by a name, if that is its name still.
async fn remove_link(volume: &Volume, file: FileKey, link: &LinkName) -> Result<(), VolumeError> {
    let dir = FileId { number: link.directory, generation: link.generation };
    let found = volume.lookup(&administrator(), dir, &link.name).await?;
    match found.filter(|found| (found.id.number, found.id.generation) == (file.number, file.generation)) {
        Some(_) => volume.remove(&administrator(), dir, &link.name, Remove::File).await,
        None => Ok(()),
    }
}

/// Has one user less of a file that is a disk.
pub(super) async fn give_back(open: &Arc<OpenPool>, reactor: &ReactorHandle, volume: Uuid, disk: Arc<FileDisk>) {
    let is_last = open.with_shared(volume, &disk, |shared| {
        shared.users -= 1;
        shared.users == 0
    });
    if is_last == Some(true) {
        end_file_disk(open, reactor, volume, disk).await;
    }
}

/// Ends one that nobody uses.
pub(super) async fn end_file_disk(open: &Arc<OpenPool>, reactor: &ReactorHandle, volume: Uuid, disk: Arc<FileDisk>) {
    let (of_pages, of_list, ended) = (Arc::downgrade(open), Arc::downgrade(open), disk.clone());
    let dropping = async move {
        if let Some(open) = of_pages.upgrade() {
            open.drop_pages(volume, ended.file()).await;
        }
    };
    let gone = disk.clone();
    let leaving = move || {
        if let Some(open) = of_list.upgrade() {
            open.strike_out(volume, &gone);
        }
    };
    end_disk(reactor, disk, dropping, leaving).await;
}

impl OpenPool {
    /// Does something with what is kept of a disk, unless its volume was closed since.
    fn with_shared<T>(&self, volume: Uuid, disk: &Arc<FileDisk>, act: impl FnOnce(&mut Shared) -> T) -> Option<T> {
        let mut volumes = self.volumes();
        let live = volumes.values_mut().find(|live| live.known.id == volume)?;
        let shared = live.open.as_mut()?.disks.get_mut(&disk.file())?;
        Arc::ptr_eq(&shared.disk, disk).then(|| act(shared))
    }

    /// Takes a disk that has ended out of the list of its volume.
    fn strike_out(&self, volume: Uuid, disk: &Arc<FileDisk>) {
        let mut volumes = self.volumes();
        let live = volumes.values_mut().find(|live| live.known.id == volume);
        let Some(opened) = live.and_then(|live| live.open.as_mut()) else { return };
        if opened.disks.get(&disk.file()).is_some_and(|shared| Arc::ptr_eq(&shared.disk, disk)) {
            opened.disks.remove(&disk.file());
        }
    }
}

/// Closes it, does what is to follow, and gives back its place in the table of opens, which it has as long as requests of
/// it are under way. That goes on where it takes longer than is waited for.
async fn end_disk(
    reactor: &ReactorHandle,
    disk: Arc<FileDisk>,
    then: impl Future<Output = ()> + Send + 'static,
    at_last: impl FnOnce() + Send + 'static,
) {
    let (object, path, of_volume) = (disk.object.clone(), disk.path.clone(), reactor.clone());
    let closing = reactor.call(move || async move { object.close().await });
    let ending = tokio::spawn(async move {
        match closing.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("file {}, which was a disk, was not closed: {error}", disk.path),
            Err(_) => tracing::warn!("file {}, which was a disk, was not closed: its reactor has ended", disk.path),
        }
        then.await;
        stand_up(&of_volume, disk.object.volume(), &disk.opens, &disk.seat).await;
        at_last();
        disk.ended.send_replace(true);
    });
    if tokio::time::timeout(CLOSE_TIMEOUT, ending).await.is_err() {
        tracing::warn!("requests of file {path} are still being finished");
    }
}
