//! Data above a line moved below it, while files are in use.
//!
//! ```text
//!   owners above, in order ─▶ file locked alone ─▶ room below ─▶ copied ─▶ extent changed, if it is still the same
//! ```
//!
//! Whoever reads or writes a file holds its lock, shared or alone, from looking up an extent until the device answered.
//! So nobody has a place in hand while the extent changes, and what was written before is what is copied.
//!
//! Invariants: the log holds no extent at its new place before the copy is durable. The old place is given out to
//! nobody.

use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::Durability;
use holdfast_model::BLOCK_BYTES;

use crate::change::{Need, Pair};
use crate::checked::Held;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, EXTENTS_AT_ONCE, MAIN};
use crate::keys;
use crate::open_files::{File, Use};
use crate::page::PAGE_BYTES;
use crate::references::Reference;
use crate::scan::{Owner, give_way};
use crate::service::FileId;
use crate::shrink::Steps;
use crate::store::held;
use crate::volume::{Volume, record_of};
use crate::{OWNER_TREE, SHARED_TREES};

/// Blocks that are copied in one step, at most.
pub(crate) const STEP_BLOCKS: u32 = 1024;
/// Owners that are read at once.
const OWNERS: usize = 64;
/// Times that all owners above the line are gone over, until none must be left.
const ROUNDS: usize = 8;

/// What keeps data above the line, in words.
pub(crate) fn unclear(why: impl std::fmt::Display) -> VolumeError {
    VolumeError::new(ErrorKind::Corrupt, format!("{why}: scan and repair the volume first"))
}

impl Volume {
    /// Moves all data that lies in `zone` and above it. Nothing is given out there meanwhile.
    pub(crate) async fn move_data(&self, zone: u32, steps: &dyn Steps) -> Result<(), VolumeError> {
        let line = self.store.address_in(zone, 0) / BLOCK_BYTES;
        for _ in 0..ROUNDS {
            self.wait_for_requests().await;
            let mut at = keys::owner(line);
            loop {
                let owners = self.owners_from(&at).await?;
                let Some((last, _)) = owners.last() else { break };
                at = [&last[..], &[0]].concat();
                for (key, value) in owners {
                    self.store.check_interrupted()?;
                    if Reference::is_key(&key) {
                        self.move_shared(&key, steps).await?;
                        continue;
                    }
                    let place = keys::number(&key, 0).ok_or_else(|| VolumeError::corrupt("an owner has no place"))?;
                    self.move_owned(line, place, &Owner::decode(&value)?, steps).await?;
                }
            }
            // What was freed is free only in a root without it.
            self.store.checkpoint().await?;
            if self.owners_from(&keys::owner(line)).await?.is_empty() && held(&self.store.rooms).are_clear(zone) {
                return self.check_extents(line, steps).await;
            }
            give_way().await;
        }
        Err(unclear(format!("volume {} has blocks above the new end that no file has", self.id())))
    }

    /// Waits until all have ended that may still fill what was set aside for them before the line was drawn, and gives
    /// back what is set aside behind files.
    async fn wait_for_requests(&self) {
        let waits = self.open.all().into_iter().map(|file| async move {
            let _alone = file.data.write().await;
            self.release_window(&file);
        });
        join_all(waits).await;
        // What was set aside to be given back to the device is free again when this is had.
        drop(self.trimming.lock().await);
    }

    /// Some entries of the map of owners from a key on.
    async fn owners_from(&self, key: &[u8]) -> Result<Vec<Pair>, VolumeError> {
        self.store.range(OWNER_TREE, key, OWNERS).await
    }

    /// Moves what an entry of the map of owners says of a file.
    async fn move_owned(&self, line: u64, place: u64, owner: &Owner, steps: &dyn Steps) -> Result<(), VolumeError> {
        let number = owner.file;
        if owner.stream != MAIN {
            return Err(unclear(format!("block {place} above the new end belongs to nothing that is known")));
        }
        let Some(file) = self.enter_owner(number, &keys::owner(place)).await? else { return Ok(()) };
        let range = owner.block..owner.block + u64::from(owner.blocks);
        let moved = self.move_range(&file, line, range, steps).await;
        // With the last use of a file without a name the file goes.
        let left = self.leave(&file, Use::Own).await;
        moved.and(left)
    }

    /// The file that an entry of the map of owners names; nothing if both are gone.
    pub(crate) async fn enter_owner(&self, number: u64, key: &[u8]) -> Result<Option<Arc<File>>, VolumeError> {
        let record = self.store.look([keys::shard(number)], |view| crate::scan::judge::record(view, number)).await?;
        let Some(record) = record else {
            // It may have gone with its file just now.
            let is_there = self.store.get(OWNER_TREE, key).await?.is_some();
            if is_there && self.open.get(number).is_none() {
                return Err(unclear(format!("blocks above the new end belong to file {number}, which is not there")));
            }
            return Ok(None);
        };
        Ok(Some(self.open.enter(FileId { number, generation: record.generation }, Use::Own)))
    }

    /// Moves what of a range of a file lies above the line.
    async fn move_range(
        &self,
        file: &File,
        line: u64,
        range: std::ops::Range<u64>,
        steps: &dyn Steps,
    ) -> Result<(), VolumeError> {
        match self.load_state(file, Use::Own, |_, _| Ok(())).await {
            // Without a name, and open to nobody: it is not moved, it goes.
            Err(error) if error.kind == ErrorKind::Stale => return Ok(()),
            loaded => loaded?,
        }
        let (number, mut at, mut goal) = (file.id.number, range.start, None);
        while at < range.end {
            let alone = file.data.write().await;
            let look = self.store.look([keys::shard(number)], |view| {
                let reached = extents::reach(view, number, at, range.end, EXTENTS_AT_ONCE)?;
                Ok((reached, extents::within(view, number, at, reached)?))
            });
            let (reached, found) = look.await?;
            // What is shared is moved for all who have it.
            let is_own = |extent: &Extent| !extent.is_lost() && !extent.is_shared;
            let above = found.into_iter().find(|(_, extent)| is_own(extent) && extent.place >= line);
            let Some((start, extent)) = above else {
                at = reached;
                continue;
            };
            let (place, blocks) = self.reserve(goal, extent.blocks.min(STEP_BLOCKS), 0).await?;
            let from = extent.part(0, blocks);
            let to = Extent { place, birth: held(&self.store.rooms).coming(), ..from.clone() };
            let end = to.end();
            let moved = self.move_extent(file, start, from, to).await;
            if !matches!(moved, Ok(true)) {
                held(&self.store.rooms).release(place, blocks);
            }
            moved?;
            drop(alone);
            (at, goal) = (start + u64::from(blocks), Some(end));
            let bytes = u64::from(blocks) * BLOCK_BYTES;
            steps.done(bytes);
            self.store.check_step(steps, bytes).await?;
        }
        Ok(())
    }

    /// Copies an extent of a file, which is locked alone, and has the file know the copy; false, and nothing is done,
    /// if the file has let go of it.
    async fn move_extent(&self, file: &File, start: u64, from: Extent, to: Extent) -> Result<bool, VolumeError> {
        let id = file.id;
        if from.is_written {
            // What is lost moves as it is: its checksum tells that at the new place, too.
            let held = Held { file: id.number, snapshot: None, block: start, extent: &from };
            let (data, _) = Box::pin(self.read_checked(held)).await?;
            self.store.device.write(to.place * BLOCK_BYTES, data.freeze(), Durability::Cached).await?;
            self.store.data.note();
        }
        let end = start + u64::from(from.blocks);
        let change = self.store.change([keys::shard(id.number)], Need::More, |view| {
            let same = |(at, extent): &(u64, Extent)| {
                (*at, extent.place, extent.blocks, extent.is_written)
                    == (start, from.place, from.blocks, from.is_written)
            };
            if !matches!(&extents::within(view, id.number, start, end)?[..], [one] if same(one)) {
                return Ok(false);
            }
            // It has as many blocks as before: the record stays as it is.
            let mut record = record_of(view, id)?;
            extents::replace(view, id.number, &mut record, start..end, &[(start, to.clone())])?;
            Ok(true)
        });
        let (is_moved, logged) = change.await?;
        let mut state = held(&file.state);
        // Whoever has the file made durable has it made durable at its new place.
        (state.logged, state.mapping) = (state.logged.max(logged), None);
        Ok(is_moved)
    }

    /// Makes sure that no file has anything above the line that the map of owners does not know.
    async fn check_extents(&self, line: u64, steps: &dyn Steps) -> Result<(), VolumeError> {
        for tree in 0..SHARED_TREES {
            let mut next = Some(Vec::new());
            while let Some(from) = next {
                let look = self.store.look([tree], |view| {
                    let mut found = None;
                    let next = view.visit(tree, &from, |key, value| {
                        let above = |extent: &Extent| !extent.is_lost() && extent.end() > line;
                        if let Some((file, ..)) = keys::read_extent(tree, key)
                            && Extent::decode(value).is_ok_and(|extent| above(&extent))
                        {
                            found = Some(file);
                            return std::ops::ControlFlow::Break(());
                        }
                        std::ops::ControlFlow::Continue(())
                    })?;
                    Ok((found, next))
                });
                let (found, then) = look.await?;
                if let Some(file) = found {
                    return Err(unclear(format!(
                        "file {file} has blocks above the new end that are not known as its own"
                    )));
                }
                next = then;
                self.store.check_step(steps, PAGE_BYTES as u64).await?;
            }
        }
        Ok(())
    }
}
