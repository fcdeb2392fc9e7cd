//! What all units and devices of a daemon share.
//!
//! Invariant: time and durable storage are handed in; nothing here knows where reservations are kept.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use holdfast_block::CopySettings;
use holdfast_device::Clock;
use holdfast_model::Uuid;

use crate::copy::Copies;

/// Keeps persistent reservations over restarts.
pub trait ReservationKeeper: Send + Sync {
    /// Keeps those of `unit` durably before the future ends, [`KEPT_BYTES`](crate::KEPT_BYTES) at most; with none it
    /// forgets them.
    fn keep(&self, unit: Uuid, kept: Option<Vec<u8>>) -> BoxFuture<'static, Result<(), String>>;
}

/// See the module.
pub struct Shared {
    keeper: Arc<dyn ReservationKeeper>,
    clock: Arc<dyn Clock>,
    copies: Copies,
}

impl Shared {
    /// Of a daemon that keeps reservations in `keeper` and measures time by `clock`.
    pub fn new(keeper: Arc<dyn ReservationKeeper>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::with_copies(keeper, clock, CopySettings::default())
    }

    /// The same, where copies take no more memory than that.
    pub fn with_copies(keeper: Arc<dyn ReservationKeeper>, clock: Arc<dyn Clock>, settings: CopySettings) -> Arc<Self> {
        let copies = Copies::new(settings, clock.clone());
        Arc::new(Self { keeper, clock, copies })
    }

    /// What copies share.
    pub(crate) fn copies(&self) -> &Copies {
        &self.copies
    }

    /// Where reservations are kept.
    pub(crate) fn keeper(&self) -> &dyn ReservationKeeper {
        &*self.keeper
    }

    /// What time is measured by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}
