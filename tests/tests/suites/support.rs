//! A volume that is mounted, for a test.

use std::path::{Path, PathBuf};

use holdfast_tests::daemon::Daemon;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::scene::Scene;

/// A daemon with the pool `tank` of four disks. Dropped in this order.
pub struct Files {
    pub daemon: Daemon,
    pub janitor: Janitor,
    pub scene: Scene,
}

impl Files {
    pub fn new(disk_size: &str) -> Self {
        let scene = Scene::new();
        let janitor = Janitor::of(&scene);
        let daemon = Daemon::start(&scene);
        daemon.pool(&scene, "tank", 4, disk_size);
        Self { daemon, janitor, scene }
    }

    /// Makes the volume `tank/NAME`, and mounts it; where.
    pub fn volume(&mut self, name: &str, options: &[&str]) -> String {
        let directory = self.scene.folder(&format!("mnt-{name}"));
        self.janitor.later(&format!("umount -l '{directory}'"));
        let volume = format!("tank/{name}");
        self.daemon.please(&[&["volume", "create", &volume], options].concat());
        self.daemon.please(&["volume", "mount", &volume, &directory]);
        directory
    }

    /// Holds the volume to a scan that finds nothing.
    #[track_caller]
    pub fn scan(&self, name: &str) {
        let volume = format!("tank/{name}");
        let scanned = self.daemon.please(&["volume", "scan", &volume, "--wait"]);
        assert!(scanned.contains("all metadata agrees"), "{scanned}");
        assert_eq!(self.daemon.json(&["volume", "findings", &volume]), serde_json::json!([]));
        assert_eq!(self.daemon.json(&["volume", "show", &volume])["health"], "healthy");
    }
}

/// The short length, or the long one if that is asked for.
pub fn length(short: u64, long: u64) -> u64 {
    if std::env::var_os("HOLDFAST_SOAK").is_some() { long } else { short }
}

/// A program that `scripts/packages.sh` installs below `target/tools`. Without it the test is left out and says so.
pub fn tool(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root, PathBuf::from);
    let found = Some(target.join("tools/bin").join(name)).filter(|path| path.exists());
    if found.is_none() {
        holdfast_harness::note_left_out(&format!("{name} on volumes"), &format!("{name} below target/tools"));
    }
    found
}
