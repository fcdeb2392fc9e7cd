//! iSCSI: the built daemon with real initiators, and with one of our own that breaks what it likes.
//!
//! What drives the tests is held to another target first (`peer.rs`, `host.rs`): where a test fails against ours alone, it is
//! our fault.

mod changes;
mod files;
mod host;
mod hostile;
mod login;
mod offload;
mod paths;
mod peer;
mod product;
mod reservations;
mod suite;
