//! What a strict file gets of another: blocks that have no checksum are summed before they are its own.
//!
//! ```text
//!   extents of the source, locked and known as shared ─▶ without checksums: read ─▶ 64 blocks each, with checksums
//!       ─▶ the target has references to them, in one change
//! ```
//!
//! Invariant: no block comes to a strict file by a clone without a checksum, whenever power fails.

use holdfast_model::BLOCK_BYTES;

use crate::error::VolumeError;
use crate::extent::Extent;
use crate::extents::{Ground, LOST, SHARED_AT_ONCE};
use crate::open_files::File;
use crate::sums::{MOST_SUMMED, Sums};
use crate::volume::Volume;

/// Blocks of a source that one change gives to a strict file, at most.
const BLOCKS_AT_ONCE: u64 = SHARED_AT_ONCE as u64 * MOST_SUMMED as u64;

impl Volume {
    /// The first data of a range of blocks of a file, all of it with checksums, as much as one change can give to another;
    /// and where that ends. The file is locked, and its data written over by nobody.
    pub(crate) async fn summed(
        &self,
        source: &File,
        from: u64,
        to: u64,
    ) -> Result<(u64, Vec<(u64, Extent)>), VolumeError> {
        let to = to.min(from + BLOCKS_AT_ONCE);
        let mut found = Vec::new();
        for piece in self.pieces(source, from, to).await? {
            let extent = match &piece.ground {
                Ground::Written(extent) => extent,
                Ground::Lost => return Err(VolumeError::corrupt(LOST)),
                _ => continue,
            };
            let mut skip = 0;
            while skip < extent.blocks {
                if found.len() == SHARED_AT_ONCE {
                    return Ok((piece.block + u64::from(skip), found));
                }
                let part = extent.part(skip, (extent.blocks - skip).min(MOST_SUMMED));
                let block = piece.block + u64::from(skip);
                skip += part.blocks;
                found.push((block, self.with_sums(source, block, part).await?));
            }
        }
        Ok((to, found))
    }

    /// An extent of a file with checksums of what can be read of it now, if it has none. It has no more blocks than may have.
    pub(crate) async fn with_sums(&self, source: &File, block: u64, extent: Extent) -> Result<Extent, VolumeError> {
        if extent.sums.is_some() {
            return Ok(extent);
        }
        let data = self.read_extent(source, block, &extent).await?;
        let sums = Sums::of(&data[..extent.blocks as usize * BLOCK_BYTES as usize]);
        Ok(Extent { sums: Some(sums), ..extent })
    }
}
