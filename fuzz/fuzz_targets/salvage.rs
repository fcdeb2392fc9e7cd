//! What `pool salvage` finds on disks: headers and maps of slabs, and whatever else lies where one could be.
//!
//! ```text
//!   byte 0    how many disks there are
//!   rest      blocks, each with its place, its frame and its payload; the frame's checksums are made to fit
//! ```
//!
//! Held up: no panic, nothing written before it is asked for, and what is written then can be imported with all its
//! spaces.

#![no_main]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_device::sim::Sim;
use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoSlice};
use holdfast_model::{ByteSize, Integrity, Layout, Provisioning, Shape, Uuid};
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::slab::{ARRIVING, SlabHeader, SpaceFacts, WRITTEN_OFF};
use holdfast_pool::{
    Candidate, DiskInfo, Env, Event, EventSink, JOURNAL_CHUNK, Pool, Position, SMALLEST_DISK_BYTES, Salvage, UNIT_BYTES, Witness,
    WitnessRecord, row_raw_bytes, scan,
};
use libfuzzer_sys::fuzz_target;

const BLOCK: usize = 4096;
/// Blocks that are looked at of one input.
const MOST_BLOCKS: usize = 200;

/// A disk whose blocks are zeros unless they were written.
#[derive(Default)]
struct Memory {
    blocks: Mutex<BTreeMap<u64, Vec<u8>>>,
    writes: AtomicU64,
}

impl Memory {
    fn put(&self, offset: u64, bytes: &[u8]) {
        let mut blocks = self.blocks.lock().expect("no panic while held");
        for (at, block) in bytes.chunks(BLOCK).enumerate() {
            let mut whole = block.to_vec();
            whole.resize(BLOCK, 0);
            blocks.insert(offset / BLOCK as u64 + at as u64, whole);
        }
    }
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: SMALLEST_DISK_BYTES,
            logical_sector_bytes: 512,
            physical_sector_bytes: 4096,
            rotational: false,
            discard: false,
        }
    }

    fn read(&self, offset: u64, mut buf: IoBuf) -> Io<IoBuf> {
        let blocks = self.blocks.lock().expect("no panic while held");
        assert!(offset + buf.len() as u64 <= SMALLEST_DISK_BYTES, "nothing is read beyond the end of a disk");
        for (at, into) in buf.chunks_mut(BLOCK).enumerate() {
            match blocks.get(&(offset / BLOCK as u64 + at as u64)) {
                Some(block) => into.copy_from_slice(&block[..into.len()]),
                None => into.fill(0),
            }
        }
        Io::ready(Ok(buf))
    }

    fn write(&self, offset: u64, data: IoSlice, _durability: Durability) -> Io<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.put(offset, &data);
        Io::ready(Ok(()))
    }

    fn flush(&self) -> Io<()> {
        Io::ready(Ok(()))
    }

    fn discard(&self, _offset: u64, _len: u64) -> Io<()> {
        Io::ready(Ok(()))
    }
}

/// Forgets all it is told but for the last record of a pool.
#[derive(Default)]
struct Notes(Mutex<BTreeMap<Uuid, WitnessRecord>>);

impl Witness for Notes {
    fn load(&self, pool: Uuid) -> Option<WitnessRecord> {
        self.0.lock().expect("no panic while held").get(&pool).copied()
    }

    fn store(&self, pool: Uuid, record: WitnessRecord) -> Io<()> {
        self.0.lock().expect("no panic while held").insert(pool, record);
        Io::ready(Ok(()))
    }
}

impl EventSink for Notes {
    fn emit(&self, _event: Event) {}
}

/// The input, byte by byte; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Mostly a small number, also one near the end of what 64 bits hold.
    fn number(&mut self) -> u64 {
        match self.byte() {
            low @ 0..240 => low.into(),
            240 => WRITTEN_OFF,
            241 => ARRIVING,
            242..248 => u64::from(self.short()) << 40,
            _ => u64::MAX - u64::from(self.byte()),
        }
    }

    fn shape(&mut self) -> Shape {
        let kind = self.byte();
        let layout = match kind % 3 {
            0 => Layout::Simple,
            1 => Layout::Mirror { copies: 2 + kind / 3 % 2 },
            _ => Layout::Parity { parity: 1 + kind / 3 % 2 },
        };
        let interleave = ByteSize(BLOCK as u64 * 2 << (self.byte() % 8));
        let integrity = if kind >= 128 { Integrity::Crc32c } else { Integrity::None };
        Shape::plain(layout, u16::from(self.byte() % 12), interleave).with_integrity(integrity)
    }

    /// What a header says, most of it such that the header counts.
    fn header(&mut self, row: u64) -> SlabHeader {
        let shape = self.shape();
        let space = u32::from(self.byte() % 4);
        let chunk_bytes = (u64::from(self.byte()) + 1) << (12 + self.byte() % 12);
        let journal = self.byte().is_multiple_of(4);
        let chunk = u32::from(self.byte()) + if journal { JOURNAL_CHUNK } else { 0 };
        let fits = shape.check().is_ok() && !journal;
        let units = if fits { (row_raw_bytes(&shape, chunk_bytes) / UNIT_BYTES) as u32 / shape.width() as u32 } else { 0 };
        SlabHeader {
            of: SpaceFacts {
                pool_name: "tank".parse().expect("a name"),
                space,
                space_uuid: Uuid::from_u128(u128::from(space) + u128::from(self.byte() / 200)),
                space_name: ["a", "b", "c"][usize::from(self.byte()) % 3].parse().expect("a name"),
                space_bytes: (u64::from(self.short()) + 1) << 16,
                chunk_bytes,
                provisioning: if self.byte() < 128 { Provisioning::Thin } else { Provisioning::Fixed },
            },
            chunk,
            slab: u16::from(self.byte() % 16),
            row,
            shape,
            slab_units: if units > 0 { units } else { self.short().into() },
            journal: None,
        }
    }

    /// A block, where it is to lie, and on which disk.
    fn block(&mut self, disks: &[Uuid]) -> (usize, u64, Vec<u8>) {
        let disk = usize::from(self.byte()) % disks.len();
        let unit = u64::from(self.short()) % (SMALLEST_DISK_BYTES / UNIT_BYTES);
        let kinds = [Kind::SlabHeader, Kind::BlockMap, Kind::BandMap, Kind::Label, Kind::Checkpoint, Kind::Record];
        let kind = kinds[usize::from(self.byte()) % kinds.len()];
        let within = if kind == Kind::SlabHeader { 0 } else { u64::from(self.byte()) % 16 };
        let offset = unit * UNIT_BYTES + within * BLOCK as u64;
        let position = Position { generation: self.number(), sequence: self.number() };
        let pool = Uuid::from_u128(7 + u128::from(self.byte() / 250));
        let frame = Frame { kind, pool, disk: disks[disk], offset, position, previous: 0 };
        let payload = match kind {
            Kind::SlabHeader => self.header(position.generation).write(),
            _ => {
                let len = usize::from(self.byte());
                (0..len).map(|_| self.byte()).collect()
            }
        };
        let mut block = frame.seal(&payload).to_vec();
        if self.byte() >= 250 {
            let at = usize::from(self.short()) % block.len();
            block[at] ^= 1;
        }
        (disk, offset, block)
    }
}

fn candidate((index, disk): (usize, &Arc<Memory>)) -> Candidate {
    let info = DiskInfo { path: format!("/disk{index}"), serial: format!("S{index}"), ..DiskInfo::default() };
    Candidate { device: disk.clone(), info }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let ids: Vec<Uuid> = (0..u128::from(input.byte() % 4) + 1).map(|disk| Uuid::from_u128(100 + disk)).collect();
    let disks: Vec<Arc<Memory>> = ids.iter().map(|_| Arc::default()).collect();
    for _ in 0..MOST_BLOCKS {
        if input.0.is_empty() {
            break;
        }
        let (disk, offset, block) = input.block(&ids);
        disks[disk].put(offset, &block);
    }
    let writes = {
        let disks = disks.clone();
        move || disks.iter().map(|disk| disk.writes.load(Ordering::Relaxed)).sum::<u64>()
    };
    let candidates = move || disks.iter().enumerate().map(candidate).collect::<Vec<_>>();
    let sim = Sim::new(1);
    let notes = Arc::new(Notes::default());
    let env = Env { clock: sim.clock(), seed: 1, witness: notes.clone(), events: notes };
    let salvaged = async move {
        let Ok(salvage) = Salvage::look(candidates(), Some(Uuid::from_u128(7))).await else { return };
        assert_eq!(writes(), 0, "looking writes nothing");
        let spaces = salvage.spaces.len();
        // What contradicts itself is refused.
        if salvage.write(&env, "saved".parse().expect("a name")).await.is_err() {
            return;
        }
        let mut found = scan(candidates()).await.pools;
        found.retain(|found| found.id == salvage.id);
        let found = found.pop().expect("what was written is found");
        let pool = Pool::import(env, found, false).await.unwrap_or_else(|error| panic!("it cannot be imported: {error}"));
        assert_eq!(pool.spaces().len(), spaces, "all its spaces are there");
    };
    sim.run(salvaged).expect("the power stays on");
});
