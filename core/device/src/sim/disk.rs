//! Simulated disks and the faults that a test places on them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use holdfast_model::{BLOCK_BYTES, Media};

use super::Sim;
use super::engine::Engine;
use super::faults::{ErrorPersistence, Stray};
use super::latency::Latency;
use super::random::mix;
use super::request::Operation;
use super::world::World;
use crate::{Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};

/// What a simulated disk is like.
#[derive(Clone, Debug, PartialEq)]
pub struct SimDiskSpec {
    /// Name in error messages.
    pub name: String,
    /// Serial number.
    pub serial: String,
    /// Model.
    pub model: String,
    /// Size, a multiple of 4 KiB. Only written blocks take memory.
    pub size_bytes: u64,
    /// What the disk says of itself.
    pub media: Media,
    /// How long requests take.
    pub latency: Latency,
    /// Whether a write that is not durable may be lost with the power.
    pub volatile_cache: bool,
    /// Size of the volatile cache; beyond it the oldest writes are written back.
    pub cache_bytes: u64,
    /// The unit that is written whole or not at all: 512 or 4096.
    pub tear_bytes: u32,
    /// Smallest unit that the disk can address, as it tells.
    pub logical_sector_bytes: u32,
    /// Whether blocks that were never written read as a pattern, so that reading them is noticed, or as zeros.
    pub garbage: bool,
    /// Whether a discard does anything.
    pub discard: bool,
}

impl Default for SimDiskSpec {
    fn default() -> Self {
        Self {
            name: "sim".to_owned(),
            serial: "SIM".to_owned(),
            model: "Simulated".to_owned(),
            size_bytes: 1 << 30,
            media: Media::Ssd,
            latency: Latency::None,
            volatile_cache: true,
            cache_bytes: 64 << 20,
            tear_bytes: 512,
            logical_sector_bytes: 512,
            garbage: true,
            discard: true,
        }
    }
}

/// What a simulated disk has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounters {
    /// Reads that succeeded.
    pub reads: u64,
    /// Writes that succeeded and were really done.
    pub writes: u64,
    /// Flushes that succeeded.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Reads and writes that did not start where the last one ended.
    pub seeks: u64,
    /// Requests answered with an error.
    pub errors: u64,
}

/// How a disk goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disappearance {
    /// It is pulled out: its volatile cache settles as in a power cut.
    PowerLoss,
    /// Only the cable is: its cache is there again when it comes back.
    Cable,
}

/// A simulated disk. It belongs to the thread of its [`Sim`].
pub struct SimDisk {
    world: Arc<World>,
    index: u32,
    spec: SimDiskSpec,
}

/// What a disk held at some time, by block.
pub struct SimImage(BTreeMap<u64, Vec<u8>>);

impl SimImage {
    /// The bytes of whole blocks of it; zeros where nothing was written.
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let blocks = offset / BLOCK_BYTES..(offset + len as u64) / BLOCK_BYTES;
        let block = |number| self.0.get(&number).cloned().unwrap_or_else(|| vec![0; BLOCK_BYTES as usize]);
        blocks.flat_map(block).collect()
    }
}

impl SimDisk {
    /// A new disk in the world of `sim`.
    ///
    /// # Panics
    /// If the size is no multiple of 4 KiB, or the tear unit none of 512 that divides 4096.
    pub fn new(sim: &Sim, spec: SimDiskSpec) -> Arc<Self> {
        assert!(
            spec.size_bytes.is_multiple_of(BLOCK_BYTES),
            "{}: size {} is not in blocks of 4 KiB",
            spec.name,
            spec.size_bytes
        );
        assert!(
            spec.tear_bytes >= 512 && spec.tear_bytes.is_power_of_two() && u64::from(spec.tear_bytes) <= BLOCK_BYTES,
            "{}: tear unit {} is not 512, 1024, 2048 or 4096",
            spec.name,
            spec.tear_bytes
        );
        let world = sim.world().clone();
        let mut state = world.lock();
        let index = state.disks.len() as u32;
        let seed = mix(state.seed, u64::from(index));
        state.disks.push(Engine::new(spec.clone(), seed));
        drop(state);
        Arc::new(Self { world, index, spec })
    }

    fn with<R>(&self, act: impl FnOnce(&mut Engine, &mut super::random::Stream) -> R) -> R {
        let mut state = self.world.lock();
        let state = &mut *state;
        act(&mut state.disks[self.index as usize], &mut state.schedule)
    }

    /// Name in error messages.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// What the disk was made as; its size now is in [`Device::geometry`].
    pub fn spec(&self) -> &SimDiskSpec {
        &self.spec
    }

    /// Takes the disk away: every request is answered [`IoErrorKind::Gone`] until it reappears. Requests under way
    /// may have reached the medium, in part or in full.
    pub fn disappear(&self, how: Disappearance) {
        let mut state = self.world.lock();
        let state = &mut *state;
        let engine = &mut state.disks[self.index as usize];
        if engine.present {
            let requests = engine.disappear(how == Disappearance::PowerLoss, &mut state.schedule);
            state.release(self.index, requests);
        }
    }

    /// Brings the disk back with what it held.
    pub fn reappear(&self) {
        self.with(|engine, _| engine.present = true);
    }

    /// Whether the disk answers.
    pub fn is_present(&self) -> bool {
        self.with(|engine, _| engine.present)
    }

    /// Makes reads that touch `range` fail with [`IoErrorKind::Media`].
    pub fn fail_reads(&self, range: Range<u64>, persistence: ErrorPersistence) {
        self.with(|engine, _| engine.faults.add_read(range, persistence));
    }

    /// Makes writes that touch `range` fail with [`IoErrorKind::Media`]. A failed write may have changed its range, in
    /// part or in full.
    pub fn fail_writes(&self, range: Range<u64>, persistence: ErrorPersistence) {
        self.with(|engine, _| engine.faults.add_write(range, persistence));
    }

    /// Makes the next `count` writes fail, wherever they go.
    pub fn fail_next_writes(&self, count: u32) {
        self.fail_writes(0..u64::MAX, ErrorPersistence::Times(count));
    }

    /// Makes the next `count` flushes fail; what they would have covered stays uncertain.
    pub fn fail_next_flushes(&self, count: u32) {
        self.with(|engine, _| engine.faults.add_flushes(count));
    }

    /// Dead electronics: the disk is there, and every request fails with [`IoErrorKind::Media`].
    pub fn fail_everything(&self) {
        self.with(|engine, _| engine.faults.dead = true);
    }

    /// Takes all faults away: of reads, writes and flushes, strays to come, and dead electronics.
    pub fn clear_faults(&self) {
        self.with(|engine, _| engine.faults.clear());
    }

    /// Flips one to eight bits in each block that `range` touches, within the range, without a word. What lies in the
    /// volatile cache there is written back first.
    pub fn corrupt(&self, range: Range<u64>) {
        self.with(|engine, random| {
            let range = range.start..range.end.min(engine.spec.size_bytes);
            if range.start < range.end {
                engine.content.corrupt(range, random);
            }
        });
    }

    /// Lets the next write land at `to_offset` (rounded down to 4 KiB) in place of where it belongs, and be
    /// acknowledged.
    pub fn misdirect_next_write(&self, to_offset: u64) {
        self.with(|engine, _| engine.faults.add_stray(Stray::To(to_offset / BLOCK_BYTES * BLOCK_BYTES)));
    }

    /// Lets the next write be acknowledged and never done.
    pub fn lose_next_write(&self) {
        self.with(|engine, _| engine.faults.add_stray(Stray::Lost));
    }

    /// What a read would see now, without being one; errors and absence do not matter.
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.with(|engine, _| engine.content.read(offset, &mut bytes));
        bytes
    }

    /// Changes the medium, durably and without being a write. What lies in the volatile cache there is written back
    /// first.
    pub fn poke(&self, offset: u64, data: &[u8]) {
        self.with(|engine, _| engine.content.poke(offset, data));
    }

    /// All that a read would see now, to set the disk back to later.
    pub fn image(&self) -> SimImage {
        SimImage(self.with(|engine, _| engine.content.image()))
    }

    /// Makes the disk what it was when an image was taken, as if it had been put back on it.
    pub fn set_back(&self, image: &SimImage) {
        self.with(|engine, _| engine.content.set_back(&image.0));
    }

    /// Makes whole blocks of the disk what they were when an image was taken, as if it had lost what was written to them
    /// since, and kept all else.
    pub fn lose_writes(&self, range: Range<u64>, image: &SimImage) {
        self.with(|engine, _| engine.content.set_back_range(&image.0, range));
    }

    /// Enlarges the disk to `size_bytes`; it never shrinks.
    ///
    /// # Panics
    /// If the size is no multiple of 4 KiB.
    pub fn grow(&self, size_bytes: u64) {
        assert!(
            size_bytes.is_multiple_of(BLOCK_BYTES),
            "{}: size {size_bytes} is not in blocks of 4 KiB",
            self.spec.name
        );
        self.with(|engine, _| engine.spec.size_bytes = engine.spec.size_bytes.max(size_bytes));
    }

    /// What the disk has done so far.
    pub fn counters(&self) -> SimCounters {
        self.with(|engine, _| engine.counters)
    }

    /// Bytes of acknowledged writes that a power cut may still take.
    pub fn cached_bytes(&self) -> u64 {
        self.with(|engine, _| engine.content.cached_bytes())
    }

    /// Memory that the content takes, roughly.
    pub fn allocated_bytes(&self) -> u64 {
        self.with(|engine, _| engine.content.allocated_bytes())
    }

    fn submit(&self, offset: u64, len: u64, operation: Operation) -> Result<super::request::ReplySlot, IoError> {
        let mut state = self.world.lock();
        let size_bytes = state.disks[self.index as usize].spec.size_bytes;
        let fits = offset.checked_add(len).is_some_and(|end| end <= size_bytes);
        if !fits || !offset.is_multiple_of(BLOCK_BYTES) || !len.is_multiple_of(BLOCK_BYTES) {
            let context = format!(
                "simulated disk {}: {len} bytes at {offset} of {size_bytes}; ask for whole blocks of 4 KiB within the size",
                self.spec.name
            );
            return Err(IoError::new(IoErrorKind::Invalid, context));
        }
        Ok(state.submit(self.index, operation))
    }

    fn change(&self, offset: u64, len: u64, operation: Operation) -> Io<()> {
        match self.submit(offset, len, operation) {
            Ok(answer) => Io::pending(async move { answer.await.map(drop) }),
            Err(error) => Io::ready(Err(error)),
        }
    }
}

impl Device for SimDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.with(|engine, _| engine.spec.size_bytes),
            logical_sector_bytes: self.spec.logical_sector_bytes,
            physical_sector_bytes: self.spec.tear_bytes,
            rotational: self.spec.media == Media::Hdd,
            discard: self.spec.discard,
        }
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        match self.submit(offset, buf.len() as u64, Operation::Read { offset, buf }) {
            Ok(answer) => {
                Io::pending(async move { answer.await.map(|buf| buf.expect("a read gives its buffer back")) })
            }
            Err(error) => Io::ready(Err(error)),
        }
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.change(offset, data.len() as u64, Operation::Write { offset, data, durability })
    }

    fn flush(&self) -> Io<()> {
        let mark = self.with(|engine, _| engine.answers + 1);
        self.change(0, 0, Operation::Flush { mark })
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.change(offset, len, Operation::Discard { offset, len })
    }
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimDisk({})", self.spec.name)
    }
}
