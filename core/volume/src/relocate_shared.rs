//! Blocks that files share moved below a line: all who have them have them there.
//!
//! ```text
//!   a reference above ─▶ room below ─▶ copied once ─▶ all files with references over it locked ─▶ each has the copy
//! ```
//!
//! What is shared is written over by nobody, so the copy stays right while one file after the other takes it over. No clone
//! is made meanwhile, so none comes to have the old place. Memory is that of a lock for each file that shares 4 MiB.
//!
//! Invariants: as in `relocate.rs`; where the work ends early, some have the old place and some the copy.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use holdfast_device::{Durability, IoBuf};
use holdfast_model::BLOCK_BYTES;

use crate::OWNER_TREE;
use crate::change::Need;
use crate::checked::Held;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, MAIN, SHARED_AT_ONCE};
use crate::keys;
use crate::open_files::{File, Use};
use crate::references::{Reference, Whose};
use crate::relocate::{STEP_BLOCKS, unclear};
use crate::scan::runs;
use crate::scan::shared::sharer;
use crate::shrink::Steps;
use crate::store::held;
use crate::superblock::CHECKSUMS;
use crate::volume::{Volume, record_of};

/// Blocks that move.
#[derive(Clone, Copy)]
struct Move {
    from: u64,
    to: u64,
    blocks: u32,
}

/// A block that has a checksum, as an extent of one of the files that have it.
struct Summed {
    file: u64,
    block: u64,
    extent: Extent,
}

impl Move {
    /// Where they were.
    fn range(&self) -> Range<u64> {
        self.from..self.from + u64::from(self.blocks)
    }
}

impl Volume {
    /// Moves the blocks of a reference, for all who have any of them.
    pub(crate) async fn move_shared(&self, key: &[u8], steps: &dyn Steps) -> Result<(), VolumeError> {
        let Some(reference) = Reference::decode(key) else {
            return Err(unclear("blocks above the new end belong to nothing that can be read"));
        };
        let mut done = 0;
        while done < reference.blocks {
            // Whoever had them first may have moved them already, or let go.
            let Some(blocks) = self.move_part(key, &reference, done).await? else { return Ok(()) };
            done += blocks;
            let bytes = u64::from(blocks) * BLOCK_BYTES;
            steps.done(bytes);
            self.store.check_step(steps, bytes).await?;
        }
        Ok(())
    }

    /// Moves some blocks of a reference from one of them on; answers how many, or nothing if it is not there any more.
    async fn move_part(&self, key: &[u8], reference: &Reference, done: u32) -> Result<Option<u32>, VolumeError> {
        let _no_clone = self.cloning.write().await;
        let is_there = match self.store.get(OWNER_TREE, key).await? {
            Some(_) => true,
            // Its first blocks have moved, and the rest is another reference.
            None => done > 0,
        };
        if !is_there {
            return Ok(None);
        }
        let (to, blocks) = self.reserve(None, (reference.blocks - done).min(STEP_BLOCKS), 0).await?;
        let one = Move { from: reference.place + u64::from(done), to, blocks };
        let mut left = BTreeMap::from([(to, u64::from(blocks))]);
        let moved = self.move_for_all(one, &mut left).await;
        for (place, blocks) in left {
            held(&self.store.rooms).release(place, blocks as u32);
        }
        moved.map(|()| Some(blocks))
    }

    /// Copies blocks and has all who have them have the copy; takes out of `left` what of the copy is somebody's then.
    async fn move_for_all(&self, one: Move, left: &mut BTreeMap<u64, u64>) -> Result<(), VolumeError> {
        let sums = self.sums_of(one).await?;
        let data = self.read_summed(one, &sums).await?;
        self.store.device.write(one.to * BLOCK_BYTES, data.freeze(), Durability::Cached).await?;
        self.store.data.note();
        let mut files = BTreeMap::new();
        let mut entered = Ok(());
        for (number, key) in self.who_shares(one).await? {
            match self.enter_owner(number, &key).await {
                Ok(file) => files.extend(file.map(|file| (number, file))),
                Err(error) => entered = Err(error),
            }
        }
        let moved = match entered {
            Ok(()) => self.move_locked(one, &files, left).await,
            Err(error) => Err(error),
        };
        let mut done = moved;
        for file in files.into_values() {
            // With the last use of a file without a name the file goes.
            done = done.and(self.leave(&file, Use::Own).await);
        }
        done
    }

    /// Checksums that any file which has references over blocks has of them, by their places.
    async fn sums_of(&self, one: Move) -> Result<BTreeMap<u64, Summed>, VolumeError> {
        if !self.store.has_feature(CHECKSUMS) {
            return Ok(BTreeMap::new());
        }
        let mut sums = BTreeMap::new();
        let look = self.store.look([OWNER_TREE], |view| {
            let mut owners = Vec::new();
            self.store.each_over(view, one.range(), |_, reference| {
                owners.push(*reference);
                ControlFlow::Continue(())
            })?;
            for reference in owners {
                let Some(extent) = sharer(view, &reference)? else { continue };
                let (Some(known), Whose::File { file, block, .. }) = (&extent.sums, reference.whose) else { continue };
                for (index, place) in (extent.place..extent.end()).enumerate() {
                    if one.range().contains(&place) {
                        let part = extent.part(index as u32, 1);
                        debug_assert_eq!(known.len(), extent.blocks);
                        sums.insert(place, Summed { file, block: block + index as u64, extent: part });
                    }
                }
            }
            Ok(())
        });
        look.await?;
        Ok(sums)
    }

    /// Reads blocks that move, those with checksums from whichever copy is right. What is lost moves as it is.
    async fn read_summed(&self, one: Move, sums: &BTreeMap<u64, Summed>) -> Result<IoBuf, VolumeError> {
        let (at, len) = (one.from * BLOCK_BYTES, one.blocks as usize * BLOCK_BYTES as usize);
        let mut data = match sums.len() == one.blocks as usize {
            true => self.store.media.read_what_can_be(at, len).await,
            false => self.store.device.read(at, IoBuf::new(len)).await?,
        };
        for (place, Summed { file, block, extent }) in sums {
            let from = (place - one.from) as usize * BLOCK_BYTES as usize;
            let part = &mut data[from..from + BLOCK_BYTES as usize];
            if extent.sums.as_ref().is_some_and(|sums| sums.wrong(part).next().is_some()) {
                let held = Held { file: *file, snapshot: None, block: *block, extent };
                part.copy_from_slice(&Box::pin(self.read_checked(held)).await?.0);
            }
        }
        Ok(data)
    }

    /// Files that have references over blocks, each with the key of one.
    async fn who_shares(&self, one: Move) -> Result<BTreeMap<u64, Vec<u8>>, VolumeError> {
        let mut found = BTreeMap::new();
        let look = self.store.look([OWNER_TREE], |view| {
            self.store.each_over(view, one.range(), |key, reference| match reference.whose {
                Whose::File { file, stream: MAIN, .. } => {
                    found.entry(file).or_insert_with(|| key.to_vec());
                    ControlFlow::Continue(())
                }
                _ => {
                    found.insert(0, Vec::new());
                    ControlFlow::Break(())
                }
            })
        });
        look.await?;
        if found.contains_key(&0) {
            return Err(unclear(format!(
                "blocks from {} on above the new end belong to nothing that is known",
                one.from
            )));
        }
        Ok(found)
    }

    /// Has files have a copy. They are all locked alone meanwhile, and in use: none lets go of what it has of the copy
    /// before the last one has it, so that nobody else is given its room.
    async fn move_locked(
        &self,
        one: Move,
        files: &BTreeMap<u64, Arc<File>>,
        left: &mut BTreeMap<u64, u64>,
    ) -> Result<(), VolumeError> {
        let mut alone = Vec::with_capacity(files.len());
        for file in files.values() {
            match self.load_state(file, Use::Own, |_, _| Ok(())).await {
                // Without a name, and open to nobody: it goes when this use of it ends.
                Err(error) if error.kind == ErrorKind::Stale => {}
                loaded => loaded?,
            }
            alone.push(file.data.write().await);
        }
        let mut before = None;
        loop {
            let mut next = None;
            let look = self.store.look([OWNER_TREE], |view| {
                self.store.each_over(view, one.range(), |_, found| {
                    let Whose::File { file, block, .. } = found.whose else { return ControlFlow::Continue(()) };
                    match files.get(&file) {
                        Some(file) => next = Some((*found, file, block)),
                        None => return ControlFlow::Continue(()),
                    }
                    ControlFlow::Break(())
                })
            });
            look.await?;
            let Some((found, file, block)) = next else { return Ok(()) };
            if before.replace(found) == Some(found) {
                return Err(unclear(format!("block {} above the new end is no part of its file", found.place)));
            }
            let first = one.from.max(found.place);
            let end = one.range().end.min(found.end());
            let to = one.to + (first - one.from);
            let copy = Extent {
                place: to,
                blocks: (end - first) as u32,
                birth: 0,
                is_written: true,
                is_shared: true,
                sums: None,
            };
            if self.take_copy(file, block + (first - found.place), first, copy).await? {
                runs::cut(left, to, end - first);
            }
        }
    }

    /// Has a file have a copy in place of what it has from a block on; false, and nothing is done, if it has not.
    async fn take_copy(&self, file: &File, start: u64, from: u64, copy: Extent) -> Result<bool, VolumeError> {
        let (id, end) = (file.id, start + u64::from(copy.blocks));
        let change = self.store.change([keys::shard(id.number)], Need::More, |view| {
            let reached = extents::reach(view, id.number, start, end, SHARED_AT_ONCE)?;
            let found = extents::within(view, id.number, start, end)?;
            let [(at, old)] = &found[..] else { return Ok(false) };
            if reached < end || (*at, old.place, old.blocks, old.is_shared) != (start, from, copy.blocks, true) {
                return Ok(false);
            }
            let copy = Extent { birth: held(&self.store.rooms).coming(), sums: old.sums.clone(), ..copy.clone() };
            // It has as many blocks as before: the record stays as it is.
            let mut record = record_of(view, id)?;
            extents::replace(view, id.number, &mut record, start..end, &[(start, copy)])?;
            Ok(true)
        });
        let (is_moved, logged) = change.await?;
        let mut state = held(&file.state);
        (state.logged, state.mapping) = (state.logged.max(logged), None);
        state.written = state.written.max(self.store.data.written());
        Ok(is_moved)
    }
}
