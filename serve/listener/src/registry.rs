//! The registry of connections: who, what, how much, and the order to stop.
//!
//! Invariant: a connection is in the registry from the moment it is let in until its last byte is sent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use holdfast_device::Signal;

/// A connection as [`Server::connections`](crate::Server::connections) shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// Who is at the other end.
    pub peer: String,
    /// The export that was chosen, if one was already.
    pub export: Option<String>,
    /// Whether it is encrypted.
    pub tls: bool,
    /// Since when it is there.
    pub since: SystemTime,
    /// Reads asked for.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes asked for.
    pub writes: u64,
    /// Bytes of them.
    pub written_bytes: u64,
    /// Requests in flight.
    pub in_flight: u32,
    /// Payload bytes sent and received so far.
    pub bytes: u64,
}

/// An export as a front end shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportStatus {
    /// Its name.
    pub name: String,
    /// Connections that use it.
    pub connections: usize,
    /// Which of all attachments in this table was its last, 0 if there was none: a connection that came and went
    /// between two looks shows here, also where the export itself was removed and offered anew meanwhile.
    pub attached: u64,
}

/// What is known of a connection on every thread. Only the connection's own reactor changes the numbers.
#[derive(Debug)]
pub struct Tracked {
    peer: String,
    since: SystemTime,
    export: OnceLock<String>,
    tls: AtomicBool,
    in_flight: AtomicU32,
    bytes: AtomicU64,
    reads: Moved,
    writes: Moved,
    /// Raised when the connection is to end.
    pub stop: Arc<Signal>,
}

/// Requests of one direction and their bytes.
#[derive(Debug, Default)]
struct Moved {
    requests: AtomicU64,
    bytes: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

impl Moved {
    fn add(&self, bytes: u64) {
        add(&self.requests, 1);
        add(&self.bytes, bytes);
    }
}

impl Tracked {
    fn new(peer: String) -> Self {
        Self {
            peer,
            since: SystemTime::now(),
            export: OnceLock::new(),
            tls: AtomicBool::new(false),
            in_flight: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            reads: Moved::default(),
            writes: Moved::default(),
            stop: Arc::default(),
        }
    }

    /// Counts a read that was taken up.
    pub fn count_read(&self, bytes: u64) {
        self.reads.add(bytes);
    }

    /// Counts a write that was taken up.
    pub fn count_write(&self, bytes: u64) {
        self.writes.add(bytes);
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The client chose this export.
    pub fn set_export(&self, name: &str) {
        let _ = self.export.set(name.to_owned());
    }

    /// It is encrypted from now on.
    pub fn set_tls(&self) {
        self.tls.store(true, Ordering::Relaxed);
    }

    fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// So many requests are in flight.
    pub fn set_in_flight(&self, count: u32) {
        self.in_flight.store(count, Ordering::Relaxed);
    }

    /// So many bytes of payload were sent or received.
    pub fn add_bytes(&self, count: u64) {
        add(&self.bytes, count);
    }

    /// What is shown of it.
    pub fn status(&self) -> ConnectionStatus {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConnectionStatus {
            peer: self.peer.clone(),
            since: self.since,
            reads: get(&self.reads.requests),
            read_bytes: get(&self.reads.bytes),
            writes: get(&self.writes.requests),
            written_bytes: get(&self.writes.bytes),
            export: self.export.get().cloned(),
            tls: self.tls.load(Ordering::Relaxed),
            in_flight: self.in_flight(),
            bytes: get(&self.bytes),
        }
    }
}

#[derive(Default)]
struct Entries {
    by_number: BTreeMap<u64, Arc<Tracked>>,
    next: u64,
    closed: bool,
}

/// The connections of one server.
#[derive(Default)]
pub(crate) struct Registry {
    entries: Mutex<Entries>,
    empty: Arc<Signal>,
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection in, unless there are `limit` already or the server is closing.
    pub(crate) fn admit(self: &Arc<Self>, peer: String, limit: usize) -> Option<Admission> {
        let mut entries = self.entries();
        if entries.closed || entries.by_number.len() >= limit {
            return None;
        }
        let number = entries.next;
        entries.next += 1;
        let tracked = Arc::new(Tracked::new(peer));
        entries.by_number.insert(number, tracked.clone());
        Some(Admission { registry: self.clone(), number, tracked })
    }

    pub(crate) fn list(&self) -> Vec<ConnectionStatus> {
        self.entries().by_number.values().map(|tracked| tracked.status()).collect()
    }

    /// Lets nobody in any more and tells all to stop.
    pub(crate) fn close(&self) {
        let connections: Vec<_> = {
            let mut entries = self.entries();
            entries.closed = true;
            if entries.by_number.is_empty() {
                self.empty.raise();
            }
            entries.by_number.values().cloned().collect()
        };
        connections.iter().for_each(|tracked| tracked.stop.raise());
    }

    /// Ends when, after [`close`](Self::close), the last connection is gone.
    pub(crate) async fn emptied(&self) {
        self.empty.wait().await;
    }
}

/// A connection's place in the registry, until this is dropped.
pub struct Admission {
    registry: Arc<Registry>,
    number: u64,
    tracked: Arc<Tracked>,
}

impl Admission {
    /// What is known of the connection.
    pub fn tracked(&self) -> &Arc<Tracked> {
        &self.tracked
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut entries = self.registry.entries();
        entries.by_number.remove(&self.number);
        if entries.closed && entries.by_number.is_empty() {
            self.registry.empty.raise();
        }
    }
}
