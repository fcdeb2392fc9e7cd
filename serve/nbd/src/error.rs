//! What can go wrong with exports and servers as a whole. What goes wrong with one request goes to its client.

use std::io;

/// An error of the server or its exports.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The name is taken.
    #[error("export '{0}' already exists; remove it first or choose another name")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no export '{0}'; list the exports to see their names")]
    Unknown(String),
    /// The protocol cannot carry the name.
    #[error("'{0}' cannot be the name of an export: names have 1 to 4096 bytes and no NUL")]
    Name(String),
    /// An address is not of a known form.
    #[error("'{0}' is not an NBD address; write unix:PATH or tcp:HOST:PORT")]
    Address(String),
    /// No address, or no reactor.
    #[error("an NBD server needs at least one {0}")]
    Nothing(&'static str),
    /// The address cannot be used.
    #[error("NBD: {source}; free the address or choose another")]
    Listen {
        /// The address as it was asked for.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The certificate, the key or the authorities cannot be used.
    #[error("NBD cannot use the TLS files: {0}; they must be PEM, and the key must belong to the certificate")]
    Tls(String),
}
