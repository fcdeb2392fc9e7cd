//! Clones of a large file in a volume in process, beside those of btrfs and xfs, each on a loop device of the same kind.
//! Prints Markdown.
//!
//! ```text
//!   ROUNDS=5 QUICK=1 clones
//! ```
//!
//! What is compared: milliseconds until a clone of the whole file is durable, of a file as it was written and of one with
//! pages that were written over after an earlier clone, which lies in many pieces.
//!
//! Invariant: one subject at a time has its disk in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use holdfast_device::IoBuf;
use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_tests::files::{NEW, PAGE, kernel, new_volume};
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::attach;
use holdfast_tests::rounds::{median, number, text};
use holdfast_tests::scene::Scene;
use holdfast_volume::service::{Caller, FileService, Flush, OpenMode, Remove};
use holdfast_volume::{Handle, Volume};

const CHUNK: usize = 1 << 20;

/// How much is cloned, and how often.
#[derive(Clone, Copy)]
struct Amount {
    bytes: u64,
    /// Pages that are written over between clones.
    pages: u64,
    rounds: u64,
}

impl Amount {
    fn page(self, step: u64) -> u64 {
        step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (self.bytes / PAGE as u64) * PAGE as u64
    }
}

/// Milliseconds of clones: of the file in one piece, and in many.
type Took = [Vec<f64>; 2];

async fn cloned(volume: &Volume, from: &Handle, bytes: u64, name: &str) -> f64 {
    let caller = Caller::default();
    let begun = Instant::now();
    let id = volume.create(&caller, volume.root(), name.as_bytes(), &NEW).await.expect("created").id;
    let to = volume.open(&caller, id, OpenMode { read: true, write: true, truncate: false }).await.expect("opened");
    volume.clone_range((from, 0), (&to, 0), bytes).await.expect("cloned");
    volume.flush(id, Flush::All).await.expect("durable");
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    volume.close(to).await.expect("closed");
    took
}

async fn on_volume(volume: &Volume, amount: Amount) -> Took {
    let caller = Caller::default();
    let id = volume.create(&caller, volume.root(), b"data", &NEW).await.expect("created").id;
    let file = volume.open(&caller, id, OpenMode { read: true, write: true, truncate: false }).await.expect("opened");
    for at in (0..amount.bytes).step_by(CHUNK) {
        volume.write(&file, at, IoBuf::zeroed(CHUNK).freeze(), CHUNK).await.expect("written");
    }
    volume.flush(id, Flush::All).await.expect("durable");
    let mut took = Took::default();
    for (kind, took) in took.iter_mut().enumerate() {
        for round in 0..amount.rounds {
            let name = format!("{kind} {round}");
            took.push(cloned(volume, &file, amount.bytes, &name).await);
            volume.remove(&caller, volume.root(), name.as_bytes(), Remove::File).await.expect("removed");
        }
        cloned(volume, &file, amount.bytes, &format!("kept {kind}")).await;
        for step in 0..amount.pages {
            volume.write(&file, amount.page(step), IoBuf::zeroed(PAGE).freeze(), PAGE).await.expect("written");
        }
        volume.flush(id, Flush::All).await.expect("durable");
    }
    volume.close(file).await.expect("closed");
    took
}

fn on_directory(top: &Path, amount: Amount) -> Took {
    let open = |name: &str| {
        File::options().read(true).write(true).create(true).truncate(false).open(top.join(name)).expect("opened")
    };
    let data = open("data");
    let chunk = vec![0; CHUNK];
    (0..amount.bytes).step_by(CHUNK).for_each(|at| data.write_all_at(&chunk, at).expect("written"));
    data.sync_all().expect("durable");
    let cloned = |name: &str| {
        let begun = Instant::now();
        let to = open(name);
        rustix::fs::ioctl_ficlone(&to, &data).expect("cloned");
        to.sync_all().expect("durable");
        begun.elapsed().as_secs_f64() * 1000.0
    };
    let mut took = Took::default();
    for (kind, took) in took.iter_mut().enumerate() {
        for round in 0..amount.rounds {
            let name = format!("{kind} {round}");
            took.push(cloned(&name));
            std::fs::remove_file(top.join(name)).expect("removed");
        }
        cloned(&format!("kept {kind}"));
        (0..amount.pages).for_each(|step| data.write_all_at(&chunk[..PAGE], amount.page(step)).expect("written"));
        data.sync_all().expect("durable");
    }
    took
}

/// What a subject took, or why it is not there.
fn measure(kind: &str, amount: Amount) -> Result<Took, String> {
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    let room = amount.bytes + (2 << 30);
    if kind != "volume" {
        return Ok(on_directory(&kernel(&scene, &mut janitor, kind, room)?, amount));
    }
    let disk = attach(&scene, &mut janitor, kind, 1, room)?.remove(0);
    let settings = ReactorSettings { name: "clones".into(), ..ReactorSettings::default() };
    reactor::block_on(settings, async { on_volume(&new_volume(&disk).await, amount).await })
        .map_err(|error| error.to_string())
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds = number("ROUNDS", if quick { 1 } else { 5 });
    let (gib, pages) = if quick { (1, 2048) } else { (10, 8192) };
    let amount = Amount { bytes: gib << 30, pages, rounds };
    println!("Milliseconds until a clone of a file of {gib} GiB is durable, medians of {rounds} rounds.");
    println!();
    println!("| | in one piece | after {pages} pages of 8 KiB were written over |");
    println!("| --- | ---: | ---: |");
    for kind in ["volume", "btrfs", "xfs"] {
        match measure(kind, amount) {
            Ok(took) => {
                let [whole, pieces] = took.map(median);
                println!("| {kind} | {whole:.1} | {pieces:.1} |");
            }
            Err(why) => println!("| {kind} | - | {why} |"),
        }
    }
}
