//! Speed against named peers, in one run: Holdfast's spaces on disks of memory, `nbdkit file` and `qemu-nbd` on one raw file of
//! memory, the same client for all. Prints Markdown.
//!
//! ```text
//!   HOLDFAST_BIN=holdfast ROUNDS=5 RUNTIME=2 QUICK=1 PIN=1 SUBJECTS=nbdkit,two-way PROFILES=database,restore DEPTHS=32 bench
//! ```
//!
//! Invariant: subjects take turns within each round, so that a change of the machine's mood meets all of them; what is printed
//! is the median over rounds.

mod measure;
mod profiles;
mod report;
mod settings;
mod subjects;

use holdfast_tests::scene::Scene;

fn main() {
    let settings = settings::Settings::from_environment();
    let scene = Scene::new();
    let subjects = subjects::start(&scene, &settings);
    let samples = measure::run_all(&subjects, &settings);
    report::print(&samples, &settings);
}
