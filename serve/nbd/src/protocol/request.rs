//! The header of a request: 28 bytes, or 32 with extended headers.
//!
//! ```text
//!  compact    magic 4 | flags 2 | type 2 | cookie 8 | offset 8 | length 4
//!  extended   magic 4 | flags 2 | type 2 | cookie 8 | offset 8 | length 8
//! ```
//!
//! Invariant: [`Request::payload_bytes`] says how many bytes follow the header on the wire, whatever else is wrong with
//! the request, so that the next header is always found.

use holdfast_model::wire::{Reader, WireError};

use super::constants::*;

/// Bytes of a compact request header.
pub const COMPACT_BYTES: usize = 28;
/// Bytes of an extended request header.
pub const EXTENDED_BYTES: usize = 32;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read bytes.
    Read,
    /// Write the payload.
    Write,
    /// Answer what is in flight, then close.
    Disconnect,
    /// Make answered writes durable.
    Flush,
    /// Give room back.
    Trim,
    /// Bring bytes near.
    Cache,
    /// Make bytes zero.
    WriteZeroes,
    /// Tell which bytes take room.
    BlockStatus,
    /// A number that this server does not know.
    Unknown(u16),
}

impl Command {
    fn from_number(number: u16) -> Self {
        match number {
            CMD_READ => Self::Read,
            CMD_WRITE => Self::Write,
            CMD_DISC => Self::Disconnect,
            CMD_FLUSH => Self::Flush,
            CMD_TRIM => Self::Trim,
            CMD_CACHE => Self::Cache,
            CMD_WRITE_ZEROES => Self::WriteZeroes,
            CMD_BLOCK_STATUS => Self::BlockStatus,
            other => Self::Unknown(other),
        }
    }

    /// Whether it changes the export.
    pub fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// A request header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The `CMD_FLAG_*` bits.
    pub flags: u16,
    /// What is asked.
    pub command: Command,
    /// The client's own number for it, given back with the answer.
    pub cookie: u64,
    /// First byte of the range.
    pub offset: u64,
    /// Bytes of the range, or of the payload where the flag says so.
    pub length: u64,
}

impl Request {
    /// Parses one header. [`WireError::Short`] asks for more bytes; any other error means that the stream is lost.
    pub fn parse(bytes: &[u8], extended: bool) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes.get(..Self::header_bytes(extended)).ok_or(WireError::Short)?);
        let magic = reader.u32_be()?;
        if magic != if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC } {
            return Err(WireError::Value("request magic"));
        }
        Ok(Self {
            flags: reader.u16_be()?,
            command: Command::from_number(reader.u16_be()?),
            cookie: reader.u64_be()?,
            offset: reader.u64_be()?,
            length: if extended { reader.u64_be()? } else { reader.u32_be()?.into() },
        })
    }

    /// Bytes of a header.
    pub fn header_bytes(extended: bool) -> usize {
        if extended { EXTENDED_BYTES } else { COMPACT_BYTES }
    }

    /// Bytes that follow the header on the wire. A write carries them always; with extended headers any other command
    /// does where it says so.
    pub fn payload_bytes(&self, extended: bool) -> u64 {
        match self.command {
            Command::Write => self.length,
            _ if extended && self.has(CMD_FLAG_PAYLOAD_LEN) => self.length,
            _ => 0,
        }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_model::wire::Writer;

    #[test]
    fn both_forms_are_parsed_and_never_mixed() {
        let mut compact = Writer::new();
        compact.u32_be(REQUEST_MAGIC).u16_be(CMD_FLAG_FUA).u16_be(CMD_WRITE).u64_be(7).u64_be(4096).u32_be(512);
        let compact = compact.into_bytes();
        let request = Request::parse(&compact, false).unwrap();
        assert_eq!((request.command, request.cookie, request.offset), (Command::Write, 7, 4096));
        assert_eq!((request.payload_bytes(false), request.has(CMD_FLAG_FUA)), (512, true));
        assert_eq!(Request::parse(&compact[..27], false), Err(WireError::Short));

        let mut extended = Writer::new();
        extended.u32_be(EXTENDED_REQUEST_MAGIC).u16_be(0).u16_be(CMD_TRIM).u64_be(8).u64_be(0).u64_be(1 << 40);
        let extended = extended.into_bytes();
        let request = Request::parse(&extended, true).unwrap();
        assert_eq!((request.length, request.payload_bytes(true)), (1 << 40, 0));
        assert_eq!(Request::parse(&extended, false), Err(WireError::Value("request magic")));
    }

    #[test]
    fn a_payload_is_found_behind_any_extended_command() {
        let request =
            Request { flags: CMD_FLAG_PAYLOAD_LEN, command: Command::Unknown(99), cookie: 0, offset: 0, length: 24 };
        assert_eq!((request.payload_bytes(true), request.payload_bytes(false)), (24, 0));
    }
}
