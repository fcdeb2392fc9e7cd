//! Accounts, tokens and sessions as rows.
//!
//! Invariant: with an account go its tokens and sessions, in the same transaction.

use rusqlite::Row;

use crate::{Store, StoreError};

/// An account. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRow {
    /// Its name.
    pub name: String,
    /// The word of its role.
    pub role: String,
    /// Whether it counts.
    pub enabled: bool,
    /// The hash of its password, with salt and cost, as a PHC string.
    pub password_hash: String,
    /// When it was made.
    pub created_ms: i64,
    /// When it last logged in.
    pub last_login_ms: Option<i64>,
}

/// A token. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// The account that it acts for.
    pub account: String,
    /// The word of its role.
    pub role: String,
    /// The tags that it may use, separated by spaces.
    pub areas: String,
    /// The hash of its secret.
    pub hash: [u8; 32],
    /// When it was made.
    pub created_ms: i64,
    /// When it ends.
    pub expires_ms: i64,
    /// When it was last used.
    pub last_used_ms: Option<i64>,
}

/// A session. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The hash of its id.
    pub hash: [u8; 32],
    /// The account that logged in.
    pub account: String,
    /// When it did.
    pub created_ms: i64,
    /// When it was last used.
    pub seen_ms: i64,
}

fn account(row: &Row<'_>) -> rusqlite::Result<AccountRow> {
    Ok(AccountRow {
        name: row.get(0)?,
        role: row.get(1)?,
        enabled: row.get(2)?,
        password_hash: row.get(3)?,
        created_ms: row.get(4)?,
        last_login_ms: row.get(5)?,
    })
}

fn token(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    Ok(TokenRow {
        id: row.get(0)?,
        name: row.get(1)?,
        account: row.get(2)?,
        role: row.get(3)?,
        areas: row.get(4)?,
        hash: row.get(5)?,
        created_ms: row.get(6)?,
        expires_ms: row.get(7)?,
        last_used_ms: row.get(8)?,
    })
}

fn session(row: &Row<'_>) -> rusqlite::Result<SessionRow> {
    Ok(SessionRow { hash: row.get(0)?, account: row.get(1)?, created_ms: row.get(2)?, seen_ms: row.get(3)? })
}

impl Store {
    fn all<T>(
        &self,
        tried: &'static str,
        query: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.run(tried, |connection| connection.prepare(query)?.query_map([], read)?.collect())
    }

    /// All accounts, by name.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn accounts(&self) -> Result<Vec<AccountRow>, StoreError> {
        let query = "SELECT name, role, enabled, password_hash, created_ms, last_login_ms FROM accounts ORDER BY name";
        self.all("read accounts", query, account)
    }

    /// Makes an account, or replaces what is there of it.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn put_account(&self, row: &AccountRow) -> Result<(), StoreError> {
        let statement = "INSERT INTO accounts VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name) DO UPDATE SET role = excluded.role, \
                         enabled = excluded.enabled, password_hash = excluded.password_hash, last_login_ms = excluded.last_login_ms";
        let values = (&row.name, &row.role, row.enabled, &row.password_hash, row.created_ms, row.last_login_ms);
        self.run("write an account", |connection| connection.execute(statement, values).map(drop))
    }

    /// Removes an account with its tokens and sessions.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn delete_account(&self, name: &str) -> Result<(), StoreError> {
        self.run("remove an account", |connection| {
            connection.execute("DELETE FROM accounts WHERE name = ?1", [name]).map(drop)
        })
    }

    /// All tokens, the oldest first.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        let query = "SELECT id, name, account, role, areas, hash, created_ms, expires_ms, last_used_ms FROM tokens ORDER BY created_ms, id";
        self.all("read tokens", query, token)
    }

    /// Keeps a new token.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn add_token(&self, row: &TokenRow) -> Result<(), StoreError> {
        let statement = "INSERT INTO tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let values = (
            &row.id,
            &row.name,
            &row.account,
            &row.role,
            &row.areas,
            &row.hash[..],
            row.created_ms,
            row.expires_ms,
            row.last_used_ms,
        );
        self.run("write a token", |connection| connection.execute(statement, values).map(drop))
    }

    /// Notes when a token was last used.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn touch_token(&self, id: &str, used_ms: i64) -> Result<(), StoreError> {
        let statement = "UPDATE tokens SET last_used_ms = ?2 WHERE id = ?1";
        self.run("write a token", |connection| connection.execute(statement, (id, used_ms)).map(drop))
    }

    /// Removes a token.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn delete_token(&self, id: &str) -> Result<(), StoreError> {
        self.run("remove a token", |connection| connection.execute("DELETE FROM tokens WHERE id = ?1", [id]).map(drop))
    }

    /// All sessions.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        self.all(
            "read sessions",
            "SELECT hash, account, created_ms, seen_ms FROM sessions ORDER BY created_ms",
            session,
        )
    }

    /// Makes a session, or notes when it was last used.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn put_session(&self, row: &SessionRow) -> Result<(), StoreError> {
        let statement =
            "INSERT INTO sessions VALUES (?1, ?2, ?3, ?4) ON CONFLICT (hash) DO UPDATE SET seen_ms = excluded.seen_ms";
        let values = (&row.hash[..], &row.account, row.created_ms, row.seen_ms);
        self.run("write a session", |connection| connection.execute(statement, values).map(drop))
    }

    /// Ends a session.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn delete_session(&self, hash: &[u8; 32]) -> Result<(), StoreError> {
        self.run("end a session", |connection| {
            connection.execute("DELETE FROM sessions WHERE hash = ?1", [&hash[..]]).map(drop)
        })
    }

    /// Ends all sessions of an account but the one with the hash `but`.
    ///
    /// # Errors
    /// If it cannot be written; nothing is changed then.
    pub fn delete_sessions_of(&self, account: &str, but: Option<&[u8; 32]>) -> Result<(), StoreError> {
        let but = but.map_or(&[][..], |hash| &hash[..]);
        let statement = "DELETE FROM sessions WHERE account = ?1 AND hash <> ?2";
        self.run("end sessions", |connection| connection.execute(statement, (account, but)).map(drop))
    }
}
