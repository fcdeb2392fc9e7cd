//! Files of a volume in process, beside file systems of the kernel through system calls, each on a loop device of the
//! same kind. Prints Markdown.
//!
//! ```text
//!   ROUNDS=5 QUICK=1 files
//! ```
//!
//! In turns, on one core. What is compared is what a front end in this process pays for a file, with what a program pays
//! for one through the kernel.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use holdfast_device::file::{FileDevice, FileOptions};
use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_device::{Device, Durability, IoBuf, IoSlice};
use holdfast_model::Uuid;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::{attach, tried};
use holdfast_tests::rounds::{median, number, text};
use holdfast_tests::scene::Scene;
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, Flush, NewFile, OpenMode, Remove, Rename, Time};
use holdfast_volume::{Format, Settings, Volume, VolumeFormat};

const DEVICE_BYTES: u64 = 2 << 30;
const DATA_BYTES: u64 = 256 << 20;
const PAGE: usize = 8192;
const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };

/// How much of each is done in a round.
#[derive(Clone, Copy)]
struct Amount {
    files: u64,
    synced: u64,
    pages: u64,
}

/// Thousands a second of everything.
type Rates = Vec<(&'static str, f64)>;

fn rate(count: u64, begun: Instant) -> f64 {
    count as f64 / begun.elapsed().as_secs_f64() / 1000.0
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

/// Pages of the data in an order that jumps about.
fn page(step: u64) -> u64 {
    step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (DATA_BYTES / PAGE as u64) * PAGE as u64
}

/// One round on a volume.
async fn on_volume(volume: &Volume, round: u64, amount: Amount) -> Rates {
    let caller = Caller::default();
    let new = NewFile { kind: FileKind::Directory, ..NEW };
    let dir = volume.create(&caller, volume.root(), format!("r{round}").as_bytes(), &new).await.expect("created").id;
    let name = |number: u64| format!("file {number}").into_bytes();
    let mut rates = Rates::new();
    let begun = Instant::now();
    for number in 0..amount.files {
        volume.create(&caller, dir, &name(number), &NEW).await.expect("created");
    }
    rates.push(("create", rate(amount.files, begun)));
    let begun = Instant::now();
    for number in 0..amount.files {
        volume.lookup(&caller, dir, &name(page(number) % amount.files)).await.expect("looked up").expect("there");
    }
    rates.push(("look up and stat", rate(amount.files, begun)));
    let begun = Instant::now();
    let (mut cursor, mut listed) = (0, 0);
    while let Some(last) = volume.list(&caller, dir, cursor, 1024, false).await.expect("listed").last() {
        cursor = last.cursor;
        listed += 1;
    }
    assert!(listed >= amount.files / 1024);
    rates.push(("list", rate(amount.files, begun)));
    let begun = Instant::now();
    for number in 0..amount.files / 4 {
        let to = format!("other {number}").into_bytes();
        volume.rename(&caller, (dir, &name(number)), (dir, &to), Rename::Replace).await.expect("renamed");
        volume.rename(&caller, (dir, &to), (dir, &name(number)), Rename::Replace).await.expect("renamed");
    }
    rates.push(("rename", rate(amount.files / 4 * 2, begun)));
    let begun = Instant::now();
    for number in 0..amount.files {
        volume.remove(&caller, dir, &name(number), Remove::File).await.expect("removed");
    }
    rates.push(("unlink", rate(amount.files, begun)));
    let begun = Instant::now();
    let data = IoBuf::zeroed(4096).freeze();
    for number in 0..amount.synced {
        let id = volume.create(&caller, dir, &name(number), &NEW).await.expect("created").id;
        let handle = volume.open(&caller, id, WRITING).await.expect("opened");
        volume.write(&handle, 0, data.clone(), 4096).await.expect("written");
        volume.flush(id, Flush::All).await.expect("synced");
        volume.close(handle).await.expect("closed");
    }
    rates.push(("create, 4 KiB, fsync", rate(amount.synced, begun)));
    rates.extend(pages_of_volume(volume, amount).await);
    volume.checkpoint().await.expect("it lasts");
    rates
}

async fn data_file(volume: &Volume) -> FileId {
    let caller = Caller::default();
    if let Some(found) = volume.lookup(&caller, volume.root(), b"data").await.expect("looked up") {
        return found.id;
    }
    let id = volume.create(&caller, volume.root(), b"data", &NEW).await.expect("created").id;
    let handle = volume.open(&caller, id, WRITING).await.expect("opened");
    let data = IoBuf::zeroed(1 << 20).freeze();
    for at in (0..DATA_BYTES).step_by(1 << 20) {
        volume.write(&handle, at, data.clone(), 1 << 20).await.expect("written");
    }
    volume.close(handle).await.expect("closed");
    id
}

async fn pages_of_volume(volume: &Volume, amount: Amount) -> Rates {
    let id = data_file(volume).await;
    let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
    let data = IoBuf::zeroed(PAGE).freeze();
    let mut rates = Rates::new();
    for (depth, read, write) in
        [(1, "8 KiB random read, 1", "8 KiB random write, 1"), (32, "8 KiB random read, 32", "8 KiB random write, 32")]
    {
        let begun = Instant::now();
        for step in (0..amount.pages).step_by(depth as usize) {
            let reads = (step..step + depth).map(|step| volume.read(&handle, page(step), PAGE));
            join_all(reads).await.into_iter().for_each(|read| assert_eq!(read.expect("read").len(), PAGE));
        }
        rates.push((read, rate(amount.pages, begun)));
        let begun = Instant::now();
        for step in (0..amount.pages).step_by(depth as usize) {
            let writes = (step..step + depth).map(|step| volume.write(&handle, page(step), data.clone(), PAGE));
            join_all(writes).await.into_iter().for_each(|write| write.expect("written"));
        }
        rates.push((write, rate(amount.pages, begun)));
    }
    volume.close(handle).await.expect("closed");
    rates
}

/// Pages of the bare device, as the volume's are read and written.
async fn pages_of_device(device: &Arc<dyn Device>, amount: Amount) -> Rates {
    let data: IoSlice = IoBuf::zeroed(PAGE).freeze();
    let mut rates = Rates::new();
    for (depth, read, write) in
        [(1, "8 KiB random read, 1", "8 KiB random write, 1"), (32, "8 KiB random read, 32", "8 KiB random write, 32")]
    {
        let begun = Instant::now();
        for step in (0..amount.pages).step_by(depth as usize) {
            let reads = (step..step + depth).map(|step| device.read(page(step), IoBuf::new(PAGE)));
            join_all(reads).await.into_iter().for_each(|read| drop(read.expect("read")));
        }
        rates.push((read, rate(amount.pages, begun)));
        let begun = Instant::now();
        for step in (0..amount.pages).step_by(depth as usize) {
            let writes = (step..step + depth).map(|step| device.write(page(step), data.clone(), Durability::Cached));
            join_all(writes).await.into_iter().for_each(|write| write.expect("written"));
        }
        rates.push((write, rate(amount.pages, begun)));
    }
    rates
}

/// One round on a file system of the kernel.
fn on_kernel(top: &Path, round: u64, amount: Amount) -> Rates {
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

/// A file system of the kernel on a loop device, mounted; the reason where this machine has none.
fn kernel(scene: &Scene, janitor: &mut Janitor, kind: &str) -> Result<PathBuf, String> {
    let device = attach(scene, janitor, kind, 1, DEVICE_BYTES)?.remove(0);
    let force = if kind == "ext4" { "-F" } else { "-f" };
    tried(&format!("mkfs.{kind}"), &["-q", force, &device])?;
    let directory = scene.folder(&format!("{kind}-mnt"));
    tried("mount", &["-t", kind, &device, &directory])?;
    janitor.later(&format!("umount -l '{directory}'"));
    Ok(directory.into())
}

async fn open(path: &str) -> Volume {
    let device: Arc<dyn Device> = FileDevice::open(path, FileOptions::default()).expect("the device opens");
    let store = Format { volume: Uuid::from_u128(1), log_bytes: Some(64 << 20) };
    let format = VolumeFormat { store, secret: [1; 16], owner: (0, 0), mode: 0o755, is_case_sensitive: false };
    Volume::format(&device, format, now()).await.expect("formatted");
    Volume::open(device, Settings::default(), Arc::new(now)).await.expect("opened")
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds = number("ROUNDS", if quick { 1 } else { 5 });
    let amount = if quick {
        Amount { files: 5000, synced: 200, pages: 4096 }
    } else {
        Amount { files: 50_000, synced: 2000, pages: 32_768 }
    };
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    let ours = match attach(&scene, &mut janitor, "volume", 2, DEVICE_BYTES) {
        Ok(devices) => devices,
        Err(why) => return println!("Files of a volume were not measured: {why}."),
    };
    let mut peers = Vec::new();
    for kind in ["xfs", "ext4"] {
        match kernel(&scene, &mut janitor, kind) {
            Ok(directory) => peers.push((kind, directory)),
            Err(why) => println!("{kind} is not beside: {why}.\n"),
        }
    }
    let measured = reactor::block_on(ReactorSettings { name: "files".into(), ..ReactorSettings::default() }, async {
        let volume = open(&ours[0]).await;
        let bare: Arc<dyn Device> = FileDevice::open(&ours[1], FileOptions::default()).expect("the device opens");
        let mut all: Vec<(&str, Vec<Rates>)> = vec![("volume", Vec::new()), ("bare device", Vec::new())];
        all.extend(peers.iter().map(|(kind, _)| (*kind, Vec::new())));
        for round in 0..rounds {
            all[0].1.push(on_volume(&volume, round, amount).await);
            all[1].1.push(pages_of_device(&bare, amount).await);
            for (at, (_, directory)) in peers.iter().enumerate() {
                all[at + 2].1.push(on_kernel(directory, round, amount));
            }
        }
        all
    });
    let all = measured.expect("the kernel gives a ring");
    println!("Files, thousands a second, medians of {rounds} rounds; in brackets the volume's ratio to each.");
    println!();
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
