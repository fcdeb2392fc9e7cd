//! What benchmarks of files do: the same work on any directory, file systems of the kernel to do it on, and a table.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use holdfast_device::file::{FileDevice, FileOptions};
use holdfast_device::{Device, IoBuf};
use holdfast_model::Uuid;
use holdfast_volume::service::{FileKind, NewFile, Time};
use holdfast_volume::{Format, Settings, Volume, VolumeFormat};

use crate::janitor::Janitor;
use crate::loops::{attach, tried};
use crate::rounds::median;
use crate::scene::Scene;

/// Bytes of the device that each subject lies on.
pub const DEVICE_BYTES: u64 = 2 << 30;
/// Bytes of the one large file.
pub const DATA_BYTES: u64 = 256 << 20;
/// Bytes of one of its pages.
pub const PAGE: usize = 8192;

/// A new empty file.
pub const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };

/// How much of each is done in a round.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Files that are created, looked up, listed, renamed and removed.
    pub files: u64,
    /// Files that are written and synced.
    pub synced: u64,
    /// Pages that are read and written.
    pub pages: u64,
}

/// Thousands a second of everything.
pub type Rates = Vec<(&'static str, f64)>;

/// Thousands a second since a moment.
pub fn rate(count: u64, begun: Instant) -> f64 {
    count as f64 / begun.elapsed().as_secs_f64() / 1000.0
}

/// Pages of the data in an order that jumps about.
pub fn page(step: u64) -> u64 {
    step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (DATA_BYTES / PAGE as u64) * PAGE as u64
}

/// One round through system calls, on a directory.
///
/// # Panics
/// If a system call fails.
pub fn on_directory(top: &Path, round: u64, amount: Amount) -> Rates {
    let dir = top.join(format!("r{round}"));
    std::fs::create_dir(&dir).expect("created");
    let name = |number: u64| dir.join(format!("file {number}"));
    let mut rates = Rates::new();
    let begun = Instant::now();
    for number in 0..amount.files {
        File::create(name(number)).expect("created");
    }
    rates.push(("create", rate(amount.files, begun)));
    let begun = Instant::now();
    for number in 0..amount.files {
        std::fs::metadata(name(page(number) % amount.files)).expect("there");
    }
    rates.push(("look up and stat", rate(amount.files, begun)));
    let begun = Instant::now();
    assert_eq!(std::fs::read_dir(&dir).expect("listed").count() as u64, amount.files);
    rates.push(("list", rate(amount.files, begun)));
    let begun = Instant::now();
    for number in 0..amount.files / 4 {
        let to = dir.join(format!("other {number}"));
        std::fs::rename(name(number), &to).expect("renamed");
        std::fs::rename(&to, name(number)).expect("renamed");
    }
    rates.push(("rename", rate(amount.files / 4 * 2, begun)));
    let begun = Instant::now();
    for number in 0..amount.files {
        std::fs::remove_file(name(number)).expect("removed");
    }
    rates.push(("unlink", rate(amount.files, begun)));
    let begun = Instant::now();
    for number in 0..amount.synced {
        let mut file = File::create(name(number)).expect("created");
        file.write_all(&[0; 4096]).expect("written");
        file.sync_all().expect("synced");
    }
    rates.push(("create, 4 KiB, fsync", rate(amount.synced, begun)));
    let data = top.join("data");
    if !data.exists() {
        let mut file = File::create(&data).expect("created");
        (0..DATA_BYTES >> 20).for_each(|_| file.write_all(&vec![0; 1 << 20]).expect("written"));
        file.sync_all().expect("synced");
    }
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT;
    let file = File::from(rustix::fs::open(&data, flags, rustix::fs::Mode::empty()).expect("direct I/O"));
    let mut buf = IoBuf::zeroed(PAGE);
    let begun = Instant::now();
    (0..amount.pages).for_each(|step| file.read_exact_at(&mut buf, page(step)).expect("read"));
    rates.push(("8 KiB random read, 1", rate(amount.pages, begun)));
    let begun = Instant::now();
    (0..amount.pages).for_each(|step| file.write_all_at(&buf, page(step)).expect("written"));
    rates.push(("8 KiB random write, 1", rate(amount.pages, begun)));
    rates
}

/// A file system of the kernel on a loop device of so many bytes, mounted.
///
/// # Errors
/// The reason why this machine has none.
pub fn kernel(scene: &Scene, janitor: &mut Janitor, kind: &str, bytes: u64) -> Result<PathBuf, String> {
    let device = attach(scene, janitor, kind, 1, bytes)?.remove(0);
    let force = if kind == "ext4" { "-F" } else { "-f" };
    tried(&format!("mkfs.{kind}"), &["-q", force, &device])?;
    let directory = scene.folder(&format!("{kind}-mnt"));
    tried("mount", &["-t", kind, &device, &directory])?;
    janitor.later(&format!("umount -l '{directory}'"));
    Ok(directory.into())
}

/// The time of the wall.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

/// A device to put a volume on.
///
/// # Panics
/// If it does not open.
pub fn device(path: &str) -> Arc<dyn Device> {
    FileDevice::open(path, FileOptions::default()).expect("the device opens")
}

/// Puts a volume on a device, with a log of this size or as large as is usual.
///
/// # Panics
/// If the device does not open, or does not take it.
pub async fn format_volume(path: &str, log_bytes: Option<u64>) {
    let store = Format { volume: Uuid::from_u128(1), log_bytes };
    let format = VolumeFormat { store, secret: [1; 16], owner: (0, 0), mode: 0o755, is_case_sensitive: false };
    Volume::format(&device(path), format, now()).await.expect("formatted");
}

/// The volume on a device.
///
/// # Panics
/// If the device or the volume does not open.
pub async fn open_volume(path: &str) -> Volume {
    Volume::open(device(path), Settings::default(), Arc::new(now)).await.expect("opened")
}

/// A new volume on a device.
///
/// # Panics
/// If the device does not open, or does not take it.
pub async fn new_volume(path: &str) -> Volume {
    format_volume(path, Some(64 << 20)).await;
    open_volume(path).await
}

/// Prints medians of rounds as a table, with the first one's ratio to each of the others in brackets.
///
/// # Panics
/// If the first one has no round.
pub fn print_table(all: &[(&str, Vec<Rates>)]) {
    println!("| | {} |", all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" | "));
    println!("| --- |{}", " ---: |".repeat(all.len()));
    let of = |rates: &[Rates], what: &str| {
        let found =
            rates.iter().filter_map(|round| round.iter().find(|(name, _)| *name == what).map(|(_, rate)| *rate));
        let found: Vec<f64> = found.collect();
        (!found.is_empty()).then(|| median(found))
    };
    for (what, _) in &all[0].1[0] {
        let own = of(&all[0].1, what).expect("measured");
        let cells = all.iter().enumerate().map(|(at, (_, rates))| match of(rates, what) {
            Some(rate) if at > 0 => format!("{rate:.1} ({:.2})", own / rate),
            Some(rate) => format!("{rate:.1}"),
            None => "-".into(),
        });
        println!("| {what} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}
