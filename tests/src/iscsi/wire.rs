//! PDUs on a connection.
//!
//! Invariant: whoever sends keeps on receiving, so that a target that waits until its answers are taken blocks nobody; and
//! nothing waits for longer than the time of the connection.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::pdu::Pdu;

/// How long anything may take, unless a test wants something else.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that are read ahead.
const AHEAD: usize = 64 << 10;
/// The longest data segment that is taken.
const LONGEST_DATA: usize = 16 << 20;

/// Why there is no answer.
#[derive(Debug)]
pub enum InitiatorError {
    /// The connection is lost or was closed.
    Lost(io::Error),
    /// Nothing came within the time.
    TimedOut,
    /// Login was refused with this status class and detail (RFC 7143 11.13.5).
    Refused(u8, u8),
    /// A PDU was rejected for this reason (RFC 7143 11.17.1).
    Rejected(u8),
    /// The target sent what the standard does not let it send.
    Broken(String),
}

impl fmt::Display for InitiatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => write!(f, "the connection is lost: {error}"),
            Self::TimedOut => f.write_str("nothing came within the time"),
            Self::Refused(class, detail) => write!(f, "login was refused: {class:02x}{detail:02x}h"),
            Self::Rejected(reason) => write!(f, "rejected: {reason:02x}h"),
            Self::Broken(what) => write!(f, "the target breaks the protocol: {what}"),
        }
    }
}

impl From<io::Error> for InitiatorError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

/// What targets must not send.
pub fn broken(what: impl Into<String>) -> InitiatorError {
    InitiatorError::Broken(what.into())
}

/// A connection.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    ahead: Vec<u8>,
    taken: usize,
    limit: Duration,
    /// Whether headers carry CRC32C.
    pub header_digest: bool,
    /// Whether data carry CRC32C.
    pub data_digest: bool,
}

/// What stands before the data of a PDU.
pub struct Head {
    /// The basic header segment.
    pub header: [u8; 48],
    /// Additional header segments.
    pub more_header: Vec<u8>,
    /// Bytes of data that follow.
    pub data_len: usize,
}

fn digest(parts: &[&[u8]]) -> [u8; 4] {
    let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| sum.update(part));
    (sum.finalize() as u32).to_le_bytes()
}

fn padding(len: usize) -> usize {
    len.next_multiple_of(4) - len
}

impl Wire {
    /// Connects to `address`.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn connect(address: SocketAddr) -> Result<Self, InitiatorError> {
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (ahead, taken) = (Vec::with_capacity(AHEAD), 0);
        Ok(Self { stream, ahead, taken, limit: LIMIT, header_digest: false, data_digest: false })
    }

    /// Has nothing take longer than `limit`.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// The connection itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a PDU.
    ///
    /// # Errors
    /// If the connection is lost, or takes nothing within the time.
    pub fn send(&mut self, pdu: &Pdu) -> Result<(), InitiatorError> {
        self.send_parts(pdu.header, &pdu.more_header, &pdu.data)
    }

    /// Sends a PDU whose data lie elsewhere.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_parts(&mut self, mut header: [u8; 48], more_header: &[u8], data: &[u8]) -> Result<(), InitiatorError> {
        header[4] = (more_header.len() / 4) as u8;
        header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        let mut head = [&header[..], more_header].concat();
        if self.header_digest {
            head.extend(digest(&[&head]));
        }
        let mut tail = vec![0; padding(data.len())];
        if self.data_digest && !data.is_empty() {
            tail.extend(digest(&[data, &tail]));
        }
        self.send_bytes(&[&head, data, &tail])
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_bytes(&mut self, parts: &[&[u8]]) -> Result<(), InitiatorError> {
        let end = Instant::now() + self.limit;
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match self.stream.write_vectored(left) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.wait(PollFlags::IN | PollFlags::OUT, end)?.contains(PollFlags::IN) {
                        self.read_ahead()?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the head of the next PDU, whose digest is checked.
    ///
    /// # Errors
    /// If the connection is lost, nothing comes within the time, or the PDU is none.
    pub fn receive_head(&mut self) -> Result<Head, InitiatorError> {
        let mut header = [0; 48];
        self.receive_bytes(&mut header)?;
        let mut more_header = vec![0; usize::from(header[4]) * 4];
        self.receive_bytes(&mut more_header)?;
        if self.header_digest {
            let mut sum = [0; 4];
            self.receive_bytes(&mut sum)?;
            if sum != digest(&[&header, &more_header]) {
                return Err(broken("a header digest is wrong"));
            }
        }
        let data_len = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        if data_len > LONGEST_DATA {
            return Err(broken(format!("a data segment of {data_len} bytes")));
        }
        Ok(Head { header, more_header, data_len })
    }

    /// Takes the data of a PDU, and what pads and proves them.
    ///
    /// # Errors
    /// As [`receive_head`](Self::receive_head).
    pub fn receive_data(&mut self, data: &mut [u8]) -> Result<(), InitiatorError> {
        self.receive_bytes(data)?;
        let mut pad = [0; 3];
        let pad = &mut pad[..padding(data.len())];
        self.receive_bytes(pad)?;
        if self.data_digest && !data.is_empty() {
            let mut sum = [0; 4];
            self.receive_bytes(&mut sum)?;
            if sum != digest(&[data, pad]) {
                return Err(broken("a data digest is wrong"));
            }
        }
        Ok(())
    }

    /// Takes the next PDU.
    ///
    /// # Errors
    /// As [`receive_head`](Self::receive_head).
    pub fn receive(&mut self) -> Result<Pdu, InitiatorError> {
        let head = self.receive_head()?;
        let mut data = vec![0; head.data_len];
        self.receive_data(&mut data)?;
        Ok(Pdu { header: head.header, more_header: head.more_header, data })
    }

    /// Whether a PDU, or a part of one, is there or comes within `time`. An end of the connection counts.
    pub fn has_more(&mut self, time: Duration) -> bool {
        self.taken < self.ahead.len() || self.wait(PollFlags::IN, Instant::now() + time).is_ok()
    }

    fn receive_bytes(&mut self, mut bytes: &mut [u8]) -> Result<(), InitiatorError> {
        let end = Instant::now() + self.limit;
        loop {
            let count = bytes.len().min(self.ahead.len() - self.taken);
            bytes[..count].copy_from_slice(&self.ahead[self.taken..self.taken + count]);
            self.taken += count;
            bytes = &mut bytes[count..];
            if bytes.is_empty() {
                return Ok(());
            }
            let direct = bytes.len() >= AHEAD / 4;
            let got = if direct { self.stream.read(bytes) } else { self.read_some() };
            match got {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(count) if direct => bytes = &mut bytes[count..],
                Ok(_) => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN, end)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads into the room that is free ahead, which is all of it once everything there was taken.
    fn read_some(&mut self) -> io::Result<usize> {
        self.ahead.drain(..self.taken);
        self.taken = 0;
        let old = self.ahead.len();
        self.ahead.resize(old + AHEAD, 0);
        let got = self.stream.read(&mut self.ahead[old..]);
        self.ahead.truncate(old + got.as_ref().map_or(0, |&count| count));
        got
    }

    fn read_ahead(&mut self) -> Result<(), InitiatorError> {
        match self.read_some() {
            Ok(0) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn wait(&self, flags: PollFlags, end: Instant) -> Result<PollFlags, InitiatorError> {
        let left = end.saturating_duration_since(Instant::now());
        let mut descriptors = [PollFd::new(&self.stream, flags)];
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut descriptors, Some(&time)) {
            Ok(0) => Err(InitiatorError::TimedOut),
            Ok(_) => Ok(descriptors[0].revents()),
            Err(rustix::io::Errno::INTR) => Ok(PollFlags::empty()),
            Err(error) => Err(InitiatorError::Lost(error.into())),
        }
    }
}
