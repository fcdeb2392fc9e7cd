//! A mount for a test, and what is asked of it.

#[path = "../support/memory.rs"]
mod memory;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_device::reactor::{self, ReactorHandle, ReactorSettings};
use holdfast_fuse::{FuseError, MountSettings, Mounted, Opens};
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;

pub use memory::Memory;

/// A mount over files in memory, with two reactors. Unmounted when it is dropped.
pub struct Scene {
    pub service: Arc<Memory>,
    /// What another protocol would share with the mount.
    pub opens: Opens,
    reactors: Vec<ReactorHandle>,
    mounted: Option<Mounted>,
    folder: tempfile::TempDir,
}

/// Whether this machine mounts; what does not is noted in the summary of `make test`.
pub fn may_mount() -> bool {
    let may = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !may {
        holdfast_harness::note_left_out("mounts by the kernel", "root and /dev/fuse");
    }
    may
}

pub fn start_reactor(name: &str) -> ReactorHandle {
    reactor::start(ReactorSettings { name: name.into(), ..ReactorSettings::default() }).expect("a reactor")
}

impl Scene {
    /// `None`: this machine does not mount.
    pub fn new() -> Option<Self> {
        Self::with(Memory::new(), MountSettings::default())
    }

    pub fn with(service: Memory, settings: MountSettings) -> Option<Self> {
        Self::with_opens(service, settings, Opens::default())
    }

    pub fn with_opens(service: Memory, settings: MountSettings, opens: Opens) -> Option<Self> {
        if !may_mount() {
            return None;
        }
        let mut scene = Self {
            service: Arc::new(service),
            opens,
            reactors: ["one", "two"].map(start_reactor).into(),
            mounted: None,
            folder: tempfile::tempdir().expect("a folder"),
        };
        scene.mount_with(settings).expect("mounted");
        Some(scene)
    }

    /// Mounts again.
    pub fn mount_with(&mut self, settings: MountSettings) -> Result<(), FuseError> {
        let mounted = self.try_mount(&self.directory(), settings)?;
        self.mounted = Some(mounted);
        Ok(())
    }

    pub fn try_mount(&self, directory: &Path, settings: MountSettings) -> Result<Mounted, FuseError> {
        let (service, opens) = (self.service.clone(), self.opens.clone());
        let (directory, reactors) = (directory.to_owned(), self.reactors.clone());
        let mount = move || async move { holdfast_fuse::mount(service, opens, &directory, settings, &reactors).await };
        self.reactors[0].call(mount).wait().expect("the reactor runs")
    }

    pub fn directory(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("it is there")
    }

    /// A path on the mount.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory().join(name)
    }

    pub fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().expect("it is mounted")
    }

    /// Takes the mount out, for a test that ends it in its own way.
    pub fn take(&mut self) -> Mounted {
        self.mounted.take().expect("it is mounted")
    }

    /// Stops the mount as its owner does.
    pub fn stop(&self, mounted: Mounted) -> Result<(), FuseError> {
        self.reactors[1].call(move || mounted.stop()).wait().expect("the reactor runs")
    }

    /// Unmounts unless somebody uses the mount.
    pub fn unmount(&mut self) -> Result<(), FuseError> {
        let mounted = self.take();
        let tried = move || async move {
            let tried = mounted.unmount().await;
            (mounted, tried)
        };
        let (mounted, tried) = self.reactors[1].call(tried).wait().expect("the reactor runs");
        self.mounted = Some(mounted);
        tried
    }

    /// Waits for the end of a mount that somebody else brings about.
    pub fn wait_for_end(&self, mounted: &Mounted) {
        let ended = mounted.ended();
        self.reactors[1].call(move || async move { ended.wait().await }).wait().expect("the reactor runs");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            let stopped = self.stop(mounted);
            if !std::thread::panicking() {
                stopped.expect("unmounted");
                assert_eq!(self.service.counts().1, 0, "no file is open any more");
                self.opens.table().check();
            }
        }
        self.reactors.drain(..).for_each(ReactorHandle::stop);
        // What a failed test left.
        let _ = rustix::mount::unmount(self.folder.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

/// Facts about a file, as the kernel has them.
pub fn stat(path: &Path) -> rustix::fs::Statx {
    try_stat(path).expect("facts")
}

pub fn try_stat(path: &Path) -> Result<rustix::fs::Statx, Errno> {
    rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::ALL)
}

/// The names in a directory, sorted.
pub fn names(path: &Path) -> Vec<Vec<u8>> {
    let listed = std::fs::read_dir(path).expect("a directory");
    let mut names: Vec<_> = listed.map(|entry| entry.expect("a name").file_name().as_bytes().to_vec()).collect();
    names.sort();
    names
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state as u8
    };
    (0..len).map(|_| step(&mut state)).collect()
}
