//! What a file keeps to prove that its data is what was written: the mode, inherited from the directory, and checksums of
//! data that was there before it became strict.
//!
//! ```text
//!   pass-through   nothing: the space below has checksums, and nothing is paid twice
//!   strict         a checksum for each block in its extent; blocks are never written over, they move
//!   none           as pass-through, and scrubs leave the file alone
//! ```
//!
//! The mode says what is done with what is written from now on; whether blocks have checksums, their extent says. So a
//! change of the mode that is cut short leaves some blocks without, and none with wrong ones.
//!
//! Invariant: the change that gives blocks checksums lasts no longer than the blocks do.

use std::sync::atomic::Ordering;

use holdfast_model::BLOCK_BYTES;
use serde::{Deserialize, Serialize};

use crate::OWNER_TREE;
use crate::attributes;
use crate::change::{Need, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::{self, Ground};
use crate::keys;
use crate::open_files::{File, Use};
use crate::scan::give_way;
use crate::service::{Attributes, Caller, DosAttributes, FileId, FileKind, SetAttributes};
use crate::store::held;
use crate::sums::{MOST_SUMMED, Sums};
use crate::volume::{Volume, put_record, record_of};
use crate::write::{Segment, Target};

/// Extents that get checksums in one change.
const SUMMED_AT_ONCE: u32 = 16;
/// Blocks of a file that are looked up at once.
const LOOK_BLOCKS: u64 = 1 << 16;

/// What a file keeps to prove its data. New files and directories have that of their directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Integrity {
    /// Nothing of its own: what lies below the volume may have checksums.
    #[default]
    PassThrough,
    /// A CRC-32C of each block, held against the block whenever that is read (`FILE_ATTRIBUTE_INTEGRITY_STREAM`).
    Strict,
    /// Nothing of its own, and scrubs leave it alone (`FILE_ATTRIBUTE_NO_SCRUB_DATA`).
    None,
}

impl Integrity {
    /// The attributes that say it.
    pub(crate) const ATTRIBUTES: DosAttributes = DosAttributes::INTEGRITY_STREAM.union(DosAttributes::NO_SCRUB_DATA);

    fn attributes(self) -> DosAttributes {
        match self {
            Self::PassThrough => DosAttributes::empty(),
            Self::Strict => DosAttributes::INTEGRITY_STREAM,
            Self::None => DosAttributes::NO_SCRUB_DATA,
        }
    }
}

impl DosAttributes {
    /// What they say that a file keeps to prove its data.
    pub fn integrity(self) -> Integrity {
        if self.contains(Self::INTEGRITY_STREAM) {
            Integrity::Strict
        } else if self.contains(Self::NO_SCRUB_DATA) {
            Integrity::None
        } else {
            Integrity::PassThrough
        }
    }
}

/// Has what is to be written to a strict file be known by its checksums.
pub(crate) fn sum_targets(file: &File, segments: &[Segment], targets: &mut [Target]) {
    if !file.is_strict() {
        return;
    }
    for target in targets {
        let range = target.blocks();
        let reach_it =
            segments.partition_point(|segment| segment.block + segment.data.len() as u64 / BLOCK_BYTES <= range.start);
        let over = segments[reach_it..].iter().take_while(|segment| segment.block < range.end);
        let parts = over.filter_map(|segment| {
            let behind = segment.block + segment.data.len() as u64 / BLOCK_BYTES;
            let (first, last) = (range.start.max(segment.block), range.end.min(behind));
            let at = |block: u64| ((block - segment.block) * BLOCK_BYTES) as usize;
            (first < last).then(|| Sums::of(&segment.data[at(first)..at(last)]))
        });
        target.extent.sums = Sums::join(parts).filter(|sums| sums.len() == target.extent.blocks);
        debug_assert!(target.extent.sums.is_some(), "all of it is to be written");
    }
}

impl Volume {
    /// Has a file keep something else to prove its data, or a directory hand that on to what is made in it. A file that
    /// becomes strict has checksums of all that it holds when this is answered; one that is strict no more loses them as it
    /// is written to.
    ///
    /// # Errors
    /// The caller may not set attributes, it is no file or directory, or there is no room, a block cannot be read, or the
    /// device failed. In these cases the file may be strict although blocks of it have no checksums: set it again.
    pub(crate) async fn set_integrity_of(
        &self,
        caller: &Caller,
        id: FileId,
        to: Integrity,
    ) -> Result<Attributes, VolumeError> {
        let file = self.open.enter(id, Use::Own);
        let set = async {
            self.load_state(&file, Use::Own, |_, _| Ok(())).await?;
            let facts = self.set_mode_of_integrity(caller, &file, to).await?;
            if to == Integrity::Strict && facts.kind == FileKind::Regular {
                self.sum_data(&file).await?;
            }
            Ok(facts)
        };
        let set = set.await;
        let left = self.leave(&file, Use::Own).await;
        set.and_then(|facts| left.map(|()| facts))
    }

    async fn set_mode_of_integrity(
        &self,
        caller: &Caller,
        file: &File,
        to: Integrity,
    ) -> Result<Attributes, VolumeError> {
        let (id, now) = (file.id, self.now());
        let _alone = file.data.write().await;
        // What waits relies on places that it may not go to afterwards.
        self.write_back_locked(file).await?;
        let change = self.store.change([keys::shard(id.number)], Need::Less, |view| {
            let mut record = record_of(view, id)?;
            if !matches!(record.kind, FileKind::Regular | FileKind::Directory) {
                return refuse(ErrorKind::Invalid, "only files and directories keep anything to prove data");
            }
            let set = SetAttributes { dos: Some(to.attributes()), ..SetAttributes::default() };
            attributes::check(view, caller, &record, &set)?;
            view.enforce(caller.limits());
            let stamped = self.stamp(file, &mut record);
            record.attributes = record.attributes & !Integrity::ATTRIBUTES.bits() | to.attributes().bits();
            (record.changed, record.change) = (now, self.next_change());
            put_record(view, id.number, &record)?;
            Ok((record.facts(id.number), stamped))
        });
        let ((facts, stamped), logged) = change.await?;
        file.strict.store(to == Integrity::Strict, Ordering::Relaxed);
        let mut state = held(&file.state);
        state.logged = state.logged.max(logged);
        state.note_stamped(stamped);
        Ok(facts)
    }

    /// Gives all blocks of a file checksums that have none, some at a time: those of what can be read of them now.
    async fn sum_data(&self, file: &File) -> Result<(), VolumeError> {
        let mut at = 0;
        loop {
            {
                let _alone = file.data.write().await;
                self.write_back_locked(file).await?;
                let end = held(&file.state).size.div_ceil(BLOCK_BYTES);
                if at >= end || !file.is_strict() {
                    return Ok(());
                }
                at = self.sum_some(file, at, end.min(at + LOOK_BLOCKS)).await?;
            }
            give_way().await;
        }
    }

    /// The same of the first blocks of a range that have none; answers up to where all have them. The file is locked alone.
    async fn sum_some(&self, file: &File, at: u64, end: u64) -> Result<u64, VolumeError> {
        let pieces = self.pieces(file, at, end).await?;
        let unsummed = pieces.iter().find_map(|piece| match &piece.ground {
            Ground::Written(extent) if extent.sums.is_none() => Some((piece.block, extent)),
            _ => None,
        });
        let Some((start, extent)) = unsummed else { return Ok(end) };
        let some = extent.part(0, extent.blocks.min(SUMMED_AT_ONCE * MOST_SUMMED));
        let behind = start + u64::from(some.blocks);
        let data = self.read_extent(file, start, &some).await?;
        let part = |skip: u32| {
            let part = some.part(skip, (some.blocks - skip).min(MOST_SUMMED));
            let bytes = |blocks: u32| blocks as usize * BLOCK_BYTES as usize;
            let sums = Sums::of(&data[bytes(skip)..bytes(skip + part.blocks)]);
            (start + u64::from(skip), Extent { sums: Some(sums), ..part })
        };
        let new: Vec<(u64, Extent)> = (0..some.blocks).step_by(MOST_SUMMED as usize).map(part).collect();
        let id = file.id;
        let change = self.store.change([keys::shard(id.number), OWNER_TREE], Need::More, |view| {
            let mut record = record_of(view, id)?;
            if extents::within(view, id.number, start, behind)? != [(start, some.clone())] {
                return refuse(ErrorKind::Corrupt, "an extent changed although its file is locked");
            }
            // It has as many blocks as before: the record stays as it is.
            extents::replace(view, id.number, &mut record, start..behind, &new)?;
            // What was written in place may not be durable yet.
            view.follow_data();
            Ok(())
        });
        let ((), logged) = change.await?;
        let mut state = held(&file.state);
        (state.logged, state.mapping) = (state.logged.max(logged), None);
        state.written = state.written.max(self.store.data.written());
        Ok(behind)
    }
}
