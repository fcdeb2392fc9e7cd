//! Putting a backup of the configuration store in place, while no daemon works on the state folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_store::StoreError;

use crate::state::{StateDir, StateError};

/// Why a backup was not put in place.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The state folder.
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
    Ok(holdfast_store::restore(file, folder.path())?)
}
