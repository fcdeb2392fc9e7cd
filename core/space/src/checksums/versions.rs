//! Which versions of the sectors of a parity row are durable, as its slabs claim of one another.
//!
//! Whoever writes a block of a stripe changes sectors of several slabs, but the sector of one slab says nothing of what
//! another one should hold by now. So each also has the versions that the sectors of the same region have on all slabs
//! of the row: a slab whose own sector is older than what any other claims of it lost what it had acknowledged.
//!
//! Invariants:
//! - A claim is made only of what is durable, so that one which is not met is never the trace of a crash.
//! - What was written and flushed, and is claimed by too few, is remembered until it is.

use std::collections::{BTreeMap, BTreeSet};

use super::pages::Versions;
use super::sector::{PAGE_REGIONS, RegionSums};

const REGIONS: usize = PAGE_REGIONS as usize;

/// The durable versions of one page of each slab.
struct Page {
    /// For each region, those of all slabs.
    versions: Box<[u64]>,
    /// Whether what the disks claim is in it.
    read: bool,
}

/// What is known of the durable versions of a row.
pub struct DurableVersions {
    slabs: usize,
    pages: BTreeMap<u32, Page>,
    /// Pages with versions that too few slabs claim, since before somebody looked last.
    unclaimed: BTreeSet<u32>,
    /// Such since then.
    recent: BTreeSet<u32>,
}

impl DurableVersions {
    /// Of a row of so many slabs.
    pub fn new(slabs: usize) -> Self {
        Self { slabs, pages: BTreeMap::new(), unclaimed: BTreeSet::new(), recent: BTreeSet::new() }
    }

    fn open(&mut self, page: u32) -> &mut Page {
        let count = self.slabs * REGIONS;
        self.pages.entry(page).or_insert_with(|| Page { versions: vec![0; count].into(), read: false })
    }

    /// Whether what the disks claim of a page is known.
    pub fn is_read(&self, page: u32) -> bool {
        self.pages.get(&page).is_some_and(|page| page.read)
    }

    /// Takes what slabs claim of a page, and all that there is if `whole`.
    pub fn take(&mut self, page: u32, found: &[Vec<u64>], whole: bool) {
        let page = self.open(page);
        for claims in found {
            page.versions.iter_mut().zip(claims).for_each(|(known, claim)| *known = (*known).max(*claim));
        }
        page.read |= whole;
    }

    /// Notes that a slab has a page durably with these versions.
    pub fn note_durable(&mut self, slab: usize, page: u32, versions: &Versions) {
        let slabs = self.slabs;
        let known = &mut self.open(page).versions;
        let mut is_new = false;
        for (region, version) in versions.iter().enumerate() {
            let known = &mut known[region * slabs + slab];
            is_new |= *known < *version;
            *known = (*known).max(*version);
        }
        if is_new {
            self.recent.insert(page);
        }
    }

    /// What is to be claimed of a page: for each region the versions of all slabs.
    pub fn of(&self, page: u32) -> Vec<u64> {
        self.pages.get(&page).map_or_else(|| vec![0; self.slabs * REGIONS], |page| page.versions.to_vec())
    }

    /// What is claimed of a slab's page.
    pub fn of_slab(&self, slab: usize, page: u32) -> Versions {
        let versions = self.pages.get(&page).map(|page| &page.versions);
        std::array::from_fn(|region| versions.map_or(0, |versions| versions[region * self.slabs + slab]))
    }

    /// Leaves out what a slab says of regions that it has older than is claimed. Answers which these are, a bit for each.
    pub fn leave_out_older(&self, slab: usize, page: u32, found: &mut [Option<RegionSums>]) -> u8 {
        let claimed = self.of_slab(slab, page);
        let mut older = 0;
        for (index, region) in found.iter_mut().enumerate() {
            // One without a version was written by a program that knows of none.
            if region.is_some_and(|region| region.version != 0 && region.version < claimed[index]) {
                *region = None;
                older |= 1 << index;
            }
        }
        older
    }

    /// Pages with versions that too few slabs claim; with `all`, also such that were written since somebody asked last.
    pub fn unclaimed(&mut self, all: bool) -> Vec<u32> {
        let recent = std::mem::take(&mut self.recent);
        let due = self.unclaimed.iter().filter(|page| all || !recent.contains(page)).copied();
        let due: Vec<u32> = if all { due.chain(recent.iter().copied()).collect() } else { due.collect() };
        self.unclaimed.extend(recent);
        due
    }

    /// What the disks claim is to be read again: a slab counts that may not have been asked.
    pub fn doubt(&mut self) {
        self.pages.values_mut().for_each(|page| page.read = false);
    }

    /// Notes that every slab which can take it claims a page as it was claimed.
    pub fn end_unclaimed(&mut self, page: u32) {
        self.unclaimed.remove(&page);
    }

    /// Whether anything is durable that is to be claimed yet.
    pub fn is_due(&self) -> bool {
        !self.unclaimed.is_empty() || !self.recent.is_empty()
    }

    /// Gives the memory of a page back that no slab has in memory, unless it is to be claimed yet.
    pub fn evict(&mut self, page: u32) {
        if !self.unclaimed.contains(&page) && !self.recent.contains(&page) {
            self.pages.remove(&page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector(version: u64) -> Option<RegionSums> {
        Some(RegionSums { version, known: u64::MAX, given: 0, checksums: [1; 64] })
    }

    #[test]
    fn a_sector_older_than_what_is_claimed_of_it_is_left_out() {
        let mut claims = DurableVersions::new(3);
        let mut claim = vec![0; 3 * REGIONS];
        // Of slab 1, in regions 0 and 2.
        (claim[1], claim[2 * 3 + 1]) = (5, 7);
        claims.take(4, &[claim, vec![0; 3 * REGIONS]], true);
        assert!(claims.is_read(4) && !claims.is_read(3));
        let mut found = [sector(4), sector(1), sector(7), None, sector(0), None, None, None];
        assert_eq!(claims.leave_out_older(1, 4, &mut found), 1);
        assert!(found[0].is_none() && found[1].is_some() && found[2].is_some());
        assert_eq!(claims.leave_out_older(0, 4, &mut [sector(1); REGIONS]), 0, "nothing is claimed of it");
        assert_eq!(claims.leave_out_older(1, 4, &mut [sector(0); REGIONS]), 0, "it may be from before there were any");
    }

    #[test]
    fn what_is_durable_is_to_be_claimed_once_it_is_idle() {
        let mut claims = DurableVersions::new(2);
        claims.note_durable(1, 0, &[3; REGIONS]);
        assert_eq!(claims.of_slab(1, 0), [3; REGIONS]);
        assert!(claims.unclaimed(false).is_empty(), "it may be written again");
        claims.evict(0);
        assert_eq!(claims.unclaimed(false), [0]);
        claims.note_durable(1, 0, &[4; REGIONS]);
        assert!(claims.unclaimed(false).is_empty());
        claims.note_durable(1, 0, &[4; REGIONS]);
        claims.note_durable(0, 9, &[1; REGIONS]);
        assert_eq!(claims.unclaimed(true), [0, 9]);
        claims.end_unclaimed(0);
        claims.end_unclaimed(9);
        assert!(!claims.is_due());
        claims.evict(0);
        assert_eq!(claims.of(0), vec![0; 2 * REGIONS]);
    }
}
