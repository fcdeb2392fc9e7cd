//! For benchmarks that hold a pool in their own process: nobody remembers it, and nobody hears of it.

use std::sync::{Arc, Mutex};

use holdfast_device::{Clock, Device, Durability, Geometry, Io, IoBuf, IoSlice};
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

/// A disk of plain memory.
pub struct Memory(Mutex<IoBuf>);

impl Memory {
    /// Of so many zeros.
    pub fn new(bytes: usize) -> Self {
        Self(Mutex::new(IoBuf::zeroed(bytes)))
    }
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.0.lock().expect("no panic while held").len() as u64,
            logical_sector_bytes: 4096,
            physical_sector_bytes: 4096,
            rotational: false,
            discard: false,
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        let (from, len) = (offset as usize, buf.len());
        buf.copy_from_slice(&self.0.lock().expect("no panic while held")[from..from + len]);
        Io::ready(Ok(buf))
    }

    fn write(&self, offset: u64, data: IoSlice, _durability: Durability) -> Io<()> {
        let from = offset as usize;
        self.0.lock().expect("no panic while held")[from..from + data.len()].copy_from_slice(&data);
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }
}
