//! Names of pools, spaces and exports, checked once where they enter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 63;

/// A name: 1 to 63 of `A-Z a-z 0-9 . _ -`, beginning with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty or too long.
    #[error("a name has 1 to {MAX_NAME_BYTES} characters, '{0}' has {len}", len = .0.len())]
    Length(String),
    /// A character that names do not have.
    #[error(
        "{name:?} has the character {bad:?}: use the letters A-Z and a-z, digits, '.', '_' and '-', and begin with a letter or digit"
    )]
    Character {
        /// The text.
        name: String,
        /// The first character that does not fit.
        bad: char,
    },
    /// A space was named without its pool, or with too many parts.
    #[error("{0:?} does not name a space: write POOL/SPACE")]
    NotASpace(String),
}

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > MAX_NAME_BYTES {
            return Err(NameError::Length(text.chars().take(80).collect()));
        }
        let fits = |at: usize, c: char| c.is_ascii_alphanumeric() || (at > 0 && matches!(c, '.' | '_' | '-'));
        match text.chars().enumerate().find(|(at, c)| !fits(*at, *c)) {
            Some((_, bad)) => Err(NameError::Character { name: text.into(), bad }),
            None => Ok(Self(text.into())),
        }
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A space by pool and name, written `POOL/SPACE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SpacePath {
    /// The pool.
    pub pool: Name,
    /// The space within it.
    pub space: Name,
}

impl FromStr for SpacePath {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (pool, space) = text.split_once('/').ok_or_else(|| NameError::NotASpace(text.into()))?;
        Ok(Self { pool: pool.parse()?, space: space.parse()? })
    }
}

impl TryFrom<String> for SpacePath {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<SpacePath> for String {
    fn from(path: SpacePath) -> Self {
        path.to_string()
    }
}

impl fmt::Display for SpacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.pool, self.space))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_refused_and_say_why() {
        for bad in ["", "-x", ".", "a b", "a/b", "käse", "a\n", "\u{202e}x", &"x".repeat(64)] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
        for good in ["a", "Pool-1", "0.x_y", &"x".repeat(63)] {
            assert_eq!(good.parse::<Name>().map(|name| name.to_string()), Ok(good.to_string()));
        }
    }

    #[test]
    fn a_space_is_named_with_its_pool() {
        assert!("tank/vm".parse::<SpacePath>().is_ok());
        for bad in ["tank", "/vm", "tank/", "tank/vm/x"] {
            assert!(bad.parse::<SpacePath>().is_err(), "{bad:?}");
        }
    }
}
