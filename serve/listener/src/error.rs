//! Why a server cannot listen.

use std::io;

/// An error of listeners. Each names the protocol that was to be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// An address is not of a known form.
    #[error("'{0}' is not an address to listen on; write unix:PATH or tcp:HOST:PORT")]
    Address(String),
    /// No address, or no reactor.
    #[error("the {protocol} server needs at least one {what}")]
    Nothing {
        /// The protocol.
        protocol: &'static str,
        /// What is missing.
        what: &'static str,
    },
    /// The address cannot be used.
    #[error("{protocol}: {source}; free the address or choose another")]
    Listen {
        /// The protocol.
        protocol: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The certificate, the key or the authorities cannot be used.
    #[error(
        "{protocol} cannot use the TLS files: {reason}; they must be PEM, and the key must belong to the certificate"
    )]
    Tls {
        /// The protocol.
        protocol: &'static str,
        /// Which file, and why.
        reason: String,
    },
}
