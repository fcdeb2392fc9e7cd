//! `history.db`: each minute of 30 days in SQLite, written and read by one thread.
//!
//! ```text
//!   object   id, kind, key, since             minute   object, at, requests and bytes of the minute, latencies
//! ```
//!
//! Invariants: the file holds at most [`ROWS`] minutes of one object each, about 50 bytes a row. What is older than
//! [`DAYS`] goes, by a clock that has run for a day's worth of minutes: one that is wrong for less removes nothing. A
//! damaged file is set aside and a new one begun; one that cannot be written loses history, and nothing else.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_api::{HistoryKind, Severity, word};
use holdfast_block::Totals;
use holdfast_model::ObjectRef;
use rusqlite::{Connection, ErrorCode, Transaction, params};
use tokio::sync::oneshot;

use super::Key;
use super::ring::Sample;
use crate::events::EventLog;

/// Days that are kept.
pub(crate) const DAYS: i64 = 30;
/// Rows that are kept, at most; beyond, the oldest days go.
pub(crate) const ROWS: i64 = 4_000_000;
const DAY: i64 = 86_400;
/// Minutes of the last [`DAYS`] before a clock is believed.
const MINUTES_OF_TRUST: i64 = DAY / 60;
/// How often what is too old is looked for.
const PRUNE_EVERY: i64 = 3600;
/// Requests that wait for the thread, at most.
const QUEUE: usize = 64;
const FILE: &str = "history.db";
const OBJECT: &str = "history";
const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    PRAGMA journal_size_limit = 16777216;
    CREATE TABLE IF NOT EXISTS object (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, since INTEGER NOT NULL, UNIQUE (kind, key)
    );
    CREATE TABLE IF NOT EXISTS minute (
        object INTEGER NOT NULL, at INTEGER NOT NULL,
        reads INTEGER NOT NULL, writes INTEGER NOT NULL, read_bytes INTEGER NOT NULL, written_bytes INTEGER NOT NULL,
        read_p50 INTEGER NOT NULL, read_p99 INTEGER NOT NULL, write_p50 INTEGER NOT NULL, write_p99 INTEGER NOT NULL,
        PRIMARY KEY (object, at)
    ) WITHOUT ROWID;";

/// A minute of an object. The server has one for each minute in which the daemon ran, others only where something was
/// asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    key: Key,
    /// The second in which it began.
    pub(super) at: i64,
    totals: Totals,
    latencies: [u32; 4],
}

impl Row {
    /// What a minute brought, with the latencies of `sample`.
    pub(super) fn new(key: Key, at: i64, totals: Totals, sample: Sample) -> Self {
        Self { key, at, totals, latencies: [sample.read_p50, sample.read_p99, sample.write_p50, sample.write_p99] }
    }

    /// Its rates over the minute.
    pub(super) fn mean(&self) -> Sample {
        Sample::over(60.0, &self.totals, self.latencies)
    }
}

enum Command {
    Write(Vec<Row>),
    Read { key: Key, from: i64, to: i64, answer: oneshot::Sender<Result<Vec<Row>, String>> },
    Stop,
}

/// Why nothing was read.
#[derive(Debug)]
pub(super) enum Unread {
    Busy,
    Stopped,
    Failed(String),
}

/// A way to reach the thread.
pub(super) struct Store {
    commands: SyncSender<Command>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Store {
    /// Starts the thread on the file in `folder`.
    pub(super) fn open(folder: &Path, events: Arc<EventLog>) -> std::io::Result<Self> {
        let (commands, queue) = sync_channel(QUEUE);
        let mut keeper = Keeper { path: folder.join(FILE), events, file: None, complained: false, pruned: i64::MIN };
        let thread = std::thread::Builder::new().name("history".into()).spawn(move || keeper.run(&queue))?;
        Ok(Self { commands, thread: Mutex::new(Some(thread)) })
    }

    /// Writes rows, some time soon. Minutes that come while the thread is far behind are lost.
    pub(super) fn write(&self, rows: Vec<Row>) {
        if let Err(TrySendError::Full(_)) = self.commands.try_send(Command::Write(rows)) {
            tracing::warn!("a minute of history is lost: its file is slower than the minutes come");
        }
    }

    /// The minutes of an object that begin in `from..to`.
    pub(super) async fn read(&self, key: Key, from: i64, to: i64) -> Result<Vec<Row>, Unread> {
        let (answer, read) = oneshot::channel();
        match self.commands.try_send(Command::Read { key, from, to, answer }) {
            Ok(()) => read.await.map_err(|_| Unread::Stopped)?.map_err(Unread::Failed),
            Err(TrySendError::Full(_)) => Err(Unread::Busy),
            Err(TrySendError::Disconnected(_)) => Err(Unread::Stopped),
        }
    }

    /// Writes what waits, and ends the thread.
    pub(super) fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = self.commands.send(Command::Stop);
            let _ = thread.join();
        }
    }
}

/// The thread's own.
struct Keeper {
    path: PathBuf,
    events: Arc<EventLog>,
    file: Option<Connection>,
    complained: bool,
    pruned: i64,
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || matches!(error, rusqlite::Error::SqliteFailure(_, Some(reason)) if reason.contains("no such column"))
}

fn damaged(reason: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(reason))
}

impl Keeper {
    fn run(&mut self, queue: &Receiver<Command>) {
        if let Err(error) = self.with(|_| Ok(())) {
            self.complain(&error);
        }
        while let Ok(command) = queue.recv() {
            match command {
                Command::Write(rows) => self.write(&rows),
                Command::Read { key, from, to, answer } => {
                    let read = self.with(|file| read(file, &key, from, to));
                    let _ = answer.send(read.map_err(|error| error.to_string()));
                }
                Command::Stop => return,
            }
        }
    }

    fn write(&mut self, rows: &[Row]) {
        // Where nothing was counted there is nothing to keep, nor a time to go by.
        let Some(now) = rows.iter().map(|row| row.at).max() else { return };
        let written = self.with(|file| write(file, rows));
        let pruned = match written {
            // Also where the clock was set back, or nothing would go until it is as late again.
            Ok(()) if now.saturating_sub(PRUNE_EVERY) >= self.pruned || now < self.pruned.saturating_sub(60) => {
                self.pruned = now;
                self.with(|file| prune(file, now, ROWS))
            }
            other => other,
        };
        match pruned {
            Ok(()) => self.complained = false,
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&mut self, error: &rusqlite::Error) {
        if !std::mem::replace(&mut self.complained, true) {
            let cause = format!("{} cannot be written: {error}; minutes are lost meanwhile", self.path.display());
            self.events.emit(
                Severity::Warning,
                &ObjectRef::server(OBJECT),
                &cause,
                "check the free room and permissions of the state folder",
            );
        }
    }

    /// Does something with the file, which is opened if it is not. A damaged one is set aside, and it is done with a
    /// new one.
    fn with<T>(&mut self, mut act: impl FnMut(&mut Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let mut attempt = |file: &mut Option<Connection>, path: &Path| {
            let connection = match file {
                Some(connection) => connection,
                None => file.insert(open(path)?),
            };
            act(connection)
        };
        match attempt(&mut self.file, &self.path) {
            Err(error) if is_damage(&error) => {
                self.file = None;
                self.set_aside(&error);
                attempt(&mut self.file, &self.path)
            }
            done => done,
        }
    }

    fn set_aside(&self, error: &rusqlite::Error) {
        let aside = self.path.with_extension("db.damaged");
        let moved = std::fs::rename(&self.path, &aside);
        for beside in ["db-wal", "db-shm"] {
            let _ = std::fs::remove_file(self.path.with_extension(beside));
        }
        let cause = format!("{} is damaged ({error}); a new one is begun", self.path.display());
        let next_action = match moved {
            Ok(()) => format!("remove {}, unless something is to be read from it", aside.display()),
            Err(error) => format!("it cannot be set aside ({error}): look at the rights in the state folder"),
        };
        self.events.emit(Severity::Warning, &ObjectRef::server(OBJECT), &cause, &next_action);
    }
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    // SQLite gives the files beside it the same rights.
    let _ = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = Connection::open(path)?;
    file.execute_batch(SCHEMA)?;
    match file.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))?.as_str() {
        "ok" => Ok(file),
        found => Err(damaged(found.into())),
    }
}

fn write(file: &mut Connection, rows: &[Row]) -> rusqlite::Result<()> {
    let change = file.transaction()?;
    for row in rows {
        let (Totals { reads, read_bytes, writes, written_bytes }, latencies) = (row.totals, row.latencies);
        let object = object_of(&change, &row.key, row.at)?;
        // A minute comes in parts where the daemon is started again within it.
        change
            .prepare_cached(
                "INSERT INTO minute VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (object, at) DO UPDATE SET
                    reads = reads + excluded.reads, writes = writes + excluded.writes,
                    read_bytes = read_bytes + excluded.read_bytes, written_bytes = written_bytes + excluded.written_bytes,
                    read_p50 = max(read_p50, excluded.read_p50), read_p99 = max(read_p99, excluded.read_p99),
                    write_p50 = max(write_p50, excluded.write_p50), write_p99 = max(write_p99, excluded.write_p99)",
            )?
            .execute(params![
                object,
                row.at,
                reads as i64,
                writes as i64,
                read_bytes as i64,
                written_bytes as i64,
                latencies[0],
                latencies[1],
                latencies[2],
                latencies[3]
            ])?;
    }
    change.commit()
}

fn object_of(change: &Transaction<'_>, key: &Key, at: i64) -> rusqlite::Result<i64> {
    change
        .prepare_cached(
            // Earlier where the clock was ahead when the object came.
            "INSERT INTO object (kind, key, since) VALUES (?1, ?2, ?3)
             ON CONFLICT (kind, key) DO UPDATE SET since = excluded.since WHERE excluded.since < since",
        )?
        .execute(params![word(&key.kind), key.id, at])?;
    change
        .prepare_cached("SELECT id FROM object WHERE kind = ?1 AND key = ?2")?
        .query_row(params![word(&key.kind), key.id], |row| row.get(0))
}

/// The minutes of an object: those in which the daemon ran, from the first in which the object was there.
fn read(file: &mut Connection, key: &Key, from: i64, to: i64) -> rusqlite::Result<Vec<Row>> {
    let mut statement = file.prepare_cached(
        "SELECT ran.at, coalesce(own.reads, 0), coalesce(own.writes, 0), coalesce(own.read_bytes, 0), coalesce(own.written_bytes, 0),
                coalesce(own.read_p50, 0), coalesce(own.read_p99, 0), coalesce(own.write_p50, 0), coalesce(own.write_p99, 0)
         FROM object
         JOIN minute ran ON ran.object = (SELECT id FROM object WHERE kind = ?5 AND key = '')
         LEFT JOIN minute own ON own.object = object.id AND own.at = ran.at
         WHERE object.kind = ?1 AND object.key = ?2 AND ran.at >= max(?3, object.since) AND ran.at < ?4
         ORDER BY ran.at",
    )?;
    let count = |row: &rusqlite::Row<'_>, at: usize| row.get::<_, i64>(at).map(|count| count.max(0) as u64);
    let rows =
        statement.query_map(params![word(&key.kind), key.id, from - 59, to, word(&HistoryKind::Server)], |row| {
            Ok(Row {
                key: key.clone(),
                at: row.get(0)?,
                totals: Totals {
                    reads: count(row, 1)?,
                    writes: count(row, 2)?,
                    read_bytes: count(row, 3)?,
                    written_bytes: count(row, 4)?,
                },
                latencies: [row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?],
            })
        })?;
    rows.collect()
}

/// Removes what is too old, the oldest days while there are more than `most` rows, and objects of which nothing is
/// left.
fn prune(file: &mut Connection, now: i64, most: i64) -> rusqlite::Result<()> {
    let change = file.transaction()?;
    if is_believed(&change, now)? {
        remove_before(&change, now - DAYS * DAY)?;
    }
    // By what is there, and not by the clock.
    while change.query_row("SELECT count(*) FROM minute", [], |row| row.get::<_, i64>(0))? > most {
        let oldest: i64 = change.query_row("SELECT min(at) FROM minute", [], |row| row.get(0))?;
        remove_before(&change, oldest.div_euclid(DAY) * DAY + DAY)?;
    }
    change.execute("DELETE FROM object WHERE NOT EXISTS (SELECT 1 FROM minute WHERE minute.object = object.id)", [])?;
    change.commit()
}

/// Whether the clock ran for long enough in the days before `now`.
fn is_believed(change: &Transaction<'_>, now: i64) -> rusqlite::Result<bool> {
    let minutes = change.query_row(
        "SELECT count(*) FROM minute WHERE object = (SELECT id FROM object WHERE kind = ?1 AND key = '') AND at > ?2 AND at <= ?3",
        params![word(&HistoryKind::Server), now - DAYS * DAY, now],
        |row| row.get::<_, i64>(0),
    )?;
    Ok(minutes >= MINUTES_OF_TRUST)
}

fn remove_before(change: &Transaction<'_>, oldest: i64) -> rusqlite::Result<()> {
    change.execute("DELETE FROM minute WHERE object IN (SELECT id FROM object) AND at < ?1", [oldest])?;
    Ok(())
}

#[cfg(test)]
mod tests;
