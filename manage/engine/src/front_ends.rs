//! What serves objects to clients: a front end for each protocol.
//!
//! ```text
//!   exports.rs ─▶ FrontEnds ─▶ FrontEnd ─▶ front_ends/nbd.rs ─▶ serve/nbd
//! ```
//!
//! iSCSI serves targets with LUNs, not exports: see `front_ends/iscsi.rs`. A protocol of exports is a crate under `serve`, an implementation of [`FrontEnd`], and its line in [`FrontEnds::new`].
//!
//! Invariant: an export is known to the front end of its protocol alone.

mod iscsi;
mod nbd;

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{BoxFuture, join_all};
use holdfast_api::Protocol;
use holdfast_block::Target;
use holdfast_device::reactor::ReactorHandle;
use holdfast_listener::{Address, ConnectionStatus, ExportStatus, ListenError};

use crate::settings::Settings;
use iscsi::IscsiFrontEnd;

/// Serves targets by one protocol.
pub(crate) trait FrontEnd: Send + Sync {
    /// What it speaks.
    fn protocol(&self) -> Protocol;

    /// The option of the command line that gives it an address.
    fn address_option(&self) -> &'static str;

    /// Begins to listen on all `reactors`, if it has an address. What a killed daemon still holds is waited for until
    /// `deadline`.
    fn start(&self, reactors: Vec<ReactorHandle>, deadline: Instant) -> BoxFuture<'_, Result<(), ListenError>>;

    /// Answers what is in flight, turns all clients away and listens no more.
    fn stop(&self) -> BoxFuture<'_, ()>;

    /// Whether it was given an address.
    fn is_configured(&self) -> bool;

    /// Offers `target` under `name`, or says why it cannot.
    fn export(&self, name: &str, target: Arc<Target>) -> Result<(), String>;

    /// Offers `name` no longer. The future ends when its last client is gone; the clients are turned away even if it is
    /// dropped.
    fn unexport(&self, name: &str) -> BoxFuture<'static, ()>;

    /// All that it offers, by name.
    fn exports(&self) -> Vec<ExportStatus>;

    /// Who uses an export, the longest first.
    fn connections(&self, name: &str) -> Vec<ConnectionStatus>;

    /// Where it listens, with the ports that were given.
    fn addresses(&self) -> Vec<Address>;

    /// How clients write the export `name`, or the server where it is empty.
    fn uris(&self, name: &str) -> Vec<String>;
}

/// All front ends of a daemon.
pub(crate) struct FrontEnds {
    of_exports: Vec<Box<dyn FrontEnd>>,
    /// The one of targets.
    pub(crate) iscsi: IscsiFrontEnd,
}

impl FrontEnds {
    /// Those that `settings` give, not listening yet.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            of_exports: vec![Box::new(nbd::NbdFrontEnd::new(&settings.nbd_addresses, &settings.nbd))],
            iscsi: IscsiFrontEnd::new(&settings.iscsi_addresses, &settings.iscsi, settings.iscsi_limits),
        }
    }

    /// The one that speaks `protocol`.
    pub(crate) fn of(&self, protocol: Protocol) -> &dyn FrontEnd {
        let found = self.of_exports.iter().find(|front_end| front_end.protocol() == protocol);
        &**found.expect("each protocol of the API has a front end")
    }

    /// Begins to listen by all protocols that have an address.
    ///
    /// # Errors
    /// If an address cannot be had; the caller stops those that listen.
    pub(crate) async fn start(&self, reactors: &[ReactorHandle], deadline: Instant) -> Result<(), ListenError> {
        for front_end in self.of_exports.iter().filter(|front_end| front_end.is_configured()) {
            front_end.start(reactors.to_vec(), deadline).await?;
        }
        if self.iscsi.is_configured() {
            self.iscsi.start(reactors, deadline).await?;
        }
        Ok(())
    }

    /// Turns the clients of all protocols away at once.
    pub(crate) async fn stop(&self) {
        join_all(self.of_exports.iter().map(|front_end| front_end.stop()).chain([self.iscsi.stop()])).await;
    }

    /// All that is offered, with its protocol.
    pub(crate) fn exports(&self) -> Vec<(Protocol, ExportStatus)> {
        let with_protocol = |front_end: &dyn FrontEnd| {
            let protocol = front_end.protocol();
            front_end.exports().into_iter().map(move |status| (protocol, status)).collect::<Vec<_>>()
        };
        self.of_exports.iter().flat_map(|front_end| with_protocol(&**front_end)).collect()
    }
}
