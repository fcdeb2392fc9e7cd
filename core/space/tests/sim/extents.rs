//! What a space says of its blocks is what was done to them: after any sequence of requests the extents are the blocks
//! that were written and not discarded since, before and after a restart.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use holdfast_device::sim::{Sim, SimDiskSpec, SimRandom};
use holdfast_device::{Durability, ExtentKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, Layout, Provisioning, Shape};
use holdfast_pool::{Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings};

use crate::world::World;

type Held = Rc<RefCell<Vec<bool>>>;

fn run(seed: u64) {
    let sim = Sim::new(seed);
    let random = sim.random();
    let disks = random.range(2..=8usize);
    let layout = if random.chance(1, 2) { Layout::Simple } else { Layout::Mirror { copies: 2 } };
    let columns = random.range(1..=(disks / usize::from(layout.copies())).min(4)) as u16;
    let shape = Shape::plain(layout, columns, ByteSize(BLOCK_BYTES << random.range(0..8u32)));
    let provisioning = if random.chance(1, 2) { Provisioning::Thin } else { Provisioning::Fixed };
    let blocks = random.range(1..=2000u64);
    let spec = |index| SimDiskSpec { serial: format!("S{index}"), size_bytes: 64 << 20, ..SimDiskSpec::default() };
    let world = World::new(sim.clone(), (0..disks).map(spec).collect());
    let create = world.create("tank");
    let held: Held = Rc::new(RefCell::new(vec![false; blocks as usize]));
    let made = sim.run(async move {
        let pool = create.await;
        let spec = SpaceSpec {
            name: "vol".parse().expect("a name"),
            shape,
            provisioning,
            size_bytes: blocks * BLOCK_BYTES,
            journal_bytes: None,
            enclosure_aware: false,
        };
        pool.create_space(spec).await.expect("small enough");
        pool
    });
    let mut pool = made.expect("no power cut is planned");
    for _ in 0..3 {
        let (random, held, served) = (sim.random(), held.clone(), pool.clone());
        let restart = random.range(0..3u32);
        let done = sim.run(async move {
            let space = Space::open(served.clone(), 1, SpaceSettings::default()).expect("it is there");
            let known = held.borrow().clone();
            check(&space, &known, &random).await;
            work(&space, &held, &random).await;
            match restart {
                0 => space.flush().await.expect("flushes"),
                1 => {
                    space.close().await.expect("closes");
                    served.export().await.expect("exports");
                }
                _ => {
                    space.flush().await.expect("flushes");
                    space.maintain_once().await.expect("maintenance works");
                }
            }
        });
        done.expect("no power cut is planned");
        if restart == 0 {
            sim.cut_power();
            sim.restart();
        } else {
            sim.kill();
        }
        let import = world.import();
        let imported: Result<Arc<Pool>, String> = sim.run(import).expect("no power cut is planned");
        pool = imported.expect("all disks are there");
    }
}

async fn work(space: &Space, held: &Held, random: &SimRandom) {
    for _ in 0..random.range(1..40u32) {
        let blocks = held.borrow().len() as u64;
        let start = random.range(0..blocks);
        let count = random.range(1..=(blocks - start).min(if random.chance(1, 5) { 600 } else { 20 }));
        let (offset, len) = (start * BLOCK_BYTES, count * BLOCK_BYTES);
        let durability = if random.chance(1, 3) { Durability::Durable } else { Durability::Cached };
        let kind = random.range(0..6u32);
        match kind {
            0..=2 => {
                space.write(offset, IoSlice::padded(&vec![7; len as usize]), durability).await.expect("room is there")
            }
            3 => space.discard(offset, len, durability).await.expect("discards"),
            4 => space.write_zeroes(offset, len, durability, random.chance(1, 2)).await.expect("zeroes"),
            _ => {
                let known = held.borrow().clone();
                check(space, &known, random).await;
            }
        }
        if kind <= 4 {
            held.borrow_mut()[start as usize..(start + count) as usize].fill(kind <= 2);
        }
    }
    let known = held.borrow().clone();
    check(space, &known, random).await;
}

/// Compares the extents of the whole and of a part with what is held.
async fn check(space: &Space, held: &[bool], random: &SimRandom) {
    let start = random.range(0..held.len());
    let end = random.range(start + 1..=held.len());
    for (start, end) in [(0, held.len()), (start, end)] {
        let len = (end - start) as u64 * BLOCK_BYTES;
        let extents = space.extents(start as u64 * BLOCK_BYTES, len, usize::MAX).await.expect("maps can be read");
        let said: Vec<bool> = extents
            .iter()
            .flat_map(|extent| vec![extent.kind == ExtentKind::Data; (extent.len / BLOCK_BYTES) as usize])
            .collect();
        assert_eq!(said, held[start..end]);
        assert!(extents.windows(2).all(|pair| pair[0].kind != pair[1].kind), "neighbours are joined");
        let most = random.range(1..=extents.len());
        let some = space.extents(start as u64 * BLOCK_BYTES, len, most).await.expect("maps can be read");
        assert_eq!(some, extents[..most], "a limit cuts off the rest and nothing else");
    }
}

#[test]
fn extents_are_what_was_written() {
    holdfast_harness::over_seeds(300, run);
}
