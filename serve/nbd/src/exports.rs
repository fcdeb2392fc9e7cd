//! The table of exports, which all reactors share.
//!
//! Invariant: an export that was removed takes no new connection, and its target is let go when its last connection
//! ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use holdfast_block::{Session, Target, TargetInfo};
use holdfast_device::Signal;
use holdfast_listener::{ConnectionStatus, ExportStatus, Tracked};

use crate::NbdError;
use crate::negotiate::{Catalogue, Described};
use crate::protocol::constants::{MAX_PAYLOAD_BYTES, MAX_TEXT_BYTES};

pub(crate) struct Export {
    name: String,
    target: Arc<Target>,
    users: Mutex<Users>,
    unused: Arc<Signal>,
    /// Attachments to all exports of the table.
    attachments: Arc<AtomicU64>,
}

#[derive(Default)]
struct Users {
    /// The longest first.
    connections: Vec<Arc<Tracked>>,
    attached: u64,
    removed: bool,
}

impl Export {
    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn describe(&self, info: &TargetInfo) -> Described {
        let preferred = info.optimal_io_bytes.clamp(4096, MAX_PAYLOAD_BYTES);
        Described {
            name: self.name.clone(),
            description: info.description.clone(),
            size_bytes: info.geometry.size_bytes,
            // Rounded up to a power of two, which the largest payload is itself.
            preferred_bytes: preferred.next_power_of_two(),
            read_only: info.read_only,
            rotational: info.geometry.rotational,
        }
    }
}

/// An export as it was when a client was told of it.
pub(crate) struct Chosen {
    export: Arc<Export>,
    info: TargetInfo,
}

impl Chosen {
    /// Ties a connection to the export, unless the export was removed meanwhile.
    pub(crate) fn attach(self, connection: Arc<Tracked>) -> Option<Attachment> {
        let Self { export, info } = self;
        {
            let mut users = export.users();
            if users.removed {
                return None;
            }
            users.connections.push(connection.clone());
            users.attached = export.attachments.fetch_add(1, Ordering::Relaxed) + 1;
        }
        connection.set_export(&export.name);
        let session = Session::new(export.target.clone());
        Some(Attachment { export, info, connection, session })
    }
}

/// A connection's hold on its export, with the size and the rights that its client knows of.
pub(crate) struct Attachment {
    export: Arc<Export>,
    pub(crate) info: TargetInfo,
    connection: Arc<Tracked>,
    pub(crate) session: Session,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let mut users = self.export.users();
        users.connections.retain(|other| !Arc::ptr_eq(other, &self.connection));
        if users.removed && users.connections.is_empty() {
            self.export.unused.raise();
        }
    }
}

/// The named targets that a server offers. Targets come and go while it runs.
#[derive(Default)]
pub struct Exports {
    by_name: RwLock<BTreeMap<String, Arc<Export>>>,
    attachments: Arc<AtomicU64>,
}

impl Exports {
    /// An empty table.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Offers `target` under `name`.
    ///
    /// # Errors
    /// When the name is taken, or is none that the protocol can carry.
    pub fn add(&self, name: &str, target: Arc<Target>) -> Result<(), NbdError> {
        if name.is_empty() || name.len() > MAX_TEXT_BYTES || name.contains('\0') {
            return Err(NbdError::Name(name.escape_debug().to_string()));
        }
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if by_name.contains_key(name) {
            return Err(NbdError::Exists(name.to_owned()));
        }
        let attachments = self.attachments.clone();
        let export =
            Export { name: name.to_owned(), target, users: Mutex::default(), unused: Arc::default(), attachments };
        by_name.insert(name.to_owned(), Arc::new(export));
        Ok(())
    }

    /// Offers `name` no longer. Its connections finish what is in flight, refuse the rest with `ESHUTDOWN` and close.
    ///
    /// # Errors
    /// When there is no such export.
    pub fn remove(&self, name: &str) -> Result<Removal, NbdError> {
        let removed = self.by_name.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        let export = removed.ok_or_else(|| NbdError::Unknown(name.to_owned()))?;
        let connections = {
            let mut users = export.users();
            users.removed = true;
            users.connections.clone()
        };
        if connections.is_empty() {
            export.unused.raise();
        }
        connections.iter().for_each(|connection| connection.stop.raise());
        Ok(Removal { unused: export.unused.clone() })
    }

    /// Every export, by name.
    pub fn list(&self) -> Vec<ExportStatus> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let status = |export: &Arc<Export>| {
            let users = export.users();
            ExportStatus { name: export.name.clone(), connections: users.connections.len(), attached: users.attached }
        };
        by_name.values().map(status).collect()
    }

    /// Who uses an export, the longest first: those that [`list`](Self::list) counts. Nobody, where there is no such
    /// export.
    pub fn connections(&self, name: &str) -> Vec<ConnectionStatus> {
        let export = self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let users = |export: Arc<Export>| export.users().connections.iter().map(|tracked| tracked.status()).collect();
        export.map(users).unwrap_or_default()
    }
}

/// An export that is being removed. It goes on being removed when this is dropped.
pub struct Removal {
    unused: Arc<Signal>,
}

impl Removal {
    /// Ends when no connection uses the export any more.
    pub async fn finished(self) {
        self.unused.wait().await;
    }
}

/// The table as a handshake sees it.
pub(crate) struct Offered<'a>(pub(crate) &'a Exports);

impl Catalogue for Offered<'_> {
    type Export = Chosen;

    fn list(&self) -> Vec<(String, String)> {
        let by_name = self.0.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name.values().map(|export| (export.name.clone(), export.target.info().description)).collect()
    }

    fn find(&self, name: &str) -> Option<(Described, Chosen)> {
        let export = {
            let by_name = self.0.by_name.read().unwrap_or_else(PoisonError::into_inner);
            let only = || by_name.values().next().filter(|_| name.is_empty() && by_name.len() == 1);
            by_name.get(name).or_else(only).cloned()?
        };
        let info = export.target.info();
        let described = export.describe(&info);
        Some((described, Chosen { export, info }))
    }
}
