//! Names and secrets of CHAP.
//!
//! Invariant: a secret leaves this module only into a digest; it is neither shown nor compared but in constant time.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

/// How many bytes a secret has: 96 bits at least (RFC 7143 9.2.1).
pub const SECRET_BYTES: std::ops::RangeInclusive<usize> = 12..=255;

/// A secret that is never shown.
#[derive(Clone)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// These bytes.
    pub fn new(secret: impl AsRef<[u8]>) -> Self {
        Self(secret.as_ref().into())
    }

    /// The bytes, for a digest.
    pub(crate) fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether it has enough bytes, and not too many.
    pub fn is_sound(&self) -> bool {
        SECRET_BYTES.contains(&self.0.len())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not shown)")
    }
}

/// A name and its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub user: String,
    /// The secret.
    pub secret: Secret,
}

impl Account {
    /// A name and its secret.
    pub fn new(user: impl Into<String>, secret: impl AsRef<[u8]>) -> Self {
        Self { user: user.into(), secret: Secret::new(secret) }
    }

    /// What tells it from every other account, within this process alone: a digest with a key that nobody knows. None
    /// where the system gives no random bytes.
    pub(crate) fn fingerprint(&self) -> Option<[u8; 32]> {
        static KEY: OnceLock<Option<[u8; 32]>> = OnceLock::new();
        let key = KEY.get_or_init(|| {
            let mut key = [0; 32];
            getrandom::fill(&mut key).ok().map(|()| key)
        });
        let mut digest = Sha256::new().chain_update((*key)?);
        digest.update((self.user.len() as u64).to_be_bytes());
        digest.update(&self.user);
        digest.update(self.secret.expose());
        Some(digest.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_name_and_secret() {
        let of = |user: &str, secret: &str| Account::new(user, secret).fingerprint().unwrap();
        assert_eq!(of("anna", "correct horse"), of("anna", "correct horse"));
        assert_ne!(of("anna", "correct horse"), of("anna", "correct house"));
        assert_ne!(of("anna", "correct horse"), of("annac", "orrect horse"));
    }

    #[test]
    fn a_secret_is_not_shown() {
        let account = Account::new("anna", "correct horse");
        assert_eq!(format!("{account:?}"), r#"Account { user: "anna", secret: Secret(not shown) }"#);
        assert!(account.secret.is_sound() && !Secret::new("short").is_sound());
        assert!(account.secret == Secret::new("correct horse") && account.secret != Secret::new("correct house"));
    }
}
