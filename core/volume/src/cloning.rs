//! Ranges of files that get the blocks of others: no data is copied.
//!
//! ```text
//!   both files locked alone, what waits of them written ─▶ the source knows that its blocks are shared
//!       ─▶ the target has references to them ─▶ whoever writes over either takes other room
//! ```
//!
//! Each step is a change of its own: a request that fails on its way has done a part, from the beginning of the range. A
//! source that knows its blocks as shared and shares them with nobody is right, too.
//!
//! Invariant: what a range holds is not in the target before the source knows that its blocks are shared, and from then on
//! they are written over by nobody.

use holdfast_device::IoSlice;
use holdfast_model::BLOCK_BYTES;
use tokio::sync::RwLockWriteGuard;

use crate::OWNER_TREE;
use crate::change::{Need, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, LOST, SHARED_AT_ONCE};
use crate::keys;
use crate::open_files::{File, Handle};
use crate::store::{Store, held};
use crate::superblock::CLONES;
use crate::volume::{Volume, put_record, record_of};
use crate::write::MAX_FILE_BYTES;

/// Why a range cannot be cloned.
fn invalid<T>(why: impl Into<String>) -> Result<T, VolumeError> {
    Err(VolumeError::new(ErrorKind::Invalid, why.into()))
}

/// A range of a file that another one gets, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloneRange {
    pub from: u64,
    pub to: u64,
    pub len: u64,
}

impl CloneRange {
    /// Whole blocks of it, the last of which may end behind the source.
    pub fn blocks(&self) -> u64 {
        self.len.div_ceil(BLOCK_BYTES)
    }

    /// Refuses what cannot be cloned from a file of a size to one of another size (Linux `FICLONERANGE`).
    pub fn check(&self, from_size: u64, to_size: u64) -> Result<(), VolumeError> {
        if !(self.from.is_multiple_of(BLOCK_BYTES) && self.to.is_multiple_of(BLOCK_BYTES)) {
            return invalid(format!("a range is cloned from and to offsets that are multiples of {BLOCK_BYTES}"));
        }
        let Some(end) = self.from.checked_add(self.len).filter(|end| *end <= from_size) else {
            return invalid("the range ends behind the end of the file that it is cloned from");
        };
        let Some(to_end) = self.to.checked_add(self.len).filter(|end| *end <= MAX_FILE_BYTES) else {
            return Err(VolumeError::new(ErrorKind::TooLarge, "a file ends below 2^63 bytes"));
        };
        if !self.len.is_multiple_of(BLOCK_BYTES) && (end != from_size || to_end < to_size) {
            let text = format!(
                "the length is no multiple of {BLOCK_BYTES}, and the range does not end where both files are to end"
            );
            return invalid(text);
        }
        Ok(())
    }
}

/// Two files that are locked alone, or one that is both.
pub(crate) struct Both<'a> {
    _first: RwLockWriteGuard<'a, ()>,
    _second: Option<RwLockWriteGuard<'a, ()>>,
}

/// Locks two files, in the order of their numbers.
pub(crate) async fn lock_both<'a>(one: &'a File, other: &'a File) -> Both<'a> {
    let (first, second) = if one.id.number <= other.id.number { (one, other) } else { (other, one) };
    let is_one = std::ptr::eq(first, second);
    let first = first.data.write().await;
    let second = if is_one { None } else { Some(second.data.write().await) };
    Both { _first: first, _second: second }
}

impl Store {
    /// Whether files share blocks, or may.
    pub(crate) fn has_clones(&self) -> bool {
        self.has_feature(CLONES)
    }

    /// Has the volume say durably that files share blocks, before any do.
    pub(crate) async fn note_clones(&self) -> Result<(), VolumeError> {
        if self.has_clones() { Ok(()) } else { self.use_feature(CLONES).await }
    }
}

impl Volume {
    /// Has a range of a file be what a range of another one is, by the same blocks.
    pub(crate) async fn clone_file_range(
        &self,
        from: &Handle,
        to: &Handle,
        range: CloneRange,
    ) -> Result<(), (u64, VolumeError)> {
        let none = |error| (0, error);
        self.store.check_failed().map_err(none)?;
        if from.id() == to.id() && range.from.abs_diff(range.to) < range.len {
            return invalid("a range cannot be cloned over itself").map_err(none);
        }
        self.make_room().await;
        let _shared = self.cloning.read().await;
        let (source, target) = (&*from.file, &*to.file);
        let _both = lock_both(source, target).await;
        self.write_back_locked(source).await.map_err(none)?;
        let (size, is_inline) = {
            let state = held(&source.state);
            (state.size, state.is_inline)
        };
        if is_inline {
            let bytes = self.inline_bytes(source).await.map_err(none)?;
            return self.clone_inline(&bytes, target, range).await.map_err(none);
        }
        if !self.begin_clone(target, range, size).await.map_err(none)? {
            return Ok(());
        }
        let cloned = self.clone_blocks(source, target, range).await;
        held(&source.state).mapping = None;
        cloned
    }

    /// Has a range of a file be what a file within its record holds.
    pub(crate) async fn clone_inline(&self, bytes: &[u8], target: &File, range: CloneRange) -> Result<(), VolumeError> {
        self.write_back_locked(target).await?;
        range.check(bytes.len() as u64, held(&target.state).size)?;
        let bytes = &bytes[range.from as usize..(range.from + range.len) as usize];
        if !bytes.is_empty() {
            self.write_step(target, range.to, &IoSlice::padded(bytes), 0, bytes.len()).await?;
        }
        Ok(())
    }

    /// Makes a file ready to get blocks of one of a size; false if the range is empty. It is locked alone.
    pub(crate) async fn begin_clone(
        &self,
        target: &File,
        range: CloneRange,
        from_size: u64,
    ) -> Result<bool, VolumeError> {
        self.write_back_locked(target).await?;
        let (size, is_inline) = {
            let state = held(&target.state);
            (state.size, state.is_inline)
        };
        range.check(from_size, size)?;
        if range.len == 0 {
            return Ok(false);
        }
        self.store.note_clones().await?;
        if is_inline && size > 0 {
            self.spill(target).await?;
        }
        if range.to + range.len > size {
            // What an earlier cut left behind the end must not show.
            self.finish_note(target.id.number, true).await?;
        }
        if range.to > size {
            self.zero_tail(target, size).await?;
        }
        self.release_window(target);
        Ok(true)
    }

    async fn clone_blocks(&self, source: &File, target: &File, range: CloneRange) -> Result<(), (u64, VolumeError)> {
        let (number, first) = (source.id.number, range.from / BLOCK_BYTES);
        let (mut done, blocks) = (0, range.blocks());
        while done < blocks {
            let step = async {
                let share = self.store.change([keys::shard(number), OWNER_TREE], Need::More, |view| {
                    Ok(extents::share(view, number, first + done..first + blocks)? - first)
                });
                let (shared, _) = share.await?;
                if target.is_strict() {
                    held(&source.state).mapping = None;
                    let (reached, found) = self.summed(source, first + done, first + shared).await?;
                    let found: Vec<(u64, Extent)> = found.into_iter().map(|(at, one)| (at - first, one)).collect();
                    return self.give_blocks(target, range, done, |_| Ok((reached - first, found.clone()))).await;
                }
                self.give_blocks(target, range, done, |view| {
                    let reached = extents::reach(view, number, first + done, first + shared, SHARED_AT_ONCE)?;
                    let found = extents::within(view, number, first + done, reached)?;
                    if found.iter().any(|(_, extent)| extent.is_lost()) {
                        return refuse(ErrorKind::Corrupt, LOST);
                    }
                    // What was set aside and not written reads as zeros, as nothing does.
                    let data = found.into_iter().filter(|(_, extent)| extent.is_written);
                    Ok((reached - first, data.map(|(start, extent)| (start - first, extent)).collect()))
                })
                .await
            };
            done = step.await.map_err(|error| (done * BLOCK_BYTES, error))?;
        }
        Ok(())
    }

    /// Gives a file blocks that are shared, from the block `done` of a range on, by what a look at the source finds: where
    /// that ends in the range, and its data there. Answers how far the file got them.
    pub(crate) async fn give_blocks(
        &self,
        target: &File,
        range: CloneRange,
        done: u64,
        look: impl Fn(&View<'_>) -> Result<(u64, Vec<(u64, Extent)>), Stop>,
    ) -> Result<u64, VolumeError> {
        let (id, now, first) = (target.id, self.now(), range.to / BLOCK_BYTES);
        let change = self.store.change([keys::shard(id.number), OWNER_TREE], Need::More, |view| {
            let (reached, found) = look(view)?;
            let end = extents::reach(view, id.number, first + done, first + reached, SHARED_AT_ONCE)? - first;
            // No cut comes between this and the change.
            let birth = held(&self.store.rooms).coming();
            let part = |(start, extent): (u64, Extent)| {
                let blocks = end.saturating_sub(start).min(extent.blocks.into()) as u32;
                let extent = Extent { birth, is_shared: true, ..extent };
                (blocks > 0).then(|| (first + start, extent.part(0, blocks)))
            };
            let new: Vec<(u64, Extent)> = found.into_iter().filter_map(part).collect();
            let mut record = record_of(view, id)?;
            extents::replace(view, id.number, &mut record, first + done..first + end, &new)?;
            record.inline = None;
            record.size = record.size.max(((first + end) * BLOCK_BYTES).min(range.to + range.len));
            view.follow_data();
            self.touch(&mut record, now);
            put_record(view, id.number, &record)?;
            Ok((end, record.size))
        });
        let ((end, size), logged) = change.await?;
        let mut state = held(&target.state);
        (state.size, state.is_inline, state.mapping) = (size, false, None);
        // What the source was written with must last as long as this.
        (state.logged, state.written) = (logged, self.store.data.written());
        (state.modified, state.recorded.1) = (None, now);
        Ok(end)
    }
}

impl Volume {
    /// Copies bytes of a file of this volume, or of a snapshot of it: by cloning what lies alike in its blocks. Answers how
    /// many, fewer at the end of `from` or where there is no room for more.
    pub(crate) async fn copy_or_clone(
        &self,
        source: &Volume,
        from: (&Handle, u64),
        to: (&Handle, u64),
        len: u64,
    ) -> Result<u64, VolumeError> {
        let size_of = |handle: &Handle| held(&handle.file.state).size;
        let (size, to_size) = (size_of(from.0), size_of(to.0));
        let len = len.min(size.saturating_sub(from.1));
        if to.1.saturating_add(len) > MAX_FILE_BYTES {
            return self.copy_from(source, from, to, len).await;
        }
        let head = (from.1.next_multiple_of(BLOCK_BYTES) - from.1).min(len);
        let is_end = from.1 + len == size && to.1.saturating_add(len) >= to_size;
        let cloned = if is_end { len - head } else { (len - head) / BLOCK_BYTES * BLOCK_BYTES };
        if cloned == 0 || from.1 % BLOCK_BYTES != to.1 % BLOCK_BYTES {
            return self.copy_from(source, from, to, len).await;
        }
        let mut done = self.copy_from(source, from, to, head).await?;
        if done < head {
            return Ok(done);
        }
        let range = CloneRange { from: from.1 + head, to: to.1 + head, len: cloned };
        let shared = match std::ptr::eq(source, self) {
            true => self.clone_file_range(from.0, to.0, range).await,
            false => self.clone_past_range(source, from.0, to.0, range).await,
        };
        done += shared.as_ref().map_or_else(|(some, _)| *some, |()| cloned);
        match shared {
            // Others changed the lengths meanwhile, or who has what is not clear: what is left is copied.
            Ok(()) => {}
            Err((_, error)) if matches!(error.kind, ErrorKind::Invalid | ErrorKind::Corrupt) => {}
            Err((_, error)) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        }
        match self.copy_from(source, (from.0, from.1 + done), (to.0, to.1 + done), len - done).await {
            Ok(some) => Ok(done + some),
            Err(error) if done == 0 => Err(error),
            Err(_) => Ok(done),
        }
    }
}

#[cfg(test)]
mod tests;
