//! What holds for the tree as a whole: its floors, its files and its decisions.

mod decisions;
mod files;
mod floors;

use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above its crates").into()
}
