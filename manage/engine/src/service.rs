//! The service of a space: what all its exports share.
//!
//! Invariant: a space that is open has one, whatever number of exports it has, and takes part in the balance of its pool by it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_api::Qos;
use holdfast_device::Exclusion;
use holdfast_space::Space;

use crate::qos::{Balancer, FlowId, Limiter};
use crate::traffic::Traffic;

/// A space as clients of all its exports use it.
pub(crate) struct SpaceService {
    pub(crate) space: Arc<Space>,
    pub(crate) traffic: Traffic,
    pub(crate) limiter: Limiter,
    pub(crate) balancer: Arc<Balancer>,
    pub(crate) place: FlowId,
    /// What keeps writes of parts of a block apart, whichever export they come by.
    pub(crate) exclusion: Arc<Exclusion>,
    qos: Mutex<Qos>,
}

impl SpaceService {
    /// That of a space that was just opened.
    pub(crate) fn new(space: Arc<Space>, balancer: Arc<Balancer>) -> Self {
        let place = balancer.join();
        Self {
            space,
            traffic: Traffic::default(),
            limiter: Limiter::default(),
            balancer,
            place,
            exclusion: Arc::default(),
            qos: Mutex::default(),
        }
    }

    /// Its quality of service.
    pub(crate) fn qos(&self) -> Qos {
        *self.qos.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes other settings from now on. What its exports are to get at least, it gets at least.
    pub(crate) fn set_qos(&self, qos: Qos, exports_min: u64, now: Duration) {
        *self.qos.lock().unwrap_or_else(PoisonError::into_inner) = qos;
        self.limiter.set(&qos, now);
        let min = qos.min_iops.unwrap_or(0).max(exports_min);
        self.balancer.set_min(self.place, (min > 0).then_some(min), now);
    }
}

impl Drop for SpaceService {
    fn drop(&mut self) {
        self.balancer.leave(self.place);
    }
}
