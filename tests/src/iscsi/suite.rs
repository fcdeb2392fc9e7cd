//! libiscsi's suite (`iscsi-test-cu`), test by test: each runs alone and within a time, so that one that hangs or dies says
//! nothing of the others.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::command::run;

/// Seconds that a test may take.
const LIMIT_SECONDS: u32 = 180;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The target does as it should.
    Passed,
    /// The test says that it does not apply, and why.
    Skipped(String),
    /// The target does otherwise, or the test did not come to its end; the last that it said.
    Failed(String),
}

/// Verdicts by the names of tests.
pub type Score = BTreeMap<String, Verdict>;

/// The names of all tests of commands and of the protocol.
///
/// # Panics
/// If the suite is not installed.
pub fn names() -> Vec<String> {
    let listed = run("iscsi-test-cu", &["--list"]).succeeded();
    let one = |name: &&str| name.split('.').count() == 3 && (name.starts_with("SCSI.") || name.starts_with("iSCSI."));
    listed.lines().map(str::trim).filter(one).map(str::to_owned).collect()
}

/// Runs one test on the logical unit at `urls`, which are paths to the same one. Its data are lost.
pub fn test(name: &str, urls: &[String]) -> Verdict {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", &LIMIT_SECONDS.to_string(), "iscsi-test-cu", "--dataloss", "--allow-sanitize"]);
    command.args(["--fail", "--test", name]).args(urls).stdin(Stdio::null());
    let output = command.output().expect("timeout of coreutils can be run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if matches!(output.status.code(), Some(124 | 137)) {
        return Verdict::Failed(format!("not over within {LIMIT_SECONDS} s"));
    }
    // How many of the one test ran, passed and failed.
    let count = said.lines().find_map(|line| line.trim().strip_prefix("tests "));
    let count: Vec<u32> = count.unwrap_or_default().split_whitespace().map_while(|word| word.parse().ok()).collect();
    let remark = |word: &str| {
        let line = said.lines().find_map(|line| line.split_once(word));
        line.map(|(_, remark)| remark.trim().to_owned())
    };
    match count[..] {
        [1, 1, 1, 0, ..] => remark("[SKIPPED]").map_or(Verdict::Passed, Verdict::Skipped),
        [1, 1, ..] => Verdict::Failed(remark("[FAILED]").unwrap_or_else(|| last_lines(&said))),
        _ => Verdict::Failed(format!("it does not come to its end: {}", last_lines(&said))),
    }
}

fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(6)..].join(" | ")
}

/// Runs `names` on the logical units of several targets at once, each of which has its own URLs.
pub fn score(names: &[String], lanes: &[Vec<String>]) -> Score {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let score = std::sync::Mutex::new(Score::new());
    std::thread::scope(|scope| {
        for urls in lanes {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let verdict = test(name, urls);
                    score.lock().expect("no lane fails").insert(name.clone(), verdict);
                }
            });
        }
    });
    score.into_inner().expect("no lane fails")
}

/// Tests passed and in all, of names that begin with `family`.
pub fn passed(score: &Score, family: &str) -> (usize, usize) {
    let of_family = || score.iter().filter(|(name, _)| name.starts_with(family));
    (of_family().filter(|(_, verdict)| **verdict == Verdict::Passed).count(), of_family().count())
}
