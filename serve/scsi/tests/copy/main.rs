//! Offloaded copy, from the CDBs and lists that an initiator sends to the bytes that arrive.

mod client;
mod extended;
#[path = "../../../block/tests/support/memory.rs"]
#[allow(dead_code)]
mod memory;
mod results;
mod tokens;
mod world;
