//! Data of files kept in memory: a volume with the cache beside one without and beside xfs, whose data the kernel keeps.
//! Prints Markdown.
//!
//! ```text
//!   ROUNDS=3 QUICK=1 cached
//! ```
//!
//! Each lies on a loop device of its own, whose file is in memory: what a disk would take longer for the cache gains more.
//! In process the volumes are read through `FileService` and xfs by `pread`. Mounted, all are read by `pread`: pages that
//! the kernel has, and pages that it was told to forget, which only a cache below it has still.
//!
//! The scan shows what is left of the hot pages after a file of many times the cache's memory was read once, by reads that
//! are small enough to be kept.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use holdfast_device::IoBuf;
use holdfast_device::reactor::{self, ReactorHandle, ReactorSettings};
use holdfast_fuse::{MountSettings, Mounted, Opens, mount};
use holdfast_tests::files::{NEW, PAGE, Rates, device, format_volume, kernel, now, open_volume, print_table, rate};
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::attach;
use holdfast_tests::rounds::{number, text};
use holdfast_tests::scene::Scene;
use holdfast_volume::service::{Caller, FileService, Flush, OpenMode};
use holdfast_volume::{CachedDevice, DataCache, Handle, Settings, Volume};
use rustix::fs::Advice;

const CHUNK: usize = 1 << 20;
/// Bytes that are read again and again.
const HOT_BYTES: u64 = 64 << 20;
/// Bytes of memory for data.
const CACHE_BYTES: usize = 128 << 20;
/// Reads under way at once.
const AT_ONCE: u64 = 32;

/// How much is read.
#[derive(Clone, Copy)]
struct Amount {
    /// Bytes of the file that is read once.
    scan_bytes: u64,
    /// Pages of a measurement.
    pages: u64,
    rounds: u64,
}

impl Amount {
    fn device_bytes(self) -> u64 {
        self.scan_bytes + HOT_BYTES + (512 << 20)
    }
}

/// Hot pages in an order that jumps about.
fn hot(step: u64) -> u64 {
    step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (HOT_BYTES / PAGE as u64) * PAGE as u64
}

/// A volume with its two files.
struct Subject {
    volume: Arc<Volume>,
    hot: Handle,
    cold: Handle,
    cache: Option<Arc<DataCache>>,
}

async fn subject(path: &str, amount: Amount, is_cached: bool) -> Subject {
    format_volume(path, Some(64 << 20)).await;
    let (volume, cache) = if is_cached {
        let cache = Arc::new(DataCache::new(CACHE_BYTES));
        let device = CachedDevice::new(device(path), &cache);
        (Volume::open_cached(device, Settings::default(), Arc::new(now)).await.expect("opened"), Some(cache))
    } else {
        (open_volume(path).await, None)
    };
    let caller = Caller::default();
    let mode = OpenMode { read: true, write: true, truncate: false };
    let mut files = Vec::new();
    for (name, bytes) in [(&b"hot"[..], HOT_BYTES), (b"cold", amount.scan_bytes)] {
        let id = volume.create(&caller, volume.root(), name, &NEW).await.expect("created").id;
        let file = volume.open(&caller, id, mode).await.expect("opened");
        for at in (0..bytes).step_by(CHUNK) {
            volume.write(&file, at, IoBuf::zeroed(CHUNK).freeze(), CHUNK).await.expect("written");
        }
        volume.flush(id, Flush::All).await.expect("durable");
        files.push(file);
    }
    let cold = files.pop().expect("two");
    Subject { volume: Arc::new(volume), hot: files.pop().expect("two"), cold, cache }
}

impl Subject {
    async fn read(&self, step: u64) {
        let read = self.volume.read(&self.hot, hot(step), PAGE).await.expect("read");
        assert_eq!(read.len(), PAGE);
    }

    async fn hot_pages(&self, amount: Amount) -> Rates {
        let begun = Instant::now();
        for step in 0..amount.pages {
            self.read(step).await;
        }
        let one = rate(amount.pages, begun);
        let begun = Instant::now();
        let worker = async |first: u64| {
            for step in (first..amount.pages).step_by(AT_ONCE as usize) {
                self.read(step).await;
            }
        };
        join_all((0..AT_ONCE).map(worker)).await;
        vec![("8 KiB of hot pages, 1", one), ("8 KiB of hot pages, 32", rate(amount.pages, begun))]
    }

    /// The part of hot pages that is found in memory.
    async fn hit_rate(&self) -> f64 {
        let cache = self.cache.as_ref().expect("it has one");
        let before = cache.counts();
        for step in 0..HOT_BYTES / PAGE as u64 {
            self.volume.read(&self.hot, step * PAGE as u64, PAGE).await.expect("read");
        }
        let after = cache.counts();
        let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
        hits as f64 / (hits + misses) as f64
    }

    async fn scan(&self, amount: Amount, len: usize) {
        for at in (0..amount.scan_bytes).step_by(len) {
            self.volume.read(&self.cold, at, len).await.expect("read");
        }
    }
}

/// Hot pages of a file by system calls.
fn on_file(file: &File, amount: Amount) -> f64 {
    let mut buf = vec![0; PAGE];
    let begun = Instant::now();
    (0..amount.pages).for_each(|step| file.read_exact_at(&mut buf, hot(step)).expect("read"));
    rate(amount.pages, begun)
}

fn opened(path: &Path) -> File {
    let file = File::open(path).expect("it is there");
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("taken");
    file
}

/// The hot file on xfs.
fn on_xfs(scene: &Scene, janitor: &mut Janitor, amount: Amount) -> Result<PathBuf, String> {
    let path = kernel(scene, janitor, "xfs", amount.device_bytes())?.join("hot");
    let file = File::create(&path).map_err(|error| error.to_string())?;
    (0..HOT_BYTES).step_by(CHUNK).for_each(|at| file.write_all_at(&vec![0; CHUNK], at).expect("written"));
    file.sync_all().expect("durable");
    Ok(path)
}

fn in_process(devices: &[String], xfs: Option<&PathBuf>, amount: Amount) -> [Arc<Volume>; 2] {
    let settings = ReactorSettings { name: "cached".into(), ..ReactorSettings::default() };
    let measured = reactor::block_on(settings, async {
        let (with, without) = (subject(&devices[0], amount, true).await, subject(&devices[1], amount, false).await);
        let file = xfs.map(|path| opened(path));
        let mut all: Vec<(&str, Vec<Rates>)> = vec![("cache", Vec::new()), ("no cache", Vec::new())];
        all.extend(file.iter().map(|_| ("xfs, page cache", Vec::new())));
        // What is measured is what is read again.
        for _ in 0..2 {
            with.hot_pages(amount).await;
        }
        for _ in 0..amount.rounds {
            all[0].1.push(with.hot_pages(amount).await);
            all[1].1.push(without.hot_pages(amount).await);
            if let Some(file) = &file {
                all[2].1.push(vec![("8 KiB of hot pages, 1", on_file(file, amount))]);
            }
        }
        println!(
            "In process, thousands a second, medians of {} rounds; in brackets the cache's ratio.\n",
            amount.rounds
        );
        print_table(&all);
        println!();
        let before = with.hit_rate().await;
        for len in [PAGE, 32 << 10] {
            with.scan(amount, len).await;
            let after = with.hit_rate().await;
            let times = amount.scan_bytes as f64 / CACHE_BYTES as f64;
            println!(
                "A scan of {times:.0} times the cache's memory by reads of {} KiB: {:.1} % of hot pages found before, {:.1} % \
                 after.",
                len >> 10,
                100.0 * before,
                100.0 * after
            );
        }
        println!();
        for one in [&with, &without] {
            for file in [&one.hot, &one.cold] {
                one.volume.close(file.clone()).await.expect("closed");
            }
        }
        [with.volume, without.volume]
    });
    measured.expect("the kernel gives a ring")
}

fn mounted(volume: Arc<Volume>, directory: &str, reactors: &[ReactorHandle], janitor: &mut Janitor) -> Mounted {
    let (path, used) = (PathBuf::from(directory), reactors.to_vec());
    janitor.later(&format!("umount -l '{directory}'"));
    let mounting = move || async move { mount(volume, Opens::default(), &path, MountSettings::default(), &used).await };
    reactors[0].call(mounting).wait().expect("the reactor runs").expect("mounted")
}

fn through_the_kernel(
    scene: &Scene,
    janitor: &mut Janitor,
    volumes: [Arc<Volume>; 2],
    xfs: Option<&PathBuf>,
    amount: Amount,
) {
    let start = |name: &str| {
        let settings = ReactorSettings { name: name.into(), ..ReactorSettings::default() };
        reactor::start(settings).expect("the kernel gives a ring")
    };
    let reactors = ["one", "two"].map(start);
    let mut mounts = Vec::new();
    let mut files = Vec::new();
    for (volume, name) in volumes.into_iter().zip(["with", "without"]) {
        let directory = scene.folder(name);
        mounts.push(mounted(volume, &directory, &reactors, janitor));
        files.push(opened(&PathBuf::from(directory).join("hot")));
    }
    files.extend(xfs.map(|path| opened(path)));
    let names = ["cache", "no cache", "xfs"];
    let mut all: Vec<(&str, Vec<Rates>)> = names.into_iter().take(files.len()).map(|name| (name, Vec::new())).collect();
    for round in 0..=amount.rounds {
        for (file, (_, measured)) in files.iter().zip(&mut all) {
            rustix::fs::fadvise(file, 0, None, Advice::DontNeed).expect("taken");
            // Each page once: what was read is what the kernel has.
            let some = Amount { pages: HOT_BYTES / PAGE as u64, ..amount };
            let forgotten = on_file(file, some);
            let kept = on_file(file, amount);
            if round > 0 {
                measured.push(vec![("8 KiB that the kernel forgot", forgotten), ("8 KiB that the kernel has", kept)]);
            }
        }
    }
    println!("Mounted, thousands a second, medians of {} rounds; in brackets the cache's ratio.\n", amount.rounds);
    print_table(&all);
    println!();
    drop(files);
    for mounted in mounts {
        reactors[1].call(move || mounted.stop()).wait().expect("the reactor runs").expect("unmounted");
    }
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds = number("ROUNDS", if quick { 3 } else { 5 });
    let (scan_bytes, pages) = if quick { (512 << 20, 20_000) } else { (2 << 30, 100_000) };
    let amount = Amount { scan_bytes, pages, rounds };
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    let mut devices = Vec::new();
    for name in ["with", "without"] {
        match attach(&scene, &mut janitor, name, 1, amount.device_bytes()) {
            Ok(mut found) => devices.push(found.remove(0)),
            Err(why) => return println!("The cache was not measured: {why}."),
        }
    }
    let xfs = on_xfs(&scene, &mut janitor, amount);
    if let Err(why) = &xfs {
        println!("xfs is not beside: {why}.\n");
    }
    let xfs = xfs.ok();
    let volumes = in_process(&devices, xfs.as_ref(), amount);
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return println!("Mounts were not measured: they want root and /dev/fuse.");
    }
    through_the_kernel(&scene, &mut janitor, volumes, xfs.as_ref(), amount);
}
