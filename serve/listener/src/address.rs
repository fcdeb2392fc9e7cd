//! Where servers listen: `unix:PATH` or `tcp:HOST:PORT`. Invariant: what is shown is read back as the same address.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use holdfast_device::reactor::net::LocalAddress;

use crate::ListenError;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Path of a unix socket.
    Unix(PathBuf),
    /// Address and port; port 0 takes any that is free.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let unknown = || ListenError::Address(text.to_owned());
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

impl From<LocalAddress> for Address {
    fn from(address: LocalAddress) -> Self {
        match address {
            LocalAddress::Unix(path) => Self::Unix(path),
            LocalAddress::Tcp(address) => Self::Tcp(address),
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
            assert!(matches!(text.parse::<Address>(), Err(ListenError::Address(_))), "{text}");
        }
    }
}
