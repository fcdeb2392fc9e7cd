//! Reading files.
//!
//! Invariant: a read sees each block as one write left it, and nothing of what is beyond the file.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::BLOCK_BYTES;
use smallvec::SmallVec;

use crate::cached::CachedDevice;
use crate::change::{Stop, View, refuse};
use crate::data_cache::Runs;
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
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

/// Bytes of a read from which on it goes to the device: it gains little from memory, and would take much of it.
const LARGE_BYTES: u64 = 64 << 10;

/// A day, after which a read is noted although the file was not changed since (as `relatime` of Linux).
const DAY: i64 = 24 * 3600;

impl Volume {
    pub(crate) async fn read_file(&self, handle: &Handle, offset: u64, len: usize) -> Result<Data, VolumeError> {
        let file = &*handle.file;
        let _shared = file.data.read().await;
        let cached = self.store.media.cached.as_deref().filter(|_| !handle.is_unbuffered);
        let data = self.read_locked(file, offset, len, cached).await?;
        self.note_read(file);
        Ok(data)
    }

    /// Reads while the data is locked: what is kept in memory only where a cache is named.
    pub(crate) async fn read_locked(
        &self,
        file: &File,
        offset: u64,
        len: usize,
        cached: Option<&CachedDevice>,
    ) -> Result<Data, VolumeError> {
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
        let cached = cached.filter(|_| len < LARGE_BYTES);
        let end = offset + len;
        let pieces = self.seen(file, offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES)).await?;
        if pieces.iter().any(|piece| piece.ground == Ground::Lost) {
            return Err(VolumeError::corrupt(extents::LOST));
        }
        let found: SmallVec<[Runs; 1]> = match &pieces[..] {
            [Piece { block, ground: Ground::Written(extent), .. }] => {
                SmallVec::from([self.read_runs(file, *block, extent, cached).await?])
            }
            [_] => SmallVec::new(),
            _ => Box::pin(self.read_all(file, &pieces, cached)).await?.into(),
        };
        let (mut data, mut found) = (Data::default(), found.into_iter());
        for piece in &pieces {
            let start = piece.block * BLOCK_BYTES;
            let (from, to) = (offset.max(start), end.min(start + piece.blocks * BLOCK_BYTES));
            if let Ground::Written(_) = piece.ground {
                let (mut at, behind) = ((from - start) as usize, (to - start) as usize);
                let mut first = 0;
                for run in found.next().expect("one for each piece of data") {
                    let end = first + run.len();
                    let some = end.min(behind).saturating_sub(at);
                    data.push(run, at - first, some);
                    (first, at) = (end, at + some);
                }
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

    /// Reads all that holds data of pieces of a file, in order.
    async fn read_all(
        &self,
        file: &File,
        pieces: &[Piece],
        cached: Option<&CachedDevice>,
    ) -> Result<Vec<Runs>, VolumeError> {
        let read = |piece: &Piece| match piece {
            Piece { block, ground: Ground::Written(extent), .. } => Some((*block, extent.clone())),
            _ => None,
        };
        let all = pieces.iter().filter_map(read);
        try_join_all(all.map(|(block, extent)| async move { self.read_runs(file, block, &extent, cached).await })).await
    }

    /// Reads an extent of a file: from memory, or from the device, and keeps it then.
    async fn read_runs(
        &self,
        file: &File,
        block: u64,
        extent: &Extent,
        cached: Option<&CachedDevice>,
    ) -> Result<Runs, VolumeError> {
        let (blocks, is_summed) = (u64::from(extent.blocks), extent.sums.is_some());
        if let Some(found) = cached.and_then(|cached| cached.find(extent.place, blocks, is_summed)) {
            return Ok(found);
        }
        let ticket = cached.and_then(|cached| cached.begin_read(extent.place, blocks));
        let buf = match is_summed {
            // In memory of its own: a read of what has no checksums would be as large.
            true => Box::pin(self.read_extent(file, block, extent)).await?,
            false => {
                let buf = IoBuf::new((blocks * BLOCK_BYTES) as usize);
                self.store.device.read(extent.place * BLOCK_BYTES, buf).await?
            }
        };
        let run = buf.freeze();
        if let Some(ticket) = ticket {
            ticket.keep(&run, is_summed);
        }
        Ok(Runs::from([run]))
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
            if record.links == 0 && others == 0 && !self.remembered.has_left(id.number) {
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
