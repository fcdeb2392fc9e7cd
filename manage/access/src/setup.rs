//! The first administrator: made by whoever has the link that the daemon printed at its start.
//!
//! Invariant: the link counts once, for a day, and only while there is no account.

use std::net::IpAddr;
use std::sync::PoisonError;

use holdfast_api::{ApiError, Code, Role, Setup, Via};
use holdfast_store::AccountRow;

use crate::sessions::LoggedIn;
use crate::{Access, Denied, accounts, network, password, random_secret, sha256};

/// As whose tries those of the link are counted: no account has this name.
const NOBODY: &str = "";

pub(crate) struct Link {
    hash: [u8; 32],
    until_ms: i64,
}

impl Access {
    /// Whether the first administrator is still to be made.
    pub fn needs_setup(&self) -> bool {
        self.tables().accounts.is_empty()
    }

    /// A new token for the link, which ends the one before; none where there is an account already.
    pub fn setup_token(&self) -> Option<String> {
        if !self.needs_setup() {
            return None;
        }
        let token = random_secret()?;
        let link = Link {
            hash: sha256(token.as_bytes()),
            until_ms: self.now_ms() + self.settings.setup_life.as_millis() as i64,
        };
        *self.setup.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
        Some(token)
    }

    /// Makes the first administrator, and logs it in.
    ///
    /// # Errors
    /// If there is an account, the token is not the link's or has ended, name or password cannot be, or it was tried
    /// too often.
    pub async fn set_up(&self, request: Setup, from: IpAddr) -> Result<LoggedIn, Denied> {
        let _changing = self.changing.lock().await;
        if !self.needs_setup() {
            let next = "log in, or ask an administrator for an account";
            return Err(ApiError::new(Code::Conflict, "setup", "an account already exists", next).into());
        }
        let (now, network) = (self.now_ms(), network(from));
        self.throttle.begin(NOBODY, network, now).map_err(|wait| Denied {
            error: ApiError::new(Code::Throttled, "setup", "too many wrong links", "try again in a moment"),
            retry_after: Some(wait),
        })?;
        let hash = sha256(request.token.as_bytes());
        let counts = |link: &Link| link.hash == hash && now < link.until_ms;
        if !self.setup.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(counts) {
            let next = "use the link that the daemon printed last; a restart prints a new one";
            return Err(ApiError::new(Code::NotAuthenticated, "setup", "the link is wrong or has expired", next).into());
        }
        self.throttle.succeeded(NOBODY, network);
        accounts::named(&request.name)?;
        password::acceptable(&request.name, &request.password)?;
        let row = AccountRow {
            name: request.name.clone(),
            role: Role::Administrator.to_string(),
            enabled: true,
            password_hash: self.passwords.hash(request.password).await?,
            created_ms: now,
            last_login_ms: Some(now),
        };
        let kept = row.clone();
        self.stored(move |store| store.put_account(&kept)).await?;
        self.tables().accounts.insert(row.name.clone(), row);
        *self.setup.lock().unwrap_or_else(PoisonError::into_inner) = None;
        tracing::info!(account = request.name, %from, "the first administrator was created");
        Ok(self.begin_session(&request.name, Via::Setup).await?)
    }
}
