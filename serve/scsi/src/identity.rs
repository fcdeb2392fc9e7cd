//! What a unit and its device say of themselves, as INQUIRY tells it (SPC-4 6.4).
//!
//! Invariant: names come from the unit's id alone, so they are the same over restarts and through every target.

use holdfast_model::Uuid;

use crate::ports::{Port, TargetPort};

/// The vendor that initiators see.
pub(crate) const VENDOR: &[u8; 8] = b"HOLDFAST";
const PRODUCT: &[u8; 16] = b"VIRTUAL DISK    ";
/// First byte of standard data for a direct access block device that is there.
pub(crate) const DISK: u8 = 0x00;
/// For a LUN that has no unit.
pub(crate) const ABSENT: u8 = 0x7f;
/// For LUN 0 without a unit: it could have one.
pub(crate) const EMPTY: u8 = 0x3f;
/// For the well known unit.
pub(crate) const WELL_KNOWN: u8 = 0x1e;

/// SAM-5, SPC-4, SBC-3, iSCSI.
const VERSIONS: [u16; 4] = [0x00a0, 0x0460, 0x04c0, 0x0960];

/// A page of vital product data with its header.
pub(crate) fn page(code: u8, body: &[u8]) -> Vec<u8> {
    [&[DISK, code], &(body.len() as u16).to_be_bytes()[..], body].concat()
}

/// Standard INQUIRY data.
pub(crate) fn standard(first: u8, copies: bool) -> Vec<u8> {
    let mut bytes = vec![0; 96];
    bytes[0] = first;
    bytes[2] = 6;
    // Hierarchical addressing, response data format 2.
    bytes[3] = 0x12;
    bytes[4] = 91;
    // Target port groups, implicit and explicit.
    bytes[5] = 0x30 | if copies { 0x08 } else { 0 };
    bytes[6] = 0x10;
    bytes[7] = 0x02;
    bytes[8..16].copy_from_slice(VENDOR);
    bytes[16..32].copy_from_slice(PRODUCT);
    bytes[32..36].copy_from_slice(b"0001");
    for (at, version) in VERSIONS.iter().enumerate() {
        bytes[58 + 2 * at..60 + 2 * at].copy_from_slice(&version.to_be_bytes());
    }
    bytes
}

/// The serial number: the unit's id in 32 hexadecimal digits.
pub(crate) fn serial(id: Uuid) -> String {
    id.simple().to_string()
}

/// The name in NAA format 6: a company id of local administration, and the last 100 bits of the unit's id.
pub(crate) fn naa(id: Uuid) -> [u8; 16] {
    let low = id.as_u128() & ((1 << 100) - 1);
    ((0x6024846 << 100) | low).to_be_bytes()
}

/// One designator: code set, association and type, and the name itself.
fn designator(bytes: &mut Vec<u8>, code_set: u8, association: u8, kind: u8, name: &[u8]) {
    // Names of ports and devices belong to the protocol: iSCSI.
    let (protocol, valid) = if association > 0 { (0x50, 0x80) } else { (0, 0) };
    bytes.extend([protocol | code_set, valid | (association << 4) | kind, 0, name.len() as u8]);
    bytes.extend(name);
}

/// A text as SCSI name strings are: ended and padded by NULs to a multiple of four bytes.
fn name_string(text: &str) -> Vec<u8> {
    let mut name = text.as_bytes().to_vec();
    name.truncate(251);
    name.resize((name.len() + 1).next_multiple_of(4), 0);
    name
}

/// The names of a unit and of the way to it, as the page of device identification has them.
pub(crate) fn names(id: Uuid, device: &str, ports: &[Port], target: &TargetPort) -> Vec<u8> {
    let mut bytes = Vec::new();
    designator(&mut bytes, 1, 0, 3, &naa(id));
    designator(&mut bytes, 2, 0, 1, &[&VENDOR[..], serial(id).as_bytes()].concat());
    designator(&mut bytes, 1, 0, 10, &[&[0x10, 0], &id.as_bytes()[..]].concat());
    designator(&mut bytes, 1, 1, 4, &[&[0, 0], &target.relative_id.to_be_bytes()[..]].concat());
    if let Some(port) = ports.iter().find(|port| port.relative_id == target.relative_id) {
        designator(&mut bytes, 1, 1, 5, &[&[0, 0], &port.group.to_be_bytes()[..]].concat());
        designator(&mut bytes, 3, 1, 8, &name_string(&port.name));
    }
    designator(&mut bytes, 3, 2, 8, &name_string(device));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_id_alone() {
        let id = Uuid::from_u128(0xf123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(serial(id), "f123456789abcdef0123456789abcdef");
        let naa = naa(id);
        assert_eq!(naa[..4], [0x60, 0x24, 0x84, 0x67]);
        assert_eq!(naa[4..], id.as_bytes()[4..]);
        assert_ne!(super::naa(Uuid::from_u128(1)), super::naa(Uuid::from_u128(2)));
    }
}
