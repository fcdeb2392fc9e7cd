//! Takes away what outlives a process: mounts, loop devices, and folders of memory.
//!
//! Invariant: it is a process of its own, in a session of its own, that is told in advance what to do, and does it when
//! its input ends: so it works also when the run panics, is interrupted or is killed.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use crate::scene::Scene;

/// Lines of shell that are run at the end, the last one first.
const SCRIPT: &str = r#"
trap "" INT TERM HUP PIPE
todo=
while IFS= read -r line; do
    todo="$line
$todo"
done
eval "$todo"
"#;

/// A process that cleans up.
#[derive(Debug)]
pub struct Janitor {
    child: Child,
}

impl Janitor {
    /// One that has nothing to do yet.
    ///
    /// # Panics
    /// If `setsid` of util-linux cannot be run.
    pub fn new() -> Self {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().expect("setsid of util-linux can be run") }
    }

    /// One that removes the folder of `scene`, if that goes with the run.
    pub fn of(scene: &Scene) -> Self {
        let mut janitor = Self::new();
        if scene.is_temporary() {
            janitor.later(&format!("rm -rf --one-file-system '{}'", scene.dir().display()));
        }
        janitor
    }

    /// A scene with a directory to mount on, and one that unmounts it at the end.
    pub fn with_mount_point() -> (Scene, Self, String) {
        let scene = Scene::new();
        let mut janitor = Self::of(&scene);
        let directory = scene.folder("mnt");
        janitor.later(&format!("umount -l '{directory}'"));
        (scene, janitor, directory)
    }

    /// Has `line` of shell run at the end, before all that was asked for earlier.
    ///
    /// # Panics
    /// If somebody ended it.
    pub fn later(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("its input is open until the end");
        writeln!(input, "{line}").expect("the janitor listens");
    }
}

impl Default for Janitor {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
