//! Accounts and their roles.
//!
//! Invariant: once there is an account, there is an enabled administrator.

use holdfast_api::{Account, AccountChanged, ApiError, Changed, Code, CreateAccount, Role, SetAccount};
use holdfast_model::natural_order;
use holdfast_store::AccountRow;

use crate::{Access, ApiResult, Tables, password, role, time};

/// Accounts at most.
const ACCOUNTS: usize = 1000;
/// How an account of the console is told from the one that the socket acts as.
const SOCKET_ACCOUNT: &str = "root";

/// Whether `name` can be an account's.
pub(crate) fn named(name: &str) -> ApiResult<()> {
    let object = format!("account {name}");
    let shaped = (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte))
        && name.as_bytes()[0].is_ascii_alphanumeric();
    if !shaped {
        let next = "choose 1 to 64 letters, digits, '-', '_', '.' and '@', a letter or digit first";
        return Err(ApiError::invalid("account", "the name is not valid", next).at("name"));
    }
    if name == SOCKET_ACCOUNT {
        return Err(ApiError::invalid(
            object,
            "the name is reserved: the audit log uses it for the daemon's socket",
            "choose another name",
        )
        .at("name"));
    }
    Ok(())
}

fn shown(row: &AccountRow) -> Account {
    Account {
        name: row.name.clone(),
        role: role(&row.role),
        enabled: row.enabled,
        created_at: time(row.created_ms),
        last_login_at: row.last_login_ms.map(time),
    }
}

fn counts_as_administrator(row: &AccountRow) -> bool {
    row.enabled && role(&row.role) == Role::Administrator
}

fn is_last_administrator(tables: &Tables, name: &str) -> bool {
    let others = tables.accounts.values().filter(|row| row.name != name && counts_as_administrator(row)).count();
    others == 0 && tables.accounts.get(name).is_some_and(counts_as_administrator)
}

fn last(name: &str, what: &str) -> ApiError {
    let message = format!("it is the last enabled administrator and cannot be {what}");
    ApiError::new(Code::Conflict, format!("account {name}"), message, "create another administrator first")
}

fn missing(name: &str) -> ApiError {
    ApiError::new(
        Code::NotFound,
        format!("account {name}"),
        "there is no account of this name",
        "see 'holdfast account list'",
    )
}

impl Access {
    /// All accounts, by name.
    pub fn accounts(&self) -> Vec<Account> {
        let mut accounts: Vec<Account> = self.tables().accounts.values().map(shown).collect();
        accounts.sort_by(|a, b| natural_order(&a.name, &b.name));
        accounts
    }

    /// One account.
    ///
    /// # Errors
    /// If it is not there.
    pub fn account(&self, name: &str) -> ApiResult<Account> {
        self.tables().accounts.get(name).map(shown).ok_or_else(|| missing(name))
    }

    /// Makes an account.
    ///
    /// # Errors
    /// If it is there with another role or password, or name or password cannot be.
    pub async fn create_account(&self, request: CreateAccount) -> ApiResult<AccountChanged> {
        named(&request.name)?;
        password::acceptable(&request.name, &request.password)?;
        let object = format!("account {}", request.name);
        let there = self.tables().accounts.get(&request.name).cloned();
        if let Some(row) = there {
            let same = role(&row.role) == request.role
                && self.passwords.matches(request.password, Some(row.password_hash.clone())).await?;
            if same {
                return Ok(AccountChanged { changed: false, account: shown(&row) });
            }
            let message = format!("it already exists, with role {} or another password", row.role);
            return Err(
                ApiError::new(Code::Exists, object, message, "change it with 'holdfast account set'").at("name")
            );
        }
        let password_hash = self.passwords.hash(request.password).await?;
        let row = AccountRow {
            name: request.name,
            role: request.role.to_string(),
            enabled: true,
            password_hash,
            created_ms: self.now_ms(),
            last_login_ms: None,
        };
        let _changing = self.changing.lock().await;
        {
            let tables = self.tables();
            if tables.accounts.contains_key(&row.name) {
                return Err(ApiError::new(
                    Code::Exists,
                    object,
                    "it was created by someone else just now",
                    "check it first",
                )
                .at("name"));
            }
            if tables.accounts.len() >= ACCOUNTS {
                let message = format!("there are {ACCOUNTS} accounts already");
                return Err(ApiError::new(Code::Conflict, object, message, "delete accounts that are not in use"));
            }
            if tables.accounts.is_empty() && request.role != Role::Administrator {
                let next = "create an administrator first";
                return Err(ApiError::new(Code::Conflict, object, "the first account must be an administrator", next)
                    .at("role"));
            }
        }
        let kept = row.clone();
        self.stored(move |store| store.put_account(&kept)).await?;
        let account = shown(&row);
        self.tables().accounts.insert(row.name.clone(), row);
        Ok(AccountChanged { changed: true, account })
    }

    /// Changes an account.
    ///
    /// # Errors
    /// If it is not there, would leave no administrator, or the password cannot be.
    pub async fn set_account(&self, name: &str, request: SetAccount) -> ApiResult<AccountChanged> {
        let before = self.tables().accounts.get(name).cloned().ok_or_else(|| missing(name))?;
        let asks_for_password = request.password.is_some();
        let password_hash = match request.password {
            Some(password) => {
                password::acceptable(name, &password)?;
                let same = self.passwords.matches(password.clone(), Some(before.password_hash.clone())).await?;
                if same { None } else { Some(self.passwords.hash(password).await?) }
            }
            None => None,
        };
        let _changing = self.changing.lock().await;
        let looked_at = before.password_hash;
        let before = self.tables().accounts.get(name).cloned().ok_or_else(|| missing(name))?;
        if asks_for_password && before.password_hash != looked_at {
            let message = "its password was changed by someone else just now";
            return Err(ApiError::new(Code::Conflict, format!("account {name}"), message, "check it, then try again"));
        }
        let mut after = before.clone();
        after.role = request.role.map_or(after.role, |role| role.to_string());
        after.enabled = request.enabled.unwrap_or(after.enabled);
        after.password_hash = password_hash.unwrap_or(after.password_hash);
        if after == before {
            return Ok(AccountChanged { changed: false, account: shown(&before) });
        }
        if !counts_as_administrator(&after) && is_last_administrator(&self.tables(), name) {
            return Err(match after.enabled {
                true => last(name, "given a lower role").at("role"),
                false => last(name, "disabled").at("enabled"),
            });
        }
        let row = self.replace_account(name, None, |row| *row = after).await?;
        Ok(AccountChanged { changed: true, account: shown(&row) })
    }

    /// Replaces an account's row, and ends its sessions but `session` if it may not or has another password. The caller
    /// holds the turn to change.
    pub(crate) async fn replace_account(
        &self,
        name: &str,
        session: Option<[u8; 32]>,
        change: impl FnOnce(&mut AccountRow),
    ) -> ApiResult<AccountRow> {
        let before = self.tables().accounts.get(name).cloned().ok_or_else(|| missing(name))?;
        let mut row = before.clone();
        change(&mut row);
        let ends = !row.enabled || row.password_hash != before.password_hash;
        let kept = row.clone();
        self.stored(move |store| {
            store.put_account(&kept)?;
            if ends { store.delete_sessions_of(&kept.name, session.as_ref()) } else { Ok(()) }
        })
        .await?;
        let mut tables = self.tables();
        if ends {
            tables.sessions.retain(|hash, of| of.account != name || Some(*hash) == session);
        }
        tables.accounts.insert(name.into(), row.clone());
        Ok(row)
    }

    /// Removes an account with its tokens and sessions.
    ///
    /// # Errors
    /// If it is the last administrator.
    pub async fn delete_account(&self, name: &str) -> ApiResult<Changed> {
        let _changing = self.changing.lock().await;
        if !self.tables().accounts.contains_key(name) {
            return Ok(Changed { changed: false, message: format!("there is no account {name}") });
        }
        if is_last_administrator(&self.tables(), name) {
            return Err(last(name, "removed"));
        }
        let gone = name.to_owned();
        self.stored(move |store| store.delete_account(&gone)).await?;
        let mut tables = self.tables();
        tables.accounts.remove(name);
        tables.tokens.retain(|_, row| row.account != name);
        tables.sessions.retain(|_, row| row.account != name);
        Ok(Changed { changed: true, message: format!("account {name} is deleted with its tokens and sessions") })
    }
}
