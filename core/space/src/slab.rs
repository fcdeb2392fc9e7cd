//! The slabs of an open row, each of which may get another disk while the row is in use.
//!
//! A slab is in step at a certain outage count of its disk. One load of that count tells whether it may be read; where
//! the counts differ, the pool's record decides.
//!
//! Invariant: a slab gets another disk only where it is neither in step nor joining, or where nobody changes its row
//! and the new place holds the same; a request that reads the old one keeps it from being given to others.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};
use holdfast_device::{IoError, IoErrorKind};
use holdfast_pool::{FreedRow, Pool, PoolDisk, RowRecord, SlabPlace};

/// Never an outage count of a disk in service.
const NOT_IN_STEP: u32 = u32::MAX;

/// One copy of one column, or one column of a row with parity.
pub struct Slab {
    /// Its disk.
    pub disk: Arc<PoolDisk>,
    /// Where it begins on the disk.
    pub start: u64,
    head_bytes: u64,
    in_step_at: AtomicU32,
    joining: AtomicBool,
    /// Whether the pool has it written down that the slab is stale.
    stale_recorded: AtomicBool,
    /// Whether the pool has it written down that it may have missed any write at all.
    outdated: AtomicBool,
    /// Whether nothing proves what it holds, whatever the pool has written down.
    distrusted: AtomicBool,
    /// Its units, once the row has the slab elsewhere: free for others when the last request that knows them is over.
    left: Mutex<Option<FreedRow>>,
}

impl Slab {
    /// A slab of a row at a place of the pool, not in step as far as is known.
    pub fn new(pool: &Pool, row: &RowRecord, place: &SlabPlace) -> Result<Self, IoError> {
        let disk = pool
            .disk(place.disk())
            .ok_or_else(|| IoError::new(IoErrorKind::Gone, format!("disk {} of a row", place.disk())))?;
        Ok(Self {
            start: disk.area.unit_at(place.unit()),
            head_bytes: row.slab_head_bytes(),
            disk,
            in_step_at: AtomicU32::new(NOT_IN_STEP),
            joining: AtomicBool::new(false),
            stale_recorded: AtomicBool::new(false),
            outdated: AtomicBool::new(false),
            distrusted: AtomicBool::new(false),
            left: Mutex::default(),
        })
    }

    /// Whether it holds everything that was written, and its disk is in service.
    pub fn usable(&self) -> bool {
        self.disk.outages() == self.in_step_at.load(Ordering::Acquire)
    }

    /// Whether it is being brought in step, and so takes every write.
    pub fn joining(&self) -> bool {
        self.joining.load(Ordering::SeqCst)
    }

    /// Whether it gets what is written: it is in step, or about to be.
    pub fn takes_writes(&self) -> bool {
        self.usable() || self.joining()
    }

    /// Begins to take every write without being in step; false if it does already.
    pub fn begin_joining(&self) -> bool {
        !self.joining.swap(true, Ordering::SeqCst)
    }

    /// Ends to take every write without being in step.
    pub fn end_joining(&self) {
        self.joining.store(false, Ordering::SeqCst);
    }

    /// Notes that it is in step as of an outage count.
    pub fn set_in_step(&self, outages: u32) {
        self.stale_recorded.store(false, Ordering::Release);
        self.in_step_at.store(outages, Ordering::Release);
    }

    /// Notes that it missed a write.
    pub fn set_behind(&self) {
        self.in_step_at.store(NOT_IN_STEP, Ordering::Release);
    }

    /// Whether the pool has it written down that it is stale.
    pub fn stale_recorded(&self) -> bool {
        self.stale_recorded.load(Ordering::Acquire)
    }

    /// Does not count any more as long as the row is open: nothing proves what it holds.
    pub fn distrust(&self) {
        self.distrusted.store(true, Ordering::Release);
        self.set_behind();
    }

    /// Whether it does not count, whatever the pool has written down.
    pub fn is_distrusted(&self) -> bool {
        self.distrusted.load(Ordering::Acquire)
    }

    /// Whether the pool has it written down that it may have missed any write at all.
    pub fn outdated(&self) -> bool {
        self.outdated.load(Ordering::Acquire)
    }

    /// Whether it counts again after an outage once the pool's word is taken over: what its disk had not made durable
    /// before is lost.
    pub fn returns(&self, place: &SlabPlace, online: bool, outages: u32) -> bool {
        let known = self.in_step_at.load(Ordering::Acquire);
        self.counts(place, online, outages) && known != outages && known != NOT_IN_STEP
    }

    /// Whether it counts once the pool's word is taken over, and does not as long as it is not.
    pub fn begins(&self, place: &SlabPlace, online: bool, outages: u32) -> bool {
        self.counts(place, online, outages) && self.in_step_at.load(Ordering::Acquire) != outages
    }

    fn counts(&self, place: &SlabPlace, online: bool, outages: u32) -> bool {
        let may = !place.stale() && !self.is_distrusted();
        may && online && outages.is_multiple_of(2)
    }

    /// Takes over what the pool has written down, as of an outage count of its disk.
    pub fn refresh(&self, place: &SlabPlace, online: bool, outages: u32) {
        self.stale_recorded.store(place.stale(), Ordering::Release);
        self.outdated.store(place.outdated(), Ordering::Release);
        if place.stale() || self.is_distrusted() {
            self.set_behind();
        } else if self.counts(place, online, outages) {
            self.in_step_at.store(outages, Ordering::Release);
        }
    }

    /// Keeps its units taken as long as anybody knows it.
    pub fn hold(&self, left: FreedRow) {
        *self.left.lock().expect("no panic while held") = Some(left);
    }

    /// Whether its disk is attached and rotates.
    pub fn rotates(&self) -> bool {
        self.disk.geometry().is_some_and(|geometry| geometry.rotational)
    }

    /// Where a byte of the column is on the disk.
    pub fn at(&self, offset: u64) -> u64 {
        self.start + self.head_bytes + offset
    }
}

/// The slabs of a row: `column * copies + copy`.
pub struct Slabs(Box<[ArcSwap<Slab>]>);

impl Slabs {
    /// The slabs of a row.
    pub fn new(pool: &Pool, row: &RowRecord) -> Result<Self, IoError> {
        let slab = |place| Slab::new(pool, row, place).map(ArcSwap::from_pointee);
        row.slabs.iter().map(slab).collect::<Result<_, _>>().map(Self)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// One of them, as it is now.
    pub fn get(&self, index: usize) -> Guard<Arc<Slab>> {
        self.0[index].load()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Guard<Arc<Slab>>> {
        self.0.iter().map(ArcSwap::load)
    }

    /// Puts one in the place of another that is not in step.
    pub fn replace(&self, index: usize, slab: Slab) {
        self.0[index].store(Arc::new(slab));
    }
}
