//! Spaces of single and dual parity, as clients see them: whole, with disks lost, and after crashes.

mod crash;
mod losses;
mod service;

use holdfast_tests::daemon::Daemon;

/// Options of a space with so much parity and the usual columns.
const SINGLE: &[&str] = &["--layout", "parity", "--parity", "1"];
const DUAL: &[&str] = &["--layout", "parity", "--parity", "2"];

/// Data and parity of a space that is in step agree, and all of it can be compared.
#[track_caller]
fn agrees(daemon: &Daemon, space: &str) {
    let found = daemon.json(&["space", "verify", space]);
    assert_eq!(found["mismatched_blocks"], 0, "{found}");
    assert_eq!(found["unchecked_bytes"], 0, "{found}");
    assert!(found["checked_bytes"].as_u64() > Some(0), "{found}");
}
