//! What holds for the tree as a whole: its floors, its files, how they use each other, and its decisions.

mod circles;
mod decisions;
mod files;
mod floors;

use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above its crates").into()
}
