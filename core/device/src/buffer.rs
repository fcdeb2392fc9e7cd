//! Aligned buffers that travel by ownership.
//!
//! An [`IoBuf`] is the only owner of a range of bytes of one allocation, and may be split into disjoint parts that are
//! filled by different disks and joined again. [`IoBuf::freeze`] turns it into an [`IoSlice`], which is shared by
//! reference and never changes again, so that one payload goes to several disks without a copy.
//!
//! ```text
//!   allocation   |--------------------------------------|  4 KiB aligned
//!   IoBuf a      |-----------|
//!   IoBuf b                  |--------------------------|   split_to: never overlapping
//! ```
//!
//! Invariant: no two `IoBuf`s share a byte, and no `IoBuf` shares a byte with an `IoSlice`. Freed memory is kept in a
//! small stack per thread and size class, last in, first out, so that steady load runs in cache-warm memory.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every allocation, which is enough for direct I/O on any disk.
pub const ALIGN_BYTES: usize = 4096;
const CLASSES: usize = 14;
/// Bytes that a thread keeps for reuse, at most.
pub const KEPT_BYTES_PER_THREAD: usize = 32 << 20;

struct Block {
    start: NonNull<u8>,
    class: u8,
}

// SAFETY: a block is plain memory without ties to a thread; who may touch which byte is settled by IoBuf and IoSlice.
unsafe impl Send for Block {}
// SAFETY: as above; a shared block is only reached through disjoint IoBufs or immutable IoSlices.
unsafe impl Sync for Block {}

#[derive(Default)]
struct Kept {
    classes: [Vec<NonNull<u8>>; CLASSES],
    bytes: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (class, blocks) in self.classes.iter_mut().enumerate() {
            for start in blocks.drain(..) {
                // SAFETY: kept blocks were allocated with the layout of their class and are owned by this list alone.
                unsafe { dealloc(start.as_ptr(), layout_of(class)) };
            }
        }
    }
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

fn layout_of(class: usize) -> Layout {
    Layout::from_size_align(ALIGN_BYTES << class, ALIGN_BYTES).expect("a size class is far below the address space")
}

fn class_of(len: usize) -> usize {
    len.max(1).div_ceil(ALIGN_BYTES).next_power_of_two().trailing_zeros() as usize
}

impl Block {
    fn allocate(len: usize) -> Self {
        let class = class_of(len);
        let kept = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let start = kept.classes.get_mut(class)?.pop()?;
            kept.bytes -= ALIGN_BYTES << class;
            Some(start)
        });
        let start = kept.ok().flatten().unwrap_or_else(|| {
            let layout = layout_of(class);
            // SAFETY: the layout has a size of at least 4 KiB.
            NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
        });
        Self { start, class: class as u8 }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let class = usize::from(self.class);
        let kept = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let bytes = ALIGN_BYTES << class;
            if class >= CLASSES || kept.bytes + bytes > KEPT_BYTES_PER_THREAD {
                return false;
            }
            kept.bytes += bytes;
            kept.classes[class].push(self.start);
            true
        });
        if !kept.unwrap_or(false) {
            // SAFETY: allocated with this very layout, and nobody refers to it any more.
            unsafe { dealloc(self.start.as_ptr(), layout_of(class)) };
        }
    }
}

/// The only owner of a range of aligned memory. Always initialised; fresh memory holds zeros or old payload.
pub struct IoBuf {
    block: Arc<Block>,
    at: usize,
    len: usize,
}

impl IoBuf {
    /// A buffer of `len` bytes of unspecified content.
    pub fn new(len: usize) -> Self {
        Self { block: Arc::new(Block::allocate(len)), at: 0, len }
    }

    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::new(len);
        buf.fill(0);
        buf
    }

    /// A buffer with a copy of `bytes`, padded with zeros to whole 4 KiB.
    pub fn padded(bytes: &[u8]) -> Self {
        let mut buf = Self::new(bytes.len().next_multiple_of(ALIGN_BYTES));
        buf[..bytes.len()].copy_from_slice(bytes);
        buf[bytes.len()..].fill(0);
        buf
    }

    /// Cuts the first `len` bytes off into a buffer of their own.
    ///
    /// # Panics
    /// If `len` is beyond the end.
    pub fn split_to(&mut self, len: usize) -> Self {
        assert!(len <= self.len, "split at {len} of {}", self.len);
        let front = Self { block: self.block.clone(), at: self.at, len };
        self.at += len;
        self.len -= len;
        front
    }

    /// Joins `next`, which must have been cut from right behind this one.
    ///
    /// # Panics
    /// If it was not.
    pub fn join(&mut self, next: Self) {
        assert!(self.try_join(next).is_ok(), "only neighbours of one buffer are joined");
    }

    /// As [`IoBuf::join`], but gives a stranger back.
    pub fn try_join(&mut self, next: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(&self.block, &next.block) || self.at + self.len != next.at {
            return Err(next);
        }
        self.len += next.len;
        Ok(())
    }

    /// Shortens the buffer to its first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Gives up the right to change it, and makes it shareable.
    pub fn freeze(self) -> IoSlice {
        IoSlice { block: self.block, at: self.at, len: self.len }
    }
}

impl Deref for IoBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies within the block, is initialised, and nobody else may write to it.
        unsafe { std::slice::from_raw_parts(self.block.start.as_ptr().add(self.at), self.len) }
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for Deref; no other IoBuf or IoSlice covers these bytes.
        unsafe { std::slice::from_raw_parts_mut(self.block.start.as_ptr().add(self.at), self.len) }
    }
}

impl std::fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len)
    }
}

/// A shared range of memory that does not change.
#[derive(Clone)]
pub struct IoSlice {
    block: Arc<Block>,
    at: usize,
    len: usize,
}

impl IoSlice {
    /// A copy of `bytes` padded with zeros to whole 4 KiB.
    pub fn padded(bytes: &[u8]) -> Self {
        IoBuf::padded(bytes).freeze()
    }

    /// The part from `at`, `len` bytes long, of the same memory.
    ///
    /// # Panics
    /// If it is not within.
    pub fn slice(&self, at: usize, len: usize) -> Self {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len), "part {at}+{len} of {}", self.len);
        Self { block: self.block.clone(), at: self.at + at, len }
    }
}

impl Deref for IoSlice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies within the block, is initialised, and nobody may write to it.
        unsafe { std::slice::from_raw_parts(self.block.start.as_ptr().add(self.at), self.len) }
    }
}

impl std::fmt::Debug for IoSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoSlice({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_join_again() {
        let mut whole = IoBuf::zeroed(3 * 4096);
        let mut front = whole.split_to(4096);
        front.fill(1);
        whole.fill(2);
        assert!(front.iter().all(|byte| *byte == 1));
        front.join(whole);
        assert_eq!((front.len(), front[4095], front[4096]), (3 * 4096, 1, 2));
        let shared = front.freeze();
        assert!(shared.slice(4096, 8192).iter().all(|byte| *byte == 2));
    }

    #[test]
    #[should_panic(expected = "neighbours")]
    fn strangers_do_not_join() {
        IoBuf::new(4096).join(IoBuf::new(4096));
    }

    #[test]
    fn memory_is_aligned_and_reused() {
        let first = IoBuf::new(70_000);
        let address = first.as_ptr() as usize;
        assert_eq!(address % ALIGN_BYTES, 0);
        drop(first);
        assert_eq!(IoBuf::new(100_000).as_ptr() as usize, address);
    }

    #[test]
    fn buffers_beyond_the_largest_class_work() {
        let len = (ALIGN_BYTES << CLASSES) + 1;
        assert_eq!(IoBuf::zeroed(len).len(), len);
    }
}
