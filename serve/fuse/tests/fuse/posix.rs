//! A suite of POSIX that nobody here wrote: `pjdfstest`, which `scripts/packages.sh` installs below `target/tools`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Scene;

/// Users that are on every Debian, and what a file system on Linux has. Its remounts go by `mount`, which leaves those
/// of FUSE to a helper that expects a program for each.
const CONFIGURATION: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.001
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

fn program() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root, PathBuf::from);
    Some(target.join("tools/bin/pjdfstest")).filter(|path| path.exists())
}

#[test]
fn a_suite_of_others_finds_no_fault() {
    let Some(scene) = Scene::new() else { return };
    let Some(program) = program() else {
        holdfast_harness::note_left_out("pjdfstest on a mount", "pjdfstest below target/tools");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("configuration"), CONFIGURATION).expect("written");
    let mut command = Command::new(program);
    command
        .arg("-c")
        .arg(folder.path().join("configuration"))
        .arg("-p")
        .arg(scene.directory())
        .arg("-s")
        .arg("/dev/shm");
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let summary = text.lines().find(|line| line.contains("total")).unwrap_or_default();
    println!("{summary}");
    assert!(output.status.success(), "{text}");
    assert!(text.lines().filter(|line| line.ends_with(" ok")).count() > 300, "it ran at all: {summary}");
}
