//! A small file system of memory that can be full.
//!
//! Invariant: it is unmounted however the test ends.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use crate::command::run;
use crate::janitor::Janitor;
use crate::scene::Scene;

/// What takes the room.
const FILLER: &str = "filler";

/// A mounted file system. Whoever uses it has to end before it is dropped.
pub struct SmallFs {
    folder: PathBuf,
    _janitor: Janitor,
}

impl SmallFs {
    /// One of `mib` MiB in the folder `name` of `scene`.
    ///
    /// # Errors
    /// What is needed, where this machine lets nobody mount.
    pub fn mount(scene: &Scene, name: &str, mib: u32) -> Result<Self, &'static str> {
        let folder = scene.folder(name);
        let options = format!("size={mib}m,mode=700");
        if !run("mount", &["-t", "tmpfs", "-o", &options, "holdfast-test", &folder]).success() {
            return Err("root, who may mount");
        }
        let mut janitor = Janitor::new();
        janitor.later(&format!("umount --lazy '{folder}'"));
        Ok(Self { folder: folder.into(), _janitor: janitor })
    }

    /// Takes all the room that is left.
    #[track_caller]
    pub fn fill(&self) {
        let mut file =
            File::options().create(true).append(true).open(self.folder.join(FILLER)).expect("a file is made");
        loop {
            match file.write(&[0; 4096]) {
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                written => assert!(written.expect("nothing else is wrong") > 0),
            }
        }
    }

    /// Gives back what was taken.
    pub fn make_room(&self) {
        fs::remove_file(self.folder.join(FILLER)).expect("it was filled");
    }

    /// Where it is, as text.
    pub fn path(&self) -> &str {
        self.folder.to_str().expect("paths of tests are text")
    }
}
