//! Sessions: a login, and the cookie that stands for it.
//!
//! Invariants: every login makes a new random id, so none can be planted before; the store has its hash only; a session
//! ends when it is idle, when its time is up, when its account is disabled or gets another password.

use std::net::IpAddr;

use holdfast_api::{ApiError, ChangePassword, Code, Login, Session, Via};
use holdfast_store::{SessionRow, Store, StoreError};

use crate::{Access, ApiResult, Denied, Identity, hex, network, password, random_secret, role, sha256, time};

/// Sessions of one account at most; the oldest makes way.
const PER_ACCOUNT: usize = 64;
/// How old what the store knows of the last use may be.
const WRITE_EVERY_MS: i64 = 60_000;

/// A login that succeeded.
pub struct LoggedIn {
    /// What the cookie carries.
    pub secret: String,
    /// How it is shown.
    pub session: Session,
    /// For how long the cookie counts, in seconds.
    pub seconds: u64,
}

fn csrf(secret: &str) -> String {
    hex(&sha256(format!("csrf of {secret}").as_bytes()))
}

fn wrong() -> ApiError {
    let next = "check both; an administrator can set a new password with 'holdfast account set NAME --password'";
    ApiError::new(Code::NotAuthenticated, "login", "name or password is wrong, or the account is disabled", next)
}

impl Access {
    /// Looks at name and password, and begins a session.
    ///
    /// # Errors
    /// If they are wrong, or were too often.
    pub async fn login(&self, request: Login, from: IpAddr) -> Result<LoggedIn, Denied> {
        let from = network(from);
        let name: String = request.name.chars().take(64).collect();
        self.throttle.begin(&name, from, self.now_ms()).map_err(|wait| Denied {
            error: ApiError::new(
                Code::Throttled,
                "login",
                "too many failed logins of this account or from this address",
                format!("try again in {} s", wait.as_secs_f64().ceil()),
            ),
            retry_after: Some(wait),
        })?;
        let hash =
            self.tables().accounts.get(&request.name).filter(|row| row.enabled).map(|row| row.password_hash.clone());
        let password = if request.password.len() <= password::LONGEST { request.password } else { String::new() };
        let right = self.passwords.matches(password, hash.clone()).await.map_err(|error| {
            self.throttle.took_back(&name, from);
            Denied { error, retry_after: Some(std::time::Duration::from_secs(1)) }
        })?;
        if !right {
            return Err(wrong().into());
        }
        self.throttle.succeeded(&name, from);
        let _changing = self.changing.lock().await;
        // Another password may have been set while this one was looked at.
        let row = self.tables().accounts.get(&request.name).filter(|row| row.enabled).cloned();
        let Some(mut row) = row.filter(|row| Some(&row.password_hash) == hash.as_ref()) else {
            return Err(wrong().into());
        };
        row.last_login_ms = Some(self.now_ms());
        let kept = row.clone();
        self.kept_if_possible(move |store| store.put_account(&kept)).await;
        self.tables().accounts.insert(row.name.clone(), row);
        Ok(self.begin_session(&request.name, Via::Session).await?)
    }

    pub(crate) async fn begin_session(&self, account: &str, via: Via) -> ApiResult<LoggedIn> {
        let no_luck = || ApiError::new(Code::Failed, "login", "the system gives no random numbers", "try again");
        let secret = random_secret().ok_or_else(no_luck)?;
        let now = self.now_ms();
        let row =
            SessionRow { hash: sha256(secret.as_bytes()), account: account.into(), created_ms: now, seen_ms: now };
        self.drop_ended(now).await;
        let kept = row.clone();
        self.kept_if_possible(move |store| store.put_session(&kept)).await;
        self.tables().sessions.insert(row.hash, row);
        let identity = self.session(&secret).ok_or_else(wrong)?;
        let session = Session { via, ..self.show_session(&identity) };
        Ok(LoggedIn { secret, session, seconds: self.settings.session_life.as_secs() })
    }

    /// Writes what a login leaves in the store. Where it cannot be written, one who is to make room must still be able
    /// to log in; the session ends with the daemon then.
    async fn kept_if_possible(&self, act: impl FnOnce(&Store) -> Result<(), StoreError> + Send + 'static) {
        if let Err(error) = self.stored(act).await {
            tracing::warn!("a login does not survive a restart: {error}");
        }
    }

    /// Forgets sessions that have ended, and the oldest of accounts that have too many.
    async fn drop_ended(&self, now: i64) {
        let ended: Vec<[u8; 32]> = {
            let tables = self.tables();
            let mut live: Vec<&SessionRow> = tables.sessions.values().filter(|row| !self.has_ended(row, now)).collect();
            live.sort_by_key(|row| std::cmp::Reverse(row.seen_ms));
            let mut counts = std::collections::HashMap::<&str, usize>::new();
            live.retain(|row| {
                let count = counts.entry(&row.account).or_default();
                *count += 1;
                *count < PER_ACCOUNT
            });
            let kept: std::collections::HashSet<_> = live.into_iter().map(|row| row.hash).collect();
            tables.sessions.keys().filter(|hash| !kept.contains(*hash)).copied().collect()
        };
        for hash in ended {
            self.tables().sessions.remove(&hash);
            self.kept_if_possible(move |store| store.delete_session(&hash)).await;
        }
    }

    pub(crate) fn has_ended(&self, row: &SessionRow, now: i64) -> bool {
        let idle = self.settings.session_idle.as_millis() as i64;
        now >= row.seen_ms + idle
            || now >= row.created_ms + self.settings.session_life.as_millis() as i64
            // Made while the clock was far ahead: nobody knows how old it is.
            || now < row.created_ms - idle
    }

    /// Whose session the cookie `secret` stands for.
    pub fn session(&self, secret: &str) -> Option<Identity> {
        let (now, hash) = (self.now_ms(), sha256(secret.as_bytes()));
        let mut tables = self.tables();
        let row = tables.sessions.get(&hash).filter(|row| !self.has_ended(row, now))?.clone();
        let account = tables.accounts.get(&row.account).filter(|account| account.enabled)?;
        let identity = Identity {
            account: account.name.clone(),
            role: role(&account.role),
            via: Via::Session,
            areas: Vec::new(),
            csrf: Some(csrf(secret)),
            expires_ms: Some(row.created_ms + self.settings.session_life.as_millis() as i64),
            session: Some(hash),
            token: None,
        };
        // The store learns of it now and then: after a restart a session is at most that much sooner idle.
        if now - row.seen_ms >= WRITE_EVERY_MS.min(self.settings.session_idle.as_millis() as i64 / 4) {
            let seen = SessionRow { seen_ms: now, ..row };
            tables.sessions.insert(hash, seen.clone());
            let store = self.store.clone();
            tokio::task::spawn_blocking(move || {
                if let Err(error) = store.put_session(&seen) {
                    tracing::warn!("{error}");
                }
            });
        }
        Some(identity)
    }

    /// How an identity is shown to its owner.
    pub fn show_session(&self, identity: &Identity) -> Session {
        Session {
            account: identity.account.clone(),
            role: identity.role,
            via: identity.via,
            csrf: identity.csrf.clone(),
            expires_at: identity.expires_ms.map(time),
        }
    }

    /// Ends the session of `identity`; false where it has none.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn logout(&self, identity: &Identity) -> ApiResult<bool> {
        let Some(hash) = identity.session else { return Ok(false) };
        let _changing = self.changing.lock().await;
        self.stored(move |store| store.delete_session(&hash)).await?;
        Ok(self.tables().sessions.remove(&hash).is_some())
    }

    /// Sets the password of `identity`'s own account, and ends its other sessions.
    ///
    /// # Errors
    /// If the current password is wrong or the new one cannot be.
    pub async fn change_password(
        &self,
        identity: &Identity,
        request: ChangePassword,
        from: IpAddr,
    ) -> Result<(), Denied> {
        let object = format!("account {}", identity.account);
        let known = self.tables().accounts.get(&identity.account).map(|row| row.password_hash.clone());
        let (Some(hash), Some(session)) = (known, identity.session) else {
            let next = "log in with name and password, or use 'holdfast account set NAME --password'";
            return Err(
                ApiError::new(Code::Forbidden, object, "only a session may change its own password", next).into()
            );
        };
        password::acceptable(&identity.account, &request.new)
            .map_err(|error| ApiError { field: Some("new".into()), ..error })?;
        let from = network(from);
        self.throttle.begin(&identity.account, from, self.now_ms()).map_err(|wait| Denied {
            error: ApiError::new(Code::Throttled, &*object, "too many wrong passwords", "wait a little"),
            retry_after: Some(wait),
        })?;
        let busy = |error| {
            self.throttle.took_back(&identity.account, from);
            Denied { error, retry_after: Some(std::time::Duration::from_secs(1)) }
        };
        if !self.passwords.matches(request.current, Some(hash.clone())).await.map_err(busy)? {
            let next = "check it; an administrator can set a new one";
            return Err(ApiError::new(Code::Forbidden, object, "the current password is wrong", next)
                .at("current")
                .into());
        }
        self.throttle.succeeded(&identity.account, from);
        let new = self.passwords.hash(request.new).await?;
        let _changing = self.changing.lock().await;
        let is_as_it_was = {
            let tables = self.tables();
            let same = tables.accounts.get(&identity.account).is_some_and(|row| row.password_hash == hash);
            same && tables.sessions.contains_key(&session)
        };
        if !is_as_it_was {
            let message = "the password was changed or the session ended in the meantime";
            return Err(ApiError::new(Code::Conflict, object, message, "log in and try again").into());
        }
        self.replace_account(&identity.account, Some(session), |row| row.password_hash = new).await?;
        Ok(())
    }
}
