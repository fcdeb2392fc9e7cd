//! The checksums of a row on its slabs: read when they are needed, compared, written, and compared with one another.

use std::sync::Arc;

use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind};
use holdfast_model::BLOCK_BYTES;
use holdfast_pool::PoolDisk;

use crate::block_map::REGION_BLOCKS;
use crate::boxed_cold::boxed_cold;
use crate::column::Blocks;
use crate::lock_order::join_all;
use crate::parity::bytes_of;
use crate::row::Row;
use crate::slab::Slab;

use super::pages::{page_parts, pages_of};
use super::sector::{PAGE_BLOCKS, PAGE_BYTES, PAGE_REGIONS, PageOwner, RegionSums};
use super::{Check, Checksums, KnownSum, Odd, SumsWritten, Written};

/// Pages that are written at a time.
const PAGES_AT_ONCE: usize = 32;

/// What disks have of a page.
struct FoundPage {
    /// Of each region, where a sector of it proves itself.
    regions: Vec<Option<RegionSums>>,
    /// Whether a disk could not read it.
    failed: bool,
}

impl Row {
    /// The set of checksums that a slab belongs to.
    pub fn sums_set(&self, slab: usize) -> usize {
        slab / self.copies()
    }

    fn sums_page_of(&self, slab: &Slab, page: u32) -> PageOwner {
        let offset = slab.at(self.record.slab_data_bytes()) + u64::from(page) * PAGE_BYTES as u64;
        PageOwner { pool: self.pool.id(), disk: slab.disk.id, row: self.record.id, offset, page }
    }

    /// The slabs that take what is written of a set.
    fn sums_slabs(&self, set: usize) -> impl Iterator<Item = usize> + '_ {
        let first = set * self.copies();
        let takes = |index: &usize| self.slabs.get(*index).takes_writes();
        (first..first + self.copies()).filter(takes)
    }

    /// Reads the checksums of blocks that are not in memory.
    ///
    /// # Errors
    /// No slab that has them can be read.
    pub async fn read_sums(&self, set: usize, blocks: Blocks) -> Result<(), IoError> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        let unread = |page: &u32| checksums.set(set).is_unread(*page);
        if !pages_of(blocks).any(|page| unread(&page)) {
            return Ok(());
        }
        let _one = checksums.reading.lock().await;
        let wanted: Vec<u32> = pages_of(blocks).filter(unread).collect();
        let reads = join_all(wanted.iter().map(|page| self.read_sums_page(checksums, set, *page))).await;
        for (page, found) in wanted.into_iter().zip(reads) {
            let found = found?;
            let whole = |region: &Option<RegionSums>| region.is_some_and(|region| region.known == u64::MAX);
            if !checksums.set(set).is_blank(page) && !found.regions.iter().all(whole) {
                checksums.note_lacking(set, page);
            }
            let added = checksums.counted(set, |pages| pages.take_read(page, &found.regions, found.failed));
            checksums.admit(set, added.then_some(page));
        }
        Ok(())
    }

    /// Reads again what a page lacks because it could not be read, before it is written: what is written over is gone.
    pub async fn complete_sums_page(&self, checksums: &Checksums, set: usize, page: u32) {
        let failed = checksums.set(set).is_failed(page);
        if failed && let Ok(found) = self.read_sums_page(checksums, set, page).await {
            checksums.counted(set, |pages| pages.complete(page, &found.regions, found.failed));
        }
    }

    /// What the disks have of a page: of each region, what the first slab says that has it whole.
    async fn read_sums_page(&self, checksums: &Checksums, set: usize, page: u32) -> Result<FoundPage, IoError> {
        let mut found = FoundPage { regions: vec![None; PAGE_REGIONS as usize], failed: false };
        if checksums.set(set).is_blank(page) {
            return Ok(found);
        }
        // One that joins may have what counted before it went; only of a slab with parity nobody else has it.
        let in_step = |index: &usize| self.mirrored() <= self.slabs.get(*index).usable();
        let mut answered = false;
        for index in self.sums_slabs(set).filter(in_step).collect::<Vec<_>>() {
            match self.read_slab_sums(index, page).await {
                Ok(regions) => {
                    found.regions.iter_mut().zip(regions).for_each(|(found, region)| *found = found.or(region))
                }
                // What cannot be read there is lost; it is no reason to withhold the data.
                Err(error) if error.kind == IoErrorKind::Media => found.failed = true,
                Err(_) => continue,
            }
            answered = true;
            if found.regions.iter().all(Option::is_some) {
                break;
            }
        }
        if answered { Ok(found) } else { Err(self.too_few()) }
    }

    /// What a slab has of a page.
    pub async fn read_slab_sums(&self, index: usize, page: u32) -> Result<Vec<Option<RegionSums>>, IoError> {
        let slab = self.slabs.get(index);
        let owner = self.sums_page_of(&slab, page);
        match slab.disk.read(owner.offset, IoBuf::new(PAGE_BYTES)).await {
            Ok(bytes) => Ok(owner.open(&bytes)),
            Err(error) => {
                self.read_failed(&slab, &error).await;
                Err(error)
            }
        }
    }

    /// Compares blocks of a slab, reading their checksums if need be. Holes are counted from the first block.
    pub async fn check_sums(
        &self,
        slab: usize,
        first: u32,
        data: &[u8],
        holes: &[(u32, u32)],
    ) -> Result<Check, IoError> {
        let Some(checksums) = &self.checksums else { return Ok(Check::Right) };
        let set = self.sums_set(slab);
        let check = checksums.check(set, first, 0, data, holes);
        if check != Check::Unread {
            return Ok(check);
        }
        boxed_cold(self.read_and_check(checksums, slab, first, data, holes)).await
    }

    async fn read_and_check(
        &self,
        checksums: &Checksums,
        slab: usize,
        first: u32,
        data: &[u8],
        holes: &[(u32, u32)],
    ) -> Result<Check, IoError> {
        let set = self.sums_set(slab);
        let mut found = Check::Right;
        for part in page_parts(Blocks { start: first, end: first + (data.len() as u64 / BLOCK_BYTES) as u32 }) {
            let (offset, end) = (part.start - first, part.end - first);
            let data = &data[bytes_of(offset)..bytes_of(end)];
            loop {
                match checksums.check(set, first, offset, data, holes) {
                    Check::Unread => self.read_sums(set, part).await?,
                    check => break found = found.and(check),
                }
            }
        }
        Ok(found)
    }

    /// The checksums of blocks of a set, as far as they are known.
    pub async fn known_sums(&self, set: usize, blocks: Blocks) -> Result<Vec<Option<KnownSum>>, IoError> {
        let Some(checksums) = &self.checksums else { return Ok(vec![None; (blocks.end - blocks.start) as usize]) };
        let mut all = Vec::with_capacity((blocks.end - blocks.start) as usize);
        for part in page_parts(blocks) {
            loop {
                let known: Result<Vec<_>, ()> = {
                    let pages = checksums.set(set);
                    (part.start..part.end).map(|block| pages.known(block)).collect()
                };
                match known {
                    Ok(known) => break all.extend(known),
                    Err(()) => self.read_sums(set, part).await?,
                }
            }
        }
        Ok(all)
    }

    /// Writes pages that hold a region which `wanted` names, of a set, and which the disks do not have. They are on
    /// disk once the disks are flushed and [`Row::end_sums`] was called.
    pub async fn write_sums(&self, wanted: &dyn Fn(usize, u32) -> bool) -> Result<SumsWritten, IoError> {
        let mut written = SumsWritten::default();
        let Some(checksums) = &self.checksums else { return Ok(written) };
        let _one = checksums.writing.lock().await;
        for set in 0..checksums.sets.len() {
            for batch in checksums.behind(set, wanted).chunks(PAGES_AT_ONCE) {
                let writes = join_all(batch.iter().map(|page| self.write_sums_page(checksums, set, *page))).await;
                for (page, done) in batch.iter().zip(writes) {
                    written.0.extend(done?.map(|done| (set, *page, done)));
                }
            }
        }
        Ok(written)
    }

    /// Writes a page to every slab that takes writes; `None` where none does.
    async fn write_sums_page(&self, checksums: &Checksums, set: usize, page: u32) -> Result<Option<Written>, IoError> {
        let first = page * PAGE_BLOCKS;
        if self.sums_slabs(set).next().is_none() {
            return Ok(None);
        }
        match self.read_sums(set, Blocks { start: first, end: first + 1 }).await {
            Err(_) if self.sums_slabs(set).next().is_none() => return Ok(None),
            read => read?,
        }
        self.complete_sums_page(checksums, set, page).await;
        let Some((regions, ages)) = checksums.set(set).snapshot(page) else { return Ok(None) };
        // A slab that begins to take writes from here on is found anew to lack them.
        let writes = self.sums_slabs(set).map(|index| {
            let slab = self.slabs.get(index);
            let (owner, outages) = (self.sums_page_of(&slab, page), slab.disk.outages());
            let write = slab.disk.write(owner.offset, owner.seal(&regions).freeze(), Durability::Cached);
            async move { (index, slab, outages, write.await) }
        });
        let (mut slabs, mut failed) = (Vec::new(), Vec::new());
        for (index, slab, outages, result) in join_all(writes.collect::<Vec<_>>()).await {
            match result {
                Ok(()) => {
                    slab.disk.note_written();
                    slabs.push((index, slab.disk.clone(), outages));
                }
                Err(error) => {
                    self.write_failed(index, &slab, &error).await?;
                    failed.push((index, error));
                }
            }
        }
        if !failed.is_empty() {
            self.pool.settled().await;
            self.refresh();
        }
        match failed.into_iter().find(|(index, _)| self.slabs.get(*index).usable()) {
            // It counts on, and does not have the page.
            Some((_, error)) => Err(error),
            None => Ok((!slabs.is_empty()).then_some(Written { ages, slabs })),
        }
    }

    /// A page as it is to be written to a slab that is to take another's place, and where; `None` where there is
    /// nothing in it.
    pub async fn sums_page_for(&self, set: usize, page: u32, to: &Slab) -> Result<Option<(u64, IoBuf)>, IoError> {
        let Some(checksums) = &self.checksums else { return Ok(None) };
        let first = page * PAGE_BLOCKS;
        loop {
            self.complete_sums_page(checksums, set, page).await;
            let (blank, snapshot) = {
                let pages = checksums.set(set);
                (pages.is_blank(page), pages.snapshot(page))
            };
            match snapshot {
                Some((regions, _)) => {
                    let owner = self.sums_page_of(to, page);
                    return Ok(Some((owner.offset, owner.seal(&regions))));
                }
                None if blank => return Ok(None),
                None => self.read_sums(set, Blocks { start: first, end: first + 1 }).await?,
            }
        }
    }

    /// The disks were flushed since these pages were written.
    pub fn end_sums(&self, written: SumsWritten) {
        let Some(checksums) = &self.checksums else { return };
        for (set, page, Written { ages, slabs }) in written.0 {
            // A disk that went out meanwhile may have lost what it was given.
            let there = |(index, disk, outages): &(usize, Arc<PoolDisk>, u32)| {
                Arc::ptr_eq(&self.slabs.get(*index).disk, disk) && disk.outages() == *outages
            };
            if slabs.iter().all(there) {
                checksums.counted(set, |pages| pages.written(page, ages));
            }
        }
    }

    /// Has what cannot be compared of a page written once more: regions that the disks are about to get, or whose copies
    /// may differ. Damage to what they have already would be compared with nothing, and stay.
    pub async fn renew_sums(&self, set: usize, page: u32) -> Result<(), IoError> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        let regions = page * PAGE_REGIONS..(page + 1) * PAGE_REGIONS;
        let marked: Vec<u32> = self.columns().get(set).map_or_else(Vec::new, |column| {
            let state = column.lock();
            let end = regions.end.min(state.marked.limit());
            regions.clone().take_while(|region| *region < end).filter(|region| state.marked.contains(*region)).collect()
        });
        for region in regions {
            if checksums.is_region_behind(set, region) || marked.contains(&region) {
                self.touch_sums(set, Blocks { start: region, end: region + 1 }).await?;
            }
        }
        Ok(())
    }

    /// The slabs of a set that do not have a page as it is in memory: those that have it otherwise, and those that
    /// cannot read it.
    pub async fn odd_sums(&self, set: usize, page: u32) -> Result<Vec<(usize, Odd)>, IoError> {
        let mut odd = Vec::new();
        let Some(checksums) = &self.checksums else { return Ok(odd) };
        if !self.sums_slabs(set).any(|index| self.slabs.get(index).usable()) {
            return Ok(odd);
        }
        let _one = checksums.writing.lock().await;
        let first = page * PAGE_BLOCKS;
        if self.read_sums(set, Blocks { start: first, end: first + 1 }).await.is_err() {
            return Ok(odd);
        }
        let mut settled = checksums.set(set).settled(page);
        if let Some(column) = self.columns().get(set) {
            // What the copies have of marked regions may differ, and of blocks that hold nothing.
            let state = column.lock();
            let region_of = |index: u32| page * PAGE_REGIONS + index;
            let clean = |region: u32| region < state.marked.limit() && !state.marked.contains(region);
            settled.retain(|(index, _)| clean(region_of(*index)));
            settled
                .iter_mut()
                .for_each(|(index, checksums)| checksums.known &= state.written.word(region_of(*index) as usize));
        }
        if settled.iter().all(|(_, checksums)| checksums.known == 0) {
            return Ok(odd);
        }
        for index in self.sums_slabs(set).filter(|index| self.slabs.get(*index).usable()).collect::<Vec<_>>() {
            let found = self.read_slab_sums(index, page).await.ok();
            let same = |(region, known): &(u32, RegionSums)| match found.as_ref().map(|found| found[*region as usize]) {
                Some(Some(found)) => found.has(known),
                _ => known.known == 0,
            };
            if self.slabs.get(index).usable() && !settled.iter().all(same) {
                odd.push((index, if found.is_some() { Odd::Otherwise } else { Odd::Unreadable }));
            }
        }
        Ok(odd)
    }

    /// Writes a page to a slab that does not have it, durably. Answers whether it took it.
    pub async fn rewrite_sums(&self, set: usize, page: u32, index: usize) -> Result<bool, IoError> {
        let Some(checksums) = &self.checksums else { return Ok(false) };
        let _one = checksums.writing.lock().await;
        let slab = self.slabs.get(index);
        // It may have been given up for others since it was compared.
        let Some((offset, sealed)) = self.sums_page_for(set, page, &slab).await? else { return Ok(false) };
        match slab.disk.write(offset, sealed.freeze(), Durability::Durable).await {
            Ok(()) => Ok(true),
            Err(error) => self.write_failed(index, &slab, &error).await.map(|()| false),
        }
    }

    /// Reads the checksums of regions, and notes that not every slab may have them as they are.
    pub async fn touch_sums(&self, set: usize, regions: Blocks) -> Result<(), IoError> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        for region in regions.start..regions.end {
            let first = region * REGION_BLOCKS;
            while !checksums.counted(set, |pages| pages.touch(region)) {
                self.read_sums(set, Blocks { start: first, end: first + 1 }).await?;
            }
        }
        Ok(())
    }
}
