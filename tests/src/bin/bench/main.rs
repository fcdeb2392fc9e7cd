//! Speed against named peers, in one run and on the same kind of disks: block devices with direct I/O, which are loop
//! devices over files in memory. Holdfast's spaces lie on eight each; `nbdkit file` and `qemu-nbd` serve one each to
//! the same client; btrfs with parity lies on eight, and fio goes to one itself, both without a network between. Prints
//! Markdown.
//!
//! ```text
//!   HOLDFAST_BIN=holdfast ROUNDS=5 RUNTIME=2 QUICK=1 PIN=1 SUBJECTS=simple,parity1 PROFILES=database,restore DEPTHS=32 bench
//!   HOLDFAST_BIN=holdfast HOLDFAST_BEFORE=older/holdfast bench       simple and two-way of an older build take turns with this one's
//!
//!   settings.rs  what a run is told          subjects.rs  what is measured: peers.rs, btrfs.rs, spaces.rs
//!   profiles.rs  the loads                   measure.rs   in turns; written.rs  and what reaches the disks
//!   ballast.rs   keeps memory in place        ahead.rs     goes ahead of other work, with SHARED=1
//!   report.rs    tables; demands.rs    and verdicts
//! ```
//!
//! Invariant: subjects take turns within each round, so that a change of the machine's mood meets all of them; what is
//! printed is the median over rounds.

mod ahead;
mod ballast;
mod btrfs;
mod demands;
mod measure;
mod peers;
mod profiles;
mod report;
mod settings;
mod spaces;
mod subjects;
mod written;

use holdfast_tests::janitor::Janitor;
use holdfast_tests::process;
use holdfast_tests::scene::Scene;

fn main() {
    let settings = settings::Settings::from_environment();
    let awake = process::keep_awake();
    let scene = Scene::new();
    let mut janitor = Janitor::of(&scene);
    let (subjects, left_out) = subjects::start(&scene, &mut janitor, &settings);
    let mut ballast = ballast::Ballast::new();
    let samples = measure::run_all(&subjects, &settings, &mut ballast);
    let written = written::run_all(&subjects, &settings);
    report::print(&samples, &written, &left_out, awake.is_ok(), ballast.bytes(), &settings);
}
