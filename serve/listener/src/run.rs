//! Answers that wait to be sent: their heads in one run of bytes, their payload in the buffers that it was read into.
//!
//! ```text
//!   heads    |h1|h2|h3        |h4|            one vector, in order
//!   pieces   [h1 h2 h3] [data] [h4] [data]    what one system call sends
//! ```
//!
//! Invariant: pieces leave in the order in which they were put in, and payload is never copied.

use std::io::IoSlice as SendSlice;

use holdfast_device::IoSlice;

/// Pieces that one system call sends at most.
pub const PIECES_AT_ONCE: usize = 64;

enum Piece {
    Head(usize),
    Data { data: IoSlice, at: usize, len: usize },
}

impl Piece {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Head(len) | Self::Data { len, .. } => *len,
        }
    }
}

/// A run of answers.
#[derive(Default)]
pub struct Run<N> {
    heads: Vec<u8>,
    pieces: Vec<Piece>,
    bytes: usize,
    sent_pieces: usize,
    sent_heads: usize,
    sent_of_piece: usize,
    /// What is known of the whole run; its protocol has it, and lets go of it when the run has left.
    pub note: N,
}

impl<N> Run<N> {
    /// Bytes that are not sent yet.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether all is sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Appends what `encode` appends to the heads.
    #[inline]
    pub fn head(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let before = self.heads.len();
        encode(&mut self.heads);
        let len = self.heads.len() - before;
        self.bytes += len;
        match self.pieces.last_mut() {
            Some(Piece::Head(last)) => *last += len,
            _ => self.pieces.push(Piece::Head(len)),
        }
    }

    /// Appends `len` bytes of `data` from `at`.
    #[inline]
    pub fn data(&mut self, data: IoSlice, at: usize, len: usize) {
        debug_assert!(at + len <= data.len());
        self.bytes += len;
        self.pieces.push(Piece::Data { data, at, len });
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
                Piece::Data { data, at, len } => SendSlice::new(&data[at + skip..at + len]),
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
                Piece::Data { .. } => *piece = Piece::Head(0),
            }
        }
    }

    /// Memory that heads take, used or not.
    pub(crate) fn head_capacity(&self) -> usize {
        self.heads.capacity()
    }

    /// Forgets all but the note, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.pieces.clear();
        self.bytes = 0;
        (self.sent_pieces, self.sent_heads, self.sent_of_piece) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_pace_sends_the_same_bytes() {
        for pace in [1, 3, 7, 1000] {
            let mut run = Run::<()>::default();
            let mut expected = Vec::new();
            for turn in 0..100_u8 {
                run.head(|heads| heads.extend([turn; 5]));
                expected.extend([turn; 5]);
                if turn % 3 == 0 {
                    run.data(IoSlice::padded(&[0xee, turn, turn, turn, 0xee]), 1, 3);
                    expected.extend([turn; 3]);
                }
            }
            let mut sent: Vec<u8> = Vec::new();
            while !run.is_empty() {
                let mut slices = [SendSlice::new(&[]); PIECES_AT_ONCE];
                let count = run.slices(&mut slices);
                let flat: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.iter().copied()).take(pace).collect();
                sent.extend(&flat);
                run.sent(flat.len());
            }
            assert_eq!(sent, expected, "pace {pace}");
        }
    }
}
