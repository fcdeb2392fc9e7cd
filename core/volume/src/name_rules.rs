//! What names are to who asks: bytes as they stand in the volume, or what NT lets a name be.
//!
//! ```text
//!   in the volume     a*b          U+F021 (of somebody else)     bytes that are no UTF-8 (of a wreck)
//!                      │                    │                         │
//!   caller of NT      a U+F021 b   U+F02B U+F021                  U+F02B U+F180 to U+F1FF
//! ```
//!
//! What NT does not allow stands for itself in the private use area, where Services for Macintosh put it and clients on
//! macOS and Linux do. A mark before such a character says that it is meant as it is.
//!
//! Invariant: two names of a directory are never the same to a caller of NT, and each that it is shown leads back to the
//! name that is there.

use std::borrow::Cow;

use crate::error::{ErrorKind, VolumeError};
use crate::names::{MAX_NAME_BYTES, Names};
use crate::service::Caller;

/// UTF-16 units of a name for NT, at most ([MS-FSCC] 2.1.5.2).
const MOST_UNITS: usize = 255;
/// Stands before a character that is meant as it is, and before one that stands for a byte.
const MARK: char = '\u{f02b}';
/// Behind the mark, a byte that is no UTF-8 by itself.
const FIRST_BYTE: u32 = 0xf100;
/// Characters that no name has for NT, in the order of what stands for them from U+F020 on.
const FORBIDDEN: [char; 8] = ['"', '*', ':', '<', '>', '?', '\\', '|'];
const FIRST_FORBIDDEN: u32 = 0xf020;
const FIRST_CONTROL: u32 = 0xf000;

/// What names a caller gives and gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRules {
    /// Those of POSIX: names as they stand in the volume; new ones have 255 bytes at most, as `NAME_MAX` of Linux.
    #[default]
    Posix,
    /// Those of NT ([MS-FSCC] 2.1.5.2), in UTF-8: 255 UTF-16 units at most, without control characters and
    /// `" * / : < > ? \ |`. Where a name in the volume has such, characters of the private use area stand for them, both
    /// ways. What Windows adds to these rules, as names of devices and of what may stand last, is no concern of a file
    /// system.
    Nt,
    /// Names as they stand in the volume, by whatever rules they came: for who makes again what was there.
    Stored,
}

fn from_code(code: u32) -> char {
    char::from_u32(code).expect("a character of the private use area")
}

/// What stands for a character that NT does not allow in a name.
fn stand_in(character: char) -> Option<char> {
    match u32::from(character) {
        code @ 1..=0x1f => Some(from_code(FIRST_CONTROL + code)),
        _ => {
            let at = FORBIDDEN.iter().position(|forbidden| *forbidden == character)?;
            Some(from_code(FIRST_FORBIDDEN + at as u32))
        }
    }
}

/// What a character stands for.
fn stands_for(character: char) -> Option<char> {
    match u32::from(character) {
        code @ 0xf001..=0xf01f => char::from_u32(code - FIRST_CONTROL),
        code @ 0xf020..=0xf027 => Some(FORBIDDEN[(code - FIRST_FORBIDDEN) as usize]),
        _ => None,
    }
}

/// A name of the volume as a caller of NT sees it.
fn shown(name: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == MARK || stands_for(character).is_some() {
                text.push(MARK);
            }
            text.push(stand_in(character).unwrap_or(character));
        }
        for byte in chunk.invalid() {
            text.extend([MARK, from_code(FIRST_BYTE + u32::from(*byte))]);
        }
    }
    text.into_bytes()
}

/// Whether a name is the same to everybody: nothing of it is below U+0020, forbidden, or from U+F000 to U+F03F.
fn is_plain(name: &[u8]) -> bool {
    let is_special = |byte: &u8| *byte < 0x20 || FORBIDDEN.contains(&char::from(*byte));
    !name.iter().any(is_special) && !name.windows(2).any(|two| two == [0xef, 0x80]) && std::str::from_utf8(name).is_ok()
}

/// The name of the volume that a caller of NT means.
fn meant(name: &str) -> Vec<u8> {
    let mut stored = Vec::with_capacity(name.len());
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        let character = match character {
            MARK => match characters.next() {
                Some(byte @ '\u{f180}'..='\u{f1ff}') => {
                    stored.push((u32::from(byte) - FIRST_BYTE) as u8);
                    continue;
                }
                other => other.unwrap_or(MARK),
            },
            other => stands_for(other).unwrap_or(other),
        };
        stored.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    stored
}

/// The same, of a name that is one for NT.
fn of_nt(name: &[u8]) -> Result<Cow<'_, [u8]>, VolumeError> {
    let refuse = |text: &'static str| Err(VolumeError::new(ErrorKind::BadName, text));
    let Ok(text) = std::str::from_utf8(name) else { return refuse("a name must be UTF-8") };
    if text.chars().any(|character| character == '/' || character == '\0' || stand_in(character).is_some()) {
        return refuse("a name has no control characters and none of \" * / : < > ? \\ | for callers of NT");
    }
    if is_plain(name) {
        return Ok(Cow::Borrowed(name));
    }
    let stored = meant(text);
    if shown(&stored) != name {
        return refuse("the mark U+F02B stands before a character of the private use area only");
    }
    Ok(Cow::Owned(stored))
}

impl Caller {
    /// The name of the volume that the caller means.
    pub(crate) fn meant<'a>(&self, name: &'a [u8]) -> Result<Cow<'a, [u8]>, VolumeError> {
        if self.names == NameRules::Nt { of_nt(name) } else { Ok(Cow::Borrowed(name)) }
    }

    /// The same of a name that is to be given, if it may be.
    pub(crate) fn new_name<'a>(&self, name: &'a [u8]) -> Result<Cow<'a, [u8]>, VolumeError> {
        let too_long = |text: &'static str| Err(VolumeError::new(ErrorKind::NameTooLong, text));
        let stored = self.meant(name)?;
        let units = || std::str::from_utf8(name).map_or(name.len(), |name| name.encode_utf16().count());
        match self.names {
            NameRules::Posix if name.len() > MAX_NAME_BYTES => return too_long("a name has 255 bytes at most"),
            NameRules::Nt if units() > MOST_UNITS => return too_long("a name has 255 characters at most"),
            _ => Names::check(&stored)?,
        }
        Ok(stored)
    }

    /// A name of the volume as the caller sees it.
    pub(crate) fn shown(&self, name: Vec<u8>) -> Vec<u8> {
        if self.names == NameRules::Nt && !is_plain(&name) { shown(&name) } else { name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nt() -> Caller {
        Caller { names: NameRules::Nt, ..Caller::default() }
    }

    fn kind(caller: &Caller, name: &[u8]) -> Option<ErrorKind> {
        caller.new_name(name).err().map(|error| error.kind)
    }

    #[test]
    fn what_nt_does_not_allow_is_refused() {
        for forbidden in (1..0x20).map(char::from_u32).map(Option::unwrap).chain("\"*/:<>?\\|\0".chars()) {
            let name = format!("a{forbidden}b");
            assert_eq!(kind(&nt(), name.as_bytes()), Some(ErrorKind::BadName), "{name:?}");
            let is_of_posix = !"/\0".contains(forbidden);
            assert_eq!(kind(&Caller::default(), name.as_bytes()).is_none(), is_of_posix, "{name:?}");
        }
        // What only Windows minds, not its file systems.
        for allowed in ["CON", "nul.txt", "a.", "a ", " a", "...", "a;b", "\u{7f}", "\u{85}", "~1", "\u{f028}"] {
            assert_eq!(nt().new_name(allowed.as_bytes()), Ok(Cow::Borrowed(allowed.as_bytes())));
        }
        assert_eq!(kind(&nt(), b"\xff"), Some(ErrorKind::BadName));
        for none in [&b""[..], b".", b".."] {
            assert_eq!(kind(&nt(), none), Some(ErrorKind::Invalid));
        }
    }

    #[test]
    fn names_are_measured_in_what_their_callers_count() {
        let (long, longer) = ("ü".repeat(255), "ü".repeat(256));
        let pairs = "\u{1f600}".repeat(127);
        assert_eq!((kind(&nt(), long.as_bytes()), kind(&nt(), pairs.as_bytes())), (None, None));
        assert_eq!(kind(&nt(), longer.as_bytes()), Some(ErrorKind::NameTooLong));
        assert_eq!(kind(&nt(), format!("{pairs}\u{1f600}").as_bytes()), Some(ErrorKind::NameTooLong));
        assert_eq!(kind(&Caller::default(), long.as_bytes()), Some(ErrorKind::NameTooLong));
        let stored = Caller { names: NameRules::Stored, ..Caller::default() };
        assert_eq!(kind(&stored, "\u{20ac}".repeat(255).as_bytes()), None);
        assert_eq!(kind(&stored, "\u{20ac}".repeat(256).as_bytes()), Some(ErrorKind::NameTooLong));
    }

    #[test]
    fn every_name_is_shown_as_one_of_nt_and_leads_back() {
        let special: Vec<char> = (1..0x30)
            .chain(0xf000..0xf030)
            .chain(0xf17f..0xf202)
            .chain([0x5c, 0x7c, 0x3a, 0x3c, 0x3e, 0x3f, 0xfc, 0x1f600])
            .filter_map(char::from_u32)
            .filter(|character| *character != '/')
            .collect();
        let mut seen = std::collections::BTreeMap::new();
        let mut check = |stored: Vec<u8>| {
            let name = nt().shown(stored.clone());
            let text = std::str::from_utf8(&name).expect("it is shown as UTF-8");
            assert!(text.chars().all(|character| character != '/' && stand_in(character).is_none()), "{text:?}");
            assert_eq!(nt().meant(&name).as_deref(), Ok(&stored[..]), "{text:?}");
            assert_eq!(seen.insert(name, stored.clone()).filter(|other| *other != stored), None);
        };
        for one in &special {
            for other in &special {
                check(format!("{one}{other}").into_bytes());
            }
            for bytes in [&b"\xff"[..], b"\x80\xc3", b"\xef\x80"] {
                check([one.to_string().as_bytes(), bytes].concat());
                check([bytes, one.to_string().as_bytes()].concat());
            }
        }
        assert_eq!(nt().shown(b"a:b|*".to_vec()), "a\u{f022}b\u{f027}\u{f021}".as_bytes());
        assert_eq!(Caller::default().shown(b"a:b".to_vec()), b"a:b");
    }

    #[test]
    fn a_mark_without_a_meaning_is_no_name() {
        for name in ["\u{f02b}", "a\u{f02b}b", "\u{f02b}\u{f02b}\u{f02b}", "\u{f02b}\u{f1c3}\u{f02b}\u{f1a4}"] {
            assert_eq!(nt().meant(name.as_bytes()).map_err(|error| error.kind), Err(ErrorKind::BadName), "{name:?}");
        }
        assert_eq!(
            kind(&nt(), "\u{f02b}\u{f1ff}".as_bytes()),
            Some(ErrorKind::BadName),
            "no new name is other than UTF-8"
        );
    }
}
