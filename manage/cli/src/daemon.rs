//! The daemon: engine and API in one process, from the first signal to the last flush.
//!
//! Invariant: the first SIGTERM or SIGINT ends it in good order (clients drained, spaces closed and flushed); the
//! second ends it at once, which is what a power failure would do, and as safe.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use holdfast_access::{Access, AccessSettings};
use holdfast_api::Protocol;
use holdfast_engine::{Engine, Given, IscsiSettings, ListenSettings, NbdSettings, Settings, TargetLimits, TlsSettings};
use holdfast_http::{Api, CertificateFiles, Https};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::arguments::{LogFormat, Serve, TlsRequired};
use crate::output::print_line;

/// The variable that says what is logged.
pub const LOG_VARIABLE: &str = "HOLDFAST_LOG";

/// How long the end waits for clients of the API that are in the middle of a request.
const API_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts logging to stderr; `default` is what is logged where the environment says nothing.
pub fn start_logging(format: LogFormat, default: &str) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second start in one process keeps the first; only tests do that.
    let _ = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}

fn settings(options: &Serve) -> Settings {
    let tls = match (&options.nbd_tls_cert, &options.nbd_tls_key) {
        (Some(certificate), Some(key)) => Some(TlsSettings {
            certificate: certificate.clone(),
            key: key.clone(),
            client_authorities: options.nbd_tls_client_ca.clone(),
            required: match options.nbd_tls_required {
                TlsRequired::None => holdfast_engine::TlsRequired::Nowhere,
                TlsRequired::Tcp => holdfast_engine::TlsRequired::OverTcp,
                TlsRequired::All => holdfast_engine::TlsRequired::Everywhere,
            },
        }),
        _ => None,
    };
    let mut settings = Settings::new(&options.state);
    settings.nbd_addresses = options.nbd.clone();
    settings.nbd = NbdSettings {
        listen: ListenSettings { connections: options.nbd_connections as usize, tls, ..ListenSettings::default() },
        requests: options.nbd_requests,
        payload_bytes: options.nbd_payload.bytes(),
        ..NbdSettings::default()
    };
    settings.iscsi_addresses = options.iscsi.clone();
    let sessions = options.iscsi_sessions as usize;
    // Those that ask for targets, log in or come again need connections, too.
    let connections = 2 * sessions + TargetLimits::default().discovery_sessions;
    settings.iscsi = IscsiSettings {
        listen: ListenSettings { connections, ..ListenSettings::default() },
        tasks: options.iscsi_tasks,
        memory_bytes: options.iscsi_memory.bytes(),
        ..IscsiSettings::default()
    };
    settings.iscsi_limits = TargetLimits { sessions, ..TargetLimits::default() };
    settings.given = Given {
        scrub_every: options.scrub_every.map(|every| every.0),
        repair_after: options.repair_after.map(|after| after.0),
    };
    settings.data_cache_bytes = usize::try_from(options.data_cache.0).unwrap_or(usize::MAX / 2);
    settings.wake_within = options.wake_within.0;
    if let Some(reactors) = options.reactors {
        settings.reactors = reactors as usize;
    }
    if let Some(spin) = options.spin {
        settings.spin = spin;
    }
    settings
}

/// Where management is served.
pub struct Management<'a> {
    /// The socket.
    pub socket: &'a Path,
    /// Addresses of HTTPS.
    pub https: &'a [SocketAddr],
    /// Its certificate; one of the daemon's own if none.
    pub certificate: Option<CertificateFiles>,
}

/// The link by which the first administrator is made.
pub struct SetupLink {
    /// What to visit.
    pub url: String,
    /// The SHA-256 of the certificate.
    pub fingerprint: String,
}

impl SetupLink {
    /// What is said of it.
    pub fn text(&self) -> String {
        format!(
            "Create the first administrator, once and within a day:\n    {}\nThe certificate's SHA-256 is\n    {}",
            self.url, self.fingerprint
        )
    }
}

/// Engine and API, running.
pub struct Daemon {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The link of the first start; none where there is an account or no HTTPS.
    pub setup: Option<SetupLink>,
    stop: watch::Sender<bool>,
    api: JoinHandle<std::io::Result<()>>,
    https: Option<JoinHandle<()>>,
}

async fn ended(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

impl Daemon {
    /// Starts an engine with `settings` and its API where `management` says.
    pub async fn start(settings: Settings, management: Management<'_>) -> Result<Self> {
        let (socket, patience) = (management.socket, settings.patience);
        let listener = holdfast_http::listen(socket, patience)?;
        let started = async {
            let engine = Engine::start(settings).await?;
            match Self::serve(&engine, &management, patience).await {
                Ok((api, https)) => Ok((engine, api, https)),
                Err(error) => {
                    engine.shutdown().await;
                    Err(error)
                }
            }
        };
        let (engine, (api, access), https) = match started.await {
            Ok(started) => started,
            Err(error) => {
                let _ = std::fs::remove_file(socket);
                return Err(error);
            }
        };
        let (stop, stopped) = watch::channel(false);
        let setup = https.as_ref().and_then(|https| {
            let (url, token) = (https.url()?, access.setup_token()?);
            Some(SetupLink { url: format!("{url}/setup#{token}"), fingerprint: https.fingerprint() })
        });
        if let Some(https) = &https {
            tracing::info!(addresses = ?https.addresses(), sha256 = https.fingerprint(), "serving HTTPS");
        }
        let https =
            https.map(|https| tokio::spawn(holdfast_http::serve_https(https, api.clone(), ended(stopped.clone()))));
        let api = tokio::spawn(holdfast_http::serve(listener, api, ended(stopped)));
        Ok(Self { engine, setup, stop, api, https })
    }

    async fn serve(
        engine: &Arc<Engine>,
        management: &Management<'_>,
        patience: Duration,
    ) -> Result<((Api, Arc<Access>), Option<Https>)> {
        let access = Access::open(engine.store().clone(), AccessSettings::default())?;
        let https = match management.https {
            [] => None,
            addresses => {
                Some(Https::listen(addresses, management.certificate.clone(), engine.state_folder(), patience).await?)
            }
        };
        engine.notifications().set_console(https.as_ref().and_then(Https::url));
        Ok(((Api::new(engine.clone(), access.clone()), access), https))
    }

    /// Ends in good order.
    pub async fn stop(self) -> Result<()> {
        let _ = self.stop.send(true);
        let losses = self.engine.shutdown().await;
        let left_behind = || tracing::warn!("an API client did not finish and was dropped");
        if let Some(https) = self.https
            && tokio::time::timeout(API_TIMEOUT, https).await.is_err()
        {
            left_behind();
        }
        match tokio::time::timeout(API_TIMEOUT, self.api).await {
            Ok(ended) => ended.context("the API broke off")?.context("the API's socket")?,
            Err(_) => left_behind(),
        }
        match losses {
            0 => Ok(()),
            1 => Err(anyhow!(
                "a space was closed without all acknowledged writes being durable: see 'holdfast event list'"
            )),
            _ => Err(anyhow!(
                "{losses} spaces were closed without all acknowledged writes being durable: see 'holdfast event list'"
            )),
        }
    }
}

/// The signals that end a daemon.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens for them from now on.
    pub fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be handled");
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    /// Ends at the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Ends the process at the next one.
    pub fn exit_at_next(mut self) {
        tokio::spawn(async move {
            self.next().await;
            tracing::warn!("a second signal: stopping at once");
            std::process::exit(130);
        });
    }
}

/// Runs the daemon until it is told to end.
pub async fn serve(options: Serve, socket: &Path) -> Result<()> {
    start_logging(options.log_format, "info");
    let mut signals = Signals::listen()?;
    let certificate = match (&options.https_cert, &options.https_key) {
        (Some(certificate), Some(key)) => Some(CertificateFiles { certificate: certificate.clone(), key: key.clone() }),
        _ => None,
    };
    let daemon = Daemon::start(settings(&options), Management { socket, https: &options.https, certificate }).await?;
    if let Some(link) = &daemon.setup {
        print_line(&link.text())?;
    }
    tracing::info!(socket = %socket.display(), nbd = ?daemon.engine.addresses(Protocol::Nbd), iscsi = ?daemon.engine.iscsi_addresses(), "serving");
    signals.next().await;
    tracing::info!("stopping cleanly; a second signal stops at once");
    signals.exit_at_next();
    daemon.stop().await
}
