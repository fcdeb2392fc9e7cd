//! Sense data: why a command was not served, for initiators (SPC-4 4.5).
//!
//! Invariant: an error has one key and code here, whatever command met it, and is encoded in the format that the unit's
//! control mode page asks for.

/// The kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SenseKey {
    /// None.
    NoSense = 0,
    /// The unit cannot be used for now.
    NotReady = 2,
    /// The medium is at fault.
    MediumError = 3,
    /// The unit is at fault.
    HardwareError = 4,
    /// The command is at fault.
    IllegalRequest = 5,
    /// Something happened that the initiator should know.
    UnitAttention = 6,
    /// The range may not be changed.
    DataProtect = 7,
    /// The copy manager gave up.
    CopyAborted = 0xa,
    /// The unit gave the command up.
    AbortedCommand = 0xb,
    /// The data are others than those sent.
    Miscompare = 0xe,
    /// The command was served, and there is something to tell.
    Completed = 0xf,
}

/// Additional sense code and qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub u8, pub u8);

/// The codes that this crate answers with.
#[allow(missing_docs)]
pub mod code {
    use super::Code;

    pub const NONE: Code = Code(0, 0);
    pub const BECOMING_READY: Code = Code(0x04, 0x01);
    pub const MANUAL_INTERVENTION: Code = Code(0x04, 0x03);
    pub const STANDBY: Code = Code(0x04, 0x0b);
    pub const UNAVAILABLE: Code = Code(0x04, 0x0c);
    pub const INVALID_FIELD_IN_INFORMATION_UNIT: Code = Code(0x0e, 0x03);
    pub const WRITE_ERROR: Code = Code(0x0c, 0x00);
    pub const UNRECOVERED_READ_ERROR: Code = Code(0x11, 0x00);
    pub const PARAMETER_LIST_LENGTH: Code = Code(0x1a, 0x00);
    pub const MISCOMPARE: Code = Code(0x1d, 0x00);
    pub const INVALID_OPCODE: Code = Code(0x20, 0x00);
    pub const LBA_OUT_OF_RANGE: Code = Code(0x21, 0x00);
    pub const INVALID_FIELD_IN_CDB: Code = Code(0x24, 0x00);
    pub const LUN_NOT_SUPPORTED: Code = Code(0x25, 0x00);
    pub const INVALID_FIELD_IN_LIST: Code = Code(0x26, 0x00);
    pub const INVALID_RELEASE: Code = Code(0x26, 0x04);
    pub const WRITE_PROTECTED: Code = Code(0x27, 0x00);
    pub const SOFTWARE_WRITE_PROTECTED: Code = Code(0x27, 0x02);
    pub const SPACE_ALLOCATION_FAILED: Code = Code(0x27, 0x07);
    pub const POWER_ON: Code = Code(0x29, 0x00);
    pub const BUS_RESET: Code = Code(0x29, 0x02);
    pub const DEVICE_RESET: Code = Code(0x29, 0x03);
    pub const NEXUS_LOSS: Code = Code(0x29, 0x07);
    pub const MODE_CHANGED: Code = Code(0x2a, 0x01);
    pub const RESERVATIONS_PREEMPTED: Code = Code(0x2a, 0x03);
    pub const RESERVATIONS_RELEASED: Code = Code(0x2a, 0x04);
    pub const REGISTRATIONS_PREEMPTED: Code = Code(0x2a, 0x05);
    pub const ACCESS_STATE_CHANGED: Code = Code(0x2a, 0x06);
    pub const CAPACITY_CHANGED: Code = Code(0x2a, 0x09);
    pub const COMMANDS_CLEARED: Code = Code(0x2f, 0x00);
    pub const THIN_THRESHOLD: Code = Code(0x38, 0x07);
    pub const SAVING_NOT_SUPPORTED: Code = Code(0x39, 0x00);
    pub const LUNS_CHANGED: Code = Code(0x3f, 0x0e);
    pub const INTERNAL_FAILURE: Code = Code(0x44, 0x00);
    pub const INSUFFICIENT_REGISTRATION_RESOURCES: Code = Code(0x55, 0x04);
}

/// Where an illegal request is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldPointer {
    /// In the CDB, or else in the parameter list.
    pub in_cdb: bool,
    /// The byte.
    pub byte: u16,
    /// The most significant bit of the field, where it is no whole byte.
    pub bit: Option<u8>,
}

/// What a command failed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sense {
    /// The kind of error.
    pub key: SenseKey,
    /// What exactly.
    pub code: Code,
    /// A block address, or where data differ.
    pub information: Option<u64>,
    /// What only this command tells.
    pub specific: Option<u64>,
    /// Where the request is wrong.
    pub field: Option<FieldPointer>,
    /// Whether the unit answers in descriptor format.
    pub descriptors: bool,
}

impl Sense {
    /// An error without details.
    pub fn new(key: SenseKey, code: Code) -> Self {
        Self { key, code, information: None, specific: None, field: None, descriptors: false }
    }

    /// The command is wrong.
    pub fn illegal(code: Code) -> Self {
        Self::new(SenseKey::IllegalRequest, code)
    }

    /// A byte of the CDB is wrong.
    pub fn cdb(byte: u16) -> Self {
        Self::illegal(code::INVALID_FIELD_IN_CDB).at(true, byte, None)
    }

    /// A field of the CDB is wrong, whose most significant bit this is.
    pub fn cdb_bit(byte: u16, bit: u8) -> Self {
        Self::illegal(code::INVALID_FIELD_IN_CDB).at(true, byte, Some(bit))
    }

    /// A byte of the parameter list is wrong.
    pub fn list(byte: usize) -> Self {
        Self::illegal(code::INVALID_FIELD_IN_LIST).at(false, byte.min(usize::from(u16::MAX)) as u16, None)
    }

    /// A field of the parameter list is wrong, whose most significant bit this is.
    pub fn list_bit(byte: usize, bit: u8) -> Self {
        Self::illegal(code::INVALID_FIELD_IN_LIST).at(false, byte.min(usize::from(u16::MAX)) as u16, Some(bit))
    }

    /// The parameter list has a wrong length.
    pub fn list_length() -> Self {
        Self::illegal(code::PARAMETER_LIST_LENGTH)
    }

    /// The opcode is what is wrong.
    pub fn opcode() -> Self {
        Self::illegal(code::INVALID_OPCODE).at(true, 0, None)
    }

    fn at(self, in_cdb: bool, byte: u16, bit: Option<u8>) -> Self {
        Self { field: Some(FieldPointer { in_cdb, byte, bit }), ..self }
    }

    /// The same with a block address or a position.
    pub fn about(self, information: u64) -> Self {
        Self { information: Some(information), ..self }
    }

    /// The same with what only this command tells.
    pub fn specifically(self, specific: u64) -> Self {
        Self { specific: Some(specific), ..self }
    }

    fn key_specific(&self) -> Option<[u8; 3]> {
        let field = self.field?;
        let flags = 0x80 | if field.in_cdb { 0x40 } else { 0 } | field.bit.map_or(0, |bit| 0x08 | (bit & 7));
        let [high, low] = field.byte.to_be_bytes();
        Some([flags, high, low])
    }

    /// The bytes on the wire, in the unit's format.
    pub fn bytes(&self) -> Vec<u8> {
        if self.descriptors { self.descriptor_format() } else { self.fixed_format() }
    }

    /// In fixed format: 18 bytes.
    pub fn fixed_format(&self) -> Vec<u8> {
        let mut bytes = vec![0; 18];
        bytes[0] = 0x70;
        bytes[2] = self.key as u8;
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = 10;
        if let Some(specific) = self.specific.and_then(|value| u32::try_from(value).ok()) {
            bytes[8..12].copy_from_slice(&specific.to_be_bytes());
        }
        (bytes[12], bytes[13]) = (self.code.0, self.code.1);
        if let Some(specific) = self.key_specific() {
            bytes[15..18].copy_from_slice(&specific);
        }
        bytes
    }

    /// In descriptor format.
    pub fn descriptor_format(&self) -> Vec<u8> {
        let mut bytes = vec![0x72, self.key as u8, self.code.0, self.code.1, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0a, 0x80, 0]);
            bytes.extend(information.to_be_bytes());
        }
        if let Some(specific) = self.specific {
            bytes.extend([0x01, 0x0a, 0, 0]);
            bytes.extend(specific.to_be_bytes());
        }
        if let Some([flags, high, low]) = self.key_specific() {
            bytes.extend([0x02, 0x06, 0, 0, flags, high, low, 0]);
        }
        bytes[7] = (bytes.len() - 8) as u8;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_tell_the_same() {
        let sense = Sense::cdb_bit(1, 7).about(0x1234_5678);
        let fixed = sense.fixed_format();
        assert_eq!(fixed[..8], [0xf0, 0, 5, 0x12, 0x34, 0x56, 0x78, 10]);
        assert_eq!(fixed[8..], [0, 0, 0, 0, 0x24, 0, 0, 0xcf, 0, 1]);
        let bytes = Sense { descriptors: true, ..sense }.bytes();
        assert_eq!(bytes[..8], [0x72, 5, 0x24, 0, 0, 0, 0, 20]);
        assert_eq!(bytes[8..20], [0, 10, 0x80, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56, 0x78]);
        assert_eq!(bytes[20..], [2, 6, 0, 0, 0xcf, 0, 1, 0]);
    }

    #[test]
    fn what_does_not_fit_the_fixed_format_is_not_valid_there() {
        let sense = Sense::new(SenseKey::MediumError, code::UNRECOVERED_READ_ERROR).about(1 << 40);
        assert_eq!(sense.fixed_format()[..7], [0x70, 0, 3, 0, 0, 0, 0]);
        assert_eq!(sense.descriptor_format()[12..20], (1_u64 << 40).to_be_bytes());
    }

    #[test]
    fn lists_are_pointed_into_without_the_bit_of_the_cdb() {
        assert_eq!(Sense::list(300).fixed_format()[15..], [0x80, 1, 44]);
        assert_eq!(Sense::list_bit(2, 4).fixed_format()[15..], [0x8c, 0, 2]);
    }
}
