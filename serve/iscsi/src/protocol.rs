//! The words of iSCSI (RFC 7143): numbers, headers and texts, parsed and encoded without any I/O. Everything on the wire
//! is big-endian.
//!
//! ```text
//!  constants   every number of the protocol that is used here
//!  header      the 48 bytes that every PDU begins with
//!  text        key=value pairs of login and text requests
//! ```
//!
//! Invariant: a parser never reads past the bytes it was given, and never allocates by a length it read.

pub mod constants;
pub mod header;
pub mod text;

pub use header::Header;
