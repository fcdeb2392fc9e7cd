//! The blocks of a volume; see `volume/check.rs`, which ordinary tests run as well.

#![no_main]

#[path = "volume/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| check::check(bytes));
