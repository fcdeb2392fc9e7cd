//! An object under the name of an export: read-only if so made, with its traffic counted and timed.
//!
//! ```text
//!   request ─▶ counted ─▶ limits of target and object ─▶ balancer ─▶ object ─▶ answered, timed from its first moment
//! ```
//!
//! Invariant: a request that is answered at once costs no allocation here, and one that must wait costs one.

use std::sync::Arc;
use std::time::Duration;

use holdfast_device::{
    BlockObject, CloneRange, DiscardLimits, Durability, Extent, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice,
    RequestTag, Watch, Watcher,
};
use holdfast_model::Uuid;

use crate::claims::{Claim, Claimed};
use crate::exclusion::Exclusion;
use crate::flushes;
use crate::qos::{Cost, Entry, Limiter, Qos, QueuedEntry};
use crate::service::ObjectService;
use crate::traffic::{Counters, RequestKind, Traffic};

/// What the requests of a target share.
struct TargetService {
    object: Arc<ObjectService>,
    traffic: Traffic,
    limiter: Limiter,
}

/// A request that has not begun yet.
struct Request {
    kind: RequestKind,
    cost: Cost,
    asked: Duration,
}

/// What a request waits for first.
enum Obstacle {
    TargetLimit,
    ObjectLimit,
    Others(QueuedEntry),
}

impl TargetService {
    /// Lets a request begin at once, or says what it waits for. Answers what the balancer is to be given back at its
    /// end.
    fn enter(&self, request: &Request) -> Result<u64, Obstacle> {
        let Request { cost, asked, .. } = *request;
        if !self.limiter.try_enter(asked, cost) {
            return Err(Obstacle::TargetLimit);
        }
        if !self.object.limiter.try_enter(asked, cost) {
            return Err(Obstacle::ObjectLimit);
        }
        match self.object.balancer.enter(self.object.flow, cost.ios, asked) {
            Entry::Now(slots) => Ok(slots),
            Entry::Wait(queued) => Err(Obstacle::Others(queued)),
        }
    }

    /// Waits until a request may begin.
    async fn wait(&self, cost: Cost, obstacle: Obstacle) -> u64 {
        let clock = &*self.object.clock;
        let passed = match obstacle {
            Obstacle::Others(queued) => return queued.await,
            Obstacle::ObjectLimit => false,
            Obstacle::TargetLimit => {
                self.limiter.enter(clock, cost).await;
                self.object.limiter.try_enter(clock.now(), cost)
            }
        };
        if !passed {
            self.object.limiter.enter(clock, cost).await;
        }
        match self.object.balancer.enter(self.object.flow, cost.ios, clock.now()) {
            Entry::Now(slots) => slots,
            Entry::Wait(queued) => queued.await,
        }
    }

    /// Begins a request that may.
    fn begin<T: 'static>(
        self: &Arc<Self>,
        request: &Request,
        slots: u64,
        begin: impl FnOnce(&ObjectService) -> Io<T>,
    ) -> Io<T> {
        let io = begin(&self.object);
        let tag = RequestTag { asked: request.asked, tag: (slots << 2) | request.kind as u64 };
        if matches!(io, Io::Ready(_)) {
            self.ended(tag);
            return io;
        }
        io.watched(Watch::new(self.clone(), tag))
    }
}

impl Watcher for TargetService {
    fn ended(&self, tag: RequestTag) {
        let (kind, slots, now) = (RequestKind::of(tag.tag & 3), tag.tag >> 2, self.object.clock.now());
        let took = now.saturating_sub(tag.asked);
        if matches!(kind, RequestKind::Write | RequestKind::Discard) {
            self.object.flushes.note_change();
        }
        self.traffic.answer(kind, took);
        self.object.traffic.answer(kind, took);
        if slots > 0 {
            self.object.balancer.end(self.object.flow, slots, now);
        }
    }
}

/// What a front end tells its clients about a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInfo {
    /// Name that clients ask for.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Size and sectors.
    pub geometry: Geometry,
    /// The size of request that the target serves best.
    pub optimal_io_bytes: u32,
    /// What a discard does; none where it does nothing.
    pub discard: Option<DiscardLimits>,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// An object under the name of an export.
pub struct Target {
    name: String,
    description: String,
    read_only: bool,
    discard_granularity: u64,
    service: Arc<TargetService>,
    _claim: Claim,
}

impl Target {
    /// The object of `object` under `name`.
    ///
    /// # Errors
    /// If a volume lies on the object.
    pub fn new(
        name: &str,
        description: String,
        object: Arc<ObjectService>,
        read_only: bool,
        qos: &Qos,
    ) -> Result<Self, Claimed> {
        let claim = object.claims().export(name)?;
        let discard = object.object.limits().discard;
        let limiter = Limiter::default();
        limiter.set(qos, object.clock.now());
        Ok(Self {
            name: name.into(),
            description,
            read_only,
            discard_granularity: discard.map_or(u64::MAX, |discard| discard.granularity_bytes),
            service: Arc::new(TargetService { object, traffic: Traffic::default(), limiter }),
            _claim: claim,
        })
    }

    /// What it is like now; a grown size shows here.
    pub fn info(&self) -> TargetInfo {
        let object = &self.service.object.object;
        let limits = object.limits();
        TargetInfo {
            name: self.name.clone(),
            description: self.description.clone(),
            geometry: object.geometry(),
            optimal_io_bytes: limits.optimal_io_bytes,
            discard: limits.discard,
            read_only: self.read_only || object.is_read_only(),
        }
    }

    /// What clients did so far.
    pub fn counters(&self) -> Counters {
        self.service.traffic.counters()
    }

    /// The same, with how long it took.
    pub fn traffic(&self) -> &Traffic {
        &self.service.traffic
    }

    /// The object behind it, as all its targets share it.
    pub fn object(&self) -> &Arc<ObjectService> {
        &self.service.object
    }

    /// What limits it.
    pub fn limiter(&self) -> &Limiter {
        &self.service.limiter
    }

    pub(crate) fn exclusion(&self) -> &Arc<Exclusion> {
        &self.service.object.exclusion
    }

    /// Only whole units of this size can be discarded; `u64::MAX` where nothing can.
    pub(crate) fn discard_granularity(&self) -> u64 {
        self.discard_granularity
    }

    /// Counts a request and begins it, now or when it may.
    fn serve<T: 'static>(
        &self,
        kind: RequestKind,
        bytes: u64,
        begin: impl FnOnce(&ObjectService) -> Io<T> + 'static,
    ) -> Io<T> {
        let service = &self.service;
        service.traffic.ask(kind, bytes);
        service.object.traffic.ask(kind, bytes);
        let request = Request { kind, cost: Cost::of(kind, bytes), asked: service.object.clock.now() };
        match service.enter(&request) {
            Ok(slots) => service.begin(&request, slots, begin),
            Err(obstacle) => {
                let service = service.clone();
                Io::queued(async move {
                    let slots = service.wait(request.cost, obstacle).await;
                    service.begin(&request, slots, begin)
                })
            }
        }
    }

    /// Fills `buf` from `offset` and gives it back.
    pub fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.serve(RequestKind::Read, buf.len() as u64, move |service| service.object.read(offset, buf))
    }

    /// Makes every write answered so far, on any connection, durable.
    pub fn flush(&self) -> Io<()> {
        self.serve(RequestKind::Flush, 0, |service| flushes::counted(&service.flushes, || service.object.flush()))
    }

    /// The kinds of bytes from `offset`, in order, covering at most `len` bytes and at most `max` runs (at least one).
    pub fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        self.service.object.object.extents(offset, len, max)
    }

    /// Writes whole blocks. Only a [`Session`](crate::Session), which keeps it apart from parts of them, may do so.
    pub(crate) fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        let len = data.len() as u64;
        self.change(RequestKind::Write, len, offset, len, move |object| object.write(offset, data, durability))
    }

    /// Gives whole blocks back.
    pub(crate) fn discard(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        self.change(RequestKind::Discard, len, offset, len, move |object| object.unmap(offset, len, durability))
    }

    /// Makes whole blocks read as zeros.
    pub(crate) fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        self.change(RequestKind::Discard, len, offset, len, move |object| {
            object.write_zeroes(offset, len, durability, keep_room)
        })
    }

    /// Whether blocks of `source` can be had without moving data.
    pub(crate) fn shares_domain(&self, source: &Self) -> bool {
        let domain = |target: &Self| target.service.object.object.cloning().map(CloneRange::clone_domain);
        domain(self).is_some_and(|here| domain(source) == Some(here))
    }

    /// Makes whole blocks the same as those of an object of its domain. It counts as a write without a payload.
    pub(crate) fn clone_range(&self, source: Uuid, from: u64, offset: u64, len: u64) -> Io<()> {
        self.change(RequestKind::Write, 0, offset, len, move |object| match object.cloning() {
            Some(cloning) => cloning.clone_range(source, from, offset, len),
            None => Io::ready(Err(IoError::invalid("clone of an object that cannot"))),
        })
    }

    /// Begins a change, now or when it may. Who watches what it meets hears of it before.
    fn change(
        &self,
        kind: RequestKind,
        bytes: u64,
        offset: u64,
        len: u64,
        begin: impl FnOnce(&dyn BlockObject) -> Io<()> + 'static,
    ) -> Io<()> {
        if self.read_only {
            return Io::ready(Err(IoError::new(IoErrorKind::ReadOnly, format!("export {}", self.name))));
        }
        self.serve(kind, bytes, move |service| {
            service.ranges.mark(offset..offset + len);
            begin(&*service.object)
        })
    }
}
