//! The journal of a parity space; see `journal/check.rs`, which ordinary tests run as well.

#![no_main]

#[path = "journal/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check::check(bytes));
