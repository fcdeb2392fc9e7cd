//! What was written to parity is destaged by helpers, before anybody flushes or maintains it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_device::{Durability, IoBuf};
use holdfast_model::ByteSize;
use holdfast_pool::Pool;
use holdfast_space::{Space, SpaceSettings};

use crate::parity::{BLOCK, byte_at, create, data, parity, slow_machine};
use crate::world::World;

/// Blocks of data in a band of four columns of data.
const BAND: usize = 64;
const BANDS: usize = 24;
const BAND_BYTES: u64 = (BAND * BLOCK) as u64;
const SIZE: u64 = BANDS as u64 * BAND_BYTES;

fn written_bytes(pool: &Pool) -> u64 {
    pool.pool_disks().iter().map(|disk| disk.counters.written_bytes.load(Ordering::Relaxed)).sum()
}

fn space(world: &World, write_buffer_bytes: usize) -> (Arc<Pool>, Arc<Space>) {
    let settings = SpaceSettings { write_buffer_bytes, ..SpaceSettings::default() };
    let (pool, space) = create(world, parity(1, 5, ByteSize::kib(64)), SIZE, settings);
    let filled = space.clone();
    let fill = async move {
        for band in 0..BANDS as u64 {
            filled.write(band * BAND_BYTES, data(1, BAND), Durability::Cached).await.expect("there is room");
        }
        filled.maintain_once().await.expect("maintenance works");
    };
    world.sim.run(fill).expect("the power stays on");
    world.sim.spawn(space.clone().background_destage());
    (pool, space)
}

#[test]
fn bands_that_were_written_throughout_go_to_their_places() {
    let world = slow_machine(1, 5, 64 << 20);
    let (pool, space) = space(&world, 64 << 20);
    let clock = world.sim.clock();
    let done = world.sim.run(async move {
        let before = written_bytes(&pool);
        space.write(0, data(2, BAND / 2), Durability::Cached).await.expect("written");
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(written_bytes(&pool), before, "what may still grow waits");
        for band in 1..9 {
            space.write(band * BAND_BYTES, data(2, BAND), Durability::Cached).await.expect("written");
        }
        clock.sleep(Duration::from_secs(1)).await;
        let written = written_bytes(&pool) - before;
        let least = 8 * BAND_BYTES / 4 * 5;
        assert!((least..least + least / 20).contains(&written), "data and parity once, and maps: {written}, {least}");
        space.write(BAND_BYTES, data(3, BAND), Durability::Durable).await.expect("written");
        assert_eq!(byte_at(&space, BAND_BYTES).await, 3);
        space.close().await.expect("closes");
    });
    done.expect("the power stays on");
}

#[test]
fn a_write_buffer_is_worked_off_to_its_half() {
    let world = slow_machine(2, 5, 64 << 20);
    let (pool, space) = space(&world, 1 << 20);
    let clock = world.sim.clock();
    let done = world.sim.run(async move {
        let before = written_bytes(&pool);
        let part = 3 * BAND / 4;
        for band in 0..4 {
            space.write(band * BAND_BYTES, data(2, part), Durability::Cached).await.expect("written");
        }
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(written_bytes(&pool), before, "three quarters are not exceeded");
        space.write(4 * BAND_BYTES, data(2, part), Durability::Cached).await.expect("written");
        clock.sleep(Duration::from_secs(1)).await;
        assert!(written_bytes(&pool) - before > 2 * BAND_BYTES, "more than half went to its place");
        for block in 0..(5 * BAND) as u64 {
            let wanted = if block as usize % BAND < part { 2 } else { 1 };
            assert_eq!(byte_at(&space, block * BLOCK as u64).await, wanted);
        }
        space.close().await.expect("closes");
    });
    done.expect("the power stays on");
}

#[test]
fn nothing_reaches_a_disk_once_the_space_is_closed() {
    for seed in 0..50 {
        let world = slow_machine(seed, 5, 64 << 20);
        let (pool, space) = space(&world, 1 << 20);
        let (clock, random) = (world.sim.clock(), world.sim.random());
        let done = world.sim.run(async move {
            for band in 0..BANDS as u64 {
                let blocks = if random.chance(1, 2) { BAND } else { random.range(1..BAND) };
                space.write(band * BAND_BYTES, data(2, blocks), Durability::Cached).await.expect("written");
            }
            clock.sleep(Duration::from_micros(random.range(0..2000))).await;
            space.close().await.expect("closes");
            let at_last = written_bytes(&pool);
            clock.sleep(Duration::from_secs(10)).await;
            assert_eq!(written_bytes(&pool), at_last, "seed {seed}");
            let first = space.read(0, IoBuf::new(BLOCK)).await.expect("what is closed can be read");
            assert!(first.iter().all(|byte| *byte == 2));
        });
        done.expect("the power stays on");
    }
}
