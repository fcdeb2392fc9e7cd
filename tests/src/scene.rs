//! A folder of its own for each test. It goes with the test, unless `HOLDFAST_KEEP` is set.

use std::path::{Path, PathBuf};

use holdfast_harness::folder_for_tests;
use tempfile::TempDir;

/// A folder of a test.
#[derive(Debug)]
pub struct Scene {
    dir: Option<TempDir>,
    path: PathBuf,
}

impl Scene {
    /// A new folder: below `TMPDIR` if that is set, else in memory if there is room, else where temporary files go.
    pub fn new() -> Self {
        let base = folder_for_tests();
        // Addresses of unix sockets have room for about a hundred bytes: names stay short.
        let dir = tempfile::Builder::new().prefix("hf-").tempdir_in(&base);
        let dir = dir.unwrap_or_else(|error| panic!("no folder for a test in {}: {error}", base.display()));
        let path = dir.path().to_path_buf();
        let dir = if std::env::var_os("HOLDFAST_KEEP").is_some() {
            println!("keeping {}", dir.keep().display());
            None
        } else {
            Some(dir)
        };
        Self { dir, path }
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.path
    }

    /// The path of `name` in the folder, as text.
    pub fn path(&self, name: &str) -> String {
        self.path.join(name).to_str().expect("paths of tests are text").to_owned()
    }

    /// A folder `name` in the folder.
    pub fn folder(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap_or_else(|error| panic!("{path} cannot be made: {error}"));
        path
    }

    /// Whether the folder goes with the test.
    pub fn is_temporary(&self) -> bool {
        self.dir.is_some()
    }
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}
