//! Snapshots of a volume in process, beside btrfs (snapshots of a subvolume) and xfs (clones of the file), each on a loop
//! device of the same kind. Prints Markdown.
//!
//! ```text
//!   ROUNDS=5 QUICK=1 snapshots
//! ```
//!
//! What is compared: how long a snapshot of many files takes beside a checkpoint after the same changes, and pages that are
//! written over before there is a snapshot and after one, and in a strict file, which keeps checksums of its own as btrfs
//! does for every file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::time::{Duration, Instant};

use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_device::{IoBuf, IoSlice};
use holdfast_tests::files::{DATA_BYTES, DEVICE_BYTES, NEW, PAGE, Rates, kernel, new_volume, page, print_table, rate};
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::{attach, tried};
use holdfast_tests::rounds::{median, number, text};
use holdfast_tests::scene::Scene;
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, NewFile, OpenMode};
use holdfast_volume::{Integrity, Steps, Volume};

const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };
/// Files that change between two measurements of a checkpoint or snapshot.
const CHANGED: u64 = 1000;

struct Unhindered;

impl Steps for Unhindered {
    fn step(&self, _: u64) -> Pin<Box<dyn Future<Output = bool> + '_>> {
        Box::pin(async { true })
    }

    fn done(&self, _: u64) {}
}

/// Makes empty files, a thousand in each directory.
async fn make_files(volume: &Volume, count: u64) -> Vec<FileId> {
    let (caller, new) = (Caller::default(), NewFile { kind: FileKind::Directory, ..NEW });
    let mut made = Vec::new();
    for directory in 0..count.div_ceil(1000) {
        let name = format!("d{directory}").into_bytes();
        let dir = volume.create(&caller, volume.root(), &name, &new).await.expect("created").id;
        for number in 0..1000 {
            let file = volume.create(&caller, dir, format!("f{number}").as_bytes(), &NEW).await.expect("created");
            made.push(file.id);
        }
    }
    made
}

/// Times of a checkpoint and of a snapshot, each after the same number of files changed.
async fn moments(volume: &Volume, files: &[FileId], rounds: u64) -> [Vec<f64>; 2] {
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..rounds * 2 {
        for step in 0..CHANGED {
            let id = files[(page(round * CHANGED + step) as usize / PAGE * 7919) % files.len()];
            let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
            volume.write(&handle, 0, IoBuf::zeroed(100).freeze(), 100).await.expect("written");
            volume.close(handle).await.expect("closed");
        }
        volume.sync().await.expect("durable");
        let begun = Instant::now();
        if round % 2 == 0 {
            volume.checkpoint().await.expect("it lasts");
        } else {
            volume.create_snapshot(&format!("s{round}")).await.expect("made");
        }
        took[(round % 2) as usize].push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    for snapshot in volume.snapshots() {
        volume.destroy_snapshot(&snapshot.name).await.expect("destroyed");
    }
    volume.reclaim(&Unhindered).await.expect("given back");
    took
}

async fn overwrite(volume: &Volume, id: FileId, steps: std::ops::Range<u64>, data: &IoSlice) -> f64 {
    let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
    let (count, begun) = (steps.end - steps.start, Instant::now());
    for step in steps {
        volume.write(&handle, page(step), data.clone(), PAGE).await.expect("written");
    }
    let rate = rate(count, begun);
    volume.close(handle).await.expect("closed");
    rate
}

async fn on_volume(volume: &Volume, (id, strict): (FileId, FileId), round: u64, pages: u64) -> Rates {
    let data: IoSlice = IoBuf::zeroed(PAGE).freeze();
    let before = overwrite(volume, id, 0..pages, &data).await;
    let name = format!("round {round}");
    volume.create_snapshot(&name).await.expect("made");
    let after = overwrite(volume, id, 0..pages, &data).await;
    let again = overwrite(volume, id, 0..pages, &data).await;
    volume.destroy_snapshot(&name).await.expect("destroyed");
    volume.reclaim(&Unhindered).await.expect("given back");
    let proven = overwrite(volume, strict, 0..pages, &data).await;
    vec![(BEFORE, before), (AFTER, after), (AGAIN, again), (STRICT, proven)]
}

/// A file that is filled, and on the device.
async fn filled(volume: &Volume, name: &[u8], integrity: Integrity) -> FileId {
    let id = volume.create(&Caller::default(), volume.root(), name, &NEW).await.expect("created").id;
    volume.set_integrity(&Caller::default(), id, integrity).await.expect("set");
    let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
    for at in 0..DATA_BYTES >> 20 {
        volume.write(&handle, at << 20, IoBuf::zeroed(1 << 20).freeze(), 1 << 20).await.expect("written");
    }
    volume.close(handle).await.expect("closed");
    volume.checkpoint().await.expect("it lasts");
    id
}

const BEFORE: &str = "8 KiB overwrites, no snapshot";
const AFTER: &str = "8 KiB overwrites, first after a snapshot";
const AGAIN: &str = "8 KiB overwrites, once more";
const STRICT: &str = "8 KiB overwrites, strict file";

/// The same through system calls; `kind` says how a snapshot is made.
fn on_directory(top: &Path, kind: &str, round: u64, pages: u64) -> Rates {
    let data = top.join("data");
    if !data.exists() {
        let file = File::create(&data).expect("created");
        (0..DATA_BYTES >> 20).for_each(|at| file.write_all_at(&vec![0; 1 << 20], at << 20).expect("written"));
        file.sync_all().expect("synced");
    }
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT;
    let file = File::from(rustix::fs::open(&data, flags, rustix::fs::Mode::empty()).expect("direct I/O"));
    let buf = IoBuf::zeroed(PAGE);
    let overwrite = || {
        let begun = Instant::now();
        (0..pages).for_each(|step| file.write_all_at(&buf, page(step)).expect("written"));
        rate(pages, begun)
    };
    let before = overwrite();
    let kept = top.join(format!("kept{round}"));
    let (top, kept, data) = (top.display().to_string(), kept.display().to_string(), data.display().to_string());
    let made = match kind {
        "btrfs" => tried("btrfs", &["subvolume", "snapshot", "-r", &top, &kept]),
        _ => tried("cp", &["--reflink=always", &data, &kept]),
    };
    made.expect("it can");
    let (after, again) = (overwrite(), overwrite());
    match kind {
        "btrfs" => drop(tried("btrfs", &["subvolume", "delete", &kept]).expect("deleted")),
        _ => std::fs::remove_file(&kept).expect("removed"),
    }
    // Nothing but the file itself has its blocks again.
    let proven = overwrite();
    vec![(BEFORE, before), (AFTER, after), (AGAIN, again), (STRICT, proven)]
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds = number("ROUNDS", if quick { 1 } else { 5 });
    let (files, pages) = if quick { (50_000, 2048) } else { (1_000_000, 8192) };
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    let ours = match attach(&scene, &mut janitor, "volume", 2, DEVICE_BYTES) {
        Ok(devices) => devices,
        Err(why) => return println!("Snapshots were not measured: {why}."),
    };
    let mut peers = Vec::new();
    for kind in ["btrfs", "xfs"] {
        match kernel(&scene, &mut janitor, kind, DEVICE_BYTES) {
            Ok(directory) => peers.push((kind, directory)),
            Err(why) => println!("{kind} is not beside: {why}.\n"),
        }
    }
    let measured =
        reactor::block_on(ReactorSettings { name: "snapshots".into(), ..ReactorSettings::default() }, async {
            let many = new_volume(&ours[0]).await;
            let made = make_files(&many, files).await;
            many.checkpoint().await.expect("it lasts");
            let moments = moments(&many, &made, rounds.max(3)).await;
            many.checkpoint().await.expect("it lasts");
            let volume = new_volume(&ours[1]).await;
            let id = filled(&volume, b"data", Integrity::PassThrough).await;
            let strict = filled(&volume, b"strict", Integrity::Strict).await;
            let mut all: Vec<(&str, Vec<Rates>)> = vec![("volume", Vec::new())];
            all.extend(peers.iter().map(|(kind, _)| (*kind, Vec::new())));
            for round in 0..rounds {
                all[0].1.push(on_volume(&volume, (id, strict), round, pages).await);
                for (at, (kind, directory)) in peers.iter().enumerate() {
                    all[at + 1].1.push(on_directory(directory, kind, round, pages));
                }
                reactor::clock().sleep(Duration::from_millis(100)).await;
            }
            (moments, all)
        });
    let ([checkpoints, snapshots], all) = measured.expect("the kernel gives a ring");
    let (checkpoint, snapshot) = (median(checkpoints), median(snapshots));
    println!(
        "A snapshot of {files} files takes {snapshot:.1} ms, a checkpoint after the same {CHANGED} changes {checkpoint:.1} \
         ms: {:.2} of it.",
        snapshot / checkpoint
    );
    println!();
    println!(
        "Pages, thousands a second, one at a time, medians of {rounds} rounds; in brackets the volume's ratio to each."
    );
    println!();
    print_table(&all);
}
