//! The demonstration: what an administrator would do, done by the commands' own client against a daemon of its own.
//!
//! ```text
//!   DIR/.holdfast-demo   says that the folder is a demonstration's, so that nothing else is ever cleared
//!   DIR/disks/           eight sparse files          DIR/away/     where a pulled disk goes
//!   DIR/state/           the daemon's state          DIR/*.sock    the daemon's sockets
//!   DIR/files/           where a volume is mounted, where this process may mount
//! ```
//!
//! Invariant: every statement that it prints was checked just before; a check that fails ends it with an error.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use holdfast_api::{
    CreateExport, CreateFileDisk, CreatePool, CreateSpace, CreateVolume, DiskChanged, Event, ExportChanged, LayoutKind,
    MountVolume, Protocol,
};
use holdfast_api::{Pool, PoolChanged, Space, SpaceChanged, Status, Volume, VolumeChanged};
use holdfast_engine::{Address, Settings};
use holdfast_model::{ByteSize, Health, ObjectKind, SpaceState};
use serde_json::json;

use crate::arguments::{Demo, LogFormat};
use crate::client::Client;
use crate::daemon::{Daemon, Management, Signals, start_logging};
use crate::output::{Shown, print_json, print_line};
use crate::payload::{fill, same_front};

const MARKER: &str = ".holdfast-demo";
/// Where the console is shown.
const HTTPS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8443);
const DISKS: usize = 8;
const DISK_SIZE: ByteSize = ByteSize::mib(256);
const SPACE_SIZE: ByteSize = ByteSize::mib(256);
const SAMPLE_SIZE: ByteSize = ByteSize::mib(64);
const VOLUME_SIZE: ByteSize = ByteSize::mib(128);
const PATIENCE: Duration = Duration::from_secs(60);

struct Showing {
    dir: PathBuf,
    client: Client,
    quiet: bool,
}

/// Runs the demonstration.
pub async fn demo(options: Demo, json: bool) -> Result<()> {
    start_logging(LogFormat::Text, "error");
    find_client()?;
    let mut signals = Signals::listen()?;
    let dir = prepare(&options.dir)?;
    let socket = dir.join("holdfast.sock");
    // A second demonstration on this machine gets a port of its own.
    let port = if std::net::TcpListener::bind(HTTPS).is_ok() { HTTPS.1 } else { 0 };
    let https = [(HTTPS.0, port).into()];
    let daemon =
        Daemon::start(settings(&dir)?, Management { socket: &socket, https: &https, certificate: None }).await?;
    let showing = Showing { client: Client::new(&socket), quiet: json, dir };
    let shown = tokio::select! {
        shown = showing.run(json) => shown,
        () = signals.next() => Err(anyhow::anyhow!("the demonstration was interrupted")),
    };
    if shown.is_ok() && !options.once {
        if let Some(link) = &daemon.setup {
            showing.say(&format!("\n{}", link.text()))?;
        }
        showing.say("\nIt stays up; Ctrl-C ends it.")?;
        signals.next().await;
    }
    signals.exit_at_next();
    daemon.stop().await?;
    shown
}

fn find_client() -> Result<()> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join("nbdcopy").is_file()));
    if !found {
        bail!("nbdcopy: it is not installed; next: install the package libnbd-bin");
    }
    Ok(())
}

/// Makes the folder ready: new, or cleared of an earlier demonstration.
fn prepare(dir: &Path) -> Result<PathBuf> {
    fs::create_dir_all(dir).with_context(|| format!("folder {}: it cannot be created", dir.display()))?;
    let dir = dir.canonicalize()?;
    let marker = dir.join(MARKER);
    if !marker.exists() && fs::read_dir(&dir)?.next().is_some() {
        bail!("folder {}: it holds other files; next: name another folder with --dir", dir.display());
    }
    if std::os::unix::net::UnixStream::connect(dir.join("holdfast.sock")).is_ok() {
        bail!(
            "folder {}: a demonstration is running in it; next: stop it, or name another folder with --dir",
            dir.display()
        );
    }
    fs::write(&marker, "A demonstration of Holdfast. It is cleared when the demonstration runs again.\n")?;
    for name in ["disks", "away", "state"] {
        match fs::remove_dir_all(dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    for name in ["sample", "copy"] {
        let _ = fs::remove_file(dir.join(name));
    }
    fs::create_dir(dir.join("disks"))?;
    fs::create_dir(dir.join("away"))?;
    Ok(dir)
}

fn settings(dir: &Path) -> Result<Settings> {
    let mut settings = Settings::new(dir.join("state"));
    settings.nbd_addresses = vec![Address::Unix(dir.join("nbd.sock"))];
    settings.block_devices = false;
    settings.watch_interval = Duration::from_millis(500);
    Ok(settings)
}

impl Showing {
    fn say(&self, text: &str) -> Result<()> {
        if self.quiet { Ok(()) } else { print_line(text) }
    }

    fn show(&self, value: &dyn Fn() -> String) -> Result<()> {
        self.say(&value().lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n"))
    }

    fn disk(&self, number: usize) -> String {
        self.dir.join(format!("disks/disk{number}.img")).display().to_string()
    }

    async fn run(&self, json: bool) -> Result<()> {
        let uri = self.build().await?;
        self.write_and_read(&uri).await?;
        let pulled = self.pull(&uri).await?;
        self.put_back(&uri, &pulled).await?;
        self.keep_files().await?;
        self.tell_how_to_connect(&uri, json).await
    }

    async fn build(&self) -> Result<String> {
        self.say(&format!(
            "Eight sparse files of {DISK_SIZE} serve as disks, a pool is made of them, and a two-way mirror on it."
        ))?;
        let mut disks = Vec::new();
        for number in 1..=DISKS {
            let request = CreateFileDisk { path: self.disk(number), size_bytes: DISK_SIZE.bytes() };
            let made: DiskChanged = self.client.post("/disks", &request).await?;
            disks.push(made.disk.path);
        }
        let request = CreatePool { name: "tank".into(), disks, force: false };
        self.client.post::<PoolChanged>("/pools", &request).await?;
        self.client.post::<SpaceChanged>("/spaces", &mirror("tank/vm", SPACE_SIZE)).await?;
        let request = CreateExport { space: "tank/vm".into(), name: None, protocol: Protocol::Nbd, read_only: false };
        let export: ExportChanged = self.client.post("/exports", &request).await?;
        let spaces: Vec<Space> = self.client.get("/spaces").await?;
        self.show(&|| spaces.text())?;
        export.export.uris.into_iter().next().context("the export has no address")
    }

    async fn copy(&self, from: &str, to: &str) -> Result<()> {
        let output = tokio::process::Command::new("nbdcopy").args([from, to]).kill_on_drop(true).output().await;
        let output = output.context("nbdcopy: it cannot be run; next: install the package libnbd-bin")?;
        if !output.status.success() {
            bail!("nbdcopy {from} {to} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// Reads the space through a client and compares it with the sample.
    async fn check(&self, uri: &str) -> Result<()> {
        let (sample, copy) = (self.dir.join("sample"), self.dir.join("copy"));
        self.copy(uri, &copy.display().to_string()).await?;
        if !same_front(&sample, &copy)? {
            bail!("space tank/vm: what was read is not what was written; next: please report this");
        }
        fs::remove_file(copy)?;
        Ok(())
    }

    async fn write_and_read(&self, uri: &str) -> Result<()> {
        let sample = self.dir.join("sample");
        fill(&sample, SAMPLE_SIZE.bytes(), 1)?;
        let started = Instant::now();
        self.copy(&sample.display().to_string(), uri).await?;
        self.check(uri).await?;
        let seconds = started.elapsed().as_secs_f64();
        self.say(&format!(
            "\nnbdcopy wrote {SAMPLE_SIZE} of data to {uri}\nand read them back: identical ({seconds:.1} s)."
        ))
    }

    async fn wait_for(&self, what: &str, done: impl Fn(&Pool, &Space) -> bool) -> Result<(Pool, Space)> {
        let started = Instant::now();
        loop {
            let pool: Pool = self.client.get("/pools/tank").await?;
            let space: Space = self.client.get("/spaces/tank/vm").await?;
            if done(&pool, &space) {
                return Ok((pool, space));
            }
            if started.elapsed() > PATIENCE {
                bail!(
                    "space tank/vm: {what} did not happen within {} s; next: see 'holdfast event list'",
                    PATIENCE.as_secs()
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn pull(&self, uri: &str) -> Result<PathBuf> {
        let (disk, away) = (PathBuf::from(self.disk(3)), self.dir.join("away/disk3.img"));
        fs::rename(&disk, &away)?;
        self.say(&format!("\nDisk {} is pulled.", disk.display()))?;
        let (pool, _) = self
            .wait_for("noticing the missing disk", |pool, space| {
                pool.health != Health::Healthy && space.health != Health::Healthy
            })
            .await?;
        self.check(uri).await?;
        self.say(
            "What was written is still there, whole. 'holdfast pool show tank' says what is wrong and what to do:",
        )?;
        self.show(&|| pool.text())?;
        let events: Vec<Event> = self.client.get("/events?limit=3").await?;
        self.say("\n'holdfast event list' ends with:")?;
        self.show(&|| events.text())?;
        let sample = self.dir.join("sample");
        fill(&sample, SAMPLE_SIZE.bytes(), 2)?;
        self.copy(&sample.display().to_string(), uri).await?;
        self.check(uri).await?;
        self.say(&format!(
            "\nAnother {SAMPLE_SIZE} were written while the disk was missing, and read back: identical."
        ))?;
        Ok(away)
    }

    async fn put_back(&self, uri: &str, away: &Path) -> Result<()> {
        fs::rename(away, self.disk(3))?;
        let started = Instant::now();
        self.wait_for("resyncing the returned disk", |pool, space| {
            pool.health == Health::Healthy && space.state == SpaceState::Ok && space.stale_slabs == 0
        })
        .await?;
        self.check(uri).await?;
        let seconds = started.elapsed().as_secs_f64();
        self.say(&format!(
            "\nThe disk is put back: within {seconds:.1} s what it missed was copied to it, and everything is healthy:"
        ))?;
        let status: Status = self.client.get("/status").await?;
        let lines = status.objects.iter().filter(|object| object.object.kind != ObjectKind::Disk);
        let lines: Vec<String> =
            lines.map(|object| format!("{}: {}", object.object, holdfast_api::word(&object.health))).collect();
        self.show(&|| lines.join("\n"))
    }

    /// Makes a volume, mounts it where this process may, and copies the sample to it.
    async fn keep_files(&self) -> Result<()> {
        let space = Some(mirror("tank/files", VOLUME_SIZE));
        let request = CreateVolume { name: "tank/files".into(), space, on: None, case_sensitive: false };
        self.client.post::<VolumeChanged>("/volumes", &request).await?;
        let directory = self.dir.join("files");
        // It may be what is left of a demonstration that was killed: mounting clears that.
        let _ = fs::create_dir(&directory);
        let request = MountVolume { directory: directory.display().to_string(), ..MountVolume::default() };
        if let Err(error) = self.client.put::<VolumeChanged>("/volumes/tank/files/mount", &request).await {
            return self.say(&format!("\nA volume for files is made on another mirror; it is not mounted: {error}"));
        }
        let (sample, copy) = (self.dir.join("sample"), directory.join("sample"));
        let is_same = tokio::task::spawn_blocking(move || -> Result<bool> {
            fs::copy(&sample, &copy)?;
            fs::File::open(&copy)?.sync_all()?;
            same_front(&sample, &copy)
        });
        if !is_same.await?? {
            bail!("volume tank/files: what was read is not what was written; next: please report this");
        }
        self.say("\nA volume on another mirror is mounted; a file was copied to it and read back: identical.")?;
        let volumes: Vec<Volume> = self.client.get("/volumes").await?;
        self.show(&|| volumes.text())
    }

    async fn tell_how_to_connect(&self, uri: &str, json: bool) -> Result<()> {
        let socket = self.dir.join("holdfast.sock");
        if json {
            let status: Status = self.client.get("/status").await?;
            return print_json(&json!({ "whole": true, "uri": uri, "socket": socket, "health": status.health }));
        }
        self.say(&format!(
            "\nConnect to it:\n    nbdinfo '{uri}'\n    qemu-img info '{uri}'\n    nbdcopy --progress '{uri}' image.raw\nManage it:\n    \
             export {}={}\n    holdfast status\n    holdfast space map tank/vm",
            holdfast_api::SOCKET_VARIABLE,
            socket.display()
        ))
    }
}

/// A two-way mirror to be made.
fn mirror(name: &str, size: ByteSize) -> CreateSpace {
    CreateSpace {
        name: name.into(),
        layout: LayoutKind::Mirror,
        copies: Some(2),
        parity: None,
        columns: None,
        interleave_bytes: None,
        size_bytes: size.bytes(),
        thin: false,
        journal_bytes: None,
        integrity: None,
        enclosure_aware: false,
    }
}
