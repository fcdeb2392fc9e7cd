//! Blocks that stand beside their place when a crash comes, and rot: what the journal tells of them is carried out all
//! the same.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use holdfast_device::sim::SimRandom;
use holdfast_device::{Durability, IoBuf, IoErrorKind};
use holdfast_model::{BLOCK_BYTES, ByteSize, Integrity};
use holdfast_pool::Pool;
use holdfast_pool::slab::HEAD_BYTES;
use holdfast_space::{SlabMap, Space, SpaceSettings};

use crate::parity::{BLOCK, create, data, parity, slow_machine};
use crate::spoil::Spoiled;
use crate::world::World;

const BLOCKS: u64 = 2048;

/// What each block may hold after a crash: what was last durable, and what was written since.
#[derive(Default)]
struct Model {
    lasting: BTreeMap<u64, u8>,
    since: Vec<(u64, u64, u8)>,
}

impl Model {
    fn settle(&mut self) {
        for (first, blocks, byte) in std::mem::take(&mut self.since) {
            self.lasting.extend((first..first + blocks).map(|block| (block, byte)));
        }
    }

    fn may_hold(&self, block: u64, byte: u8) -> bool {
        let written =
            |(first, blocks, written): &(u64, u64, u8)| (*first..first + blocks).contains(&block) && *written == byte;
        self.lasting.get(&block) == Some(&byte) || self.since.iter().any(written)
    }
}

/// Small writes here and there over a space that is full, until the power goes.
async fn load(space: &Space, random: &SimRandom, model: &RefCell<Model>) {
    for step in 1..=250u8 {
        let (first, blocks) = if step <= 16 {
            (u64::from(step - 1) * (BLOCKS / 16), BLOCKS / 16)
        } else {
            let first = random.range(0..BLOCKS);
            (first, random.range(1..12u64).min(BLOCKS - first))
        };
        model.borrow_mut().since.push((first, blocks, step));
        space.write(first * BLOCK_BYTES, data(step, blocks as usize), Durability::Cached).await.expect("there is room");
        if step <= 16 || random.chance(1, 12) {
            space.flush().await.expect("flushes");
            model.borrow_mut().settle();
        }
    }
}

/// Spoils all that some disks hold of the rows' data.
fn spoil_disks(
    world: &World,
    pool: &Pool,
    space: u32,
    rows: &[(u32, Vec<SlabMap>)],
    losses: usize,
    random: &SimRandom,
) -> u64 {
    let mut spoiled = 0;
    for (chunk, slabs) in rows {
        let blocks = pool.row(space, *chunk).expect("a row of the map").slab_data_bytes() / BLOCK_BYTES;
        for slab in slabs.iter().take(losses) {
            let disk = world.disk(slab.path.trim_start_matches("/sim/").parse().expect("a number"));
            let places = (0..blocks).map(|block| slab.offset_bytes + HEAD_BYTES + block * BLOCK_BYTES);
            for at in places.filter(|at| disk.peek(*at, BLOCK).iter().any(|byte| *byte != 0)) {
                Spoiled::block(&disk, at, random);
                spoiled += 1;
            }
        }
    }
    spoiled
}

#[test]
fn staged_blocks_that_rot_are_computed_after_a_crash() {
    let (spoiled, refused) =
        (0..40).map(|seed| crash_and_spoil(seed, 0)).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(spoiled > 5_000, "only {spoiled} blocks were spoiled");
    assert_eq!(refused, 0);
}

/// More than parity makes good: what is lost is refused, and all else served.
#[test]
fn staged_blocks_that_rot_beyond_parity_cost_no_more_than_themselves() {
    let refused: u64 = (0..16).map(|seed| crash_and_spoil(seed, 1).1).sum();
    assert!(refused > 0);
}

/// Lets the power go under small writes, and spoils what as many disks hold as parity makes good, and `more`. Answers
/// how many blocks were spoiled, and how many are refused then.
fn crash_and_spoil(seed: u64, more: usize) -> (u64, u64) {
    let world = slow_machine(seed, 5, 64 << 20);
    let losses = 1 + (seed % 2) as u8;
    let settings = SpaceSettings { write_buffer_bytes: 128 << 10, staged_bytes: 0, ..SpaceSettings::default() };
    let shape = parity(losses, 5, ByteSize::kib(64)).with_integrity(Integrity::Crc32c);
    let (pool, space) = create(&world, shape, BLOCKS * BLOCK_BYTES, settings);
    let id = space.record().id;
    let random = world.sim.random();
    let model = Rc::new(RefCell::new(Model::default()));
    let rows: Rc<RefCell<Vec<_>>> = Rc::default();
    world.sim.cut_power_after(random.range(900..4000u64));
    let (seen, known) = (model.clone(), rows.clone());
    let loaded = world.sim.run(async move {
        space.write(0, data(1, 1), Durability::Durable).await.expect("there is room");
        known.borrow_mut().extend(space.map().into_iter().map(|row| (row.chunk, row.slabs)));
        seen.borrow_mut().since.push((0, 1, 1));
        load(&space, &random, &seen).await;
    });
    if loaded.is_ok() {
        world.sim.cut_power();
    }
    world.sim.restart();
    let spoiled = spoil_disks(&world, &pool, id, &rows.borrow(), usize::from(losses) + more, &world.sim.random());
    drop(pool);
    let (_pool, space) = world.reopen();
    let done = world.sim.run(async move {
        let model = model.take();
        let mut refused = 0;
        for block in 0..BLOCKS {
            let Ok(held) = space.read(block * BLOCK_BYTES, IoBuf::new(BLOCK)).await else {
                refused += 1;
                continue;
            };
            assert!(held.iter().all(|byte| *byte == held[0]), "seed {seed}: block {block} is of one piece");
            let known = model.may_hold(block, held[0]) || (held[0] == 0 && !model.lasting.contains_key(&block));
            assert!(known, "seed {seed}: block {block} holds {}", held[0]);
        }
        // A write that waits for a stripe of which more is lost than parity covers stays in the journal.
        for kept in [space.maintain_once().await.err(), space.close().await.err()].into_iter().flatten() {
            assert!(refused > 0 && kept.kind == IoErrorKind::Media, "seed {seed}: {kept}");
        }
        refused
    });
    (spoiled, done.expect("no power cut is planned"))
}
