//! The log as its disks have it: read from whichever copies make it whole.
//!
//! Records and anchors carry checksums. So where the copies of a stretch differ, or one cannot be read, the ones that
//! pass are taken, whatever disks they are on: a copy that rotted is not the end of the log while another is sound.
//! After a crash this comes before the copies are made to agree, which would take any of them.
//!
//! Invariant: what is answered passed its check, and every copy in service holds it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::try_join_all;
use holdfast_device::{IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::crc32c;

use crate::column::Blocks;
use crate::lock_order::join_all;
use crate::row::Row;
use crate::stripe::{Segment, segments};

use super::geometry::bytes_of;
use super::journal::{Journal, Stretch};
use super::log_record::{FoundRecord, Record};
use super::record::{Entry, RecordPlace};
use super::store::ParityStore;

/// Ways of putting a stretch together from copies that differ which are tried, at most.
const MOST_TRIES: usize = 256;

/// A copy: its index in the row, and what it holds; nothing where it cannot be read.
type Copy = (Option<usize>, Option<IoSlice>);

/// A part of a stretch in one column: of one block where its copies differ.
struct Part<'a> {
    row: &'a Arc<Row>,
    offset: u64,
    /// Where it begins in the whole.
    at: usize,
    len: usize,
    unsynced: bool,
    copies: Vec<Copy>,
}

impl Part<'_> {
    /// What its copies hold, each content once.
    fn contents(&self) -> Vec<&IoSlice> {
        let mut contents: Vec<&IoSlice> = Vec::new();
        for content in self.copies.iter().filter_map(|(_, content)| content.as_ref()) {
            if contents.iter().all(|known| known[..] != content[..]) {
                contents.push(content);
            }
        }
        contents
    }

    /// Block by block, where its copies differ.
    fn split(self) -> Vec<Self> {
        if self.contents().len() < 2 {
            return vec![self];
        }
        let block = BLOCK_BYTES as usize;
        let part = |skip: usize| Self {
            row: self.row,
            offset: self.offset + skip as u64,
            at: self.at + skip,
            len: block,
            unsynced: self.unsynced,
            copies: self
                .copies
                .iter()
                .map(|(copy, held)| (*copy, held.as_ref().map(|held| held.slice(skip, block))))
                .collect(),
        };
        (0..self.len).step_by(block).map(part).collect()
    }

    fn disk(&self, copy: Option<usize>) -> Option<u16> {
        copy.map(|index| self.row.slabs.get(index).disk.index)
    }

    /// Which of its contents any disk but these holds.
    fn content_without(&self, disks: &[u16]) -> usize {
        let elsewhere =
            |(copy, held): &&Copy| held.is_some() && self.disk(*copy).is_none_or(|disk| !disks.contains(&disk));
        let content = self.copies.iter().find(elsewhere).and_then(|(_, held)| held.as_ref());
        content.and_then(|content| self.contents().iter().position(|known| known[..] == content[..])).unwrap_or(0)
    }

    /// Writes what it is to hold to the copies that hold something else.
    async fn put_right(&self, whole: &[u8]) -> Result<(), IoError> {
        let good = &whole[self.at..self.at + self.len];
        for (copy, held) in &self.copies {
            let Some(index) = copy.filter(|_| held.as_ref().is_none_or(|held| held[..] != *good)) else { continue };
            let data = IoSlice::padded(good);
            if self.unsynced {
                self.row.write_durably(index, self.offset, data).await?;
                continue;
            }
            if held.is_some() {
                let errors = &self.row.slabs.get(index).disk.counters.checksum_errors;
                errors.fetch_add(good.len() as u64 / BLOCK_BYTES, Ordering::Relaxed);
            }
            self.row.rewrite_failed(index, self.offset, data).await;
        }
        Ok(())
    }
}

/// Which content each part is to have: as if one disk after the other, and two at a time, were rotten throughout, and
/// then in every way, up to a limit.
fn choices(parts: &[Part<'_>]) -> impl Iterator<Item = Vec<usize>> {
    let counts: Vec<usize> = parts.iter().map(|part| part.contents().len()).collect();
    let differing = parts.iter().zip(&counts).filter(|(_, count)| **count > 1).map(|(part, _)| part);
    let disks: BTreeSet<u16> =
        differing.flat_map(|part| part.copies.iter().filter_map(|(copy, _)| part.disk(*copy))).collect();
    let disks: Vec<u16> = disks.into_iter().collect();
    let one = disks.clone().into_iter().map(|disk| [disk, disk]);
    let two = (0..disks.len())
        .flat_map(move |at| disks[at + 1..].iter().map(|other| [disks[at], *other]).collect::<Vec<_>>());
    let rotten = one.chain(two).map(move |rotten| parts.iter().map(|part| part.content_without(&rotten)).collect());
    let every = (0..MOST_TRIES).map_while(move |number| {
        let mut left = number;
        let mut choice = Vec::with_capacity(counts.len());
        for count in &counts {
            choice.push(left % count);
            left /= count;
        }
        (left == 0).then_some(choice)
    });
    rotten.chain(every)
}

fn put_together(parts: &[Part<'_>], check: impl Fn(&[u8]) -> bool) -> Option<IoBuf> {
    let contents: Vec<Vec<&IoSlice>> = parts.iter().map(Part::contents).collect();
    let mut whole = IoBuf::new(parts.iter().map(|part| part.len).sum());
    let mut tried = choices(parts).map(|choice| {
        for ((part, contents), chosen) in parts.iter().zip(&contents).zip(choice) {
            whole[part.at..part.at + part.len].copy_from_slice(contents[chosen]);
        }
        check(&whole)
    });
    tried.any(|passed| passed).then_some(whole)
}

impl ParityStore {
    /// Reads a stretch of the log that passes a check; `None` where no copies make one that does.
    pub(super) async fn read_log(
        &self,
        journal: &Journal,
        at: u64,
        len: usize,
        check: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<IoBuf>, IoError> {
        self.read_checked(&journal.stretches(at, len as u64), check).await
    }

    async fn read_checked(
        &self,
        stretches: &[Stretch<'_>],
        check: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<IoBuf>, IoError> {
        let unsynced =
            stretches.iter().any(|stretch| pieces_of(stretch).any(|segment| is_unsynced(stretch.row, &segment)));
        if !unsynced {
            let whole = self.read_stretches(stretches).await?;
            if check(&whole) {
                return Ok(Some(whole));
            }
        }
        let parts = self.read_parts(stretches).await?;
        let Some(whole) = put_together(&parts, &check) else { return Ok(None) };
        for part in &parts {
            part.put_right(&whole).await?;
        }
        Ok(Some(whole))
    }

    /// Reads stretches one behind the other, each part from any copy.
    async fn read_stretches(&self, stretches: &[Stretch<'_>]) -> Result<IoBuf, IoError> {
        let mut whole = IoBuf::new(stretches.iter().map(|stretch| stretch.len).sum());
        let mut done = 0;
        for stretch in stretches {
            for segment in pieces_of(stretch) {
                let data = stretch.row.read_segment(&segment, IoBuf::new(segment.len)).await?;
                whole[done..done + data.len()].copy_from_slice(&data);
                done += data.len();
            }
        }
        Ok(whole)
    }

    /// Reads every copy of stretches.
    async fn read_parts<'a>(&self, stretches: &[Stretch<'a>]) -> Result<Vec<Part<'a>>, IoError> {
        let mut reads = Vec::new();
        let mut at = 0;
        for stretch in stretches {
            for segment in pieces_of(stretch) {
                reads.push(self.read_copies(stretch.row, segment, at));
                at += segment.len;
            }
        }
        Ok(try_join_all(reads).await?.into_iter().flat_map(Part::split).collect())
    }

    async fn read_copies<'a>(&self, row: &'a Arc<Row>, segment: Segment, at: usize) -> Result<Part<'a>, IoError> {
        let Segment { column, offset, len, .. } = segment;
        let unsynced = is_unsynced(row, &segment);
        let in_service: Vec<_> = row.copies_of(column).filter(|(_, slab)| slab.usable()).collect();
        let reads = in_service.into_iter().map(|(index, slab)| async move {
            match slab.disk.read(slab.at(offset), IoBuf::new(len)).await {
                Ok(data) => (Some(index), Some(data.freeze())),
                Err(error) => {
                    row.read_failed(&slab, &error).await;
                    (Some(index), None)
                }
            }
        });
        let mut copies = join_all(reads).await;
        if copies.iter().all(|(_, held)| held.is_none()) {
            // This waits for a copy to come in step, or tells why there is none.
            copies.push((None, Some(row.read_segment(&segment, IoBuf::new(len)).await?.freeze())));
        }
        Ok(Part { row, offset, at, len, unsynced, copies })
    }

    /// The newest anchor that any copy has: its number, and where the log begins.
    async fn find_anchor(&self, journal: &Journal) -> Result<Option<(u64, RecordPlace)>, IoError> {
        let mut newest: Option<(u64, RecordPlace)> = None;
        for slot in 0..2 {
            let stretch = journal.anchor(slot);
            let open = |block: &[u8]| RecordPlace::open_anchor(journal.pool, journal.space, journal.id, block);
            let parts = self.read_parts(std::slice::from_ref(&stretch)).await?;
            let found =
                parts.iter().flat_map(Part::contents).filter_map(|block| open(block)).max_by_key(|(number, _)| *number);
            let Some(anchor) = found else { continue };
            self.read_checked(&[stretch], |block| open(block) == Some(anchor))
                .await?
                .ok_or_else(|| self.lost_log(0))?;
            newest = newest.filter(|known| known.0 > anchor.0).or(Some(anchor));
        }
        Ok(newest)
    }

    /// What the first block of a record tells on any copy. That alone proves nothing of the rest of the block.
    async fn find_in_first_block<T>(
        &self,
        journal: &Journal,
        at: u64,
        open: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, IoError> {
        let parts = self.read_parts(&journal.stretches(at, BLOCK_BYTES)).await?;
        Ok(parts.iter().flat_map(Part::contents).find_map(|block| open(block)))
    }

    /// Finds the log: from the place in the newest anchor on, record by record, while each is whole. `band_of` tells to
    /// which band an entry belongs.
    pub async fn read_journal(
        &self,
        journal: &Journal,
        band_of: impl Fn(&Entry) -> (u32, u32),
    ) -> Result<Vec<FoundRecord>, IoError> {
        let mut records = Vec::new();
        let mut chain = journal.appending.lock().await;
        let mut start = journal.place(0, 1, 0);
        if let Some(anchor) = self.find_anchor(journal).await? {
            (chain.anchor, start) = anchor;
        }
        let (mut at, mut left, mut kept) = (start.at, journal.capacity(), 0);
        (chain.sequence, chain.previous) = (start.sequence, start.previous);
        while left >= BLOCK_BYTES {
            let place = journal.place(at, chain.sequence, chain.previous);
            let head_bytes = |block: &[u8]| place.head_bytes(block).filter(|bytes| *bytes as u64 <= left);
            let Some(len) = self.find_in_first_block(journal, at, head_bytes).await? else { break };
            let head = self.read_log(journal, at, len, |head| place.open(head).is_some()).await?;
            let Some((head, crc)) = head.and_then(|head| place.open(&head)) else { break };
            let (blocks_at, data_bytes) = (at + len as u64, bytes_of(head.blocks));
            let whole = len as u64 + data_bytes as u64;
            if whole > left {
                break;
            }
            let Some(data) = self.read_log(journal, blocks_at, data_bytes, |data| crc32c(data) == head.crc).await?
            else {
                break;
            };
            kept += data_bytes;
            let blocks = (kept <= self.limits.write_buffer_bytes).then(|| data.freeze());
            let bands = head.entries.iter().map(&band_of).collect();
            let record = Arc::new(Record::new(at, chain.sequence, chain.previous, bands));
            journal.lock().records.push_back(record.clone());
            at += whole;
            left -= whole;
            chain.sequence += 1;
            chain.previous = crc;
            records.push(FoundRecord { record, entries: head.entries, blocks, blocks_at, end: at, crc: head.crc });
        }
        let mut log = journal.lock();
        (log.tail, log.head) = (start.at, at);
        Ok(records)
    }

    /// The blocks that a record brings along.
    pub(super) async fn blocks_of(&self, journal: &Journal, record: &FoundRecord) -> Result<IoSlice, IoError> {
        if let Some(blocks) = &record.blocks {
            return Ok(blocks.clone());
        }
        let len = (record.end - record.blocks_at) as usize;
        let data = self.read_log(journal, record.blocks_at, len, |data| crc32c(data) == record.crc).await?;
        data.map(IoBuf::freeze).ok_or_else(|| self.lost_log(record.blocks_at))
    }

    /// The refusal of what no copy of the log has as it was written.
    pub(super) fn lost_log(&self, at: u64) -> IoError {
        let path = self.path();
        IoError::new(
            IoErrorKind::Media,
            format!("no copy of the journal of space {path} holds what was written to it at {at}"),
        )
    }
}

fn pieces_of(stretch: &Stretch<'_>) -> impl Iterator<Item = Segment> {
    segments(stretch.row.shape(), stretch.offset, stretch.len)
}

/// Whether its copies may differ since a crash.
fn is_unsynced(row: &Row, segment: &Segment) -> bool {
    let regions = Blocks::of(segment.offset, segment.len).regions();
    row.columns()[segment.column].lock().unsynced.contains_any(regions.start, regions.end)
}
