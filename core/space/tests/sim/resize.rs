//! Spaces that become smaller, with and without data beyond their new end, under requests and through power cuts, and
//! larger again.

use std::rc::Rc;
use std::sync::Arc;

use holdfast_device::sim::{Sim, SimDiskSpec};
use holdfast_device::{Durability, IoBuf, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, Integrity, Layout, Provisioning, Shape};
use holdfast_pool::{Pool, PoolErrorKind, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};

use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;
const MIB: u64 = 1 << 20;
const SIZE: u64 = 12 * MIB;

fn world(seed: u64) -> World {
    let spec = |index| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: 64 * MIB,
        tear_bytes: 4096,
        ..SimDiskSpec::default()
    };
    World::new(Sim::new(seed), (0..5).map(spec).collect())
}

fn shapes() -> Vec<Shape> {
    let shape = |layout, columns| Shape::plain(layout, columns, ByteSize::kib(64));
    vec![
        shape(Layout::Simple, 2),
        shape(Layout::Mirror { copies: 2 }, 2),
        shape(Layout::Parity { parity: 1 }, 3),
        shape(Layout::Parity { parity: 2 }, 4),
        shape(Layout::Mirror { copies: 2 }, 1).with_integrity(Integrity::Crc32c),
        shape(Layout::Parity { parity: 1 }, 3).with_integrity(Integrity::Crc32c),
    ]
}

async fn made(pool: &Arc<Pool>, shape: Shape, provisioning: Provisioning) -> Arc<Space> {
    let name = "vol".parse().expect("a name");
    let spec = SpaceSpec { name, shape, provisioning, size_bytes: SIZE, journal_bytes: None, enclosure_aware: false };
    let record = pool.create_space(spec).await.expect("it fits");
    Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made")
}

fn data(byte: u8) -> IoSlice {
    IoSlice::padded(&[byte; BLOCK])
}

async fn byte_at(space: &Space, offset: u64) -> u8 {
    let block = space.read(offset, IoBuf::new(BLOCK)).await.expect("it can be read");
    assert!(block.iter().all(|byte| *byte == block[0]), "a block is of one piece");
    block[0]
}

async fn refused(space: &Space, offset: u64) {
    let read = space.read(offset, IoBuf::new(BLOCK)).await.map(drop);
    let written = space.write(offset, data(9), Durability::Cached).await;
    let zeroed = space.write_zeroes(offset, BLOCK_BYTES, Durability::Cached, true).await;
    let extents = space.extents(offset, BLOCK_BYTES, 1).await.map(drop);
    for answer in [read, written, zeroed, extents, space.discard(offset, BLOCK_BYTES, Durability::Cached).await] {
        assert_eq!(answer.expect_err("it is beyond the end").kind, IoErrorKind::Invalid);
    }
}

#[test]
fn a_space_shrinks_to_its_data_and_no_further() {
    for shape in shapes() {
        for provisioning in [Provisioning::Thin, Provisioning::Fixed] {
            let world = world(1);
            let create = world.create("tank");
            let done = world.sim.run(async move {
                let pool = create.await;
                let space = made(&pool, shape, provisioning).await;
                let last = 5 * MIB + 3 * BLOCK_BYTES;
                space.write(MIB, data(1), Durability::Cached).await.expect("there is room");
                space.write(last, data(2), Durability::Cached).await.expect("there is room");
                space.write(11 * MIB, data(3), Durability::Cached).await.expect("there is room");
                space.discard(11 * MIB, BLOCK_BYTES, Durability::Cached).await.expect("it was there");
                let (least, free) = (last + BLOCK_BYTES, pool.status().free_bytes);
                assert_eq!(
                    space.least_size().await.expect("all rows can be opened"),
                    least,
                    "{shape}: what is discarded is no data"
                );
                let error = space.shrink(least - BLOCK_BYTES, false).await.expect_err("a block would be lost");
                assert!(error.kind == PoolErrorKind::Invalid && error.context.contains(&least.to_string()), "{error}");
                assert_eq!(
                    space.shrink(SIZE + BLOCK_BYTES, false).await.expect_err("larger").kind,
                    PoolErrorKind::Invalid
                );
                assert_eq!(
                    (space.record().size_bytes, byte_at(&space, 11 * MIB).await),
                    (SIZE, 0),
                    "{shape}: as it was"
                );

                assert_eq!(space.shrink(least, false).await, Ok(true), "{shape}");
                assert_eq!(space.shrink(least, false).await, Ok(false));
                assert_eq!((space.record().size_bytes, pool.spaces()[0].size_bytes), (least, least));
                refused(&space, least).await;
                refused(&space, 11 * MIB).await;
                assert_eq!((byte_at(&space, MIB).await, byte_at(&space, last).await), (1, 2), "{shape}");
                assert!(pool.status().free_bytes >= free, "{shape}: no room is lost");
                assert!(
                    provisioning == Provisioning::Thin || pool.status().free_bytes > free,
                    "{shape}: rows are given back"
                );
                assert!(pool.rows(pool.spaces()[0].id).iter().all(|(chunk, _)| *chunk < pool.spaces()[0].chunks()));

                assert_eq!(space.shrink(2 * MIB, true).await, Ok(true), "{shape}: what lies beyond is given up");
                assert_eq!(byte_at(&space, MIB).await, 1);
                assert_eq!(space.grow(SIZE).await, Ok(true));
                for at in (2 * MIB..SIZE).step_by(BLOCK) {
                    assert_eq!(byte_at(&space, at).await, 0, "{shape}: what was given up does not come back at {at}");
                }
                space.write(last, data(7), Durability::Durable).await.expect("there is room");
                assert_eq!(byte_at(&space, last).await, 7);
                space.maintain_once().await.expect("all disks are there");
                assert_eq!(space.verify().await.expect("all rows can be opened").mismatched_blocks, 0, "{shape}");
                space.close().await.expect("closes");
            });
            done.expect("no power cut is planned");
        }
    }
}

#[test]
fn requests_that_began_before_end_before_anything_is_given_up() {
    for shape in shapes() {
        let world = world(2);
        let (create, random) = (world.create("tank"), world.sim.random());
        let done = world.sim.run(async move {
            let pool = create.await;
            let space = made(&pool, shape, Provisioning::Thin).await;
            let writes = (0..400u64).map(|_| {
                let offset = random.range(0..SIZE / BLOCK_BYTES) * BLOCK_BYTES;
                let write = space.write(offset, data(1), Durability::Cached);
                async move { (offset, write.await) }
            });
            let writes = futures_util::future::join_all(writes.collect::<Vec<_>>());
            let late = async {
                for _ in 0..50 {
                    let _ = space
                        .write(random.range(0..SIZE / BLOCK_BYTES) * BLOCK_BYTES, data(1), Durability::Cached)
                        .await;
                    let size = space.record().size_bytes;
                    assert!(space.map().iter().all(|row| row.offset_bytes + row.len_bytes <= size), "{shape}");
                }
            };
            let (shrunk, writes, ()) = futures_util::future::join3(space.shrink(4 * MIB, true), writes, late).await;
            assert_eq!(shrunk, Ok(true), "{shape}");
            for (offset, written) in writes {
                assert!(written.is_ok(), "{shape}: a write at {offset} had begun: {written:?}");
                if offset < 4 * MIB {
                    assert_eq!(byte_at(&space, offset).await, 1, "{shape}");
                }
            }
            let chunks = pool.spaces()[0].chunks();
            assert!(
                pool.rows(pool.spaces()[0].id).iter().all(|(chunk, _)| *chunk < chunks),
                "{shape}: no row is left beyond"
            );
            space.flush().await.expect("all disks are there");
            space.maintain_once().await.expect("all disks are there");
            assert_eq!(space.verify().await.expect("all rows can be opened").mismatched_blocks, 0, "{shape}");
        });
        done.expect("no power cut is planned");
    }
}

#[test]
fn a_power_cut_leaves_the_old_size_or_the_new_one() {
    holdfast_harness::over_seeds(120, |seed| {
        let shapes = shapes();
        let shape = shapes[seed as usize % shapes.len()];
        let provisioning = if seed % 4 < 2 { Provisioning::Thin } else { Provisioning::Fixed };
        let world = Rc::new(world(seed));
        let random = world.sim.random();
        let create = world.create("tank");
        let filled = world.sim.run(async move {
            let pool = create.await;
            let space = made(&pool, shape, provisioning).await;
            for at in (0..SIZE).step_by(64 << 10) {
                space.write(at, data(5), Durability::Cached).await.expect("there is room");
            }
            space.flush().await.expect("all disks are there");
            space
        });
        let space = filled.expect("no power cut yet");
        let wanted = random.range(1..SIZE / BLOCK_BYTES) * BLOCK_BYTES;
        world.sim.cut_power_after(random.range(1..40u64));
        let shrunk = world.sim.run(async move { space.shrink(wanted, true).await }).is_ok();
        if !world.sim.is_powered() || !shrunk {
            world.sim.restart();
        } else {
            world.sim.cut_power();
            world.sim.restart();
        }
        let import = world.import();
        let again = world.sim.run(async move {
            let pool = import.await.expect("all disks are there");
            let space = Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it is there");
            let size = space.record().size_bytes;
            assert!(size == wanted || (size == SIZE && !shrunk), "seed {seed}: {size} is neither {SIZE} nor {wanted}");
            for at in (0..size).step_by(64 << 10) {
                assert_eq!(byte_at(&space, at).await, 5, "seed {seed}: {shape}, {provisioning:?}: at {at} of {size}");
            }
            let chunks = pool.spaces()[0].chunks();
            assert!(
                pool.rows(pool.spaces()[0].id).iter().all(|(chunk, _)| *chunk < chunks),
                "seed {seed}: rows beyond"
            );
            if size == wanted {
                space.grow(SIZE).await.expect("there is room");
                for at in (0..SIZE).step_by(64 << 10).filter(|at| *at >= wanted) {
                    assert_eq!(byte_at(&space, at).await, 0, "seed {seed}: {shape}: given up, and back at {at}");
                }
            }
        });
        again.expect("no power cut is planned");
    });
}
