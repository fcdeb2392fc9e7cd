//! PDUs that wait to be sent: headers and small data in one run of bytes, payload in the buffers that it was read into.
//!
//! ```text
//!   heads    |h1|h2|h3        |h4|            one vector, in order
//!   pieces   [h1 h2 h3] [data] [h4] [data]    what one system call sends
//! ```
//!
//! Invariant: PDUs leave in the order in which they were put in, and payload is never copied.

use std::io::IoSlice as SendSlice;

use holdfast_device::IoSlice;
use holdfast_model::wire::{Crc32c, crc32c};

use crate::protocol::Header;
use crate::protocol::header::padding;

/// Pieces that one system call sends at most.
pub const PIECES_AT_ONCE: usize = 64;

/// Which parts of PDUs carry a CRC-32C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// Headers do.
    pub header: bool,
    /// Data does.
    pub data: bool,
}

enum Piece {
    Head(usize),
    Data(IoSlice),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Head(len) => *len,
            Self::Data(data) => data.len(),
        }
    }
}

/// A run of PDUs. `H` is held until the run has left: the memory of its payload.
pub struct Outbound<H> {
    heads: Vec<u8>,
    pieces: Vec<Piece>,
    held: Vec<H>,
    bytes: usize,
    payload_bytes: usize,
    sent_pieces: usize,
    sent_heads: usize,
    sent_of_piece: usize,
}

impl<H> Default for Outbound<H> {
    fn default() -> Self {
        Self {
            heads: Vec::new(),
            pieces: Vec::new(),
            held: Vec::new(),
            bytes: 0,
            payload_bytes: 0,
            sent_pieces: 0,
            sent_heads: 0,
            sent_of_piece: 0,
        }
    }
}

impl<H> Outbound<H> {
    /// Bytes that are not sent yet.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of payload that were put in.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn append(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        let before = self.heads.len();
        append(&mut self.heads);
        let len = self.heads.len() - before;
        self.bytes += len;
        match self.pieces.last_mut() {
            Some(Piece::Head(last)) => *last += len,
            _ => self.pieces.push(Piece::Head(len)),
        }
    }

    fn header(&mut self, header: &Header, digests: Digests) {
        self.append(|heads| {
            heads.extend_from_slice(&header.0);
            if digests.header {
                heads.extend_from_slice(&crc32c(&header.0).to_le_bytes());
            }
        });
    }

    /// Appends a PDU with small data, which is copied. The header must announce it.
    pub fn pdu(&mut self, header: &Header, data: &[u8], digests: Digests) {
        debug_assert_eq!(header.data_bytes(), data.len());
        self.header(header, digests);
        if data.is_empty() {
            return;
        }
        self.append(|heads| {
            let from = heads.len();
            heads.extend_from_slice(data);
            heads.resize(heads.len() + padding(data.len()), 0);
            if digests.data {
                let digest = crc32c(&heads[from..]);
                heads.extend_from_slice(&digest.to_le_bytes());
            }
        });
    }

    /// Appends a PDU with payload. The header must announce it.
    pub fn payload(&mut self, header: &Header, data: IoSlice, digests: Digests) {
        debug_assert_eq!(header.data_bytes(), data.len());
        self.header(header, digests);
        let len = data.len();
        let digest = digests.data.then(|| {
            let mut crc = Crc32c::new();
            crc.add(&data);
            crc.add(&[0; 3][..padding(len)]);
            crc.value()
        });
        self.bytes += len;
        self.payload_bytes += len;
        self.pieces.push(Piece::Data(data));
        if padding(len) > 0 || digest.is_some() {
            self.append(|heads| {
                heads.resize(heads.len() + padding(len), 0);
                heads.extend(digest.iter().flat_map(|digest| digest.to_le_bytes()));
            });
        }
    }

    /// Holds something until the run has left.
    pub fn hold(&mut self, held: H) {
        self.held.push(held);
    }

    /// The next bytes to send, in `slices`; says how many slices there are.
    pub fn slices<'a>(&'a self, slices: &mut [SendSlice<'a>; PIECES_AT_ONCE]) -> usize {
        let (mut heads, mut skip, mut count) = (self.sent_heads, self.sent_of_piece, 0);
        for (slice, piece) in slices.iter_mut().zip(&self.pieces[self.sent_pieces..]) {
            *slice = match piece {
                Piece::Head(len) => {
                    let start = heads;
                    heads += len;
                    SendSlice::new(&self.heads[start + skip..heads])
                }
                Piece::Data(data) => SendSlice::new(&data[skip..]),
            };
            skip = 0;
            count += 1;
        }
        count
    }

    /// Says that `count` bytes were sent. Buffers that are through are given back.
    pub fn sent(&mut self, mut count: usize) {
        self.bytes -= count;
        while let Some(piece) = self.pieces.get_mut(self.sent_pieces) {
            let left = piece.len() - self.sent_of_piece;
            if count < left {
                self.sent_of_piece += count;
                return;
            }
            count -= left;
            self.sent_of_piece = 0;
            self.sent_pieces += 1;
            match piece {
                Piece::Head(len) => self.sent_heads += *len,
                Piece::Data(_) => *piece = Piece::Head(0),
            }
        }
    }

    /// Memory that heads take, used or not.
    pub fn head_capacity(&self) -> usize {
        self.heads.capacity()
    }

    /// Forgets everything, and keeps the memory.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.pieces.clear();
        self.held.clear();
        (self.bytes, self.payload_bytes) = (0, 0);
        (self.sent_pieces, self.sent_heads, self.sent_of_piece) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbound::{Inbound, Incoming};
    use crate::protocol::constants::*;

    #[test]
    fn any_pace_sends_pdus_that_are_received_again() {
        for (pace, header, data) in [(1, true, true), (3, false, true), (7, true, false), (100_000, false, false)] {
            let digests = Digests { header, data };
            let mut out = Outbound::<()>::default();
            for turn in 0..60_u8 {
                let bytes = vec![turn; usize::from(turn) * 3];
                let pdu = Header::new(DATA_IN, 0).with_task_tag(turn.into()).with_data_bytes(bytes.len());
                if turn % 3 == 1 {
                    out.payload(&pdu, IoSlice::padded(&bytes).slice(0, bytes.len()), digests);
                } else {
                    out.pdu(&pdu, &bytes, digests);
                }
            }
            let mut sent: Vec<u8> = Vec::new();
            while !out.is_empty() {
                let mut slices = [SendSlice::new(&[]); PIECES_AT_ONCE];
                let count = out.slices(&mut slices);
                let flat: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(pace).collect();
                sent.extend(&flat);
                out.sent(flat.len());
            }
            let mut inbound = Inbound::<Vec<u8>>::new(1 << 20, &sent);
            inbound.agree(header, data, 1 << 20);
            for turn in 0..60_u8 {
                let Some(Incoming::Header(pdu, _)) = inbound.take().unwrap() else { panic!("header {turn}") };
                assert_eq!(pdu.task_tag(), turn.into());
                if turn > 0 {
                    inbound.begin(vec![0; pdu.data_bytes()], 0, usize::MAX);
                    let Some(Incoming::Data(bytes)) = inbound.take().unwrap() else { panic!("data {turn}") };
                    assert_eq!(bytes, vec![turn; usize::from(turn) * 3]);
                }
            }
        }
    }
}
