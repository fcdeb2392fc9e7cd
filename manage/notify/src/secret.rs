//! A secret as it is stored.
//!
//! Invariant: it is written to the store and handed to a sender, and to nothing else; printing it shows stars.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A password, key, token, or URL that holds one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    /// Wraps it.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
