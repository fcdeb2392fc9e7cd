//! The state folder: what the daemon must know before it can open a pool.
//!
//! ```text
//!   lock               held while a daemon runs
//!   state.json         pools with the last paths of their disks and their alerts, exports, what was set by hand for disks of no pool
//!   jobs.json          jobs that have not ended, and the last that have
//!   witness-ID.json    how far the pool ID was
//!   events.jsonl       what happened; events.1.jsonl before that
//! ```
//!
//! Invariant: a file is replaced whole (temporary file, fsync, rename, fsync of the folder), so that it holds the old
//! or the new state and nothing else, whenever power fails. Two daemons never work on one folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holdfast_model::{Media, Place, Uuid};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::alerts::Alerts;

/// The version of `state.json` that this program writes.
pub const STATE_VERSION: u32 = 1;
const STATE_FILE: &str = "state.json";

/// Why the state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another daemon works on it.
    #[error("state folder {0} is in use by another daemon{1}: stop that one, or name another folder with --state")]
    InUse(PathBuf, String),
    /// The operating system refused.
    #[error("state folder: cannot {tried} {path}: {source}; next: check the path, its owner and the room on its file system")]
    System {
        /// What was tried.
        tried: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A file of it is not what this program writes.
    #[error("{path} is damaged ({reason}): {next_action}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do about it.
        next_action: &'static str,
    },
    /// A later program wrote it.
    #[error("{0} was written by a later version (format {1}): run that version, or a later one")]
    TooNew(PathBuf, u32),
}

/// A disk of a pool, where it was seen last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownDisk {
    /// Its id in the pool.
    pub id: Uuid,
    /// Its last path.
    pub path: String,
    /// Its serial number.
    pub serial: String,
}

/// A pool that is opened at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPool {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its disks.
    pub disks: Vec<KnownDisk>,
}

/// An export that is made again at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownExport {
    /// The name that clients ask for.
    pub name: String,
    /// The pool's id.
    pub pool: Uuid,
    /// The space's id.
    pub space: Uuid,
    /// `POOL/SPACE`, for messages while the pool is away.
    pub path: String,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// What an administrator set by hand for a disk of no pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskHint {
    /// What it is made of.
    pub media: Option<Media>,
    /// Where it sits.
    pub place: Option<Place>,
}

/// The content of `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The format of the file.
    pub version: u32,
    /// Pools that are opened at start.
    #[serde(default)]
    pub pools: Vec<KnownPool>,
    /// Exports that are made again at start.
    #[serde(default)]
    pub exports: Vec<KnownExport>,
    /// Files that serve as disks.
    #[serde(default)]
    pub file_disks: Vec<String>,
    /// What was set by hand for disks of no pool, by path.
    #[serde(default)]
    pub hints: std::collections::BTreeMap<String, DiskHint>,
    /// Alerts of pools that are not as usual, by the pool's id.
    #[serde(default)]
    pub alerts: std::collections::BTreeMap<Uuid, Alerts>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: STATE_VERSION,
            pools: vec![],
            exports: vec![],
            file_disks: vec![],
            hints: Default::default(),
            alerts: Default::default(),
        }
    }
}

/// The state folder, locked.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    _lock: File,
}

fn system(tried: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    move |source| StateError::System { tried, path: path.into(), source }
}

impl StateDir {
    /// Opens the folder, makes it if it is not there, and locks it until this is dropped. A daemon that was killed may hold
    /// the lock for a moment longer, so it is waited for, `patience` at most.
    ///
    /// # Errors
    /// If another daemon has it, or the operating system refuses.
    pub fn open(path: &Path, patience: Duration) -> Result<Self, StateError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(system("make", path))?;
        let path = path.canonicalize().map_err(system("open", path))?;
        let lock_path = path.join("lock");
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&lock_path);
        let mut lock = lock.map_err(system("open", &lock_path))?;
        let deadline = Instant::now() + patience;
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            let owner = fs::read_to_string(&lock_path).unwrap_or_default();
            let owner = owner.trim();
            let owner = if owner.is_empty() { String::new() } else { format!(" (process {owner})") };
            return Err(StateError::InUse(path, owner));
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(system("write", &lock_path))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads `state.json`; a folder without one is empty.
    ///
    /// # Errors
    /// If the file is damaged or from a later version.
    pub fn load(&self) -> Result<State, StateError> {
        let next_action = "move it away and import the pools with 'holdfast pool import --disk-dir DIR'";
        Ok(read_versioned(&self.path.join(STATE_FILE), STATE_VERSION, next_action)?.unwrap_or_default())
    }

    /// Replaces `state.json`; durable when it answers.
    ///
    /// # Errors
    /// If the operating system refuses; the old state stays then.
    pub fn store(&self, state: &State) -> Result<(), StateError> {
        let path = self.path.join(STATE_FILE);
        write_json(&path, state).map_err(system("write", &path))
    }
}

/// Reads a JSON file that says its format in `version`; `None` where there is none.
///
/// # Errors
/// If it cannot be read, is no such JSON, or of a format after `newest`.
pub fn read_versioned<T: DeserializeOwned>(path: &Path, newest: u32, next_action: &'static str) -> Result<Option<T>, StateError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    match read_json(path, next_action)? {
        Some(Version { version }) if version > newest => Err(StateError::TooNew(path.into(), version)),
        Some(_) => read_json(path, next_action),
        None => Ok(None),
    }
}

/// Reads a JSON file; `None` where there is none.
///
/// # Errors
/// If it cannot be read, or is no such JSON; `next_action` is what to do about that.
pub fn read_json<T: DeserializeOwned>(path: &Path, next_action: &'static str) -> Result<Option<T>, StateError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StateError::System { tried: "read", path: path.into(), source }),
    };
    let damaged = |error: serde_json::Error| StateError::Damaged { path: path.into(), reason: error.to_string(), next_action };
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

/// Replaces a file by `value` as JSON, whole and durable.
///
/// # Errors
/// If the operating system refuses; the old file stays then.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&text)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary, path)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(&folder.path().join("deep/state"), Duration::ZERO).unwrap();
        assert_eq!(dir.load().unwrap(), State::default());
        let mut state = State::default();
        state.file_disks.push("/x".into());
        state.hints.insert("/x".into(), DiskHint { media: Some(Media::Ssd), place: None });
        dir.store(&state).unwrap();
        assert_eq!(dir.load().unwrap(), state);
    }

    #[test]
    fn two_daemons_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = StateDir::open(folder.path(), Duration::ZERO).unwrap();
        let error = StateDir::open(folder.path(), Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("in use by another daemon") && error.contains(&std::process::id().to_string()), "{error}");
        drop(first);
        StateDir::open(folder.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_damaged_or_later_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path(), Duration::ZERO).unwrap();
        fs::write(folder.path().join("state.json"), "{\"version\": 1, \"pools\": 7}").unwrap();
        assert!(matches!(dir.load(), Err(StateError::Damaged { .. })));
        fs::write(folder.path().join("state.json"), "{\"version\": 2}").unwrap();
        assert!(matches!(dir.load(), Err(StateError::TooNew(_, 2))));
    }
}
