//! The receiving side of one connection without I/O: where the next bytes go, and which PDUs they made.
//!
//! ```text
//!   no data due    [ headers, 4 KiB                           ]   one receive brings a batch of PDUs
//!   data due       [ rest of the segment, in place ][ headers ]   the payload lands where it stays
//! ```
//!
//! Bytes of a data segment that came in behind their header in one receive are moved once; all others lie in their final
//! buffer from the start. Digests are computed over the bytes where they lie.
//!
//! Invariant: memory is taken only by the caller's decision ([`Inbound::begin`]), never by a length that was announced.

use holdfast_model::wire::{Crc32c, crc32c};

use crate::protocol::Header;
use crate::protocol::constants::*;
use crate::protocol::header::padding;

/// Bytes for headers, which are received in batches. The longest header, with 255 words behind it and a digest, fits.
const SPACE_BYTES: usize = 4096;
/// So much of them is kept free while data is due: what is received there is moved if it is data.
const AHEAD_BYTES: usize = 1152;
/// Additional headers that are read; those of the protocol have 4 to 20 bytes each.
const ADDITIONAL_BYTES: usize = 512;

/// Where a data segment goes.
pub trait Place {
    /// The bytes that it may fill.
    fn space(&mut self) -> &mut [u8];
}

impl Place for Vec<u8> {
    fn space(&mut self) -> &mut [u8] {
        self
    }
}

/// What was received.
#[derive(Debug)]
pub enum Incoming<P> {
    /// A header. If data follows it, the caller says at once where that goes.
    Header(Header, Vec<u8>),
    /// The data segment is whole; its digest is right or was none.
    Data(P),
    /// The data segment is whole, and its digest is wrong.
    Damaged(P),
    /// A data segment that nobody wants has passed.
    Skipped,
}

/// Why the stream is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The digest of a header is wrong: its lengths cannot be trusted.
    #[error("the digest of a header is wrong")]
    HeaderDigest,
    /// More additional headers than anybody needs.
    #[error("a header announces {0} bytes of additional headers")]
    Additional(usize),
    /// A longer data segment than was agreed on.
    #[error("a header announces {0} bytes of data")]
    TooLong(usize),
}

enum State<P> {
    Header,
    /// A header was handed out whose data the caller has not placed yet.
    Placing {
        len: usize,
    },
    Data {
        place: Option<P>,
        /// Where the next byte goes, and behind the last that goes into the place.
        at: usize,
        end: usize,
        from: usize,
        /// Bytes behind those that nobody wants.
        skip: usize,
        /// Padding and digest.
        tail: usize,
    },
}

/// The receiving side of one connection.
pub struct Inbound<P> {
    header_digest: bool,
    data_digest: bool,
    limit_bytes: usize,
    space: Box<[u8]>,
    start: usize,
    end: usize,
    state: State<P>,
    /// Of the data so far, where it has a digest.
    crc: Option<Crc32c>,
}

impl<P: Place> Inbound<P> {
    /// A receiving side that starts with `first`, and takes data segments of at most so many bytes.
    pub fn new(limit_bytes: usize, first: &[u8]) -> Self {
        let mut space = vec![0; first.len().max(SPACE_BYTES)].into_boxed_slice();
        space[..first.len()].copy_from_slice(first);
        let (start, end) = (0, first.len());
        Self {
            header_digest: false,
            data_digest: false,
            limit_bytes,
            space,
            start,
            end,
            state: State::Header,
            crc: None,
        }
    }

    /// Digests and lengths that hold from the next PDU on.
    pub fn agree(&mut self, header_digest: bool, data_digest: bool, limit_bytes: usize) {
        (self.header_digest, self.data_digest, self.limit_bytes) = (header_digest, data_digest, limit_bytes);
    }

    /// Where the next bytes go, in this order. Not both are empty.
    pub fn spaces(&mut self) -> [&mut [u8]; 2] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.space.len() - self.end < SPACE_BYTES / 2 {
            self.space.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let data_due = matches!(&self.state, State::Data { place: Some(_), at, end, .. } if at < end);
        // Payload that comes behind its header in one receive must be moved: there is not much of it.
        let ahead = match self.state {
            State::Data { .. } if !data_due => self.space.len(),
            _ => (self.start + AHEAD_BYTES).max(self.end + HEADER_BYTES).min(self.space.len()),
        };
        let headers = &mut self.space[self.end..ahead];
        match &mut self.state {
            State::Data { place: Some(place), at, end, .. } if data_due && self.start == self.end => {
                [&mut place.space()[*at..*end], headers]
            }
            _ => [&mut [], headers],
        }
    }

    /// Says that `count` bytes were put into the spaces.
    pub fn filled(&mut self, mut count: usize) {
        if let State::Data { place: Some(_), at, end, .. } = &mut self.state
            && self.start == self.end
        {
            let data = count.min(*end - *at);
            *at += data;
            count -= data;
        }
        self.end += count;
        debug_assert!(self.end <= self.space.len());
    }

    /// What was received and not taken.
    pub fn into_rest(self) -> Vec<u8> {
        self.held().to_vec()
    }

    fn held(&self) -> &[u8] {
        &self.space[self.start..self.end]
    }

    /// The next thing that is whole, or `None` when more bytes are needed.
    pub fn take(&mut self) -> Result<Option<Incoming<P>>, Lost> {
        match self.state {
            State::Header => self.take_header(),
            State::Placing { len } => {
                // Nobody said where it goes: it goes nowhere.
                self.skip(len);
                self.take_data()
            }
            State::Data { .. } => self.take_data(),
        }
    }

    fn take_header(&mut self) -> Result<Option<Incoming<P>>, Lost> {
        let Some(basic) = self.held().first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header(*basic);
        let additional = header.additional_bytes();
        if additional > ADDITIONAL_BYTES {
            return Err(Lost::Additional(additional));
        }
        let covered = HEADER_BYTES + additional;
        let digest = if self.header_digest { DIGEST_BYTES } else { 0 };
        if self.held().len() < covered + digest {
            return Ok(None);
        }
        if self.header_digest {
            let sent = &self.held()[covered..covered + DIGEST_BYTES];
            if sent != crc32c(&self.held()[..covered]).to_le_bytes() {
                return Err(Lost::HeaderDigest);
            }
        }
        let len = header.data_bytes();
        if len > self.limit_bytes {
            return Err(Lost::TooLong(len));
        }
        let additional = self.held()[HEADER_BYTES..covered].to_vec();
        self.start += covered + digest;
        if len > 0 {
            self.state = State::Placing { len };
        }
        Ok(Some(Incoming::Header(header, additional)))
    }

    /// Receives the data of the header that came last into `place` from `at` on, as much as there is space for behind
    /// it up to `most` bytes; the rest passes.
    pub fn begin(&mut self, place: P, at: usize, most: usize) {
        let State::Placing { len } = self.state else { return };
        let mut place = place;
        let wanted = len.min(most).min(place.space().len().saturating_sub(at));
        self.state = self.data_state(Some(place), at, wanted, len);
    }

    fn skip(&mut self, len: usize) {
        self.state = self.data_state(None, 0, 0, len);
    }

    fn data_state(&mut self, place: Option<P>, at: usize, wanted: usize, len: usize) -> State<P> {
        let digest = if self.data_digest { DIGEST_BYTES } else { 0 };
        self.crc = self.data_digest.then(Crc32c::new);
        State::Data { place, at, from: at, end: at + wanted, skip: len - wanted, tail: padding(len) + digest }
    }

    fn take_data(&mut self) -> Result<Option<Incoming<P>>, Lost> {
        let crc = &mut self.crc;
        let State::Data { place, at, end, from, skip, tail } = &mut self.state else { return Ok(None) };
        if at < end {
            let Some(place) = place else { return Ok(None) };
            let moved = (*end - *at).min(self.end - self.start);
            place.space()[*at..*at + moved].copy_from_slice(&self.space[self.start..self.start + moved]);
            *at += moved;
            self.start += moved;
            if at < end {
                return Ok(None);
            }
        }
        if from < end {
            if let (Some(crc), Some(place)) = (crc.as_mut(), place.as_mut()) {
                crc.add(&place.space()[*from..*end]);
            }
            *from = *end;
        }
        if *skip > 0 {
            let skipped = (*skip).min(self.end - self.start);
            if let Some(crc) = crc {
                crc.add(&self.space[self.start..self.start + skipped]);
            }
            *skip -= skipped;
            self.start += skipped;
        }
        if *skip > 0 || self.end - self.start < *tail {
            return Ok(None);
        }
        let behind = &self.space[self.start..self.start + *tail];
        let right = match crc {
            Some(crc) => {
                let (padding, sent) = behind.split_at(behind.len() - DIGEST_BYTES);
                crc.add(padding);
                sent == crc.value().to_le_bytes()
            }
            None => true,
        };
        self.start += *tail;
        let place = place.take();
        self.state = State::Header;
        Ok(Some(match place {
            Some(place) if right => Incoming::Data(place),
            Some(place) => Incoming::Damaged(place),
            None => Incoming::Skipped,
        }))
    }
}

#[cfg(test)]
mod tests;
