//! The device of a volume, and the further copies that it may have of each block.
//!
//! Invariant: a copy counts only if whoever asked for it accepts it by its checksum; what is not right in the first copy
//! is written over with what was accepted, by whoever knows that the place was not given to something else meanwhile.

use std::sync::Arc;

use holdfast_device::{Copies, Device, IoBuf};
use holdfast_model::BLOCK_BYTES;

use crate::cached::CachedDevice;
use crate::superblock::Superblock;
use crate::twins::Twinned;

/// A device, with its copies if it has any that can be told apart.
#[derive(Clone)]
pub(crate) struct Media {
    pub device: Arc<dyn Device>,
    pub copies: Option<Arc<dyn Copies>>,
    /// The same, where data of it may be kept in memory.
    pub cached: Option<Arc<CachedDevice>>,
}

impl Media {
    /// A device without further copies.
    pub fn of(device: Arc<dyn Device>) -> Self {
        Self { device, copies: None, cached: None }
    }

    /// A device with copies.
    pub fn with_copies(copies: Arc<dyn Copies>) -> Self {
        Self { device: copies.clone(), copies: Some(copies), cached: None }
    }

    /// A device of which data is kept in memory.
    pub fn with_cache(cached: Arc<CachedDevice>) -> Self {
        let copies = cached.has_copies().then(|| cached.clone() as Arc<dyn Copies>);
        Self { device: cached.clone(), copies, cached: Some(cached) }
    }

    /// The same as the metadata of a volume sees it: with twins, if the volume has them.
    pub fn for_metadata(&self, of: &Superblock) -> Self {
        if !of.has_twins() {
            return self.clone();
        }
        Self::with_copies(Arc::new(Twinned::new(self.device.clone(), self.copies.clone(), *of)))
    }

    /// Whether a range lies within the device, and begins where blocks do.
    pub fn has(&self, at: u64, len: usize) -> bool {
        at.is_multiple_of(BLOCK_BYTES)
            && at.checked_add(len as u64).is_some_and(|end| end <= self.device.geometry().size_bytes)
    }

    /// Reads what `accept` takes, from whichever copy has it; says whether the first one had not.
    pub async fn read<T>(
        &self,
        at: u64,
        len: usize,
        mut accept: impl FnMut(&IoBuf) -> Result<T, &'static str>,
    ) -> Result<(T, bool), &'static str> {
        if !self.has(at, len) {
            return Err("it lies beyond the device");
        }
        let first = match self.device.read(at, IoBuf::new(len)).await {
            Ok(buf) => accept(&buf),
            Err(_) => Err("it cannot be read"),
        };
        let why = match first {
            Ok(found) => return Ok((found, false)),
            Err(why) => why,
        };
        let other = self.other(at, len, |buf| accept(buf).ok()).await;
        other.map(|(found, _)| (found, true)).ok_or(why)
    }

    /// What can be read of a range of whole blocks: zeros for each block that cannot.
    pub async fn read_what_can_be(&self, at: u64, len: usize) -> IoBuf {
        if let Ok(buf) = self.device.read(at, IoBuf::new(len)).await {
            return buf;
        }
        let mut all = IoBuf::zeroed(len);
        for (block, place) in all.chunks_mut(BLOCK_BYTES as usize).zip((at..).step_by(BLOCK_BYTES as usize)) {
            if let Ok(buf) = self.device.read(place, IoBuf::new(block.len())).await {
                block.copy_from_slice(&buf);
            }
        }
        all
    }

    /// The first copy of a range that `accept` takes, and its bytes.
    pub async fn other<T>(
        &self,
        at: u64,
        len: usize,
        mut accept: impl FnMut(&IoBuf) -> Option<T>,
    ) -> Option<(T, IoBuf)> {
        let copies = self.copies.as_ref()?;
        for number in 0..copies.copies(at, len as u64) {
            if let Ok(buf) = copies.read_copy(number, at, IoBuf::new(len)).await
                && let Some(found) = accept(&buf)
            {
                return Some((found, buf));
            }
        }
        None
    }

    /// Brings all copies of a range to what `accept` takes of one of them; false where none has it. Nobody else may
    /// write there meanwhile.
    pub async fn mend(&self, at: u64, len: usize, accept: impl FnMut(&IoBuf) -> Option<()>) -> bool {
        let Some(copies) = &self.copies else { return false };
        match self.other(at, len, accept).await {
            Some(((), right)) => copies.rewrite(at, right.freeze()).await.is_ok(),
            None => false,
        }
    }
}
