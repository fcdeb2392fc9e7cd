//! A space as front ends see it: under the name of its export, read-only if so made, with its traffic counted and timed.
//!
//! ```text
//!   request ─▶ counted ─▶ limits of export and space ─▶ balancer ─▶ space ─▶ answered, timed from its first moment
//! ```
//!
//! Invariant: this is the only way from a client to a space, so access and quality of service are settled here, once. All
//! targets of a space have one exclusion, that of its service.

use std::sync::Arc;
use std::time::Duration;

use holdfast_api::{ExportCounters, Qos};
use holdfast_device::reactor::clock;
use holdfast_device::{
    Clock, Device, Durability, Exclusion, Extent, Io, IoBuf, IoError, IoErrorKind, IoSlice, RequestTag, Target, TargetInfo,
    Watch, Watcher,
};
use holdfast_space::Space;

use crate::qos::{Cost, Entry, Limiter, QueuedEntry};
use crate::service::SpaceService;
use crate::traffic::{Kind, Traffic};

/// What the requests of an export share.
struct ExportService {
    space: Arc<SpaceService>,
    traffic: Traffic,
    limiter: Limiter,
    clock: Arc<dyn Clock>,
}

/// A request that has not begun yet.
struct Request {
    kind: Kind,
    cost: Cost,
    asked: Duration,
}

/// What a request waits for first.
enum Before {
    Export,
    Space,
    Others(QueuedEntry),
}

impl ExportService {
    /// Lets a request begin at once, or says what it waits for. Answers what the balancer is to be given back at its end.
    fn enter(&self, request: &Request) -> Result<u64, Before> {
        let Request { cost, asked, .. } = *request;
        if !self.limiter.try_enter(asked, cost) {
            return Err(Before::Export);
        }
        if !self.space.limiter.try_enter(asked, cost) {
            return Err(Before::Space);
        }
        match self.space.balancer.enter(self.space.place, cost.ios, asked) {
            Entry::Now(counted) => Ok(counted),
            Entry::Wait(turn) => Err(Before::Others(turn)),
        }
    }

    /// Waits until a request may begin.
    async fn wait(&self, cost: Cost, before: Before) -> u64 {
        let passed = match before {
            Before::Others(turn) => return turn.await,
            Before::Space => false,
            Before::Export => {
                self.limiter.enter(&*self.clock, cost).await;
                self.space.limiter.try_enter(self.clock.now(), cost)
            }
        };
        if !passed {
            self.space.limiter.enter(&*self.clock, cost).await;
        }
        match self.space.balancer.enter(self.space.place, cost.ios, self.clock.now()) {
            Entry::Now(counted) => counted,
            Entry::Wait(turn) => turn.await,
        }
    }

    /// Begins a request that may.
    fn begin<T>(self: &Arc<Self>, request: &Request, counted: u64, begin: impl FnOnce(&Space) -> Io<T>) -> Io<T> {
        let io = begin(&self.space.space);
        let ticket = RequestTag { asked: request.asked, tag: (counted << 2) | request.kind as u64 };
        if matches!(io, Io::Ready(_)) {
            self.ended(ticket);
            return io;
        }
        io.watched(Watch::new(self.clone(), ticket))
    }
}

impl Watcher for ExportService {
    fn ended(&self, ticket: RequestTag) {
        let (kind, counted, now) = (Kind::of(ticket.tag & 3), ticket.tag >> 2, self.clock.now());
        let took = now.saturating_sub(ticket.asked);
        self.traffic.answer(kind, took);
        self.space.traffic.answer(kind, took);
        if counted > 0 {
            self.space.balancer.end(self.space.place, counted, now);
        }
    }
}

/// A space under the name of an export.
pub struct ExportTarget {
    name: String,
    description: String,
    read_only: bool,
    optimal_io_bytes: u32,
    service: Arc<ExportService>,
}

impl ExportTarget {
    /// The export `name` of `space`, whose path is `path`.
    pub(crate) fn new(name: &str, path: &str, space: Arc<SpaceService>, read_only: bool, qos: &Qos) -> Self {
        let shape = space.space.record().shape;
        let (traffic, limiter, clock) = (Traffic::default(), Limiter::default(), clock());
        limiter.set(qos, clock.now());
        Self {
            name: name.into(),
            description: format!("{path}, {shape}"),
            read_only,
            optimal_io_bytes: u32::try_from(shape.interleave.bytes()).unwrap_or(u32::MAX),
            service: Arc::new(ExportService { space, traffic, limiter, clock }),
        }
    }

    /// What clients did so far.
    pub(crate) fn counters(&self) -> ExportCounters {
        self.service.traffic.counters()
    }

    /// The same, with how long it took.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.service.traffic
    }

    /// The space behind it, as all its exports share it.
    pub(crate) fn space(&self) -> &SpaceService {
        &self.service.space
    }

    /// What limits it.
    pub(crate) fn limiter(&self) -> &Limiter {
        &self.service.limiter
    }

    fn refused(&self) -> IoError {
        IoError::new(IoErrorKind::ReadOnly, format!("export {}", self.name))
    }

    /// Counts a request and begins it, now or when it may.
    fn serve<T: 'static>(&self, kind: Kind, bytes: u64, begin: impl FnOnce(&Space) -> Io<T> + 'static) -> Io<T> {
        let service = &self.service;
        service.traffic.ask(kind, bytes);
        service.space.traffic.ask(kind, bytes);
        let request = Request { kind, cost: Cost::of(kind, bytes), asked: service.clock.now() };
        match service.enter(&request) {
            Ok(counted) => service.begin(&request, counted, begin),
            Err(before) => {
                let service = service.clone();
                Io::queued(async move {
                    let counted = service.wait(request.cost, before).await;
                    service.begin(&request, counted, begin)
                })
            }
        }
    }
}

impl Target for ExportTarget {
    fn info(&self) -> TargetInfo {
        TargetInfo {
            name: self.name.clone(),
            description: self.description.clone(),
            geometry: self.service.space.space.geometry(),
            optimal_io_bytes: self.optimal_io_bytes,
            read_only: self.read_only || self.service.space.space.is_read_only(),
        }
    }

    fn exclusion(&self) -> &Arc<Exclusion> {
        &self.service.space.exclusion
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.serve(Kind::Read, buf.len() as u64, move |space| space.read(offset, buf))
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        if self.read_only {
            return Io::ready(Err(self.refused()));
        }
        self.serve(Kind::Write, data.len() as u64, move |space| space.write(offset, data, durability))
    }

    fn flush(&self) -> Io<()> {
        self.serve(Kind::Flush, 0, Space::flush)
    }

    fn discard(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        if self.read_only {
            return Io::ready(Err(self.refused()));
        }
        self.serve(Kind::Discard, len, move |space| space.discard(offset, len, durability))
    }

    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        if self.read_only {
            return Io::ready(Err(self.refused()));
        }
        self.serve(Kind::Discard, len, move |space| space.write_zeroes(offset, len, durability, keep_room))
    }

    fn cache(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        self.service.space.space.extents(offset, len, max)
    }
}
