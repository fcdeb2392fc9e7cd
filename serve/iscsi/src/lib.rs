//! The iSCSI target (RFC 7143), over TCP with IPv4 and IPv6.
//!
//! It serves any [`Device`](holdfast_scsi::Device) by name, and knows nothing of what its commands mean.
//!
//! ```text
//!   listener ─▶ session ─▶ login ─ parameters       who, to what, on which terms         (no I/O)
//!                   │        └─ targets             the table of targets, sessions, failed logins
//!                   └────▶ connection ─▶ Nexus      commands in their window, answers in batches
//!                             ├─ inbound            bytes to PDUs                        (no I/O)
//!                             ├─ transfer           the data of a write                  (no I/O)
//!                             └─ outbound           PDUs to bytes                        (no I/O)
//!   protocol                                        the numbers and records of the wire  (no I/O)
//! ```
//!
//! A payload is copied nowhere: it is received into the aligned buffer that the disk writes from, and sent from the
//! buffer that the disk read into. The exception is what came in with the header of its PDU, about 1 KiB.
//!
//! A session has one connection, and error recovery is of level 0: a connection that broke is a session that ended.
//!
//! Invariant: nothing that an initiator sends can make the server panic, hold more than its limits, pass a login without
//! the proof that it needs, or reach a unit of a target that it is not logged in to.

mod account;
mod connection;
mod error;
pub mod inbound;
pub mod login;
mod memory;
mod name;
mod observer;
mod orders;
pub mod outbound;
pub mod parameters;
pub mod protocol;
mod session;
mod settings;
mod status;
mod targets;
pub mod transfer;
pub mod window;

pub use account::{Account, SECRET_BYTES, Secret};
pub use error::IscsiError;
pub use name::is_name;
pub use observer::{FailedLogin, Observer};
pub use parameters::Parameters;
pub use session::serve;
pub use settings::{IscsiSettings, TargetLimits};
pub use status::SessionStatus;
pub use targets::{Access, Allowed, Portal, TargetSettings, Targets};
