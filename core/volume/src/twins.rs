//! Metadata written twice, where the device has each block once only.
//!
//! ```text
//!   write    the block and its twin, at once; answered when both are
//!   read     the block; whoever does not accept it asks for further copies, and the twin is one
//!   rewrite  both
//! ```
//!
//! Invariant: what was answered as written is in both places; a twin is never written without its block.

use std::sync::Arc;

use futures_util::future::join;
use holdfast_device::{Copies, Device, Durability, Geometry, Io, IoBuf, IoSlice};

use crate::superblock::Superblock;

/// A device as the metadata of a volume with twins sees it.
pub(crate) struct Twinned {
    device: Arc<dyn Device>,
    copies: Option<Arc<dyn Copies>>,
    /// What says where twins stand; its size does not matter for that.
    of: Superblock,
}

impl Twinned {
    pub fn new(device: Arc<dyn Device>, copies: Option<Arc<dyn Copies>>, of: Superblock) -> Self {
        Self { device, copies, of }
    }

    /// Copies that the device itself has.
    fn own(&self, offset: u64, len: u64) -> usize {
        self.copies.as_ref().map_or(1, |copies| copies.copies(offset, len))
    }

    fn read_own(&self, n: usize, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        match &self.copies {
            Some(copies) => copies.read_copy(n, offset, buf),
            None => self.device.read(offset, buf),
        }
    }

    /// Does the same to a block and its twin.
    fn both(&self, offset: u64, change: impl Fn(u64) -> Io<()>) -> Io<()> {
        let Some(twin) = self.of.twin_of(offset) else { return change(offset) };
        let (first, second) = (change(offset), change(twin));
        Io::eager(async move {
            let (first, second) = join(first, second).await;
            first.and(second)
        })
    }
}

impl Device for Twinned {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        self.device.read(offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        self.both(offset, |at| self.device.write(at, data.clone(), durability))
    }

    fn flush(&self) -> Io<()> {
        self.device.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        self.both(offset, |at| self.device.discard(at, len))
    }
}

impl Copies for Twinned {
    fn copies(&self, offset: u64, len: u64) -> usize {
        self.own(offset, len) + self.of.twin_of(offset).map_or(0, |twin| self.own(twin, len))
    }

    fn read_copy(&self, n: usize, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        let own = self.own(offset, buf.len() as u64);
        match self.of.twin_of(offset) {
            Some(twin) if n >= own => self.read_own(n - own, twin, buf),
            _ => self.read_own(n, offset, buf),
        }
    }

    fn rewrite(&self, offset: u64, data: IoSlice) -> Io<()> {
        self.both(offset, |at| match &self.copies {
            Some(copies) => copies.rewrite(at, data.clone()),
            None => self.device.write(at, data.clone(), Durability::Durable),
        })
    }
}
