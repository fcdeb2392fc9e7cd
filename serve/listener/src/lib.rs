//! What protocol servers share before and after they speak their protocol.
//!
//! ```text
//!   Server ─▶ accept ─▶ limit ─▶ Registry ─▶ next reactor ─▶ Handler (one a protocol)
//!                                   │                           ├─ Encryption ─▶ Receiver, Sender: plain or TLS
//!                                   └─ list, drain at shutdown  └─ Tracked: who, since when, how much, the order to stop
//! ```
//!
//! Invariant: a server that was shut down listens nowhere and has no connection left.

mod address;
mod error;
mod registry;
mod server;
mod settings;
mod tls;
mod transport;

pub use address::Address;
pub use error::ListenError;
pub use registry::{Admission, ConnectionStatus, ExportStatus, Tracked};
pub use server::{Accepted, Handler, Server};
pub use settings::{ListenSettings, TlsPolicy, TlsRequired, TlsSettings};
pub use tls::Encryption;
pub use transport::{Receiver, Sender};
