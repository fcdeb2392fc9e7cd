//! The words of the NBD protocol (NetworkBlockDevice `doc/proto.md`): numbers, and records parsed and encoded without
//! any I/O. Everything on the wire is big-endian.
//!
//! ```text
//!  constants   every number of the protocol that is used here
//!  errno       the errors that the wire can carry
//!  option      handshake: what a client asks, what is answered
//!  request     transmission: the header of a request, compact or extended
//!  reply       transmission: the header of a reply, simple, structured or extended
//! ```
//!
//! Invariant: a parser never reads past the bytes it was given, and never allocates by a length it read.

pub mod constants;
pub mod errno;
pub mod option;
pub mod reply;
pub mod request;

pub use errno::Errno;
pub use reply::ReplyStyle;
pub use request::{Command, Request};
