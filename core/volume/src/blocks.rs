//! Whole blocks of files, for those to whom a file is a disk.
//!
//! ```text
//!   read    one extent without checksums     from the device into the buffer that was brought
//!           anything else                    each part into its part of the buffer, or copied once where it is checked
//! ```
//!
//! Invariant: the length of a file does not change by what is done here, but for [`Volume::grow_file`].

use futures_util::future::try_join_all;
use holdfast_device::{Extent as Run, ExtentKind, Io, IoBuf};
use holdfast_model::BLOCK_BYTES;

use crate::error::{ErrorKind, VolumeError};
use crate::extents::{Ground, LOST, Piece};
use crate::open_files::{File, Handle};
use crate::store::held;
use crate::volume::Volume;

/// Bytes of a file in whole blocks: part of one at the end is not counted.
pub(crate) fn whole_bytes(file: &File) -> u64 {
    held(&file.state).size / BLOCK_BYTES * BLOCK_BYTES
}

/// Refuses a range that is not of whole blocks within a file.
pub(crate) fn check_blocks(file: &File, offset: u64, len: u64) -> Result<(), VolumeError> {
    let size = whole_bytes(file);
    let is_whole = offset.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK_BYTES);
    if is_whole && offset.checked_add(len).is_some_and(|end| end <= size) {
        return Ok(());
    }
    let text = format!("{len} bytes at {offset} are not whole blocks of {BLOCK_BYTES} within {size}");
    Err(VolumeError::new(ErrorKind::Invalid, text))
}

impl Volume {
    /// Fills a buffer from whole blocks of a file.
    pub(crate) async fn read_blocks(&self, file: &File, offset: u64, buf: IoBuf) -> Result<IoBuf, VolumeError> {
        let _shared = file.data.read().await;
        let len = buf.len() as u64;
        check_blocks(file, offset, len)?;
        let pieces = self.seen(file, offset / BLOCK_BYTES, (offset + len) / BLOCK_BYTES).await?;
        let buf = match &pieces[..] {
            [] => buf,
            [Piece { ground: Ground::Written(extent), .. }] if extent.sums.is_none() => {
                self.store.device.read(extent.place * BLOCK_BYTES, buf).await?
            }
            some => Box::pin(self.read_parts(file, some, offset, buf)).await?,
        };
        self.note_read(file);
        Ok(buf)
    }

    async fn read_parts(
        &self,
        file: &File,
        pieces: &[Piece],
        offset: u64,
        mut buf: IoBuf,
    ) -> Result<IoBuf, VolumeError> {
        let is_checked = |piece: &Piece| match &piece.ground {
            Ground::Written(extent) => extent.sums.is_some(),
            _ => false,
        };
        if pieces.iter().any(is_checked) {
            let data = self.read_locked(file, offset, buf.len(), None).await?;
            let mut at = 0;
            for part in data.parts() {
                buf[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            assert_eq!(at, buf.len(), "the range is within the file");
            return Ok(buf);
        }
        if pieces.iter().any(|piece| piece.ground == Ground::Lost) {
            return Err(VolumeError::corrupt(LOST));
        }
        let read = |piece: &Piece| {
            let mut part = buf.split_to((piece.blocks * BLOCK_BYTES) as usize);
            match &piece.ground {
                Ground::Written(extent) => return self.store.device.read(extent.place * BLOCK_BYTES, part),
                Ground::Delayed => {
                    part.copy_from_slice(&held(&file.state).delayed.copy(piece.block, piece.blocks));
                }
                _ => part.fill(0),
            }
            Io::ready(Ok(part))
        };
        let reading: Vec<Io<IoBuf>> = pieces.iter().map(read).collect();
        let mut parts = try_join_all(reading).await?.into_iter();
        let mut whole = parts.next().expect("there are pieces");
        parts.for_each(|part| whole.join(part));
        Ok(whole)
    }

    /// Where whole blocks of a file have data, at most so many runs.
    pub(crate) async fn runs_of(
        &self,
        file: &File,
        offset: u64,
        len: u64,
        most: usize,
    ) -> Result<Vec<Run>, VolumeError> {
        let _shared = file.data.read().await;
        check_blocks(file, offset, len)?;
        let (mut at, end) = (offset / BLOCK_BYTES, (offset + len) / BLOCK_BYTES);
        let mut runs: Vec<Run> = Vec::new();
        while at < end {
            // A part at a time: a file may have any number of extents.
            let to = end.min(self.mapping(file, at).await?.to);
            for piece in self.seen(file, at, to).await? {
                let kind = match piece.ground {
                    Ground::Hole => ExtentKind::Hole,
                    Ground::Unwritten(_) => ExtentKind::Zero,
                    Ground::Written(_) | Ground::Lost | Ground::Delayed => ExtentKind::Data,
                };
                let bytes = piece.blocks * BLOCK_BYTES;
                let has_room = runs.len() < most.max(1);
                match runs.last_mut().filter(|last| last.kind == kind) {
                    Some(last) => last.len += bytes,
                    None if has_room => runs.push(Run { len: bytes, kind }),
                    None => return Ok(runs),
                }
            }
            at = to;
        }
        Ok(runs)
    }

    /// Lets a file grow by what reads as zeros, durably; answers whether it was shorter.
    pub(crate) async fn grow_file(&self, handle: &Handle, size: u64) -> Result<bool, VolumeError> {
        let file = &*handle.file;
        self.store.check_failed()?;
        self.make_room().await;
        let logged = {
            let _alone = file.data.write().await;
            let before = held(&file.state).size;
            if size < before {
                let text = format!("it has {before} bytes, and does not shrink");
                return Err(VolumeError::new(ErrorKind::Invalid, text));
            }
            if size == before {
                return Ok(false);
            }
            self.set_length_locked(file, size).await?;
            held(&file.state).logged
        };
        self.store.sync(logged).await?;
        Ok(true)
    }
}
