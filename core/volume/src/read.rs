//! Reading files.
//!
//! Invariant: a read sees each block as one write left it, and nothing of what is beyond the file.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::BLOCK_BYTES;
use smallvec::SmallVec;

use crate::change::{Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::extents::{self, Ground, Piece};
use crate::keys;
use crate::open_files::{File, Handle, Use};
use crate::record::Record;
use crate::service::{Data, Seek, Time};
use crate::store::held;
use crate::volume::{Volume, record_of};

/// Zeros, for holes of any length.
fn zeros() -> &'static IoSlice {
    static ZEROS: OnceLock<IoSlice> = OnceLock::new();
    ZEROS.get_or_init(|| IoBuf::zeroed(128 << 10).freeze())
}

/// A day, after which a read is noted although the file was not changed since (as `relatime` of Linux).
const DAY: i64 = 24 * 3600;

impl Volume {
    pub(crate) async fn read_file(&self, handle: &Handle, offset: u64, len: usize) -> Result<Data, VolumeError> {
        let file = &*handle.file;
        let _shared = file.data.read().await;
        let data = self.read_locked(file, offset, len).await?;
        self.note_read(file);
        Ok(data)
    }

    /// Reads while the data is locked.
    pub(crate) async fn read_locked(&self, file: &File, offset: u64, len: usize) -> Result<Data, VolumeError> {
        let (size, is_inline) = {
            let state = held(&file.state);
            (state.size, state.is_inline)
        };
        let len = size.saturating_sub(offset).min(len as u64);
        if len == 0 {
            return Ok(Data::default());
        }
        if is_inline {
            let bytes = Box::pin(self.inline_bytes(file)).await?;
            let mut data = Data::default();
            data.push(IoSlice::padded(&bytes), offset as usize, len as usize);
            return Ok(data);
        }
        let end = offset + len;
        let pieces = self.seen(file, offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES)).await?;
        if pieces.iter().any(|piece| piece.ground == Ground::Lost) {
            return Err(VolumeError::corrupt(extents::LOST));
        }
        let read = |piece: &Piece| {
            let Ground::Written(extent) = &piece.ground else { return None };
            Some(self.store.device.read(extent.place * BLOCK_BYTES, IoBuf::new((piece.blocks * BLOCK_BYTES) as usize)))
        };
        let is_summed = |piece: &Piece| matches!(&piece.ground, Ground::Written(extent) if extent.sums.is_some());
        let bufs: SmallVec<[IoBuf; 1]> = match &pieces[..] {
            some if some.iter().any(is_summed) => Box::pin(self.read_pieces(file, some)).await?,
            [piece] => match read(piece) {
                Some(reading) => SmallVec::from([reading.await?]),
                None => SmallVec::new(),
            },
            _ => Box::pin(try_join_all(pieces.iter().filter_map(read))).await?.into(),
        };
        let (mut data, mut bufs) = (Data::default(), bufs.into_iter());
        for piece in &pieces {
            let start = piece.block * BLOCK_BYTES;
            let (from, to) = (offset.max(start), end.min(start + piece.blocks * BLOCK_BYTES));
            if let Ground::Written(_) = piece.ground {
                let buf = bufs.next().expect("one for each piece of data").freeze();
                data.push(buf, (from - start) as usize, (to - from) as usize);
                continue;
            }
            if piece.ground == Ground::Delayed {
                let buf = held(&file.state).delayed.copy(piece.block, piece.blocks);
                data.push(buf, (from - start) as usize, (to - from) as usize);
                continue;
            }
            let mut left = (to - from) as usize;
            while left > 0 {
                let some = left.min(zeros().len());
                data.push(zeros().clone(), 0, some);
                left -= some;
            }
        }
        Ok(data)
    }

    /// The bytes that the record of a file carries.
    pub(crate) async fn inline_bytes(&self, file: &File) -> Result<Vec<u8>, VolumeError> {
        let id = file.id;
        let record = self.store.look([keys::shard(id.number)], |view| record_of(view, id)).await?;
        record.inline.ok_or_else(|| VolumeError::corrupt("a small file has lost its bytes"))
    }

    pub(crate) fn note_read(&self, file: &File) {
        let now = self.now();
        let mut state = held(&file.state);
        let (accessed, modified) = state.recorded;
        let accessed = state.accessed.unwrap_or(accessed);
        let modified = state.modified.unwrap_or(modified);
        let is_old = |time: Time| now.seconds - time.seconds >= DAY;
        if accessed <= modified || is_old(accessed) {
            state.accessed = Some(now);
        }
    }

    pub(crate) async fn seek_file(&self, handle: &Handle, offset: u64, what: Seek) -> Result<u64, VolumeError> {
        let file = &*handle.file;
        let _shared = file.data.read().await;
        let (size, is_inline) = {
            let state = held(&file.state);
            (state.size, state.is_inline)
        };
        let nothing = || VolumeError::new(ErrorKind::NoData, "there is no such data or hole");
        if offset >= size {
            return Err(nothing());
        }
        if is_inline {
            return Ok(if what == Seek::Data { offset } else { size });
        }
        let end = size.div_ceil(BLOCK_BYTES);
        let mut at = offset / BLOCK_BYTES;
        while at < end {
            // A part at a time: a file may have any number of extents.
            let to = end.min(self.mapping(file, at).await?.to);
            for piece in self.seen(file, at, to).await? {
                let is_data = matches!(piece.ground, Ground::Written(_) | Ground::Lost | Ground::Delayed);
                if is_data == (what == Seek::Data) {
                    return Ok((piece.block * BLOCK_BYTES).max(offset).min(size));
                }
            }
            at = to;
        }
        if what == Seek::Hole { Ok(size) } else { Err(nothing()) }
    }

    /// Sets up what an open file needs to know. Refuses a file that is gone, but for those that are open already.
    pub(crate) async fn load_state(
        &self,
        file: &File,
        whose: Use,
        check: impl Fn(&View<'_>, &Record) -> Result<(), Stop>,
    ) -> Result<(), VolumeError> {
        let id = file.id;
        let record = self.store.look([keys::shard(id.number)], |view| {
            let record = record_of(view, id)?;
            check(view, &record)?;
            // A handle that is to come is counted already.
            let others = self.open.handles(id.number) - usize::from(whose == Use::Handle);
            if record.links == 0 && others == 0 {
                return refuse(ErrorKind::Stale, "the file does not exist any more");
            }
            Ok(record)
        });
        let record = record.await?;
        let mut state = held(&file.state);
        if !std::mem::replace(&mut state.is_loaded, true) {
            state.size = record.size;
            state.is_inline = record.inline.is_some();
            file.strict.store(record.is_strict(), Ordering::Relaxed);
            state.recorded = (record.accessed, record.modified);
            // What went through handles that are closed counts as this one's.
            (state.logged, state.written) = (self.store.last(), self.store.data.written());
        }
        Ok(())
    }
}
