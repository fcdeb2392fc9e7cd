//! Data written over where it lies.
//!
//! Invariant: only what holds data within the file, and is nobody else's, is written over; and no transaction that counts
//! by what lies there counts any longer.

use futures_util::future::join_all;
use holdfast_device::{Durability, Io, IoSlice};
use holdfast_model::BLOCK_BYTES;

use crate::error::VolumeError;
use crate::extents::{Ground, Piece};
use crate::open_files::File;
use crate::store::held;
use crate::volume::Volume;

/// Waits for all writes, also behind one that failed: what they go to may be given to others only then.
pub(crate) async fn all(writes: impl IntoIterator<Item = Io<()>>) -> Result<(), VolumeError> {
    let ended = join_all(writes).await;
    Ok(ended.into_iter().collect::<Result<(), _>>()?)
}

impl Volume {
    /// Writes whole blocks if all of them hold data within the file; false if not.
    pub(crate) async fn write_in_place(
        &self,
        file: &File,
        offset: u64,
        data: &IoSlice,
        len: usize,
        durability: Durability,
    ) -> Result<bool, VolumeError> {
        let end = offset + len as u64;
        {
            let state = held(&file.state);
            let is_waiting = state.delayed.has(offset / BLOCK_BYTES..end / BLOCK_BYTES);
            if state.is_inline || end > state.size || is_waiting {
                return Ok(false);
            }
        }
        let pieces = self.pieces(file, offset / BLOCK_BYTES, end / BLOCK_BYTES).await?;
        if !pieces.iter().all(|piece| matches!(piece.ground, Ground::Written(_)) && !self.is_others(file, piece)) {
            return Ok(false);
        }
        for piece in &pieces {
            let Ground::Written(extent) = &piece.ground else { unreachable!("all of them hold data") };
            self.store.settle_blocks(extent.place, piece.blocks).await?;
        }
        self.note_overwrite(file).await?;
        let write = |piece: &Piece| {
            let Ground::Written(extent) = &piece.ground else { unreachable!("all of them hold data") };
            let part =
                data.slice((piece.block * BLOCK_BYTES - offset) as usize, piece.blocks as usize * BLOCK_BYTES as usize);
            self.store.device.write(extent.place * BLOCK_BYTES, part, durability)
        };
        match &pieces[..] {
            [piece] => write(piece).await?,
            _ => Box::pin(all(pieces.iter().map(write))).await?,
        }
        self.note_written(file);
        Ok(true)
    }

    /// Data of a file was written where it lies.
    pub(crate) fn note_written(&self, file: &File) {
        let (now, change) = (self.now(), self.next_change());
        let mut state = held(&file.state);
        state.written = self.store.data.note();
        (state.modified, state.change) = (Some(now), change);
    }
}
