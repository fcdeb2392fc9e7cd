//! The state folder: what the daemon must know before it can open a pool.
//!
//! ```text
//!   lock               held while a daemon runs
//!   config.db          pools with the last paths of their disks, exports and targets as seen last, settings, what was set by hand for disks
//!                      of no pool; accounts, tokens, sessions and the audit log
//!   jobs.json          jobs that have not ended, and the last that have
//!   witness-ID.json    how far the pool ID was
//!   events.jsonl       what happened; events.1.jsonl before that
//!   reserve            room that a start takes where the file system is full
//! ```
//!
//! Invariants: the document in `config.db` is replaced in one transaction, and `state.json` of an older version is
//! taken over whole before anything is done with it. A file is replaced whole (temporary file, fsync, rename, fsync of
//! the folder), so that it holds the old or the new state and nothing else, whenever power fails. Two daemons never
//! work on one folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use holdfast_api::{Protocol, Qos};
use holdfast_model::{Media, Place, Uuid};
use holdfast_store::{Store, StoreError};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::preferences::Chosen;
use crate::targets::{GoneTarget, KnownAccount, KnownTarget};

/// The version of the document that this program writes.
pub const STATE_VERSION: u32 = 1;
/// What an older version kept it in.
const STATE_FILE: &str = "state.json";
/// Its name in the store.
const DOCUMENT: &str = "configuration";
/// Room that is kept for the next start. SQLite makes files beside its own whenever it opens one, so in a folder without
/// any room nothing could even be read.
const RESERVE_FILE: &str = "reserve";
const RESERVE_BYTES: usize = 1 << 20;
/// Free room, in reserves, at which the reserve is made whole again: with less others need it more.
const PLENTY: u64 = 8;
const REPAIR: &str = "move it away and import the pools with 'holdfast pool import --disk-dir DIR'";

/// Why the state folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another daemon works on it.
    #[error("state folder {0} is in use by another daemon{1}: stop that one, or name another folder with --state")]
    InUse(PathBuf, String),
    /// The operating system refused.
    #[error(
        "state folder: cannot {tried} {path}: {source}; next: check the path, its owner and the room on its file system"
    )]
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
    /// The configuration store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A later program wrote it.
    #[error("{0} was written by a later version (format {1}): run that version or a later one")]
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

/// An export, as its pool keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownExport {
    /// The name that clients ask for.
    pub name: String,
    /// What it is served by.
    pub protocol: Protocol,
    /// The pool's id.
    pub pool: Uuid,
    /// The space's id.
    pub space: Uuid,
    /// `POOL/SPACE`, for messages while the pool is away.
    pub path: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Its quality of service.
    #[serde(default)]
    pub qos: Qos,
}

/// What an administrator set by hand for a disk of no pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskHint {
    /// What it is made of.
    pub media: Option<Media>,
    /// Where it sits.
    pub place: Option<Place>,
}

/// What is remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Its format.
    pub version: u32,
    /// Pools that are opened at start.
    #[serde(default)]
    pub pools: Vec<KnownPool>,
    /// Exports as they were seen last, shown while their pools are away: what the pools keep counts.
    #[serde(default)]
    pub exports: Vec<KnownExport>,
    /// Targets: as they were seen last, and those without a LUN, which no pool keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) targets: Vec<KnownTarget>,
    /// Targets that were destroyed while pools with LUNs of them were away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) gone_targets: Vec<GoneTarget>,
    /// With what initiators prove who they are before they see targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) iscsi_discovery: Option<KnownAccount>,
    /// Files that serve as disks.
    #[serde(default)]
    pub file_disks: Vec<String>,
    /// What was set by hand for disks of no pool, by path.
    #[serde(default)]
    pub hints: std::collections::BTreeMap<String, DiskHint>,
    /// Settings that administrators changed.
    #[serde(default)]
    pub chosen: Chosen,
}

impl Default for State {
    fn default() -> Self {
        Self {
            version: STATE_VERSION,
            pools: vec![],
            exports: vec![],
            targets: vec![],
            gone_targets: vec![],
            iscsi_discovery: None,
            file_disks: vec![],
            hints: Default::default(),
            chosen: Chosen::default(),
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
    /// Opens the folder, makes it if it is not there, and locks it until this is dropped. A daemon that was killed may
    /// hold the lock for a moment longer, so it is waited for, `patience` at most.
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
        // From here on this daemon uses that room.
        let _ = fs::remove_file(path.join(RESERVE_FILE));
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(system("write", &lock_path))?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps room for the next start. At a start that is what the last one left, be it little; later on only where there
    /// is plenty.
    pub fn keep_reserve(&self, at_start: bool) {
        let path = self.path.join(RESERVE_FILE);
        let has = fs::metadata(&path).map_or(0, |data| data.len());
        let free = rustix::fs::statvfs(&self.path).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        if has < RESERVE_BYTES as u64 && (at_start || free >= PLENTY * RESERVE_BYTES as u64) {
            // What fits of it is kept where not all does.
            let _ = fs::write(&path, vec![0; RESERVE_BYTES]);
        }
    }

    /// Reads what is remembered in `store`; what an older version remembered in a file is taken over first.
    ///
    /// # Errors
    /// If it is damaged or from a later version.
    pub fn load(&self, store: &Store) -> Result<State, StateError> {
        let path = self.path.join(STATE_FILE);
        if store.document(DOCUMENT)?.is_none()
            && let Some(state) = read_versioned(&path, STATE_VERSION, REPAIR)?
        {
            self.store(store, &state)?;
        }
        match fs::rename(&path, path.with_extension("json.old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(system("rename", &path)(error)),
            _ => {}
        }
        match store.document(DOCUMENT)? {
            Some(text) => parse_versioned(store.path(), text.as_bytes(), STATE_VERSION, REPAIR),
            None => Ok(State::default()),
        }
    }

    /// Replaces what is remembered; durable when it answers.
    ///
    /// # Errors
    /// If it cannot be written; the old state stays then.
    pub fn store(&self, store: &Store, state: &State) -> Result<(), StateError> {
        let text = serde_json::to_string(state).map_err(|error| system("write", store.path())(error.into()))?;
        Ok(store.set_document(DOCUMENT, &text)?)
    }
}

/// Whether what is remembered could be read from a document of a store; those of others are not looked at.
///
/// # Errors
/// Why not; `path` is where the document comes from.
pub(crate) fn check_document(path: &Path, name: &str, content: &str) -> Result<(), StateError> {
    match name {
        DOCUMENT => {
            parse_versioned::<State>(path, content.as_bytes(), STATE_VERSION, "restore another backup").map(drop)
        }
        _ => Ok(()),
    }
}

/// Reads a JSON file that says its format in `version`; `None` where there is none.
///
/// # Errors
/// If it cannot be read, is no such JSON, or of a format after `newest`.
pub fn read_versioned<T: DeserializeOwned>(
    path: &Path,
    newest: u32,
    next_action: &'static str,
) -> Result<Option<T>, StateError> {
    match read(path)? {
        Some(text) => parse_versioned(path, &text, newest, next_action).map(Some),
        None => Ok(None),
    }
}

fn parse_versioned<T: DeserializeOwned>(
    path: &Path,
    text: &[u8],
    newest: u32,
    next_action: &'static str,
) -> Result<T, StateError> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = parse(path, text, next_action)?;
    if version > newest {
        return Err(StateError::TooNew(path.into(), version));
    }
    parse(path, text, next_action)
}

fn parse<T: DeserializeOwned>(path: &Path, text: &[u8], next_action: &'static str) -> Result<T, StateError> {
    let damaged =
        |error: serde_json::Error| StateError::Damaged { path: path.into(), reason: error.to_string(), next_action };
    serde_json::from_slice(text).map_err(damaged)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StateError::System { tried: "read", path: path.into(), source }),
    }
}

/// Reads a JSON file; `None` where there is none.
///
/// # Errors
/// If it cannot be read, or is no such JSON; `next_action` is what to do about that.
pub fn read_json<T: DeserializeOwned>(path: &Path, next_action: &'static str) -> Result<Option<T>, StateError> {
    read(path)?.map(|text| parse(path, &text, next_action)).transpose()
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

    fn store(folder: &Path) -> Store {
        Store::open(folder, holdfast_store::AuditLimits::default()).unwrap()
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(&folder.path().join("deep/state"), Duration::ZERO).unwrap();
        let store = store(dir.path());
        assert_eq!(dir.load(&store).unwrap(), State::default());
        let mut state = State::default();
        state.file_disks.push("/x".into());
        state.hints.insert("/x".into(), DiskHint { media: Some(Media::Ssd), place: None });
        dir.store(&store, &state).unwrap();
        assert_eq!(dir.load(&store).unwrap(), state);
    }

    #[test]
    fn the_file_of_an_older_version_is_taken_over_once() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path(), Duration::ZERO).unwrap();
        let (file, old) = (folder.path().join("state.json"), folder.path().join("state.json.old"));
        let before = State { file_disks: vec!["/x".into()], ..State::default() };
        write_json(&file, &before).unwrap();
        let store = store(folder.path());
        assert_eq!(dir.load(&store).unwrap(), before);
        assert!(!file.exists() && old.exists());
        let after = State { file_disks: vec!["/y".into()], ..State::default() };
        dir.store(&store, &after).unwrap();
        // Cut short after the transaction and before the renaming: the file is there still, and counts no more.
        write_json(&file, &before).unwrap();
        assert_eq!(dir.load(&store).unwrap(), after);
        assert!(!file.exists());
    }

    #[test]
    fn two_daemons_do_not_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let first = StateDir::open(folder.path(), Duration::ZERO).unwrap();
        let error = StateDir::open(folder.path(), Duration::ZERO).unwrap_err().to_string();
        assert!(
            error.contains("in use by another daemon") && error.contains(&std::process::id().to_string()),
            "{error}"
        );
        drop(first);
        StateDir::open(folder.path(), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_damaged_or_later_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path(), Duration::ZERO).unwrap();
        let store = store(folder.path());
        let damaged = "{\"version\": 1, \"pools\": 7}";
        let later = "{\"version\": 2}";
        let refused = |error: StateError, text: &str| match error {
            StateError::Damaged { .. } => text == damaged,
            StateError::TooNew(_, 2) => text == later,
            _ => false,
        };
        for text in [damaged, later] {
            fs::write(folder.path().join("state.json"), text).unwrap();
            assert!(refused(dir.load(&store).unwrap_err(), text), "{text}");
            assert!(folder.path().join("state.json").exists(), "what cannot be taken over stays");
        }
        for text in [damaged, later] {
            store.set_document(DOCUMENT, text).unwrap();
            assert!(refused(dir.load(&store).unwrap_err(), text), "{text}");
        }
    }
}
