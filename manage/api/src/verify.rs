//! What a comparison of data with their copies or parity found.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// A block that does not agree with the others that it goes with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mismatch {
    /// Where in the space, or in its journal, the data begins that it protects.
    pub offset_bytes: u64,
    /// What is wrong, or else does not agree with the others: `data`, `P`, `Q`, a copy, or a copy of the journal.
    pub piece: String,
    /// Id of the disk that holds it.
    pub disk: Uuid,
    /// Where the disk is.
    pub path: String,
    /// Where on the disk it begins.
    pub disk_offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
}

/// What a comparison of a whole space found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SpaceVerified {
    /// `POOL/SPACE`.
    pub name: String,
    /// Bytes that were read and compared.
    pub checked_bytes: u64,
    /// Bytes that could not be compared: they are not in step, or cannot be read.
    pub unchecked_bytes: u64,
    /// Blocks of 4 KiB that do not agree.
    pub mismatched_blocks: u64,
    /// The first of them; a large number is not listed in full.
    pub mismatches: Vec<Mismatch>,
}
