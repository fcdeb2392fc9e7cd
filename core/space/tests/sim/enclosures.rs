//! Spaces spread over three enclosures, of which one goes out as a whole.

use std::rc::Rc;
use std::sync::Arc;

use holdfast_device::sim::{Disappearance, Sim, SimDiskSpec};
use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Layout, Place, Provisioning, Shape};
use holdfast_pool::{DiskChange, Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings, Unlimited};

use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;
const ENCLOSURES: usize = 3;
/// Disks of each.
const DISKS: usize = 4;
const SIZE: u64 = 24 << 20;

fn machine(seed: u64) -> World {
    let spec = |index| SimDiskSpec {
        name: format!("disk{index}"),
        serial: format!("S{index}"),
        size_bytes: 64 << 20,
        ..SimDiskSpec::default()
    };
    let sim = Sim::new(seed);
    sim.limit_steps(20_000_000);
    World::new(sim, (0..ENCLOSURES * DISKS).map(spec).collect())
}

/// Which enclosure a disk of the machine is in.
fn enclosure_of(serial: &str) -> usize {
    serial.trim_start_matches('S').parse::<usize>().expect("a number") / DISKS
}

async fn place(pool: &Pool) {
    for disk in pool.disks() {
        let enclosure = format!("shelf{}", enclosure_of(&disk.record.serial));
        let change = DiskChange { place: Some(Place { enclosure, slot: 0 }), ..DiskChange::default() };
        pool.set_disk(disk.record.id, change).await.expect("a member");
    }
}

async fn write(space: &Space, step: u64, byte: u8) {
    for offset in (0..SIZE).step_by(step as usize) {
        let data = IoSlice::padded(&vec![byte; 3 * BLOCK]);
        space.write(offset, data, Durability::Durable).await.unwrap_or_else(|error| panic!("write of {byte}: {error}"));
    }
}

async fn check(space: &Space, step: u64, byte: u8) {
    for offset in (0..SIZE).step_by(step as usize) {
        let data =
            space.read(offset, IoBuf::new(3 * BLOCK)).await.unwrap_or_else(|error| panic!("read of {byte}: {error}"));
        assert!(data.iter().all(|held| *held == byte), "at {offset}");
    }
}

#[test]
fn mirrors_and_parity_go_on_without_an_enclosure_and_are_whole_when_it_is_back() {
    let mirror = |copies, columns| (Layout::Mirror { copies }, columns);
    let parity = |parity, columns| (Layout::Parity { parity }, columns);
    for (seed, (layout, columns)) in
        [mirror(2, 2), mirror(3, 1), mirror(3, 3), parity(1, 3), parity(2, 6)].into_iter().enumerate()
    {
        let world = Rc::new(machine(seed as u64));
        let lost = seed % ENCLOSURES;
        let shape = Shape::plain(layout, columns, ByteSize::kib(64));
        let (create, machine) = (world.create("tank"), world.clone());
        let done = world.sim.run(async move {
            let pool = create.await;
            place(&pool).await;
            let spec = SpaceSpec {
                name: "vol".parse().expect("a name"),
                shape,
                provisioning: Provisioning::Thin,
                size_bytes: SIZE,
                journal_bytes: None,
                enclosure_aware: true,
            };
            let id = pool.create_space(spec).await.expect("three enclosures bear it").id;
            let space = Space::open(pool.clone(), id, SpaceSettings::default()).expect("just made");
            write(&space, 2 << 20, 1).await;
            space.flush().await.expect("flushes");
            for index in (0..ENCLOSURES * DISKS).filter(|index| index / DISKS == lost) {
                machine.disk(index).disappear(Disappearance::PowerLoss);
            }
            for member in pool.disks().into_iter().filter(|disk| enclosure_of(&disk.record.serial) == lost) {
                pool.disk_out(member.record.index, DiskState::Missing, "its enclosure is out")
                    .await
                    .expect("a quorum is left");
            }
            check(&space, 2 << 20, 1).await;
            write(&space, 1 << 20, 2).await;
            check(&space, 1 << 20, 2).await;
        });
        done.expect("no power cut is planned");
        world.sim.cut_power();
        world.sim.restart();
        let (import, machine) = (world.import(), world.clone());
        let done = world.sim.run(async move {
            let pool = import.await.expect("two enclosures are a quorum");
            let space: Arc<Space> =
                Space::open(pool.clone(), pool.spaces()[0].id, SpaceSettings::default()).expect("it is there");
            assert!(space.record().enclosure_aware);
            check(&space, 1 << 20, 2).await;
            for index in (0..ENCLOSURES * DISKS).filter(|index| index / DISKS == lost) {
                machine.disk(index).reappear();
                pool.disk_back(machine.candidate(index)).await.expect("a member");
            }
            for _ in 0..3 {
                space.maintain_once().await.expect("maintenance works");
            }
            assert_eq!(space.status().stale_slabs, 0);
            let found = space.scrub(&Unlimited).await.expect("nobody stops it");
            assert_eq!((found.mismatched_blocks, found.unchecked_bytes, found.unrepaired_blocks), (0, 0, 0), "{shape}");
            check(&space, 1 << 20, 2).await;
        });
        done.expect("no power cut is planned");
    }
}
