//! Block checksums: what a disk answers is compared with what was written there, so that silent corruption is never
//! served.
//!
//! A column's copies hold the same, so they share one set of checksums in memory; each slab of a row with parity has
//! its own. On disk every slab has those of its blocks behind its data. They are read when they are needed, kept within
//! a limit, and written behind the data they tell of.
//!
//! Invariants:
//! - Who has the turn of a block changes its checksum, after the block and before the turn ends. So a block that
//!   is other than its checksum says, while its turn is held, is corrupt.
//! - A region of a simple or mirrored row is unmarked only when every copy has its checksums durably. After a crash
//!   those of marked regions are no more than a hint as to which of several copies is right.
//! - The journal of a parity row keeps what was destaged until its checksums are durable.
//! - Of several sectors that tell of the same region the one with the highest version counts; in a row with parity, one
//!   that is older than what another slab claims of it counts for nothing.
//! - A block that was written and is not marked has a checksum on every slab that has it. One without is unproven:
//!   other slabs settle what it holds, or reads of it fail.

mod cache;
mod claim;
mod pages;
mod sector;
mod slabs;
mod versions;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use holdfast_device::IoBuf;
use holdfast_model::BLOCK_BYTES;
use holdfast_pool::PoolDisk;

use crate::column::Blocks;
use crate::lock_order::{Held, TaskLock, rank};

use sector::PageOwner;
use versions::DurableVersions;

pub use cache::ChecksumCache;
use pages::PageToWrite;
pub use pages::{Ages, Check, KnownSum, Pages, Versions};
pub use sector::{PAGE_BLOCKS, PAGE_REGIONS, RegionSums, sums_of};

/// How a slab does not have a page of checksums as it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// It holds something else.
    Otherwise,
    /// It cannot read it.
    Unreadable,
}

/// Blocks whose checksums are computed before they are compared.
const BATCH_BLOCKS: usize = 64;

/// The checksums of an open row.
pub struct Checksums {
    sets: Box<[Mutex<Pages>]>,
    /// Held while a page is read.
    reading: TaskLock<{ rank::SUMS_READING }>,
    /// Held while pages are written: of two writes of a page the later one holds more.
    writing: TaskLock<{ rank::SUMS_WRITING }>,
    /// Sets and pages that were read and lacked something, be it of blocks that hold nothing.
    lacking: Mutex<BTreeSet<(usize, u32)>>,
    /// Sets and regions that a copy had an older version of, whose blocks are to be compared.
    older: Mutex<BTreeSet<(usize, u32)>>,
    /// Which versions are durable, where the row has parity.
    claims: Option<Mutex<DurableVersions>>,
    /// How often a slab came to count that may not have been asked.
    doubts: AtomicU64,
    cache: Arc<ChecksumCache>,
}

/// Pages that were written, and are on disk once the disks are flushed.
#[derive(Default)]
pub struct SumsWritten(Vec<(usize, u32, Written)>);

impl SumsWritten {
    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How old a page was when it was written, of which versions, and to which slabs on which disks at which of their outage
/// counts.
struct Written {
    ages: Ages,
    versions: Versions,
    slabs: Vec<(usize, Arc<PoolDisk>, u32)>,
}

impl Checksums {
    /// Of so many sets of so many blocks; `blank` where the disks have nothing of them, `claims` where the slabs of a
    /// row with parity claim versions of one another.
    pub fn new(sets: usize, blocks: u32, blank: bool, claims: bool, cache: Arc<ChecksumCache>) -> Arc<Self> {
        let claims = claims.then(|| Mutex::new(DurableVersions::new(sets)));
        let sets = (0..sets).map(|_| Mutex::new(Pages::new(blocks, blank))).collect();
        let (reading, writing) = (TaskLock::default(), TaskLock::default());
        let (lacking, older) = (Mutex::default(), Mutex::default());
        Arc::new(Self { sets, reading, writing, lacking, older, claims, doubts: AtomicU64::new(0), cache })
    }

    fn claims(&self) -> Option<MutexGuard<'_, DurableVersions>> {
        self.claims.as_ref().map(|claims| claims.lock().expect("no panic while held"))
    }

    fn set(&self, set: usize) -> MutexGuard<'_, Pages> {
        self.sets[set].lock().expect("no panic while held")
    }

    fn counted<T>(&self, set: usize, change: impl FnOnce(&mut Pages) -> T) -> T {
        let mut pages = self.set(set);
        let count = |pages: &Pages| (pages.count(), pages.behind().len());
        let before = count(&pages);
        let result = change(&mut pages);
        self.cache.changed(before, count(&pages));
        result
    }

    fn admit(self: &Arc<Self>, set: usize, added: impl IntoIterator<Item = u32>) {
        for page in added {
            self.cache.admit(self, set, page);
        }
    }

    /// Takes the checksums of what was written to a slab. The turn of its blocks must be held.
    pub fn note_data(self: &Arc<Self>, set: usize, first: u32, data: &[u8]) {
        self.note(set, first, &sums_of(data).collect::<Vec<u32>>());
    }

    /// Takes the checksums of blocks that were written. Their turn must be held.
    pub fn note(self: &Arc<Self>, set: usize, first: u32, checksums: &[u32]) {
        self.note_from(set, first, checksums, false);
    }

    /// As [`Checksums::note`], of checksums that came with the blocks if they were `given`.
    pub fn note_from(self: &Arc<Self>, set: usize, first: u32, checksums: &[u32], given: bool) {
        let added = self.counted(set, |pages| pages.note(first, checksums.iter().map(|sum| Some(*sum)), given));
        self.admit(set, added);
    }

    /// Notes that nobody knows what blocks hold: a write of them was cut short. Their turn must be held.
    pub fn forget(self: &Arc<Self>, set: usize, blocks: Blocks) {
        let added =
            self.counted(set, |pages| pages.note(blocks.start, (blocks.start..blocks.end).map(|_| None), false));
        self.admit(set, added);
    }

    /// Compares blocks with their checksums, but for those in `holes`. These are counted from `first` on, and `data`
    /// begins `offset` blocks behind that.
    fn check(&self, set: usize, first: u32, offset: u32, data: &[u8], holes: &[(u32, u32)]) -> Check {
        let mut found = Check::Right;
        for (index, batch) in data.chunks(BATCH_BLOCKS * BLOCK_BYTES as usize).enumerate() {
            let mut checksums = [0; BATCH_BLOCKS];
            let len = batch.len() / BLOCK_BYTES as usize;
            checksums.iter_mut().zip(sums_of(batch)).for_each(|(into, sum)| *into = sum);
            match self.set(set).check(first, &checksums[..len], holes, offset + (index * BATCH_BLOCKS) as u32) {
                Check::Unread => return Check::Unread,
                check => found = found.and(check),
            }
        }
        found
    }

    /// Sets and pages that lacked something when they were read, each once.
    pub fn take_lacking(&self) -> BTreeSet<(usize, u32)> {
        std::mem::take(&mut *self.lacking.lock().expect("no panic while held"))
    }

    /// Notes that a page lacks something.
    pub fn note_lacking(&self, set: usize, page: u32) {
        self.lacking.lock().expect("no panic while held").insert((set, page));
    }

    /// What a page lacks is of blocks that hold nothing.
    pub fn forget_lacking(&self, set: usize, page: u32) {
        self.lacking.lock().expect("no panic while held").remove(&(set, page));
    }

    /// A page as it is to be written, and what it is to claim; `None` where it must be read first.
    fn begin_write(&self, set: usize, page: u32) -> Option<(PageToWrite, Vec<u64>)> {
        let (claimed, claims) = match self.claims() {
            Some(claims) => (claims.of_slab(set, page), claims.of(page)),
            None => Default::default(),
        };
        self.set(set).begin_write(page, &claimed).map(|page| (page, claims))
    }

    /// A page with what it is to claim, and where it belongs; `None` where the disks do not have it as it is, whole.
    fn seal_whole(&self, set: usize, page: u32, owner: &PageOwner) -> Option<(u64, IoBuf)> {
        let claims = self.claims()?.of(page);
        let pages = self.set(set);
        Some((owner.offset, owner.seal(pages.whole(page)?, &claims)))
    }

    /// Notes that a copy had an older version of a region.
    fn note_older(&self, set: usize, region: u32) {
        self.older.lock().expect("no panic while held").insert((set, region));
    }

    /// Gives back what was taken, and not dealt with.
    pub fn return_older(&self, older: impl IntoIterator<Item = (usize, u32)>) {
        self.older.lock().expect("no panic while held").extend(older);
    }

    /// Regions of sets that a copy had an older version of, each once.
    pub fn take_older(&self) -> BTreeSet<(usize, u32)> {
        std::mem::take(&mut *self.older.lock().expect("no panic while held"))
    }

    /// Whether the disks do not have the checksums of a region as they are.
    pub fn is_region_behind(&self, set: usize, region: u32) -> bool {
        self.set(set).is_region_behind(region)
    }

    /// How many pages a set has.
    pub fn pages(&self, set: usize) -> u32 {
        self.set(set).len()
    }

    /// Whether the disks have all.
    pub fn is_settled(&self) -> bool {
        self.sets.iter().all(|set| set.lock().expect("no panic while held").behind().is_empty())
    }

    /// Whether versions are durable that are to be claimed yet.
    pub fn is_claim_due(&self) -> bool {
        self.claims().is_some_and(|claims| claims.is_due())
    }

    /// Notes that a page was claimed by every slab that can take it.
    fn end_claim(&self, page: u32) {
        if let Some(mut claims) = self.claims() {
            claims.end_unclaimed(page);
            if !self.is_held(page) {
                claims.evict(page);
            }
        }
    }

    /// Whether a page of any set is in memory.
    fn is_held(&self, page: u32) -> bool {
        self.sets.iter().any(|set| set.lock().expect("no panic while held").is_held(page))
    }

    /// As long as it is held, no page is written.
    pub async fn hold_writes(&self) -> Held<'_, { rank::SUMS_WRITING }> {
        self.writing.lock().await
    }

    /// Has pages of a set read anew, since a slab counts that may not have been asked: what it has may be newer. In a
    /// row with parity, those of all sets, of which it may claim versions.
    pub fn doubt(&self, set: usize) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
        let sets = match self.claims() {
            Some(mut claims) => {
                claims.doubt();
                0..self.sets.len()
            }
            None => set..set + 1,
        };
        sets.for_each(|set| self.counted(set, Pages::doubt));
    }

    /// How often that was.
    fn doubts(&self) -> u64 {
        self.doubts.load(Ordering::Acquire)
    }

    /// The version of a region, as far as it is in memory.
    pub fn version(&self, set: usize, region: u32) -> u64 {
        self.set(set).version(region)
    }

    /// Forgets a set: its slab is on another disk now, which has nothing of it.
    pub fn clear(&self, set: usize) {
        self.counted(set, Pages::clear);
    }

    /// Gives the memory of a page back, unless it is in use. Answers whether it is gone.
    fn evict(&self, set: usize, page: u32) -> bool {
        let is_gone = self.counted(set, |pages| pages.evict(page));
        if let (true, Some(mut claims)) = (is_gone, self.claims())
            && !self.is_held(page)
        {
            claims.evict(page);
        }
        is_gone
    }

    /// Pages of a set of which the disks do not have a region that `wanted` names.
    fn behind(&self, set: usize, wanted: &dyn Fn(usize, u32) -> bool) -> Vec<u32> {
        let pages = self.set(set);
        let named = |page: &u32| (page * PAGE_REGIONS..(page + 1) * PAGE_REGIONS).any(|region| wanted(set, region));
        pages.behind().iter().copied().filter(named).collect()
    }
}

impl Drop for Checksums {
    fn drop(&mut self) {
        for set in &self.sets {
            let pages = set.lock().expect("no panic while held");
            self.cache.changed((pages.count(), pages.behind().len()), (0, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_few_slabs_can_take_ends_and_keeps_no_memory() {
        let checksums = Checksums::new(4, 512, false, true, ChecksumCache::new(1 << 20));
        let claims = || checksums.claims().expect("a row with parity");
        claims().note_durable(1, 0, &[3; PAGE_REGIONS as usize]);
        assert!(checksums.is_claim_due());
        assert!(claims().unclaimed(false).is_empty());
        assert_eq!(claims().unclaimed(false), [0]);
        assert_eq!(claims().of_slab(1, 0), [3; PAGE_REGIONS as usize]);
        checksums.end_claim(0);
        assert!(!checksums.is_claim_due());
        assert_eq!(claims().of_slab(1, 0), [0; PAGE_REGIONS as usize], "nobody has the page in memory");
    }

    #[test]
    fn what_the_slabs_claim_is_asked_again_when_one_comes_back() {
        let checksums = Checksums::new(3, 512, false, true, ChecksumCache::new(1 << 20));
        checksums.claims().expect("a row with parity").take(0, &[], true);
        checksums.set(2).take_read(0, &[None; PAGE_REGIONS as usize], false);
        checksums.doubt(1);
        assert!(!checksums.claims().expect("a row with parity").is_read(0));
        assert!(checksums.set(2).is_unread(0));
    }
}
