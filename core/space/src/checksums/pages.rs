//! The pages of one set of checksums in memory: those of a column, which all its copies have alike, or of a slab with
//! parity.
//!
//! A page that was not read yet may hold checksums of what was written since; what the disk has for the other blocks
//! joins them when it is read.

use std::collections::BTreeSet;

use crate::block_map::REGION_BLOCKS;
use crate::column::Blocks;

use super::sector::{PAGE_BLOCKS, PAGE_REGIONS, RegionSums, next_version};

const REGIONS: usize = PAGE_REGIONS as usize;

/// What a comparison with checksums says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every block is as its checksum says.
    Right,
    /// No block contradicts its checksum, but some have none that can be believed.
    Unproven,
    /// Some blocks are not as their checksums say.
    Wrong,
    /// A page must be read first.
    Unread,
}

impl Check {
    /// What two comparisons say together.
    pub fn and(self, other: Self) -> Self {
        let weight = |check: Self| check as u8;
        if weight(self) >= weight(other) { self } else { other }
    }
}

/// A checksum, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSum {
    /// The CRC-32C.
    pub crc: u32,
    /// Whether it came with the block and was not compared with it: then the block counts as wrong where they differ,
    /// though all copies agree.
    pub given: bool,
}

/// For each region, when its checksums changed last: a number that no other change of the set has.
pub type Ages = [u64; REGIONS];

/// For each region, the version of its checksums.
pub type Versions = [u64; REGIONS];

/// A page as it is to be written.
pub struct PageToWrite {
    /// Its checksums.
    pub regions: [RegionSums; REGIONS],
    /// How old it is.
    pub ages: Ages,
}

/// Checksums of 512 blocks.
#[derive(Clone)]
struct Page {
    regions: [RegionSums; REGIONS],
    /// For each region, blocks whose checksum was noted since the page is in memory: what is read later is older.
    newer: [u64; REGIONS],
    read: bool,
    /// Regions that it lacks since a disk failed to read them, a bit for each.
    failed: u8,
    changed: Ages,
    on_disk: Ages,
    used: bool,
}

/// The pages of a set.
pub struct Pages {
    pages: Vec<Option<Box<Page>>>,
    /// Pages of which the disk has nothing.
    blank: Vec<bool>,
    /// Pages that the disk does not have as they are.
    behind: BTreeSet<u32>,
    held: usize,
    changes: u64,
}

/// Which region of which page, and which bit in it.
fn place(block: u32) -> (usize, usize, u64) {
    let (page, region) = (block / PAGE_BLOCKS, block % PAGE_BLOCKS / REGION_BLOCKS);
    (page as usize, region as usize, 1 << (block % REGION_BLOCKS))
}

/// Blocks cut at the borders of pages.
pub fn page_parts(blocks: Blocks) -> impl Iterator<Item = Blocks> {
    let part = move |page: u32| Blocks {
        start: blocks.start.max(page * PAGE_BLOCKS),
        end: blocks.end.min((page + 1) * PAGE_BLOCKS),
    };
    pages_of(blocks).map(part)
}

/// The pages that blocks touch.
pub fn pages_of(blocks: Blocks) -> std::ops::Range<u32> {
    blocks.start / PAGE_BLOCKS..blocks.end.div_ceil(PAGE_BLOCKS)
}

/// Regions that nothing was found of, a bit for each.
fn lacking(found: &[Option<RegionSums>]) -> u8 {
    (0..).zip(found).filter(|(_, found)| found.is_none()).fold(0, |mask, (index, _): (u8, _)| mask | 1 << index)
}

impl Page {
    fn new(blank: bool) -> Self {
        let region = RegionSums { version: 0, known: 0, given: 0, checksums: [0; REGION_BLOCKS as usize] };
        Self {
            regions: [region; REGIONS],
            newer: [0; REGIONS],
            read: blank,
            failed: 0,
            changed: [0; REGIONS],
            on_disk: [0; REGIONS],
            used: true,
        }
    }

    /// Takes what the disk has of blocks whose checksums did not change since.
    fn take(&mut self, found: &[Option<RegionSums>]) {
        for (index, found) in found.iter().enumerate() {
            let Some(found) = found else { continue };
            let (known, newer) = (&mut self.regions[index], self.newer[index]);
            known.known = (known.known & newer) | (found.known & !newer);
            known.given = (known.given & newer) | (found.given & !newer);
            known.version = known.version.max(found.version);
            for (bit, sum) in found.checksums.iter().enumerate().filter(|(bit, _)| newer >> bit & 1 == 0) {
                known.checksums[bit] = *sum;
            }
        }
    }

    fn is_behind(&self) -> bool {
        (0..REGIONS).any(|region| self.is_region_behind(region))
    }

    fn is_region_behind(&self, region: usize) -> bool {
        self.changed[region] > self.on_disk[region]
    }
}

impl Pages {
    /// Of so many blocks; `blank` where the disks have nothing of them.
    pub fn new(blocks: u32, blank: bool) -> Self {
        let count = blocks.div_ceil(PAGE_BLOCKS) as usize;
        Self { pages: vec![None; count], blank: vec![blank; count], behind: BTreeSet::new(), held: 0, changes: 0 }
    }

    fn open(&mut self, page: usize) -> (&mut Page, bool) {
        let added = self.pages[page].is_none();
        let blank = self.blank[page];
        self.held += usize::from(added);
        (self.pages[page].get_or_insert_with(|| Box::new(Page::new(blank))), added)
    }

    /// Takes the checksums of blocks from `first` on; `None` where one is not known. `given` ones came with the blocks.
    /// Answers which pages were added.
    pub fn note(&mut self, first: u32, checksums: impl Iterator<Item = Option<u32>>, given: bool) -> Vec<u32> {
        let mut added = Vec::new();
        let mut last = None;
        self.changes += 1;
        let age = self.changes;
        for (block, sum) in (first..).zip(checksums) {
            let (at, region, bit) = place(block);
            let (page, new) = self.open(at);
            if new {
                added.push(at as u32);
            }
            let known = &mut page.regions[region];
            match sum {
                Some(sum) => {
                    known.checksums[(block % REGION_BLOCKS) as usize] = sum;
                    known.known |= bit;
                }
                None => known.known &= !bit,
            }
            known.given = if given { known.given | bit } else { known.given & !bit };
            page.newer[region] |= bit;
            if last != Some((at, region)) {
                page.changed[region] = age;
                page.used = true;
                self.behind.insert(at as u32);
                last = Some((at, region));
            }
        }
        added
    }

    /// Notes that the disks may not have the checksums of a region; false where its page must be read first.
    pub fn touch(&mut self, region: u32) -> bool {
        let at = region / PAGE_REGIONS;
        let Some(page) = self.pages[at as usize].as_mut().filter(|page| page.read) else { return false };
        self.changes += 1;
        page.changed[(region % PAGE_REGIONS) as usize] = self.changes;
        self.behind.insert(at);
        true
    }

    /// What is known of a block's checksum; `Err` where its page must be read first.
    pub fn get(&self, block: u32) -> Result<Option<u32>, ()> {
        let (at, region, bit) = place(block);
        let page = self.pages[at].as_ref().ok_or(())?;
        if !page.read && page.newer[region] & bit == 0 {
            return Err(());
        }
        let known = &page.regions[region];
        Ok((known.known & bit != 0).then(|| known.checksums[(block % REGION_BLOCKS) as usize]))
    }

    /// As [`Pages::get`], with where it comes from.
    pub fn known(&self, block: u32) -> Result<Option<KnownSum>, ()> {
        let crc = self.get(block)?;
        let (at, region, bit) = place(block);
        let given = self.pages[at].as_ref().is_some_and(|page| page.regions[region].given & bit != 0);
        Ok(crc.map(|crc| KnownSum { crc, given }))
    }

    /// Compares the checksums of blocks from `first` on, but for those in `holes`, which are counted from there.
    pub fn check(&mut self, first: u32, checksums: &[u32], holes: &[(u32, u32)], offset: u32) -> Check {
        let mut check = Check::Right;
        for (at, sum) in (offset..).zip(checksums) {
            if holes.iter().any(|(from, to)| (*from..*to).contains(&at)) {
                continue;
            }
            match self.get(first + at) {
                Err(()) => return Check::Unread,
                Ok(Some(known)) if known != *sum => check = Check::Wrong,
                Ok(None) => check = check.and(Check::Unproven),
                Ok(Some(_)) => {}
            }
        }
        for page in pages_of(Blocks { start: first + offset, end: first + offset + checksums.len() as u32 }) {
            if let Some(page) = &mut self.pages[page as usize] {
                page.used = true;
            }
        }
        check
    }

    /// Whether a page is to be read before all of it is known.
    pub fn is_unread(&self, page: u32) -> bool {
        self.pages[page as usize].as_ref().is_none_or(|page| !page.read)
    }

    /// Whether the disks have nothing of a page.
    pub fn is_blank(&self, page: u32) -> bool {
        self.blank[page as usize]
    }

    /// Takes what the disk has of a page, all of it unless it `failed` to read a part. Answers whether the page was
    /// added.
    pub fn take_read(&mut self, page: u32, found: &[Option<RegionSums>], failed: bool) -> bool {
        let (page, added) = self.open(page as usize);
        if !page.read {
            page.take(found);
            page.read = true;
            page.failed = if failed { lacking(found) } else { 0 };
        }
        added
    }

    /// Whether a page is known without what a disk failed to read.
    pub fn is_failed(&self, page: u32) -> bool {
        self.pages[page as usize].as_ref().is_some_and(|page| page.failed != 0)
    }

    /// Takes what the disk has, this time, of a page that it failed to read.
    pub fn complete(&mut self, page: u32, found: &[Option<RegionSums>], failed: bool) {
        if let Some(page) = self.pages[page as usize].as_mut() {
            let lacked = |index: usize| page.failed >> index & 1 == 1;
            let wanted: Vec<Option<RegionSums>> =
                found.iter().enumerate().map(|(index, found)| found.filter(|_| lacked(index))).collect();
            page.take(&wanted);
            page.failed &= if failed { lacking(found) } else { 0 };
        }
    }

    /// What is to be written of a page; `None` where it must be read first. Regions that the disks do not have get the
    /// next version, also after those that are `claimed` to be there.
    pub fn begin_write(&mut self, page: u32, claimed: &Versions) -> Option<PageToWrite> {
        let page = self.pages[page as usize].as_mut().filter(|page| page.read)?;
        for (index, claimed) in
            claimed.iter().enumerate().filter(|(index, _)| page.is_region_behind(*index)).collect::<Vec<_>>()
        {
            page.regions[index].version = next_version(page.regions[index].version.max(*claimed));
        }
        Some(PageToWrite { regions: page.regions, ages: page.changed })
    }

    /// A page that the disks have as it is, and all of it; `None` where that is not so.
    pub fn whole(&self, page: u32) -> Option<&[RegionSums]> {
        let page = self.pages[page as usize].as_ref().filter(|page| page.read && page.failed == 0)?;
        (!page.is_behind()).then_some(&page.regions)
    }

    /// Whether it is in memory.
    pub fn is_held(&self, page: u32) -> bool {
        self.pages[page as usize].is_some()
    }

    /// Notes that the disks have a page as it was at an age.
    pub fn written(&mut self, page: u32, ages: Ages) {
        self.blank[page as usize] = false;
        if let Some(held) = &mut self.pages[page as usize] {
            held.on_disk.iter_mut().zip(ages).for_each(|(known, age)| *known = age.max(*known));
            if held.is_behind() {
                self.behind.insert(page);
            } else {
                self.behind.remove(&page);
            }
        }
    }

    /// Pages that the disks do not have as they are.
    pub fn behind(&self) -> &BTreeSet<u32> {
        &self.behind
    }

    /// Whether the disks do not have the checksums of a region as they are.
    pub fn is_region_behind(&self, region: u32) -> bool {
        let index = (region % PAGE_REGIONS) as usize;
        self.pages[(region / PAGE_REGIONS) as usize].as_ref().is_some_and(|page| page.is_region_behind(index))
    }

    /// Gives the memory of a page back, unless it was used since the last time or the disks do not have it. Answers
    /// whether it is gone.
    pub fn evict(&mut self, page: u32) -> bool {
        let Some(held) = &mut self.pages[page as usize] else { return true };
        if held.is_behind() || std::mem::take(&mut held.used) {
            return false;
        }
        self.pages[page as usize] = None;
        self.held -= 1;
        true
    }

    /// Has every page read anew that a disk has: what was read before may not be the newest. What was noted stands.
    pub fn doubt(&mut self) {
        for (page, _) in self.pages.iter_mut().zip(&self.blank).filter(|(_, blank)| !**blank) {
            match page {
                Some(held) if held.is_behind() => (held.read, held.failed) = (false, 0),
                Some(_) => {
                    *page = None;
                    self.held -= 1;
                }
                None => {}
            }
        }
    }

    /// The version of a region, as far as it is in memory.
    pub fn version(&self, region: u32) -> u64 {
        let page = self.pages[(region / PAGE_REGIONS) as usize].as_ref();
        page.map_or(0, |page| page.regions[(region % PAGE_REGIONS) as usize].version)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Regions of a page, where the disks have them as they are here; empty where the page is not in memory or blank.
    pub fn settled(&self, page: u32) -> Vec<(u32, RegionSums)> {
        let Some(held) = self.pages[page as usize].as_ref().filter(|held| held.read && !self.blank[page as usize])
        else {
            return Vec::new();
        };
        (0u32..).zip(held.regions).filter(|(index, _)| !held.is_region_behind(*index as usize)).collect()
    }

    /// How many are in memory.
    pub fn count(&self) -> usize {
        self.held
    }

    /// Forgets everything: other disks are to hold these, and have nothing yet.
    pub fn clear(&mut self) {
        self.pages.fill(None);
        self.blank.fill(true);
        self.behind.clear();
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(sum: u32) -> Option<RegionSums> {
        Some(RegionSums { version: 0, known: u64::MAX, given: 0, checksums: [sum; 64] })
    }

    fn ages_of(pages: &mut Pages, page: u32) -> Ages {
        pages.begin_write(page, &[0; 8]).expect("it was read, or nothing is on disk").ages
    }

    fn versions(page: &PageToWrite) -> Versions {
        page.regions.map(|region| region.version)
    }

    #[test]
    fn a_version_goes_up_with_what_is_written_and_from_what_is_claimed() {
        let mut pages = Pages::new(1024, false);
        pages.take_read(0, &[Some(RegionSums { version: 7, ..known(5).expect("some") }); 8], false);
        pages.note(0, [Some(9)].into_iter(), false);
        pages.note(64, [Some(9)].into_iter(), false);
        let page = pages.begin_write(0, &[0, 20, 20, 0, 0, 0, 0, 0]).expect("read");
        assert_eq!(versions(&page), [8, 21, 7, 7, 7, 7, 7, 7]);
        assert!(pages.whole(0).is_none(), "the disks do not have it");
        pages.written(0, page.ages);
        assert_eq!(pages.whole(0).map(|regions| regions[1].version), Some(21));
        assert_eq!(versions(&pages.begin_write(0, &[0; 8]).expect("read"))[..3], [8, 21, 7], "nothing else is written");
    }

    #[test]
    fn what_was_written_before_a_page_is_read_stands() {
        let mut pages = Pages::new(1024, false);
        assert_eq!(pages.check(600, &[7], &[], 0), Check::Unread);
        assert_eq!(pages.note(600, [Some(9), None].into_iter(), false), vec![1]);
        assert_eq!(pages.check(600, &[9], &[], 0), Check::Right);
        assert_eq!(pages.check(600, &[9, 1, 1], &[], 0), Check::Unread);
        assert!(pages.begin_write(1, &[0; 8]).is_none(), "the rest is not known");
        assert!(!pages.take_read(1, &[known(5); 8], false));
        assert_eq!(pages.check(600, &[9, 1, 5], &[(1, 2)], 0), Check::Right);
        assert_eq!(pages.check(600, &[9, 1, 5], &[], 0), Check::Unproven);
        assert_eq!(pages.check(600, &[9, 1, 6, 6], &[(3, 4)], 0), Check::Wrong);
        assert_eq!((pages.get(601), pages.get(602), pages.get(0)), (Ok(None), Ok(Some(5)), Err(())));
    }

    #[test]
    fn a_page_stays_until_the_disks_have_it() {
        let mut pages = Pages::new(1024, true);
        pages.note(70, [Some(1)].into_iter(), false);
        let ages = ages_of(&mut pages, 0);
        pages.note(0, [Some(2)].into_iter(), false);
        pages.written(0, ages);
        assert_eq!((pages.is_region_behind(0), pages.is_region_behind(1)), (true, false));
        assert!(!pages.evict(0) && !pages.evict(0));
        let ages = ages_of(&mut pages, 0);
        pages.written(0, ages);
        assert!(pages.behind().is_empty() && !pages.evict(0), "it was used");
        assert!(pages.evict(0));
        assert_eq!((pages.count(), pages.get(70), pages.is_blank(0)), (0, Err(()), false));
    }

    #[test]
    fn what_was_written_late_counts_for_nothing_newer() {
        let mut pages = Pages::new(512, true);
        pages.note(0, [Some(1)].into_iter(), false);
        let first = ages_of(&mut pages, 0);
        pages.written(0, first);
        assert!(!pages.evict(0) && pages.evict(0), "the disks have it");
        pages.note(0, [Some(2)].into_iter(), false);
        pages.take_read(0, &[None; 8], false);
        pages.written(0, first);
        assert!(
            pages.is_region_behind(0) && pages.behind().contains(&0),
            "the change after the page came back is not on disk"
        );
        let second = ages_of(&mut pages, 0);
        pages.note(64, [Some(3)].into_iter(), false);
        let third = ages_of(&mut pages, 0);
        pages.written(0, third);
        pages.written(0, second);
        assert!(
            pages.behind().is_empty() && !pages.is_region_behind(1),
            "an older write that ends later takes nothing back"
        );
    }

    #[test]
    fn what_failed_to_be_read_joins_what_was_written_since() {
        let mut pages = Pages::new(512, false);
        assert!(pages.take_read(0, &[None; 8], true) && pages.is_failed(0));
        assert_eq!(pages.check(0, &[5], &[], 0), Check::Unproven);
        pages.note(1, [Some(9)].into_iter(), false);
        pages.complete(0, &[known(5); 8], false);
        assert_eq!((pages.get(0), pages.get(1), pages.is_failed(0)), (Ok(Some(5)), Ok(Some(9)), false));
        pages.complete(0, &[known(7); 8], false);
        assert_eq!(pages.get(0), Ok(Some(5)), "it is whole already");
        // What was found the first time, or noted before, is newer than what a disk has later.
        let mut pages = Pages::new(512, false);
        pages.note(2, [Some(9)].into_iter(), false);
        let mut half = [known(5); 8];
        half[7] = None;
        pages.take_read(0, &half, true);
        pages.note(3, [Some(9)].into_iter(), false);
        pages.complete(0, &[known(7); 8], false);
        assert_eq!(
            (pages.get(0), pages.get(2), pages.get(3), pages.get(448)),
            (Ok(Some(5)), Ok(Some(9)), Ok(Some(9)), Ok(Some(7)))
        );
    }

    #[test]
    fn where_a_checksum_comes_from_is_known_until_the_next() {
        let mut pages = Pages::new(512, false);
        pages.note(1, [Some(1), Some(2)].into_iter(), true);
        let mut found = [known(5); 8];
        found[0] = Some(RegionSums { version: 0, known: u64::MAX, given: 0b1001, checksums: [5; 64] });
        pages.take_read(0, &found, false);
        let given: Vec<bool> = (0..5).map(|block| pages.known(block).expect("read").expect("known").given).collect();
        assert_eq!(given, [true, true, true, true, false]);
        pages.note(0, [Some(3), None].into_iter(), false);
        assert_eq!(pages.known(0), Ok(Some(KnownSum { crc: 3, given: false })));
        assert_eq!((pages.known(1), pages.known(2)), (Ok(None), Ok(Some(KnownSum { crc: 2, given: true }))));
    }

    #[test]
    fn what_was_read_before_a_slab_came_back_is_read_again() {
        let mut pages = Pages::new(1536, false);
        for page in 0..2 {
            pages.note(page * 512, [Some(9)].into_iter(), false);
            pages.take_read(page, &[Some(RegionSums { version: 3, ..known(5).expect("some") }); 8], false);
        }
        let ages = ages_of(&mut pages, 0);
        pages.written(0, ages);
        pages.note(513, [Some(8)].into_iter(), false);
        pages.doubt();
        assert!(!pages.is_held(0), "the disks have it");
        assert!(pages.is_held(1) && pages.is_unread(1) && pages.begin_write(1, &[0; 8]).is_none());
        assert_eq!((pages.get(512), pages.get(513), pages.get(514)), (Ok(Some(9)), Ok(Some(8)), Err(())));
        pages.take_read(1, &[Some(RegionSums { version: 7, ..known(6).expect("some") }); 8], false);
        assert_eq!((pages.get(512), pages.get(513), pages.get(514)), (Ok(Some(9)), Ok(Some(8)), Ok(Some(6))));
        assert_eq!((pages.version(8), pages.version(0)), (7, 0));
        assert_eq!(versions(&pages.begin_write(1, &[0; 8]).expect("read"))[..2], [8, 7]);
    }

    #[test]
    fn a_touched_region_is_written_again() {
        let mut pages = Pages::new(1024, true);
        pages.note(0, [Some(1)].into_iter(), false);
        let ages = ages_of(&mut pages, 0);
        pages.written(0, ages);
        assert!(pages.touch(1) && pages.touch(2));
        assert_eq!((pages.is_region_behind(0), pages.is_region_behind(2)), (false, true));
        assert_eq!(pages.behind().iter().copied().collect::<Vec<_>>(), [0]);
    }
}
