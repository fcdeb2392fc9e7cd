//! The length of a file: cut, or grown by what reads as zeros.
//!
//! Invariant: what is cut off never shows again, whatever grows over it and whenever power fails.

use crate::DEFERRED_TREE;
use crate::change::{Need, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::extents::{self, EXTENTS_AT_ONCE};
use crate::keys;
use crate::open_files::File;
use crate::record::{INLINE_BYTES, Record};
use crate::removal;
use crate::service::{Caller, FileId, OpenMode, Time};
use crate::store::held;
use crate::volume::{Volume, put_record, record_of};
use crate::write::MAX_FILE_BYTES;
use holdfast_model::BLOCK_BYTES;

impl Volume {
    /// Sets the length of a file that may not be open.
    pub(crate) async fn set_length(&self, caller: &Caller, id: FileId, size: u64) -> Result<(), VolumeError> {
        let mode = OpenMode { read: false, write: true, truncate: false };
        let handle = self.open_file(caller, id, mode).await?;
        let done = {
            let _alone = handle.file.data.write().await;
            self.set_length_locked(&handle.file, size).await
        };
        let closed = self.close_file(handle).await;
        done.and(closed)
    }

    /// Sets the length of a file whose data is locked alone.
    pub(crate) async fn set_length_locked(&self, file: &File, size: u64) -> Result<(), VolumeError> {
        self.set_length_for(file, size, Need::More).await
    }

    /// The same; `growth` is what a larger one may use of the room for metadata.
    pub(crate) async fn set_length_for(&self, file: &File, size: u64, growth: Need) -> Result<(), VolumeError> {
        if size > MAX_FILE_BYTES {
            return Err(VolumeError::new(ErrorKind::TooLarge, "a file ends below 2^63 bytes"));
        }
        let (is_shorter, is_emptied) = {
            let state = held(&file.state);
            (size < state.size, size == 0 && state.size > 0)
        };
        // What waits behind the new end goes only once the file ends there.
        let keeps = if is_shorter { size.div_ceil(BLOCK_BYTES) } else { u64::MAX };
        self.write_back_below(file, keeps).await?;
        let (before, is_inline) = {
            let state = held(&file.state);
            if state.delayed.is_empty() { (state.size, state.is_inline) } else { state.delayed.recorded }
        };
        if size > before {
            // What an earlier cut left behind the end must not show.
            self.finish_note(file.id.number, true).await?;
            if is_inline && size > INLINE_BYTES as u64 && before > 0 {
                self.spill(file).await?;
            }
            self.zero_tail(file, before).await?;
        }
        // Room may lie behind the end in the log, too.
        let is_cut = is_shorter && !is_inline;
        let now = self.now();
        let (id, end) = (file.id, size.div_ceil(BLOCK_BYTES));
        let need = if size > before { growth } else { Need::Less };
        let trees = [keys::shard(id.number), DEFERRED_TREE];
        let ((facts, is_left), logged) = self
            .change_length(&trees, need, |view, most| {
                let mut record = record_of(view, id)?;
                if let Some(mut bytes) = record.inline.take().filter(|_| size <= INLINE_BYTES as u64) {
                    bytes.resize(size as usize, 0);
                    record.inline = Some(bytes);
                }
                record.size = size;
                self.touch(&mut record, now);
                let mut is_left = false;
                if is_cut {
                    let reached = extents::reach(view, id.number, end, u64::MAX, most)?;
                    extents::replace(view, id.number, &mut record, end..reached, &[])?;
                    is_left = reached < u64::MAX;
                    if is_left && record.links > 0 {
                        removal::defer_cut(view, id.number)?;
                    }
                }
                view.follow_data();
                put_record(view, id.number, &record)?;
                Ok(((record.size, record.inline.is_some()), is_left))
            })
            .await?;
        self.drop_delayed(file);
        self.note_length(file, facts, logged, now);
        held(&file.state).is_replaced |= is_emptied;
        self.release_window(file);
        if is_left { self.cut_beyond_end(id.number, true).await } else { Ok(()) }
    }

    async fn change_length<T>(
        &self,
        trees: &[u8],
        need: Need,
        mut attempt: impl FnMut(&mut View<'_>, usize) -> Result<T, Stop>,
    ) -> Result<(T, u64), VolumeError> {
        match need {
            Need::More | Need::Own => self.store.change(trees, need, |view| attempt(view, EXTENTS_AT_ONCE)).await,
            Need::Less | Need::Least | Need::Sure | Need::Replayed => self.give_back(trees, attempt).await,
        }
    }

    fn note_length(&self, file: &File, (size, is_inline): (u64, bool), logged: u64, now: Time) {
        let mut state = held(&file.state);
        (state.size, state.is_inline, state.mapping) = (size, is_inline, None);
        state.logged = logged;
        (state.modified, state.recorded.1) = (None, now);
    }

    /// Gives back what lies beyond the end of a file, in steps. Where the caller does not hold the file alone (`is_held`),
    /// whoever opens it meanwhile may grow it over what is left: the rest, and the note of it, wait for its close.
    pub(crate) async fn cut_beyond_end(&self, number: u64, is_held: bool) -> Result<(), VolumeError> {
        let shard = keys::shard(number);
        loop {
            let (is_over, _) = self
                .give_back(&[shard, DEFERRED_TREE], |view, most| {
                    if !is_held && self.open.get(number).is_some() {
                        return Ok(true);
                    }
                    let Some(value) = view.get(shard, &keys::record(number))? else {
                        removal::keep(view, number)?;
                        return Ok(true);
                    };
                    let mut record = Record::decode(number, &value)?;
                    let end = record.size.div_ceil(BLOCK_BYTES);
                    let reached = extents::reach(view, number, end, u64::MAX, most)?;
                    extents::replace(view, number, &mut record, end..reached, &[])?;
                    put_record(view, number, &record)?;
                    let is_over = reached == u64::MAX;
                    if is_over && record.links > 0 {
                        removal::keep(view, number)?;
                    }
                    Ok(is_over)
                })
                .await?;
            if let Some(file) = self.open.get(number) {
                held(&file.state).mapping = None;
            }
            if is_over {
                return Ok(());
            }
        }
    }
}
