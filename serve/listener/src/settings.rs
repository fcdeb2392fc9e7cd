//! How a listener is set up: limits and TLS.

use std::path::PathBuf;

use crate::Address;

/// Who must encrypt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsRequired {
    /// Nobody; all may.
    Nowhere,
    /// Clients over TCP; on a unix socket all may.
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

/// Whether clients of an address may or must encrypt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsPolicy {
    /// The server has no certificate.
    #[default]
    Absent,
    /// Clients may.
    Optional,
    /// Clients must.
    Required,
}

impl TlsPolicy {
    /// That of an address.
    pub(crate) fn of(settings: Option<&TlsSettings>, address: &Address) -> Self {
        match (settings.map(|settings| settings.required), address) {
            (None, _) => Self::Absent,
            (Some(TlsRequired::Everywhere), _) | (Some(TlsRequired::OverTcp), Address::Tcp(_)) => Self::Required,
            _ => Self::Optional,
        }
    }
}

/// How a server listens.
#[derive(Clone, Debug)]
pub struct ListenSettings {
    /// Connections at once. Where there are so many, the oldest without a login makes room for one more; where all are
    /// logged in, one more is closed as soon as it comes.
    pub connections: usize,
    /// Permission bits of unix sockets.
    pub unix_mode: u32,
    /// Encryption, where there is any.
    pub tls: Option<TlsSettings>,
}

impl Default for ListenSettings {
    fn default() -> Self {
        Self { connections: 256, unix_mode: 0o600, tls: None }
    }
}
