//! The receiving side of a connection without I/O: where the next bytes go, and which requests they made.
//!
//! ```text
//!   no payload due    [ headers, 1 KiB                          ]   one receive brings a batch of requests
//!   payload due       [ rest of the payload, aligned ][ headers ]   the payload lands where it stays
//! ```
//!
//! Bytes of a payload that came in behind their header in one receive, less than 1 KiB, are moved once; all others lie
//! in their final buffer from the start.
//!
//! Invariant: memory is taken only by [`Inbound::begin_payload`], so by the caller's decision, never by a length that a
//! client announced.

use holdfast_device::IoBuf;
use holdfast_model::wire::WireError;

use crate::protocol::Request;

/// Bytes for headers, which are received in batches.
pub const HEADER_SPACE_BYTES: usize = 1024;

/// What was received.
#[derive(Debug)]
pub enum Incoming {
    /// A header. If a payload follows it ([`Request::payload_bytes`]), the caller says at once what becomes of that.
    Header(Request),
    /// The payload of a request is whole.
    Payload(Request, IoBuf),
    /// The payload of a refused request has passed.
    Skipped(Request),
}

enum State {
    Header,
    Payload { request: Request, buf: IoBuf, at: usize, end: usize },
    Skip { request: Request, left: u64 },
}

/// The receiving side of one connection.
pub struct Inbound {
    extended: bool,
    space: Box<[u8]>,
    start: usize,
    end: usize,
    state: State,
}

impl Inbound {
    /// A receiving side that starts with `first`, the bytes that came in behind the handshake.
    pub fn new(extended: bool, first: &[u8]) -> Self {
        let mut space = vec![0; first.len().max(HEADER_SPACE_BYTES)].into_boxed_slice();
        space[..first.len()].copy_from_slice(first);
        Self { extended, space, start: 0, end: first.len(), state: State::Header }
    }

    /// Where the next bytes go, in this order. Not both are empty.
    pub fn spaces(&mut self) -> [&mut [u8]; 2] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.space.len() - self.end < HEADER_SPACE_BYTES / 2 {
            self.space.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let payload = match &mut self.state {
            State::Payload { buf, at, end, .. } => &mut buf[*at..*end],
            _ => &mut [],
        };
        [payload, &mut self.space[self.end..]]
    }

    /// Says that `count` bytes were put into the spaces.
    pub fn filled(&mut self, mut count: usize) {
        if let State::Payload { at, end, .. } = &mut self.state {
            let payload = count.min(*end - *at);
            *at += payload;
            count -= payload;
        }
        self.end += count;
        debug_assert!(self.end <= self.space.len());
    }

    /// The next thing that is whole, or `None` when more bytes are needed. An error means that the stream is lost.
    pub fn take(&mut self) -> Result<Option<Incoming>, WireError> {
        match &mut self.state {
            State::Header => match Request::parse(&self.space[self.start..self.end], self.extended) {
                Ok(request) => {
                    self.start += Request::header_bytes(self.extended);
                    Ok(Some(Incoming::Header(request)))
                }
                Err(WireError::Short) => Ok(None),
                Err(error) => Err(error),
            },
            State::Payload { buf, at, end, .. } => {
                let moved = (*end - *at).min(self.end - self.start);
                buf[*at..*at + moved].copy_from_slice(&self.space[self.start..self.start + moved]);
                *at += moved;
                self.start += moved;
                if at < end {
                    return Ok(None);
                }
                match std::mem::replace(&mut self.state, State::Header) {
                    State::Payload { request, buf, .. } => Ok(Some(Incoming::Payload(request, buf))),
                    _ => unreachable!("matched above"),
                }
            }
            State::Skip { request, left } => {
                let skipped = (*left).min((self.end - self.start) as u64);
                *left -= skipped;
                self.start += skipped as usize;
                if *left > 0 {
                    return Ok(None);
                }
                let incoming = Incoming::Skipped(*request);
                self.state = State::Header;
                Ok(Some(incoming))
            }
        }
    }

    /// Receives the payload of the header that came last into `buf` from `at` on.
    ///
    /// # Panics
    /// If the buffer is too short.
    pub fn begin_payload(&mut self, request: Request, buf: IoBuf, at: usize) {
        let len = usize::try_from(request.payload_bytes(self.extended)).expect("a payload that was allocated");
        assert!(at + len <= buf.len(), "a payload of {len} bytes at {at} of {}", buf.len());
        self.state = State::Payload { request, buf, at, end: at + len };
    }

    /// Lets the payload of the header that came last pass.
    pub fn begin_skip(&mut self, request: Request) {
        self.state = State::Skip { request, left: request.payload_bytes(self.extended) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Command;
    use crate::protocol::constants::*;
    use holdfast_model::wire::Writer;
    use proptest::prelude::*;

    fn header(command: u16, cookie: u64, length: u32) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u32_be(REQUEST_MAGIC).u16_be(0).u16_be(command).u64_be(cookie).u64_be(0).u32_be(length);
        writer.into_bytes()
    }

    /// Feeds `stream` in pieces, and says which requests with how many payload bytes of which sum came out.
    fn receive(stream: &[u8], pieces: &[usize]) -> Vec<(u64, usize, u64)> {
        let mut inbound = Inbound::new(false, &[]);
        let (mut at, mut found, mut turn) = (0, Vec::new(), 0);
        loop {
            while let Some(incoming) = inbound.take().unwrap() {
                match incoming {
                    Incoming::Header(request) if request.length > 100_000 => inbound.begin_skip(request),
                    Incoming::Header(request) if request.command == Command::Write => {
                        inbound.begin_payload(request, IoBuf::zeroed(request.length as usize + 10), 10);
                    }
                    Incoming::Header(request) => found.push((request.cookie, 0, 0)),
                    Incoming::Payload(request, buf) => {
                        let sum = buf.iter().map(|byte| u64::from(*byte)).sum();
                        found.push((request.cookie, buf.len() - 10, sum));
                    }
                    Incoming::Skipped(request) => found.push((request.cookie, usize::MAX, 0)),
                }
            }
            if at == stream.len() {
                return found;
            }
            let mut taken = 0;
            for space in inbound.spaces() {
                let len = space.len().min(pieces[turn % pieces.len()] - taken).min(stream.len() - at);
                space[..len].copy_from_slice(&stream[at..at + len]);
                at += len;
                taken += len;
            }
            inbound.filled(taken);
            turn += 1;
        }
    }

    proptest! {
        #[test]
        fn any_split_of_the_stream_makes_the_same_requests(
            requests in prop::collection::vec((any::<bool>(), 1..150_000_u32), 1..12),
            pieces in prop::collection::vec(1..9000_usize, 1..8),
        ) {
            let (mut stream, mut expected) = (Vec::new(), Vec::new());
            for (cookie, (write, length)) in requests.iter().enumerate() {
                let cookie = cookie as u64;
                stream.extend(header(if *write { CMD_WRITE } else { CMD_FLUSH }, cookie, if *write { *length } else { 0 }));
                if *write {
                    stream.extend(std::iter::repeat_n(cookie as u8 + 1, *length as usize));
                }
                expected.push(match (*write, *length) {
                    (false, _) => (cookie, 0, 0),
                    (true, length) if length > 100_000 => (cookie, usize::MAX, 0),
                    (true, length) => (cookie, length as usize, u64::from(length) * (cookie + 1)),
                });
            }
            prop_assert_eq!(receive(&stream, &pieces), expected);
        }
    }
}
