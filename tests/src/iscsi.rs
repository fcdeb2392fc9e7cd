//! iSCSI from outside: an initiator of our own that sends whatever a test wants, other people's initiators, and another
//! target to hold ours against.
//!
//! ```text
//!   initiator.rs   a session: commands, R2T, data, task management, events
//!     login.rs     its beginning: keys, CHAP (chap.rs with md5.rs)
//!     wire.rs      PDUs on a connection, with digests, within a time
//!     pdu.rs       the 48 bytes that each begins with
//!   cdb.rs         commands of SCSI;  answer.rs   and what they are answered
//!   offload.rs     copies that the target is asked to do
//!   tools.rs       libiscsi's and QEMU's initiators
//!   suite.rs       libiscsi's suite, test by test
//!   tgt.rs         Debian's target, as a peer
//! ```
//!
//! Invariant: the initiator believes nothing. Each number of a PDU that RFC 7143 fixes is checked, and a target that sends
//! another one fails the test.

pub mod answer;
pub mod cdb;
pub mod chap;
pub mod initiator;
pub mod login;
pub mod md5;
pub mod offload;
pub mod pdu;
pub mod suite;
pub mod tgt;
pub mod tools;
pub mod wire;
