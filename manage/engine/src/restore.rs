//! Putting a backup of the configuration store in place, while no daemon works on the state folder.
//!
//! Invariant: a backup that a daemon could not start from is refused, and nothing is changed then.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_store::StoreError;

use crate::state::{self, StateDir, StateError};

/// Why a backup was not put in place.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The state folder, or what the backup says of pools, exports and settings.
    #[error(transparent)]
    State(#[from] StateError),
    /// The backup, or the store that it replaces.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Puts the backup `file` in place in the state folder `state_dir`. Answers where the replaced store is kept.
///
/// # Errors
/// If a daemon works on the folder, or the backup is damaged or of a later version; nothing is changed then.
pub fn restore(state_dir: &Path, file: &Path) -> Result<Option<PathBuf>, RestoreError> {
    let folder = StateDir::open(state_dir, Duration::ZERO)?;
    holdfast_store::restore(file, folder.path(), |name, content| {
        state::check_document(file, name, content)?;
        holdfast_notify::check_document(name, content).map_err(|reason| {
            let reason = format!("document {name}: {reason}");
            StateError::Damaged { path: file.into(), reason, next_action: "restore another backup" }.into()
        })
    })
}

#[cfg(test)]
mod tests {
    use holdfast_store::Store;

    use super::*;

    /// A backup of a store with one document.
    fn backup(folder: &Path, name: &str, content: &str) -> PathBuf {
        let (made, file) = (tempfile::tempdir_in(folder).unwrap(), folder.join("backup"));
        let _ = std::fs::remove_file(&file);
        let store = Store::open(made.path(), Default::default()).unwrap();
        store.set_document(name, content).unwrap();
        store.backup(&file).unwrap();
        file
    }

    #[test]
    fn a_backup_that_no_daemon_could_start_from_is_refused_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let good = serde_json::to_string(&crate::state::State::default()).unwrap();
        restore(&state, &backup(folder.path(), "configuration", &good)).unwrap();
        for (name, content, expected) in [
            ("configuration", "no JSON at all", "restore another backup"),
            ("configuration", "{\"version\":1,\"pools\":7}", "restore another backup"),
            ("configuration", "{\"version\":99}", "run that version or a later one"),
            ("notifications", "{\"channels\":7}", "restore another backup"),
        ] {
            let file = backup(folder.path(), name, content);
            let error = restore(&state, &file).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(&*file.to_string_lossy()), "{content}: {error}");
            let store = Store::open(&state, Default::default()).unwrap();
            assert_eq!(store.document("configuration").unwrap().as_deref(), Some(&*good), "{content}");
            assert_eq!(store.document("notifications").unwrap(), None, "{content}");
        }
        let kept = std::fs::read_dir(&state).unwrap().flatten().filter(|entry| entry.file_name() != "config.db");
        let kept: Vec<_> =
            kept.map(|entry| entry.file_name()).filter(|name| name.to_string_lossy().contains("config.db.")).collect();
        assert!(kept.is_empty(), "{kept:?}");
    }
}
