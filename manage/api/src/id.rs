//! How a disk is named in a request.

use std::fmt;

/// A disk as a person names it: a path, a serial number or an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskRef {
    /// An absolute path.
    Path(String),
    /// A serial number or an id.
    Word(String),
}

impl DiskRef {
    /// Takes what begins with a slash for a path, everything else for a serial number or an id.
    pub fn new(text: &str) -> Self {
        if text.starts_with('/') { Self::Path(text.into()) } else { Self::Word(text.into()) }
    }

    /// The text that it was made from.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Path(text) | Self::Word(text) => text,
        }
    }
}

impl fmt::Display for DiskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
