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
use holdfast_opens::{Seat, Table};

use super::super::CLOSE_TIMEOUT;
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

/// Gives its place in the table of opens back.
pub(super) fn stand_up(opens: &Table, seat: &Seat) {
    // Nobody may have asked for its removal while it was open.
    drop(opens.close(seat, reactor::clock().now()));
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
    let (object, path) = (disk.object.clone(), disk.path.clone());
    let closing = reactor.call(move || async move { object.close().await });
    let ending = tokio::spawn(async move {
        match closing.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("file {}, which was a disk, was not closed: {error}", disk.path),
            Err(_) => tracing::warn!("file {}, which was a disk, was not closed: its reactor has ended", disk.path),
        }
        then.await;
        stand_up(&disk.opens, &disk.seat);
        at_last();
        disk.ended.send_replace(true);
    });
    if tokio::time::timeout(CLOSE_TIMEOUT, ending).await.is_err() {
        tracing::warn!("requests of file {path} are still being finished");
    }
}
