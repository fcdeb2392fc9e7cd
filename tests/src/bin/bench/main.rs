//! Speed against named peers, in one run: Holdfast's spaces on disks of memory; `nbdkit file` and `qemu-nbd` on one raw file of
//! memory, the same client for all; and btrfs with parity on disks of memory, without a network between. Prints Markdown.
//!
//! ```text
//!   HOLDFAST_BIN=holdfast ROUNDS=5 RUNTIME=2 QUICK=1 PIN=1 AWAKE=1 SUBJECTS=simple,parity1 PROFILES=database,restore DEPTHS=32 bench
//!
//!   settings.rs  what a run is told          subjects.rs  what is measured: peers.rs, btrfs.rs, spaces.rs
//!   profiles.rs  the loads                   measure.rs   in turns; written.rs  and what reaches the disks
//!   ballast.rs   keeps memory in place        janitor.rs   takes everything away
//!   report.rs    tables; demands.rs    and verdicts
//! ```
//!
//! Invariant: subjects take turns within each round, so that a change of the machine's mood meets all of them; what is printed
//! is the median over rounds.

mod ballast;
mod btrfs;
mod demands;
mod janitor;
mod measure;
mod peers;
mod profiles;
mod report;
mod settings;
mod spaces;
mod subjects;
mod written;

use std::fs::File;
use std::io::Write;

use holdfast_tests::scene::Scene;

fn main() {
    let settings = settings::Settings::from_environment();
    let _awake = settings.awake.then(keep_awake);
    let scene = Scene::new();
    let mut janitor = janitor::Janitor::new();
    if scene.is_temporary() {
        janitor.later(&format!("rm -rf --one-file-system '{}'", scene.dir().display()));
    }
    let (subjects, left_out) = subjects::start(&scene, &mut janitor, &settings);
    let mut ballast = ballast::Ballast::new();
    let samples = measure::run_all(&subjects, &settings, &mut ballast);
    let written = written::run_all(&subjects, &settings);
    report::print(&samples, &written, &left_out, ballast.bytes(), &settings);
}

/// As long as the file is open, no processor sleeps.
fn keep_awake() -> File {
    let mut file =
        File::options().write(true).open("/dev/cpu_dma_latency").expect("AWAKE=1 needs root, and a kernel with PM QoS");
    file.write_all(&0_i32.to_ne_bytes()).expect("asked of the kernel");
    file
}
