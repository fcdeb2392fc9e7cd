//! How long a damaged volume is away while it is repaired: files whose names were lost, a record and an entry that cannot
//! be read. Beside the checkers of file systems of the kernel with as many lost names, on loop devices of the same kind.
//! And how long a whole one is away whose process was killed, with the memory that the next one takes. Prints Markdown.
//!
//! ```text
//!   FILES=100000,1000000,10000000 ORPHANS=1000000 ROUNDS=3 orphans
//! ```
//!
//! What is found is found by a scan while the volume is in use. What is timed as offline is the repair alone, from the
//! first reading of what the scan had kept until all is durable.

use std::path::{Path, PathBuf};
use std::time::Instant;

use holdfast_device::reactor::{self, ReactorSettings};
use holdfast_tests::command::run;
use holdfast_tests::crashed::{self, TakenUp};
use holdfast_tests::files::open_volume;
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::{attach, detach, tried};
use holdfast_tests::rounds::{median, number, text};
use holdfast_tests::scene::Scene;
use holdfast_tests::wounded::{OF_DIRECTORY, Victims};
use holdfast_volume::Verb;

/// What was measured of one volume, in seconds.
struct Measured {
    files: u64,
    scan: f64,
    offline: Vec<f64>,
    /// Processor time of that.
    busy: Vec<f64>,
    taken_up: TakenUp,
}

/// Processor time of this process so far, in seconds.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// One volume of so many files, damaged and repaired so many times.
async fn on_volume(path: &str, files: u64, orphans: u64, rounds: u64) -> Measured {
    let victims = Victims::fill(path, files, orphans).await;
    let taken_up = crashed::crash(path, files);
    let mut measured = Measured { files, scan: 0.0, offline: Vec::new(), busy: Vec::new(), taken_up };
    for _ in 0..rounds {
        victims.damage(path).await;
        let volume = open_volume(path).await;
        let begun = Instant::now();
        let found = volume.scan().await.expect("scanned");
        measured.scan = begun.elapsed().as_secs_f64();
        let lost: u64 = found.iter().map(Verb::count).sum();
        assert!(lost >= orphans, "{lost} findings");
        volume.shut_down().await.expect("closed");
        drop(volume);
        let volume = open_volume(path).await;
        let (begun, busy) = (Instant::now(), processor_seconds());
        let done = volume.spotfix_known().await.expect("repaired").expect("it says all");
        measured.offline.push(begun.elapsed().as_secs_f64());
        measured.busy.push(processor_seconds() - busy);
        assert!(done.fixed >= orphans && done.left.iter().all(Verb::is_online), "{}", done.fixed);
        assert_eq!(volume.spotfix().await.expect("repaired").left, Vec::new(), "the rest is repaired in use");
        volume.shut_down().await.expect("closed");
    }
    measured
}

/// A file system of the kernel with directories that were wiped, and how long its checker takes; with how many files.
fn on_kernel(
    scene: &Scene,
    janitor: &mut Janitor,
    kind: &str,
    files: u64,
    orphans: u64,
    bytes: u64,
) -> Result<f64, String> {
    let device = attach(scene, janitor, kind, 1, bytes)?.remove(0);
    let inodes = (files + orphans + 100_000).to_string();
    match kind {
        "ext4" => tried("mkfs.ext4", &["-q", "-F", "-O", "inline_data", "-N", &inodes, &device])?,
        _ => tried("mkfs.xfs", &["-q", "-f", &device])?,
    };
    let top = scene.folder(&format!("{kind}-mnt"));
    tried("mount", &["-t", kind, &device, &top])?;
    janitor.later(&format!("umount -l '{top}'"));
    // Nameless files without a byte are removed by e2fsck; one byte stands in the inode.
    let content: &[u8] = if kind == "ext4" { b"1" } else { b"" };
    let mut damaged = Vec::new();
    for (letter, count) in [("d", files), ("o", orphans)] {
        for number in 0..count / OF_DIRECTORY {
            let directory: PathBuf = Path::new(&top).join(format!("{letter}{number}"));
            std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
            for number in 0..OF_DIRECTORY {
                let path = directory.join(format!("file {number}"));
                std::fs::write(path, content).map_err(|error| error.to_string())?;
            }
            if letter == "o" {
                use std::os::unix::fs::MetadataExt;
                damaged.push(std::fs::metadata(&directory).map_err(|error| error.to_string())?.ino());
            }
        }
    }
    tried("umount", &[&top])?;
    let script = scene.folder(&format!("{kind}-script")) + "/commands";
    let command = |inode: &u64| match kind {
        "ext4" => format!("clri <{inode}>\n"),
        _ => format!("inode {inode}\nwrite core.mode 0\n"),
    };
    std::fs::write(&script, damaged.iter().map(command).collect::<String>()).map_err(|error| error.to_string())?;
    match kind {
        "ext4" => tried("debugfs", &["-w", "-f", &script, &device])?,
        _ => tried("sh", &["-c", &format!("xfs_db -x '{device}' < '{script}'")])?,
    };
    let begun = Instant::now();
    let checked = match kind {
        "ext4" => run("e2fsck", &["-f", "-y", &device]),
        _ => run("xfs_repair", &[&device]),
    };
    let took = begun.elapsed().as_secs_f64();
    let said = checked.printed() + &checked.complaint();
    if !(said.contains("lost+found") || said.contains("disconnected")) {
        return Err(format!("its checker found nothing: {}", said.lines().last().unwrap_or_default()));
    }
    detach(&device)?;
    Ok(took)
}

/// How long the processes took that came after killed ones, and their memory.
fn print_taken_up(all: &[(u64, TakenUp)]) {
    println!(
        "| files | creations only in the log | s until a file is found | MiB then | after all were listed | at most |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
    for (files, TakenUp { logged, answers_seconds, opened_bytes, walked_bytes, most_bytes }) in all {
        let [opened, walked, most] = [opened_bytes, walked_bytes, most_bytes].map(|bytes| bytes >> 20);
        println!("| {files} | {logged} | {answers_seconds:.2} | {opened} | {walked} | {most} |");
    }
}

fn main() {
    if crashed::was_told() {
        return;
    }
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds = number("ROUNDS", 1);
    let orphans: u64 = number("ORPHANS", if quick { 10_000 } else { 100_000 });
    let sizes = text("FILES").unwrap_or_else(|| if quick { "10000,50000" } else { "100000,500000" }.into());
    let sizes: Vec<u64> = sizes.split(',').map(|size| size.trim().parse().expect("numbers of files")).collect();
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    println!("A volume with {orphans} files that lost their names, a record and an entry that cannot be read.");
    println!();
    println!("| files | scan in use, s | repair offline, s | of a processor, s | e2fsck -f, s | xfs_repair, s |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: |");
    let (mut all, mut taken) = (Vec::new(), Vec::new());
    for files in sizes {
        let bytes = ((files + orphans) * 1024).next_power_of_two().max(1 << 30);
        let path = match attach(&scene, &mut janitor, &format!("volume-{files}"), 1, bytes) {
            Ok(mut devices) => devices.remove(0),
            Err(why) => return println!("\nNothing was measured: {why}."),
        };
        let settings = ReactorSettings { name: "orphans".into(), ..ReactorSettings::default() };
        let used = path.clone();
        let measured = reactor::block_on(settings, async move { on_volume(&used, files, orphans, rounds).await });
        let Measured { files, scan, offline, busy, taken_up } = measured.expect("the kernel gives a ring");
        detach(&path).expect("nobody holds it");
        let peers = ["ext4", "xfs"].map(|kind| {
            match text("ALONE").is_none().then(|| on_kernel(&scene, &mut janitor, kind, files, orphans, bytes)) {
                Some(Ok(took)) => format!("{took:.1}"),
                Some(Err(why)) => {
                    eprintln!("{kind}: {why}");
                    "-".into()
                }
                None => "-".into(),
            }
        });
        let (offline, busy) = (median(offline), median(busy));
        println!("| {files} | {scan:.1} | {offline:.2} | {busy:.2} | {} |", peers.join(" | "));
        all.push(offline);
        taken.push((files + orphans, taken_up));
    }
    let (least, most) = (all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(0.0, f64::max));
    println!();
    println!("The longest repair offline takes {:.0} % more than the shortest.", (most / least - 1.0) * 100.0);
    println!();
    print_taken_up(&taken);
}
