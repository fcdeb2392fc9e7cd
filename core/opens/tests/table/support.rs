//! What the tests share: sinks that note what they are told, wakers that note that they were woken, short requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use holdfast_opens::*;

pub const FILE: FileKey = FileKey { volume: 1, number: 7, generation: 1, stream: 0 };

/// Notes what it is told.
#[derive(Default)]
pub struct Told {
    pub notices: Mutex<Vec<Notice>>,
    pub closed: Mutex<Vec<OpenId>>,
}

impl Recall for Told {
    fn broken(&self, notice: &Notice) {
        self.notices.lock().unwrap().push(notice.clone());
    }

    fn closed(&self, _: FileKey, open: OpenId) {
        self.closed.lock().unwrap().push(open);
    }
}

impl Told {
    /// From, to, and whether an answer is waited for, of each break since the last call.
    pub fn breaks(&self) -> Vec<(Caching, Caching, bool)> {
        self.notices.lock().unwrap().drain(..).map(|notice| (notice.from, notice.to, notice.answer)).collect()
    }
}

/// Notes that it was woken.
#[derive(Default)]
pub struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Flag {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

pub fn waker(flag: &Arc<Flag>) -> Waker {
    flag.clone().into()
}

/// A request that shares all.
pub fn request(client: u128, access: Access, told: &Arc<Told>) -> OpenRequest {
    OpenRequest {
        file: FILE,
        client: ClientId(client),
        protocol: "test",
        access,
        share: Access::ALL,
        ignores_denials: false,
        excludes_all: false,
        overwrites: false,
        delete_on_close: None,
        lease: None,
        waits_for_kept: false,
        recall: told.clone(),
    }
}

pub fn with_lease(key: u128, wanted: Caching, request: OpenRequest) -> OpenRequest {
    let lease = LeaseRequest { key: Some(key), kind: LeaseKind::Lease, wanted, parent: None };
    OpenRequest { lease: Some(lease), ..request }
}

pub fn with_oplock(wanted: Caching, request: OpenRequest) -> OpenRequest {
    let lease = LeaseRequest { key: None, kind: LeaseKind::Oplock, wanted, parent: None };
    OpenRequest { lease: Some(lease), ..request }
}

/// Asks once.
pub fn ask(table: &Table, request: &OpenRequest, now: Duration) -> Poll<Result<Opening, Error>> {
    table.poll_open(request, &mut Waiting::new(), now, Waker::noop())
}

/// Opens what nothing is in the way of.
#[track_caller]
pub fn open(table: &Table, request: &OpenRequest) -> Opened {
    match ask(table, request, Duration::ZERO) {
        Poll::Ready(Ok(Opening::Opened(opened))) => opened,
        other => panic!("{other:?}"),
    }
}

pub fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).expect("it fits")
}

/// Locks at once or not at all.
pub fn lock(table: &Table, seat: &Seat, by: LockBy, range: ByteRange, exclusive: bool) -> Result<(), Error> {
    let request = LockRequest { by, range, exclusive };
    match table.poll_lock(seat, &request, false, &mut Waiting::new(), Duration::ZERO, Waker::noop()) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("nothing is cached"),
    }
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
