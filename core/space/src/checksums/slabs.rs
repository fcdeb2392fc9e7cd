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

use super::pages::{PageToWrite, page_parts, pages_of};
use super::sector::{PAGE_BLOCKS, PAGE_BYTES, PAGE_REGIONS, PageOwner, RegionSums};
use super::{Check, Checksums, KnownSum, Odd, SumsWritten, Written};

/// Pages that are written at a time.
pub(super) const PAGES_AT_ONCE: usize = 32;

/// What disks have of a page.
struct FoundPage {
    set: usize,
    /// Of each region, where a sector of it proves itself, the newest.
    regions: Vec<Option<RegionSums>>,
    /// Whether a disk could not read it, or has an older version of what it has to have.
    failed: bool,
    /// Regions that a copy has older than another, and which copy.
    older: Vec<(usize, usize, RegionSums)>,
}

impl FoundPage {
    fn nothing(set: usize) -> Self {
        Self { set, regions: vec![None; PAGE_REGIONS as usize], failed: false, older: Vec::new() }
    }

    /// Takes what a copy has, where it is newer.
    fn take(&mut self, found: &[Option<RegionSums>]) {
        for (newest, found) in self.regions.iter_mut().zip(found) {
            if found.is_some_and(|found| newest.is_none_or(|newest| newest.version < found.version)) {
                *newest = *found;
            }
        }
    }

    /// Notes what a copy has older than another, and otherwise.
    fn note_older(&mut self, index: usize, found: &[Option<RegionSums>]) {
        for (region, (newest, found)) in self.regions.iter().zip(found).enumerate() {
            if let (Some(newest), Some(found)) = (newest, found)
                && found.version < newest.version
                && !found.has(newest)
            {
                self.older.push((region, index, *found));
            }
        }
    }
}

/// What a slab has of a page: what its sectors say of their regions, and what they claim of the slabs of their row.
struct SlabPage {
    regions: Vec<Option<RegionSums>>,
    claims: Vec<u64>,
}

impl Row {
    /// The set of checksums that a slab belongs to.
    pub fn sums_set(&self, slab: usize) -> usize {
        slab / self.copies()
    }

    pub(super) fn sums_page_of(&self, slab: &Slab, page: u32) -> PageOwner {
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
        let doubts = checksums.doubts();
        let reads = join_all(wanted.iter().map(|page| self.read_sums_page(checksums, set, *page))).await;
        for (page, found) in wanted.into_iter().zip(reads) {
            let is_new = |found: &FoundPage| checksums.set(found.set).is_unread(page);
            let found = found?;
            if checksums.doubts() != doubts {
                // A slab that counts by now was not asked: who wants them reads again.
                continue;
            }
            for found in found.into_iter().filter(is_new) {
                self.take_sums_page(checksums, page, found).await;
            }
        }
        Ok(())
    }

    /// Takes what disks have of a page into memory.
    async fn take_sums_page(&self, checksums: &Arc<Checksums>, page: u32, found: FoundPage) {
        let FoundPage { set, regions, failed, older } = found;
        let whole = |region: &Option<RegionSums>| region.is_some_and(|region| region.known == u64::MAX);
        if !checksums.set(set).is_blank(page) && !regions.iter().all(whole) {
            checksums.note_lacking(set, page);
        }
        let added = checksums.counted(set, |pages| pages.take_read(page, &regions, failed));
        checksums.admit(set, added.then_some(page));
        if !older.is_empty() {
            boxed_cold(self.note_older(checksums, set, page, &regions, older)).await;
        }
    }

    /// Sees to it that copies which have older sectors of regions get the newest, and that their blocks are compared.
    async fn note_older(
        &self,
        checksums: &Checksums,
        set: usize,
        page: u32,
        newest: &[Option<RegionSums>],
        older: Vec<(usize, usize, RegionSums)>,
    ) {
        for (index, copy, own) in older {
            let region = page * PAGE_REGIONS + index as u32;
            let Some(newest) = &newest[index] else { continue };
            // After a crash, or an outage of a disk, copies that were being written may differ.
            let is_marked = self.columns().get(set).is_some_and(|column| column.lock().marked.contains(region));
            if self.pool.was_closed() && !is_marked && self.is_stale(copy, region, &own, newest).await {
                self.tell_lagging(copy);
            }
            if self.pool.refusal().is_none() {
                checksums.counted(set, |pages| pages.touch(region));
                checksums.note_older(set, region);
            }
        }
    }

    /// Reads again what a page lacks because it could not be read, before it is written: what is written over is gone.
    pub async fn complete_sums_page(&self, checksums: &Checksums, set: usize, page: u32) {
        let failed = checksums.set(set).is_failed(page);
        if failed && let Ok(found) = self.read_sums_page(checksums, set, page).await {
            for FoundPage { regions, failed, .. } in found.into_iter().filter(|found| found.set == set) {
                checksums.counted(set, |pages| pages.complete(page, &regions, failed));
            }
        }
    }

    /// What the disks have of a page: of each region, the newest that a slab says which has it whole. In a row with
    /// parity, also of the other slabs, where that was read to see what they claim.
    async fn read_sums_page(&self, checksums: &Checksums, set: usize, page: u32) -> Result<Vec<FoundPage>, IoError> {
        let mut found = FoundPage::nothing(set);
        if checksums.set(set).is_blank(page) {
            return Ok(vec![found]);
        }
        if checksums.claims.is_some() {
            return self.read_claimed_page(checksums, set, page).await;
        }
        // One that joins may have what counted before it went.
        let in_step = |index: &usize| self.mirrored() <= self.slabs.get(*index).usable();
        let copies: Vec<usize> = self.sums_slabs(set).filter(in_step).collect();
        let reads = join_all(copies.iter().map(|index| self.read_slab_sums(*index, page))).await;
        let mut answered = Vec::with_capacity(copies.len());
        for (index, read) in copies.into_iter().zip(reads) {
            match read {
                Ok(SlabPage { regions, .. }) => answered.push((index, regions)),
                // What cannot be read there is lost; it is no reason to withhold the data.
                Err(error) if error.kind == IoErrorKind::Media => found.failed = true,
                Err(_) => {}
            }
        }
        if answered.is_empty() && !found.failed {
            return Err(self.too_few());
        }
        answered.iter().for_each(|(_, regions)| found.take(regions));
        answered.iter().for_each(|(index, regions)| found.note_older(*index, regions));
        Ok(vec![found])
    }

    /// The same in a row with parity: what a slab has older than others claim of it counts for nothing.
    async fn read_claimed_page(&self, checksums: &Checksums, set: usize, page: u32) -> Result<Vec<FoundPage>, IoError> {
        let doubts = checksums.doubts();
        let is_read = checksums.claims().is_some_and(|claims| claims.is_read(page));
        let asked = |slab: &usize| !is_read && *slab != set && self.slabs.get(*slab).usable();
        let filled = |slab: &usize| !checksums.set(*slab).is_blank(page);
        let mut slabs: Vec<usize> = (0..self.slabs.len()).filter(asked).filter(filled).collect();
        // Last, so that it stays in memory for who asked for it.
        slabs.extend(self.sums_slabs(set));
        let reads = join_all(slabs.iter().map(|slab| self.read_slab_sums(*slab, page))).await;
        let mut found = Vec::with_capacity(slabs.len());
        let mut claimed = Vec::with_capacity(slabs.len());
        for (slab, read) in slabs.into_iter().zip(reads) {
            match read {
                Ok(SlabPage { regions, claims }) => {
                    claimed.push(claims);
                    found.push(FoundPage { regions, ..FoundPage::nothing(slab) });
                }
                Err(error) if slab == set && error.kind == IoErrorKind::Media => {
                    found.push(FoundPage { failed: true, ..FoundPage::nothing(slab) });
                }
                Err(_) => {}
            }
        }
        if found.last().is_none_or(|found| found.set != set) {
            return Err(self.too_few());
        }
        let mut older = Vec::new();
        if let Some(mut claims) = checksums.claims() {
            claims.take(page, &claimed, checksums.doubts() == doubts);
            for found in &mut found {
                // After a clean stop, what is there is durable, unless it was written since.
                if self.pool.was_closed() && !checksums.set(found.set).is_held(page) {
                    let version = |region: usize| found.regions[region].map_or(0, |region| region.version);
                    claims.note_durable(found.set, page, &std::array::from_fn(version));
                }
                let regions = claims.leave_out_older(found.set, page, &mut found.regions);
                found.failed |= regions != 0;
                older.extend((regions != 0).then_some((found.set, regions)));
            }
        }
        for (slab, regions) in older {
            let mut lost =
                (0..PAGE_REGIONS).filter(|index| regions >> index & 1 == 1).map(|index| page * PAGE_REGIONS + index);
            if lost.any(|region| self.holds_in_region(slab, region)) {
                self.tell_lagging(slab);
            }
        }
        // Those that were cleared meanwhile are on other disks now.
        found.retain(|found| found.set == set || filled(&found.set));
        Ok(found)
    }

    /// Sees to it that what the slabs of a row with parity claim of a page is known.
    pub(super) async fn read_claims(&self, checksums: &Checksums, page: u32) {
        if checksums.claims().is_none_or(|claims| claims.is_read(page)) {
            return;
        }
        let doubts = checksums.doubts();
        let slabs =
            (0..self.slabs.len()).filter(|slab| self.slabs.get(*slab).usable() && !checksums.set(*slab).is_blank(page));
        let reads = join_all(slabs.map(|slab| self.read_slab_sums(slab, page)).collect::<Vec<_>>()).await;
        let claimed: Vec<Vec<u64>> = reads.into_iter().flatten().map(|page| page.claims).collect();
        if let Some(mut claims) = checksums.claims() {
            claims.take(page, &claimed, checksums.doubts() == doubts);
        }
    }

    /// What a slab has of a page.
    pub async fn read_slab_regions(&self, index: usize, page: u32) -> Result<Vec<Option<RegionSums>>, IoError> {
        self.read_slab_sums(index, page).await.map(|page| page.regions)
    }

    async fn read_slab_sums(&self, index: usize, page: u32) -> Result<SlabPage, IoError> {
        let slab = self.slabs.get(index);
        let owner = self.sums_page_of(&slab, page);
        match slab.disk.read(owner.offset, IoBuf::new(PAGE_BYTES)).await {
            Ok(bytes) => {
                let regions = owner.open(&bytes);
                let claiming = self.bands_if_any().map_or(0, |_| self.slabs.len());
                let claims = PageOwner::claims(&bytes, &regions, claiming);
                Ok(SlabPage { regions, claims })
            }
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
        let (PageToWrite { regions, ages }, claims) = loop {
            match self.read_sums(set, Blocks { start: first, end: first + 1 }).await {
                Err(_) if self.sums_slabs(set).next().is_none() => return Ok(None),
                read => read?,
            }
            self.complete_sums_page(checksums, set, page).await;
            self.read_claims(checksums, page).await;
            if let Some(begun) = checksums.begin_write(set, page) {
                break begun;
            }
        };
        let versions = regions.map(|region| region.version);
        // A slab that begins to take writes from here on is found anew to lack them.
        let writes = self.sums_slabs(set).map(|index| {
            let slab = self.slabs.get(index);
            let (owner, outages) = (self.sums_page_of(&slab, page), slab.disk.outages());
            let write = slab.disk.write(owner.offset, owner.seal(&regions, &claims).freeze(), Durability::Cached);
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
            None => Ok((!slabs.is_empty()).then_some(Written { ages, versions, slabs })),
        }
    }

    /// A page as it is to be written to a slab that is to take another's place, and where; `None` where there is
    /// nothing in it.
    pub async fn sums_page_for(&self, set: usize, page: u32, to: &Slab) -> Result<Option<(u64, IoBuf)>, IoError> {
        let Some(checksums) = &self.checksums else { return Ok(None) };
        let first = page * PAGE_BLOCKS;
        loop {
            self.complete_sums_page(checksums, set, page).await;
            self.read_claims(checksums, page).await;
            let blank = checksums.set(set).is_blank(page);
            match checksums.begin_write(set, page) {
                Some((PageToWrite { regions, .. }, claims)) => {
                    let owner = self.sums_page_of(to, page);
                    return Ok(Some((owner.offset, owner.seal(&regions, &claims))));
                }
                None if blank => return Ok(None),
                None => self.read_sums(set, Blocks { start: first, end: first + 1 }).await?,
            }
        }
    }

    /// The disks were flushed since these pages were written.
    pub fn end_sums(&self, written: SumsWritten) {
        let Some(checksums) = &self.checksums else { return };
        for (set, page, Written { ages, versions, slabs }) in written.0 {
            // A disk that went out meanwhile may have lost what it was given.
            let there = |(index, disk, outages): &(usize, Arc<PoolDisk>, u32)| {
                Arc::ptr_eq(&self.slabs.get(*index).disk, disk) && disk.outages() == *outages
            };
            if slabs.iter().all(there) {
                checksums.counted(set, |pages| pages.written(page, ages));
                if let Some(mut claims) = checksums.claims() {
                    claims.note_durable(set, page, &versions);
                }
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
            let found = self.read_slab_regions(index, page).await.ok();
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
