//! Backup while the store is in use, and restore while it is not.
//!
//! Invariants: a backup is one consistent state, without sessions and without documents of what is under way
//! (`*.passing`); a restore checks the backup before it touches anything, keeps what it replaces, and after a crash has
//! left the old store or the new one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use crate::{FILE, Store, StoreError, failed, schema};

/// Pages that are copied at once: all, since a change between two parts would begin the copy anew, and readers hinder
/// no writer.
const PAGES: i32 = i32::MAX;
/// How the name of a copy begins and ends that is handed out as an open file.
const PASSING: (&str, &str) = (".copy-", ".passing");
/// What is tried, in messages.
const RESTORING: &str = "put the backup in place";

impl Store {
    /// A copy as an open file that has no name any more, to be read from its beginning.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn passing_copy(&self) -> Result<File, StoreError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}{}{}", PASSING.0, MADE.fetch_add(1, Ordering::Relaxed), PASSING.1);
        let path = self.path.with_file_name(name);
        let opened =
            self.backup(&path).and_then(|()| File::open(&path).map_err(|error| system(&path, "read it", &error)));
        remove(&path);
        opened
    }

    /// Writes a copy to `target`, a file that is not there yet.
    ///
    /// # Errors
    /// If it is there, or cannot be written.
    pub fn backup(&self, target: &Path) -> Result<(), StoreError> {
        let explain = failed(target, "write a backup");
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target);
        made.map_err(|error| system(target, "write a backup", &error))?;
        let mut copy = Connection::open(target).map_err(&explain)?;
        let source = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(&explain)?;
        Backup::new(&source, &mut copy)
            .and_then(|backup| backup.run_to_completion(PAGES, std::time::Duration::ZERO, None))
            .map_err(&explain)?;
        copy.execute("DELETE FROM sessions", []).map_err(&explain)?;
        copy.execute("DELETE FROM documents WHERE name LIKE '%.passing'", []).map_err(&explain)?;
        copy.pragma_update(None, "journal_mode", "delete").map_err(&explain)?;
        copy.execute_batch("VACUUM").map_err(&explain)?;
        copy.close().map_err(|(_, error)| explain(error))?;
        File::open(target).and_then(|file| file.sync_all()).map_err(|error| system(target, "write a backup", &error))
    }
}

fn system(path: &Path, tried: &'static str, error: &io::Error) -> StoreError {
    StoreError::Failed { path: path.into(), tried, reason: error.to_string() }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes the store at `path` with the files that SQLite puts beside it.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = fs::remove_file(beside(path, suffix));
    }
}

/// Removes copies that a daemon was making when it was killed.
pub(crate) fn drop_left_behind(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PASSING.0) && name.contains(PASSING.1)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// What tables, indexes and other things a store consists of.
fn parts(connection: &Connection) -> rusqlite::Result<Vec<(String, String, Option<String>)>> {
    let query = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name";
    connection.prepare(query)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
}

fn documents(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare("SELECT name, content FROM documents ORDER BY name")?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Makes sure that `path` is a whole store of a version that this program knows, in one file. Answers its documents.
fn check(path: &Path) -> Result<Vec<(String, String)>, StoreError> {
    let explain = failed(path, "read it");
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(&explain)?;
    let damaged = |reason: String| StoreError::Damaged { path: path.into(), reason };
    let version = schema::version(&connection, path)?;
    if version == 0 {
        return Err(damaged("there is nothing in it".into()));
    }
    let verdict: String = connection.pragma_query_value(None, "integrity_check", |row| row.get(0)).map_err(&explain)?;
    if verdict != "ok" {
        return Err(damaged(verdict.lines().next().unwrap_or_default().into()));
    }
    let mut new = Connection::open_in_memory().map_err(&explain)?;
    schema::prepare_to(&mut new, path, version)?;
    if parts(&connection).map_err(&explain)? != parts(&new).map_err(&explain)? {
        return Err(damaged("its tables are not those of a store".into()));
    }
    let documents = documents(&connection).map_err(|error| match error {
        rusqlite::Error::InvalidColumnType(..) => damaged(error.to_string()),
        error => explain(error),
    })?;
    connection.pragma_update(None, "journal_mode", "delete").map_err(&explain)?;
    connection.close().map_err(|(_, error)| explain(error))?;
    Ok(documents)
}

/// Puts the backup `file` in the place of the store in the state folder `folder`, on which no daemon works. `accept`
/// gets name and content of each document and refuses those that its owner cannot read. Answers where the replaced
/// store is kept; none where there was none.
///
/// # Errors
/// If the backup is damaged, empty, of a later version or not accepted, or the operating system refuses; the store
/// stays as it is then.
pub fn restore<E: From<StoreError>>(
    file: &Path,
    folder: &Path,
    accept: impl Fn(&str, &str) -> Result<(), E>,
) -> Result<Option<PathBuf>, E> {
    let (path, new) = (folder.join(FILE), folder.join(FILE.to_owned() + ".new"));
    let checked = copy_checked(file, &path, &new).map_err(E::from);
    let accepted = checked.and_then(|documents| documents.iter().try_for_each(|(name, content)| accept(name, content)));
    accepted.inspect_err(|_| remove(&new))?;
    Ok(replace(&path, &new)?)
}

/// Copies a backup to `new`, beside the store that it is to replace at `path`, and checks it there. Answers its
/// documents.
fn copy_checked(file: &Path, path: &Path, new: &Path) -> Result<Vec<(String, String)>, StoreError> {
    fs::metadata(file).map_err(|error| system(file, "read it", &error))?;
    let explain = |error: io::Error| system(path, RESTORING, &error);
    remove(new);
    let mut source = File::open(file).map_err(|error| system(file, "read it", &error))?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new).map_err(explain)?;
    io::copy(&mut source, &mut target).map_err(explain)?;
    let documents = check(new).map_err(|error| match error {
        StoreError::Damaged { reason, .. } => StoreError::Damaged { path: file.into(), reason },
        StoreError::TooNew(_, version) => StoreError::TooNew(file.into(), version),
        other => other,
    })?;
    target.sync_all().map_err(explain)?;
    Ok(documents)
}

/// Renames `new` to `path`. Answers under which name the store that was there is kept.
fn replace(path: &Path, new: &Path) -> Result<Option<PathBuf>, StoreError> {
    let explain = |error: io::Error| system(path, RESTORING, &error);
    let mut replaced = None;
    if path.exists() {
        // What is still in the write-ahead log goes into the file, so that the file alone is the store that is kept.
        if let Ok(old) = Connection::open(path) {
            let _ = old.pragma_update(None, "wal_checkpoint", "truncate");
        }
        let kept = (1..).map(|number| beside(path, &format!(".replaced-{number}"))).find(|path| !path.exists());
        let kept = kept.unwrap_or_else(|| beside(path, ".replaced"));
        for suffix in ["-wal", "-shm"] {
            match fs::rename(beside(path, suffix), beside(&kept, suffix)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(explain(error)),
                _ => {}
            }
        }
        fs::hard_link(path, &kept).map_err(explain)?;
        replaced = Some(kept);
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::rename(new, path).and_then(|()| File::open(folder)?.sync_all()).map_err(explain)?;
    Ok(replaced)
}
