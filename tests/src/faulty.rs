//! A disk whose reads or writes fail while they are told to: a file served by nbdkit with its error filter, which
//! nbdfuse shows as a file again.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::command::{run, wait_until};
use crate::scene::Scene;

/// A disk that can fail.
pub struct FaultyDisk {
    folder: String,
    server: Child,
    fuse: Child,
}

fn spawn(program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("setpriv of util-linux can be run")
}

impl FaultyDisk {
    /// A disk of `size` bytes whose files lie in the folder `name` of `scene`.
    ///
    /// # Panics
    /// Where files cannot be shown by FUSE.
    pub fn new(scene: &Scene, name: &str, size: u64) -> Self {
        assert!(Path::new("/dev/fuse").exists(), "there is no /dev/fuse: this test shows a disk that fails as a file");
        let folder = scene.folder(name);
        let (image, socket) = (format!("{folder}/image"), format!("{folder}/nbd"));
        let file = std::fs::File::create(&image).and_then(|file| file.set_len(size));
        file.expect("an image can be made");
        let faults = ["pread", "pwrite"].map(|kind| {
            let triggered = format!("error-{kind}-file={folder}/fail-{kind}");
            [format!("error-{kind}=EIO"), format!("error-{kind}-rate=100%"), triggered]
        });
        let faults: Vec<&str> = faults.iter().flatten().map(String::as_str).collect();
        let server = spawn("nbdkit", &[&["-f", "-U", &socket, "--filter=error", "file", &image], &faults[..]].concat());
        wait_until("nbdkit serves a disk", 20, || Path::new(&socket).exists());
        let mount = scene.folder(&format!("{name}/mount"));
        let disk = format!("{mount}/disk");
        let fuse = spawn("nbdfuse", &[&disk, &format!("nbd+unix:///?socket={socket}")]);
        wait_until("nbdfuse shows it as a file", 20, || Path::new(&disk).exists());
        Self { folder, server, fuse }
    }

    /// Where the disk is.
    pub fn path(&self) -> String {
        format!("{}/mount/disk", self.folder)
    }

    /// Whether reads fail from now on.
    pub fn fail_reads(&self, fail: bool) {
        self.fail("pread", fail);
    }

    /// Whether writes fail from now on.
    pub fn fail_writes(&self, fail: bool) {
        self.fail("pwrite", fail);
    }

    fn fail(&self, kind: &str, fail: bool) {
        let trigger = format!("{}/fail-{kind}", self.folder);
        if fail {
            std::fs::write(trigger, b"").expect("a file can be made");
        } else {
            std::fs::remove_file(trigger).expect("a file can be removed");
        }
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        run("umount", &["-l", &format!("{}/mount", self.folder)]);
        for child in [&mut self.fuse, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
