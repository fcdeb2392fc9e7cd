//! Every number of the protocol that is used here (RFC 7143 11).

#![allow(missing_docs)]

/// Bytes of a basic header.
pub const HEADER_BYTES: usize = 48;
/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;
/// A tag that stands for none.
pub const NO_TAG: u32 = 0xffff_ffff;
/// The longest data segment that a header can announce.
pub const MAX_SEGMENT_BYTES: usize = (1 << 24) - 1;
/// The longest data segment before another is agreed on, and during login (13.12).
pub const DEFAULT_SEGMENT_BYTES: u32 = 8192;

// What initiators send.
pub const NOP_OUT: u8 = 0x00;
pub const SCSI_COMMAND: u8 = 0x01;
pub const TASK_MANAGEMENT: u8 = 0x02;
pub const LOGIN: u8 = 0x03;
pub const TEXT: u8 = 0x04;
pub const DATA_OUT: u8 = 0x05;
pub const LOGOUT: u8 = 0x06;
pub const SNACK: u8 = 0x10;

// What targets send.
pub const NOP_IN: u8 = 0x20;
pub const SCSI_RESPONSE: u8 = 0x21;
pub const TASK_MANAGEMENT_RESPONSE: u8 = 0x22;
pub const LOGIN_RESPONSE: u8 = 0x23;
pub const TEXT_RESPONSE: u8 = 0x24;
pub const DATA_IN: u8 = 0x25;
pub const LOGOUT_RESPONSE: u8 = 0x26;
pub const READY_TO_TRANSFER: u8 = 0x31;
pub const ASYNC_MESSAGE: u8 = 0x32;
pub const REJECT: u8 = 0x3f;

// Flags in the second byte.
pub const FLAG_FINAL: u8 = 0x80;
pub const FLAG_TRANSIT: u8 = 0x80;
pub const FLAG_CONTINUE: u8 = 0x40;
pub const COMMAND_READ: u8 = 0x40;
pub const COMMAND_WRITE: u8 = 0x20;
pub const DATA_IN_STATUS: u8 = 0x01;
pub const RESIDUAL_UNDERFLOW: u8 = 0x02;
pub const RESIDUAL_OVERFLOW: u8 = 0x04;

// Additional headers (11.2.2.1).
pub const AHS_EXTENDED_CDB: u8 = 1;
pub const AHS_READ_LENGTH: u8 = 2;

// Responses to commands (11.4.3).
pub const RESPONSE_COMPLETED: u8 = 0;

// Task management (11.5.1, 11.6.1).
pub const ABORT_TASK: u8 = 1;
pub const ABORT_TASK_SET: u8 = 2;
pub const CLEAR_ACA: u8 = 3;
pub const CLEAR_TASK_SET: u8 = 4;
pub const LOGICAL_UNIT_RESET: u8 = 5;
pub const TARGET_WARM_RESET: u8 = 6;
pub const TARGET_COLD_RESET: u8 = 7;
pub const TASK_REASSIGN: u8 = 8;
pub const FUNCTION_COMPLETE: u8 = 0;
pub const TASK_DOES_NOT_EXIST: u8 = 1;
pub const LUN_DOES_NOT_EXIST: u8 = 2;
pub const REASSIGNMENT_NOT_SUPPORTED: u8 = 4;
pub const FUNCTION_NOT_SUPPORTED: u8 = 5;
pub const FUNCTION_REJECTED: u8 = 255;

// Reasons of rejects (11.17.1).
pub const REJECT_DATA_DIGEST: u8 = 0x02;
pub const REJECT_SNACK: u8 = 0x03;
pub const REJECT_PROTOCOL: u8 = 0x04;
pub const REJECT_NOT_SUPPORTED: u8 = 0x05;
pub const REJECT_TASK_IN_PROGRESS: u8 = 0x07;
pub const REJECT_INVALID_FIELD: u8 = 0x09;
pub const REJECT_OUT_OF_RESOURCES: u8 = 0x0a;

// Asynchronous messages (11.9.1).
pub const ASYNC_SCSI: u8 = 0;
pub const ASYNC_LOGOUT: u8 = 1;

// Logout (11.14.1, 11.15.1).
pub const LOGOUT_SESSION: u8 = 0;
pub const LOGOUT_CONNECTION: u8 = 1;
pub const LOGOUT_RECOVERY: u8 = 2;
pub const LOGOUT_DONE: u8 = 0;
pub const LOGOUT_NO_CONNECTION: u8 = 1;
pub const LOGOUT_NO_RECOVERY: u8 = 2;

// Stages of a login (11.12.3).
pub const STAGE_SECURITY: u8 = 0;
pub const STAGE_OPERATIONAL: u8 = 1;
pub const STAGE_FULL_FEATURE: u8 = 3;
