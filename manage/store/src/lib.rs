//! The configuration store: one SQLite file in the state folder.
//!
//! ```text
//!   schema.rs    numbered migrations          access.rs   accounts, tokens, sessions
//!   copy.rs      backup and restore           audit.rs    who changed what, bounded
//! ```
//!
//! Invariants: what a call answered is on the disk (write-ahead log, synced at each commit); a change is whole or not
//! there at all; the file belongs to its owner alone (0600). Of what accounts show it holds hashes; what the daemon
//! itself has to show to other servers, such as the password of a mail server, it holds as it is.

mod access;
mod audit;
mod copy;
mod schema;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

pub use access::{AccountRow, SessionRow, TokenRow};
pub use audit::{AuditLimits, AuditRow, AuditShare, AuditWhich};
pub use copy::restore;
pub use schema::NEWEST as NEWEST_SCHEMA;

/// Room that any change finds if a document of this size does, and under which name that is tried.
const PROBE_BYTES: usize = 64 << 10;
const PROBE: &str = "room.passing";
const SET_DOCUMENT: &str = "INSERT INTO documents (name, content) VALUES (?1, ?2) \
                            ON CONFLICT (name) DO UPDATE SET content = excluded.content";

/// The file's name in the state folder.
pub const FILE: &str = "config.db";

/// Why the store cannot do what it is asked for.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite or the operating system refused.
    #[error("configuration store {path}: cannot {tried}: {reason}; next: check its owner, its disk and the room on it")]
    Failed {
        /// The file.
        path: PathBuf,
        /// What was tried.
        tried: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// The file is no store, or a damaged one.
    #[error(
        "configuration store {path} is damaged or none ({reason}); next: put a backup in its place with 'holdfast restore FILE --state DIR'"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A later version wrote it.
    #[error(
        "configuration store {0} was written by a later version (format {1}); next: run that version or a later one"
    )]
    TooNew(PathBuf, i64),
}

/// Turns an error of SQLite into one that names file and act.
fn failed(path: &Path, tried: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
            StoreError::Damaged { path: path.into(), reason: error.to_string() }
        }
        _ => StoreError::Failed { path: path.into(), tried, reason: error.to_string() },
    }
}

/// The open store. Calls wait for the disk: callers on a runtime give them to a thread that may.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Mutex<Connection>,
    audit: Mutex<audit::Extents>,
    trouble: Mutex<Option<String>>,
    limits: AuditLimits,
}

impl Store {
    /// Opens the store in the state folder `folder`, makes it if it is not there, and brings it to the newest format.
    ///
    /// # Errors
    /// If it is damaged or of a later version, or the operating system refuses.
    pub fn open(folder: &Path, limits: AuditLimits) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        let made = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        made.map_err(|error| StoreError::Failed { path: path.clone(), tried: "open it", reason: error.to_string() })?;
        let mut connection = Connection::open(&path).map_err(failed(&path, "open it"))?;
        schema::prepare(&mut connection, &path)?;
        let extents = audit::extents(&connection).map_err(failed(&path, "measure the audit log"))?;
        copy::drop_left_behind(folder);
        let (connection, audit) = (Mutex::new(connection), Mutex::new(extents));
        Ok(Self { path, connection, audit, trouble: Mutex::default(), limits })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run<T>(
        &self,
        tried: &'static str,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let connection = self.connection();
        let changes = connection.total_changes();
        let done = act(&connection).map_err(failed(&self.path, tried));
        self.note(done, connection.total_changes() > changes)
    }

    /// Remembers a failure until a change succeeds.
    fn note<T>(&self, done: Result<T, StoreError>, changed: bool) -> Result<T, StoreError> {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match &done {
            Err(StoreError::Failed { path, tried, reason }) => {
                *trouble = Some(format!("{}: cannot {tried}: {reason}", path.display()));
            }
            Err(error) => *trouble = Some(error.to_string()),
            Ok(_) if changed => *trouble = None,
            Ok(_) => {}
        }
        done
    }

    /// Why the last change could not be written, if so.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The document `name`; none where none was stored.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn document(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.run("read a document", |connection| {
            connection.query_row("SELECT content FROM documents WHERE name = ?1", [name], |row| row.get(0)).optional()
        })
    }

    /// Replaces the document `name`; durable when it answers.
    ///
    /// # Errors
    /// If it cannot be written; the old one stays then.
    pub fn set_document(&self, name: &str, content: &str) -> Result<(), StoreError> {
        self.run("write a document", |connection| connection.execute(SET_DOCUMENT, [name, content]).map(drop))
    }

    /// Makes sure that a change can be written now: a document is written, and removed again.
    ///
    /// # Errors
    /// If none can be written.
    pub fn probe(&self) -> Result<(), StoreError> {
        self.run("write a document", |connection| {
            connection.execute(SET_DOCUMENT, [PROBE, &" ".repeat(PROBE_BYTES)])?;
            connection.execute("DELETE FROM documents WHERE name = ?1", [PROBE]).map(drop)
        })
    }
}

/// How long a statement waits for another process that reads the file, such as a backup by hand.
const BUSY: Duration = Duration::from_secs(5);
