//! Parity spaces at their limits and against hostile bytes: single stories that the simulation meets too boxed_cold.

use std::sync::Arc;

use holdfast_device::sim::{Disappearance, Latency, Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Layout, Provisioning, Shape};
use holdfast_pool::frame::{Frame, Kind};
use holdfast_pool::{Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::world::World;

pub const BLOCK: usize = BLOCK_BYTES as usize;

pub fn machine(seed: u64, disks: usize, disk_bytes: u64) -> World {
    machine_of(seed, disks, disk_bytes, Latency::None)
}

/// One whose disks take their time, so that something can happen meanwhile.
pub fn slow_machine(seed: u64, disks: usize, disk_bytes: u64) -> World {
    machine_of(seed, disks, disk_bytes, Latency::Ssd)
}

fn machine_of(seed: u64, disks: usize, disk_bytes: u64, latency: Latency) -> World {
    let spec = |index| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: disk_bytes,
        tear_bytes: 4096,
        latency,
        ..SimDiskSpec::default()
    };
    let sim = Sim::new(seed);
    sim.limit_steps(20_000_000);
    World::new(sim, (0..disks).map(spec).collect())
}

pub fn parity(parity: u8, columns: u16, interleave: ByteSize) -> Shape {
    Shape::plain(Layout::Parity { parity }, columns, interleave)
}

pub fn create(world: &World, shape: Shape, size_bytes: u64, settings: SpaceSettings) -> (Arc<Pool>, Arc<Space>) {
    let create = world.create("tank");
    let made = world.sim.run(async move {
        let pool = create.await;
        let name = "vol".parse().expect("a name");
        let spec = SpaceSpec {
            name,
            shape,
            provisioning: Provisioning::Thin,
            size_bytes,
            journal_bytes: None,
            enclosure_aware: false,
        };
        let record = pool.create_space(spec).await.expect("a thin space takes no room");
        let space = Space::open(pool.clone(), record.id, settings).expect("just made");
        (pool, space)
    });
    made.expect("no power cut is planned")
}

pub fn data(byte: u8, blocks: usize) -> IoSlice {
    IoSlice::padded(&vec![byte; blocks * BLOCK])
}

pub async fn byte_at(space: &Space, offset: u64) -> u8 {
    let block = space.read(offset, IoBuf::new(BLOCK)).await.expect("it can be read");
    assert!(block.iter().all(|byte| *byte == block[0]), "a block is of one piece");
    block[0]
}

/// What the journal tells in one record is bounded, however many single blocks are destaged together.
#[test]
fn single_blocks_of_many_bands_outlast_a_crash() {
    let world = machine(1, 4, 8 << 30);
    let settings = SpaceSettings { write_buffer_bytes: 21 << 20, ..SpaceSettings::default() };
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
    let (_pool, space) = world.reopen();
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

/// A stripe of which only some slabs took a change is not computed from, and not changed by difference, before the rest
/// is written too: by the same process, or where a needed disk may have lost what it had, by the next one.
#[test]
fn a_change_in_place_that_was_cut_short_is_finished_first() {
    let mut reopened = 0;
    for seed in 0..120 {
        let world = slow_machine(seed, 4, 64 << 20);
        let (pool, space) = create(&world, parity(1, 4, ByteSize::kib(64)), 1 << 20, SpaceSettings::default());
        let (first, second) = (world.disk(0).clone(), world.disk(1).clone());
        let candidates = world.candidates();
        let (sim, random) = (world.sim.clone(), world.sim.random());
        let clock = world.sim.clock();
        let done = world.sim.run(async move {
            for block in 0..48u64 {
                space
                    .write(block * BLOCK_BYTES, data(block as u8 + 1, 1), Durability::Cached)
                    .await
                    .expect("room is there");
            }
            space.maintain_once().await.expect("maintenance works");
            out(&pool, &first).await;
            for block in [3u64, 20] {
                space
                    .write(block * BLOCK_BYTES, data(100 + block as u8, 1), Durability::Cached)
                    .await
                    .expect("one may be out");
            }
            space.flush().await.expect("one may be out");
            let maintained = space.clone();
            let maintain_once = sim.spawn_handle(async move { maintained.maintain_once().await });
            clock.sleep(std::time::Duration::from_micros(random.range(0..1500))).await;
            second.disappear(Disappearance::Cable);
            let _ = maintain_once.await;
            second.reappear();
            let member = pool.disks().into_iter().find(|disk| disk.record.serial == "S1").expect("a member");
            if member.record.state != DiskState::Online {
                pool.disk_back(candidates[1].clone()).await.expect("a member");
            }
            let mut refused = false;
            for block in 0..48u64 {
                // What the second disk had not made durable may be lost: nothing is read there until that is known.
                match space.read(block * BLOCK_BYTES, IoBuf::new(BLOCK)).await {
                    Ok(held) => assert!(held.iter().all(|byte| *byte == expected(block)), "seed {seed} block {block}"),
                    Err(_) => refused = true,
                }
            }
            let maintained = space.maintain_once().await;
            assert!(
                pool.is_to_reopen() || (maintained.is_ok() && !refused),
                "seed {seed}: {maintained:?}, reads refused: {refused}"
            );
            first.reappear();
            if pool.is_to_reopen() {
                return true;
            }
            pool.disk_back(candidates[0].clone()).await.expect("a member");
            in_step(&space, seed).await;
            false
        });
        if done.expect("no power cut is planned") {
            reopened += 1;
            world.sim.kill();
            let (_pool, space) = world.reopen();
            world.sim.run(async move { in_step(&space, seed).await }).expect("no power cut is planned");
        }
    }
    assert!((1..120).contains(&reopened), "{reopened} of 120");
}

fn expected(block: u64) -> u8 {
    if [3, 20].contains(&block) { 100 + block as u8 } else { block as u8 + 1 }
}

async fn in_step(space: &Space, seed: u64) {
    space.maintain_once().await.expect("maintenance works");
    for block in 0..48u64 {
        assert_eq!(byte_at(space, block * BLOCK_BYTES).await, expected(block), "seed {seed} block {block}");
    }
    assert_eq!(space.verify().await.expect("it can be read").mismatched_blocks, 0, "seed {seed}");
}

async fn out(pool: &Pool, disk: &SimDisk) {
    let serial = disk.spec().serial.clone();
    let member = pool.disks().into_iter().find(|member| member.record.serial == serial).expect("a member");
    disk.disappear(Disappearance::Cable);
    pool.disk_out(member.record.index, DiskState::Missing, "pulled").await.expect("a quorum is there");
}

/// Maps, anchors and records that are sealed well and tell nonsense end in an error or in something older, never in a
/// panic.
#[test]
fn hostile_maps_and_journals_are_survived() {
    for seed in 0..80 {
        let world = machine(seed, 5, 64 << 20);
        let settings = SpaceSettings { write_buffer_bytes: 64 << 10, ..SpaceSettings::default() };
        let shape = parity(1 + (seed % 2) as u8, 5, ByteSize::kib(16 << (seed % 3)));
        let (_pool, space) = create(&world, shape, 8 << 20, settings);
        let random = world.sim.random();
        let done = world.sim.run(async move {
            for step in 0..60u64 {
                let (offset, blocks) = (random.range(0..2000u64) * BLOCK_BYTES, random.range(1..48usize));
                match step % 8 {
                    0 => {
                        space.discard(offset, blocks as u64 * BLOCK_BYTES, Durability::Durable).await.expect("discards")
                    }
                    1..4 => space.write(offset, data(step as u8, blocks), Durability::Durable).await.expect("has room"),
                    _ => space.write(offset, data(step as u8, blocks), Durability::Cached).await.expect("has room"),
                }
            }
        });
        done.expect("no power cut is planned");
        world.sim.kill();
        let spoiled: usize = world.disks().iter().map(|disk| spoil(disk, seed)).sum();
        assert!(spoiled > 0, "there is something to spoil");
        let import = world.import();
        let opened = world.sim.run(async move {
            let pool = import.await.expect("its own log is whole");
            let space = Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it is there");
            for _ in 0..2 {
                for start in 0..8u64 {
                    let _ = space.read(start << 20, IoBuf::new(1 << 20)).await;
                }
                for block in 0..40u64 {
                    let _ = space.write(block * 53 * BLOCK_BYTES, data(9, 3), Durability::Durable).await;
                }
                let _ = space.discard(1 << 20, 3 << 20, Durability::Durable).await;
                let _ = space.maintain_once().await;
            }
            let _ = space.verify().await;
            let _ = space.close().await;
        });
        opened.expect("no power cut is planned");
    }
}

/// Changes what maps, anchors and records of a disk tell, and seals them again. Copies are changed alike.
fn spoil(disk: &SimDisk, seed: u64) -> usize {
    let mut spoiled = 0;
    for offset in (0..disk.spec().size_bytes).step_by(BLOCK) {
        let block = disk.peek(offset, BLOCK);
        let Ok((header, payload)) = Frame::open_inline(&block) else { continue };
        let mut random = SmallRng::seed_from_u64(seed << 32 | u64::from(header.payload_crc));
        let likely = match header.frame.kind {
            Kind::BandMap => 0.1,
            Kind::JournalRecord => 0.4,
            Kind::JournalAnchor => 0.3,
            _ => continue,
        };
        if !random.random_bool(likely) {
            continue;
        }
        let (mut frame, mut payload) = (header.frame, payload.to_vec());
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..payload.len());
            let len = random.random_range(1..=8.min(payload.len() - at));
            let byte = [0, 1, 0x7f, 0xff, random.random()][random.random_range(0..5)];
            payload[at..at + len].fill(byte);
        }
        if frame.kind == Kind::JournalAnchor {
            let extremes = [0, BLOCK_BYTES, 1 << 20, 1 << 61, 1 << 62, u64::MAX / BLOCK_BYTES * BLOCK_BYTES, u64::MAX];
            frame.offset = extremes[random.random_range(0..extremes.len())];
            frame.position.sequence = extremes[random.random_range(0..extremes.len())];
        }
        disk.poke(offset, &frame.seal(&payload));
        spoiled += 1;
    }
    spoiled
}
