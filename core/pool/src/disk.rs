//! A member disk in use.
//!
//! Its outage count tells everybody at the cost of one load whether it is in service (even) or out (odd), and whether
//! it was out since they last looked: a slab that was in step at count 4 is not believed at count 6 until the pool says
//! so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use holdfast_device::{Clock, Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::{Histogram, Uuid};

use crate::area::Area;

/// What a disk did so far.
#[derive(Debug, Default)]
pub struct DiskCounters {
    /// Read requests.
    pub reads: AtomicU64,
    /// Write requests.
    pub writes: AtomicU64,
    /// Bytes read.
    pub read_bytes: AtomicU64,
    /// Bytes written.
    pub written_bytes: AtomicU64,
    /// Failed reads.
    pub read_errors: AtomicU64,
    /// Failed writes.
    pub write_errors: AtomicU64,
    /// Blocks that were not as their checksums say.
    pub checksum_errors: AtomicU64,
    /// Bad ranges rewritten from another copy.
    pub repaired: AtomicU64,
    /// Requests whose time was taken: one of so many that they cost nothing.
    pub timed: AtomicU64,
    /// How long these took together, in nanoseconds.
    pub timed_nanos: AtomicU64,
    /// Those of them that read, by how long they took.
    pub read_latency: Histogram,
    /// Those that wrote.
    pub write_latency: Histogram,
}

/// Of so many requests one is timed.
const TIMED_EVERY: u64 = 16;

struct Attached(Arc<dyn Device>);

/// A member disk.
pub struct PoolDisk {
    /// Its number in the pool.
    pub index: u16,
    /// Its identity.
    pub id: Uuid,
    /// Its division.
    pub area: Area,
    /// What it did so far.
    pub counters: DiskCounters,
    clock: Arc<dyn Clock>,
    attached: ArcSwapOption<Attached>,
    outages: AtomicU32,
    in_flight: AtomicU32,
    written: AtomicU64,
    flushed: AtomicU64,
    head: AtomicU64,
}

impl PoolDisk {
    pub(crate) fn new(
        index: u16,
        id: Uuid,
        area: Area,
        device: Option<Arc<dyn Device>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let outages = AtomicU32::new(u32::from(device.is_none()));
        let attached = ArcSwapOption::from(device.map(|device| Arc::new(Attached(device))));
        Self {
            index,
            id,
            area,
            counters: DiskCounters::default(),
            clock,
            attached,
            outages,
            in_flight: AtomicU32::new(0),
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            head: AtomicU64::new(0),
        }
    }

    /// How often it went out and came back: odd while it is out.
    pub fn outages(&self) -> u32 {
        self.outages.load(Ordering::Acquire)
    }

    /// Whether it is in service.
    pub fn in_service(&self) -> bool {
        self.outages().is_multiple_of(2)
    }

    /// Takes it out of service; false if it was out already.
    pub(crate) fn go_out(&self) -> bool {
        let odd = |count: u32| count.is_multiple_of(2).then_some(count + 1);
        self.outages.fetch_update(Ordering::AcqRel, Ordering::Acquire, odd).is_ok()
    }

    /// Puts it back in service behind a new device.
    pub(crate) fn come_back(&self, device: Arc<dyn Device>) {
        self.attached.store(Some(Arc::new(Attached(device))));
        let even = |count: u32| (!count.is_multiple_of(2)).then_some(count + 1);
        let _ = self.outages.fetch_update(Ordering::AcqRel, Ordering::Acquire, even);
    }

    /// Puts another device in the place of the one behind it, whether it is in service or not.
    pub(crate) fn stand_in(&self, device: Arc<dyn Device>) {
        self.attached.store(Some(Arc::new(Attached(device))));
    }

    /// Lets the device behind it go.
    pub(crate) fn detach(&self) {
        self.attached.store(None);
    }

    /// The device behind it.
    pub fn device(&self) -> Option<Arc<dyn Device>> {
        self.attached.load().as_ref().map(|attached| attached.0.clone())
    }

    /// The device's geometry, where it is attached.
    pub fn geometry(&self) -> Option<Geometry> {
        self.attached.load().as_ref().map(|attached| attached.0.geometry())
    }

    /// Requests under way, by which readers choose the idlest copy.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Where the last read ended: near it the next one is cheap on rotating media.
    pub fn head(&self) -> u64 {
        self.head.load(Ordering::Relaxed)
    }

    /// Notes that a write that may sit in a volatile cache was answered.
    pub fn note_written(&self) {
        self.written.fetch_add(1, Ordering::Release);
    }

    /// Makes durable what was noted as written, where anything was since the last time.
    pub async fn settle(&self) -> Result<(), IoError> {
        let written = self.written.load(Ordering::Acquire);
        if self.flushed.load(Ordering::Acquire) < written {
            self.flush().await?;
            self.flushed.fetch_max(written, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Counts a request as under way until the guard is dropped.
    pub fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    /// Reads from an offset of the disk.
    pub fn read(self: &Arc<Self>, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        let count = self.counters.reads.fetch_add(1, Ordering::Relaxed);
        self.counters.read_bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.head.store(offset + buf.len() as u64, Ordering::Relaxed);
        match self.attached.load().as_ref() {
            Some(attached) => self.timed(count, |counters| &counters.read_latency, attached.0.read(offset, buf)),
            None => Io::ready(Err(self.gone())),
        }
    }

    /// Writes at an offset of the disk.
    pub fn write(self: &Arc<Self>, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        let count = self.counters.writes.fetch_add(1, Ordering::Relaxed);
        self.counters.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        match self.attached.load().as_ref() {
            Some(attached) => {
                self.timed(count, |counters| &counters.write_latency, attached.0.write(offset, data, durability))
            }
            None => Io::ready(Err(self.gone())),
        }
    }

    /// Takes the time of a request that is not answered yet, if it is its turn.
    fn timed<T: Unpin + 'static>(
        self: &Arc<Self>,
        count: u64,
        of: fn(&DiskCounters) -> &Histogram,
        io: Io<T>,
    ) -> Io<T> {
        if matches!(io, Io::Ready(_)) || !count.is_multiple_of(TIMED_EVERY) {
            return io;
        }
        let (disk, begun) = (self.clone(), self.clock.now());
        Io::pending(async move {
            let answer = io.await;
            let took = disk.clock.now().saturating_sub(begun);
            disk.counters.timed.fetch_add(1, Ordering::Relaxed);
            disk.counters.timed_nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
            of(&disk.counters).add(took);
            answer
        })
    }

    /// Flushes the disk.
    pub fn flush(&self) -> Io<()> {
        match self.attached.load().as_ref() {
            Some(attached) => attached.0.flush(),
            None => Io::ready(Err(self.gone())),
        }
    }

    /// Discards a range of the disk.
    pub fn discard(&self, offset: u64, len: u64) -> Io<()> {
        match self.attached.load().as_ref() {
            Some(attached) => attached.0.discard(offset, len),
            None => Io::ready(Err(self.gone())),
        }
    }

    fn gone(&self) -> IoError {
        IoError::new(IoErrorKind::Gone, format!("disk {} of the pool", self.id))
    }
}

/// A request under way on a disk.
pub struct InFlight(Arc<PoolDisk>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
