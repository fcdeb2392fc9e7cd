//! The heads of slabs as an open row finds them on disk: whether they are its own, and the newest of the maps in them.
//!
//! After a crash the slabs that back each other may differ by the last map written: the newest counts. A slab that is
//! away may hold one map more, of a write that a crash cut short: its number is passed over.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use holdfast_device::{Durability, IoBuf, IoError};
use holdfast_model::{BLOCK_BYTES, Uuid};
use holdfast_pool::Severity;
use holdfast_pool::frame::{Frame, Kind, Position};
use holdfast_pool::slab::{MOST_MAP_SEQUENCE, map_at};

use crate::block_map::MapBits;
use crate::column::MapOnDisk;
use crate::row::{Row, RowBody};

/// The head of a slab.
struct Head {
    index: usize,
    start: u64,
    disk: Uuid,
    bytes: IoBuf,
    /// Whether it begins with a header of the slab, however the row stands by that.
    headed: bool,
}

impl Head {
    /// The numbers that it has of a map.
    fn numbers(&self, map: usize, open: &impl Fn(usize, &[u8], Uuid, u64) -> Option<u64>) -> Vec<u64> {
        let numbers = (0..2).filter_map(|slot| {
            let at = map_at(map, slot);
            open(map, &self.bytes[at as usize..(at + BLOCK_BYTES) as usize], self.disk, self.start + at)
        });
        numbers.filter(|number| *number <= MOST_MAP_SEQUENCE).collect()
    }
}

/// The heads of slabs that back each other, as far as they can be read.
pub struct Heads {
    found: Vec<Head>,
    slabs: Range<usize>,
    /// Whether none of them is away.
    all: bool,
    /// Whether every slab has the row's header.
    pub owned: bool,
    /// Why one cannot be read.
    pub error: Option<IoError>,
}

/// Slabs with damaged heads.
pub struct Damaged {
    /// Without a header, or without one of their maps.
    pub slabs: Vec<usize>,
    /// Slabs with all their maps.
    pub mapped: Vec<usize>,
}

/// What is damaged of the head of a slab.
pub struct OddHead {
    /// The slab.
    pub index: usize,
    header: bool,
    maps: Vec<usize>,
}

impl OddHead {
    /// How many blocks of it.
    pub fn blocks(&self) -> u64 {
        u64::from(self.header) + self.maps.len() as u64
    }
}

impl Row {
    /// Reads the heads of slabs in step, with so many maps.
    pub async fn read_heads(&self, slabs: Range<usize>, maps: usize) -> Heads {
        let count = slabs.len();
        let mut heads = Heads { found: Vec::new(), slabs: slabs.clone(), all: false, owned: true, error: None };
        for (index, slab) in slabs.map(|index| (index, self.slabs.get(index))).filter(|(_, slab)| slab.usable()) {
            match slab.disk.read(slab.start, IoBuf::new(map_at(maps, 0) as usize)).await {
                Ok(head) => {
                    let replaces = self.own_header(index, &head);
                    heads.owned &= replaces == Some(0);
                    let headed = replaces.is_some();
                    heads.found.push(Head { index, start: slab.start, disk: slab.disk.id, bytes: head, headed });
                }
                Err(error) => {
                    slab.disk.counters.read_errors.fetch_add(1, Ordering::Relaxed);
                    heads.owned = false;
                    heads.error = Some(error);
                }
            }
        }
        heads.all = heads.found.len() == count;
        heads
    }

    /// What the header of a slab says of how its row stands; `None` where there is none.
    fn own_header(&self, index: usize, head: &[u8]) -> Option<u64> {
        let slab = self.slabs.get(index);
        let position = Position { generation: self.record.id, sequence: 0 };
        let (pool, disk) = (self.pool.id(), slab.disk.id);
        let own = Frame { kind: Kind::SlabHeader, pool, disk, offset: slab.start, position, previous: 0 };
        own.open_own(&head[..BLOCK_BYTES as usize]).map(|(replaces, _)| replaces)
    }

    /// Writes the heads of a row of which no slab has any yet: header, and maps that tell of nothing.
    pub async fn write_first_heads(&self, slabs: &[usize]) -> Result<(), IoError> {
        match &self.body {
            RowBody::Bands(bands) => {
                let mut maps = bands.maps.lock().await;
                let seal = |map: usize, disk, offset, sequence| self.seal_band_map(map as u32, disk, offset, sequence);
                self.write_first_maps(slabs, &mut maps, 0..self.slabs.len(), &seal).await?;
            }
            RowBody::Columns(columns) => {
                for (column, known) in columns.iter().enumerate() {
                    let mut maps = known.maps.lock().await;
                    let seal = |map: usize, disk, offset, sequence| {
                        known.lock().map_bits(map).seal(&self.owner(column, map), disk, offset, sequence)
                    };
                    self.write_first_maps(slabs, &mut maps, self.shape().group(column * self.copies()), &seal).await?;
                }
            }
        }
        self.set_mapped();
        Ok(())
    }

    async fn write_first_maps(
        &self,
        slabs: &[usize],
        maps: &mut [MapOnDisk],
        group: Range<usize>,
        seal: &dyn Fn(usize, Uuid, u64, u64) -> IoBuf,
    ) -> Result<(), IoError> {
        for place in maps.iter_mut() {
            place.sequence += 1;
            place.slots.fill(0);
        }
        let writes = slabs.iter().filter(|index| group.contains(index)).map(|index| async {
            let slab = self.slabs.get(*index);
            let mut head = IoBuf::zeroed(map_at(maps.len(), 0) as usize);
            head[..BLOCK_BYTES as usize].copy_from_slice(&self.header_now(*index, &slab)?);
            for (map, place) in maps.iter().enumerate() {
                let at = map_at(map, 0);
                let block = seal(map, slab.disk.id, slab.start + at, place.sequence);
                head[at as usize..(at + BLOCK_BYTES) as usize].copy_from_slice(&block);
            }
            let written = slab.disk.write(slab.start, head.freeze(), Durability::Durable).await;
            Ok::<_, IoError>((*index, slab, written))
        });
        for written in join_all(writes.collect::<Vec<_>>()).await {
            let (index, slab, result) = written?;
            if let Err(error) = result {
                self.write_failed(index, &slab, &error).await?;
                self.settle_group(index).await?;
            }
        }
        Ok(())
    }

    /// Writes all maps as they are to every slab that takes writes.
    pub async fn write_every_map(&self) -> Result<(), IoError> {
        match &self.body {
            RowBody::Columns(columns) => {
                for (index, column) in columns.iter().enumerate() {
                    let mut maps = column.maps.lock().await;
                    for (map, place) in maps.iter_mut().enumerate() {
                        self.write_map(index, map, place).await?;
                    }
                }
            }
            RowBody::Bands(bands) => {
                let mut maps = bands.maps.lock().await;
                for (map, place) in maps.iter_mut().enumerate() {
                    let content = self.band_map_now(map as u32);
                    self.write_band_map(map as u32, &content, place).await?;
                }
            }
        }
        Ok(())
    }

    /// What is damaged of the heads of slabs in step, of a column or of all of a parity row, while the row is in use.
    pub async fn odd_heads(&self, set: usize) -> Vec<OddHead> {
        match &self.body {
            RowBody::Bands(bands) => {
                let maps = bands.maps.lock().await;
                let heads = self.read_heads(0..self.slabs.len(), maps.len()).await;
                heads.odd(self, maps.len(), |map, block, disk, offset| {
                    self.band_map_number(map as u32, block, disk, offset)
                })
            }
            RowBody::Columns(columns) => {
                let maps = columns[set].maps.lock().await;
                let heads = self.read_heads(self.shape().group(set * self.copies()), maps.len()).await;
                heads.odd(self, maps.len(), |map, block, disk, offset| {
                    MapBits::open(block, &self.owner(set, map), disk, offset).map(|(sequence, _)| sequence)
                })
            }
        }
    }

    /// Where nothing but heads tells whether slabs were overwritten, and others have what they hold: lets those whose
    /// heads are damaged be copied anew, as the next start would. Answers those that stay.
    pub async fn distrust_odd(&self, odd: Vec<OddHead>) -> Result<Vec<OddHead>, IoError> {
        let mut staying = Vec::with_capacity(odd.len());
        for head in odd {
            let is_copied =
                self.checksums.is_none() && self.pool.mark_outdated(self.space, self.chunk, head.index).await?;
            if is_copied {
                self.refresh();
            } else {
                staying.push(head);
            }
        }
        Ok(staying)
    }

    /// Writes damaged headers, and maps of a column, anew from memory.
    pub async fn rewrite_heads(&self, column: Option<usize>, odd: &[OddHead]) -> Result<(), IoError> {
        for head in odd.iter().filter(|head| head.header) {
            self.write_header(head.index).await?;
        }
        let Some(column) = column else { return Ok(()) };
        let mut maps = self.columns()[column].maps.lock().await;
        for map in odd.iter().flat_map(|head| head.maps.iter().copied()).collect::<BTreeSet<usize>>() {
            self.write_map(column, map, &mut maps[map]).await?;
        }
        Ok(())
    }

    /// Deals with slabs that have older maps than others though the pool was closed in good order: their disks lost
    /// writes, if that is `sure`. Where checksums tell what of them is right, they do; else all of such a slab is copied
    /// anew where the others suffice.
    pub async fn distrust_older(&self, older: &[(usize, bool)]) -> Result<(), IoError> {
        for (index, sure) in older.iter().copied() {
            if sure {
                self.tell_lagging(index);
            }
            let is_blind = self.checksums.is_none() && self.pool.refusal().is_none();
            if is_blind && self.pool.mark_outdated(self.space, self.chunk, index).await? {
                self.refresh();
            }
        }
        Ok(())
    }

    /// Deals with slabs that lack their header or a map although the row was written to: something overwrote their
    /// heads, so nothing of them is believed. Where the others suffice all of such a slab is copied anew; where they do
    /// not, its checksums tell what of it is right, and one without checksums does not count, unless it has all its
    /// maps.
    pub async fn distrust(&self, Damaged { slabs, mapped }: &Damaged) -> Result<(), IoError> {
        for index in slabs.iter().copied() {
            let slab = self.slabs.get(index);
            let (object, path) = (self.pool.disk_object(slab.disk.index), self.path());
            if self.pool.refusal().is_none() && self.pool.mark_outdated(self.space, self.chunk, index).await? {
                let cause = format!(
                    "the header of a slab of space {path} was overwritten; the slab is copied again from the others"
                );
                self.pool.emit(Severity::Error, object, cause, "find out what writes to the disk besides this pool");
                self.refresh();
            } else if self.checksums.is_none() && !mapped.contains(&index) {
                let cause =
                    format!("the head of a slab of space {path} was overwritten, and no other has what it held");
                self.pool.emit(Severity::Error, object, cause, "restore that data from a backup");
                slab.distrust();
            }
        }
        Ok(())
    }
}

impl Heads {
    /// Slabs without a header, or without one of so many maps; `open` reads a block of a disk at an offset as one of
    /// these.
    pub fn damaged(&self, maps: usize, open: impl Fn(usize, &[u8], Uuid, u64) -> bool) -> Damaged {
        let has = |head: &Head, map: usize| {
            (0..2).any(|slot| {
                let at = map_at(map, slot);
                open(map, &head.bytes[at as usize..(at + BLOCK_BYTES) as usize], head.disk, head.start + at)
            })
        };
        let mut damaged = Damaged { slabs: Vec::new(), mapped: Vec::new() };
        for head in &self.found {
            let is_mapped = (0..maps).all(|map| has(head, map));
            if !head.headed || !is_mapped {
                damaged.slabs.push(head.index);
            }
            if is_mapped {
                damaged.mapped.push(head.index);
            }
        }
        damaged
    }

    /// Slabs that have an older one of so many maps than another, and whether such a map is in both its slots: else the
    /// newer one may have been damaged. `open` tells the number of a map in a block. A pool that was closed in good order
    /// left none.
    pub fn older(&self, maps: usize, open: impl Fn(usize, &[u8], Uuid, u64) -> Option<u64>) -> Vec<(usize, bool)> {
        let numbers: Vec<Vec<Vec<u64>>> =
            self.found.iter().map(|head| (0..maps).map(|map| head.numbers(map, &open)).collect()).collect();
        let newest = |map: usize| numbers.iter().flat_map(|numbers| numbers[map].iter().copied()).max();
        let is_older =
            |numbers: &Vec<u64>, map: usize| !numbers.is_empty() && numbers.iter().copied().max() < newest(map);
        let found = self.found.iter().zip(&numbers).filter_map(|(head, numbers)| {
            let older: Vec<&Vec<u64>> = numbers
                .iter()
                .enumerate()
                .filter(|(map, numbers)| is_older(numbers, *map))
                .map(|(_, found)| found)
                .collect();
            (!older.is_empty()).then(|| (head.index, older.iter().any(|numbers| numbers.len() > 1)))
        });
        found.collect()
    }

    /// Slabs in step whose header cannot be read, or that lack the newest of a map; `open` tells the number of a map in
    /// a block.
    fn odd(&self, row: &Row, maps: usize, open: impl Fn(usize, &[u8], Uuid, u64) -> Option<u64>) -> Vec<OddHead> {
        let number = |head: &Head, map: usize| head.numbers(map, &open).into_iter().max();
        let newest: Vec<Option<u64>> =
            (0..maps).map(|map| self.found.iter().filter_map(|head| number(head, map)).max()).collect();
        let usable = self.slabs.clone().filter(|index| row.slabs.get(*index).usable());
        let odd = usable.map(|index| match self.found.iter().find(|head| head.index == index) {
            Some(head) => {
                let lacks = |map: &usize| newest[*map].is_none() || number(head, *map) < newest[*map];
                OddHead { index, header: !head.headed, maps: (0..maps).filter(lacks).collect() }
            }
            None => OddHead { index, header: true, maps: (0..maps).collect() },
        });
        odd.filter(|head| head.blocks() > 0).collect()
    }

    /// Leaves out the heads of slabs that do not count any more.
    pub fn retain(&mut self, row: &Row) {
        let count = self.found.len();
        self.found.retain(|head| row.slabs.get(head.index).usable());
        self.all &= self.found.len() == count;
    }

    /// How many could be read.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// The newest of a map, and whether every slab has it; `open` reads a block of a disk at an offset. Notes in
    /// `place` where it stands, and the number after which no slab has any.
    pub fn newest<M>(
        &self,
        map: usize,
        place: &mut MapOnDisk,
        open: impl Fn(&[u8], Uuid, u64) -> Option<(u64, M)>,
    ) -> Option<(M, bool)> {
        let mut newest: Option<(u64, M)> = None;
        let mut known = Vec::with_capacity(self.found.len());
        for Head { index, start, disk, bytes: head, .. } in &self.found {
            let slots = (0..2u8).filter_map(|slot| {
                let at = map_at(map, slot.into());
                let block = &head[at as usize..(at + BLOCK_BYTES) as usize];
                let opened = open(block, *disk, start + at).filter(|(sequence, _)| *sequence <= MOST_MAP_SEQUENCE);
                opened.map(|(sequence, content)| (sequence, slot, content))
            });
            let best = slots.max_by_key(|(sequence, ..)| *sequence);
            known.push(best.as_ref().map(|(sequence, ..)| *sequence));
            if let Some((sequence, slot, content)) = best {
                place.slots[index - self.slabs.start] = slot;
                if newest.as_ref().is_none_or(|(newest, _)| sequence > *newest) {
                    newest = Some((sequence, content));
                }
            }
        }
        place.sequence = newest.as_ref().map_or(0, |(sequence, _)| *sequence) + u64::from(!self.all);
        let (sequence, content) = newest?;
        let agreed = self.error.is_none() && known.iter().all(|known| *known == Some(sequence));
        Some((content, agreed))
    }
}
