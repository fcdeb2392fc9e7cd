//! The change journal: what happened to which file, in order, for those who follow a volume from outside: backups, indexes,
//! copies, scanners. Its meaning is that of the USN change journal (MS-FSCC 2.3.62.2, `USN_RECORD_V2`; `winioctl.h`).
//!
//! ```text
//!   change of files ─▶ what it did (observe.rs) ─▶ records, in the same transaction ─▶ tree 43
//!        first ──────────── records ──────────── next        USN: a position in bytes, given once
//!          │ cut as the journal outgrows its size               │
//!   notes: files that are open and were changed, with the reasons since they were opened
//! ```
//!
//! A file that is open collects reasons: a record is written when one is new, and a last one with all of them, and
//! [`Reasons::CLOSE`], once nobody has it open, or at the next opening after a crash. A change of a file that is not open
//! is one record that says so at once. Only files with names have records.
//!
//! Invariants: a change is in the journal if and only if it is in the volume, whenever power fails; of data that is
//! written over where it lies the record is durable before the data is. Records follow each other without a gap from
//! `first` to `next`; where some are lost, the journal begins behind them.

mod append;
mod check;
mod cut;
mod mend;
mod read;
mod state;
mod switch;

use std::ops::{BitAnd, BitOr, BitOrAssign};

use holdfast_model::wire::{Reader, WireError, Writer};

use crate::error::VolumeError;
use crate::keys;
use crate::names;
use crate::service::{FileId, Time};
use crate::superblock::MOST_COUNTED;

pub(crate) use append::{beside, follow};
pub(crate) use check::JournalCheck;
use check::judge_gap;
pub use read::JournalRead;
pub(crate) use state::Journal;
pub use switch::JournalState;

/// The header of the journal, in the tree of settings and its twin.
pub(crate) const KEY_JOURNAL: &[u8] = b"journal";
const VERSION: u8 = 1;
/// What begins the keys of notes: behind those of all records.
const NOTE: u8 = 0xff;
/// Bytes of the fixed part of a record.
const FIXED_BYTES: usize = 54;
/// Bytes of an entry of a node beside its value: key, lengths, and where it is.
const ENTRY_BYTES: usize = 14;
/// A record that says of a directory.
const DIRECTORY: u8 = 1;

/// Why a record was written: the bits of `Reason` in MS-FSCC 2.3.62.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reasons(pub u32);

#[expect(missing_docs, reason = "the names are those of the standard, but for their prefix")]
impl Reasons {
    pub const DATA_OVERWRITE: Self = Self(0x0000_0001);
    pub const DATA_EXTEND: Self = Self(0x0000_0002);
    pub const DATA_TRUNCATION: Self = Self(0x0000_0004);
    pub const NAMED_DATA_OVERWRITE: Self = Self(0x0000_0010);
    pub const NAMED_DATA_EXTEND: Self = Self(0x0000_0020);
    pub const NAMED_DATA_TRUNCATION: Self = Self(0x0000_0040);
    pub const FILE_CREATE: Self = Self(0x0000_0100);
    pub const FILE_DELETE: Self = Self(0x0000_0200);
    pub const EA_CHANGE: Self = Self(0x0000_0400);
    pub const SECURITY_CHANGE: Self = Self(0x0000_0800);
    pub const RENAME_OLD_NAME: Self = Self(0x0000_1000);
    pub const RENAME_NEW_NAME: Self = Self(0x0000_2000);
    pub const BASIC_INFO_CHANGE: Self = Self(0x0000_8000);
    pub const HARD_LINK_CHANGE: Self = Self(0x0001_0000);
    pub const REPARSE_POINT_CHANGE: Self = Self(0x0010_0000);
    pub const STREAM_CHANGE: Self = Self(0x0020_0000);
    pub const INTEGRITY_CHANGE: Self = Self(0x0080_0000);
    pub const CLOSE: Self = Self(0x8000_0000);
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self(u32::MAX);
    /// Bytes of a file.
    pub const DATA: Self = Self(0x0000_0007);
    /// Names of a file.
    pub const NAMES: Self = Self(0x0001_3300);

    /// Whether any of these is among them.
    pub fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// Those that are not among others.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Reasons {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Reasons {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOrAssign for Reasons {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// A record of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRecord {
    /// Its position.
    pub usn: u64,
    /// The position behind it.
    pub next: u64,
    /// The file.
    pub file: FileId,
    /// The directory of the name.
    pub parent: FileId,
    /// The name that the record is about: the new or the old one where names changed, else the first one of the file.
    pub name: Vec<u8>,
    /// All reasons since the file was opened.
    pub reasons: Reasons,
    /// Those for which this record was written.
    pub new: Reasons,
    /// Who did it (`SourceInfo`, MS-FSCC 2.3.62.2), as its handle says; 0: an ordinary program.
    pub source: u32,
    /// DOS attributes (MS-FSCC 2.6), as they are kept for the file.
    pub attributes: u32,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// When it was written.
    pub time: Time,
}

fn record_key(usn: u64) -> Vec<u8> {
    usn.to_be_bytes().to_vec()
}

/// The position that a key of a record stands for.
fn usn_of(key: &[u8]) -> Option<u64> {
    if key.len() == 8 { keys::number(key, 0) } else { None }
}

/// How far a record of so many bytes reaches: about what it takes in a node.
fn span_of(value: &[u8]) -> u64 {
    (value.len() + ENTRY_BYTES).next_multiple_of(8) as u64
}

impl JournalRecord {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(FIXED_BYTES + self.name.len());
        writer.u8(VERSION).u8(if self.is_directory { DIRECTORY } else { 0 });
        writer.u64(self.file.number).u32(self.file.generation).u64(self.parent.number).u32(self.parent.generation);
        writer.u32(self.reasons.0).u32(self.new.0).u32(self.source).u32(self.attributes);
        writer.u64(self.time.seconds as u64).u32(self.time.nanos).raw(&self.name);
        writer.into_bytes()
    }

    fn decode(usn: u64, value: &[u8]) -> Option<Self> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            if reader.u8()? != VERSION {
                return Err(WireError::Value("version"));
            }
            let is_directory = match reader.u8()? {
                0 => false,
                DIRECTORY => true,
                _ => return Err(WireError::Value("kind")),
            };
            let file = FileId { number: reader.u64()?, generation: reader.u32()? };
            let parent = FileId { number: reader.u64()?, generation: reader.u32()? };
            let (reasons, new) = (Reasons(reader.u32()?), Reasons(reader.u32()?));
            let (source, attributes) = (reader.u32()?, reader.u32()?);
            let time = Time { seconds: reader.u64()? as i64, nanos: reader.u32()? };
            let name = reader.take(reader.remaining())?.to_vec();
            if name.len() > names::MOST_BYTES || time.nanos >= 1_000_000_000 {
                return Err(WireError::Value("name or time"));
            }
            let next = usn.checked_add(span_of(value)).ok_or(WireError::Value("position"))?;
            Ok(Self { usn, next, file, parent, name, reasons, new, source, attributes, is_directory, time })
        };
        read(Reader::new(value)).ok()
    }
}

/// Where the note of a file is that is open and was changed.
fn note_key(file: u64) -> Vec<u8> {
    [&[NOTE][..], &file.to_be_bytes()].concat()
}

/// The file of a note.
fn noted_file(key: &[u8]) -> Option<u64> {
    if key.len() == 9 && key[0] == NOTE { keys::number(key, 1) } else { None }
}

/// What a note says: the journal that it belongs to, and the reasons since the file was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Note {
    id: u64,
    reasons: Reasons,
}

impl Note {
    fn encode(self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION).u64(self.id).u32(self.reasons.0);
        writer.into_bytes()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        let is_known = reader.u8().ok()? == VERSION;
        let note = Self { id: reader.u64().ok()?, reasons: Reasons(reader.u32().ok()?) };
        (is_known && reader.remaining() == 0).then_some(note)
    }
}

/// What a journal is, and how far it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub is_on: bool,
    /// Grows with each journal that the volume is given.
    pub id: u64,
    pub max_bytes: u64,
    pub slack_bytes: u64,
    /// The first record that may be read.
    pub first: u64,
    /// Where the next one goes, as of the last checkpoint.
    pub next: u64,
}

impl Header {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(self.is_on.into());
        for number in [self.id, self.max_bytes, self.slack_bytes, self.first, self.next] {
            writer.u64(number);
        }
        writer.into_bytes()
    }

    pub fn decode(value: &[u8]) -> Result<Self, VolumeError> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            if reader.u8()? != VERSION {
                return Err(WireError::Value("version"));
            }
            let is_on = match reader.u8()? {
                0 => false,
                1 => true,
                _ => return Err(WireError::Value("state")),
            };
            let (id, max_bytes, slack_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let (first, next) = (reader.u64()?, reader.u64()?);
            if first > next
                || next > MOST_USN
                || id >= MOST_COUNTED
                || max_bytes > switch::MOST_BYTES
                || slack_bytes > max_bytes
            {
                return Err(WireError::Value("positions"));
            }
            Ok(Self { is_on, id, max_bytes, slack_bytes, first, next })
        };
        read(Reader::new(value)).map_err(|_| VolumeError::corrupt("the header of the change journal cannot be read"))
    }

    /// Bytes that its records take.
    fn bytes(&self) -> u64 {
        self.next - self.first
    }
}

/// Where the first journal of a volume begins: position 0 is of no record (MS-FSCC 2.3.62.2).
const FIRST_USN: u64 = 8;
/// No volume lives long enough to reach it, and what counts on from here must not overflow.
const MOST_USN: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_notes_and_headers_come_back_as_they_were() {
        let id = |number| FileId { number, generation: 3 };
        let record = JournalRecord {
            usn: 800,
            next: 800 + 80,
            file: id(7),
            parent: id(1),
            name: b"some name".to_vec(),
            reasons: Reasons::FILE_CREATE | Reasons::CLOSE,
            new: Reasons::CLOSE,
            source: 4,
            attributes: 32,
            is_directory: true,
            time: Time { seconds: -9, nanos: 999_999_999 },
        };
        let value = record.encode();
        assert_eq!(JournalRecord::decode(800, &value), Some(record));
        assert!((0..FIXED_BYTES).all(|len| JournalRecord::decode(800, &value[..len]).is_none()));
        assert_eq!(JournalRecord::decode(u64::MAX - 8, &value), None, "nothing can stand behind it");
        assert_eq!(usn_of(&record_key(800)), Some(800));
        assert_eq!(usn_of(&note_key(800)), None);

        let note = Note { id: 5, reasons: Reasons::DATA };
        assert_eq!(Note::decode(&note.encode()), Some(note));
        assert_eq!((noted_file(&note_key(8)), noted_file(&record_key(8))), (Some(8), None));
        assert!(record_key(MOST_USN) < note_key(0), "notes come last");

        let header = Header { is_on: true, id: 9, max_bytes: 1 << 20, slack_bytes: 1 << 16, first: 8, next: 80 };
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        assert!(Header::decode(&Header { first: 81, ..header }.encode()).is_err(), "it ends before it begins");
        assert!((0..header.encode().len()).all(|len| Header::decode(&header.encode()[..len]).is_err()));
    }
}
