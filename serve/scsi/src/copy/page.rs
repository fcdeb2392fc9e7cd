//! What the copy manager tells of itself: VPD page 8Fh (SPC-4 7.8.17, SBC-3 6.6.9), and the operating parameters (SPC-4
//! 6.22), which tell the same.

use crate::unit::Unit;

use super::limits::*;
use super::rod_token::{ANY_POINT_IN_TIME, CHANGE_VULNERABLE, POINT_IN_TIME, ZERO};
use super::segments::SEGMENT_TYPES;

/// Service actions of EXTENDED COPY (83h) and RECEIVE COPY RESULTS (84h).
const ACTIONS: [(u8, &[u8]); 2] = [(0x83, &[0x00, 0x01, 0x10, 0x11, 0x1c]), (0x84, &[0, 1, 3, 4, 5, 7, 8])];
/// CSCD identification descriptors.
const CSCD_TYPES: [u8; 1] = [0xe4];
/// Copies of one nexus with one unit at once.
const CONCURRENT: u32 = OPERATIONS as u32;

fn descriptor(page: &mut Vec<u8>, kind: u16, mut body: Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
    page.extend(kind.to_be_bytes());
    page.extend((body.len() as u16).to_be_bytes());
    page.extend(body);
}

/// A list behind its length in one byte.
fn counted(list: Vec<u8>) -> Vec<u8> {
    [vec![list.len() as u8], list].concat()
}

/// The types of descriptors that are known, in order.
fn descriptor_types() -> Vec<u8> {
    SEGMENT_TYPES.into_iter().chain(CSCD_TYPES).collect()
}

/// The body of VPD page 8Fh.
pub(super) fn third_party_copy(unit: &Unit) -> Vec<u8> {
    let mut page = Vec::new();
    let blocks = |bytes: u64| (bytes / unit.block_bytes()).to_be_bytes();

    let mut limits = vec![0; 6];
    limits.extend((RANGES as u16).to_be_bytes());
    limits.extend(MAX_TIMEOUT_SECONDS.to_be_bytes());
    limits.extend(DEFAULT_TIMEOUT_SECONDS.to_be_bytes());
    limits.extend(blocks(TOKEN_DATA_BYTES));
    limits.extend(blocks(OPTIMAL_BYTES));
    descriptor(&mut page, 0x0000, limits);

    let commands = ACTIONS.iter().flat_map(|(code, actions)| [&[*code, actions.len() as u8], *actions].concat());
    descriptor(&mut page, 0x0001, counted(commands.collect()));

    let mut parameters = vec![0; 4];
    parameters.extend((CSCDS as u16).to_be_bytes());
    parameters.extend((SEGMENTS as u16).to_be_bytes());
    parameters.extend((DESCRIPTOR_BYTES as u32).to_be_bytes());
    parameters.resize(28, 0);
    descriptor(&mut page, 0x0004, parameters);

    descriptor(&mut page, 0x0008, counted(descriptor_types()));
    // The unit itself.
    descriptor(&mut page, 0x000c, vec![0, 2, 0xff, 0xff]);

    let mut features = vec![0; 44];
    // Tokens of other devices of this server are taken, too; none is made of what others hold.
    features[0] = 4;
    // The least and the greatest life: as long as it is used.
    features[12..16].copy_from_slice(&1_u32.to_be_bytes());
    features[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    features[20..24].copy_from_slice(&MAX_TIMEOUT_SECONDS.to_be_bytes());
    features[42..44].copy_from_slice(&48_u16.to_be_bytes());
    let mut block = vec![0, 0, 0, 0x2c, 0, 0];
    block.extend(((4096 / unit.block_bytes()) as u16).to_be_bytes());
    block.extend(TOKEN_DATA_BYTES.to_be_bytes());
    block.extend(OPTIMAL_BYTES.to_be_bytes());
    block.extend(u64::MAX.to_be_bytes());
    block.extend(OPTIMAL_BYTES.to_be_bytes());
    block.resize(48, 0);
    features.extend(block);
    descriptor(&mut page, 0x0106, features);

    let mut types = vec![0, 0];
    let known = [(POINT_IN_TIME, 0x00), (CHANGE_VULNERABLE, 0x03), (ANY_POINT_IN_TIME, 0x00), (ZERO, 0x02)];
    types.extend((64 * known.len() as u16).to_be_bytes());
    for (kind, taken_and_given) in known {
        types.extend(kind.to_be_bytes());
        types.push(taken_and_given);
        types.resize(types.len() + 59, 0);
    }
    descriptor(&mut page, 0x0108, types);

    let mut operations = CONCURRENT.to_be_bytes().to_vec();
    operations.extend(CONCURRENT.to_be_bytes());
    operations.extend((SEGMENT_BYTES as u32).to_be_bytes());
    operations.resize(32, 0);
    descriptor(&mut page, 0x8001, operations);

    // No data are held for the initiator.
    descriptor(&mut page, 0xc001, vec![0; 28]);
    page
}

/// The operating parameters, with their length.
pub(super) fn operating_parameters() -> Vec<u8> {
    // Copies that nobody is to ask for need no identifier.
    let mut data = vec![0, 0, 0, 0, 1, 0, 0, 0];
    data.extend((CSCDS as u16).to_be_bytes());
    data.extend((SEGMENTS as u16).to_be_bytes());
    data.extend((DESCRIPTOR_BYTES as u32).to_be_bytes());
    data.extend((SEGMENT_BYTES as u32).to_be_bytes());
    // No inline data, no data held, no streams.
    data.extend([0; 14]);
    data.extend((CONCURRENT as u16).to_be_bytes());
    data.push(CONCURRENT as u8);
    data.extend([0; 6]);
    data.extend(counted(descriptor_types()));
    let len = data.len() as u32 - 4;
    data[..4].copy_from_slice(&len.to_be_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operating_parameters_lie_where_they_belong() {
        let data = operating_parameters();
        assert_eq!(data[..4], (data.len() as u32 - 4).to_be_bytes());
        assert_eq!(data[8..12], [0, 64, 1, 0]);
        assert_eq!(data[34..37], [0, 32, 32]);
        assert_eq!(data[43..], [4, 0x02, 0x07, 0x0a, 0xe4]);
    }
}
