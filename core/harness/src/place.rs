//! Where tests put the disks and folders that they make.

use std::path::{Path, PathBuf};

/// Room that a folder in memory must have before tests use it.
const MEMORY_BYTES: u64 = 4 << 30;

/// The folder below which a test makes its own: `TMPDIR` if that is set, else in memory if there is room, else where
/// temporary files go.
pub fn folder_for_tests() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match std::env::var_os("TMPDIR") {
        Some(folder) => folder.into(),
        None if free_bytes(memory) >= MEMORY_BYTES => memory.into(),
        None => std::env::temp_dir(),
    }
}

/// Room that is left in the file system of `path`; 0 if there is none such.
pub fn free_bytes(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail * stat.f_frsize)
}
