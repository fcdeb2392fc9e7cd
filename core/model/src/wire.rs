//! The one reader and writer of binary records: little-endian on disk, big-endian on the network. A reader never reads
//! past its end and never trusts a length: each take is checked, and a failed one leaves nothing half read.

use uuid::Uuid;

/// The input ended, or a value does not fit its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Fewer bytes than the record needs.
    #[error("the record ends early")]
    Short,
    /// A field has a value that it must not have.
    #[error("the field '{0}' has an impossible value")]
    Value(&'static str),
}

/// Takes values off the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Two bytes in network order.
    pub fn u16_be(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes in network order.
    pub fn u32_be(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes in network order.
    pub fn u64_be(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self) -> Result<Uuid, WireError> {
        self.array().map(Uuid::from_bytes)
    }

    /// A text with its length in two bytes before it.
    pub fn text(&mut self) -> Result<&'a str, WireError> {
        let len = self.u16()?;
        std::str::from_utf8(self.take(len.into())?).map_err(|_| WireError::Value("text"))
    }
}

/// Appends values to a byte vector.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty writer with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Raw bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// Two bytes in network order.
    pub fn u16_be(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Four bytes in network order.
    pub fn u32_be(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Eight bytes in network order.
    pub fn u64_be(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    /// Sixteen bytes.
    pub fn uuid(&mut self, value: Uuid) -> &mut Self {
        self.raw(value.as_bytes())
    }

    /// A text with its length in two bytes before it; what is over 65,535 bytes is cut at a character.
    pub fn text(&mut self, value: &str) -> &mut Self {
        let cut = value.floor_char_boundary(usize::from(u16::MAX));
        self.u16(cut as u16).raw(&value.as_bytes()[..cut])
    }
}

/// CRC-32C (Castagnoli), the checksum of every metadata block.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// CRC-32C of bytes that come in pieces.
pub struct Crc32c(crc_fast::Digest);

impl Crc32c {
    /// Of no bytes yet.
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    /// Goes on with the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The checksum of all pieces.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::new();
        writer.u8(1).u16(2).u32(3).u64(4).uuid(Uuid::from_u128(5)).text("säge");
        let bytes = writer.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.u8(), reader.u16(), reader.u32(), reader.u64()), (Ok(1), Ok(2), Ok(3), Ok(4)));
        assert_eq!((reader.uuid(), reader.text()), (Ok(Uuid::from_u128(5)), Ok("säge")));
        assert_eq!((reader.remaining(), reader.u8()), (0, Err(WireError::Short)));
    }

    #[test]
    fn network_order_is_big_endian() {
        let mut writer = Writer::new();
        writer.u16_be(0x0102).u32_be(3).u64_be(4);
        let bytes = writer.into_bytes();
        assert_eq!(bytes[..2], [1, 2]);
        let mut reader = Reader::new(&bytes);
        assert_eq!((reader.u16_be(), reader.u32_be(), reader.u64_be()), (Ok(0x0102), Ok(3), Ok(4)));
    }

    #[test]
    fn a_lying_length_reads_nothing() {
        let mut reader = Reader::new(&[0xff, 0xff, b'x']);
        assert_eq!(reader.text(), Err(WireError::Short));
    }

    #[test]
    fn crc_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let mut pieces = Crc32c::new();
        [&b"12345"[..], b"", b"6789"].into_iter().for_each(|piece| pieces.add(piece));
        assert_eq!(pieces.value(), 0xe306_9283);
    }
}
