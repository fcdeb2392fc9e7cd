//! PDUs (RFC 7143 11): a header of 48 bytes, more header where a command is longer, and data.

/// A PDU.
#[derive(Clone, Debug)]
pub struct Pdu {
    /// The basic header segment. The length of the data is filled in when it is sent.
    pub header: [u8; 48],
    /// Additional header segments, in whole words.
    pub more_header: Vec<u8>,
    /// The data segment, without what pads it.
    pub data: Vec<u8>,
}

/// What initiators send.
pub mod request {
    /// NOP-Out.
    pub const NOP: u8 = 0x00;
    /// A command of SCSI.
    pub const COMMAND: u8 = 0x01;
    /// Task management.
    pub const MANAGE: u8 = 0x02;
    /// Login.
    pub const LOGIN: u8 = 0x03;
    /// Text.
    pub const TEXT: u8 = 0x04;
    /// Data-Out.
    pub const DATA: u8 = 0x05;
    /// Logout.
    pub const LOGOUT: u8 = 0x06;
    /// Set in the first byte of what is not numbered.
    pub const IMMEDIATE: u8 = 0x40;
}

/// What targets send.
pub mod response {
    /// NOP-In.
    pub const NOP: u8 = 0x20;
    /// The end of a command.
    pub const COMMAND: u8 = 0x21;
    /// The end of task management.
    pub const MANAGE: u8 = 0x22;
    /// The answer to login.
    pub const LOGIN: u8 = 0x23;
    /// The answer to text.
    pub const TEXT: u8 = 0x24;
    /// Data-In.
    pub const DATA: u8 = 0x25;
    /// The answer to logout.
    pub const LOGOUT: u8 = 0x26;
    /// Ready to transfer.
    pub const R2T: u8 = 0x31;
    /// Asynchronous message.
    pub const ASYNC: u8 = 0x32;
    /// Reject.
    pub const REJECT: u8 = 0x3f;
}

/// A tag that stands for none.
pub const NO_TAG: u32 = u32::MAX;
/// The last PDU of a sequence.
pub const FINAL: u8 = 0x80;

impl Pdu {
    /// One without data.
    pub fn new(opcode: u8, flags: u8) -> Self {
        let mut header = [0; 48];
        (header[0], header[1]) = (opcode, flags);
        Self { header, more_header: Vec::new(), data: Vec::new() }
    }

    /// The same with the 32-bit number `value` at the byte `at` of its header.
    #[must_use]
    pub fn with(mut self, at: usize, value: u32) -> Self {
        self.header[at..at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    /// The same for the logical unit `lun`.
    #[must_use]
    pub fn for_lun(mut self, lun: u16) -> Self {
        self.header[8..16].copy_from_slice(&lun_bytes(lun));
        self
    }

    /// The same with `data`.
    #[must_use]
    pub fn carrying(mut self, data: Vec<u8>) -> Self {
        self.data = data;
        self
    }

    /// What it is.
    pub fn opcode(&self) -> u8 {
        self.header[0] & 0x3f
    }

    /// The 32-bit number at the byte `at` of its header.
    pub fn word(&self, at: usize) -> u32 {
        word(&self.header, at)
    }

    /// The tag of the initiator.
    pub fn tag(&self) -> u32 {
        self.word(16)
    }
}

/// The 32-bit number at the byte `at` of a header.
pub fn word(header: &[u8; 48], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// The eight bytes that name a logical unit (SAM-5 4.7): by peripheral device up to 255, flat above.
pub fn lun_bytes(lun: u16) -> [u8; 8] {
    let [high, low] = lun.to_be_bytes();
    let method = if lun < 256 { 0 } else { 0x40 };
    [method | high, low, 0, 0, 0, 0, 0, 0]
}
