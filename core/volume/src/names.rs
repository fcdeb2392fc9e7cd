//! Names: what they may be, and where an entry of a directory stands by its name.
//!
//! ```text
//!   name ─▶ fold case ─▶ keyed hash, 55 bits │ sequence, 8 bits  =  slot, its place in the directory and its cursor
//! ```
//!
//! Names that differ only in case meet in one bucket, so that one index serves look-ups of both kinds. The table of
//! folding is the volume's own, made when it was: names stay where they are whatever later tables say.
//!
//! Invariant: a slot is never 0 and below 2^63.

use std::hash::Hasher;

use icu_casemap::CaseMapper;
use siphasher::sip::SipHasher13;

use crate::error::{ErrorKind, VolumeError};

/// Bytes of a name that a caller of POSIX gives, at most (`NAME_MAX` of Linux).
pub const MAX_NAME_BYTES: usize = 255;
/// Bytes of any name, at most: 255 UTF-16 units have no more in UTF-8.
pub(crate) const MOST_BYTES: usize = 765;
/// Entries of one bucket.
const BUCKET: u64 = 256;

/// How names of a volume are hashed and compared.
pub(crate) struct Names {
    fold: Box<[u16]>,
    secret: [u8; 16],
}

/// Characters and what they fold to, those that change only: what a volume keeps.
pub(crate) fn folding() -> Vec<u8> {
    let mapper = CaseMapper::new();
    let single = |code: u16| -> Option<u16> {
        let upper = mapper.simple_uppercase(char::from_u32(code.into())?);
        u16::try_from(u32::from(upper)).ok()
    };
    let changes = (0..=u16::MAX).filter_map(|code| Some((code, single(code)?))).filter(|(from, to)| from != to);
    changes.flat_map(|(from, to)| [from.to_le_bytes(), to.to_le_bytes()].concat()).collect()
}

impl Names {
    /// By the table and the secret of the volume.
    pub fn new(folding: &[u8], secret: [u8; 16]) -> Result<Self, VolumeError> {
        if !folding.len().is_multiple_of(4) {
            return Err(VolumeError::corrupt("the table of folding is not whole"));
        }
        let mut fold: Box<[u16]> = (0..=u16::MAX).collect();
        for pair in folding.chunks_exact(4) {
            let (from, to) = (u16::from_le_bytes([pair[0], pair[1]]), u16::from_le_bytes([pair[2], pair[3]]));
            fold[usize::from(from)] = to;
        }
        Ok(Self { fold, secret })
    }

    /// What names are hashed with.
    pub fn secret(&self) -> [u8; 16] {
        self.secret
    }

    /// Refuses what is no name in a volume, whoever asks.
    pub fn check(name: &[u8]) -> Result<(), VolumeError> {
        let refuse = |kind, text: &'static str| Err(VolumeError::new(kind, text));
        if name.len() > MOST_BYTES {
            return refuse(ErrorKind::NameTooLong, "a name has 765 bytes at most");
        }
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
            return refuse(ErrorKind::Invalid, "a name is not empty, not . or .., and has no / and no NUL");
        }
        if std::str::from_utf8(name).is_err() {
            return refuse(ErrorKind::BadName, "a name must be UTF-8");
        }
        Ok(())
    }

    fn folded<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let lossy = name.utf8_chunks().flat_map(|chunk| {
            let rest = (!chunk.invalid().is_empty()).then_some(char::REPLACEMENT_CHARACTER);
            chunk.valid().chars().chain(rest)
        });
        lossy.map(|character| {
            let code = u32::from(character);
            u16::try_from(code).map_or(code, |code| self.fold[usize::from(code)].into())
        })
    }

    /// Whether two names differ in case at most.
    pub fn is_alike(&self, one: &[u8], other: &[u8]) -> bool {
        self.folded(one).eq(self.folded(other))
    }

    /// The slots that a name's entry may have.
    pub fn bucket(&self, name: &[u8]) -> std::ops::Range<u64> {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        self.folded(name).for_each(|code| hasher.write_u32(code));
        let first = (hasher.finish() >> 9).max(1) * BUCKET;
        first..first + BUCKET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_case_share_a_bucket() {
        let names = Names::new(&folding(), [7; 16]).expect("a table");
        let bucket = names.bucket("Straße Ä.txt".as_bytes());
        assert_eq!(names.bucket("STRAßE ä.TXT".as_bytes()), bucket);
        assert!(names.is_alike("ǆ".as_bytes(), "Ǆ".as_bytes()), "a letter whose title case is another");
        assert!(!names.is_alike("ß".as_bytes(), b"SS"), "one letter to one");
        assert_ne!(names.bucket(b"straxe"), bucket);
        assert!(bucket.start > 0 && bucket.end < 1 << 63);
        let other = Names::new(&folding(), [8; 16]).expect("a table");
        assert_ne!(other.bucket(b"a"), names.bucket(b"a"), "another volume, another order");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let kind = |name: &[u8]| Names::check(name).err().map(|error| error.kind);
        assert_eq!(kind(&[b'x'; 765]), None);
        assert_eq!(kind(&[b'x'; 766]), Some(ErrorKind::NameTooLong));
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            assert_eq!(kind(name), Some(ErrorKind::Invalid), "{name:?}");
        }
        assert_eq!(kind(b"\xff"), Some(ErrorKind::BadName));
    }
}
