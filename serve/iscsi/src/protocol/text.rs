//! Texts of login and text PDUs (RFC 7143 6.1): `key=value` pairs, each closed by a NUL.
//!
//! Invariant: a text that is parsed has keys and values of the lengths and characters that the protocol allows; nothing
//! else of a login ever sees the raw bytes.

use std::fmt::Write as _;

/// The longest key.
const KEY_BYTES: usize = 63;
/// Pairs in one text at most.
const PAIRS: usize = 128;

/// Why bytes are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A pair without `=`, or of characters that no pair has.
    #[error("the text holds something that is no key=value pair")]
    Pair,
    /// A key that is empty or too long.
    #[error("the text holds a key of an impossible length")]
    Key,
    /// The same key twice.
    #[error("the text holds a key twice")]
    Twice,
    /// More pairs than anybody needs.
    #[error("the text holds too many keys")]
    Many,
}

/// The pairs of a text, in order.
pub fn parse(bytes: &[u8]) -> Result<Vec<(&str, &str)>, TextError> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for piece in bytes.split(|byte| *byte == 0).filter(|piece| !piece.is_empty()) {
        let piece = std::str::from_utf8(piece).map_err(|_| TextError::Pair)?;
        let (key, value) = piece.split_once('=').ok_or(TextError::Pair)?;
        if key.is_empty() || key.len() > KEY_BYTES {
            return Err(TextError::Key);
        }
        if !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+@_/#:".contains(&byte)) {
            return Err(TextError::Pair);
        }
        if pairs.iter().any(|(other, _)| *other == key) {
            return Err(TextError::Twice);
        }
        if pairs.len() == PAIRS {
            return Err(TextError::Many);
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// Appends a pair.
pub fn push(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend([key.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
}

/// Appends a pair, unless the text has its key already: outside lists of targets no text has a key twice (6.3).
pub fn push_once(text: &mut Vec<u8>, key: &str, value: &str) {
    let is_of_key = |piece: &[u8]| piece.strip_prefix(key.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
    if !text.split(|byte| *byte == 0).any(is_of_key) {
        push(text, key, value);
    }
}

/// A number: decimal, or hexadecimal behind `0x`.
pub fn number(value: &str) -> Option<u32> {
    match value.strip_prefix("0x").or_else(|| value.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => u32::from_str_radix(digits, 16).ok(),
        None if value.bytes().all(|digit| digit.is_ascii_digit()) => value.parse().ok(),
        _ => None,
    }
}

/// Binary: hexadecimal behind `0x` or base64 behind `0b`, of at most `limit` bytes.
pub fn binary(value: &str, limit: usize) -> Option<Vec<u8>> {
    let (kind, digits) = value.split_at_checked(2)?;
    let bytes = match kind {
        "0x" | "0X" => hexadecimal(digits, limit)?,
        "0b" | "0B" => base64(digits, limit)?,
        _ => return None,
    };
    (bytes.len() <= limit).then_some(bytes)
}

fn hexadecimal(digits: &str, limit: usize) -> Option<Vec<u8>> {
    if digits.is_empty() || digits.len() > 2 * limit {
        return None;
    }
    let digits: Vec<u8> =
        digits.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    // An odd number of digits has a zero before them.
    let (first, rest) = digits.split_at(digits.len() % 2);
    Some(first.iter().copied().chain(rest.chunks(2).map(|pair| pair[0] << 4 | pair[1])).collect())
}

fn base64(digits: &str, limit: usize) -> Option<Vec<u8>> {
    if digits.len() > limit.div_ceil(3) * 4 || !digits.len().is_multiple_of(4) {
        return None;
    }
    let core = digits.trim_end_matches('=');
    if digits.len() - core.len() > 2 || core.is_empty() {
        return None;
    }
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::with_capacity(core.len() * 3 / 4));
    for digit in core.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    // What is left over must be nothing.
    (bits & ((1 << count) - 1) == 0).then_some(bytes)
}

/// Bytes as hexadecimal digits behind `0x`.
pub fn as_hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed_or_refused() {
        assert_eq!(parse(b"A=1\0B.b=\0\0C=x=y\0"), Ok(vec![("A", "1"), ("B.b", ""), ("C", "x=y")]));
        assert_eq!(parse(b""), Ok(vec![]));
        assert_eq!(parse(b"A"), Err(TextError::Pair));
        assert_eq!(parse(b"A b=1"), Err(TextError::Pair));
        assert_eq!(parse(b"A=\xff\0"), Err(TextError::Pair));
        assert_eq!(parse(b"=1\0"), Err(TextError::Key));
        assert_eq!(parse(&[&[b'k'; 64][..], b"=1"].concat()), Err(TextError::Key));
        assert_eq!(parse(b"A=1\0A=1\0"), Err(TextError::Twice));
        let many: String = (0..129).map(|number| format!("k{number}=\0")).collect();
        assert_eq!(parse(many.as_bytes()), Err(TextError::Many));
    }

    #[test]
    fn a_key_is_pushed_once() {
        let mut text = Vec::new();
        for (key, value) in [("AB", "1"), ("A", "B=2"), ("AB", "3"), ("B", "4"), ("A", "5")] {
            push_once(&mut text, key, value);
        }
        assert_eq!(text, b"AB=1\0A=B=2\0B=4\0");
    }

    #[test]
    fn numbers_and_binaries() {
        assert_eq!(["0", "0x1F", "262144", "0X10"].map(number), [Some(0), Some(31), Some(262_144), Some(16)]);
        assert_eq!(["", "+1", "-1", "4294967296", "0x", "1x"].map(number), [None; 6]);
        assert_eq!(binary("0x0aF", 4), Some(vec![0x00, 0xaf]));
        assert_eq!(binary("0xabcdef", 4), Some(vec![0xab, 0xcd, 0xef]));
        assert_eq!(binary("0bTWFu", 4), Some(b"Man".to_vec()));
        assert_eq!(binary("0bTWE=", 4), Some(b"Ma".to_vec()));
        assert_eq!(binary("0bTQ==", 4), Some(b"M".to_vec()));
        for wrong in ["", "0", "ab", "0x", "0xg0", "0x0011223344", "0bTQ=", "0bTR==", "0b====", "0bT*==", "é"] {
            assert_eq!(binary(wrong, 4), None, "{wrong}");
        }
        assert_eq!(as_hexadecimal(&[0, 0xa5]), "0x00a5");
    }
}
