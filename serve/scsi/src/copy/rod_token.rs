//! The form of a token (SPC-4 5.17.6.4, SBC-3 4.28).
//!
//! ```text
//!   0    type, reserved, length of what follows (504)
//!   8    number among the tokens of this server                 ┐ management token,
//!   16   the unit that it was made of: a CSCD descriptor        ├ with the header: what
//!   48   bytes that it stands for                               ┘ REPORT ALL ROD TOKENS shows
//!   96   length of the unit's blocks, as READ CAPACITY (16) tells it
//!   128  the target device, by name where that fits
//!   256  random
//! ```
//!
//! The type is "point in time copy, change vulnerable": what a token stands for never changes, but a change of the data
//! ends the token. That is what is kept, so no other type is promised.

use holdfast_block::{SECRET_BYTES, TOKEN_BYTES};

use crate::identity;
use crate::unit::Unit;

/// Bytes of a management token.
pub(super) const MANAGEMENT_BYTES: usize = 96;
/// The length that a token tells.
pub(super) const LENGTH: u16 = (TOKEN_BYTES - 8) as u16;
/// A copy in time, kept by whatever means.
pub(super) const POINT_IN_TIME: u32 = 0x0080_0000;
/// The same, which a change of the data may end.
pub(super) const CHANGE_VULNERABLE: u32 = 0x0080_0001;
/// The same by the best of all ways there are.
pub(super) const ANY_POINT_IN_TIME: u32 = 0x0080_ffff;
/// Zeros, as many as are wanted.
pub(super) const ZERO: u32 = 0xffff_0001;

/// Where the descriptor of the target device lies, and how long it may be.
const DEVICE_AT: usize = 128;
const DEVICE_BYTES: usize = TOKEN_BYTES - SECRET_BYTES - DEVICE_AT;

/// A designator: protocol and code set, association and type, and the name itself.
fn designator(code_set: u8, kind: u8, name: &[u8]) -> Vec<u8> {
    [&[code_set, kind, 0, name.len() as u8][..], name].concat()
}

/// The unit as a CSCD descriptor of 32 bytes (SPC-4 6.4.5.6).
pub(super) fn cscd(unit: &Unit) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[0] = 0xe4;
    let name = designator(1, 3, &identity::naa(unit.settings().id));
    bytes[4..4 + name.len()].copy_from_slice(&name);
    bytes[29..32].copy_from_slice(&(unit.block_bytes() as u32).to_be_bytes()[1..]);
    bytes
}

/// Gives the bytes before the secret their form; the number is the registry's.
pub(super) fn form(token: &mut [u8], unit: &Unit, device: &str, bytes: u64) {
    token[0..4].copy_from_slice(&CHANGE_VULNERABLE.to_be_bytes());
    token[6..8].copy_from_slice(&LENGTH.to_be_bytes());
    token[16..48].copy_from_slice(&cscd(unit));
    token[48..64].copy_from_slice(&u128::from(bytes).to_be_bytes());
    token[96..100].copy_from_slice(&(unit.block_bytes() as u32).to_be_bytes());
    token[101] = unit.settings().blocks.per_physical_exponent();
    let provisioning = unit.provisioning();
    token[102] = if provisioning.is_thin { 0x80 } else { 0 } | if provisioning.reads_zeros { 0x40 } else { 0 };
    let mut name = device.as_bytes().to_vec();
    name.resize((name.len() + 1).next_multiple_of(4), 0);
    if 4 + name.len() <= DEVICE_BYTES {
        let name = designator(0x53, 0xa8, &name);
        token[DEVICE_AT..DEVICE_AT + name.len()].copy_from_slice(&name);
    }
}
