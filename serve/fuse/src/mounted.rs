//! A volume that is mounted.
//!
//! ```text
//!   mount ──▶ served ──┬── umount by anybody ──────────────┬──▶ files closed, volume synced ──▶ ended
//!                      ├── stop: umount, lazily if in use ──┤
//!                      └── dropped: ENOTCONN ──────────────┘
//! ```
//!
//! Invariant: once a mount has ended, nothing of it is under way in the service.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use futures_util::future::{Either, select};
use holdfast_device::Signal;
use holdfast_device::reactor::ReactorHandle;
use holdfast_model::Latencies;
use holdfast_volume::service::FileService;
use tokio::sync::oneshot;

use crate::connection::{Channel, Connection, Life};
use crate::counters::{Counters, MountStats, latencies};
use crate::error::FuseError;
use crate::mount::{Made, is_dead, is_there, mount as mount_on, unmount, unmount_unused};
use crate::named_device::NamedDevice;
use crate::nodes::Nodes;
use crate::notify::Notifier;
use crate::opens::Opens;
use crate::settings::MountSettings;

/// A mount. Dropped without [`stop`](Self::stop) it is what is left of a server that died: its directory answers
/// `ENOTCONN` until it is unmounted or mounted again.
pub struct Mounted {
    directory: PathBuf,
    source: String,
    _named: Option<NamedDevice>,
    life: Arc<Life>,
    nodes: Arc<Nodes>,
    counters: Vec<Arc<Counters>>,
}

/// Mounts what `service` serves on a directory, and serves it on all `reactors`, until it is unmounted. `opens` is the table
/// that all who serve the same files share.
///
/// # Errors
/// When the directory or the kernel does not allow it; then nothing is mounted.
pub async fn mount<S>(
    service: Arc<S>,
    opens: Opens,
    directory: &Path,
    settings: MountSettings,
    reactors: &[ReactorHandle],
) -> Result<Mounted, FuseError>
where
    S: FileService<Handle: Send + Sync>,
{
    if reactors.is_empty() {
        return Err(FuseError::NoReactor);
    }
    let (asked, used, readers) = (directory.to_owned(), settings.clone(), reactors.len());
    // One clone more than readers: the first descriptor is for notifications.
    let Made { directory, source, named, mut devices } = blocking(move || mount_on(&asked, &used, readers)).await?;
    let life = Arc::new(Life::new(devices.remove(0), readers));
    let connection = Arc::new(Connection::new(service, opens, &directory, &settings, life.clone()));
    let mut counters = Vec::new();
    for (number, (reactor, device)) in reactors.iter().zip(devices).enumerate() {
        let (connection, own) = (connection.clone(), Arc::new(Counters::default()));
        counters.push(own.clone());
        let queues = crate::ring::queues(number, readers);
        reactor.spawn(move || Channel::run(connection, device, own, queues));
    }
    let nodes = connection.nodes.clone();
    let mounted = Mounted { directory, source, _named: named, life, nodes, counters };
    match select(mounted.life.begun.wait(), mounted.life.ended.wait()).await {
        Either::Left(_) => Ok(mounted),
        Either::Right(_) => {
            let refused = mounted.life.refused.get().copied();
            let directory = mounted.directory.clone();
            mounted.stop().await?;
            Err(refused.map_or(FuseError::Gone(directory), |(major, minor)| FuseError::TooOld(major, minor)))
        }
    }
}

/// Does what may block on a thread of its own.
async fn blocking<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("mount".into());
    thread.spawn(move || sender.send(act())).expect("the system gives a thread");
    receiver.await.expect("the thread answers, or panics")
}

impl Mounted {
    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is mounted, as `mount` shows it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether requests come over io_uring.
    pub fn is_over_io_uring(&self) -> bool {
        self.life.is_over_ring()
    }

    /// Whether it is what the directory shows now: served, and nothing mounted over it.
    pub fn is_there(&self) -> bool {
        !self.life.ended.raised() && is_there(&self.directory, &self.source)
    }

    /// What it did so far.
    pub fn stats(&self) -> MountStats {
        MountStats::of(self.counters.iter().map(|counters| &**counters), self.nodes.len())
    }

    /// How long its reads and writes took in the service.
    pub fn latencies(&self) -> (Latencies, Latencies) {
        latencies(self.counters.iter().map(|counters| &**counters))
    }

    /// Raised when it has ended, for instance because somebody unmounted it.
    pub fn ended(&self) -> Arc<Signal> {
        self.life.ended.clone()
    }

    /// What tells the kernel that files changed by another way than this mount.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.nodes.clone(), &self.life)
    }

    /// Unmounts unless somebody uses it. What is left of it then is for [`stop`](Self::stop).
    ///
    /// # Errors
    /// [`FuseError::InUse`] names who does; it is served on then, as when the kernel does not unmount it.
    pub async fn unmount(&self) -> Result<(), FuseError> {
        if !self.is_there() {
            return Ok(());
        }
        let directory = self.directory.clone();
        blocking(move || unmount_unused(&directory)).await
    }

    /// Unmounts, and waits until everything is written and closed. A directory that is in use is taken away all the
    /// same, and what is open on it fails from then on.
    ///
    /// # Errors
    /// When the kernel does not unmount it; it is not served any more in that case either.
    pub async fn stop(self) -> Result<(), FuseError> {
        let (directory, source) = (self.directory.clone(), self.source.clone());
        let ended = self.life.ended.raised();
        // What is alive there after the end of this mount is another's, and so is what somebody mounted over it.
        let is_others = move |directory: &Path| !is_there(directory, &source) || (ended && !is_dead(directory));
        let unmounted = blocking(move || if is_others(&directory) { Ok(()) } else { unmount(&directory) }).await;
        self.life.stop.raise();
        self.life.ended.wait().await;
        unmounted
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.life.stop.raise();
        self.life.notify.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mounted({} on {})", self.source, self.directory.display())
    }
}
