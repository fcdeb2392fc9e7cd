//! The records of a parity space's journal, and the anchors that lead to them.
//!
//! ```text
//!   byte 0..21   where the record stands: pool, space, journal, place, number, checksum of the one before
//!   rest         the payload of its head, sealed as the journal does it
//! ```
//!
//! Held up: no panic, a head that is read accounts for its blocks and is the same when it is written and read again,
//! and what belongs elsewhere is not read.

use holdfast_model::Uuid;
use holdfast_pool::Position;
use holdfast_pool::frame::{Frame, Kind};
use holdfast_space::journal_record::{MOST_BLOCKS, MOST_ENTRIES, RecordPlace};

const PLACE_BYTES: usize = 21;

fn place(bytes: &[u8; PLACE_BYTES]) -> RecordPlace {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    RecordPlace {
        pool: Uuid::from_u128(1),
        space: Uuid::from_u128(2),
        journal: bytes[0].into(),
        at: number(1),
        sequence: number(9),
        previous: u32::from_le_bytes(bytes[17..].try_into().expect("four bytes")),
    }
}

fn frame(kind: Kind, place: &RecordPlace) -> Frame {
    let position = Position { generation: place.journal, sequence: place.sequence };
    Frame { kind, pool: place.pool, disk: place.space, offset: place.at, position, previous: place.previous }
}

/// Panics where something does not hold.
pub fn check(bytes: &[u8]) {
    let Some((first, payload)) = bytes.split_first_chunk::<PLACE_BYTES>() else { return };
    let place = place(first);
    assert_eq!(place.open(bytes), None, "what is no frame is no record");

    let block = frame(Kind::JournalRecord, &place).seal(payload);
    if let Some((head, crc)) = place.open(&block) {
        assert!(head.entries.len() <= MOST_ENTRIES && head.blocks <= MOST_BLOCKS);
        assert_eq!(head.entries.iter().map(|entry| u64::from(entry.blocks())).sum::<u64>(), u64::from(head.blocks));
        let head_bytes = 20 + head.entries.iter().map(|entry| entry.bytes()).sum::<u64>();
        assert!(head_bytes <= payload.len() as u64, "{head:?}");
        let (again, crc_again) = place.seal(&head);
        assert_eq!(place.open(&again), Some((head, crc_again)));
        assert!(crc == crc_again || head_bytes < payload.len() as u64, "only what follows the entries may be lost");
        let elsewhere = RecordPlace { sequence: place.sequence.wrapping_add(1), ..place };
        assert_eq!(elsewhere.open(&block), None);
    }

    let block = frame(Kind::JournalAnchor, &place).seal(payload);
    if let Some((number, found)) = RecordPlace::open_anchor(place.pool, place.space, place.journal, &block) {
        assert_eq!(found, place);
        let again = found.seal_anchor(number);
        assert_eq!(RecordPlace::open_anchor(place.pool, place.space, place.journal, &again), Some((number, found)));
    }
}
