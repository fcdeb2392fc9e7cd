//! What protocol servers share before and after they speak their protocol.
//!
//! ```text
//!   Server ─▶ accept ─▶ limit ─▶ Registry ─▶ next reactor ─▶ Handler (one a protocol)
//!                                   │                           ├─ Encryption ─▶ Receiver, Sender: plain or TLS
//!                                   │                           ├─ Writer: answers leave in batches
//!                          Waiting ─┤ who must make room          │
//!                                   └─ list, drain at shutdown  └─ Tracked: who, since when, how much, the order to stop
//! ```
//!
//! Invariant: a server that was shut down listens nowhere and has no connection left.

mod address;
mod error;
mod local_notify;
mod registry;
mod run;
mod server;
mod settings;
mod tls;
mod transport;
mod waiting;
mod writer;

pub use address::Address;
pub use error::ListenError;
pub use local_notify::LocalNotify;
pub use registry::{Admission, ConnectionStatus, Crowding, ExportStatus, Tracked};
pub use run::{PIECES_AT_ONCE, Run};
pub use server::{Accepted, Handler, Server};
pub use settings::{ListenSettings, TlsPolicy, TlsRequired, TlsSettings};
pub use tls::Encryption;
pub use transport::{Receiver, Sender};
pub use waiting::{Crowd, Source, Waiting};
pub use writer::{Answering, Writer};
