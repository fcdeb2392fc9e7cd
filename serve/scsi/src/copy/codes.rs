//! Sense codes of the copy manager (SPC-4 5.17, annex F).

use crate::sense::Code;

pub(super) const OPERATION_IN_PROGRESS: Code = Code(0x00, 0x16);
pub(super) const COPY_INFORMATION_AVAILABLE: Code = Code(0x00, 0x20);
pub(super) const UNREACHABLE_COPY_TARGET: Code = Code(0x08, 0x04);
pub(super) const THIRD_PARTY_DEVICE_FAILURE: Code = Code(0x0d, 0x01);
pub(super) const NOT_REACHABLE: Code = Code(0x0d, 0x02);
pub(super) const WRONG_DEVICE_TYPE: Code = Code(0x0d, 0x03);
pub(super) const DATA_UNDERRUN: Code = Code(0x0d, 0x04);
pub(super) const UNSUPPORTED_TOKEN_TYPE: Code = Code(0x23, 0x01);
pub(super) const TOKEN_UNKNOWN: Code = Code(0x23, 0x04);
pub(super) const TOKEN_REVOKED: Code = Code(0x23, 0x06);
pub(super) const TOKEN_EXPIRED: Code = Code(0x23, 0x07);
pub(super) const TOKEN_CANCELLED: Code = Code(0x23, 0x08);
pub(super) const TOKEN_DELETED: Code = Code(0x23, 0x09);
pub(super) const INVALID_TOKEN_LENGTH: Code = Code(0x23, 0x0a);
pub(super) const TOO_MANY_CSCDS: Code = Code(0x26, 0x06);
pub(super) const UNSUPPORTED_CSCD: Code = Code(0x26, 0x07);
pub(super) const TOO_MANY_SEGMENTS: Code = Code(0x26, 0x08);
pub(super) const UNSUPPORTED_SEGMENT: Code = Code(0x26, 0x09);
pub(super) const INEXACT_SEGMENT: Code = Code(0x26, 0x0a);
pub(super) const INLINE_DATA_TOO_LONG: Code = Code(0x26, 0x0b);
pub(super) const INSUFFICIENT_RESOURCES: Code = Code(0x55, 0x03);
pub(super) const NO_ROOM_FOR_TOKEN: Code = Code(0x55, 0x0d);
