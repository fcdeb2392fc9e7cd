//! Requests of the kernel to a FUSE server; see `fuse/check.rs`, which ordinary tests run as well.

#![no_main]

#[path = "fuse/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check::check(bytes));
