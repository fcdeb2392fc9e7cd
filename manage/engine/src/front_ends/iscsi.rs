//! iSCSI as a front end: targets instead of exports.
//!
//! Invariant: a target is offered by the name and to the initiators with which it is kept, and secrets go from there to
//! the protocol alone.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_api::IscsiSession;
use holdfast_device::reactor::{ReactorHandle, clock};
use holdfast_iscsi::{
    Access, Account, Allowed, IscsiSettings, Observer, Portal, SessionStatus, TargetLimits, TargetSettings, Targets,
};
use holdfast_listener::{Address, ListenError, Server};
use holdfast_scsi::{Device, Shared};

use crate::events::rfc3339;
use crate::targets::{Keeper, KnownAccount, KnownTarget};

/// How often an address that is in use is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The iSCSI server with its table of targets.
pub(crate) struct IscsiFrontEnd {
    addresses: Vec<Address>,
    settings: IscsiSettings,
    targets: Arc<Targets>,
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    server: Mutex<Option<Server>>,
}

fn account(known: &KnownAccount) -> Account {
    Account::new(&known.user, known.secret())
}

fn access(known: &KnownTarget) -> Access {
    let allowed = |(iqn, chap): (&str, Option<&KnownAccount>)| Allowed { iqn: iqn.into(), chap: chap.map(account) };
    Access {
        open: known.open,
        initiators: known.allowed().map(allowed).collect(),
        mutual: known.mutual.as_ref().map(account),
    }
}

fn portals(known: &KnownTarget) -> Vec<Portal> {
    known.portals.iter().map(|portal| Portal { address: portal.address, group: portal.group }).collect()
}

fn shown(session: SessionStatus) -> IscsiSession {
    let SessionStatus { tsih, target, initiator, isid, portal, group, user, parameters, connection, .. } = session;
    IscsiSession {
        id: tsih,
        target,
        initiator,
        isid: isid.iter().map(|byte| format!("{byte:02x}")).collect(),
        client: connection.peer,
        portal,
        group,
        since: rfc3339(connection.since),
        chap_user: user,
        header_digest: parameters.header_digest,
        data_digest: parameters.data_digest,
        reads: connection.reads,
        writes: connection.writes,
        read_bytes: connection.read_bytes,
        written_bytes: connection.written_bytes,
        in_flight: connection.in_flight,
    }
}

impl IscsiFrontEnd {
    /// One that does not listen yet.
    pub(super) fn new(addresses: &[SocketAddr], settings: &IscsiSettings, limits: TargetLimits) -> Self {
        let keeper = Arc::<Keeper>::default();
        Self {
            addresses: addresses.iter().copied().map(Address::Tcp).collect(),
            settings: settings.clone(),
            targets: Targets::new(limits),
            shared: Shared::new(keeper.clone(), clock()),
            keeper,
            server: Mutex::new(None),
        }
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all targets and their LUNs share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Where reservations are kept.
    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Has `observer` hear of logins and sessions.
    pub(crate) fn set_observer(&self, observer: Arc<dyn Observer>) {
        self.targets.set_observer(observer);
    }

    /// Whether it was given an address.
    pub(crate) fn is_configured(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Begins to listen on all `reactors`. What a killed daemon still holds is waited for until `deadline`.
    pub(super) async fn start(&self, reactors: &[ReactorHandle], deadline: Instant) -> Result<(), ListenError> {
        loop {
            let (reactors, targets) = (reactors.to_vec(), self.targets.clone());
            match holdfast_iscsi::serve(reactors, targets, &self.addresses, self.settings.clone()) {
                Err(ListenError::Listen { source, .. })
                    if source.kind() == ErrorKind::AddrInUse && Instant::now() < deadline =>
                {
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(error),
                Ok(server) => {
                    *self.server() = Some(server);
                    return Ok(());
                }
            }
        }
    }

    /// Answers what is in flight, turns all initiators away and listens no more.
    pub(super) fn stop(&self) -> BoxFuture<'_, ()> {
        let server = self.server().take();
        async move {
            if let Some(server) = server {
                server.shutdown().await;
            }
        }
        .boxed()
    }

    /// Where it listens, with the ports that were given.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let server = self.server();
        let addresses = server.as_ref().map(Server::addresses).unwrap_or_default();
        let tcp = |address: &Address| match address {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        };
        addresses.iter().filter_map(tcp).collect()
    }

    /// Offers a target, or says why it cannot.
    pub(crate) fn serve(&self, known: &KnownTarget, device: Arc<Device>) -> Result<(), String> {
        let settings = TargetSettings {
            iqn: known.iqn.clone(),
            alias: Some(known.name.clone()),
            device,
            access: access(known),
            portals: portals(known),
        };
        self.targets.add(settings).map_err(|error| error.to_string())
    }

    /// Offers a target no longer. The future ends when its last session is gone; they end even if it is dropped.
    pub(crate) fn unserve(&self, iqn: &str) -> BoxFuture<'static, ()> {
        self.targets.remove(iqn).unwrap_or_else(|_| std::future::ready(()).boxed())
    }

    /// Lets those in who may log in to a target now, and ends sessions of others.
    pub(crate) fn set_access(&self, known: &KnownTarget) -> Result<(), String> {
        self.targets.set_access(&known.iqn, access(known)).map_err(|error| error.to_string())
    }

    /// Offers a target at its portals, and ends sessions over others.
    pub(crate) fn set_portals(&self, known: &KnownTarget) -> Result<(), String> {
        self.targets.set_portals(&known.iqn, portals(known)).map_err(|error| error.to_string())
    }

    /// Has those who ask for targets prove who they are, or not.
    pub(crate) fn set_discovery(&self, known: Option<&KnownAccount>) -> Result<(), String> {
        self.targets.set_discovery(known.map(account), None).map_err(|error| error.to_string())
    }

    /// The sessions with a target or with all; the target by its iSCSI name.
    pub(crate) fn sessions(&self, iqn: Option<&str>) -> Vec<IscsiSession> {
        self.targets.sessions(iqn).into_iter().map(shown).collect()
    }

    /// Ends a session. False if there is none of this number.
    pub(crate) fn drop_session(&self, id: u16) -> bool {
        self.targets.drop_session(id)
    }
}
