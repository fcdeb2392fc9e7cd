//! Tokens: what programs show instead of a password.
//!
//! Invariants: a token may never more than its account may now, and nothing once it has ended or its account is
//! disabled; a token makes no tokens unless it is an administrator's without areas, so a narrow one cannot widen
//! itself.

use holdfast_api::{ApiError, Changed, Code, CreateToken, Token, TokenCreated, Via};
use holdfast_store::TokenRow;

use crate::{Access, ApiResult, Identity, random_secret, role, sha256, time};

/// What the secret of a token begins with, so that scanners of leaked secrets know it.
pub const TOKEN_PREFIX: &str = "hf_";
/// What a token may be limited to: tags of the API's document.
pub const AREAS: [&str; 10] =
    ["disks", "pools", "spaces", "volumes", "exports", "targets", "jobs", "events", "notifications", "status"];

const PER_ACCOUNT: usize = 256;
const LIFE_SECONDS: std::ops::RangeInclusive<u64> = 60..=10 * 366 * 24 * 60 * 60;
/// How long an ended token is still listed.
const LISTED_MS: i64 = 30 * 24 * 60 * 60 * 1000;
const WRITE_EVERY_MS: i64 = 60_000;

fn areas(row: &TokenRow) -> Vec<String> {
    row.areas.split_whitespace().map(str::to_owned).collect()
}

fn shown(row: &TokenRow) -> Token {
    Token {
        id: row.id.clone(),
        name: row.name.clone(),
        account: row.account.clone(),
        role: role(&row.role),
        areas: areas(row),
        created_at: time(row.created_ms),
        expires_at: time(row.expires_ms),
        last_used_at: row.last_used_ms.map(time),
    }
}

fn sees(identity: &Identity, row: &TokenRow) -> bool {
    identity.is_unlimited()
        || (identity.via == Via::Session && row.account == identity.account)
        || identity.token.as_ref() == Some(&row.id)
}

fn check(identity: &Identity, request: &CreateToken) -> ApiResult<()> {
    let object = "token";
    if !(1..=64).contains(&request.name.len()) || request.name.chars().any(char::is_control) {
        return Err(ApiError::invalid(
            object,
            "the name is not valid",
            "choose a name of 1 to 64 bytes without control characters",
        )
        .at("name"));
    }
    if request.role > identity.role {
        let message =
            format!("account {} is {}, so its tokens cannot be {}", identity.account, identity.role, request.role);
        return Err(ApiError::new(Code::Forbidden, object, message, "choose a lower role").at("role"));
    }
    if let Some(unknown) = request.areas.iter().find(|area| !AREAS.contains(&area.as_str())) {
        let message = format!("there is no area {}", unknown.chars().take(64).collect::<String>());
        return Err(ApiError::invalid(object, message, format!("choose of {}", AREAS.join(", "))).at("areas"));
    }
    if !LIFE_SECONDS.contains(&request.expires_in_seconds) {
        return Err(ApiError::invalid(
            object,
            "its lifetime is too short or too long",
            "choose a lifetime from a minute to ten years",
        )
        .at("expires_in_seconds"));
    }
    Ok(())
}

impl Access {
    /// The tokens that `identity` may see: its own, or all for administrators.
    pub fn tokens(&self, identity: &Identity) -> Vec<Token> {
        let mut rows: Vec<TokenRow> =
            self.tables().tokens.values().filter(|row| sees(identity, row)).cloned().collect();
        rows.sort_by(|one, other| (one.created_ms, &one.id).cmp(&(other.created_ms, &other.id)));
        rows.iter().map(shown).collect()
    }

    /// Makes a token for `identity`'s account.
    ///
    /// # Errors
    /// If `identity` may not, or the token cannot be.
    pub async fn create_token(&self, identity: &Identity, request: CreateToken) -> ApiResult<TokenCreated> {
        if identity.via == Via::Token && !identity.is_unlimited() {
            let next = "log in with name and password to create a token";
            return Err(ApiError::new(Code::Forbidden, "token", "this token cannot create tokens", next));
        }
        check(identity, &request)?;
        let no_luck = || ApiError::new(Code::Failed, "token", "the system gives no random numbers", "try again");
        let secret = format!("{TOKEN_PREFIX}{}", random_secret().ok_or_else(no_luck)?);
        let now = self.now_ms();
        let mut areas = request.areas;
        areas.sort();
        areas.dedup();
        let row = TokenRow {
            id: uuid::Uuid::new_v4().to_string(),
            name: request.name,
            account: identity.account.clone(),
            role: request.role.to_string(),
            areas: areas.join(" "),
            hash: sha256(secret.as_bytes()),
            created_ms: now,
            expires_ms: now + request.expires_in_seconds as i64 * 1000,
            last_used_ms: None,
        };
        let _changing = self.changing.lock().await;
        self.drop_long_ended(now).await?;
        {
            let tables = self.tables();
            if !tables.accounts.contains_key(&row.account) {
                let next = "create an account with 'holdfast account create', then log in to create its token";
                let message = format!("there is no account {} for the token", row.account);
                return Err(ApiError::new(Code::Conflict, "token", message, next));
            }
            if tables.tokens.values().filter(|other| other.account == row.account).count() >= PER_ACCOUNT {
                let message = format!("account {} has {PER_ACCOUNT} tokens already", row.account);
                return Err(ApiError::new(Code::Conflict, "token", message, "delete tokens that are not in use"));
            }
        }
        let kept = row.clone();
        self.stored(move |store| store.add_token(&kept)).await?;
        let token = shown(&row);
        self.tables().tokens.insert(row.hash, row);
        Ok(TokenCreated { token, secret })
    }

    async fn drop_long_ended(&self, now: i64) -> ApiResult<()> {
        let ended = |row: &&TokenRow| now - row.expires_ms > LISTED_MS;
        let ended: Vec<TokenRow> = self.tables().tokens.values().filter(ended).cloned().collect();
        for row in ended {
            self.stored(move |store| store.delete_token(&row.id)).await?;
            self.tables().tokens.remove(&row.hash);
        }
        Ok(())
    }

    /// Removes a token. Every identity may remove its own, and a token itself.
    ///
    /// # Errors
    /// If `identity` may not.
    pub async fn delete_token(&self, identity: &Identity, id: &str) -> ApiResult<Changed> {
        let _changing = self.changing.lock().await;
        if identity.via == Via::Token && !identity.is_unlimited() && identity.token.as_deref() != Some(id) {
            let next = "log in with name and password to delete tokens";
            return Err(ApiError::new(Code::Forbidden, "token", "this token can only delete itself", next));
        }
        let found = self.tables().tokens.values().find(|row| row.id == id && sees(identity, row)).cloned();
        let Some(row) = found else { return Ok(Changed { changed: false, message: "there is no such token".into() }) };
        let gone = row.id.clone();
        self.stored(move |store| store.delete_token(&gone)).await?;
        self.tables().tokens.remove(&row.hash);
        Ok(Changed { changed: true, message: format!("token {} of account {} is deleted", row.name, row.account) })
    }

    /// Whose token `secret` is.
    pub fn bearer(&self, secret: &str) -> Option<Identity> {
        if !secret.starts_with(TOKEN_PREFIX) || secret.len() > 128 {
            return None;
        }
        let (now, hash) = (self.now_ms(), sha256(secret.as_bytes()));
        let mut tables = self.tables();
        let row = tables.tokens.get(&hash).filter(|row| now < row.expires_ms)?.clone();
        let account = tables.accounts.get(&row.account).filter(|account| account.enabled)?;
        let identity = Identity {
            account: account.name.clone(),
            role: role(&row.role).min(role(&account.role)),
            via: Via::Token,
            areas: areas(&row),
            csrf: None,
            expires_ms: Some(row.expires_ms),
            session: None,
            token: Some(row.id.clone()),
        };
        if row.last_used_ms.is_none_or(|used| now - used >= WRITE_EVERY_MS) {
            let id = row.id.clone();
            tables.tokens.insert(hash, TokenRow { last_used_ms: Some(now), ..row });
            let store = self.store.clone();
            tokio::task::spawn_blocking(move || {
                if let Err(error) = store.touch_token(&id, now) {
                    tracing::warn!("{error}");
                }
            });
        }
        Some(identity)
    }
}
