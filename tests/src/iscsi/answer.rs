//! What a command was answered.

use std::fmt;

/// Statuses of SCSI (SAM-5 5.3.1).
pub mod status {
    /// Done.
    pub const GOOD: u8 = 0x00;
    /// Not done: sense data say why.
    pub const CHECK_CONDITION: u8 = 0x02;
    /// A comparison that found nothing different, or the like.
    pub const CONDITION_MET: u8 = 0x04;
    /// Later.
    pub const BUSY: u8 = 0x08;
    /// Somebody else reserved it.
    pub const RESERVATION_CONFLICT: u8 = 0x18;
    /// Too much at once.
    pub const TASK_SET_FULL: u8 = 0x28;
    /// Aborted by another one.
    pub const TASK_ABORTED: u8 = 0x40;
}

/// Sense keys (SPC-4 4.5.6).
pub mod key {
    /// Nothing.
    pub const NO_SENSE: u8 = 0x0;
    /// Not ready.
    pub const NOT_READY: u8 = 0x2;
    /// A fault of the medium.
    pub const MEDIUM_ERROR: u8 = 0x3;
    /// A request that cannot be.
    pub const ILLEGAL_REQUEST: u8 = 0x5;
    /// Something changed.
    pub const UNIT_ATTENTION: u8 = 0x6;
    /// Kept from writing.
    pub const DATA_PROTECT: u8 = 0x7;
    /// A copy that was not done.
    pub const COPY_ABORTED: u8 = 0xa;
    /// A command that was not done.
    pub const ABORTED_COMMAND: u8 = 0xb;
    /// Data differ.
    pub const MISCOMPARE: u8 = 0xe;
}

/// A sense key, and its additional code and qualifier.
pub type SenseCode = (u8, u8, u8);

/// The end of a command.
#[derive(Clone)]
pub struct Answer {
    /// The status.
    pub status: u8,
    /// Sense data.
    pub sense: Vec<u8>,
    /// What was read.
    pub data: Vec<u8>,
    /// Bytes that were expected and not moved; negative, that would have been moved and were not expected.
    pub residual: i64,
}

impl Answer {
    /// What was read, of a command that is done.
    ///
    /// # Panics
    /// If it was not.
    #[track_caller]
    pub fn good(self) -> Vec<u8> {
        assert_eq!(self.status, status::GOOD, "{self:?}");
        self.data
    }

    /// Why it was not done.
    ///
    /// # Panics
    /// If it does not say so.
    #[track_caller]
    pub fn sense_code(&self) -> SenseCode {
        assert_eq!(self.status, status::CHECK_CONDITION, "{self:?}");
        code_of(&self.sense).unwrap_or_else(|| panic!("no sense data: {self:?}"))
    }

    /// Holds it to a CHECK CONDITION with this sense.
    ///
    /// # Panics
    /// If it was answered otherwise.
    #[track_caller]
    pub fn fails_with(&self, key: u8, asc: u8, ascq: u8) {
        assert!(
            self.status == status::CHECK_CONDITION && code_of(&self.sense) == Some((key, asc, ascq)),
            "{key:x}/{asc:02x}/{ascq:02x} expected: {self:?}"
        );
    }

    /// Holds it to a status.
    ///
    /// # Panics
    /// If it has another one.
    #[track_caller]
    pub fn has_status(&self, status: u8) {
        assert_eq!(self.status, status, "{self:?}");
    }
}

/// The code of sense data in either form (SPC-4 4.5.2 and 4.5.3).
pub fn code_of(sense: &[u8]) -> Option<SenseCode> {
    match sense.first()? & 0x7f {
        0x70 | 0x71 => Some((sense.get(2)? & 0xf, *sense.get(12)?, *sense.get(13)?)),
        0x72 | 0x73 => Some((sense.get(1)? & 0xf, *sense.get(2)?, *sense.get(3)?)),
        _ => None,
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {:02x}h", self.status)?;
        if let Some((key, asc, ascq)) = code_of(&self.sense) {
            write!(f, ", sense {key:x}/{asc:02x}/{ascq:02x}")?;
        }
        write!(f, ", {} bytes of data, residual {}", self.data.len(), self.residual)
    }
}
