//! What tests share: the seeds that a simulation runs over, inputs of the fuzzer, waits for what should happen, where
//! their disks lie, and what this machine does not let a test do.
//!
//! Invariant: a failure names the seed that repeats it, and what is left out stands in the summary of `make test`.

pub mod corpus;
mod place;
mod waits;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub use place::{folder_for_tests, free_bytes};
pub use waits::{LIMIT, Wait, wait_until};

/// Names the file that `make test` prints at its end.
const LEFT_OUT: &str = "HOLDFAST_LEFT_OUT";

/// The seeds of a run.
#[derive(Debug, PartialEq, Eq)]
enum Seeds {
    One(u64),
    Range { from: u64, count: u64 },
}

impl Seeds {
    /// Takes what `variable` says of them, and otherwise so many from 0 on, or a share of that.
    fn chosen(usual: u64, variable: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| {
            variable(name)
                .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is {text:?} and should be a number")))
        };
        match number("HOLDFAST_SEED") {
            Some(seed) => Self::One(seed),
            None => {
                let share = number("HOLDFAST_SHARE").unwrap_or(100);
                let count = number("HOLDFAST_SEEDS").unwrap_or((usual * share).div_ceil(100));
                Self::Range { from: number("HOLDFAST_FROM").unwrap_or(0), count }
            }
        }
    }
}

/// Runs a test over seeds on all cores, `usual` of them. `HOLDFAST_SEEDS` sets their number, `HOLDFAST_SHARE` the
/// part of the usual number in percent, `HOLDFAST_FROM` the first, `HOLDFAST_SEED` the only one.
///
/// # Panics
/// If one of the runs does.
pub fn over_seeds(usual: u64, run: impl Fn(u64) + Sync) {
    match Seeds::chosen(usual, |name| std::env::var(name).ok()) {
        Seeds::One(seed) => run(seed),
        Seeds::Range { from, count } => over_range(from, count, run),
    }
}

fn over_range(from: u64, count: u64, run: impl Fn(u64) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, end) = (AtomicU64::new(from), from.saturating_add(count));
    println!("seeds {from} to {}", end.saturating_sub(1));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < end) {
                    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed))) {
                        next.store(end, Ordering::Relaxed);
                        eprintln!("HOLDFAST_SEED={seed} replays this failure");
                        std::panic::resume_unwind(panic);
                    }
                }
            });
        }
    });
}

/// Notes for the summary of `make test` that a test leaves `what` out for lack of `needs`.
pub fn note_left_out(what: &str, needs: &str) {
    if let Some(path) = std::env::var_os(LEFT_OUT) {
        append(Path::new(&path), &format!("{what}: this needs {needs}"));
    }
}

/// Adds a line to a file, unless it stands there.
fn append(path: &Path, line: &str) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock();
    if std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|known| known == line)) {
        return;
    }
    let file = OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: cannot note what is left out: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn seeds_are_those_that_the_environment_names() {
        let chosen = |set: &[(&str, &str)]| {
            Seeds::chosen(300, |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(chosen(&[]), Seeds::Range { from: 0, count: 300 });
        assert_eq!(chosen(&[("HOLDFAST_FROM", "70")]), Seeds::Range { from: 70, count: 300 });
        assert_eq!(chosen(&[("HOLDFAST_FROM", "70"), ("HOLDFAST_SEEDS", "5")]), Seeds::Range { from: 70, count: 5 });
        assert_eq!(chosen(&[("HOLDFAST_SHARE", "40")]), Seeds::Range { from: 0, count: 120 });
        assert_eq!(chosen(&[("HOLDFAST_SHARE", "40"), ("HOLDFAST_SEEDS", "5")]), Seeds::Range { from: 0, count: 5 });
        assert_eq!(chosen(&[("HOLDFAST_FROM", "70"), ("HOLDFAST_SEED", "9")]), Seeds::One(9));
        assert!(
            std::panic::catch_unwind(|| Seeds::chosen(1, |_| Some("few".into()))).is_err(),
            "no typing error runs nothing"
        );
    }

    #[test]
    fn each_seed_is_run_once_and_a_failure_ends_the_run() {
        let seen = Mutex::new(Vec::new());
        over_range(40, 500, |seed| seen.lock().unwrap().push(seed));
        let seen = seen.into_inner().unwrap();
        assert_eq!((seen.len(), seen.into_iter().collect::<BTreeSet<_>>()), (500, (40..540).collect()));
        let count = AtomicU64::new(0);
        let run = |seed| {
            count.fetch_add(1, Ordering::Relaxed);
            assert_ne!(seed, 7);
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| over_range(0, 1 << 40, run))).is_err());
        assert!(count.load(Ordering::Relaxed) >= 8);
    }

    #[test]
    fn what_is_left_out_is_noted_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("left-out");
        ["a", "b", "a"].iter().for_each(|line| append(&path, line));
        assert_eq!(std::fs::read_to_string(path).unwrap(), "a\nb\n");
    }
}
