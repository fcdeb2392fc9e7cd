//! How much the copy manager takes on. VPD page 8Fh and the operating parameters tell the same figures.
//!
//! Invariant: what a parameter list makes the server hold or do is bounded here.

/// Bytes of a parameter list that are looked at, at most.
pub(super) const LIST_BYTES: u32 = 64 << 10;
/// CSCD descriptors in one EXTENDED COPY.
pub(super) const CSCDS: usize = 64;
/// Segment descriptors in one EXTENDED COPY.
pub(super) const SEGMENTS: usize = 256;
/// Bytes of both lists together.
pub(super) const DESCRIPTOR_BYTES: usize = 16 << 10;
/// Bytes that one segment moves.
pub(super) const SEGMENT_BYTES: u64 = 1 << 30;
/// Ranges in one POPULATE TOKEN or WRITE USING TOKEN.
pub(super) const RANGES: usize = 512;
/// Bytes that one token stands for, and that one WRITE USING TOKEN moves.
pub(super) const TOKEN_DATA_BYTES: u64 = 16 << 40;
/// Bytes that initiators had better move by one command, so that it ends within their patience where data are moved.
pub(super) const OPTIMAL_BYTES: u64 = 1 << 30;
/// Seconds that a token lives unused, where the initiator does not say.
pub(super) const DEFAULT_TIMEOUT_SECONDS: u32 = 60;
/// And at most.
pub(super) const MAX_TIMEOUT_SECONDS: u32 = 3600;
/// Copy operations of one nexus with one unit at once.
pub(crate) const OPERATIONS: usize = 32;
/// Of those that are over, whose results are kept.
pub(crate) const RESULTS: usize = 32;
