//! The numbers of the NBD protocol, under the names of `proto.md` without their `NBD_` prefix.
//!
//! Invariant: each value is the one that the specification prints.

/// First word of a server: "NBDMAGIC".
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of a server, and first of each option: "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First word of each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First word of a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First word of an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// First word of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First word of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// First word of an extended reply chunk.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flag: options are answered.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag: the 124 zeros after an export may be left out.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;
/// Client flag: knows that options are answered.
pub const FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Client flag: wants the 124 zeros left out.
pub const FLAG_C_NO_ZEROES: u32 = 1 << 1;
/// Zeros that follow the answer to the oldest option.
pub const EXPORT_NAME_PADDING_BYTES: usize = 124;

/// Transmission flag: the flags mean something.
pub const FLAG_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: writes are refused.
pub const FLAG_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: FLUSH is known.
pub const FLAG_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: FUA is known.
pub const FLAG_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: far reads cost a seek.
pub const FLAG_ROTATIONAL: u16 = 1 << 4;
/// Transmission flag: TRIM is known.
pub const FLAG_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: WRITE_ZEROES is known.
pub const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: reads may ask not to be fragmented.
pub const FLAG_SEND_DF: u16 = 1 << 7;
/// Transmission flag: several connections see one state, and a flush on one covers all.
pub const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag: CACHE is known.
pub const FLAG_SEND_CACHE: u16 = 1 << 10;
/// Transmission flag: WRITE_ZEROES may ask for speed or refusal.
pub const FLAG_SEND_FAST_ZERO: u16 = 1 << 11;
/// Transmission flag: BLOCK_STATUS takes a payload that filters contexts.
pub const FLAG_BLOCK_STATUS_PAYLOAD: u16 = 1 << 12;

/// Option: choose an export in the oldest way.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const OPT_ABORT: u32 = 2;
/// Option: list the exports.
pub const OPT_LIST: u32 = 3;
/// Option: go on under TLS.
pub const OPT_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const OPT_INFO: u32 = 6;
/// Option: describe an export and start transmission.
pub const OPT_GO: u32 = 7;
/// Option: answer in structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: list metadata contexts.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: choose metadata contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Option: 64-bit headers.
pub const OPT_EXTENDED_HEADERS: u32 = 11;

/// Option reply: done.
pub const REP_ACK: u32 = 1;
/// Option reply: an export.
pub const REP_SERVER: u32 = 2;
/// Option reply: a fact about an export.
pub const REP_INFO: u32 = 3;
/// Option reply: a metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// Option error: not known.
pub const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
/// Option error: not allowed.
pub const REP_ERR_POLICY: u32 = (1 << 31) + 2;
/// Option error: malformed, or at the wrong time.
pub const REP_ERR_INVALID: u32 = (1 << 31) + 3;
/// Option error: TLS first.
pub const REP_ERR_TLS_REQD: u32 = (1 << 31) + 5;
/// Option error: no such export.
pub const REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
/// Option error: longer than the server takes.
pub const REP_ERR_TOO_BIG: u32 = (1 << 31) + 9;
/// Option error: the client has extended headers already.
pub const REP_ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;

/// Fact: size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// Fact: the export's own name.
pub const INFO_NAME: u16 = 1;
/// Fact: a line for people.
pub const INFO_DESCRIPTION: u16 = 2;
/// Fact: block sizes.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Command: read.
pub const CMD_READ: u16 = 0;
/// Command: write.
pub const CMD_WRITE: u16 = 1;
/// Command: end the session.
pub const CMD_DISC: u16 = 2;
/// Command: make answered writes durable.
pub const CMD_FLUSH: u16 = 3;
/// Command: give room back.
pub const CMD_TRIM: u16 = 4;
/// Command: bring near.
pub const CMD_CACHE: u16 = 5;
/// Command: make zero.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Command: which bytes take room.
pub const CMD_BLOCK_STATUS: u16 = 7;

/// Command flag: durable when answered.
pub const CMD_FLAG_FUA: u16 = 1 << 0;
/// Command flag: zeros that take room.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag: one chunk of data.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// Command flag: one extent.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Command flag: fast or not at all.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;
/// Command flag: the length is that of a payload.
pub const CMD_FLAG_PAYLOAD_LEN: u16 = 1 << 5;

/// Chunk flag: the last of its reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;
/// Chunk: nothing but its flags.
pub const REPLY_TYPE_NONE: u16 = 0;
/// Chunk: data at an offset.
pub const REPLY_TYPE_OFFSET_DATA: u16 = 1;
/// Chunk: zeros at an offset.
pub const REPLY_TYPE_OFFSET_HOLE: u16 = 2;
/// Chunk: extents with 32-bit lengths.
pub const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Chunk: extents with 64-bit lengths.
pub const REPLY_TYPE_BLOCK_STATUS_EXT: u16 = 6;
/// Chunk: an error.
pub const REPLY_TYPE_ERROR: u16 = (1 << 15) + 1;

/// `base:allocation`: takes no room.
pub const STATE_HOLE: u32 = 1 << 0;
/// `base:allocation`: reads as zeros.
pub const STATE_ZERO: u32 = 1 << 1;

/// The metadata context that tells holes.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number on every connection.
pub const BASE_ALLOCATION_ID: u32 = 1;

/// The longest name or text that the protocol allows.
pub const MAX_TEXT_BYTES: usize = 4096;
/// The largest payload of one request or chunk: what clients may rely on.
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;
