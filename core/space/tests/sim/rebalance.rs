//! Slabs that move to a disk that was added: under writes, through power cuts and with disks that fail at the wrong
//! moment.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_device::sim::{Disappearance, Sim, SimDiskSpec};
use holdfast_device::{Clock, Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Integrity, Layout, Provisioning, Shape, Usage};
use holdfast_pool::{DiskChange, Pool, SpaceSpec};
use holdfast_space::{Ended, Pace, Space, SpaceSettings, Stopped, Unlimited};

use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;
const MIB: u64 = 1 << 20;
const DISK: u64 = 64 * MIB;

fn spec(index: usize) -> SimDiskSpec {
    let (name, serial) = (format!("disk{index}"), format!("S{index}"));
    SimDiskSpec { name, serial, size_bytes: DISK, tear_bytes: 4096, ..SimDiskSpec::default() }
}

fn shapes() -> Vec<Shape> {
    let shape = |layout, columns| Shape::plain(layout, columns, ByteSize::kib(64));
    let mirror = |copies| Layout::Mirror { copies };
    let parity = |parity| Layout::Parity { parity };
    vec![
        shape(Layout::Simple, 2),
        shape(mirror(2), 1),
        shape(mirror(2), 2),
        shape(mirror(3), 1),
        shape(parity(1), 3),
        shape(parity(2), 4),
        shape(mirror(2), 2).with_integrity(Integrity::Crc32c),
        shape(parity(1), 3).with_integrity(Integrity::Crc32c),
    ]
}

/// What block `block` holds after `round` rounds of writes.
fn byte(block: u64, round: u64) -> u8 {
    (block * 7 + round * 31) as u8 | 1
}

/// A pool of `disks` disks, and a space of this shape that is written throughout.
fn filled(world: &World, shape: Shape, size_bytes: u64) -> (Arc<Pool>, Arc<Space>) {
    let create = world.create("tank");
    let made = world.sim.run(async move {
        let pool = create.await;
        let name = "vol".parse().expect("a name");
        let provisioning = Provisioning::Thin;
        let spec = SpaceSpec { name, shape, provisioning, size_bytes, journal_bytes: None, enclosure_aware: false };
        let record = pool.create_space(spec).await.expect("a thin space takes no room");
        let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
        for block in 0..size_bytes / BLOCK_BYTES {
            let data = IoSlice::padded(&[byte(block, 0); BLOCK]);
            space.write(block * BLOCK_BYTES, data, Durability::Cached).await.expect("there is room");
        }
        space.flush().await.expect("all disks are there");
        (pool, space)
    });
    made.expect("no power cut is planned")
}

async fn check(space: &Space, blocks: u64, allowed: impl Fn(u64) -> Vec<u8>) {
    for block in 0..blocks {
        let read = space.read(block * BLOCK_BYTES, IoBuf::new(BLOCK)).await.expect("it can be read");
        assert!(read.iter().all(|byte| *byte == read[0]), "block {block} is of one piece");
        assert!(allowed(block).contains(&read[0]), "block {block} is {} and may be {:?}", read[0], allowed(block));
    }
}

/// Moves until nothing is left to move; answers how many slabs moved.
async fn rebalance(pool: &Pool, space: &Space) -> usize {
    let mut moved = 0;
    loop {
        let (before, plan) = (moved, pool.balance());
        for planned in plan.moves {
            moved += usize::from(space.move_slab(&planned, &Unlimited).await.expect("the pool takes changes"));
        }
        if moved == before {
            return moved;
        }
    }
}

fn parts(pool: &Pool) -> Vec<f64> {
    pool.disks().iter().map(|disk| 1.0 - disk.free_bytes as f64 / disk.data_bytes as f64).collect()
}

fn spread(pool: &Pool) -> f64 {
    let parts = parts(pool);
    parts.iter().copied().fold(0.0, f64::max) - parts.iter().copied().fold(1.0, f64::min)
}

#[test]
fn a_disk_that_was_added_gets_its_share_and_no_more_moves() {
    for shape in shapes() {
        let world = World::new(Sim::new(1), (0..4).map(spec).collect());
        let size = 48 * MIB / shape.width() as u64 * u64::from(shape.data_columns());
        let (pool, space) = filled(&world, shape, size);
        let added = world.insert(spec(4));
        let candidate = world.candidate(added);
        let done = world.sim.run(async move {
            assert!(
                pool.balance().moves.is_empty() || shape.layout.parity() > 0,
                "{shape}: even by itself: {:?}",
                parts(&pool)
            );
            pool.add_disks(vec![candidate]).await.expect("a blank disk");
            let (plan, before) = (pool.balance(), spread(&pool));
            let writer = space.clone();
            let writes = async {
                for block in (0..size / BLOCK_BYTES).step_by(3) {
                    let data = IoSlice::padded(&[byte(block, 1); BLOCK]);
                    writer.write(block * BLOCK_BYTES, data, Durability::Cached).await.expect("there is room");
                }
            };
            let (moved, ()) = futures_util::future::join(rebalance(&pool, &space), writes).await;
            assert!(moved > 0 && moved <= plan.moves.len() + 2, "{shape}: {moved} of {}", plan.moves.len());
            assert!(spread(&pool) < before / 3.0 && spread(&pool) < 0.1, "{shape}: {before} became {:?}", parts(&pool));
            let then: Vec<u64> = plan.disks.iter().map(|disk| disk.used_bytes_then).collect();
            let now: Vec<u64> = pool.balance().disks.iter().map(|disk| disk.used_bytes).collect();
            assert!(moved != plan.moves.len() || then == now, "{shape}: planned {then:?}, became {now:?}");
            assert!(pool.balance().moves.is_empty(), "it came to an end");
            let written = |block: u64| vec![byte(block, u64::from(block.is_multiple_of(3)))];
            check(&space, size / BLOCK_BYTES, written).await;
            let found = space.verify().await.expect("all rows can be opened");
            assert_eq!((found.mismatched_blocks, found.unrepaired_blocks), (0, 0), "{shape}");
            space.close().await.expect("closes");
            pool.export().await.expect("a quorum");
        });
        done.expect("no power cut is planned");
        let import = world.import();
        let again = world.sim.run(async move {
            let pool = import.await.expect("all disks are there");
            let space = Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it is there");
            check(&space, size / BLOCK_BYTES, |block| vec![byte(block, u64::from(block.is_multiple_of(3)))]).await;
        });
        again.expect("no power cut is planned");
    }
}

#[test]
fn a_power_cut_at_any_moment_of_a_move_loses_nothing() {
    holdfast_harness::over_seeds(100, |seed| {
        let shapes = shapes();
        let shape = shapes[seed as usize % shapes.len()];
        let world = Rc::new(World::new(Sim::new(seed), (0..4).map(spec).collect()));
        let random = world.sim.random();
        let size = 24 * MIB / shape.width() as u64 * u64::from(shape.data_columns());
        let blocks = size / BLOCK_BYTES;
        let (pool, space) = filled(&world, shape, size);
        let candidate = world.candidate(world.insert(spec(4)));
        let add = pool.clone();
        world
            .sim
            .run(async move { add.add_disks(vec![candidate]).await })
            .expect("no power cut yet")
            .expect("a blank disk");
        world.sim.cut_power_after(random.range(1..3000u64));
        let acknowledged: Rc<std::cell::RefCell<Vec<u64>>> = Rc::default();
        let (noted, draws) = (acknowledged.clone(), world.sim.random());
        let cut = world.sim.run(async move {
            let writes = async {
                for _ in 0..60 {
                    let block = draws.range(0..blocks);
                    let data = IoSlice::padded(&[byte(block, 1); BLOCK]);
                    if space.write(block * BLOCK_BYTES, data, Durability::Durable).await.is_ok() {
                        noted.borrow_mut().push(block);
                    }
                }
            };
            futures_util::future::join(rebalance(&pool, &space), writes).await.0
        });
        if cut.is_err() {
            world.sim.restart();
        } else {
            world.sim.cut_power();
            world.sim.restart();
        }
        let import = world.import();
        let again = world.sim.run(async move {
            let pool = import.await.expect("all disks are there");
            let space = Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it is there");
            let noted = acknowledged.borrow().clone();
            check(&space, blocks, |block| {
                if noted.contains(&block) { vec![byte(block, 1)] } else { vec![byte(block, 0), byte(block, 1)] }
            })
            .await;
            rebalance(&pool, &space).await;
            assert!(pool.balance().moves.is_empty(), "it goes on from what it finds, and ends");
            space.maintain_once().await.expect("all disks are there");
            let found = space.verify().await.expect("all rows can be opened");
            assert_eq!((found.mismatched_blocks, found.unrepaired_blocks), (0, 0), "seed {seed}, {shape}");
        });
        again.expect("no power cut is planned");
    });
}

#[test]
fn a_new_disk_that_fails_in_the_middle_gets_nothing_and_costs_nothing() {
    for shape in shapes() {
        for writes in [0, 3, 40, 200] {
            let world = World::new(Sim::new(writes), (0..4).map(spec).collect());
            let size = 24 * MIB / shape.width() as u64 * u64::from(shape.data_columns());
            let (pool, space) = filled(&world, shape, size);
            let added = world.insert(spec(4));
            let (candidate, disk, clock) = (world.candidate(added), world.disk(added), world.sim.clock());
            let done = world.sim.run(async move {
                pool.add_disks(vec![candidate]).await.expect("a blank disk");
                let pull = async {
                    clock.sleep(Duration::from_micros(writes * 100)).await;
                    disk.disappear(Disappearance::PowerLoss);
                };
                futures_util::future::join(rebalance(&pool, &space), pull).await;
                let index = pool.disks().iter().find(|disk| disk.record.serial == "S4").expect("a member").record.index;
                pool.disk_out(index, DiskState::Missing, "pulled").await.expect("a quorum is there");
                if shape.layout.tolerates() > 0 {
                    check(&space, size / BLOCK_BYTES, |block| vec![byte(block, 0)]).await;
                }
            });
            done.expect("no power cut is planned");
        }
    }
}

#[test]
fn a_disk_of_a_full_pool_is_emptied_onto_one_that_takes_its_place() {
    for shape in [Shape::plain(Layout::Simple, 3, ByteSize::kib(64)), shapes()[1], shapes()[2], shapes()[6]] {
        let disks = shape.width().max(3);
        let world = World::new(Sim::new(21), (0..disks).map(spec).collect());
        let size = 256 * MIB;
        let create = world.create("tank");
        let made = world.sim.run(async move {
            let pool = create.await;
            let (name, provisioning) = ("vol".parse().expect("a name"), Provisioning::Thin);
            let spec =
                SpaceSpec { name, shape, provisioning, size_bytes: size, journal_bytes: None, enclosure_aware: false };
            let record = pool.create_space(spec).await.expect("a thin space takes no room");
            let space = Space::open(pool.clone(), record.id, SpaceSettings::default()).expect("just made");
            let mut full = 0;
            let data = |block| IoSlice::padded(&[byte(block, 0); BLOCK]);
            while space.write(full, data(full / BLOCK_BYTES), Durability::Durable).await.is_ok() {
                full += record.chunk_bytes;
            }
            (pool, space, full)
        });
        let (pool, space, full) = made.expect("no power cut is planned");
        let added = world.insert(spec(disks));
        let candidate = world.candidate(added);
        let done = world.sim.run(async move {
            pool.add_disks(vec![candidate]).await.expect("a blank disk");
            let old = pool.disks()[0].record.clone();
            let change = DiskChange { usage: Some(Usage::Retired), ..Default::default() };
            pool.set_disk(old.id, change).await.expect("a quorum is there");
            assert!(pool.has_room_without(&[old.index].into()), "{shape}: the new one has as much room");
            space.leave(old.index, &Unlimited).await.expect("each slab has room");
            assert!(pool.chunks_on(space.record().id, old.index).is_empty(), "{shape}");
            pool.remove_disk(old.id).await.expect("nothing is on it");
            for offset in (0..full).step_by(space.record().chunk_bytes as usize) {
                let read = space.read(offset, IoBuf::new(BLOCK)).await.expect("it can be read");
                assert_eq!(read[0], byte(offset / BLOCK_BYTES, 0), "{shape}: at {offset}");
            }
        });
        done.expect("no power cut is planned");
    }
}

/// Somebody's pace who is paused until something is over.
struct Paused {
    clock: Arc<dyn Clock>,
    over: Arc<AtomicBool>,
}

impl Pace for Paused {
    fn step(&self, _bytes: u64) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + '_>> {
        Box::pin(async move {
            while !self.over.load(Ordering::Relaxed) {
                self.clock.sleep(Duration::from_millis(100)).await;
            }
            Ok(())
        })
    }

    fn done(&self, _bytes: u64) {}
}

/// The pace of work that is to end as soon as it does nothing but wait.
struct ShutWhereNothingMoves;

impl Pace for ShutWhereNothingMoves {
    fn step(&self, bytes: u64) -> Pin<Box<dyn Future<Output = Result<(), Stopped>> + '_>> {
        Box::pin(async move { if bytes == 0 { Err(Stopped) } else { Ok(()) } })
    }

    fn done(&self, _bytes: u64) {}
}

#[test]
fn work_that_waits_for_work_that_is_paused_can_be_ended() {
    let world = World::new(Sim::new(22), (0..4).map(spec).collect());
    let (pool, space) = filled(&world, shapes()[1], 8 * MIB);
    let clock = world.sim.clock();
    let done = world.sim.run(async move {
        let disk = pool.disks()[0].record.index;
        let over = Arc::new(AtomicBool::new(false));
        let paused = Paused { clock, over: over.clone() };
        let waiting = async {
            let ended = space.leave(disk, &ShutWhereNothingMoves).await;
            over.store(true, Ordering::Relaxed);
            ended
        };
        let (first, second) = futures_util::future::join(space.leave(disk, &paused), waiting).await;
        assert!(first.is_ok() && matches!(second, Err(Ended::Stopped)), "{first:?}, {second:?}");
    });
    done.expect("no power cut is planned");
}

#[test]
fn rows_move_while_the_move_of_another_is_paused() {
    let world = World::new(Sim::new(24), (0..4).map(spec).collect());
    let mirror = Shape::plain(Layout::Mirror { copies: 2 }, 1, ByteSize::kib(64));
    let (pool, space) = filled(&world, mirror, 8 * MIB);
    let clock = world.sim.clock();
    let done = world.sim.run(async move {
        let id = space.record().id;
        let disks_of = |chunk: u32| -> Vec<u16> {
            pool.row(id, chunk).expect("it was written to").slabs.iter().map(|slab| slab.disk()).collect()
        };
        let disks: Vec<u16> = pool.disks().iter().map(|disk| disk.record.index).collect();
        let (first, rows) = (disks_of(0), pool.rows(id).len() as u32);
        let other = *disks.iter().find(|disk| !first.contains(disk)).expect("a mirror takes two of four disks");
        assert!((1..rows).any(|chunk| disks_of(chunk).contains(&other)), "a row lies on the other disk");
        let over = Arc::new(AtomicBool::new(false));
        let paused = Paused { clock: clock.clone(), over: over.clone() };
        let second = async {
            clock.sleep(Duration::from_millis(1)).await;
            let left = space.leave(other, &Unlimited).await;
            assert!((0..rows).all(|chunk| !disks_of(chunk).contains(&other)), "the other disk is left");
            assert!(!over.swap(true, Ordering::Relaxed), "the first one is paused still");
            left
        };
        let (first, second) = futures_util::future::join(space.leave(first[0], &paused), second).await;
        assert!(first.is_ok() && second.is_ok(), "{first:?}, {second:?}");
        check(&space, 8 * MIB / BLOCK_BYTES, |block| vec![byte(block, 0)]).await;
    });
    done.expect("no power cut is planned");
}

#[test]
fn a_move_that_waits_for_a_repair_that_is_paused_can_be_ended() {
    let world = World::new(Sim::new(23), (0..4).map(spec).collect());
    let (pool, space) = filled(&world, shapes()[1], 2 * MIB);
    let clock = world.sim.clock();
    let done = world.sim.run(async move {
        let row = pool.row(space.record().id, 0).expect("it was written to");
        let [lost, other] = [0, 1].map(|slab: usize| row.slabs[slab].disk());
        pool.disk_out(lost, DiskState::Missing, "pulled").await.expect("a quorum is there");
        let over = Arc::new(AtomicBool::new(false));
        let paused = Paused { clock: clock.clone(), over: over.clone() };
        let waiting = async {
            clock.sleep(Duration::from_millis(10)).await;
            let ended = space.leave(other, &ShutWhereNothingMoves).await;
            over.store(true, Ordering::Relaxed);
            ended
        };
        let (first, second) = futures_util::future::join(space.rebuild(&paused), waiting).await;
        assert!(first.is_ok() && matches!(second, Err(Ended::Stopped)), "{first:?}, {second:?}");
    });
    done.expect("no power cut is planned");
}
