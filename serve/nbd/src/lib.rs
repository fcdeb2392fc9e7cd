//! The NBD protocol server, newstyle and complete, over unix sockets, TCP and TLS.
//!
//! It serves any [`Target`](holdfast_block::Target) by name, and knows nothing of what stands behind it. Requests go
//! through a [`Session`](holdfast_block::Session), which makes whole blocks of parts of them.
//!
//! ```text
//!   listener ─▶ session ─▶ negotiate            which export, in which style            (no I/O)
//!                   │         └─ exports        the table of targets
//!                   └────▶ connection ─▶ serve  requests in flight, replies in batches
//!                             ├─ inbound        bytes to requests                       (no I/O)
//!   protocol                                    the numbers and records of the wire     (no I/O)
//! ```
//!
//! A payload is copied nowhere: it is received into the aligned buffer that the target writes from, and sent from the
//! buffer that the target read into. The exceptions are less than 1 KiB of a payload that came in with its header,
//! the blocks that a request covers in part, and TLS.
//!
//! Invariant: nothing that a client sends can make the server panic, hold more than its limits, or touch a byte outside
//! the range of a checked request.

mod connection;
mod error;
mod exports;
pub mod inbound;
pub mod negotiate;
pub mod protocol;
mod session;
mod settings;

pub use error::NbdError;
pub use exports::{Exports, Removal};
pub use session::serve;
pub use settings::NbdSettings;
