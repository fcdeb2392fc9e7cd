//! A space as front ends see it: under the name of its export, read-only if so made, with its traffic counted.
//!
//! Invariant: this is the only way from a client to a space, so access is settled here, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_api::ExportCounters;
use holdfast_device::{Device, Durability, Extent, Io, IoBuf, IoError, IoErrorKind, IoSlice, Target, TargetInfo};
use holdfast_space::Space;

#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    discarded_bytes: AtomicU64,
}

fn count(operations: &AtomicU64, bytes: &AtomicU64, len: u64) {
    operations.fetch_add(1, Ordering::Relaxed);
    bytes.fetch_add(len, Ordering::Relaxed);
}

/// A space under the name of an export.
pub struct ExportTarget {
    name: String,
    description: String,
    read_only: bool,
    optimal_io_bytes: u32,
    space: Arc<Space>,
    counters: Counters,
}

impl ExportTarget {
    /// The export `name` of `space`, whose path is `path`.
    pub fn new(name: &str, path: &str, space: Arc<Space>, read_only: bool) -> Self {
        let shape = space.record().shape;
        Self {
            name: name.into(),
            description: format!("{path}, {shape}"),
            read_only,
            optimal_io_bytes: u32::try_from(shape.interleave.bytes()).unwrap_or(u32::MAX),
            space,
            counters: Counters::default(),
        }
    }

    /// What clients did so far.
    pub fn counters(&self) -> ExportCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ExportCounters {
            reads: get(&self.counters.reads),
            read_bytes: get(&self.counters.read_bytes),
            writes: get(&self.counters.writes),
            written_bytes: get(&self.counters.written_bytes),
            flushes: get(&self.counters.flushes),
            discards: get(&self.counters.discards),
            discarded_bytes: get(&self.counters.discarded_bytes),
        }
    }

    fn refused(&self) -> IoError {
        IoError::new(IoErrorKind::ReadOnly, format!("export {}", self.name))
    }
}

impl Target for ExportTarget {
    fn info(&self) -> TargetInfo {
        TargetInfo {
            name: self.name.clone(),
            description: self.description.clone(),
            geometry: self.space.geometry(),
            optimal_io_bytes: self.optimal_io_bytes,
            read_only: self.read_only || self.space.is_read_only(),
        }
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        count(&self.counters.reads, &self.counters.read_bytes, buf.len() as u64);
        self.space.read(offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        if self.read_only {
            return Io::ready(Err(self.refused()));
        }
        count(&self.counters.writes, &self.counters.written_bytes, data.len() as u64);
        self.space.write(offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        self.space.flush()
    }

    fn discard(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        if self.read_only {
            return Io::ready(Err(self.refused()));
        }
        count(&self.counters.discards, &self.counters.discarded_bytes, len);
        self.space.discard(offset, len, durability)
    }

    fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        if self.read_only {
            return Io::ready(Err(self.refused()));
        }
        count(&self.counters.discards, &self.counters.discarded_bytes, len);
        self.space.write_zeroes(offset, len, durability, keep_room)
    }

    fn cache(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn extents(&self, offset: u64, len: u64, max: usize) -> Io<Vec<Extent>> {
        self.space.extents(offset, len, max)
    }
}
