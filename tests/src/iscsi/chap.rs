//! CHAP as iSCSI uses it (RFC 7143 12.1.3): MD5 over an identifier, the secret, and what the other side made up.

use super::md5::md5;
use super::wire::{InitiatorError, broken};

/// A name and a secret.
#[derive(Clone, Debug)]
pub struct Account {
    /// The name.
    pub user: String,
    /// The secret.
    pub secret: String,
}

impl Account {
    /// The account `user` with `secret`.
    pub fn new(user: &str, secret: &str) -> Self {
        Self { user: user.to_owned(), secret: secret.to_owned() }
    }
}

/// The response to a challenge.
pub fn response(identifier: u8, secret: &str, challenge: &[u8]) -> [u8; 16] {
    md5(&[&[identifier], secret.as_bytes(), challenge].concat())
}

/// Bytes as a value of a key.
pub fn to_hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{}", digits.concat())
}

/// The bytes of a value, in hexadecimal or Base64.
///
/// # Errors
/// If they are neither.
pub fn from_text(text: &str) -> Result<Vec<u8>, InitiatorError> {
    let wrong = || broken(format!("'{text}' is no binary value"));
    match text.get(..2) {
        Some("0x" | "0X") => {
            let digits = &text[2..];
            let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
            let byte = |at: usize| padded.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
            (0..padded.len()).step_by(2).map(|at| byte(at).ok_or_else(wrong)).collect()
        }
        Some("0b" | "0B") => from_base64(&text[2..]).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for letter in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | u32::from(value(letter)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{from_text, to_hex};

    #[test]
    fn values_are_read_in_both_forms() {
        assert_eq!(from_text("0x0aff").expect("hexadecimal"), [10, 255]);
        assert_eq!(from_text("0xAFF").expect("an odd number of digits"), [10, 255]);
        assert_eq!(from_text("0bSG9sZGZhc3Q=").expect("Base64"), b"Holdfast");
        assert_eq!(from_text(&to_hex(&[1, 2, 254])).expect("what was written"), [1, 2, 254]);
        assert!(from_text("12").is_err() && from_text("0xzz").is_err() && from_text("0b*").is_err());
    }
}
