//! The registry of connections: who, what, how much, and the order to stop.
//!
//! Invariant: a connection is in the registry from the moment it is let in until its last byte is sent, and one without a
//! login keeps nobody out: it makes room.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use holdfast_device::Signal;
use holdfast_device::reactor::net::Peer;

use crate::waiting::{Crowd, Source, Waiting};

/// The part of all connections that may come from one source without a login.
const SHARE_OF_ONE: usize = 2;
/// Those that were told to leave and have not yet may be so many times those that may be there.
const LEAVING: usize = 2;

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

/// How many connections a server has, and has had to drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crowding {
    /// Connections.
    pub connections: usize,
    /// Those of them without a login.
    pub waiting: usize,
    /// How many were dropped without a login since the start, to make room for others.
    pub dropped: u64,
}

#[derive(Default)]
struct Entries {
    by_number: BTreeMap<u64, Arc<Tracked>>,
    next: u64,
    /// Those that are logged in.
    settled: usize,
    waiting: Waiting<Arc<Tracked>>,
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

    /// Lets a connection in, unless `limit` are logged in already or the server is closing. Where there is no room, the
    /// oldest without a login leaves: of its own source where that has its share, else of the source that has most.
    pub(crate) fn admit(self: &Arc<Self>, peer: &Peer, limit: usize) -> Option<Admission> {
        let source = Source::from(peer);
        let (admission, leaves) = {
            let mut entries = self.entries();
            if entries.closed || entries.settled >= limit || entries.by_number.len() >= limit * LEAVING {
                return None;
            }
            let is_full = entries.settled + entries.waiting.len() >= limit;
            let leaves = if !is_full {
                None
            } else if entries.waiting.of(source) >= (limit / SHARE_OF_ONE).max(1) {
                entries.waiting.drop_oldest_of(source)
            } else {
                entries.waiting.drop_one()
            };
            let number = entries.next;
            entries.next += 1;
            let tracked = Arc::new(Tracked::new(peer.to_string()));
            entries.by_number.insert(number, tracked.clone());
            let place = entries.waiting.enter(source, Instant::now(), tracked.clone());
            let admission =
                Admission { registry: self.clone(), number, source, place, settled: AtomicBool::new(false), tracked };
            (admission, leaves)
        };
        leave(leaves);
        Some(admission)
    }

    /// Whether so many are about to leave that others wait for it.
    pub(crate) fn is_clearing(&self, limit: usize) -> bool {
        let entries = self.entries();
        !entries.closed && entries.settled < limit && entries.by_number.len() >= limit * LEAVING
    }

    /// Has one without a login leave, as something else than places ran out.
    pub(crate) fn make_room(&self) {
        let leaves = self.entries().waiting.drop_one();
        leave(leaves);
    }

    pub(crate) fn crowding(&self) -> Crowding {
        let entries = self.entries();
        Crowding {
            connections: entries.by_number.len(),
            waiting: entries.waiting.len(),
            dropped: entries.waiting.dropped(),
        }
    }

    pub(crate) fn crowds(&self) -> Vec<Crowd> {
        self.entries().waiting.crowds(Instant::now())
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

/// Tells a connection to leave.
fn leave(tracked: Option<Arc<Tracked>>) {
    if let Some(tracked) = tracked {
        tracing::info!(peer = tracked.peer(), "a connection without a login is dropped to make room for another");
        tracked.stop.raise();
    }
}

/// A connection's place in the registry, until this is dropped.
pub struct Admission {
    registry: Arc<Registry>,
    number: u64,
    source: Source,
    /// Its number among those without a login.
    place: u64,
    settled: AtomicBool,
    tracked: Arc<Tracked>,
}

impl Admission {
    /// What is known of the connection.
    pub fn tracked(&self) -> &Arc<Tracked> {
        &self.tracked
    }

    /// It is logged in: it keeps its place from now on. False if it was told to leave already. To be asked before its
    /// client is told that it is let in.
    pub fn settle(&self) -> bool {
        let mut entries = self.registry.entries();
        let is_new = entries.waiting.leave(self.source, self.place);
        if is_new {
            entries.settled += 1;
            self.settled.store(true, Ordering::Relaxed);
        }
        is_new || self.settled.load(Ordering::Relaxed)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut entries = self.registry.entries();
        entries.by_number.remove(&self.number);
        entries.waiting.leave(self.source, self.place);
        entries.settled -= usize::from(*self.settled.get_mut());
        if entries.closed && entries.by_number.is_empty() {
            self.registry.empty.raise();
        }
    }
}
