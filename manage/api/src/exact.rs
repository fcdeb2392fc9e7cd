//! Numbers as text, where they may be greater than 2^53: programs whose numbers are floating-point read them exactly so.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Writes a number as text.
pub(crate) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

/// Reads a number from text.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}
