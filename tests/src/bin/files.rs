//! Files of a volume in process, beside file systems of the kernel through system calls, each on a loop device of the
//! same kind. Prints Markdown.
//!
//! ```text
//!   ROUNDS=5 QUICK=1 files
//! ```
//!
//! In turns, on one core. What is compared is what a front end in this process pays for a file, with what a program pays
//! for one through the kernel.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use holdfast_device::file::{FileDevice, FileOptions};
use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_device::{Device, Durability, IoBuf, IoSlice};
use holdfast_tests::files::{
    Amount, DATA_BYTES, DEVICE_BYTES, NEW, PAGE, Rates, kernel, new_volume, on_directory, page, print_table, rate,
};
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::attach;
use holdfast_tests::rounds::{number, text};
use holdfast_tests::scene::Scene;
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, Flush, NewFile, OpenMode, Remove, Rename};
use holdfast_volume::{FileObject, Handle, Volume};

/// Turns that a volume and the bare device take for one figure.
const TURNS: u64 = 16;
const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };

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
    volume.checkpoint().await.expect("it lasts");
    rates
}

/// The large file, or one as large that was written page by page in an order that jumps about, and not as it is read:
/// each page is an extent.
async fn data_file(volume: &Volume, is_scattered: bool) -> FileId {
    let caller = Caller::default();
    let name: &[u8] = if is_scattered { b"scattered" } else { b"data" };
    if let Some(found) = volume.lookup(&caller, volume.root(), name).await.expect("looked up") {
        return found.id;
    }
    let id = volume.create(&caller, volume.root(), name, &NEW).await.expect("created").id;
    let handle = volume.open(&caller, id, WRITING).await.expect("opened");
    let step = if is_scattered { PAGE } else { 1 << 20 };
    let data = IoBuf::zeroed(step).freeze();
    for number in 0..DATA_BYTES / step as u64 {
        let at = if is_scattered { page(number * 5) } else { number * step as u64 };
        volume.write(&handle, at, data.clone(), step).await.expect("written");
        if is_scattered {
            // What waits is put into order.
            volume.flush(id, Flush::All).await.expect("synced");
        }
    }
    volume.close(handle).await.expect("closed");
    id
}

/// Pages of a file or of the bare device.
enum Pages<'a> {
    Volume(&'a Volume, &'a Handle),
    Device(&'a dyn Device),
}

impl Pages<'_> {
    async fn read(&self, at: u64) {
        match self {
            Self::Volume(volume, handle) => {
                assert_eq!(volume.read(handle, at, PAGE).await.expect("read").len(), PAGE);
            }
            Self::Device(device) => drop(device.read(at, IoBuf::new(PAGE)).await.expect("read")),
        }
    }

    async fn write(&self, at: u64, data: IoSlice) {
        match self {
            Self::Volume(volume, handle) => drop(volume.write(handle, at, data, PAGE).await.expect("written")),
            Self::Device(device) => device.write(at, data, Durability::Cached).await.expect("written"),
        }
    }

    /// Reads or writes some pages with so many outstanding; answers how long that took.
    async fn turn(&self, steps: Range<u64>, depth: u64, writes: bool, data: &IoSlice) -> Duration {
        let begun = Instant::now();
        for first in steps.step_by(depth as usize) {
            if writes {
                join_all((first..first + depth).map(|step| self.write(page(step), data.clone()))).await;
            } else {
                join_all((first..first + depth).map(|step| self.read(page(step)))).await;
            }
        }
        begun.elapsed()
    }
}

/// Pages of a volume, of the same file as a disk, and of the bare device, in short turns: what all take changes from second
/// to second.
async fn pages(volume: &Arc<Volume>, device: &dyn Device, amount: Amount) -> [Rates; 3] {
    let data: IoSlice = IoBuf::zeroed(PAGE).freeze();
    let id = data_file(volume, false).await;
    let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
    let finish = Arc::new(|_| panic!("nothing is given up here"));
    let object = FileObject::open(volume.clone(), &Caller::default(), id, finish).await.expect("it is a disk");
    let sides = [Pages::Volume(volume, &handle), Pages::Device(&object), Pages::Device(device)];
    let mut rates = [Rates::new(), Rates::new(), Rates::new()];
    for (depth, writes, what) in [
        (1, false, "8 KiB random read, 1"),
        (1, true, "8 KiB random write, 1"),
        (32, false, "8 KiB random read, 32"),
        (32, true, "8 KiB random write, 32"),
    ] {
        let (mut took, some) = ([Duration::ZERO; 3], amount.pages / TURNS);
        for turn in 0..TURNS {
            for (side, took) in sides.iter().zip(&mut took) {
                *took += side.turn(turn * some..(turn + 1) * some, depth, writes, &data).await;
            }
        }
        for (rates, took) in rates.iter_mut().zip(took) {
            rates.push((what, amount.pages as f64 / took.as_secs_f64() / 1000.0));
        }
    }
    object.close().await.expect("closed");
    volume.close(handle).await.expect("closed");
    let id = data_file(volume, true).await;
    let handle = volume.open(&Caller::default(), id, WRITING).await.expect("opened");
    let took = Pages::Volume(volume, &handle).turn(0..amount.pages, 32, false, &data).await;
    rates[0].push(("8 KiB random read, 32, scattered", amount.pages as f64 / took.as_secs_f64() / 1000.0));
    volume.close(handle).await.expect("closed");
    rates
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
        match kernel(&scene, &mut janitor, kind, DEVICE_BYTES) {
            Ok(directory) => peers.push((kind, directory)),
            Err(why) => println!("{kind} is not beside: {why}.\n"),
        }
    }
    let measured = reactor::block_on(ReactorSettings { name: "files".into(), ..ReactorSettings::default() }, async {
        let volume = Arc::new(new_volume(&ours[0]).await);
        let bare: Arc<dyn Device> = FileDevice::open(&ours[1], FileOptions::default()).expect("the device opens");
        let mut all: Vec<(&str, Vec<Rates>)> =
            vec![("volume", Vec::new()), ("file as a disk", Vec::new()), ("bare device", Vec::new())];
        all.extend(peers.iter().map(|(kind, _)| (*kind, Vec::new())));
        for round in 0..rounds {
            let mut names = on_volume(&volume, round, amount).await;
            let [own, disk, others] = pages(&volume, &*bare, amount).await;
            names.extend(own);
            all[0].1.push(names);
            all[1].1.push(disk);
            all[2].1.push(others);
            for (at, (_, directory)) in peers.iter().enumerate() {
                all[at + 3].1.push(on_directory(directory, round, amount));
            }
        }
        all
    });
    let all = measured.expect("the kernel gives a ring");
    println!("Files, thousands a second, medians of {rounds} rounds; in brackets the volume's ratio to each.");
    println!();
    print_table(&all);
}
