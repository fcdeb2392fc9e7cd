//! Passwords: Argon2id with the cost that OWASP names (19 MiB, two passes, one lane).
//!
//! Invariant: no more than two hashes are computed at once and no more than sixteen wait, so that a flood of logins
//! takes neither memory nor the threads of management.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use holdfast_api::{ApiError, Code};
use tokio::sync::Semaphore;

use crate::ApiResult;

const AT_ONCE: usize = 2;
const WAITING: usize = 16;
const SHORTEST: usize = 10;
/// The longest password that is looked at.
pub(crate) const LONGEST: usize = 1024;

pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Compared with where there is no account, so that the time tells nothing.
    nobody: tokio::sync::OnceCell<String>,
}

/// Whether `password` may be the one of `account`.
pub(crate) fn acceptable(account: &str, password: &str) -> ApiResult<()> {
    let object = format!("account {account}");
    let next = format!("choose one of {SHORTEST} to {LONGEST} bytes");
    if !(SHORTEST..=LONGEST).contains(&password.len()) {
        return Err(
            ApiError::invalid(object, format!("the password has {} bytes", password.len()), next).at("password")
        );
    }
    if password == account {
        return Err(
            ApiError::invalid(object, "the password is the account's name", "choose another one").at("password")
        );
    }
    Ok(())
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Passwords {
    pub(crate) fn new() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)), waiting: AtomicUsize::new(0), nobody: Default::default() }
    }

    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
        let busy = || ApiError::new(Code::Throttled, "login", "too many logins at once", "try again in a moment");
        let counted = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        if counted >= AT_ONCE + WAITING {
            return Err(busy());
        }
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| busy())?;
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        done.await.map_err(|error| ApiError::new(Code::Failed, "login", error.to_string(), "see the daemon's log"))
    }

    /// The hash of `password`, with its salt and cost.
    pub(crate) async fn hash(&self, password: String) -> ApiResult<String> {
        let hashed =
            self.compute(move || Argon2::default().hash_password(password.as_bytes()).map(|hash| hash.to_string()));
        let failed = |error: argon2::password_hash::Error| {
            ApiError::new(Code::Failed, "password", format!("it cannot be hashed: {error}"), "try again")
        };
        hashed.await?.map_err(failed)
    }

    /// Whether `password` is the one that `hash` is of; takes as long where there is no hash.
    pub(crate) async fn matches(&self, password: String, hash: Option<String>) -> ApiResult<bool> {
        let there = hash.is_some();
        let hash = match hash {
            Some(hash) => hash,
            None => self.nobody.get_or_try_init(|| self.hash("there is no account of this name".into())).await?.clone(),
        };
        let right = self.compute(move || {
            let parsed = PasswordHash::new(&hash);
            parsed.is_ok_and(|parsed| Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok())
        });
        Ok(right.await? && there)
    }
}
