//! Silent corruption: slabs that hold something else than was written, and read as if nothing were wrong.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_device::sim::{SimDisk, SimRandom};
use holdfast_model::{BLOCK_BYTES, Layout, Shape};
use holdfast_pool::slab::HEAD_BYTES;
use holdfast_space::{SlabMap, Space};

use crate::world::World;

/// What a disk writes whole.
const SECTOR: usize = 512;

/// A block that was changed.
pub struct Spoiled {
    disk: Arc<SimDisk>,
    at: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl Spoiled {
    /// Changes something of a block of a disk.
    pub fn block(disk: &Arc<SimDisk>, at: u64, random: &SimRandom) -> Self {
        let before = disk.peek(at, BLOCK_BYTES as usize);
        let mut after = before.clone();
        let start = random.range(0..after.len());
        let len = [1, 16, 512, after.len()][random.range(0..4usize)].min(after.len() - start);
        after[start..start + len].iter_mut().for_each(|byte| *byte ^= random.range(1..=255u8));
        disk.poke(at, &after);
        Self { disk: disk.clone(), at, before, after }
    }

    /// Whether it is as it was before.
    pub fn is_healed(&self) -> bool {
        self.disk.peek(self.at, self.before.len()) == self.before
    }

    /// Whether it is as it was spoiled.
    pub fn is_untouched(&self) -> bool {
        self.disk.peek(self.at, self.after.len()) == self.after
    }

    /// Makes it what it was.
    pub fn undo(&self) {
        self.disk.poke(self.at, &self.before);
    }
}

/// A block that was changed while its space is in use, and where its other copies are.
pub struct Rotten {
    spoiled: Spoiled,
    others: Vec<(Arc<SimDisk>, u64)>,
    /// Whether a scrub that looked at all that held something passed it by.
    unseen: Cell<bool>,
}

impl Rotten {
    /// After a scrub of everything: what is not healed by now held nothing when it was looked at, or something that was
    /// written over it. A crash may bring back what it held before, and then the rot under it would add up with what is
    /// spoiled after the scrub: it is as if it had not rotted.
    pub fn end_unless_healed(&self) {
        if !self.spoiled.is_healed() {
            self.unseen.set(true);
            self.undo_if_written();
        }
    }

    /// After a crash: where a write of the block was under way, no copy is as the checksum says, and nobody can tell
    /// which is the rotten one. Then it is as if what is left of it had not rotted.
    pub fn undo_if_written(&self) {
        let Spoiled { disk, at, before, after } = &self.spoiled;
        let written = |(disk, at): &(Arc<SimDisk>, u64)| disk.peek(*at, before.len()) != *before;
        let mut now = disk.peek(*at, before.len());
        if now == *after && !self.unseen.get() && !self.others.iter().any(written) {
            return;
        }
        let sectors = now.chunks_mut(SECTOR).zip(after.chunks(SECTOR)).zip(before.chunks(SECTOR));
        for ((now, _), before) in sectors.filter(|((now, after), _)| now[..] == **after) {
            now.copy_from_slice(before);
        }
        disk.poke(*at, &now);
    }
}

/// Spoils blocks of a space that is at rest: of those that go together, one at most.
pub fn spoil(world: &World, space: &Space, random: &SimRandom) -> Vec<Spoiled> {
    let rows = space.map();
    let group = match space.record().shape.layout {
        Layout::Parity { .. } => usize::MAX,
        layout => usize::from(layout.copies()),
    };
    let mut taken: BTreeMap<(u32, usize, u64), usize> = BTreeMap::new();
    let mut spoiled = Vec::new();
    for _ in 0..random.range(1..40u32) {
        let Some(row) = random.pick(&rows) else { break };
        let index = random.range(0..row.slabs.len());
        let slab = &row.slabs[index];
        let record = space.pool().row(space.record().id, row.chunk).expect("a row of the map");
        let blocks = record.slab_data_bytes() / BLOCK_BYTES;
        let first = random.range(0..blocks);
        for block in first..(first + random.range(1..20u64)).min(blocks) {
            if taken.insert((row.chunk, index / group, block), index).is_some() {
                break;
            }
            let disk = world.disk(slab.path.trim_start_matches("/sim/").parse().expect("a number"));
            spoiled.push(Spoiled::block(&disk, slab.offset_bytes + HEAD_BYTES + block * BLOCK_BYTES, random));
        }
    }
    spoiled
}

/// Spoils blocks of a space on one disk while the space is in use: such as are summed, and settled.
pub async fn spoil_settled(world: &World, disk: usize, space: &Space, random: &SimRandom) -> Vec<Rotten> {
    let (mut rotten, path) = (Vec::new(), format!("/sim/{disk}"));
    for row in space.map() {
        let Some(index) = row.slabs.iter().position(|slab| slab.path == path) else { continue };
        let Some(record) = space.pool().row(space.record().id, row.chunk).filter(|record| record.shape.has_checksums())
        else {
            continue;
        };
        let runs: Vec<(u32, u32)> = match record.shape.layout {
            Layout::Parity { .. } => vec![(0, (record.slab_data_bytes() / BLOCK_BYTES) as u32)],
            layout => {
                let settled = space.settled_blocks(row.chunk).await.expect("maps can be read");
                let Some(column) = settled.get(index / usize::from(layout.copies())) else { continue };
                column.clone()
            }
        };
        let copies = usize::from(record.shape.layout.copies());
        let place = |slab: &SlabMap, block: u64| {
            let disk = world.disk(slab.path.trim_start_matches("/sim/").parse().expect("a number"));
            (disk, slab.offset_bytes + HEAD_BYTES + block * BLOCK_BYTES)
        };
        let column = index / copies * copies..(index / copies + 1) * copies;
        for (first, end) in runs {
            for _ in 0..random.range(0..4u32) {
                let block = u64::from(random.range(first..end));
                let (disk, at) = place(&row.slabs[index], block);
                let others = column
                    .clone()
                    .filter(|other| *other != index)
                    .map(|other| place(&row.slabs[other], block))
                    .collect();
                let spoiled = Spoiled::block(&disk, at, random);
                rotten.push(Rotten { spoiled, others, unseen: Cell::new(false) });
            }
        }
    }
    rotten
}

/// Whether a scrub tells what is wrong where one piece or copy is.
pub fn is_reported(shape: &Shape) -> bool {
    let voted = matches!(shape.layout, Layout::Mirror { copies: 3 } | Layout::Parity { parity: 2 });
    voted || (shape.has_checksums() && shape.layout.tolerates() > 0)
}
