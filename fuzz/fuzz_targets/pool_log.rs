//! The metadata log of a pool; see `pool_log/check.rs`, which ordinary tests run as well.

#![no_main]

#[path = "pool_log/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check::check(bytes));
