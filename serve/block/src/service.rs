//! The service of an object: what all its targets share.
//!
//! Invariant: an object that is open has one, whatever number of targets it has, and takes part in the balance of its
//! disks by it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_device::{BlockObject, Clock};
use holdfast_model::Uuid;

use crate::blocks::blocks_around;
use crate::claims::Claims;
use crate::exclusion::Exclusion;
use crate::flushes::{Flushes, LossCount};
use crate::qos::{Balancer, FlowId, Limiter, Qos};
use crate::ranges::{Ranges, WatchedRange};
use crate::traffic::Traffic;

/// An object as clients of all its targets use it.
pub struct ObjectService {
    id: Uuid,
    pub(crate) object: Arc<dyn BlockObject>,
    pub(crate) traffic: Traffic,
    pub(crate) limiter: Limiter,
    /// Shared with all objects on the same disks.
    pub(crate) balancer: Arc<Balancer>,
    pub(crate) flow: FlowId,
    pub(crate) clock: Arc<dyn Clock>,
    /// Outlives each target: one that is withdrawn drains while the next serves already.
    pub(crate) exclusion: Arc<Exclusion>,
    pub(crate) ranges: Arc<Ranges>,
    /// What flushes told.
    pub(crate) flushes: Arc<Flushes>,
    claims: Arc<Claims>,
    qos: Mutex<Qos>,
}

impl ObjectService {
    /// That of an object that was just opened.
    pub fn new(object: Arc<dyn BlockObject>, balancer: Arc<Balancer>, clock: Arc<dyn Clock>) -> Self {
        let flow = balancer.join();
        Self {
            id: object.id(),
            object,
            traffic: Traffic::default(),
            limiter: Limiter::default(),
            balancer,
            flow,
            clock,
            exclusion: Arc::default(),
            ranges: Arc::default(),
            flushes: Arc::default(),
            claims: Arc::default(),
            qos: Mutex::default(),
        }
    }

    /// The object's id, which outlives this service.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// What clients of all targets asked for.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// What limits all targets together.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// How often a flush told that answered writes are lost, whoever asked for it. The object tells that once; who
    /// compares this number with that of before hears of it, too.
    pub fn losses(&self) -> &LossCount {
        self.flushes.losses()
    }

    /// Whether changes were answered that no flush made durable since.
    pub fn has_unflushed(&self) -> bool {
        self.flushes.has_unflushed()
    }

    /// Who uses the object.
    pub fn claims(&self) -> &Arc<Claims> {
        &self.claims
    }

    /// Watches a range of bytes from now on, as [`watch_all`](Self::watch_all) does.
    pub async fn watch(&self, range: Range<u64>) -> Arc<WatchedRange> {
        self.watch_all(&[range]).await.remove(0)
    }

    /// Watches ranges of bytes from now on: every later change of one, by whatever target of whatever front end, marks
    /// it before it begins, and none is under way when this ends.
    pub async fn watch_all(&self, ranges: &[Range<u64>]) -> Vec<Arc<WatchedRange>> {
        let blocks = |range: &Range<u64>| blocks_around(range.start, range.end - range.start);
        let start = ranges.iter().map(|range| blocks(range).start).min().unwrap_or(0);
        let end = ranges.iter().map(|range| blocks(range).end).max().unwrap_or(0);
        let _held = self.exclusion.hold_partial(start..end).await;
        self.ranges.add(ranges.iter().map(blocks))
    }

    /// What lies in a range is about to change by no request: the object shrinks, say.
    pub fn mark_changed(&self, range: Range<u64>) {
        self.ranges.mark(range);
    }

    /// Its quality of service.
    pub fn qos(&self) -> Qos {
        *self.qos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes other settings from `now` on. What its targets together are to get at least, it gets at least.
    pub fn set_qos(&self, qos: Qos, targets_min: u64, now: Duration) {
        *self.qos.lock().unwrap_or_else(PoisonError::into_inner) = qos;
        self.limiter.set(&qos, now);
        let min = qos.min_iops.unwrap_or(0).max(targets_min);
        self.balancer.set_min(self.flow, (min > 0).then_some(min), now);
    }
}

impl Drop for ObjectService {
    fn drop(&mut self) {
        self.balancer.leave(self.flow);
    }
}
