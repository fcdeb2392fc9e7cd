//! TLS: the server's configuration from PEM files, and the two halves of an encrypted stream.
//!
//! ```text
//!   socket ─▶ ciphertext ─▶ session ─▶ plaintext buffers of the receiver
//!   socket ◀─ ciphertext ◀─ session ◀─ pieces of the sender
//! ```
//!
//! Invariant: the session is never borrowed while a task waits for the socket.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use holdfast_device::reactor::net::{ReadHalf, WriteHalf};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};

use crate::settings::{TlsPolicy, TlsSettings};
use crate::transport::{Receiver, Sender};

/// Ciphertext that is received at once.
const RECEIVE_BYTES: usize = 64 << 10;
/// Plaintext that is encrypted at once.
const SEND_BYTES: usize = 128 << 10;

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let explain = |error| format!("{}: {error}", path.display());
    let found: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(explain)?.collect::<Result<_, _>>().map_err(explain)?;
    if found.is_empty() {
        return Err(format!("{}: no certificate in it", path.display()));
    }
    Ok(found)
}

/// Reads the files of `settings`, or says which cannot be used and why.
pub(crate) fn configuration(settings: &TlsSettings) -> Result<Arc<ServerConfig>, String> {
    let explain = |error: rustls::Error| error.to_string();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&settings.certificate)?;
    let key =
        PrivateKeyDer::from_pem_file(&settings.key).map_err(|error| format!("{}: {error}", settings.key.display()))?;
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().map_err(explain)?;
    let builder = match &settings.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut authorities = RootCertStore::empty();
            for certificate in certificates(path)? {
                authorities.add(certificate).map_err(explain)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
                .build()
                .map_err(|error| format!("{}: {error}", path.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(explain)?;
    // Sessions are long and few: tickets would only add messages.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The half that receives.
pub struct TlsReceiver {
    session: Rc<RefCell<ServerConnection>>,
    socket: ReadHalf,
    ciphertext: Box<[u8]>,
    at: usize,
    end: usize,
}

/// The half that sends.
pub struct TlsSender {
    session: Rc<RefCell<ServerConnection>>,
    socket: WriteHalf,
    ciphertext: Vec<u8>,
}

/// Whether a connection is encrypted, and with what.
#[derive(Clone)]
pub struct Encryption {
    pub(crate) policy: TlsPolicy,
    pub(crate) config: Option<Arc<ServerConfig>>,
}

impl Encryption {
    /// Whether the client may or must encrypt.
    pub fn policy(&self) -> TlsPolicy {
        self.policy
    }

    /// Shakes hands on a plain stream of which all that was received is used up.
    ///
    /// # Errors
    /// When the client fails to, it is encrypted already, or there is no certificate.
    pub async fn start(&self, receiver: Receiver, sender: Sender) -> io::Result<(Receiver, Sender)> {
        match (receiver, sender, &self.config) {
            (Receiver::Plain(read), Sender::Plain(write), Some(config)) => {
                let (read, write) = accept(config.clone(), read, write).await?;
                Ok((Receiver::Tls(Box::new(read)), Sender::Tls(Box::new(write))))
            }
            _ => Err(io::Error::other("TLS was started twice or without a certificate")),
        }
    }
}

/// Shakes hands as the server.
async fn accept(
    config: Arc<ServerConfig>,
    socket: ReadHalf,
    writer: WriteHalf,
) -> io::Result<(TlsReceiver, TlsSender)> {
    let session = ServerConnection::new(config).map_err(invalid)?;
    let session = Rc::new(RefCell::new(session));
    let ciphertext = vec![0; RECEIVE_BYTES].into_boxed_slice();
    let mut receiver = TlsReceiver { session: session.clone(), socket, ciphertext, at: 0, end: 0 };
    let mut sender = TlsSender { session: session.clone(), socket: writer, ciphertext: Vec::new() };
    loop {
        sender.flush().await?;
        if !session.borrow().is_handshaking() {
            session.borrow_mut().set_buffer_limit(None);
            return Ok((receiver, sender));
        }
        let outcome = receiver.more().await;
        if matches!(outcome, Err(_) | Ok(false)) {
            // The alert that says why.
            sender.flush().await?;
            return Err(outcome.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

impl TlsReceiver {
    /// Gives the session more ciphertext; false at the end of the stream. Called only when all plaintext is taken, so
    /// the session holds one record at most.
    async fn more(&mut self) -> io::Result<bool> {
        if self.at == self.end {
            self.end = self.socket.recv(&mut self.ciphertext).await?;
            self.at = 0;
        }
        let mut session = self.session.borrow_mut();
        let taken = session.read_tls(&mut &self.ciphertext[self.at..self.end])?;
        self.at += taken;
        session.process_new_packets().map_err(invalid)?;
        Ok(taken > 0)
    }

    /// Plaintext that is there already, or `WouldBlock`.
    fn try_recv_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut session = self.session.borrow_mut();
        let mut received = 0;
        for buf in bufs {
            let mut filled = 0;
            while filled < buf.len() {
                match session.reader().read(&mut buf[filled..]) {
                    Ok(0) => return Ok(received),
                    Ok(count) => {
                        filled += count;
                        received += count;
                    }
                    Err(_) if received > 0 => return Ok(received),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(received)
    }

    /// At least one byte of plaintext, or 0 at the end of the session.
    pub(crate) async fn recv_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            match self.try_recv_vectored(bufs) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.more().await? {
                        return Ok(0);
                    }
                }
                outcome => return outcome,
            }
        }
    }
}

impl TlsSender {
    async fn flush(&mut self) -> io::Result<()> {
        loop {
            {
                let mut session = self.session.borrow_mut();
                while session.wants_write() {
                    session.write_tls(&mut self.ciphertext)?;
                }
            }
            if self.ciphertext.is_empty() {
                return Ok(());
            }
            self.socket.send_all(&self.ciphertext).await?;
            self.ciphertext.clear();
        }
    }

    /// Sends at least one byte of plaintext, and all ciphertext that it made.
    pub(crate) async fn send_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        {
            let mut session = self.session.borrow_mut();
            for slice in slices {
                let len = slice.len().min(SEND_BYTES - taken);
                session.writer().write_all(&slice[..len])?;
                taken += len;
            }
        }
        self.flush().await?;
        Ok(taken)
    }

    /// Ends the session orderly.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        self.session.borrow_mut().send_close_notify();
        self.flush().await?;
        self.socket.shutdown(std::net::Shutdown::Write)
    }
}
