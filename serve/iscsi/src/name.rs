//! Names of initiators and targets (RFC 7143 4.2.7).
//!
//! Invariant: names are compared byte by byte, each in its normal form.

/// The longest name.
const NAME_BYTES: usize = 223;

/// A name in small letters, as names are compared (RFC 7143 4.2.7.2): some send what they were given in capitals, its
/// type and its digits as well.
pub(crate) fn normal(name: &str) -> String {
    name.to_lowercase()
}

/// Whether two names are one.
pub(crate) fn same_name(one: &str, other: &str) -> bool {
    one == other || normal(one) == normal(other)
}

/// Whether a text is an iSCSI name; what begins with `iqn.` has no capitals in normal form.
pub fn is_name(text: &str) -> bool {
    let digits = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match text.split_at_checked(4) {
        _ if text.len() > NAME_BYTES => false,
        Some(("iqn.", rest)) => is_qualified(rest),
        Some(("eui.", rest)) => rest.len() == 16 && digits(rest),
        Some(("naa.", rest)) => matches!(rest.len(), 16 | 32) && digits(rest),
        _ => false,
    }
}

/// A date, a domain turned round and, behind a colon, anything.
fn is_qualified(rest: &str) -> bool {
    let Some((date, name)) = rest.split_at_checked(8) else { return false };
    let date_is_one = date.bytes().enumerate().all(|(at, byte)| match at {
        4 => byte == b'-',
        7 => byte == b'.',
        _ => byte.is_ascii_digit(),
    });
    let allowed = |character: char| {
        character.is_ascii_lowercase()
            || character.is_ascii_digit()
            || "-.:".contains(character)
            || (!character.is_ascii()
                && !character.is_control()
                && !character.is_whitespace()
                && !character.is_uppercase())
    };
    // Windows and others send an underscore now and then; it compares like any other character.
    date_is_one
        && !name.is_empty()
        && !name.starts_with([':', '.'])
        && name.chars().all(|each| allowed(each) || each == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known() {
        for name in [
            "iqn.2001-04.com.example:storage.disk2",
            "iqn.1993-08.org.debian:01:abc",
            "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test",
            "eui.02004567A425678D",
            "naa.52004567BA64678D",
            "naa.62004567BA64678D0123456789ABCDEF",
        ] {
            assert!(is_name(name), "{name}");
        }
        let long = format!("iqn.2001-04.com.example:{}", "x".repeat(200));
        for name in [
            "",
            "iqn",
            "iqn.",
            "iqn.2001-04.",
            "iqn.20010-4.com",
            "iqn.2001-04.com.Example",
            "iqn.2001-04.com example",
            "iqn.2001-04.com.example\n",
            "eui.02004567A425678",
            "eui.02004567A425678G",
            "naa.0",
            "nqn.2014-08.org",
            &long,
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
