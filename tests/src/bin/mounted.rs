//! Volumes mounted by the kernel, beside a server that keeps files in memory, over the same transport, and beside xfs.
//! Prints Markdown.
//!
//! ```text
//!   ROUNDS=3 QUICK=1 mounted
//! ```
//!
//! The volume and xfs lie on loop devices of the same kind. The server in memory shows what the way through the kernel
//! costs by itself: what the volume has less is its own. Over io_uring it is measured where the kernel has that and lets
//! it be switched on; the switch is put back.

#[path = "../../../serve/fuse/tests/support/memory.rs"]
mod memory;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_device::reactor::{self, ReactorHandle, ReactorSettings};
use holdfast_fuse::{MountSettings, Mounted, Opens, mount};
use holdfast_tests::command::run;
use holdfast_tests::files::{Amount, DEVICE_BYTES, Rates, kernel, new_volume, on_directory, print_table};
use holdfast_tests::fio::{direct_line, rates};
use holdfast_tests::janitor::Janitor;
use holdfast_tests::loops::attach;
use holdfast_tests::over_ring::OverRing;
use holdfast_tests::rounds::{number, text};
use holdfast_tests::scene::Scene;
use holdfast_volume::service::FileService;
use memory::Memory;

fn mounted<S>(
    service: Arc<S>,
    directory: &str,
    over_io_uring: bool,
    reactors: &[ReactorHandle],
    janitor: &mut Janitor,
) -> Mounted
where
    S: FileService<Handle: Send + Sync>,
{
    let settings = MountSettings { over_io_uring, ..MountSettings::default() };
    let (path, used) = (PathBuf::from(directory), reactors.to_vec());
    janitor.later(&format!("umount -l '{directory}'"));
    let mounting = move || async move { mount(service, Opens::default(), &path, settings, &used).await };
    let mounted = reactors[0].call(mounting).wait().expect("the reactor runs").expect("mounted");
    assert_eq!(mounted.is_over_io_uring(), over_io_uring, "the transport that was asked for");
    mounted
}

/// Random pages of the large file with 32 outstanding.
fn many_at_once(top: &Path, seconds: f64) -> Rates {
    let file = top.join("data");
    let file = file.to_str().expect("paths of benchmarks are text");
    let rate = |how: &str| {
        let mut line = direct_line("io_uring", file);
        let time = format!("--runtime={seconds}s");
        let more = ["--bs=8k", "--iodepth=32", "--time_based=1", "--output-format=json", how, time.as_str()];
        line.extend(more.map(str::to_owned));
        let printed = run("fio", &line.iter().map(String::as_str).collect::<Vec<_>>());
        let (read, written) = rates(&printed.printed());
        (read.iops + written.iops) / 1000.0
    };
    vec![("8 KiB random read, 32", rate("--rw=randread")), ("8 KiB random write, 32", rate("--rw=randwrite"))]
}

/// All subjects over one transport.
fn measure(scene: &Scene, janitor: &mut Janitor, over_io_uring: bool, rounds: u64, amount: Amount) {
    let name = if over_io_uring { "io_uring" } else { "/dev/fuse" };
    let disk = match attach(scene, janitor, &format!("volume-{over_io_uring}"), 1, DEVICE_BYTES) {
        Ok(mut devices) => devices.remove(0),
        Err(why) => return println!("Mounts were not measured: {why}."),
    };
    let xfs = kernel(scene, janitor, "xfs", DEVICE_BYTES);
    let start = |name: &str| {
        let settings = ReactorSettings { name: name.into(), ..ReactorSettings::default() };
        reactor::start(settings).expect("the kernel gives a ring")
    };
    let reactors = ["one", "two"].map(start);
    let opened =
        reactors[0].call(move || async move { Arc::new(new_volume(&disk).await) }).wait().expect("the reactor runs");
    let directories = ["volume", "memory"].map(|what| scene.folder(&format!("{what}-{over_io_uring}")));
    let ours = mounted(opened, &directories[0], over_io_uring, &reactors, janitor);
    let null = mounted(Arc::new(Memory::new()), &directories[1], over_io_uring, &reactors, janitor);
    let mut all: Vec<(&str, Vec<Rates>)> = vec![("volume", Vec::new()), ("files in memory", Vec::new())];
    let mut tops: Vec<PathBuf> = directories.iter().map(PathBuf::from).collect();
    match xfs {
        Ok(directory) => {
            all.push(("xfs", Vec::new()));
            tops.push(directory);
        }
        Err(why) => println!("xfs is not beside: {why}.\n"),
    }
    for round in 0..rounds {
        for (top, (_, measured)) in tops.iter().zip(&mut all) {
            let mut round = on_directory(top, round, amount);
            round.extend(many_at_once(top, if amount.pages > 5000 { 2.0 } else { 0.5 }));
            measured.push(round);
        }
    }
    println!(
        "Mounted over {name}, thousands a second, medians of {rounds} rounds; in brackets the volume's ratio to each."
    );
    println!();
    print_table(&all);
    println!();
    for mounted in [ours, null] {
        reactors[1].call(move || mounted.stop()).wait().expect("the reactor runs").expect("unmounted");
    }
    for top in &tops[2..] {
        run("umount", &[top.to_str().expect("paths of benchmarks are text")]).succeeded();
    }
}

fn main() {
    let quick = text("QUICK").is_some_and(|text| text != "0");
    let rounds = number("ROUNDS", if quick { 1 } else { 5 });
    let amount = if quick {
        Amount { files: 5000, synced: 200, pages: 4096 }
    } else {
        Amount { files: 20_000, synced: 2000, pages: 16_384 }
    };
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return println!("Mounts were not measured: they want root and /dev/fuse.");
    }
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    measure(&scene, &mut janitor, false, rounds, amount);
    let Some(_switch) = OverRing::switch_on(&mut janitor) else {
        return println!("Over io_uring was not measured: the kernel does not let it be switched on.");
    };
    measure(&scene, &mut janitor, true, rounds, amount);
}
