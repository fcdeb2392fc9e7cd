//! The basic header of a PDU: 48 bytes, of which some fields stand at the same place in all PDUs.
//!
//! ```text
//!   0 opcode, immediate | 1 flags | 2..4 of the opcode | 4 additional header words | 5..8 data bytes
//!   8..16 LUN or of the opcode | 16 initiator task tag | 20 target transfer tag | 24 CmdSN or StatSN
//!   28 ExpStatSN or ExpCmdSN | 32 MaxCmdSN | 36..48 of the opcode
//! ```
//!
//! Invariant: every accessor reads within the 48 bytes, so any bytes are a header; whether one makes sense is for the
//! reader of its opcode.

use std::fmt;

use super::constants::*;

/// A basic header.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header(pub [u8; HEADER_BYTES]);

impl Header {
    /// One of zeros with an opcode and flags.
    pub fn new(opcode: u8, flags: u8) -> Self {
        let mut bytes = [0; HEADER_BYTES];
        (bytes[0], bytes[1]) = (opcode, flags);
        Self(bytes)
    }

    /// What kind of PDU it is.
    pub fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    /// Whether it is delivered out of order.
    pub fn immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// The flags of its opcode.
    pub fn flags(&self) -> u8 {
        self.0[1]
    }

    /// Whether all of these flags are set.
    pub fn has(&self, flags: u8) -> bool {
        self.0[1] & flags == flags
    }

    /// Bytes of additional headers behind it.
    pub fn additional_bytes(&self) -> usize {
        usize::from(self.0[4]) * 4
    }

    /// Bytes of the data segment, without its padding.
    pub fn data_bytes(&self) -> usize {
        (self.u32(4) & 0x00ff_ffff) as usize
    }

    /// The logical unit.
    pub fn lun(&self) -> u64 {
        u64::from_be_bytes(self.array(8))
    }

    /// The initiator task tag.
    pub fn task_tag(&self) -> u32 {
        self.u32(16)
    }

    /// The target transfer tag.
    pub fn transfer_tag(&self) -> u32 {
        self.u32(20)
    }

    /// The number of the command among those of the session; in answers, of the status.
    pub fn cmd_sn(&self) -> u32 {
        self.u32(24)
    }

    /// The status that the initiator expects next; in answers, the command.
    pub fn exp_stat_sn(&self) -> u32 {
        self.u32(28)
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut found = [0; N];
        found.copy_from_slice(&self.0[at..at + N]);
        found
    }

    /// Two bytes at `at`.
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    /// Four bytes at `at`.
    pub fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    /// With a byte at `at`.
    pub fn with_u8(mut self, at: usize, value: u8) -> Self {
        self.0[at] = value;
        self
    }

    /// With two bytes at `at`.
    pub fn with_u16(self, at: usize, value: u16) -> Self {
        self.with(at, &value.to_be_bytes())
    }

    /// With four bytes at `at`.
    pub fn with_u32(self, at: usize, value: u32) -> Self {
        self.with(at, &value.to_be_bytes())
    }

    /// With bytes at `at`.
    pub fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// With the logical unit.
    pub fn with_lun(self, lun: u64) -> Self {
        self.with(8, &lun.to_be_bytes())
    }

    /// With the initiator task tag.
    pub fn with_task_tag(self, tag: u32) -> Self {
        self.with_u32(16, tag)
    }

    /// With the target transfer tag.
    pub fn with_transfer_tag(self, tag: u32) -> Self {
        self.with_u32(20, tag)
    }

    /// With so many bytes of data behind it.
    ///
    /// # Panics
    /// If no header can announce so many.
    pub fn with_data_bytes(self, bytes: usize) -> Self {
        assert!(bytes <= MAX_SEGMENT_BYTES, "a data segment of {bytes} bytes");
        self.with(5, &(bytes as u32).to_be_bytes()[1..])
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header({:#04x}, flags {:#04x}, tag {:#x})", self.opcode(), self.flags(), self.task_tag())
    }
}

/// Padding behind so many bytes.
pub fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(4) - bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_protocol_has_them() {
        let header = Header::new(SCSI_COMMAND | 0x40, FLAG_FINAL | COMMAND_READ)
            .with_data_bytes(0x01_0203)
            .with_lun(0x0001_0000_0000_0000)
            .with_task_tag(7)
            .with_transfer_tag(8)
            .with_u32(24, 9)
            .with_u32(28, 10);
        assert_eq!((header.opcode(), header.immediate()), (SCSI_COMMAND, true));
        assert_eq!(header.0[4..8], [0, 1, 2, 3]);
        assert_eq!((header.data_bytes(), header.lun()), (0x01_0203, 1 << 48));
        assert_eq!((header.task_tag(), header.transfer_tag()), (7, 8));
        assert_eq!((header.cmd_sn(), header.exp_stat_sn()), (9, 10));
        assert!(header.has(COMMAND_READ) && !header.has(COMMAND_WRITE));
        assert_eq!([0, 1, 2, 3, 4].map(padding), [0, 3, 2, 1, 0]);
    }
}
