//! For benchmarks that hold a pool in their own process: nobody remembers it, and nobody hears of it.

use std::sync::Arc;

use holdfast_device::{Clock, Io};
use holdfast_model::Uuid;
use holdfast_pool::{Env, Event, EventSink, Witness, WitnessRecord};

struct Nobody;

impl Witness for Nobody {
    fn load(&self, _pool: Uuid) -> Option<WitnessRecord> {
        None
    }

    fn store(&self, _pool: Uuid, _record: WitnessRecord) -> Io<()> {
        Io::ready(Ok(()))
    }
}

impl EventSink for Nobody {
    fn emit(&self, _event: Event) {}
}

/// What such a pool runs on: a clock, and the same seed each time.
pub fn env(clock: Arc<dyn Clock>) -> Env {
    Env { clock, seed: 1, witness: Arc::new(Nobody), events: Arc::new(Nobody) }
}
