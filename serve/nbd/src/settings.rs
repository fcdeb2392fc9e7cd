//! How a server is set up: addresses, limits and TLS.
//!
//! Memory that clients can make a server hold is at most `connections` x (`payload_bytes` + 32 MiB), where the 32 MiB are
//! the one request that may pass the limit when nothing else is in flight, plus buffers of about 8 KiB a connection, 90 KiB
//! while it shakes hands, and 300 KiB under TLS.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::NbdError;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of a unix socket.
    Unix(PathBuf),
    /// Address and port; port 0 takes any that is free.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = NbdError;

    fn from_str(text: &str) -> Result<Self, NbdError> {
        let unknown = || NbdError::Address(text.to_owned());
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => {
                let found = address.to_socket_addrs().map_err(|_| unknown())?.next();
                found.map(Self::Tcp).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// Who must encrypt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsRequired {
    /// Nobody; whoever wants to may.
    Nowhere,
    /// Whoever comes over TCP; on a unix socket whoever wants to may.
    #[default]
    OverTcp,
    /// Everybody.
    Everywhere,
}

/// The files of TLS, all PEM.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// The server's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// Authorities of which a client must show a certificate; with none, any client may come.
    pub client_authorities: Option<PathBuf>,
    /// Who must encrypt.
    pub required: TlsRequired,
}

/// Limits and habits of a server.
#[derive(Clone, Debug)]
pub struct NbdSettings {
    /// Connections at once; one more is closed as soon as it comes.
    pub connections: usize,
    /// Requests in flight on a connection, from their header until their reply is sent; then its socket is not read.
    pub requests: u32,
    /// Payload bytes in flight on a connection; then its socket is not read. A single request may pass it.
    pub payload_bytes: u64,
    /// How long a client may take to choose an export.
    pub handshake_timeout: Duration,
    /// How long a connection that is being closed waits for the requests in flight.
    pub drain_timeout: Duration,
    /// Permission bits of unix sockets.
    pub unix_mode: u32,
    /// Encryption, where there is any.
    pub tls: Option<TlsSettings>,
}

impl Default for NbdSettings {
    fn default() -> Self {
        Self {
            connections: 256,
            requests: 128,
            payload_bytes: 64 << 20,
            handshake_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(10),
            unix_mode: 0o600,
            tls: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for text in ["unix:/run/nbd.sock", "tcp:127.0.0.1:10809", "tcp:[::1]:0"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "unix:", "/run/nbd.sock", "tcp:nowhere", "http://x"] {
            assert!(matches!(text.parse::<Address>(), Err(NbdError::Address(_))), "{text}");
        }
    }
}
