//! A device over another one: what is written stays in memory, so that a wreck can be repaired without touching it.
//!
//! ```text
//!   0 ──────────── the wreck ────────────│── room that only memory has ──│
//! ```
//!
//! Invariant: the device below is only read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_device::{Copies, Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::BLOCK_BYTES;

const BLOCK: usize = BLOCK_BYTES as usize;

/// The device.
pub(crate) struct Overlay {
    below: Arc<dyn Device>,
    copies: Option<Arc<dyn Copies>>,
    size_bytes: u64,
    /// Blocks that may be written, at most.
    most: usize,
    written: Arc<Mutex<HashMap<u64, IoSlice>>>,
}

impl Overlay {
    /// Over a device, with `room_bytes` behind it that may be written, and so many blocks in all.
    pub fn new(below: Arc<dyn Device>, copies: Option<Arc<dyn Copies>>, room_bytes: u64) -> Self {
        let size_bytes = below.geometry().size_bytes + room_bytes;
        Self { below, copies, size_bytes, most: (room_bytes / BLOCK_BYTES) as usize, written: Arc::default() }
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), IoError> {
        let is_whole = offset.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK);
        let is_within = offset.checked_add(len as u64).is_some_and(|end| end <= self.size_bytes);
        if is_whole && is_within {
            return Ok(());
        }
        Err(IoError::new(IoErrorKind::Invalid, format!("{len} bytes at {offset} are not within the device")))
    }

    /// Reads a range from copy `copy`, or from whichever serves.
    fn read_from(&self, copy: Option<usize>, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        if let Err(error) = self.check(offset, buf.len()) {
            return Io::ready(Err(error));
        }
        let end = self.below.geometry().size_bytes;
        let inside = end.saturating_sub(offset).min(buf.len() as u64) as usize;
        let reading = (inside > 0).then(|| match (copy, &self.copies) {
            (Some(copy), Some(copies)) => copies.read_copy(copy, offset, IoBuf::new(inside)),
            _ => self.below.read(offset, IoBuf::new(inside)),
        });
        let written = self.written.clone();
        Io::eager(async move {
            let below = match reading {
                Some(reading) => reading.await,
                None => Ok(IoBuf::new(0)),
            };
            let written = written.lock().unwrap_or_else(PoisonError::into_inner);
            let mut buf = buf;
            for (index, block) in buf.chunks_mut(BLOCK).enumerate() {
                let at = index * BLOCK;
                if let Some(found) = written.get(&(offset + at as u64)) {
                    block.copy_from_slice(found);
                } else if at < inside {
                    match &below {
                        Ok(below) => block.copy_from_slice(&below[at..at + BLOCK]),
                        Err(error) => return Err(error.clone()),
                    }
                } else {
                    block.fill(0);
                }
            }
            Ok(buf)
        })
    }
}

impl Device for Overlay {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.size_bytes, ..self.below.geometry() }
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.read_from(None, offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, _durability: Durability) -> Io<()> {
        if let Err(error) = self.check(offset, data.len()) {
            return Io::ready(Err(error));
        }
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() + data.len() / BLOCK > self.most {
            return Io::ready(Err(IoError::new(IoErrorKind::Invalid, "the repair needs more memory than it may take")));
        }
        for (index, block) in data.chunks(BLOCK).enumerate() {
            written.insert(offset + (index * BLOCK) as u64, IoSlice::padded(block));
        }
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }
}

impl Copies for Overlay {
    fn copies(&self, offset: u64, len: u64) -> usize {
        let end = self.below.geometry().size_bytes;
        match &self.copies {
            Some(copies) if offset.saturating_add(len) <= end => copies.copies(offset, len),
            _ => 1,
        }
    }

    fn read_copy(&self, n: usize, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.read_from(Some(n), offset, buf)
    }

    fn rewrite(&self, offset: u64, data: IoSlice) -> Io<()> {
        self.write(offset, data, Durability::Durable)
    }
}
