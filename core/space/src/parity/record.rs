//! The records of a parity space's journal as bytes.
//!
//! A record is a frame in whole blocks with a list of entries, and then the blocks that these bring along. Its frame
//! says where in the log it stands and which record came before, so that what is left of an earlier round is no part of
//! the log.
//!
//! ```text
//!  | frame | tail u64 | blocks u32 | crc u32 of the blocks | entries u32 | entry ... | pad | blocks ... |
//! ```

use holdfast_device::IoBuf;
use holdfast_model::wire::{Reader, WireError, Writer};
use holdfast_model::{BLOCK_BYTES, Uuid};
use holdfast_pool::Position;
use holdfast_pool::frame::{Frame, HEADER_BYTES, Kind};

/// The most entries of a record.
pub const MOST_ENTRIES: usize = 4096;
/// The most blocks that a record brings along.
pub const MOST_BLOCKS: u32 = 16_384;
/// Bytes of these.
pub const MOST_RECORD_BYTES: u64 = MOST_BLOCKS as u64 * BLOCK_BYTES;
/// The most bytes of the entries of a record: of staged intents with every piece of stripes of 32 columns, and a
/// checksum of each block.
pub const MOST_ENTRIES_BYTES: usize = MOST_ENTRIES * (48 + 32 * 4) + MOST_BLOCKS as usize * 4;

/// The most that offsets, stamps and numbers reach: nobody writes so much, and what is added to them fits.
const MOST_COUNT: u64 = 1 << 62;

/// Blocks of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The row's chunk.
    pub chunk: u32,
    /// Its id.
    pub row: u64,
    /// When they were written.
    pub stamp: u64,
    /// The first one, counted from the start of the row.
    pub start: u32,
    /// How many.
    pub len: u32,
}

/// What is about to change in the place of a band, in some blocks of one stripe; whole, so that it can be done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The row's chunk.
    pub chunk: u32,
    /// Its id.
    pub row: u64,
    /// Everything written to the band until then is done with.
    pub stamp: u64,
    /// The band.
    pub band: u32,
    /// Where it is.
    pub place: u16,
    /// The stripe.
    pub stripe: u32,
    /// The first block of each of its units.
    pub within: u32,
    /// How many blocks of each.
    pub len: u32,
    /// The data units that get new blocks, which the record brings along in order.
    pub filled: u32,
    /// The data units whose blocks hold nothing any more.
    pub emptied: u32,
    /// The parity units whose new blocks follow: 1 for P, 2 for Q.
    pub parity: u8,
}

/// Where a slab has the blocks of one piece of an intent besides their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedPiece {
    /// The first block, counted from the start of the slab's data.
    pub at: u32,
    /// The checksum of each.
    pub checksums: Vec<u32>,
}

/// What a record tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Blocks were written; the record brings them along.
    Written(Blocks),
    /// Blocks hold nothing any more.
    Emptied(Blocks),
    /// A band changes in place.
    Intent(Intent),
    /// A band changes in place; the slabs have the blocks already: of each unit, then of P, then of Q.
    Staged(Intent, Vec<StagedPiece>),
    /// What was written to a band up to a stamp is done with, and what was intended for its place.
    Void {
        /// The row's chunk.
        chunk: u32,
        /// Its id.
        row: u64,
        /// Up to here.
        stamp: u64,
        /// The band.
        band: u32,
    },
}

impl Intent {
    /// How many pieces get new blocks.
    pub fn pieces(&self) -> u32 {
        self.filled.count_ones() + u32::from(self.parity).count_ones()
    }

    fn write(&self, tag: u8, writer: &mut Writer) {
        writer.u8(tag).u32(self.chunk).u64(self.row).u64(self.stamp).u32(self.band).u16(self.place);
        writer.u32(self.stripe).u32(self.within).u32(self.len);
        writer.u32(self.filled).u32(self.emptied).u8(self.parity);
    }

    fn read(reader: &mut Reader<'_>, (chunk, row, stamp): (u32, u64, u64)) -> Result<Self, WireError> {
        let (band, place) = (reader.u32()?, reader.u16()?);
        let (stripe, within, len) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (filled, emptied, parity) = (reader.u32()?, reader.u32()?, reader.u8()?);
        if len == 0 || len > MOST_BLOCKS || within.checked_add(len).is_none() || filled & emptied != 0 || parity > 3 {
            return Err(WireError::Value("intent"));
        }
        Ok(Self { chunk, row, stamp, band, place, stripe, within, len, filled, emptied, parity })
    }
}

impl Entry {
    /// Blocks that the record brings along for it.
    pub fn blocks(&self) -> u32 {
        match self {
            Self::Written(blocks) => blocks.len,
            Self::Emptied(_) | Self::Staged(..) | Self::Void { .. } => 0,
            Self::Intent(intent) => intent.pieces() * intent.len,
        }
    }

    /// Bytes that it takes in the head of a record.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Written(_) | Self::Emptied(_) => 29,
            Self::Intent(_) => 48,
            Self::Staged(intent, pieces) => 48 + pieces.len() as u64 * 4 * (1 + u64::from(intent.len)),
            Self::Void { .. } => 25,
        }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Written(blocks) | Self::Emptied(blocks) => {
                writer.u8(if matches!(self, Self::Written(_)) { 1 } else { 2 });
                writer.u32(blocks.chunk).u64(blocks.row).u64(blocks.stamp).u32(blocks.start).u32(blocks.len);
            }
            Self::Intent(intent) => intent.write(3, writer),
            Self::Staged(intent, pieces) => {
                intent.write(5, writer);
                for StagedPiece { at, checksums } in pieces {
                    writer.u32(*at);
                    for sum in checksums {
                        writer.u32(*sum);
                    }
                }
            }
            Self::Void { chunk, row, stamp, band } => {
                writer.u8(4).u32(*chunk).u64(*row).u64(*stamp).u32(*band);
            }
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let tag = reader.u8()?;
        let (chunk, row, stamp) = (reader.u32()?, reader.u64()?, reader.u64()?);
        if stamp > MOST_COUNT {
            return Err(WireError::Value("stamp"));
        }
        match tag {
            1 | 2 => {
                let blocks = Blocks { chunk, row, stamp, start: reader.u32()?, len: reader.u32()? };
                if blocks.len == 0 || blocks.len > MOST_BLOCKS || blocks.start.checked_add(blocks.len).is_none() {
                    return Err(WireError::Value("blocks"));
                }
                Ok(if tag == 1 { Self::Written(blocks) } else { Self::Emptied(blocks) })
            }
            3 => Intent::read(reader, (chunk, row, stamp)).map(Self::Intent),
            4 => Ok(Self::Void { chunk, row, stamp, band: reader.u32()? }),
            5 => {
                let intent = Intent::read(reader, (chunk, row, stamp))?;
                let mut piece = |_| {
                    let at = reader.u32()?;
                    let checksums = (0..intent.len).map(|_| reader.u32()).collect::<Result<_, WireError>>()?;
                    Ok(StagedPiece { at, checksums })
                };
                Ok(Self::Staged(intent, (0..intent.pieces()).map(&mut piece).collect::<Result<_, WireError>>()?))
            }
            _ => Err(WireError::Value("entry")),
        }
    }
}

/// Which record of which journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordPlace {
    /// The pool.
    pub pool: Uuid,
    /// The space.
    pub space: Uuid,
    /// The id of the journal's first row.
    pub journal: u64,
    /// Where it stands in the log.
    pub at: u64,
    /// Its number.
    pub sequence: u64,
    /// The checksum of the record before it.
    pub previous: u32,
}

/// The head of a record: all but the blocks that it brings along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Where the log begins as far as its writer knew.
    pub tail: u64,
    /// Blocks that follow.
    pub blocks: u32,
    /// Their checksum.
    pub crc: u32,
    /// What it tells.
    pub entries: Vec<Entry>,
}

impl RecordPlace {
    fn frame(&self, kind: Kind) -> Frame {
        let position = Position { generation: self.journal, sequence: self.sequence };
        Frame { kind, pool: self.pool, disk: self.space, offset: self.at, position, previous: self.previous }
    }

    /// The head's blocks, and the checksum by which the next record refers to it.
    pub fn seal(&self, head: &Head) -> (IoBuf, u32) {
        let mut writer = Writer::new();
        writer.u64(head.tail).u32(head.blocks).u32(head.crc).u32(head.entries.len() as u32);
        head.entries.iter().for_each(|entry| entry.write(&mut writer));
        let payload = writer.into_bytes();
        let crc = holdfast_model::wire::crc32c(&payload);
        (self.frame(Kind::JournalRecord).seal(&payload), crc)
    }

    /// How long the head is that begins with `block`, if it begins this record.
    pub fn head_bytes(&self, block: &[u8]) -> Option<usize> {
        let header = Frame::open(block).ok()?;
        let own = header.frame == self.frame(Kind::JournalRecord) && header.payload_at == HEADER_BYTES;
        let most = MOST_ENTRIES_BYTES + 64;
        (own && header.payload_len <= most).then(|| header.total_bytes() as usize)
    }

    /// Reads a head; `None` if it is anything but this record's.
    pub fn open(&self, head: &[u8]) -> Option<(Head, u32)> {
        self.head_bytes(head)?;
        let (header, payload) = Frame::open_inline(head).ok()?;
        let mut reader = Reader::new(payload);
        let (tail, blocks, crc) = (reader.u64().ok()?, reader.u32().ok()?, reader.u32().ok()?);
        let count = reader.u32().ok()? as usize;
        if count > MOST_ENTRIES || blocks > MOST_BLOCKS {
            return None;
        }
        let entries = (0..count).map(|_| Entry::read(&mut reader)).collect::<Result<Vec<_>, _>>().ok()?;
        let brought: u64 = entries.iter().map(|entry| u64::from(entry.blocks())).sum();
        (brought == u64::from(blocks)).then_some((Head { tail, blocks, crc, entries }, header.payload_crc))
    }

    /// The block that says where the log begins: at this place, with this record.
    pub fn seal_anchor(&self, number: u64) -> IoBuf {
        let mut writer = Writer::new();
        writer.u64(number);
        self.frame(Kind::JournalAnchor).seal(&writer.into_bytes())
    }

    /// Reads an anchor of the journal: its number, and the place of the log's first record.
    pub fn open_anchor(pool: Uuid, space: Uuid, journal: u64, block: &[u8]) -> Option<(u64, Self)> {
        let (header, payload) = Frame::open_inline(block).ok()?;
        let frame = header.frame;
        let own = (frame.kind, frame.pool, frame.disk, frame.position.generation)
            == (Kind::JournalAnchor, pool, space, journal);
        let number = Reader::new(payload).u64().ok()?;
        let (at, sequence, previous) = (frame.offset, frame.position.sequence, frame.previous);
        let counts = [number, at, sequence].iter().all(|count| *count <= MOST_COUNT);
        (own && counts && at.is_multiple_of(BLOCK_BYTES))
            .then_some((number, Self { pool, space, journal, at, sequence, previous }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> RecordPlace {
        RecordPlace {
            pool: Uuid::from_u128(1),
            space: Uuid::from_u128(2),
            journal: 3,
            at: 8192,
            sequence: 4,
            previous: 5,
        }
    }

    fn head() -> Head {
        let blocks = Blocks { chunk: 1, row: 2, stamp: 3, start: 4, len: 5 };
        let intent = Intent {
            chunk: 1,
            row: 2,
            stamp: 3,
            band: 4,
            place: 5,
            stripe: 6,
            within: 7,
            len: 8,
            filled: 0b101,
            emptied: 0b10,
            parity: 3,
        };
        let void = Entry::Void { chunk: 1, row: 2, stamp: 3, band: 4 };
        let pieces = (0..intent.pieces())
            .map(|piece| StagedPiece { at: 9 + piece, checksums: (0..intent.len).map(|at| !piece - at).collect() })
            .collect();
        let entries = vec![
            Entry::Written(blocks),
            Entry::Emptied(blocks),
            Entry::Intent(intent),
            void,
            Entry::Staged(intent, pieces),
        ];
        Head { tail: 4096, blocks: 5 + 4 * 8, crc: 9, entries }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_only_in_its_place() {
        let (block, crc) = place().seal(&head());
        assert_eq!(place().head_bytes(&block), Some(block.len()));
        assert_eq!(place().open(&block), Some((head(), crc)));
        let other = [
            RecordPlace { at: 4096, ..place() },
            RecordPlace { sequence: 5, ..place() },
            RecordPlace { previous: 6, ..place() },
            RecordPlace { journal: 4, ..place() },
            RecordPlace { space: Uuid::nil(), ..place() },
        ];
        assert!(other.iter().all(|place| place.open(&block).is_none()));
    }

    #[test]
    fn entries_are_as_long_as_they_say() {
        for entry in head().entries {
            let mut writer = Writer::new();
            entry.write(&mut writer);
            assert_eq!(writer.len() as u64, entry.bytes());
        }
    }

    #[test]
    fn entries_must_account_for_the_blocks() {
        let (block, _) = place().seal(&Head { blocks: 36, ..head() });
        assert_eq!(place().open(&block), None);
    }

    #[test]
    fn an_anchor_leads_to_the_first_record() {
        let block = place().seal_anchor(7);
        let read = |journal| RecordPlace::open_anchor(place().pool, place().space, journal, &block);
        assert_eq!(read(3), Some((7, place())));
        assert_eq!(read(4), None);
    }
}
