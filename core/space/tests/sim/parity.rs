//! Parity spaces at their limits and against hostile bytes: single stories that the simulation meets too seldom.

use std::sync::Arc;

use holdfast_device::sim::{Sim, SimDiskSpec};
use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, Layout, Provisioning, Shape};
use holdfast_pool::{Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};

use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;

fn machine(seed: u64, disks: usize, disk_bytes: u64) -> World {
    let spec = |index| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: disk_bytes,
        tear_bytes: 4096,
        ..SimDiskSpec::default()
    };
    let sim = Sim::new(seed);
    sim.limit_steps(20_000_000);
    World::new(sim, (0..disks).map(spec).collect())
}

fn parity(parity: u8, columns: u16, interleave: ByteSize) -> Shape {
    Shape { layout: Layout::Parity { parity }, columns, interleave }
}

fn create(world: &World, shape: Shape, size_bytes: u64, settings: SpaceSettings) -> (Arc<Pool>, Arc<Space>) {
    let create = world.create("tank");
    let made = world.sim.run(async move {
        let pool = create.await;
        let name = "vol".parse().expect("a name");
        let spec = SpaceSpec { name, shape, provisioning: Provisioning::Thin, size_bytes, journal_bytes: None };
        let record = pool.create_space(spec).await.expect("a thin space takes no room");
        let space = Space::open(pool.clone(), record.id, settings).expect("just made");
        (pool, space)
    });
    made.expect("no power cut is planned")
}

fn import(world: &World) -> (Arc<Pool>, Arc<Space>) {
    let import = world.import();
    let up = world.sim.run(async move {
        let pool = import.await.expect("enough disks are there");
        let space = Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it is there");
        (pool, space)
    });
    up.expect("no power cut is planned")
}

fn data(byte: u8, blocks: usize) -> IoSlice {
    IoSlice::padded(&vec![byte; blocks * BLOCK])
}

async fn byte_at(space: &Space, offset: u64) -> u8 {
    let block = space.read(offset, IoBuf::new(BLOCK)).await.expect("it can be read");
    assert!(block.iter().all(|byte| *byte == block[0]), "a block is of one piece");
    block[0]
}

/// What the journal tells in one record is bounded, however many single blocks are put in place together.
#[test]
fn single_blocks_of_many_bands_outlast_a_crash() {
    let world = machine(1, 4, 8 << 30);
    let settings = SpaceSettings { backlog_bytes: 21 << 20, ..SpaceSettings::default() };
    let (_pool, space) = create(&world, parity(1, 4, ByteSize::mib(1)), 256 << 20, settings);
    let band = 3u64 << 20;
    let bands = 40u64;
    let done = world.sim.run(async move {
        for index in 0..bands {
            space.write(index * band, data(1, band as usize / BLOCK), Durability::Cached).await.expect("room is there");
        }
        space.flush().await.expect("flushes");
        for index in 0..bands {
            for block in 0..128 {
                let offset = index * band + block * 2 * BLOCK_BYTES;
                space.write(offset, data(2, 1), Durability::Cached).await.expect("room is there");
            }
        }
        space.flush().await.expect("flushes");
        for block in 0..512 {
            let offset = bands * band + block * 2 * BLOCK_BYTES;
            space.write(offset, data(2, 1), Durability::Cached).await.expect("the oldest make room");
        }
        for index in 0..bands {
            space.write(index * band + BLOCK_BYTES, data(3, 1), Durability::Durable).await.expect("room is there");
        }
    });
    done.expect("no power cut is planned");
    world.sim.cut_power();
    world.sim.restart();
    let (_pool, space) = import(&world);
    let done = world.sim.run(async move {
        for index in 0..bands {
            assert_eq!(byte_at(&space, index * band + BLOCK_BYTES).await, 3, "band {index}");
            for block in [0, 17, 127] {
                assert_eq!(byte_at(&space, index * band + block * 2 * BLOCK_BYTES).await, 2, "band {index}");
            }
        }
        assert_eq!(space.verify().await.expect("it can be read").mismatched_blocks, 0);
    });
    done.expect("no power cut is planned");
}
