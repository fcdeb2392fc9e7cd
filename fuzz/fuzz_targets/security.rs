//! Security descriptors in bytes and as text; see `security/check.rs`, which ordinary tests run as well.

#![no_main]

#[path = "security/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check::check(bytes));
