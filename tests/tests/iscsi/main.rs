//! iSCSI: the built daemon with real initiators, and with one of our own that breaks what it likes.
//!
//! What drives the tests is held to another target first (`peer.rs`, `host.rs`): a test that fails against ours alone is our fault.

mod files;
mod host;
mod peer;
