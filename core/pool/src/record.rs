//! What a pool remembers of a disk, of a space and of a row.

use holdfast_model::{
    DiskState, Layout, Media, Name, ObjectRef, Place, Provisioning, RetirePolicy, Shape, Usage, Uuid,
};

use crate::area::UNIT_BYTES;
use crate::frame::Position;
use crate::geometry::{HEAD_BYTES, USUAL_SLAB_BYTES, checksum_cache_bytes, head_bytes};
use crate::place::SlabPlace;

/// A disk of the pool, as the pool remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRecord {
    /// Its number in the pool; never reused.
    pub index: u16,
    /// Its identity.
    pub id: Uuid,
    /// Serial as the disk tells it.
    pub serial: String,
    /// Model as the disk tells it.
    pub model: String,
    /// Where it was seen last.
    pub path: String,
    /// Medium.
    pub media: Media,
    /// What it may be used for.
    pub usage: Usage,
    /// Enclosure and slot.
    pub place: Option<Place>,
    /// Its size.
    pub disk_bytes: u64,
    /// Whether it is in service.
    pub state: DiskState,
    /// Whether it counts for the quorum.
    pub voting: bool,
    /// While it is out of service, the last change that it is known to hold, and the generation whose promise its label
    /// is known to show: one that comes back with less was set back to an older state. Zero while it is in service.
    pub holds: Position,
}

impl DiskRecord {
    /// The disk, as events and conditions name it.
    pub fn object(&self) -> ObjectRef {
        ObjectRef::disk(self.id, self.label())
    }

    /// How people call the disk: its serial, or else its path.
    pub fn label(&self) -> &str {
        if self.serial.is_empty() { &self.path } else { &self.serial }
    }
}

/// What a pool does of itself about disks that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossPolicy {
    /// Whether they are retired.
    pub retire: RetirePolicy,
    /// How long they may be away before; `None` leaves it to the daemon.
    pub grace_seconds: Option<u32>,
}

/// A space of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceRecord {
    /// Its number in the pool; never reused.
    pub id: u32,
    /// Its identity.
    pub uuid: Uuid,
    /// Its name.
    pub name: Name,
    /// The shape of its new rows.
    pub shape: Shape,
    /// Fixed or thin.
    pub provisioning: Provisioning,
    /// Its size, a multiple of 4 KiB.
    pub size_bytes: u64,
    /// Bytes of data in a row.
    pub chunk_bytes: u64,
    /// Whether its rows are spread so that the loss of an enclosure is survived.
    pub enclosure_aware: bool,
    /// Whether clients may only read it: it was put together by a salvage, and nobody has accepted it yet.
    pub read_only: bool,
    /// Whether its creation was carried to the end; an incomplete space is removed at import.
    pub complete: bool,
}

impl SpaceRecord {
    /// Rows that the space has when all are allotted.
    pub fn chunks(&self) -> u32 {
        self.size_bytes.div_ceil(self.chunk_bytes) as u32
    }
}

/// A row: one chunk of a space, on `shape.width()` slabs. Slab `column * copies + copy` holds that copy of that column;
/// a parity row has one slab a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRecord {
    /// Unique in the pool for ever: block maps of an earlier row in the same place are distinguished by it.
    pub id: u64,
    /// Its own shape, whatever the space's is now.
    pub shape: Shape,
    /// Units of each slab, its head included.
    pub slab_units: u32,
    /// Whether it was written to: every slab in step has its header and all its maps since then.
    pub begun: bool,
    /// Where its slabs are.
    pub slabs: Box<[SlabPlace]>,
}

impl RowRecord {
    /// Whether the slabs that this one backs could not be served without it: too few others of them are in step.
    pub fn is_needed(&self, slab: usize) -> bool {
        let others = self.shape.group(slab).filter(|other| *other != slab && !self.slabs[*other].stale());
        others.count() < self.shape.needed()
    }

    /// Bytes that it takes on its disks.
    pub fn raw_bytes(&self) -> u64 {
        self.slabs.len() as u64 * u64::from(self.slab_units) * UNIT_BYTES
    }

    /// Bytes of data of each slab: what is between its head and its checksums.
    pub fn slab_data_bytes(&self) -> u64 {
        self.data_after(self.slab_head_bytes())
    }

    /// Bytes of each slab before its data.
    pub fn slab_head_bytes(&self) -> u64 {
        let wanted = |head| head_bytes(&self.shape, self.data_after(head));
        // What a head takes leaves less data, which takes less of a head: the least that suffices is the one.
        let mut head = wanted(wanted(HEAD_BYTES));
        while wanted(head) > head {
            head += UNIT_BYTES;
        }
        head
    }

    fn data_after(&self, head_bytes: u64) -> u64 {
        let after_head = (u64::from(self.slab_units) * UNIT_BYTES).saturating_sub(head_bytes);
        after_head - checksum_cache_bytes(&self.shape, after_head)
    }
}

/// Whether a row can be part of a journal. While a space changes its shape, its journal has as many copies as the old
/// or the new one asks for.
pub(crate) fn is_journal_row(row: &RowRecord) -> bool {
    let data = row.slab_data_bytes();
    matches!(row.shape.layout, Layout::Mirror { .. })
        && !row.shape.has_checksums()
        && (1..=USUAL_SLAB_BYTES).contains(&data)
        && data.is_multiple_of(row.shape.interleave.bytes())
}
