//! The state of a column in memory.
//!
//! Invariants: `pending` is a part of `written`, and `settling` of what is written; what a block map on disk shows as
//! written is `written` less `pending`; a region with a running write is in `marked`, and `marked` is what every copy
//! in step has on disk, or more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use holdfast_model::BLOCK_BYTES;

use crate::block_map::{DIRTY_WORDS, MAP_BLOCKS, MAP_REGIONS, MapBits, REGION_BLOCKS, WRITTEN_WORDS};
use crate::block_set::BlockSet;
use crate::lock_order::{Lock, Locked, TaskLock, rank};
use crate::range_queue::RangeQueue;

/// Regions that are marked at once although one of them is written.
const MARKED_AHEAD: u32 = 64;

/// A column of an open row.
pub struct Column {
    /// What changes with every write.
    pub state: Lock<{ rank::STATE }, ColumnState>,
    /// The maps on disk; held while one is written.
    pub maps: TaskLock<{ rank::MAPS }, Vec<MapOnDisk>>,
    /// Whether its state is what its disks tell.
    open: AtomicBool,
    /// Whether its disks are there, and what they have could not be read when it was opened last.
    damaged: AtomicBool,
}

/// Where a block map stands on the disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapOnDisk {
    /// Of the newest map.
    pub sequence: u64,
    /// For each copy, the slot that holds it.
    pub slots: Vec<u8>,
}

/// What is known of a column's blocks.
#[derive(Debug)]
pub struct ColumnState {
    /// Blocks that hold data.
    pub written: BlockSet,
    /// Of these, blocks whose data was not durable when they were written first.
    pub pending: BlockSet,
    /// Of these, blocks whose data the flush under way makes durable.
    settling: BlockSet,
    /// What became of writes that were answered before they were durable.
    cached: Cached,
    /// Regions marked dirty on disk.
    pub marked: BlockSet,
    /// Regions that somebody waits to have marked.
    pub wanted: BlockSet,
    /// Regions written since the last look of maintenance.
    pub recent: BlockSet,
    /// Regions whose copies may differ since a crash, or since a write that failed or was given up.
    pub unsynced: BlockSet,
    /// Of these, regions whose known checksums count: nothing but a write of this process was cut short there.
    pub torn: BlockSet,
    /// Writers.
    pub queue: RangeQueue,
    running: Vec<u16>,
    /// For each map how often its content changed, and at which count it was written last.
    maps: Vec<MapAge>,
}

/// Writes that were answered and are not known to be durable.
#[derive(Clone, Copy, Debug, Default)]
struct Cached {
    /// Whether there are any since the last flush began.
    some: bool,
    /// Whether a flush of some began and is not over.
    settling: bool,
    /// Whether no disk has all of them any more.
    lost: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct MapAge {
    changed: u64,
    on_disk: u64,
}

/// What a map is to hold, and what is so once it is on disk.
pub struct MapWrite {
    /// Its content.
    pub bits: MapBits,
    map: usize,
    age: u64,
    wanted: Vec<(u32, u32)>,
}

/// A range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
}

impl Blocks {
    /// The blocks of a byte range of a column.
    pub fn of(offset: u64, len: usize) -> Self {
        Self { start: (offset / BLOCK_BYTES) as u32, end: ((offset + len as u64) / BLOCK_BYTES) as u32 }
    }

    /// The regions that they touch.
    pub fn regions(self) -> Self {
        Self { start: self.start / REGION_BLOCKS, end: self.end.div_ceil(REGION_BLOCKS) }
    }

    /// The maps that cover them.
    pub fn maps(self) -> std::ops::Range<usize> {
        (self.start / MAP_BLOCKS) as usize..self.end.div_ceil(MAP_BLOCKS) as usize
    }

    /// The blocks of a region of a column.
    pub fn of_region(region: u32, column_blocks: u32) -> Self {
        Self { start: region * REGION_BLOCKS, end: ((region + 1) * REGION_BLOCKS).min(column_blocks) }
    }
}

impl Column {
    /// An empty column of so many bytes, with so many copies.
    pub fn new(bytes: u64, copies: usize) -> Self {
        let blocks = (bytes / BLOCK_BYTES) as u32;
        let maps = vec![MapOnDisk { sequence: 0, slots: vec![1; copies] }; blocks.div_ceil(MAP_BLOCKS) as usize];
        Self {
            state: Lock::new(ColumnState::new(blocks)),
            maps: TaskLock::new(maps),
            open: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
        }
    }

    /// Whether its state is what its disks tell; before that nothing is known of its blocks.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Whether its disks are there, and what they have could not be read when it was opened last.
    pub fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    /// Notes whether what its disks have could not be read.
    pub fn set_damaged(&self, damaged: bool) {
        self.damaged.store(damaged, Ordering::Release);
    }

    /// Notes that its state is what its disks tell.
    pub fn set_open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// Its state.
    pub fn lock(&self) -> Locked<'_, { rank::STATE }, ColumnState> {
        self.state.lock()
    }

    /// Waits until an entry of the queue may go on.
    pub async fn granted(&self, id: u64) {
        std::future::poll_fn(|context| match self.lock().queue.poll(id, context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }
}

impl ColumnState {
    fn new(blocks: u32) -> Self {
        let regions = blocks.div_ceil(REGION_BLOCKS);
        Self {
            written: BlockSet::new(blocks),
            pending: BlockSet::new(blocks),
            settling: BlockSet::new(blocks),
            cached: Cached::default(),
            marked: BlockSet::new(regions),
            wanted: BlockSet::new(regions),
            recent: BlockSet::new(regions),
            unsynced: BlockSet::new(regions),
            torn: BlockSet::new(regions),
            queue: RangeQueue::default(),
            running: Vec::new(),
            maps: vec![MapAge::default(); blocks.div_ceil(MAP_BLOCKS) as usize],
        }
    }

    /// Notes that a write to these regions begins.
    pub fn begin(&mut self, regions: Blocks) {
        if self.running.len() < regions.end as usize {
            self.running.resize(regions.end as usize, 0);
        }
        self.running[regions.start as usize..regions.end as usize].iter_mut().for_each(|count| *count += 1);
    }

    /// Notes that it is over.
    pub fn end(&mut self, regions: Blocks) {
        self.running[regions.start as usize..regions.end as usize].iter_mut().for_each(|count| *count -= 1);
        self.recent.insert(regions.start, regions.end);
    }

    /// Notes that nobody knows how a write to these regions ended.
    pub fn tear(&mut self, regions: Blocks) {
        for region in (regions.start..regions.end).filter(|region| !self.unsynced.contains(*region)).collect::<Vec<_>>()
        {
            self.torn.insert(region, region + 1);
            self.unsynced.insert(region, region + 1);
        }
    }

    /// Notes that the copies of a region agree.
    pub fn end_unsynced(&mut self, region: u32) {
        self.unsynced.remove(region, region + 1);
        self.torn.remove(region, region + 1);
    }

    /// Whether a write to the region is under way.
    pub fn is_running(&self, region: u32) -> bool {
        self.running.get(region as usize).is_some_and(|count| *count > 0)
    }

    /// Notes that blocks were written. Answers whether their block maps must reach the disk for a durable write to
    /// last.
    pub fn note_written(&mut self, blocks: Blocks, durable: bool) -> bool {
        let Blocks { start, end } = blocks;
        let known = self.written.contains_all(start, end);
        if durable {
            if !known || self.pending.contains_any(start, end) {
                self.written.insert(start, end);
                self.pending.remove(start, end);
                self.note_changed(blocks);
            }
            return blocks.maps().any(|map| self.is_behind(map));
        }
        self.cached.some = true;
        if !known {
            let mut at = start;
            while let Some(first) = self.written.next(at, end, false) {
                at = self.written.next(first, end, true).unwrap_or(end);
                self.pending.insert(first, at);
            }
            self.written.insert(start, end);
        }
        false
    }

    /// Notes that the disks are about to be flushed. One flush at a time does so.
    pub fn begin_settling(&mut self) {
        self.settling = self.pending.clone();
        self.cached.settling |= std::mem::take(&mut self.cached.some);
    }

    /// The only disks with what was answered since the last flush may have lost it.
    pub fn lose_cached(&mut self) {
        self.cached.lost |= self.cached.some || self.cached.settling;
    }

    /// Whether something that was answered is lost.
    pub fn has_lost(&self) -> bool {
        self.cached.lost
    }

    /// Whether something that was answered is lost; it is reported once.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.cached.lost)
    }

    /// Notes that they are flushed: what was pending then, and was not discarded since, is durable.
    pub fn end_settling(&mut self) {
        self.cached.settling = false;
        let settled = std::mem::replace(&mut self.settling, BlockSet::new(self.pending.limit()));
        for (start, end) in settled.runs(0, settled.limit()) {
            if self.pending.contains_any(start, end) {
                self.pending.remove(start, end);
                self.note_changed(Blocks { start, end });
            }
        }
    }

    /// Blocks that were not durable when they were written first hold nothing any more.
    pub fn forget_pending(&mut self) {
        for (start, end) in self.pending.runs(0, self.pending.limit()).collect::<Vec<_>>() {
            self.note_discarded(Blocks { start, end });
        }
    }

    /// Notes that blocks hold nothing any more.
    pub fn note_discarded(&mut self, blocks: Blocks) {
        if self.written.contains_any(blocks.start, blocks.end) {
            self.written.remove(blocks.start, blocks.end);
            self.pending.remove(blocks.start, blocks.end);
            self.settling.remove(blocks.start, blocks.end);
            self.note_changed(blocks);
        }
    }

    fn note_changed(&mut self, blocks: Blocks) {
        blocks.maps().for_each(|map| self.maps[map].changed += 1);
    }

    /// Whether a map on disk does not yet hold all that it should.
    pub fn is_behind(&self, map: usize) -> bool {
        self.maps[map].on_disk < self.maps[map].changed
    }

    /// Asks for regions of one map to be marked, and for their neighbours with them: about as many as the map has
    /// marked already, so that writes scattered over a column need few marks, and at most [`MARKED_AHEAD`].
    pub fn want_around(&mut self, regions: Blocks) {
        let first = regions.start / MAP_REGIONS * MAP_REGIONS;
        let end = (first + MAP_REGIONS).min(self.wanted.limit());
        let window = self.marked.count_in(first, end).next_power_of_two().min(MARKED_AHEAD);
        self.wanted.insert((regions.start / window * window).max(first), regions.end.next_multiple_of(window).min(end));
    }

    /// What a map tells of the column as it is, with the regions that are to be marked.
    pub fn map_bits(&self, map: usize) -> MapBits {
        let mut bits = MapBits { dirty: [0; DIRTY_WORDS], written: [0; WRITTEN_WORDS] };
        for (index, word) in bits.dirty.iter_mut().enumerate() {
            let index = map * DIRTY_WORDS + index;
            *word = self.marked.word(index) | self.wanted.word(index);
        }
        for (index, word) in bits.written.iter_mut().enumerate() {
            let index = map * WRITTEN_WORDS + index;
            *word = self.written.word(index) & !self.pending.word(index);
        }
        bits
    }

    /// What the map on disk is to hold.
    pub fn begin_map(&mut self, map: usize) -> MapWrite {
        let first = map as u32 * MAP_REGIONS;
        let wanted: Vec<(u32, u32)> = self.wanted.runs(first, (first + MAP_REGIONS).min(self.wanted.limit())).collect();
        let bits = self.map_bits(map);
        wanted.iter().for_each(|(start, end)| self.wanted.remove(*start, *end));
        MapWrite { bits, map, age: self.maps[map].changed, wanted }
    }

    /// Notes that the map is on every copy.
    pub fn end_map(&mut self, write: &MapWrite) {
        write.wanted.iter().for_each(|(start, end)| self.marked.insert(*start, *end));
        let age = &mut self.maps[write.map];
        age.on_disk = age.on_disk.max(write.age);
    }

    /// Nobody knows which blocks of a map hold data: all count as written from now on. Answers which these are.
    pub fn lose_map(&mut self, map: usize) -> Blocks {
        let start = map as u32 * MAP_BLOCKS;
        let blocks = Blocks { start, end: (start + MAP_BLOCKS).min(self.blocks()) };
        self.written.insert(blocks.start, blocks.end);
        self.note_changed(blocks);
        blocks
    }

    /// Takes over what a map on disk holds.
    pub fn load_map(&mut self, map: usize, bits: &MapBits) {
        for (index, word) in bits.dirty.iter().enumerate() {
            self.marked.insert_word(map * DIRTY_WORDS + index, *word);
        }
        for (index, word) in bits.written.iter().enumerate() {
            self.written.insert_word(map * WRITTEN_WORDS + index, *word);
        }
    }

    /// Asserts what must hold between any two steps; `marks` where regions are marked dirty before they are written.
    pub fn check(&self, marks: bool) {
        assert!(self.pending.is_within(&self.written), "what is not durable yet was written");
        assert!(self.settling.is_within(&self.written), "what is being made durable was written");
        assert!(self.torn.is_within(&self.unsynced), "what was cut short is looked at as after a crash");
        assert!(self.maps.iter().all(|map| map.on_disk <= map.changed), "no map on disk is newer than the state");
        if marks {
            assert!(self.unsynced.is_within(&self.marked), "what may differ is marked on disk");
            let running = self.running.iter().zip(0..).filter(|(count, _)| **count > 0);
            assert!(
                running.into_iter().all(|(_, region)| self.marked.contains(region)),
                "what is being written is marked on disk"
            );
        }
    }

    /// Whether the disks hold what was written, and tell of it.
    pub fn is_durable(&self) -> bool {
        self.pending.is_empty() && (0..self.maps.len()).all(|map| !self.is_behind(map))
    }

    /// As [`ColumnState::is_durable`], with every write that was answered.
    pub fn is_flushed(&self) -> bool {
        let Cached { some, settling, lost } = self.cached;
        !some && !settling && !lost && self.is_durable()
    }

    /// Whether the disks hold all that is known here.
    pub fn is_settled(&self) -> bool {
        let marks = [&self.marked, &self.wanted, &self.unsynced];
        self.is_durable() && self.queue.is_empty() && marks.iter().all(|set| set.is_empty())
    }

    /// Blocks of the column.
    pub fn blocks(&self) -> u32 {
        self.written.limit()
    }
}
