//! A small NBD client, one request at a time: what it was answered, it knows for certain.
//!
//! Source: `proto.md` of the NBD project, fixed newstyle negotiation with `NBD_OPT_GO` and simple replies.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
const FLAG_FUA: u16 = 1;
/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(60);

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

/// A connection to an export.
pub struct Client {
    stream: UnixStream,
    cookie: u64,
    size_bytes: u64,
    flags: u16,
}

/// Why a request was not done.
#[derive(Debug)]
pub enum NbdError {
    /// The server refused it with this number.
    Refused(u32),
    /// The connection is lost: nobody knows whether it was done.
    Lost(io::Error),
}

impl From<io::Error> for NbdError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

fn broken(what: &str) -> NbdError {
    NbdError::Lost(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()))
}

impl Client {
    /// Connects to `export` at the unix socket `path`.
    ///
    /// # Errors
    /// If nobody is there, or the server does not have the export.
    pub fn connect(path: &Path, export: &str) -> Result<Self, NbdError> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        let mut client = Self { stream, cookie: 0, size_bytes: 0, flags: 0 };
        let greeting: [u8; 18] = client.receive()?;
        if &greeting[..16] != b"NBDMAGICIHAVEOPT" {
            return Err(broken("no NBD server"));
        }
        let mut message = 3u32.to_be_bytes().to_vec();
        message.extend(OPTION_MAGIC.to_be_bytes());
        message.extend(OPTION_GO.to_be_bytes());
        message.extend((export.len() as u32 + 6).to_be_bytes());
        message.extend((export.len() as u32).to_be_bytes());
        message.extend(export.as_bytes());
        message.extend([0, 0]);
        client.stream.write_all(&message)?;
        client.await_go()?;
        Ok(client)
    }

    fn await_go(&mut self) -> Result<(), NbdError> {
        loop {
            let header: [u8; 20] = self.receive()?;
            let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            if header[..8] != OPTION_REPLY_MAGIC.to_be_bytes() {
                return Err(broken("no reply to an option"));
            }
            let mut payload = vec![0; word(16) as usize];
            self.stream.read_exact(&mut payload)?;
            match word(12) {
                REPLY_ACK => return Ok(()),
                REPLY_INFO if payload.len() == 12 && payload[..2] == INFO_EXPORT.to_be_bytes() => {
                    self.size_bytes = u64::from_be_bytes(payload[2..10].try_into().expect("eight bytes"));
                    self.flags = u16::from_be_bytes([payload[10], payload[11]]);
                }
                REPLY_INFO => (),
                refusal => return Err(NbdError::Refused(refusal)),
            }
        }
    }

    fn receive<const N: usize>(&mut self) -> Result<[u8; N], NbdError> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn send(&mut self, command: u16, flags: u16, offset: u64, len: u32, payload: &[u8]) -> Result<(), NbdError> {
        self.cookie += 1;
        let mut message = Vec::with_capacity(28 + payload.len());
        message.extend(REQUEST_MAGIC.to_be_bytes());
        message.extend(flags.to_be_bytes());
        message.extend(command.to_be_bytes());
        message.extend(self.cookie.to_be_bytes());
        message.extend(offset.to_be_bytes());
        message.extend(len.to_be_bytes());
        message.extend(payload);
        Ok(self.stream.write_all(&message)?)
    }

    fn answer(&mut self) -> Result<(), NbdError> {
        let reply: [u8; 16] = self.receive()?;
        if reply[..4] != REPLY_MAGIC.to_be_bytes() || reply[8..] != self.cookie.to_be_bytes() {
            return Err(broken("no reply to the request"));
        }
        match u32::from_be_bytes([reply[4], reply[5], reply[6], reply[7]]) {
            0 => Ok(()),
            number => Err(NbdError::Refused(number)),
        }
    }

    /// The size of the export when the connection was made.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The transmission flags of the export.
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// Reads `len` bytes from `offset`.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    pub fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, NbdError> {
        self.send(READ, 0, offset, len as u32, &[])?;
        self.answer()?;
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    /// Writes `data` at `offset`; with `fua` it is durable when answered.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), NbdError> {
        self.send(WRITE, if fua { FLAG_FUA } else { 0 }, offset, data.len() as u32, data)?;
        self.answer()
    }

    /// Makes what was answered so far durable.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    pub fn flush(&mut self) -> Result<(), NbdError> {
        self.send(FLUSH, 0, 0, 0, &[])?;
        self.answer()
    }

    /// Gives a range back.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    pub fn trim(&mut self, offset: u64, len: u32) -> Result<(), NbdError> {
        self.send(TRIM, 0, offset, len, &[])?;
        self.answer()
    }

    /// Makes a range read as zeros.
    ///
    /// # Errors
    /// If the server refuses, or the connection is lost.
    pub fn write_zeroes(&mut self, offset: u64, len: u32) -> Result<(), NbdError> {
        self.send(WRITE_ZEROES, 0, offset, len, &[])?;
        self.answer()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.send(DISCONNECT, 0, 0, 0, &[]);
    }
}
