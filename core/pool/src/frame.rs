//! The frame around every metadata block on disk: magic, kind, version, owner, address, position and checksums.
//!
//! A reader that accepts a frame knows that it was written for this very disk and this very offset, as this kind of
//! block, and that not a bit of it changed. A block that was misdirected, left over from another pool, or torn is never
//! mistaken for what was asked for.
//!
//! ```text
//!   0        8     10   12       16        32        48       56          64        72        76
//!   | magic | kind | ver | prev  | pool id | disk id | offset | generation | sequence | len    | ...
//!   76            80           84          88 ..  96
//!   | payload at  | payload crc | header crc | zeros | payload (inline at 96, or at `payload at`)
//! ```

use holdfast_device::IoBuf;
use holdfast_model::wire::{Reader, WireError, Writer, crc32c};
use holdfast_model::{BLOCK_BYTES, Uuid};
use serde::{Deserialize, Serialize};

/// The first eight bytes of every metadata block.
pub const MAGIC: [u8; 8] = *b"HOLDFAST";
/// Bytes of the frame before an inline payload.
pub const HEADER_BYTES: usize = 96;
/// Version that is written; a reader refuses later ones.
pub const VERSION: u16 = 1;

const HEADER_CRC_AT: usize = 84;

/// What a metadata block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Identity of a disk in a pool.
    Label = 1,
    /// The whole configuration of a pool.
    Checkpoint = 2,
    /// Changes of the configuration.
    Record = 3,
    /// What a slab belongs to.
    SlabHeader = 4,
    /// Which blocks of a slab were written, and which regions are dirty.
    BlockMap = 5,
    /// Where the bands of a parity row are.
    BandMap = 6,
    /// A record of a parity space's journal.
    JournalRecord = 7,
    /// Where that journal begins.
    JournalAnchor = 8,
    /// That the owner of a pool is alive.
    SignOfLife = 9,
}

impl Kind {
    fn read(value: u16) -> Result<Self, WireError> {
        [
            Self::Label,
            Self::Checkpoint,
            Self::Record,
            Self::SlabHeader,
            Self::BlockMap,
            Self::BandMap,
            Self::JournalRecord,
            Self::JournalAnchor,
            Self::SignOfLife,
        ]
        .into_iter()
        .find(|kind| *kind as u16 == value)
        .ok_or(WireError::Value("kind"))
    }
}

/// A place in the history of a pool: each import begins a generation, each commit takes the next sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The import that the change belongs to.
    pub generation: u64,
    /// The number of the change, over all generations.
    pub sequence: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.generation, self.sequence)
    }
}

/// The header of a metadata block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the payload is.
    pub kind: Kind,
    /// The pool that owns it.
    pub pool: Uuid,
    /// The disk that it was written for.
    pub disk: Uuid,
    /// Where on that disk.
    pub offset: u64,
    /// When.
    pub position: Position,
    /// Payload checksum of the block before it in a log, zero elsewhere: blocks of another history do not fit.
    pub previous: u32,
}

/// A frame read from disk, and where its payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The frame.
    pub frame: Frame,
    /// Bytes of payload.
    pub payload_len: usize,
    /// Where the payload begins, from the start of the block.
    pub payload_at: usize,
    /// Its CRC-32C.
    pub payload_crc: u32,
}

impl Header {
    /// Bytes from the start of the block to the end of the payload, in whole 4 KiB.
    pub fn total_bytes(&self) -> u64 {
        ((self.payload_at + self.payload_len) as u64).next_multiple_of(BLOCK_BYTES)
    }
}

impl Frame {
    fn header(&self, payload_len: usize, payload_at: usize, payload_crc: u32) -> [u8; HEADER_BYTES] {
        let mut writer = Writer::new();
        writer.raw(&MAGIC).u16(self.kind as u16).u16(VERSION).u32(self.previous);
        writer.uuid(self.pool).uuid(self.disk).u64(self.offset);
        writer.u64(self.position.generation).u64(self.position.sequence);
        writer.u32(payload_len as u32).u32(payload_at as u32).u32(payload_crc);
        let mut header = [0; HEADER_BYTES];
        header[..writer.len()].copy_from_slice(&writer.into_bytes());
        let crc = crc32c(&header);
        header[HEADER_CRC_AT..HEADER_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// The block with `payload` behind the header, padded to whole 4 KiB.
    pub fn seal(&self, payload: &[u8]) -> IoBuf {
        let total = (HEADER_BYTES + payload.len()).next_multiple_of(BLOCK_BYTES as usize);
        let mut block = IoBuf::zeroed(total);
        block[..HEADER_BYTES].copy_from_slice(&self.header(payload.len(), HEADER_BYTES, crc32c(payload)));
        block[HEADER_BYTES..HEADER_BYTES + payload.len()].copy_from_slice(payload);
        block
    }

    /// A header block of 4 KiB whose payload of `payload_len` bytes begins right behind it.
    pub fn seal_detached(&self, payload_len: usize, payload_crc: u32) -> IoBuf {
        let mut block = IoBuf::zeroed(BLOCK_BYTES as usize);
        block[..HEADER_BYTES].copy_from_slice(&self.header(payload_len, BLOCK_BYTES as usize, payload_crc));
        block
    }

    /// Reads a header; says nothing about the payload yet.
    pub fn open(block: &[u8]) -> Result<Header, WireError> {
        let mut copy: [u8; HEADER_BYTES] = Reader::new(block).array()?;
        let mut reader = Reader::new(block);
        if reader.array::<8>()? != MAGIC {
            return Err(WireError::Value("magic"));
        }
        let kind = reader.u16()?;
        if reader.u16()? != VERSION {
            return Err(WireError::Value("version"));
        }
        let previous = reader.u32()?;
        let (pool, disk, offset) = (reader.uuid()?, reader.uuid()?, reader.u64()?);
        let position = Position { generation: reader.u64()?, sequence: reader.u64()? };
        let (payload_len, payload_at, payload_crc) = (reader.u32()? as usize, reader.u32()? as usize, reader.u32()?);
        copy[HEADER_CRC_AT..HEADER_CRC_AT + 4].fill(0);
        if reader.u32()? != crc32c(&copy) {
            return Err(WireError::Value("header checksum"));
        }
        if payload_at != HEADER_BYTES && payload_at != BLOCK_BYTES as usize {
            return Err(WireError::Value("payload offset"));
        }
        let kind = Kind::read(kind)?;
        Ok(Header {
            frame: Self { kind, pool, disk, offset, position, previous },
            payload_len,
            payload_at,
            payload_crc,
        })
    }

    /// Whether a block looks like one of a later version, which this one cannot read.
    pub fn is_of_later_version(block: &[u8]) -> bool {
        let mut reader = Reader::new(block);
        let magic = reader.array::<8>() == Ok(MAGIC);
        magic && reader.u16().is_ok() && reader.u16().is_ok_and(|version| version > VERSION)
    }

    /// The same of a block whose header is whole: later versions keep the checksum of the header where it is.
    pub fn is_whole_of_later_version(block: &[u8]) -> bool {
        let Ok(mut header) = Reader::new(block).array::<HEADER_BYTES>() else { return false };
        let crc = header[HEADER_CRC_AT..HEADER_CRC_AT + 4].to_vec();
        header[HEADER_CRC_AT..HEADER_CRC_AT + 4].fill(0);
        Self::is_of_later_version(block) && crc32c(&header).to_le_bytes()[..] == crc[..]
    }

    /// Reads a block whose payload is inline and checks it whole.
    pub fn open_inline(block: &[u8]) -> Result<(Header, &[u8]), WireError> {
        let header = Self::open(block)?;
        if header.payload_at != HEADER_BYTES {
            return Err(WireError::Value("payload offset"));
        }
        let payload = block[HEADER_BYTES..].get(..header.payload_len).ok_or(WireError::Short)?;
        if crc32c(payload) != header.payload_crc {
            return Err(WireError::Value("payload checksum"));
        }
        Ok((header, payload))
    }
}

impl Frame {
    /// Reads a block whose payload is inline and that is this frame's: of its kind, for its pool, disk, offset and
    /// generation. Answers the block's own sequence and its payload; `None` if it is anything else.
    pub fn open_own<'a>(&self, block: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let (header, payload) = Self::open_inline(block).ok()?;
        let owner = |frame: &Self| (frame.kind, frame.pool, frame.disk, frame.offset, frame.position.generation);
        (owner(&header.frame) == owner(self)).then_some((header.frame.position.sequence, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame {
            kind: Kind::Record,
            pool: Uuid::from_u128(1),
            disk: Uuid::from_u128(2),
            offset: 65536,
            position: Position { generation: 3, sequence: 4 },
            previous: 5,
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let payload: Vec<u8> = (0..200u8).collect();
        let block = frame().seal(&payload);
        let (header, read) = Frame::open_inline(&block).expect("as written");
        assert_eq!((header.frame, read), (frame(), payload.as_slice()));
        for bit in 0..(HEADER_BYTES + payload.len()) * 8 {
            let mut bad = block.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::open_inline(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_block_is_its_owners_whatever_its_sequence() {
        let block = frame().seal(&[7]);
        let sequence = |sequence| Frame { position: Position { generation: 3, sequence }, ..frame() };
        assert_eq!(sequence(9).open_own(&block), Some((4, [7].as_slice())));
        let others = [
            Frame { kind: Kind::Label, ..frame() },
            Frame { pool: Uuid::nil(), ..frame() },
            Frame { disk: Uuid::nil(), ..frame() },
            Frame { offset: 0, ..frame() },
            Frame { position: Position { generation: 4, sequence: 4 }, ..frame() },
        ];
        assert!(others.iter().all(|other| other.open_own(&block).is_none()));
    }

    proptest::proptest! {
        #[test]
        fn garbage_is_refused(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            proptest::prop_assert!(Frame::open_inline(&bytes).is_err());
        }
    }
}
