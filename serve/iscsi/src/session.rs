//! The life of one connection: a login within its time, then the full feature phase.
//!
//! Invariant: a connection holds its place in the registry of the server from before its login until after its last
//! byte, and its session's place among all sessions from the answer that lets it in.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use holdfast_device::reactor::net::{Peer, Stream};
use holdfast_device::reactor::{ReactorHandle, clock};
use holdfast_listener::{
    Accepted, Address, Admission, Handler, ListenError, PIECES_AT_ONCE, Receiver, Sender, Server, Tracked,
};
use holdfast_scsi::{InitiatorPort, Proof};

use crate::account::Account;
use crate::connection::{self, End, Terms};
use crate::inbound::{Inbound, Incoming, Lost};
use crate::login::{Agreed, Closed, Gate, Login, LoginStatus, Refusal, Step, Then, Way};
use crate::memory::Memory;
use crate::observer::FailedLogin;
use crate::outbound::{Digests, Outbound, Pdus};
use crate::protocol::Header;
use crate::protocol::constants::DEFAULT_SEGMENT_BYTES;
use crate::settings::IscsiSettings;
use crate::targets::{Candidate, Identity, Place, Refused, Targets};
use crate::window::Window;

/// How long a session that is logged in anew has to end.
const REINSTATEMENT: Duration = Duration::from_secs(20);

/// What all sessions of a server share.
struct Iscsi {
    targets: Arc<Targets>,
    memory: Arc<Memory>,
    settings: IscsiSettings,
}

/// Listens on all `addresses` and serves `targets` on all `reactors`.
///
/// # Errors
/// When an address cannot be used; then nothing listens.
pub fn serve(
    reactors: Vec<ReactorHandle>,
    targets: Arc<Targets>,
    addresses: &[Address],
    settings: IscsiSettings,
) -> Result<Server, ListenError> {
    let listen = settings.listen.clone();
    let memory = Memory::new(settings.memory_bytes);
    Server::start(reactors, Arc::new(Iscsi { targets, memory, settings }), addresses, &listen)
}

#[derive(Debug, thiserror::Error)]
enum LoginError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Lost(#[from] Lost),
    #[error("it was refused")]
    Refused,
    #[error("the initiator left")]
    Left,
}

impl Handler for Iscsi {
    const PROTOCOL: &'static str = "iSCSI";

    async fn serve(self: Arc<Self>, accepted: Accepted) {
        run(accepted, &self).await;
    }
}

/// The two ends of a connection.
struct Ends {
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
}

/// A connection that is logged in.
struct Entered {
    place: Place,
    terms: Terms,
    receiver: Receiver,
    sender: Sender,
    first: Vec<u8>,
}

/// Serves one connection to its end.
async fn run(accepted: Accepted, iscsi: &Iscsi) {
    let Accepted { stream, admission, .. } = accepted;
    let tracked = admission.tracked().clone();
    let peer = tracked.peer();
    let clock = clock();
    let entered = {
        let login = pin!(log_in(stream, &admission, iscsi));
        let limit = select(clock.sleep(iscsi.settings.login_timeout), tracked.stop.wait());
        match select(login, limit).await {
            Either::Left((Ok(entered), _)) => entered,
            Either::Left((Err(error), _)) => return tracing::debug!(peer, %error, "an iSCSI login failed"),
            Either::Right((Either::Left(_), _)) => return tracing::info!(peer, "an iSCSI login took too long"),
            Either::Right((Either::Right(_), _)) => return,
        }
    };
    let Entered { place, terms, receiver, sender, first } = entered;
    let entry = place.entry.clone();
    let (initiator, target) = (&*entry.identity.initiator, entry.identity.target.as_deref().unwrap_or("discovery"));
    tracing::info!(peer, initiator, target, tsih = entry.tsih, "an iSCSI session began");
    let observer = iscsi.targets.observer();
    if let Some(observer) = &observer {
        observer.session_began(&entry.status());
    }
    let (targets, memory) = (iscsi.targets.clone(), iscsi.memory.clone());
    let end = connection::run(terms, targets, memory, &iscsi.settings, receiver, sender, &first).await;
    match &end {
        End::Lost(_) | End::Protocol(_) => {
            tracing::warn!(peer, initiator, target, tsih = entry.tsih, %end, "an iSCSI session was dropped");
        }
        end => tracing::info!(peer, initiator, target, tsih = entry.tsih, %end, "an iSCSI session ended"),
    }
    if let Some(observer) = &observer {
        observer.session_ended(&entry.status(), &end.to_string());
    }
    drop(place);
}

/// What a login asks of the server.
struct Door<'a> {
    targets: &'a Targets,
    ends: &'a Ends,
    now: Duration,
}

impl Gate for Door<'_> {
    fn way(&self, initiator: &str, target: Option<&str>) -> Result<Way, Closed> {
        match target {
            Some(target) => self.targets.way(initiator, target, self.ends.local).map(|(way, _)| way),
            None => Ok(self.targets.discovery_way()),
        }
    }

    fn has_session(&self, tsih: u16, initiator: &str, isid: [u8; 6]) -> bool {
        let found = self.targets.registry().find(tsih);
        found.is_some_and(|entry| entry.identity.initiator == initiator && entry.identity.isid == isid)
    }

    fn attempt(&self, user: &str) -> Option<Duration> {
        self.targets.attempt(user, self.ends.peer.map(|peer| peer.ip()), self.now)
    }

    fn attempted(&self, user: &str, right: bool) {
        self.targets.attempted(user, self.ends.peer.map(|peer| peer.ip()), right, self.now);
    }
}

/// Comes to terms with an initiator.
async fn log_in(stream: Stream, admission: &Admission, iscsi: &Iscsi) -> Result<Entered, LoginError> {
    let tracked = admission.tracked();
    let peer = match stream.peer()? {
        Peer::Tcp(address) => Some(address),
        Peer::Unix { .. } => None,
    };
    let ends = Ends { local: stream.local()?, peer };
    let (read, write) = stream.split();
    let (mut receiver, mut sender) = (Receiver::Plain(read), Sender::Plain(write));
    let mut inbound = Inbound::<Vec<u8>>::new(DEFAULT_SEGMENT_BYTES as usize, &[]);
    let mut login = Login::new(iscsi.settings.login_bytes);
    let clock = clock();
    loop {
        let (header, data) = receive(&mut receiver, &mut inbound).await?;
        let door = Door { targets: &iscsi.targets, ends: &ends, now: clock.now() };
        let mut step = login.take(&header, &data, &door);
        if !step.delay.is_zero() {
            clock.sleep(step.delay).await;
        }
        if let Then::Enter(agreed) = step.then {
            match enter(*agreed, tracked, &ends, iscsi).await {
                Ok(_) if !admission.settle() => return Err(LoginError::Left),
                Ok((place, mut terms)) => {
                    terms.stat_sn = login.stat_sn();
                    let last = terms.window.last();
                    let answer = step.header.with_u16(14, place.entry.tsih).with_u32(32, last);
                    send(&mut sender, &answer, &step.text).await?;
                    return Ok(Entered { place, terms, receiver, sender, first: inbound.into_rest() });
                }
                Err(refusal) => step = login.refuse(&header, refusal),
            }
        }
        send(&mut sender, &step.header, &step.text).await?;
        if let Step { then: Then::Close(refusal), .. } = step {
            tell_failure(&login, refusal, tracked, iscsi);
            let _ = sender.close().await;
            return Err(LoginError::Refused);
        }
    }
}

/// The next PDU of a login.
async fn receive(receiver: &mut Receiver, inbound: &mut Inbound<Vec<u8>>) -> Result<(Header, Vec<u8>), LoginError> {
    let mut known = None;
    loop {
        match (inbound.take()?, known) {
            (Some(Incoming::Header(header, _)), _) if header.data_bytes() == 0 => return Ok((header, Vec::new())),
            (Some(Incoming::Header(header, _)), _) => {
                inbound.begin(vec![0; header.data_bytes()], 0, usize::MAX);
                known = Some(header);
            }
            (Some(Incoming::Data(data)), Some(header)) => return Ok((header, data)),
            (Some(_), _) => return Err(LoginError::Left),
            (None, _) => {
                let mut spaces = inbound.spaces().map(IoSliceMut::new);
                let from = usize::from(spaces[0].is_empty());
                let count = receiver.recv_vectored(&mut spaces[from..]).await?;
                inbound.filled(count);
                if count == 0 {
                    return Err(LoginError::Left);
                }
            }
        }
    }
}

/// Sends a PDU of a login.
async fn send(sender: &mut Sender, header: &Header, text: &[u8]) -> io::Result<()> {
    let mut out = Outbound::<()>::default();
    out.pdu(&header.with_data_bytes(text.len()), text, Digests::default());
    while !out.is_empty() {
        let mut slices = [io::IoSlice::new(&[]); PIECES_AT_ONCE];
        let count = out.slices(&mut slices);
        let sent = sender.send_vectored(&slices[..count]).await?;
        out.sent(sent);
    }
    Ok(())
}

/// Lets a session in that has come to terms, after any of the same identity has ended.
async fn enter(agreed: Agreed, tracked: &Arc<Tracked>, ends: &Ends, iscsi: &Iscsi) -> Result<(Place, Terms), Refusal> {
    let Agreed { initiator, initiator_alias, isid, target, group, user, proven, mutual, parameters, cmd_sn, cid } =
        agreed;
    let candidate = Candidate {
        identity: Identity { initiator: initiator.clone(), isid, target: target.clone(), group },
        alias: initiator_alias,
        local: ends.local,
        user,
        mutual,
        parameters: parameters.clone(),
        tracked: tracked.clone(),
    };
    let mut late = clock().sleep(REINSTATEMENT);
    let place = loop {
        match iscsi.targets.registry().enter(&candidate) {
            Ok(place) => break place,
            Err(Refused::Full) => {
                return Err(Refusal::new(LoginStatus::OutOfResources, "there are as many sessions as there may be"));
            }
            Err(Refused::Reinstated(closed)) => {
                if let Either::Left(_) = select(&mut late, closed.wait()).await {
                    return Err(Refusal::new(LoginStatus::Unavailable, "the session before this one does not end"));
                }
            }
        }
    };
    // Looked at again, for it may have changed since the login began: whoever changes it from now on finds the session.
    let nexus = match &target {
        None => None,
        Some(target) => {
            let gone = Refusal::new(LoginStatus::Removed, "the target was removed, or may no longer be logged in to");
            let (way, device) = iscsi.targets.way(&initiator, target, ends.local).map_err(|_| gone.clone())?;
            let account = way.chap.as_ref();
            let other =
                account.is_some() && (place.entry.user.is_none() || proven != account.and_then(Account::fingerprint));
            if way.group != group || other {
                return Err(gone);
            }
            tracked.set_export(target);
            // How far its copies go.
            let proof = match account {
                None => Proof::Named,
                Some(_) => proven.map_or(Proof::Nothing, Proof::Secret),
            };
            Some(device.connect_proved(InitiatorPort { name: initiator, isid }, group, proof))
        }
    };
    let window = Window::new(cmd_sn, iscsi.settings.tasks);
    let terms = Terms { entry: place.entry.clone(), nexus, parameters, cid, window, stat_sn: 0 };
    Ok((place, terms))
}

fn tell_failure(login: &Login, refusal: Refusal, tracked: &Arc<Tracked>, iscsi: &Iscsi) {
    let failed = FailedLogin {
        peer: tracked.peer().to_owned(),
        initiator: login.initiator().to_owned(),
        target: login.target().map(str::to_owned),
        user: login.user().map(str::to_owned),
        status: refusal.status as u16,
        reason: refusal.reason.into_owned(),
    };
    let FailedLogin { peer, initiator, reason, .. } = &failed;
    tracing::info!(peer, initiator, reason, "an iSCSI login was refused");
    if let Some(observer) = iscsi.targets.observer() {
        observer.login_failed(failed);
    }
}
