//! Security identifiers: the names of users and groups that every descriptor and token is made of ([MS-DTYP] 2.4.2).
//!
//! ```text
//!   S-1-5-21-1004336348-1177238915-682003330-512
//!     │ │ └────────── domain ──────────────┘ └── relative id (RID)
//!     │ └ authority, 48 bits
//!     └ revision
//! ```
//!
//! Invariant: subauthorities behind the count are zero, so equal identifiers are equal in every bit.

use std::fmt;
use std::str::FromStr;

use holdfast_model::wire::{Reader, WireError};
use serde::{Deserialize, Serialize};

/// The most subauthorities that an identifier has ([MS-DTYP] 2.4.2.2).
pub const MAX_SUBAUTHORITIES: usize = 15;

/// The only revision there is.
const REVISION: u8 = 1;

/// A security identifier. It is copied rather than shared: 68 bytes, without a pointer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sid {
    count: u8,
    authority: [u8; 6],
    subauthorities: [u32; MAX_SUBAUTHORITIES],
}

/// Why bytes or a text are no security identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SidError {
    /// Fewer bytes than its count of subauthorities needs, or more behind them.
    #[error("a security identifier of {0} bytes does not have the length that its count of subauthorities needs")]
    Length(usize),
    /// Another revision than 1.
    #[error("a security identifier has revision {0}; only revision 1 exists")]
    Revision(u8),
    /// More than 15 subauthorities.
    #[error("a security identifier has {0} subauthorities; it can have 15")]
    TooLong(usize),
    /// An authority over 48 bits.
    #[error("the authority {0} of a security identifier needs more than 48 bits")]
    Authority(u64),
    /// A text of another form.
    #[error("{0:?} is no security identifier: write S-1-AUTHORITY-NUMBER-…, as in S-1-5-32-544")]
    Text(String),
}

impl Sid {
    /// An identifier of an authority (48 bits) and up to 15 subauthorities.
    ///
    /// # Errors
    /// [`SidError::Authority`], [`SidError::TooLong`].
    pub fn new(authority: u64, subauthorities: &[u32]) -> Result<Self, SidError> {
        if authority >> 48 != 0 {
            return Err(SidError::Authority(authority));
        }
        if subauthorities.len() > MAX_SUBAUTHORITIES {
            return Err(SidError::TooLong(subauthorities.len()));
        }
        Ok(Self::known(authority, subauthorities))
    }

    /// An identifier that is known to be one.
    pub(crate) const fn known(authority: u64, from: &[u32]) -> Self {
        assert!(authority >> 48 == 0 && from.len() <= MAX_SUBAUTHORITIES);
        let [_, _, authority @ ..] = authority.to_be_bytes();
        let mut subauthorities = [0; MAX_SUBAUTHORITIES];
        let mut at = 0;
        while at < from.len() {
            subauthorities[at] = from[at];
            at += 1;
        }
        Self { count: from.len() as u8, authority, subauthorities }
    }

    /// The authority: 5 is NT itself.
    pub fn authority(&self) -> u64 {
        let [a, b, c, d, e, f] = self.authority;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The numbers below the authority.
    pub fn subauthorities(&self) -> &[u32] {
        &self.subauthorities[..self.count.into()]
    }

    /// The last of these, which tells accounts of a domain apart.
    pub fn rid(&self) -> Option<u32> {
        self.subauthorities().last().copied()
    }

    /// The identifier without its last number.
    pub fn domain(&self) -> Option<Self> {
        let (_, domain) = self.subauthorities().split_last()?;
        Some(Self::known(self.authority(), domain))
    }

    /// An account of this domain.
    ///
    /// # Errors
    /// [`SidError::TooLong`] if the domain has 15 subauthorities already.
    pub fn with_rid(&self, rid: u32) -> Result<Self, SidError> {
        let mut account = *self;
        let count = usize::from(self.count);
        *account.subauthorities.get_mut(count).ok_or(SidError::TooLong(count + 1))? = rid;
        account.count += 1;
        Ok(account)
    }

    /// Bytes of the binary form: 8, and 4 for each subauthority.
    pub fn len_bytes(&self) -> usize {
        8 + 4 * usize::from(self.count)
    }

    /// Reads the binary form off the front ([MS-DTYP] 2.4.2.2).
    ///
    /// # Errors
    /// [`SidError`] for what is no identifier; the reader may have gone on then.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, SidError> {
        let given = reader.remaining();
        let short = |_: WireError| SidError::Length(given);
        let revision = reader.u8().map_err(short)?;
        if revision != REVISION {
            return Err(SidError::Revision(revision));
        }
        let count = reader.u8().map_err(short)?;
        if usize::from(count) > MAX_SUBAUTHORITIES {
            return Err(SidError::TooLong(count.into()));
        }
        let authority = reader.array().map_err(short)?;
        let mut subauthorities = [0; MAX_SUBAUTHORITIES];
        for into in &mut subauthorities[..count.into()] {
            *into = reader.u32().map_err(short)?;
        }
        Ok(Self { count, authority, subauthorities })
    }

    /// The identifier that these bytes are, all of them.
    ///
    /// # Errors
    /// [`SidError`], also for bytes behind it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SidError> {
        let mut reader = Reader::new(bytes);
        let sid = Self::read(&mut reader)?;
        if reader.remaining() != 0 {
            return Err(SidError::Length(bytes.len()));
        }
        Ok(sid)
    }

    /// Appends the binary form.
    pub fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&[REVISION, self.count]);
        into.extend_from_slice(&self.authority);
        for number in self.subauthorities() {
            into.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// The binary form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len_bytes());
        self.write(&mut bytes);
        bytes
    }
}

/// The text form ([MS-DTYP] 2.4.2.1): an authority of 2^32 or more in hexadecimal digits.
impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.authority();
        if authority >> 32 == 0 {
            write!(f, "S-{REVISION}-{authority}")?;
        } else {
            write!(f, "S-{REVISION}-0x{authority:012X}")?;
        }
        self.subauthorities().iter().try_for_each(|number| write!(f, "-{number}"))
    }
}

impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A number in decimal digits, or in hexadecimal ones behind 0x; without a sign.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let is_digit = |letter: u8| char::from(letter).is_digit(radix);
    if digits.is_empty() || digits.len() > 20 || !digits.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

impl FromStr for Sid {
    type Err = SidError;

    fn from_str(text: &str) -> Result<Self, SidError> {
        let bad = || SidError::Text(text.chars().take(80).collect());
        let mut parts = text.split('-');
        if !parts.next().is_some_and(|letter| letter.eq_ignore_ascii_case("s")) || parts.next() != Some("1") {
            return Err(bad());
        }
        let authority = parts.next().and_then(number).ok_or_else(bad)?;
        let (mut subauthorities, mut count) = ([0; MAX_SUBAUTHORITIES], 0);
        for part in parts {
            let value = number(part).and_then(|value| u32::try_from(value).ok()).ok_or_else(bad)?;
            *subauthorities.get_mut(count).ok_or(SidError::TooLong(count + 1))? = value;
            count += 1;
        }
        Self::new(authority, &subauthorities[..count])
    }
}

impl TryFrom<String> for Sid {
    type Error = SidError;

    fn try_from(text: String) -> Result<Self, SidError> {
        text.parse()
    }
}

impl From<Sid> for String {
    fn from(sid: Sid) -> Self {
        sid.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Administrators, in bytes as in [MS-DTYP] 2.4.2.2.
    const ADMINISTRATORS: [u8; 16] = [1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0];

    #[test]
    fn the_forms_agree() {
        let sid = Sid::from_bytes(&ADMINISTRATORS).expect("a SID");
        assert_eq!((sid.to_string().as_str(), sid.authority(), sid.rid()), ("S-1-5-32-544", 5, Some(544)));
        assert_eq!((sid.to_bytes().as_slice(), sid.len_bytes()), (&ADMINISTRATORS[..], 16));
        assert_eq!(sid.domain().and_then(|domain| domain.with_rid(544).ok()), Some(sid));
        assert_eq!("s-1-5-32-0x220".parse(), Ok(sid));
        assert_eq!(serde_json::to_string(&sid).expect("text"), "\"S-1-5-32-544\"");
        let large = Sid::new(1 << 40, &[7]).expect("a SID");
        assert_eq!(large.to_string(), "S-1-0x010000000000-7");
        assert_eq!(large.to_string().parse(), Ok(large));
    }

    #[test]
    fn hostile_bytes_and_texts_are_refused() {
        for len in 0..ADMINISTRATORS.len() {
            assert!(Sid::from_bytes(&ADMINISTRATORS[..len]).is_err(), "{len} bytes");
        }
        assert_eq!(Sid::from_bytes(&[&ADMINISTRATORS[..], &[0]].concat()), Err(SidError::Length(17)));
        assert_eq!(Sid::from_bytes(&[2, 0, 0, 0, 0, 0, 0, 5]), Err(SidError::Revision(2)));
        let long: Vec<u8> = [1, 16, 0, 0, 0, 0, 0, 5].into_iter().chain([0; 64]).collect();
        assert_eq!(Sid::from_bytes(&long), Err(SidError::TooLong(16)));
        assert_eq!(Sid::new(1 << 48, &[]), Err(SidError::Authority(1 << 48)));
        assert_eq!(Sid::new(5, &[0; 15]).and_then(|full| full.with_rid(1)), Err(SidError::TooLong(16)));
        let many = format!("S-1-5{}", "-1".repeat(16));
        let texts =
            ["", "S-1", "S-2-5", "S-1-", "S-1-5-", "S-1-5-4294967296", "S-1-5-+1", "S-1--1", "S-1-0x", "S-1-5-ä"];
        for bad in texts.into_iter().chain([many.as_str(), "S-1-0x1000000000000-1", "S-1-5-1 "]) {
            assert!(bad.parse::<Sid>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_account_without_a_domain_has_none() {
        let authority = Sid::new(5, &[]).expect("a SID");
        assert_eq!((authority.domain(), authority.rid(), authority.to_string().as_str()), (None, None, "S-1-5"));
    }
}
