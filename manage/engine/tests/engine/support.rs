//! An engine on file disks in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{CreateExport, CreateFileDisk, CreatePool, CreateSpace, LayoutKind, Protocol};
use holdfast_engine::{Address, Engine, Settings};
use holdfast_harness::{Wait, folder_for_tests};

pub const MIB: u64 = 1 << 20;
/// How long an engine waits for the state folder and the disks of one that has just ended.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with an engine's state and disks.
pub struct Rig {
    pub folder: tempfile::TempDir,
}

impl Rig {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir_in(folder_for_tests()).expect("a folder for the test") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn disk(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.path("state"));
        settings.block_devices = false;
        settings.reactors = 2;
        settings.patience = PATIENCE;
        settings.watch_interval = Duration::from_millis(50);
        settings.nbd_addresses = vec![Address::Unix(self.path("nbd.sock"))];
        settings
    }

    pub async fn start(&self) -> Arc<Engine> {
        Engine::start(self.settings()).await.expect("the engine starts")
    }

    /// An engine with disks `d1` to `dN` of 128 MiB.
    pub async fn with_disks(&self, count: usize) -> (Arc<Engine>, Vec<String>) {
        let engine = self.start().await;
        let mut disks = Vec::new();
        for number in 1..=count {
            let path = self.disk(&format!("d{number}"));
            engine
                .create_file_disk(CreateFileDisk { path: path.clone(), size_bytes: 128 * MIB })
                .await
                .expect("a disk");
            disks.push(path);
        }
        (engine, disks)
    }

    /// An engine with a pool `tank` on `count` disks and a mirror `tank/vm`, exported.
    pub async fn with_space(&self, count: usize) -> (Arc<Engine>, Vec<String>) {
        let (engine, disks) = self.with_disks(count).await;
        engine.create_pool(pool("tank", &disks)).await.expect("a pool");
        engine.create_space(mirror("tank/vm", 64 * MIB)).await.expect("a space");
        engine.create_export(export("tank/vm")).await.expect("an export");
        (engine, disks)
    }
}

pub fn pool(name: &str, disks: &[String]) -> CreatePool {
    CreatePool { name: name.into(), disks: disks.to_vec(), force: false }
}

pub fn mirror(name: &str, size_bytes: u64) -> CreateSpace {
    CreateSpace {
        name: name.into(),
        layout: LayoutKind::Mirror,
        copies: None,
        parity: None,
        columns: None,
        interleave_bytes: None,
        size_bytes,
        thin: false,
        journal_bytes: None,
        integrity: None,
        enclosure_aware: false,
    }
}

pub fn parity(name: &str, parity: u8, size_bytes: u64) -> CreateSpace {
    CreateSpace { layout: LayoutKind::Parity, parity: Some(parity), ..mirror(name, size_bytes) }
}

pub fn export(space: &str) -> CreateExport {
    CreateExport { space: space.into(), name: None, protocol: Protocol::Nbd, read_only: false }
}

/// Waits until `done` holds.
pub async fn eventually(engine: &Engine, what: &str, mut done: impl FnMut() -> bool) {
    let mut wait = Wait::new();
    while !done() {
        tokio::time::sleep(wait.pause(|| format!("{what}: {:#?}", engine.events().list(0, 100)))).await;
    }
}
