//! Where everything of a volume is, and which trees count.
//!
//! ```text
//!   three times, 64 KiB each:   | superblock | slot A | slot B | zeros |
//!   at 0, behind the log, and at the end of the device
//! ```
//!
//! A superblock never changes after the format but for the size and the features in use. A root slot is written by every checkpoint, A and B in
//! turns; the newest whole one counts.
//!
//! A volume with twins has all other metadata twice: frames of the log in both halves of it, nodes in both halves of their
//! zone, and the slots of a zone at its beginning and its end. Where a block stands says where its twin does:
//!
//! ```text
//!   log    | frames ...                      | the same frames                                  |
//!   zone   | slots, 32 KiB | nodes (or data) | twins of the nodes (or data) | the slots, 32 KiB |
//! ```
//!
//! Invariant: while a slot is written, the other one, which refers to the trees before, is whole in all three places.

use holdfast_device::{IoBuf, IoSlice};
use holdfast_model::wire::{Reader, Writer};
use holdfast_model::{BLOCK_BYTES, Uuid};

use crate::error::{ErrorKind, VolumeError};
use crate::page::{NodeRef, crc_of};

const SUPER_MAGIC: u32 = u32::from_le_bytes(*b"HFvS");
const SLOT_MAGIC: u32 = u32::from_le_bytes(*b"HFvR");
const VERSION: u16 = 1;
/// Bytes that each of the three groups takes.
pub const GROUP_BYTES: u64 = 64 << 10;
/// Bytes of the log, at least.
pub const LEAST_LOG_BYTES: u64 = 1 << 20;
/// Bytes of the log, at most.
pub const MOST_LOG_BYTES: u64 = 256 << 20;
/// Bytes of a zone, at most.
pub const MOST_ZONE_BYTES: u64 = 256 << 20;
/// Bytes of a zone, at least.
pub const LEAST_ZONE_BYTES: u64 = 1 << 20;
/// Generations, epochs, frames, transactions and ids of journals stay below this: no volume lives long enough to count so
/// far, and what counts on from one that was read must not overflow.
pub(crate) const MOST_COUNTED: u64 = 1 << 60;
/// The feature of the second kind of flags that lets a volume have snapshots: whoever does not know them would give away
/// what they have.
pub const SNAPSHOTS: u64 = 1;
/// The one of the same kind that a volume has once files share blocks: whoever does not know it would write over them.
pub const CLONES: u64 = 2;
/// The feature of the second kind of flags that says that files have security descriptors or further streams of data:
/// whoever does not know them would change permissions, or leave data behind.
pub const DESCRIPTORS: u64 = 4;
/// That of a volume whose change journal is on: whoever does not know it would leave holes in it.
pub const JOURNAL: u64 = 1 << 3;
/// That which says that extents have checksums of their own: whoever does not know it would write over
/// blocks, and leave the checksums as they were.
pub const CHECKSUMS: u64 = 1 << 4;
/// That of a volume which holds what only NT knows: owners without a number, who are told
/// apart in quotas, or names of more than 255 bytes. Whoever does not know it would count files for others, and take names
/// away.
pub const NT_RULES: u64 = 1 << 5;
/// The feature of the third kind of flags of a volume that has twins of its metadata, as what it lies on keeps one copy of
/// each block. Whoever does not know it would find nothing in its log.
pub const TWINS: u64 = 1;
/// Bytes of a slot of a zone, which holds its bitmap.
pub(crate) const SLOT_BYTES: u64 = 16 << 10;
/// Bytes in front of a zone that its two slots take.
pub(crate) const HEAD_BYTES: u64 = 2 * SLOT_BYTES;
/// A volume has so many bytes at least.
pub const LEAST_BYTES: u64 = 16 << 20;

/// What the format fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The volume.
    pub volume: Uuid,
    /// Bytes of the device that it uses.
    pub size_bytes: u64,
    /// Bytes of the log, which begins behind the first group.
    pub log_bytes: u64,
    /// Bytes of a zone, a power of two.
    pub zone_bytes: u64,
    /// Flags of the format; a reader that does not know one of the third refuses the volume, of the second only reads.
    pub features: [u64; 3],
}

impl Superblock {
    /// Whether this version may not write to it.
    pub fn is_read_only(&self) -> bool {
        self.features[1] & !(SNAPSHOTS | CLONES | DESCRIPTORS | JOURNAL | CHECKSUMS | NT_RULES) != 0
    }

    /// Whether it has each block of its metadata twice.
    pub fn has_twins(&self) -> bool {
        self.features[2] & TWINS != 0
    }

    /// Frames of the log.
    pub fn log_frames(&self) -> u64 {
        self.log_bytes / BLOCK_BYTES / if self.has_twins() { 2 } else { 1 }
    }

    /// Blocks of a zone up to where nodes may stand in it.
    pub(crate) fn node_blocks(&self) -> u32 {
        (self.zone_bytes / BLOCK_BYTES) as u32 / if self.has_twins() { 2 } else { 1 }
    }

    /// Blocks of a zone up to where data may lie in it.
    pub(crate) fn data_blocks(&self) -> u32 {
        ((self.zone_bytes - if self.has_twins() { HEAD_BYTES } else { 0 }) / BLOCK_BYTES) as u32
    }

    /// Where metadata stands once more that stands at `at`; `None` where it does not.
    pub fn twin_of(&self, at: u64) -> Option<u64> {
        if !self.has_twins() {
            return None;
        }
        let of_log = self.log_bytes / 2;
        if (self.log_at()..self.log_at() + of_log).contains(&at) {
            return Some(at + of_log);
        }
        let (half, inside) = (self.zone_bytes / 2, at.checked_sub(self.zones_at())? % self.zone_bytes);
        match inside {
            ..HEAD_BYTES => Some(at + self.zone_bytes - HEAD_BYTES),
            _ if inside < half => Some(at + half - HEAD_BYTES),
            _ => None,
        }
    }

    /// Where a node stands whose twin stands at `at`; `None` where that can be none.
    pub(crate) fn node_of_twin(&self, at: u64) -> Option<u64> {
        let own = at.checked_sub((self.zone_bytes / 2).checked_sub(HEAD_BYTES)?)?;
        (self.twin_of(own) == Some(at)).then_some(own)
    }

    /// Where the log begins.
    pub fn log_at(&self) -> u64 {
        GROUP_BYTES
    }

    /// Where the first zone begins.
    pub fn zones_at(&self) -> u64 {
        2 * GROUP_BYTES + self.log_bytes
    }

    /// Whole zones between the second and the third group.
    pub fn zones(&self) -> u32 {
        u32::try_from((self.size_bytes - GROUP_BYTES - self.zones_at()) / self.zone_bytes).unwrap_or(u32::MAX)
    }

    /// Where the three groups begin.
    pub fn groups(&self) -> [u64; 3] {
        [0, GROUP_BYTES + self.log_bytes, self.size_bytes - GROUP_BYTES]
    }

    /// As a block.
    pub fn seal(&self) -> IoSlice {
        let mut writer = Writer::new();
        writer.u16(VERSION).raw(self.volume.as_bytes());
        writer.u64(self.size_bytes).u64(self.log_bytes).u64(self.zone_bytes);
        self.features.iter().for_each(|flags| _ = writer.u64(*flags));
        seal(SUPER_MAGIC, &writer.into_bytes())
    }

    /// Reads it from a block; `None` where there is none.
    ///
    /// # Errors
    /// It is one of a later version, or says what cannot be.
    pub fn open(block: &[u8]) -> Result<Option<Self>, VolumeError> {
        let Some(payload) = open(SUPER_MAGIC, block) else { return Ok(None) };
        let mut reader = Reader::new(payload);
        let refuse = |why: &str| VolumeError::new(ErrorKind::Format, format!("the volume's superblock {why}"));
        let short = |_| refuse("ends early");
        if reader.u16().map_err(short)? != VERSION {
            return Err(refuse("is of a later version: use a newer release"));
        }
        let volume = reader.uuid().map_err(short)?;
        let mut number = || reader.u64().map_err(short);
        let (size_bytes, log_bytes, zone_bytes) = (number()?, number()?, number()?);
        let features = [number()?, number()?, number()?];
        let sound = size_bytes >= LEAST_BYTES
            && size_bytes.is_multiple_of(BLOCK_BYTES)
            && (LEAST_LOG_BYTES..=MOST_LOG_BYTES).contains(&log_bytes)
            && log_bytes.is_multiple_of(GROUP_BYTES)
            && zone_bytes.is_power_of_two()
            && (LEAST_ZONE_BYTES..=MOST_ZONE_BYTES).contains(&zone_bytes)
            && log_bytes < size_bytes / 2;
        if !sound {
            return Err(refuse("has impossible sizes"));
        }
        if features[2] & !TWINS != 0 {
            return Err(refuse("asks for features that this version does not know: use a newer release"));
        }
        Ok(Some(Self { volume, size_bytes, log_bytes, zone_bytes, features }))
    }
}

/// Where the log goes on after a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// The number of the frame that comes next.
    pub sequence: u64,
    /// The CRC of the frame before it.
    pub previous: u32,
    /// Transactions up to this one are in the trees.
    pub applied: u64,
}

/// The trees that count, as a checkpoint made them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The number of the checkpoint.
    pub generation: u64,
    /// Raised by every opening: frames of an earlier one do not continue the log.
    pub epoch: u64,
    /// Where the log goes on.
    pub log: LogStart,
    /// Whether the log goes on with a frame that was written before this root, and must be there.
    pub is_marked: bool,
    /// What proves the bitmaps of zones of nodes to be those of this root, if it says so.
    pub bitmaps: Option<u32>,
    /// The roots of the trees that hold anything, in ascending order.
    pub trees: Vec<(u8, NodeRef)>,
}

impl Root {
    /// Where its slot is in a group.
    pub fn slot(&self) -> u64 {
        BLOCK_BYTES * (1 + self.generation % 2)
    }

    /// As a block.
    pub fn seal(&self, volume: Uuid) -> IoSlice {
        let mut writer = Writer::new();
        writer.raw(volume.as_bytes()).u64(self.generation).u64(self.epoch);
        writer.u64(self.log.sequence).u32(self.log.previous).u64(self.log.applied);
        writer.u16(self.trees.len() as u16);
        for (tree, node) in &self.trees {
            writer.u8(*tree).raw(&node.to_bytes());
        }
        writer.u8(self.is_marked.into()).u8(self.bitmaps.is_some().into()).u32(self.bitmaps.unwrap_or_default());
        seal(SLOT_MAGIC, &writer.into_bytes())
    }

    /// Reads it from a block; `None` where it is not whole, or another volume's.
    pub fn open(volume: Uuid, block: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(open(SLOT_MAGIC, block)?);
        if reader.uuid().ok()? != volume {
            return None;
        }
        let (generation, epoch) = (reader.u64().ok()?, reader.u64().ok()?);
        let log = LogStart { sequence: reader.u64().ok()?, previous: reader.u32().ok()?, applied: reader.u64().ok()? };
        let count = reader.u16().ok()?;
        let mut trees = Vec::new();
        for _ in 0..count {
            let tree = reader.u8().ok()?;
            if tree >= crate::TREES || trees.last().is_some_and(|(last, _)| *last >= tree) {
                return None;
            }
            trees.push((tree, NodeRef::read(&mut reader).ok()?));
        }
        // Earlier versions end here.
        let is_marked = reader.u8().is_ok_and(|marked| marked == 1);
        let has_bitmaps = reader.u8().is_ok_and(|has| has == 1);
        let bitmaps = if has_bitmaps { Some(reader.u32().ok()?) } else { None };
        let is_sound = [generation, epoch, log.sequence, log.applied].iter().all(|number| *number < MOST_COUNTED);
        is_sound.then_some(Self { generation, epoch, log, is_marked, bitmaps, trees })
    }
}

/// A block of magic, CRC, length and payload.
pub(crate) fn seal(magic: u32, payload: &[u8]) -> IoSlice {
    let mut buf = IoBuf::zeroed(BLOCK_BYTES as usize);
    buf[..4].copy_from_slice(&magic.to_le_bytes());
    buf[8..10].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    buf[10..10 + payload.len()].copy_from_slice(payload);
    let crc = crc_of(&buf[8..]);
    buf[4..8].copy_from_slice(&crc.to_le_bytes());
    buf.freeze()
}

/// The payload of a block that is whole.
pub(crate) fn open(magic: u32, block: &[u8]) -> Option<&[u8]> {
    let block = block.get(..BLOCK_BYTES as usize)?;
    let crc = u32::from_le_bytes(block[4..8].try_into().ok()?);
    if block[..4] != magic.to_le_bytes() || crc != crc_of(&block[8..]) {
        return None;
    }
    let len = u16::from_le_bytes([block[8], block[9]]) as usize;
    block.get(10..10 + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_superblocks_are_read_back_and_refused_when_damaged() {
        let volume = Uuid::from_u128(9);
        let superblock =
            Superblock { volume, size_bytes: 64 << 20, log_bytes: 1 << 20, zone_bytes: 1 << 20, features: [0; 3] };
        assert_eq!(Superblock::open(&superblock.seal()), Ok(Some(superblock)));
        let node = NodeRef { address: 1 << 20, generation: 3, crc: 7 };
        let log = LogStart { sequence: 9, previous: 4, applied: 77 };
        let root = Root {
            generation: 3,
            epoch: 2,
            log,
            is_marked: true,
            bitmaps: Some(5),
            trees: vec![(0, node), (33, node)],
        };
        let block = root.seal(volume);
        assert_eq!(Root::open(volume, &block), Some(root.clone()));
        assert_eq!(Root::open(Uuid::from_u128(8), &block), None);
        for at in 0..200 {
            let mut wrong = block.to_vec();
            wrong[at] ^= 1;
            assert_eq!(Root::open(volume, &wrong), None, "byte {at}");
        }
        let far = Root { generation: u64::MAX, ..root };
        assert_eq!(Root::open(volume, &far.seal(volume)), None, "no checkpoint could follow it");
        let future = Superblock { features: [1, 0, 4], ..superblock };
        assert_eq!(Superblock::open(&future.seal()).expect_err("unknown").kind, ErrorKind::Format);
        let known = Superblock { features: [1, 0, TWINS], ..superblock };
        assert_eq!(Superblock::open(&known.seal()), Ok(Some(known)), "compatible flags do not matter");
    }

    #[test]
    fn each_block_of_metadata_has_a_twin_of_its_own() {
        let volume = Uuid::from_u128(9);
        let one =
            Superblock { volume, size_bytes: 64 << 20, log_bytes: 2 << 20, zone_bytes: 1 << 20, features: [0; 3] };
        let two = Superblock { features: [0, 0, TWINS], ..one };
        assert_eq!((one.log_frames(), one.node_blocks(), one.data_blocks()), (512, 256, 256));
        assert_eq!((two.log_frames(), two.node_blocks(), two.data_blocks()), (256, 128, 248));
        let mut taken = std::collections::BTreeSet::new();
        let frames = (0..two.log_frames()).map(|frame| two.log_at() + frame * BLOCK_BYTES);
        let zone = |zone: u64| two.zones_at() + zone * two.zone_bytes;
        let nodes = (0..128).flat_map(|block| [zone(0), zone(5)].map(|at| at + block * BLOCK_BYTES));
        for at in frames.chain(nodes) {
            let twin = two.twin_of(at).expect("it has one");
            assert!(taken.insert(at) && taken.insert(twin) && one.twin_of(at).is_none());
            assert_eq!(two.twin_of(twin), None);
        }
        assert_eq!(taken.last(), Some(&(zone(6) - BLOCK_BYTES)));
        assert_eq!(two.twin_of(zone(5)), Some(zone(6) - HEAD_BYTES));
        assert_eq!(two.node_of_twin(zone(5) + (1 << 19)), Some(zone(5) + HEAD_BYTES));
        assert_eq!((two.node_of_twin(zone(5)), two.node_of_twin(zone(6) - HEAD_BYTES)), (None, None));
    }
}
