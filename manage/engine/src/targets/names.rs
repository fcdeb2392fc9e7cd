//! iSCSI names (RFC 7143 4.2.7), accounts of CHAP, and addresses of portals, checked once where they enter.
//!
//! Invariant: what passes here fits every message that carries it.

use std::net::{SocketAddr, ToSocketAddrs};

use holdfast_api::{ApiError, ChapAccount};

use super::known::{KnownAccount, KnownSecret};
use crate::error::ApiResult;

/// Under what the names of targets begin for which none is given.
const AUTHORITY: &str = "iqn.2026-11.org.holdfast";
/// The longest iSCSI name.
const MOST_NAME_BYTES: usize = 223;
/// The port of iSCSI.
const PORT: u16 = 3260;
/// A secret without IPsec has 96 bits at least (RFC 7143 9.2.1).
const LEAST_SECRET: usize = 12;
const MOST_SECRET: usize = 255;

/// An iSCSI name in the one form that it is compared in, or why it is none.
pub(crate) fn iscsi_name(text: &str) -> Result<String, String> {
    let shown: String = text.chars().take(80).collect();
    let wrong = |why: &str| Err(format!("{shown:?} is no iSCSI name: {why}"));
    if text.len() > MOST_NAME_BYTES {
        return wrong("it is longer than 223 bytes");
    }
    let digits = |text: &str, lengths: &[usize]| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    // Digits are compared as they are written; what begins with iqn. has no capitals.
    if let Some(rest) = text.strip_prefix("eui.") {
        return if digits(rest, &[16]) { Ok(text.into()) } else { wrong("eui. is followed by 16 hexadecimal digits") };
    }
    if let Some(rest) = text.strip_prefix("naa.") {
        let why = "naa. is followed by 16 or 32 hexadecimal digits";
        return if digits(rest, &[16, 32]) { Ok(text.into()) } else { wrong(why) };
    }
    let name = text.to_ascii_lowercase();
    let Some(rest) = name.strip_prefix("iqn.") else { return wrong("it begins with iqn., eui. or naa.") };
    let bytes = rest.as_bytes();
    let number = |range: std::ops::Range<usize>| {
        let part = bytes.get(range)?;
        if !part.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(part).ok()?.parse::<u32>().ok()
    };
    let month = number(5..7).filter(|month| (1..=12).contains(month));
    if number(0..4).is_none() || bytes.get(4) != Some(&b'-') || month.is_none() || bytes.get(7) != Some(&b'.') {
        return wrong("write iqn.YYYY-MM.DOMAIN:NAME, the domain backwards");
    }
    let authority = rest[8..].split(':').next().unwrap_or_default();
    if authority.is_empty() || authority.starts_with('.') {
        return wrong("it has no domain");
    }
    match name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.' | ':' | '_')) {
        Some(bad) => wrong(&format!("it has {bad:?}: use letters, digits, '-', '.', ':' and '_'")),
        None => Ok(name),
    }
}

/// The same, about a field of a request.
pub(super) fn checked_name(object: &str, field: &str, text: &str) -> ApiResult<String> {
    iscsi_name(text)
        .map_err(|why| ApiError::invalid(object, why, "write for example iqn.2026-11.com.example:host").at(field))
}

/// The name of a target for which none is given.
pub(super) fn default_iqn(host: &str, name: &str) -> String {
    let plain = |text: &str| -> String {
        let of =
            |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c.to_ascii_lowercase() } else { '-' };
        text.chars().map(of).take(63).collect()
    };
    match plain(host).as_str() {
        "" => format!("{AUTHORITY}:{}", plain(name)),
        host => format!("{AUTHORITY}:{host}:{}", plain(name)),
    }
}

/// An account of a request.
pub(super) fn checked_account(object: &str, field: &str, account: &ChapAccount) -> ApiResult<KnownAccount> {
    let refuse =
        |part: &str, message: &str, next: &str| Err(ApiError::invalid(object, message, next).at(part).inside(field));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if account.user.is_empty() || account.user.len() > MOST_SECRET || !plain(&account.user) {
        return refuse("user", "a user of CHAP has 1 to 255 ASCII characters", "choose another user");
    }
    let secret = &account.secret;
    if secret.len() < LEAST_SECRET || secret.len() > MOST_SECRET || !plain(secret) || secret.trim() != secret {
        let message = "a secret of CHAP has 12 to 255 ASCII characters, and no space at its ends";
        return refuse("secret", message, "choose another secret; Windows takes 12 to 16 characters");
    }
    Ok(KnownAccount { user: account.user.clone(), secret: KnownSecret::new(secret.as_str()) })
}

/// The address of a portal: an address or a name, and a port, which may be left out.
pub(super) fn portal_address(object: &str, field: &str, text: &str) -> ApiResult<SocketAddr> {
    let shown: String = text.chars().take(300).collect();
    let refuse = |why: &str, next: &str| {
        Err(ApiError::invalid(object, format!("{shown:?} is no address of a portal: {why}"), next).at(field))
    };
    let bare: Option<std::net::IpAddr> = text.trim_start_matches('[').trim_end_matches(']').parse().ok();
    let found = match (bare, text.parse::<SocketAddr>()) {
        (Some(address), _) => Some(SocketAddr::new(address, PORT)),
        (None, Ok(address)) => Some(address),
        (None, Err(_)) if text.len() > 260 || text.is_empty() => None,
        (None, Err(_)) => {
            let (host, port) = text.rsplit_once(':').unwrap_or((text, "3260"));
            let port: Option<u16> = port.parse().ok();
            port.and_then(|port| (host, port).to_socket_addrs().ok()?.next())
        }
    };
    let Some(address) = found else {
        return refuse("nothing is known of it", "write HOST:PORT, for example 192.0.2.7:3260");
    };
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
        return refuse("nobody can connect to it", "write an address of this server, or leave portals out for all");
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_standard() {
        for good in [
            "iqn.1991-05.com.microsoft:host",
            "iqn.2026-11.org.holdfast",
            "iqn.1998-01.com.vmware:esx-01-1a2b:x.y",
            "eui.02004567A425678D",
            "naa.52004567BA64678D",
            "naa.62004567BA64678D0123456789ABCDEF",
        ] {
            assert_eq!(iscsi_name(good), Ok(good.to_owned()));
        }
        assert_eq!(iscsi_name("IQN.1991-05.com.Microsoft:HOST_1"), Ok("iqn.1991-05.com.microsoft:host_1".into()));
        let long = format!("iqn.2026-11.org.holdfast:{}", "x".repeat(200));
        for bad in [
            "",
            "vm",
            "iqn.",
            "iqn.2026-13.org.x:y",
            "iqn.2026-1.org.x",
            "iqn.20é6-11.org",
            "iqn.2026-11.:x",
            "iqn.2026-11.org.x:a b",
            "iqn.2026-11.org.x:\n",
            "eui.0200",
            "naa.zz004567BA64678D",
            "iqn.+026-11.org",
            &long,
        ] {
            assert!(iscsi_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_name_is_made_of_the_servers_and_the_targets() {
        assert_eq!(default_iqn("NAS_1", "Vm.a_b"), "iqn.2026-11.org.holdfast:nas-1:vm.a-b");
        assert!(iscsi_name(&default_iqn("", "vm")).is_ok() && iscsi_name(&default_iqn(&"ö".repeat(200), "vm")).is_ok());
    }

    #[test]
    fn secrets_that_are_too_short_to_be_safe_are_refused() {
        let account = |user: &str, secret: &str| ChapAccount { user: user.into(), secret: secret.into() };
        let check = |user: &str, secret: &str| checked_account("x", "chap", &account(user, secret)).map(drop);
        assert!(check("ann", "twelve-chars").is_ok());
        for (user, secret) in [
            ("", "twelve-chars"),
            ("ann", "eleven-char"),
            ("ann", &"x".repeat(256)),
            ("ann", "twelve\nchars"),
            ("ann", " eleven-char"),
        ] {
            assert!(check(user, secret).is_err(), "{user:?} {secret:?}");
        }
    }

    #[test]
    fn portals_are_addresses_that_somebody_can_connect_to() {
        let read = |text: &str| portal_address("x", "address", text).map(|address| address.to_string());
        assert_eq!(read("192.0.2.7").unwrap(), "192.0.2.7:3260");
        assert_eq!(read("192.0.2.7:3261").unwrap(), "192.0.2.7:3261");
        assert_eq!(read("fd00::1").unwrap(), "[fd00::1]:3260");
        assert_eq!(read("[fd00::1]:1").unwrap(), "[fd00::1]:1");
        assert_eq!(read("::ffff:192.0.2.7").unwrap(), "192.0.2.7:3260");
        for bad in ["", ":", "0.0.0.0:3260", "192.0.2.7:0", "[::]:1", "192.0.2.7:70000", "224.0.0.1", &"x".repeat(500)]
        {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
