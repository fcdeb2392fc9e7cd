//! The life of one connection: handshake within its time, then transmission.
//!
//! Invariant: a session holds its place in the registry from before the greeting until after its last byte.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use holdfast_device::reactor::clock;
use holdfast_device::reactor::net::Stream;
use rustls::ServerConfig;

use crate::connection::{self, Broken, Terms};
use crate::exports::{Exports, Offered};
use crate::negotiate::{Negotiation, NegotiationError, Step, TlsPolicy};
use crate::settings::NbdSettings;
use crate::status::Admission;
use crate::tls;
use crate::transport::{Receiver, Sender};

/// Bytes of options that are received at once.
const RECEIVE_BYTES: usize = 16 << 10;
/// Replies to options are sent when so many bytes wait, even where the client asked for more in one breath.
const SEND_BYTES: usize = 64 << 10;

/// What all sessions of a listener share.
pub(crate) struct Rules {
    pub(crate) exports: Arc<Exports>,
    pub(crate) settings: Arc<NbdSettings>,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) policy: TlsPolicy,
}

#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Negotiation(#[from] NegotiationError),
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("the handshake took too long")]
    Late,
}

struct Entered {
    terms: Terms,
    receiver: Receiver,
    sender: Sender,
    first: Vec<u8>,
}

/// Serves one connection to its end.
pub(crate) async fn run(stream: Stream, admission: Admission, rules: Arc<Rules>) {
    let tracked = admission.tracked().clone();
    let peer = tracked.peer();
    let clock = clock();
    let handshake = within(handshake(stream, &admission, &rules), clock.sleep(rules.settings.handshake_timeout));
    let entered = match select(pin!(handshake), tracked.stop.wait()).await {
        Either::Left((Ok(Some(entered)), _)) => entered,
        Either::Left((Err(error), _)) => return tracing::info!(peer, %error, "an NBD handshake failed"),
        Either::Left((Ok(None), _)) | Either::Right(_) => return,
    };
    tracing::debug!(peer, "an NBD client is connected");
    let Entered { terms, receiver, sender, first } = entered;
    match connection::run(terms, tracked.clone(), &rules.settings, receiver, sender, &first).await {
        Err(error @ (Broken::Wire(_) | Broken::TooLong(_))) => tracing::info!(peer, %error, "an NBD client was dropped"),
        Err(error) => tracing::debug!(peer, %error, "an NBD client was lost"),
        Ok(()) => tracing::debug!(peer, "an NBD client has left"),
    }
}

async fn within<T>(
    handshake: impl Future<Output = Result<T, HandshakeError>>,
    limit: impl Future<Output = ()> + Unpin,
) -> Result<T, HandshakeError> {
    match select(pin!(handshake), limit).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(HandshakeError::Late),
    }
}

/// Comes to terms with a client; `None` when it left without an export.
async fn handshake(stream: Stream, admission: &Admission, rules: &Rules) -> Result<Option<Entered>, HandshakeError> {
    let (read, write) = stream.split();
    let (mut receiver, mut sender) = (Receiver::Plain(read), Sender::Plain(write));
    let mut negotiation = Negotiation::new(rules.policy);
    sender.send_all(&negotiation.greeting()).await?;
    let (mut input, mut out) = (Vec::new(), Vec::new());
    loop {
        let (used, step) = negotiation.advance(&input, &mut out, &Offered(&rules.exports))?;
        input.drain(..used);
        let wait = matches!(step, Step::More) && used == 0;
        if wait || out.len() >= SEND_BYTES || !matches!(step, Step::More) {
            let terms = match step {
                Step::Enter(agreed) => {
                    let Some(attachment) = agreed.export.attach(admission.tracked().clone()) else { return Ok(None) };
                    let allocation_context = agreed.allocation_context;
                    Some(Terms { attachment, style: agreed.style, allocation_context })
                }
                Step::Close => {
                    sender.send_all(&out).await?;
                    sender.close().await?;
                    return Ok(None);
                }
                Step::StartTls => {
                    sender.send_all(&out).await?;
                    out.clear();
                    (receiver, sender) = encrypt(receiver, sender, rules).await?;
                    admission.tracked().set_tls();
                    negotiation.tls_started();
                    continue;
                }
                Step::More => None,
            };
            sender.send_all(&out).await?;
            out.clear();
            if let Some(terms) = terms {
                return Ok(Some(Entered { terms, receiver, sender, first: input }));
            }
        }
        if wait {
            let filled = input.len();
            input.resize(filled + RECEIVE_BYTES, 0);
            let count = receiver.recv_vectored(&mut [io::IoSliceMut::new(&mut input[filled..])]).await?;
            input.truncate(filled + count);
            if count == 0 {
                return Ok(None);
            }
        }
    }
}

async fn encrypt(receiver: Receiver, sender: Sender, rules: &Rules) -> Result<(Receiver, Sender), HandshakeError> {
    match (receiver, sender, &rules.tls) {
        (Receiver::Plain(read), Sender::Plain(write), Some(config)) => {
            let (read, write) = tls::accept(config.clone(), read, write).await.map_err(HandshakeError::Tls)?;
            Ok((Receiver::Tls(Box::new(read)), Sender::Tls(Box::new(write))))
        }
        _ => Err(HandshakeError::Tls(io::Error::other("TLS was started twice or without a certificate"))),
    }
}
