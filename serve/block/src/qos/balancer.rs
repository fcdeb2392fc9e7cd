//! Which object's request begins next where several use the same disks.
//!
//! ```text
//!   one object is used         all begins at once, nothing is counted
//!   several are used           begins at once:  all while the window is not full; what is within its object's minimum; the only one
//!                                               of an object that had no more than its share so far
//!                              waits:           the rest, in the order of start tags
//!   a request ends             the waiting one with the least tag begins, of those that now may
//! ```
//!
//! The window bounds what is under way on the disks, so a request of an object that asks for little finds a short line,
//! whatever others ask for. A start tag grows by cost / weight, so waiting objects get on by cost, not by count
//! (start-time fair queueing, Goyal, Vin and Cheng). Large requests take more than one slot of the window, but fewer
//! than they cost: what they cost most is the seek or the command, and disks that are to stream need several of them.
//!
//! Invariant: whoever waits, waits for a request that is counted as under way.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::bucket::Bucket;

/// How long after requests of two objects met the disks count as shared.
const HOLD: Duration = Duration::from_millis(100);
/// Slots of the window: for each disk, and beside.
const PER_DISK: u64 = 2;
const AT_LEAST: u64 = 8;
/// The cost up to which a request takes one slot of the window: 64 KiB.
const COST_OF_SLOT: u64 = 8;
/// An object weighs 1, and 1 more for each so many IOPS of its minimum.
const IOPS_OF_WEIGHT: u64 = 1000;

struct Waiting {
    number: u64,
    tag: f64,
    cost: u64,
    waker: Option<Waker>,
}

struct Flow {
    weight: f64,
    reserve: Option<Bucket>,
    in_service: u64,
    finish: f64,
    waiting: VecDeque<Waiting>,
    /// Requests that waited and may begin now.
    granted: Vec<u64>,
}

impl Flow {
    fn new(min_iops: Option<u64>, now: Duration) -> Self {
        Self {
            weight: 1.0 + (min_iops.unwrap_or(0) / IOPS_OF_WEIGHT) as f64,
            reserve: min_iops.map(|min| Bucket::new(min, 0, now)),
            in_service: 0,
            finish: 0.0,
            waiting: VecDeque::new(),
            granted: Vec::new(),
        }
    }
}

struct Inner {
    window: u64,
    in_service: u64,
    /// The tag of what began last.
    virtual_time: f64,
    flows: BTreeMap<u64, Flow>,
    next: u64,
}

/// Who takes part: an object that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId(u64);

/// Whether a request may begin.
pub enum Entry {
    /// At once, with what is to be given back at its end.
    Now(u64),
    /// When this ends.
    Wait(QueuedEntry),
}

/// The balancer of the same disks.
pub struct Balancer {
    inner: Mutex<Inner>,
    /// Who asked last.
    last: AtomicU64,
    /// Until when several count as using the disks, in nanoseconds.
    shared_until: AtomicU64,
    waited: AtomicU64,
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// What may be under way at once on so many disks.
fn window_of(disks: usize) -> u64 {
    AT_LEAST + PER_DISK * disks as u64
}

/// What a request takes of the window.
fn slots_of(cost: u64) -> u64 {
    cost.div_ceil(COST_OF_SLOT).max(1)
}

impl Inner {
    /// Whether a request with this tag may begin now.
    fn may(&mut self, flow_id: FlowId, tag: f64, cost: u64, now: Duration) -> bool {
        let Some(flow) = self.flows.get_mut(&flow_id.0) else { return true };
        self.in_service < self.window
            || (flow.in_service == 0 && tag <= self.virtual_time)
            || flow.reserve.as_mut().is_some_and(|reserve| reserve.try_take(now, cost))
    }

    /// Counts a request as under way. Answers what is to be given back at its end.
    fn begin(&mut self, flow_id: FlowId, cost: u64, tag: f64) -> u64 {
        let slots = slots_of(cost);
        self.virtual_time = self.virtual_time.max(tag);
        self.in_service += slots;
        if let Some(flow) = self.flows.get_mut(&flow_id.0) {
            flow.in_service += slots;
        }
        slots
    }

    /// Lets begin what may. Answers whom to wake.
    fn grant(&mut self, now: Duration, wake: &mut Vec<Waker>) {
        loop {
            let mut heads: Vec<(f64, u64, u64)> = self
                .flows
                .iter()
                .filter_map(|(flow_id, flow)| flow.waiting.front().map(|first| (first.tag, *flow_id, first.cost)))
                .collect();
            heads.sort_by(|a, b| a.0.total_cmp(&b.0));
            let Some((tag, flow_id, cost)) =
                heads.into_iter().find(|(tag, flow_id, cost)| self.may(FlowId(*flow_id), *tag, *cost, now))
            else {
                return;
            };
            self.begin(FlowId(flow_id), cost, tag);
            let Some(flow) = self.flows.get_mut(&flow_id) else { return };
            if let Some(first) = flow.waiting.pop_front() {
                flow.granted.push(first.number);
                wake.extend(first.waker);
            }
        }
    }

    fn end(&mut self, flow_id: FlowId, slots: u64, now: Duration, wake: &mut Vec<Waker>) {
        self.in_service = self.in_service.saturating_sub(slots);
        if let Some(flow) = self.flows.get_mut(&flow_id.0) {
            flow.in_service = flow.in_service.saturating_sub(slots);
        }
        self.grant(now, wake);
    }
}

impl Balancer {
    /// That of the same disks with so many disks.
    pub fn new(disks: usize) -> Arc<Self> {
        let inner =
            Inner { window: window_of(disks), in_service: 0, virtual_time: 0.0, flows: BTreeMap::new(), next: 1 };
        Arc::new(Self {
            inner: Mutex::new(inner),
            last: AtomicU64::new(0),
            shared_until: AtomicU64::new(0),
            waited: AtomicU64::new(0),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There are so many disks from now on.
    pub fn set_disks(&self, disks: usize) {
        self.inner().window = window_of(disks);
    }

    /// Takes part from now on.
    pub fn join(&self) -> FlowId {
        let mut inner = self.inner();
        let flow_id = inner.next;
        inner.next += 1;
        inner.flows.insert(flow_id, Flow::new(None, Duration::ZERO));
        FlowId(flow_id)
    }

    /// Takes part no more; what waits begins.
    pub fn leave(&self, flow_id: FlowId) {
        let left = self.inner().flows.remove(&flow_id.0);
        left.into_iter().flat_map(|flow| flow.waiting).filter_map(|waiting| waiting.waker).for_each(Waker::wake);
    }

    /// What an object is to get before others.
    pub fn set_min(&self, flow_id: FlowId, min_iops: Option<u64>, now: Duration) {
        if let Some(flow) = self.inner().flows.get_mut(&flow_id.0) {
            let Flow { weight, reserve, .. } = Flow::new(min_iops, now);
            (flow.weight, flow.reserve) = (weight, reserve);
        }
    }

    /// Requests that waited so far.
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    /// Whether others than this one use the disks as well.
    fn is_shared(&self, flow_id: FlowId, now: Duration) -> bool {
        if self.last.load(Ordering::Relaxed) != flow_id.0 && self.last.swap(flow_id.0, Ordering::Relaxed) != 0 {
            self.shared_until.store(nanos(now + HOLD), Ordering::Relaxed);
        }
        nanos(now) < self.shared_until.load(Ordering::Relaxed)
    }

    /// Asks for a request to begin.
    pub fn enter(self: &Arc<Self>, flow_id: FlowId, cost: u64, now: Duration) -> Entry {
        if !self.is_shared(flow_id, now) {
            return Entry::Now(0);
        }
        let mut inner = self.inner();
        let virtual_time = inner.virtual_time;
        let Some(flow) = inner.flows.get_mut(&flow_id.0) else { return Entry::Now(0) };
        let tag = virtual_time.max(flow.finish);
        flow.finish = tag + cost as f64 / flow.weight;
        if flow.waiting.is_empty() && inner.may(flow_id, tag, cost, now) {
            return Entry::Now(inner.begin(flow_id, cost, tag));
        }
        let number = inner.next;
        inner.next += 1;
        if let Some(flow) = inner.flows.get_mut(&flow_id.0) {
            flow.waiting.push_back(Waiting { number, tag, cost, waker: None });
        }
        self.waited.fetch_add(1, Ordering::Relaxed);
        Entry::Wait(QueuedEntry { balancer: self.clone(), flow_id, slots: slots_of(cost), number, over: false })
    }

    /// A request that was counted as so many slots is over.
    pub fn end(&self, flow_id: FlowId, slots: u64, now: Duration) {
        let mut wake = Vec::new();
        self.inner().end(flow_id, slots, now, &mut wake);
        wake.into_iter().for_each(Waker::wake);
    }
}

/// The wait of a request for its turn; it brings what is to be given back at the end.
pub struct QueuedEntry {
    balancer: Arc<Balancer>,
    flow_id: FlowId,
    slots: u64,
    number: u64,
    over: bool,
}

impl Future for QueuedEntry {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u64> {
        let (number, slots) = (self.number, self.slots);
        let mut inner = self.balancer.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(flow) = inner.flows.get_mut(&self.flow_id.0) else {
            drop(inner);
            self.over = true;
            return Poll::Ready(0);
        };
        if let Some(at) = flow.granted.iter().position(|granted| *granted == number) {
            flow.granted.swap_remove(at);
            drop(inner);
            self.over = true;
            return Poll::Ready(slots);
        }
        if let Some(waiting) = flow.waiting.iter_mut().find(|waiting| waiting.number == number) {
            waiting.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for QueuedEntry {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut wake = Vec::new();
        {
            let mut inner = self.balancer.inner();
            let Some(flow) = inner.flows.get_mut(&self.flow_id.0) else { return };
            flow.waiting.retain(|waiting| waiting.number != self.number);
            if let Some(at) = flow.granted.iter().position(|granted| *granted == self.number) {
                flow.granted.swap_remove(at);
                // What passes by a minimum waits for the next end: there is no clock here.
                inner.end(self.flow_id, self.slots, Duration::ZERO, &mut wake);
            }
        }
        wake.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
