//! The tables, by numbered migrations.
//!
//! Invariants: a migration is done whole or not at all, and once; a published one never changes. The file's
//! `user_version` is the number of the last one done.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::{BUSY, StoreError, failed};

/// What `application_id` says of a store of this program ("HfCf").
pub(crate) const APPLICATION: i64 = 0x4866_4366;

const MIGRATIONS: &[&str] = &[
    "CREATE TABLE documents (name TEXT PRIMARY KEY, content TEXT NOT NULL) STRICT;
     CREATE TABLE accounts (
         name TEXT PRIMARY KEY,
         role TEXT NOT NULL,
         enabled INTEGER NOT NULL,
         password_hash TEXT NOT NULL,
         created_ms INTEGER NOT NULL,
         last_login_ms INTEGER
     ) STRICT;
     CREATE TABLE tokens (
         id TEXT PRIMARY KEY,
         name TEXT NOT NULL,
         account TEXT NOT NULL REFERENCES accounts (name) ON DELETE CASCADE,
         role TEXT NOT NULL,
         areas TEXT NOT NULL,
         hash BLOB NOT NULL UNIQUE,
         created_ms INTEGER NOT NULL,
         expires_ms INTEGER NOT NULL,
         last_used_ms INTEGER
     ) STRICT;
     CREATE TABLE sessions (
         hash BLOB PRIMARY KEY,
         account TEXT NOT NULL REFERENCES accounts (name) ON DELETE CASCADE,
         created_ms INTEGER NOT NULL,
         seen_ms INTEGER NOT NULL
     ) STRICT;
     CREATE TABLE audit (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         time_ms INTEGER NOT NULL,
         account TEXT NOT NULL,
         role TEXT NOT NULL,
         via TEXT NOT NULL,
         origin TEXT NOT NULL,
         operation TEXT NOT NULL,
         method TEXT NOT NULL,
         path TEXT NOT NULL,
         kind TEXT NOT NULL,
         object_id TEXT NOT NULL,
         object TEXT NOT NULL,
         before TEXT,
         after TEXT,
         status INTEGER NOT NULL,
         request_id TEXT NOT NULL,
         bytes INTEGER NOT NULL
     ) STRICT;
     CREATE INDEX audit_account ON audit (account, id);
     CREATE INDEX audit_object ON audit (object, id);
     CREATE INDEX audit_object_id ON audit (object_id, id);",
    // Which share of the log a record is in: 0 for what was logged before there were shares.
    "ALTER TABLE audit ADD COLUMN share INTEGER NOT NULL DEFAULT 0;
     CREATE INDEX audit_share ON audit (share, id);",
];

/// The newest format that this program knows.
pub const NEWEST: i64 = MIGRATIONS.len() as i64;

/// Reads which format `connection` has, and whether it is a store at all.
pub(crate) fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let version = number("user_version").map_err(failed(path, "read its format"))?;
    let application = number("application_id").map_err(failed(path, "read its format"))?;
    if version != 0 && application != APPLICATION {
        return Err(StoreError::Damaged { path: path.into(), reason: "another program wrote it".into() });
    }
    if version > NEWEST {
        return Err(StoreError::TooNew(path.into(), version));
    }
    Ok(version)
}

/// Sets `connection` up and does the migrations that are missing.
pub(crate) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    prepare_to(connection, path, NEWEST)
}

/// The same, up to the format `newest`.
pub(crate) fn prepare_to(connection: &mut Connection, path: &Path, newest: i64) -> Result<(), StoreError> {
    let explain = failed(path, "set it up");
    connection.busy_timeout(BUSY).map_err(&explain)?;
    let done = version(connection, path)?;
    connection.pragma_update(None, "journal_mode", "wal").map_err(&explain)?;
    connection.pragma_update(None, "synchronous", "full").map_err(&explain)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(&explain)?;
    for (number, migration) in (1..).zip(MIGRATIONS).take(newest as usize).skip(done as usize) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&explain)?;
        transaction.execute_batch(migration).map_err(&explain)?;
        transaction.pragma_update(None, "application_id", APPLICATION).map_err(&explain)?;
        transaction.pragma_update(None, "user_version", number).map_err(&explain)?;
        transaction.commit().map_err(&explain)?;
    }
    Ok(())
}
