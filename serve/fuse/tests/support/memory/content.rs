//! The bytes of a file: pages of 4 KiB where there is data, and ranges that are set aside.
//!
//! Invariant: what lies behind the end of the file, in its last page too, is zero.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_device::IoSlice;
use holdfast_volume::service::{Data, Seek};

pub const PAGE_BYTES: u64 = 4096;

#[derive(Debug, Default)]
pub struct Content {
    pub size: u64,
    pages: BTreeMap<u64, IoSlice>,
    /// Pages without data that have room.
    reserved: BTreeSet<u64>,
}

impl Content {
    pub fn allocated_bytes(&self) -> u64 {
        (self.pages.len() + self.reserved.len()) as u64 * PAGE_BYTES
    }

    pub fn read(&self, offset: u64, len: usize) -> Data {
        let end = self.size.min(offset.saturating_add(len as u64));
        let (mut data, mut at) = (Data::default(), offset);
        let zeros = IoSlice::padded(&[0; PAGE_BYTES as usize]);
        while at < end {
            let within = (at % PAGE_BYTES) as usize;
            let part = (end - at).min(PAGE_BYTES - at % PAGE_BYTES) as usize;
            data.push(self.pages.get(&(at / PAGE_BYTES)).unwrap_or(&zeros).clone(), within, part);
            at += part as u64;
        }
        data
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let within = (at % PAGE_BYTES) as usize;
            let (part, behind) = rest.split_at(rest.len().min(PAGE_BYTES as usize - within));
            self.change(at / PAGE_BYTES, within, part);
            at += part.len() as u64;
            rest = behind;
        }
        self.size = self.size.max(at);
    }

    fn change(&mut self, page: u64, within: usize, part: &[u8]) {
        let new = if part.len() == PAGE_BYTES as usize {
            IoSlice::padded(part)
        } else {
            let mut old = self.pages.get(&page).map_or_else(|| vec![0; PAGE_BYTES as usize], |old| old.to_vec());
            old[within..within + part.len()].copy_from_slice(part);
            IoSlice::padded(&old)
        };
        self.pages.insert(page, new);
        self.reserved.remove(&page);
    }

    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.clear(size, self.size.next_multiple_of(PAGE_BYTES));
            let first = size.div_ceil(PAGE_BYTES);
            self.reserved = std::mem::take(&mut self.reserved).into_iter().filter(|page| *page < first).collect();
        }
        self.size = size;
    }

    /// The range reads as zeros; whole pages of it have no room any more.
    pub fn clear(&mut self, from: u64, to: u64) {
        let (first, last) = (from.div_ceil(PAGE_BYTES), to / PAGE_BYTES);
        for page in self.pages.range(first..last.max(first)).map(|(page, _)| *page).collect::<Vec<_>>() {
            self.pages.remove(&page);
        }
        self.reserved.retain(|page| *page < first || *page >= last);
        let mut edges = vec![(from, to.min(from.next_multiple_of(PAGE_BYTES)))];
        if last >= first {
            edges.push((last * PAGE_BYTES, to));
        }
        for (from, to) in edges {
            if from < to && self.pages.contains_key(&(from / PAGE_BYTES)) {
                self.change(from / PAGE_BYTES, (from % PAGE_BYTES) as usize, &vec![0; (to - from) as usize]);
            }
        }
    }

    pub fn reserve(&mut self, from: u64, to: u64) {
        for page in from / PAGE_BYTES..to.div_ceil(PAGE_BYTES) {
            if !self.pages.contains_key(&page) {
                self.reserved.insert(page);
            }
        }
    }

    pub fn seek(&self, offset: u64, what: Seek) -> Option<u64> {
        if offset >= self.size {
            return None;
        }
        let page = offset / PAGE_BYTES;
        let found = match what {
            Seek::Data => self.pages.range(page..).next().map(|(page, _)| page * PAGE_BYTES)?,
            Seek::Hole => {
                let mut hole = page;
                while self.pages.contains_key(&hole) {
                    hole += 1;
                }
                (hole * PAGE_BYTES).min(self.size)
            }
        };
        Some(found.max(offset)).filter(|at| what == Seek::Hole || *at < self.size)
    }
}
