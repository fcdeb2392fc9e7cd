//! The parameter lists of EXTENDED COPY, with identifiers of one byte and of four (SPC-4 6.4.2, 6.5).
//!
//! ```text
//!   header ─▶ CSCD descriptors, 32 bytes each ─▶ segment descriptors ─▶ inline data (none is taken)
//! ```
//!
//! Invariant: a list that was taken has only descriptors that are known, each as long as its type is. What they name is
//! looked at when its segment's turn comes.

use crate::sense::Sense;

use super::codes;
use super::limits::{CSCDS, DESCRIPTOR_BYTES, SEGMENTS};
use super::list::List;

/// Bytes of a CSCD descriptor.
const CSCD: usize = 32;

/// Where data come from or go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cscd {
    /// Where it stands in the list.
    pub(super) at: usize,
    pub(super) device_type: u8,
    pub(super) designator_type: u8,
    pub(super) designator: Vec<u8>,
    pub(super) pad: bool,
    pub(super) block_bytes: u32,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Blocks to blocks (02h); counted in those of the destination, or of the source.
    Blocks { blocks: u16, from: u64, to: u64, of_destination: bool, keep_rest: bool },
    /// Bytes from within a block to within a block (0Ah).
    Bytes { bytes: u32, from: (u64, u16), to: (u64, u16) },
    /// To be there (07h).
    Verify,
}

/// A segment descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Where it stands in the list.
    pub(super) at: usize,
    pub(super) source: u16,
    pub(super) destination: u16,
    pub(super) task: Task,
}

/// A list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// None where nobody is to ask for the operation.
    pub(super) list: Option<u32>,
    pub(super) background: bool,
    /// GOOD is to come with sense data.
    pub(super) tells_good: bool,
    pub(super) cscds: Vec<Cscd>,
    pub(super) segments: Vec<Segment>,
}

struct Lengths {
    header: usize,
    cscds: usize,
    segments: usize,
    inline: usize,
}

/// The list of EXTENDED COPY(LID1).
pub(super) fn parse_lid1(bytes: &[u8]) -> Result<Request, Sense> {
    let list = List(bytes);
    let lengths = Lengths {
        header: 16,
        cscds: list.u16(2).into(),
        segments: list.u32(8) as usize,
        inline: list.u32(12) as usize,
    };
    let identifier = identifier(list, u32::from(list.u8(0)), 0)?;
    let (cscds, segments) = descriptors(list, &lengths)?;
    Ok(Request { list: identifier, background: false, tells_good: false, cscds, segments })
}

/// The list of EXTENDED COPY(LID4).
pub(super) fn parse_lid4(bytes: &[u8]) -> Result<Request, Sense> {
    let list = List(bytes);
    if bytes.len() < 48 {
        return Err(Sense::list_length());
    }
    if list.u8(0) != 1 {
        return Err(Sense::list(0));
    }
    if list.u16(2) != 0x20 {
        return Err(Sense::list(2));
    }
    let (background, tells_good) = (list.bit(15, 0), list.bit(15, 1));
    if list.u8(16) != 0xff {
        return Err(Sense::list(16));
    }
    let identifier = identifier(list, list.u32(20), 20)?;
    if background && (tells_good || identifier.is_none()) {
        return Err(Sense::illegal(crate::sense::code::INVALID_FIELD_IN_CDB));
    }
    let lengths =
        Lengths { header: 48, cscds: list.u16(42).into(), segments: list.u16(44).into(), inline: list.u16(46).into() };
    let (cscds, segments) = descriptors(list, &lengths)?;
    Ok(Request { list: identifier, background, tells_good, cscds, segments })
}

/// The identifier, as its usage says.
fn identifier(list: List<'_>, identifier: u32, at: usize) -> Result<Option<u32>, Sense> {
    match (list.u8(1) >> 3) & 3 {
        0b00 | 0b10 => Ok(Some(identifier)),
        0b11 if identifier == 0 => Ok(None),
        0b11 => Err(Sense::list(at)),
        _ => Err(Sense::list_bit(1, 4)),
    }
}

fn descriptors(list: List<'_>, lengths: &Lengths) -> Result<(Vec<Cscd>, Vec<Segment>), Sense> {
    let Lengths { header, cscds, segments, inline } = *lengths;
    let both = cscds.saturating_add(segments);
    if both > DESCRIPTOR_BYTES || list.0.len() < header + both || cscds % CSCD != 0 {
        return Err(Sense::list_length());
    }
    if cscds / CSCD > CSCDS {
        return Err(Sense::illegal(codes::TOO_MANY_CSCDS));
    }
    if inline > 0 {
        return Err(Sense::illegal(codes::INLINE_DATA_TOO_LONG));
    }
    let places = (header..header + cscds).step_by(CSCD);
    let cscds = places.map(|at| cscd(list, at)).collect::<Result<Vec<_>, _>>()?;
    let (mut at, end) = (header + cscds.len() * CSCD, header + both);
    let mut found = Vec::new();
    while at < end {
        if found.len() == SEGMENTS {
            return Err(Sense::illegal(codes::TOO_MANY_SEGMENTS));
        }
        let len = 4 + usize::from(list.u16(at + 2));
        found.push(segment(list, at, len)?);
        at += len;
        if at > end {
            return Err(Sense::list_length());
        }
    }
    Ok((cscds, found))
}

fn cscd(list: List<'_>, at: usize) -> Result<Cscd, Sense> {
    if list.u8(at) != 0xe4 {
        return Err(Sense { field: Sense::list(at).field, ..Sense::illegal(codes::UNSUPPORTED_CSCD) });
    }
    let len = usize::from(list.u8(at + 7));
    if len > 20 {
        return Err(Sense::list(at + 7));
    }
    Ok(Cscd {
        at,
        device_type: list.u8(at + 1) & 0x1f,
        designator_type: list.u8(at + 5) & 0x3f,
        designator: list.part(at + 8, len).to_vec(),
        pad: list.bit(at + 28, 2),
        block_bytes: list.u24(at + 29),
    })
}

fn segment(list: List<'_>, at: usize, len: usize) -> Result<Segment, Sense> {
    let (kind, expected) = match list.u8(at) {
        0x02 => (0x02, 28),
        0x07 => (0x07, 12),
        0x0a => (0x0a, 32),
        _ => return Err(Sense { field: Sense::list(at).field, ..Sense::illegal(codes::UNSUPPORTED_SEGMENT) }),
    };
    if len != expected {
        return Err(Sense::list(at + 2));
    }
    let task = match kind {
        0x02 => Task::Blocks {
            blocks: list.u16(at + 10),
            from: list.u64(at + 12),
            to: list.u64(at + 20),
            of_destination: list.bit(at + 1, 1),
            keep_rest: list.bit(at + 1, 0),
        },
        0x0a => Task::Bytes {
            bytes: list.u32(at + 8),
            from: (list.u64(at + 12), list.u16(at + 28)),
            to: (list.u64(at + 20), list.u16(at + 30)),
        },
        _ => Task::Verify,
    };
    Ok(Segment { at, source: list.u16(at + 4), destination: list.u16(at + 6), task })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::code;
    use proptest::prelude::*;

    fn cscd_bytes(kind: u8) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&[1, 3, 0, 16]);
        bytes[8..24].fill(7);
        bytes[28..32].copy_from_slice(&[4, 0, 2, 0]);
        bytes
    }

    fn blocks_segment() -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..12].copy_from_slice(&[0x02, 0x02, 0, 0x18, 0, 1, 0xff, 0xff, 0, 0, 0, 9]);
        (bytes[19], bytes[27]) = (5, 6);
        bytes
    }

    fn lid1(usage: u8, id: u8, cscds: &[u8], segments: &[u8]) -> Vec<u8> {
        let mut list = vec![id, usage << 3];
        list.extend((cscds.len() as u16).to_be_bytes());
        list.extend([0; 4]);
        list.extend((segments.len() as u32).to_be_bytes());
        list.extend([0; 4]);
        [&list[..], cscds, segments].concat()
    }

    fn lid4(usage: u8, id: u32, flags: u8, cscds: &[u8], segments: &[u8]) -> Vec<u8> {
        let mut list = [0; 48];
        list[..4].copy_from_slice(&[1, usage << 3, 0, 0x20]);
        (list[15], list[16]) = (flags, 0xff);
        list[20..24].copy_from_slice(&id.to_be_bytes());
        list[42..44].copy_from_slice(&(cscds.len() as u16).to_be_bytes());
        list[44..46].copy_from_slice(&(segments.len() as u16).to_be_bytes());
        [&list[..], cscds, segments].concat()
    }

    #[test]
    fn both_forms_tell_the_same() {
        let (cscds, segments) = ([cscd_bytes(0xe4); 2].concat(), [blocks_segment(); 3].concat());
        let one = parse_lid1(&lid1(0, 77, &cscds, &segments)).unwrap();
        let four = parse_lid4(&lid4(2, 77, 1, &cscds, &segments)).unwrap();
        assert_eq!((one.list, four.list, one.background, four.background), (Some(77), Some(77), false, true));
        let cscd = &one.cscds[1];
        assert_eq!((cscd.designator_type, cscd.designator.len(), cscd.pad, cscd.block_bytes), (3, 16, true, 512));
        assert_eq!(one.segments.len(), 3);
        let task = Task::Blocks { blocks: 9, from: 5, to: 6, of_destination: true, keep_rest: false };
        assert_eq!(one.segments[0], Segment { at: 16 + 64, source: 1, destination: 0xffff, task });
        assert_eq!(four.segments[2].at, 48 + 64 + 56);
    }

    #[test]
    fn wrong_lists_are_told_what_is_wrong() {
        let (cscd, segment) = (cscd_bytes(0xe4), blocks_segment());
        let good = lid1(0, 1, &cscd, &segment);
        for cut in 0..good.len() {
            assert_eq!(parse_lid1(&good[..cut]).err(), Some(Sense::list_length()), "cut to {cut}");
        }
        let code = |list: &[u8]| parse_lid1(list).unwrap_err().code;
        assert_eq!(code(&lid1(0, 1, &cscd_bytes(0xe0), &segment)), codes::UNSUPPORTED_CSCD);
        assert_eq!(code(&lid1(0, 1, &[cscd; CSCDS + 1].concat(), &segment)), codes::TOO_MANY_CSCDS);
        assert_eq!(code(&lid1(0, 1, &cscd, &[segment; SEGMENTS + 1].concat())), codes::TOO_MANY_SEGMENTS);
        assert_eq!(code(&lid1(0, 1, &cscd[..31], &segment)), code::PARAMETER_LIST_LENGTH);
        assert_eq!(code(&lid1(0, 1, &cscd, &vec![2; DESCRIPTOR_BYTES])), code::PARAMETER_LIST_LENGTH);
        assert_eq!(code(&lid1(1, 1, &cscd, &segment)), code::INVALID_FIELD_IN_LIST);
        assert_eq!(code(&lid1(3, 1, &cscd, &segment)), code::INVALID_FIELD_IN_LIST);
        assert_eq!(parse_lid1(&lid1(3, 0, &cscd, &segment)).unwrap().list, None);
        let mut stream = segment;
        stream[0] = 3;
        assert_eq!(code(&lid1(0, 1, &cscd, &stream)), codes::UNSUPPORTED_SEGMENT);
        let mut long = segment;
        long[3] = 0x1c;
        assert_eq!(parse_lid1(&lid1(0, 1, &cscd, &long)).unwrap_err(), Sense::list(16 + 32 + 2));
        let mut inline = good;
        inline[15] = 1;
        assert_eq!(code(&inline), codes::INLINE_DATA_TOO_LONG);
        assert_eq!(parse_lid4(&lid4(3, 0, 1, &cscd, &segment)).unwrap_err().code, code::INVALID_FIELD_IN_CDB);
        assert_eq!(parse_lid4(&lid4(0, 1, 3, &cscd, &segment)).unwrap_err().code, code::INVALID_FIELD_IN_CDB);
    }

    proptest! {
        #[test]
        fn any_list_is_taken_or_refused(
            head in prop::collection::vec(any::<u8>(), 0..64),
            tail in prop::collection::vec(prop::sample::select(vec![0, 1, 2, 7, 8, 0x0a, 0x18, 0x1c, 0xe4, 0xff]), 0..300),
        ) {
            let list = [head, tail].concat();
            let _ = parse_lid1(&list);
            let _ = parse_lid4(&list);
        }
    }
}
