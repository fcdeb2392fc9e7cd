//! Rows of large pools: slabs whose heads have more maps than fit into 64 KiB, through restarts, moves, losses and
//! other shapes.

use std::sync::Arc;

use holdfast_device::sim::{Disappearance, Sim, SimDiskSpec};
use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Integrity, Layout, Provisioning, Shape};
use holdfast_pool::slab::{HEAD_BYTES, MAP_COVERS_BYTES};
use holdfast_pool::{LARGEST_DISK_BYTES, Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings, Unlimited};

use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;
const DISKS: usize = 7;

fn world() -> World {
    let spec = |index: usize| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: LARGEST_DISK_BYTES,
        tear_bytes: 4096,
        ..SimDiskSpec::default()
    };
    World::new(Sim::new(1), (0..DISKS).map(spec).collect())
}

fn shapes() -> Vec<Shape> {
    let shape = |layout, columns| Shape::plain(layout, columns, ByteSize::kib(64)).with_integrity(Integrity::Crc32c);
    let plain = |layout, columns| Shape::plain(layout, columns, ByteSize::kib(256));
    vec![
        shape(Layout::Mirror { copies: 2 }, 1),
        plain(Layout::Mirror { copies: 2 }, 2),
        shape(Layout::Parity { parity: 1 }, 3),
        shape(Layout::Parity { parity: 2 }, 5),
        plain(Layout::Parity { parity: 2 }, 4),
    ]
}

/// Where something is written: about the ends of maps, chunks and columns.
fn places(chunk_bytes: u64) -> Vec<u64> {
    let edges = (0..=chunk_bytes / MAP_COVERS_BYTES).map(|map| map * MAP_COVERS_BYTES);
    let around = edges.flat_map(|edge| [edge.saturating_sub(3 * BLOCK_BYTES), edge, edge + 5 * BLOCK_BYTES]);
    let mut places: Vec<u64> = around.chain([3 * chunk_bytes - BLOCK_BYTES, 5 * chunk_bytes]).collect();
    places.dedup();
    places
}

fn byte(place: usize, round: usize) -> u8 {
    (place * 7 + round * 31) as u8 | 1
}

async fn write(space: &Space, round: usize) {
    for (index, offset) in places(space.record().chunk_bytes).into_iter().enumerate().skip(round).step_by(1 + round) {
        let durability = if index % 5 == 0 { Durability::Durable } else { Durability::Cached };
        space.write(offset, IoSlice::padded(&[byte(index, round); BLOCK]), durability).await.expect("there is room");
    }
    space.flush().await.expect("enough disks are there");
}

async fn check(space: &Space, rounds: usize) {
    for (index, offset) in places(space.record().chunk_bytes).into_iter().enumerate() {
        let last = (0..rounds).filter(|round| index >= *round && (index - round).is_multiple_of(1 + round)).max();
        let read = space.read(offset, IoBuf::new(BLOCK)).await.expect("it can be read");
        let wanted = last.map_or(0, |round| byte(index, round));
        assert!(read.iter().all(|byte| *byte == wanted), "at {offset} is {} instead of {wanted}", read[0]);
    }
    let found = space.verify().await.expect("rows open");
    assert_eq!(found.mismatched_blocks, 0);
}

/// Cuts the power, and brings the pool in again.
fn again(world: &World, up: (Arc<Pool>, Arc<Space>)) -> (Arc<Pool>, Arc<Space>) {
    drop(up);
    world.sim.cut_power();
    world.sim.restart();
    world.reopen()
}

#[test]
fn large_rows_hold_what_was_written_through_all_that_befalls_them() {
    for (shape, next) in shapes().into_iter().zip(shapes().into_iter().cycle().skip(2)) {
        let world = world();
        let create = world.create("tank");
        let up = world.sim.run(async move {
            let pool = create.await;
            let name = "vol".parse().expect("a name");
            let provisioning = Provisioning::Thin;
            let spec = SpaceSpec {
                name,
                shape,
                provisioning,
                size_bytes: 1 << 50,
                journal_bytes: None,
                enclosure_aware: false,
            };
            let record = pool.create_space(spec).await.expect("a thin space takes no room");
            let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
            write(&space, 0).await;
            let row = pool.row(record.id, 0).expect("it was written to");
            assert!(
                row.slab_head_bytes() > HEAD_BYTES,
                "{shape}: {} are an ordinary slab",
                ByteSize(row.slab_data_bytes())
            );
            check(&space, 1).await;
            (pool, space)
        });
        let (pool, space) = again(&world, up.expect("no power cut is planned"));
        let moved = world.sim.run(async move {
            check(&space, 1).await;
            let disk = pool.row(space.record().id, 0).expect("a row").slabs[0].disk();
            space.leave(disk, &Unlimited).await.expect("there is room");
            write(&space, 1).await;
            check(&space, 2).await;
            (pool, space)
        });
        let (pool, space) = again(&world, moved.expect("no power cut is planned"));
        let lost = usize::from(pool.row(space.record().id, 0).expect("a row").slabs[1].disk());
        world.disk(lost).disappear(Disappearance::Cable);
        let rebuilt = world.sim.run(async move {
            pool.disk_out(lost as u16, DiskState::Missing, "pulled").await.expect("a quorum is there");
            write(&space, 2).await;
            check(&space, 3).await;
            space.rebuild(&Unlimited).await.expect("there is room");
            assert_eq!(space.status().stale_slabs, 0, "{shape}: {:?}", space.status());
            check(&space, 3).await;
            (pool, space)
        });
        let (pool, space) = again(&world, rebuilt.expect("no power cut is planned"));
        let converted = world.sim.run(async move {
            space.reshape(next, Provisioning::Thin, None).await.expect("the disks bear it");
            space.convert(Provisioning::Thin, &Unlimited).await.expect("there is room");
            write(&space, 3).await;
            check(&space, 4).await;
            (pool, space)
        });
        let (_pool, space) = again(&world, converted.expect("no power cut is planned"));
        world.sim.run(async move { check(&space, 4).await }).expect("no power cut is planned");
    }
}
