//! What may happen to a configuration: the entries of the metadata log.

use holdfast_model::{DiskState, Name};

use crate::features::Features;
use crate::frame::Position;
use crate::place::SlabPlace;
use crate::record::{DiskRecord, LossPolicy, RowRecord, SpaceRecord};

/// One change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The pool is called so.
    Pool(Name),
    /// The pool uses these features.
    Features(Features),
    /// A generation begins: an import that has the promise of a majority.
    Opened,
    /// The pool was closed in good order: no region is dirty.
    Closed,
    /// Numbers below these were used already.
    Counters {
        /// For rows.
        row: u64,
        /// For spaces.
        space: u32,
        /// For disks.
        disk: u16,
    },
    /// A disk has this record now.
    Disk(DiskRecord),
    /// A disk went out of service: its slabs are stale from now on, but for those that are needed; it votes no more.
    DiskOut {
        /// The disk.
        disk: u16,
        /// Missing or failed.
        state: DiskState,
        /// The last change that it is known to hold, and the generation that its label is known to promise.
        holds: Position,
    },
    /// A disk that was out came back in an older state than it went: each of its stale slabs may have missed any write
    /// at all.
    DiskOutdated(u16),
    /// A disk that holds no slab left the pool for good.
    DiskGone(u16),
    /// Lost disks are dealt with so.
    LossPolicy(LossPolicy),
    /// A space has this record now.
    Space(SpaceRecord),
    /// A space and all its rows are gone.
    SpaceGone(u32),
    /// A row was allotted.
    Row {
        /// The space.
        space: u32,
        /// The chunk.
        chunk: u32,
        /// Where.
        row: RowRecord,
    },
    /// A row was given back.
    RowGone {
        /// The space.
        space: u32,
        /// The chunk.
        chunk: u32,
    },
    /// A slab missed a write, or is in step again; says nothing where the row is gone.
    Stale {
        /// The space.
        space: u32,
        /// The chunk.
        chunk: u32,
        /// The slab's index in its row.
        slab: u16,
        /// Whether it is stale.
        stale: bool,
    },
    /// A slab is stale, and may have missed any write at all; or it has missed no others than those marked by now. Says
    /// nothing where the row is gone, or needs the slab.
    Outdated {
        /// The space.
        space: u32,
        /// The chunk.
        chunk: u32,
        /// The slab's index in its row.
        slab: u16,
        /// Whether all of it is in doubt.
        outdated: bool,
    },
    /// A row is about to be written to: its slabs have their headers and maps.
    RowBegun {
        /// The space.
        space: u32,
        /// The chunk.
        chunk: u32,
    },
    /// A document is so now, or gone where there is no content.
    Document {
        /// Its name.
        key: Box<str>,
        /// What it says.
        content: Option<Box<[u8]>>,
    },
    /// An administrator vouched that what disks out of reach may hold beyond a position does not count.
    Forced {
        /// The last change that this history shares with theirs.
        from: Position,
        /// The generation that goes on from there.
        generation: u64,
    },
}

/// What a change is about. Changes of one record are about different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    /// The pool as a whole: such changes bear any others beside them.
    Pool,
    /// A disk that stays.
    Disk(u16),
    /// A disk that leaves the pool.
    LeavingDisk(u16),
    /// A space with all its rows.
    Space(u32),
    /// A row, by its space and chunk.
    Row(u32, u32),
    /// A document.
    Document(&'a str),
}

impl Change {
    /// What it is about.
    pub(crate) fn subject(&self) -> Subject<'_> {
        match self {
            Self::Pool(_)
            | Self::Features(_)
            | Self::Opened
            | Self::Closed
            | Self::Counters { .. }
            | Self::LossPolicy(_)
            | Self::Forced { .. } => Subject::Pool,
            Self::Disk(record) => Subject::Disk(record.index),
            Self::DiskOut { disk, .. } | Self::DiskOutdated(disk) => Subject::Disk(*disk),
            Self::DiskGone(disk) => Subject::LeavingDisk(*disk),
            Self::Space(record) => Subject::Space(record.id),
            Self::SpaceGone(id) => Subject::Space(*id),
            Self::Row { space, chunk, .. }
            | Self::RowGone { space, chunk }
            | Self::RowBegun { space, chunk }
            | Self::Outdated { space, chunk, .. }
            | Self::Stale { space, chunk, .. } => Subject::Row(*space, *chunk),
            Self::Document { key, .. } => Subject::Document(key),
        }
    }
}

/// In a change that takes a disk out, that the writer of the record fills in what the disk holds.
pub(crate) const UNKNOWN: Position = Position { generation: u64::MAX, sequence: u64::MAX };

/// The change that says how a stale slab stands.
pub(crate) fn standing(place: SlabPlace, space: u32, chunk: u32, slab: usize) -> Change {
    match place.outdated() {
        true => Change::Outdated { space, chunk, slab: slab as u16, outdated: true },
        false => Change::Stale { space, chunk, slab: slab as u16, stale: true },
    }
}
