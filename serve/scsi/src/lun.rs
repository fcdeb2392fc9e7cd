//! The eight bytes that name a logical unit (SAM-5 4.7).
//!
//! ```text
//!   00 LL 00..      peripheral, LUN 0 to 255
//!   4L LL 00..      flat space, LUN 0 to 16383
//!   C1 01 00..      the well known unit that reports LUNs
//! ```
//!
//! Invariant: a name of another form names no unit.

/// The largest LUN.
pub const MAX_LUN: u16 = 0x3fff;

/// What a LUN field names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unit(u16),
    ReportLuns,
    Unknown,
}

impl Address {
    /// Takes the field apart, which is read as a big-endian number.
    pub(crate) fn parse(lun: u64) -> Self {
        let first = (lun >> 48) as u16;
        match (lun << 16, first >> 14, first >> 8) {
            (0, 0, 0) => Self::Unit(first),
            (0, 1, _) => Self::Unit(first & MAX_LUN),
            (0, _, 0xc1) if first == 0xc101 => Self::ReportLuns,
            _ => Self::Unknown,
        }
    }
}

/// The name of unit `lun`: peripheral where that reaches, else flat.
pub fn lun_field(lun: u16) -> u64 {
    let first = if lun < 256 { lun } else { 0x4000 | (lun & MAX_LUN) };
    u64::from(first) << 48
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_found_by_its_name_and_by_no_other_form() {
        for lun in 0..=MAX_LUN {
            assert_eq!(Address::parse(lun_field(lun)), Address::Unit(lun));
            assert_eq!(Address::parse(u64::from(0x4000 | lun) << 48), Address::Unit(lun));
        }
        assert_eq!(Address::parse(0xc101 << 48), Address::ReportLuns);
        for other in [0xc102 << 48, 0x0100 << 48, 1, 0x8001 << 48, 0xd200_0000_0100_0000, 0x0001_0001 << 32] {
            assert_eq!(Address::parse(other), Address::Unknown, "{other:x}");
        }
    }
}
