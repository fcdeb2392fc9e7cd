//! Sizes in bytes as people write them: `4GiB`, `256 KiB`, `1.5TiB`, `1000000`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes. Prints in the largest binary unit that keeps it short; serialises as a plain number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ByteSizeError {
    /// The text does not begin with a number.
    #[error("'{0}' is not a size: write a number with a unit, for example 256KiB, 4GiB or 1.5TiB")]
    NotANumber(String),
    /// The unit is not one of the known ones.
    #[error(
        "'{0}' has an unknown unit: use B, KiB, MiB, GiB, TiB, PiB, EiB (powers of 1024) or kB, MB, GB, TB, PB, EB \
         (powers of 1000)"
    )]
    UnknownUnit(String),
    /// More than 2^64 - 1 bytes, or a fraction of a byte.
    #[error("'{0}' is not a whole number of bytes below 16 EiB")]
    OutOfRange(String),
}

const BINARY: [(&str, u32); 7] =
    [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("PiB", 50), ("EiB", 60)];

impl ByteSize {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// `n` TiB.
    pub const fn tib(n: u64) -> Self {
        Self(n << 40)
    }

    /// The plain number.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The whole number: `1,000,001,536 bytes`.
    pub fn exact(self) -> String {
        let digits = self.0.to_string();
        let first = (digits.len() - 1) % 3 + 1;
        let groups = digits.as_bytes()[first..].chunks(3).map(String::from_utf8_lossy);
        let number = groups.fold(digits[..first].to_owned(), |number, group| number + "," + &group);
        format!("{number} byte{}", if self.0 == 1 { "" } else { "s" })
    }

    /// As it is printed, or exactly where it would be taken for `other`, which is another size.
    pub fn beside(self, other: Self) -> String {
        let shift = BINARY.iter().map(|(_, shift)| *shift).rfind(|shift| self.0.max(other.0) >> shift > 0).unwrap_or(0);
        let rounded = |size: Self| format!("{:.2}", size.0 as f64 / (1u64 << shift) as f64);
        if self != other && rounded(self) == rounded(other) { self.exact() } else { self.to_string() }
    }
}

fn unit_bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let power = |base: u64, exponent: u32| base.checked_pow(exponent);
    match unit.as_str() {
        "" | "b" => Some(1),
        "k" | "kib" => power(1024, 1),
        "m" | "mib" => power(1024, 2),
        "g" | "gib" => power(1024, 3),
        "t" | "tib" => power(1024, 4),
        "p" | "pib" => power(1024, 5),
        "e" | "eib" => power(1024, 6),
        "kb" => power(1000, 1),
        "mb" => power(1000, 2),
        "gb" => power(1000, 3),
        "tb" => power(1000, 4),
        "pb" => power(1000, 5),
        "eb" => power(1000, 6),
        _ => None,
    }
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        if number.is_empty() {
            return Err(ByteSizeError::NotANumber(text.into()));
        }
        let unit = unit_bytes(unit.trim()).ok_or_else(|| ByteSizeError::UnknownUnit(text.into()))?;
        let out_of_range = || ByteSizeError::OutOfRange(text.into());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let not_a_number = || ByteSizeError::NotANumber(text.into());
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(not_a_number());
        }
        let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| out_of_range())? };
        let mut bytes = whole.checked_mul(unit.into()).ok_or_else(out_of_range)?;
        if !fraction.is_empty() {
            let scale = 10u128.checked_pow(fraction.len() as u32).ok_or_else(out_of_range)?;
            let parts: u128 = fraction.parse().map_err(|_| out_of_range())?;
            let scaled = parts.checked_mul(unit.into()).ok_or_else(out_of_range)?;
            if scaled % scale != 0 {
                return Err(out_of_range());
            }
            bytes += scaled / scale;
        }
        u64::try_from(bytes).map(Self).map_err(|_| out_of_range())
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = BINARY.iter().rev().find(|(_, shift)| self.0 >> shift > 0).copied().unwrap_or(BINARY[0]);
        if self.0.trailing_zeros() >= shift {
            f.pad(&format!("{} {unit}", self.0 >> shift))
        } else {
            f.pad(&format!("{:.2} {unit}", self.0 as f64 / (1u64 << shift) as f64))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("256KiB", 256 << 10),
            ("256 kib", 256 << 10),
            ("4G", 4 << 30),
            ("1.5TiB", 3 << 39),
            ("1TB", 1_000_000_000_000),
            ("16383PiB", 16383 << 50),
            ("15.5EiB", 31 << 59),
            ("18EB", 18_000_000_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_size() {
        assert!(matches!("".parse::<ByteSize>(), Err(ByteSizeError::NotANumber(_))));
        assert!(matches!("-1".parse::<ByteSize>(), Err(ByteSizeError::NotANumber(_))));
        assert!(matches!(".".parse::<ByteSize>(), Err(ByteSizeError::NotANumber(_))));
        assert!(matches!("1.2.3K".parse::<ByteSize>(), Err(ByteSizeError::NotANumber(_))));
        assert!(matches!("4 parsecs".parse::<ByteSize>(), Err(ByteSizeError::UnknownUnit(_))));
        assert!(matches!("16384PiB".parse::<ByteSize>(), Err(ByteSizeError::OutOfRange(_))));
        assert!(matches!("0.3".parse::<ByteSize>(), Err(ByteSizeError::OutOfRange(_))));
    }

    #[test]
    fn prints_in_the_largest_unit() {
        assert_eq!(ByteSize(0).to_string(), "0 B");
        assert_eq!(ByteSize::kib(256).to_string(), "256 KiB");
        assert_eq!(ByteSize(1536 << 20).to_string(), "1.50 GiB");
        assert_eq!([ByteSize(u64::MAX), ByteSize(1 << 60)].map(|size| size.to_string()), ["16.00 EiB", "1 EiB"]);
    }

    #[test]
    fn sizes_that_look_alike_are_told_apart() {
        let (bound, less) = (ByteSize::mib(64), ByteSize((64 << 20) - 1));
        assert_eq!((less.beside(bound), bound.beside(less)), ("67,108,863 bytes".into(), "67,108,864 bytes".into()));
        assert_eq!((bound.beside(bound), ByteSize::mib(63).beside(bound)), ("64 MiB".into(), "63 MiB".into()));
        assert_eq!(ByteSize((1 << 30) - 1).beside(ByteSize::gib(1)), "1,073,741,823 bytes");
        let exact = [0, 1, 999, 1000, 1_000_001_536].map(|bytes| ByteSize(bytes).exact());
        assert_eq!(exact, ["0 bytes", "1 byte", "999 bytes", "1,000 bytes", "1,000,001,536 bytes"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
