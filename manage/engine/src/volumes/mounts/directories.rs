//! Directories that are made for a mount.
//!
//! Invariant: of what was made here, nothing stays if the mount is refused; what was there before is never removed.

use std::fs::{DirBuilder, remove_dir};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use holdfast_api::{ApiError, Code};

use crate::error::{ApiResult, system};
use crate::volumes::CLOSE_TIMEOUT;

/// The permissions of a directory that is made: those of the volume's root stand over them while it is mounted.
const MODE: u32 = 0o755;

/// Directories that were made, the outermost first.
#[derive(Debug)]
pub(super) struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    /// Removes them again, as far as nothing is in them.
    pub(super) async fn remove(self) {
        let removing = tokio::task::spawn_blocking(move || self.0.iter().rev().try_for_each(remove_dir));
        match tokio::time::timeout(CLOSE_TIMEOUT, removing).await {
            Ok(Ok(Ok(()))) => (),
            failed => tracing::warn!("directories made for a mount stay: {failed:?}"),
        }
    }
}

/// Makes the missing directories down to `path`; which ones is returned also where one of them fails.
fn make_missing(path: &Path) -> (MadeDirectories, io::Result<()>) {
    let mut missing: Vec<&Path> = path.ancestors().take_while(|part| !part.exists()).collect();
    missing.reverse();
    let mut made = Vec::new();
    for part in missing {
        match DirBuilder::new().mode(MODE).create(part) {
            Ok(()) => made.push(part.to_owned()),
            // A path may end with a slash or "..": then it is there by now.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && part.is_dir() => (),
            Err(error) => return (MadeDirectories(made), Err(error)),
        }
    }
    (MadeDirectories(made), Ok(()))
}

/// Makes a directory, with those above it that are missing. Nothing where it is there already.
///
/// # Errors
/// If one of them cannot be made; none of them is there then.
pub(super) async fn create(object: &str, directory: &str) -> ApiResult<Option<MadeDirectories>> {
    let path = PathBuf::from(directory);
    let making = tokio::task::spawn_blocking(move || make_missing(&path));
    let Ok(Ok((made, done))) = tokio::time::timeout(CLOSE_TIMEOUT, making).await else {
        let message = format!("directory {directory} did not answer within {} s", CLOSE_TIMEOUT.as_secs());
        return Err(ApiError::new(Code::Timeout, object, message, "choose another directory").at("directory"));
    };
    match done {
        Ok(()) => Ok((!made.0.is_empty()).then_some(made)),
        Err(error) => {
            made.remove().await;
            Err(system(object, &format!("cannot create directory {directory}"), &error).at("directory"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(folder: &tempfile::TempDir, below: &str) -> String {
        folder.path().join(below).display().to_string()
    }

    #[tokio::test]
    async fn what_is_missing_is_made_and_goes_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = create("volume", &path(&folder, "a/b/c/")).await.expect("it is made").expect("it was missing");
        assert!(folder.path().join("a/b/c").is_dir());
        assert!(create("volume", &path(&folder, "a/b/c")).await.expect("it is there").is_none());
        made.remove().await;
        assert!(!folder.path().join("a").exists() && folder.path().exists());
    }

    #[tokio::test]
    async fn what_cannot_be_made_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "kept").expect("a file");
        let refused = create("volume", &path(&folder, "file/below")).await.expect_err("a file is above");
        assert_eq!((refused.code, refused.field.as_deref()), (Code::Invalid, Some("directory")), "{refused}");
        let long = format!("new/{}", "x".repeat(300));
        create("volume", &path(&folder, &long)).await.expect_err("the name is too long");
        assert!(!folder.path().join("new").exists());
    }
}
