//! NBD as a front end.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use holdfast_api::Protocol;
use holdfast_block::Target;
use holdfast_device::reactor::ReactorHandle;
use holdfast_listener::{Address, ConnectionStatus, ExportStatus, ListenError, Server, TlsRequired, TlsSettings};
use holdfast_nbd::{Exports, NbdSettings};

use super::FrontEnd;

/// How often an address that is in use is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The NBD server with its table of exports.
pub(super) struct NbdFrontEnd {
    addresses: Vec<Address>,
    settings: NbdSettings,
    exports: Arc<Exports>,
    server: Mutex<Option<Server>>,
}

impl NbdFrontEnd {
    /// One that does not listen yet.
    pub(super) fn new(addresses: &[Address], settings: &NbdSettings) -> Self {
        Self {
            addresses: addresses.to_vec(),
            settings: settings.clone(),
            exports: Exports::new(),
            server: Mutex::new(None),
        }
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn listen(&self, reactors: Vec<ReactorHandle>, deadline: Instant) -> Result<(), ListenError> {
        loop {
            match holdfast_nbd::serve(reactors.clone(), self.exports.clone(), &self.addresses, self.settings.clone()) {
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
}

impl FrontEnd for NbdFrontEnd {
    fn protocol(&self) -> Protocol {
        Protocol::Nbd
    }

    fn address_option(&self) -> &'static str {
        "--nbd unix:PATH or --nbd tcp:HOST:PORT"
    }

    fn start(&self, reactors: Vec<ReactorHandle>, deadline: Instant) -> BoxFuture<'_, Result<(), ListenError>> {
        self.listen(reactors, deadline).boxed()
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        let server = self.server().take();
        async move {
            if let Some(server) = server {
                server.shutdown().await;
            }
        }
        .boxed()
    }

    fn is_configured(&self) -> bool {
        !self.addresses.is_empty()
    }

    fn export(&self, name: &str, target: Arc<Target>) -> Result<(), String> {
        self.exports.add(name, target).map_err(|error| error.to_string())
    }

    fn unexport(&self, name: &str) -> BoxFuture<'static, ()> {
        match self.exports.remove(name) {
            Ok(removal) => removal.finished().boxed(),
            Err(_) => std::future::ready(()).boxed(),
        }
    }

    fn exports(&self) -> Vec<ExportStatus> {
        self.exports.list()
    }

    fn connections(&self, name: &str) -> Vec<ConnectionStatus> {
        self.exports.connections(name)
    }

    fn addresses(&self) -> Vec<Address> {
        self.server().as_ref().map(|server| server.addresses().to_vec()).unwrap_or_default()
    }

    fn uris(&self, name: &str) -> Vec<String> {
        let tls = self.settings.listen.tls.as_ref();
        self.addresses().iter().map(|address| uri(address, name, tls)).collect()
    }
}

/// How a client writes an export at an address, as the NBD project's URI specification has it.
fn uri(address: &Address, name: &str, tls: Option<&TlsSettings>) -> String {
    let required = tls.map(|tls| tls.required);
    match address {
        Address::Unix(path) => {
            let scheme = if required == Some(TlsRequired::Everywhere) { "nbds" } else { "nbd" };
            format!("{scheme}+unix:///{name}?socket={}", path.display())
        }
        Address::Tcp(address) => {
            let scheme = if required.is_some_and(|required| required != TlsRequired::Nowhere) { "nbds" } else { "nbd" };
            format!("{scheme}://{address}/{name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_what_clients_take() {
        let unix: Address = "unix:/run/x.sock".parse().unwrap();
        assert_eq!(uri(&unix, "vm", None), "nbd+unix:///vm?socket=/run/x.sock");
        let tcp: Address = "tcp:127.0.0.1:10809".parse().unwrap();
        assert_eq!(uri(&tcp, "vm", None), "nbd://127.0.0.1:10809/vm");
        let tls = TlsSettings {
            certificate: "c".into(),
            key: "k".into(),
            client_authorities: None,
            required: TlsRequired::OverTcp,
        };
        assert_eq!(uri(&tcp, "vm", Some(&tls)), "nbds://127.0.0.1:10809/vm");
        assert_eq!(uri(&unix, "vm", Some(&tls)), "nbd+unix:///vm?socket=/run/x.sock");
    }
}
