//! The wire between the kernel and a FUSE server: records of host order without gaps (`linux/fuse.h`, protocol 7).
//!
//! ```text
//!   request   length 4 | opcode 4 | unique 8 | node 8 | uid 4 | gid 4 | pid 4 | extensions 2 | 0 2 | body
//!   reply     length 4 | error 4 (negative) | unique 8 | body
//! ```
//!
//! Invariant: whatever the bytes of a request are, parsing them reads none beyond their end.

pub mod constants;
pub mod init;
pub mod reply;
pub mod request;
