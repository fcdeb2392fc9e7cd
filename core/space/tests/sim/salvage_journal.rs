//! Journals of pools that are salvaged: which of several counts, and whether it is all there.

use holdfast_device::Durability;
use holdfast_device::sim::Latency;
use holdfast_model::{BLOCK_BYTES, Provisioning};
use holdfast_pool::JournalFound;

use crate::salvage::{byte_at, create, data, look, lose_metadata, machine, parity, restart, salvaged, write};
use crate::world::World;

const MIB: u64 = 1 << 20;

/// Every block of the heads of a journal row's slabs becomes zeros: nobody finds them any more.
fn lose_row(world: &World, pool: &holdfast_pool::Pool, row: &holdfast_pool::RowRecord) {
    for slab in &row.slabs {
        let member = pool.disk(slab.disk()).expect("a member");
        let serial =
            &pool.disks().into_iter().find(|disk| disk.record.index == slab.disk()).expect("a member").record.serial;
        let disk = world.disks().into_iter().find(|disk| disk.spec().serial == *serial).expect("of this machine");
        disk.poke(member.area.unit_at(slab.unit()), &vec![0; 64 << 10]);
    }
}

#[test]
fn what_only_the_second_journal_of_a_space_holds_is_salvaged() {
    for seed in 0..4 {
        let world = machine(seed, 5, Latency::None);
        let (_pool, space) = create(&world, parity(1, 3), Provisioning::Thin, 8 * MIB);
        let written = world.sim.run(async move {
            // The first one has a record, too.
            if seed % 2 == 1 {
                space.write(0, data(1, 1), Durability::Durable).await.expect("room");
            }
            space.resize_journal((32 + seed) << 20).await.expect("room");
            space.write(0, data(2, 1), Durability::Durable).await.expect("room");
            space.write(9 * BLOCK_BYTES, data(3, 2), Durability::Durable).await.expect("room");
        });
        written.expect("no power cut is planned");
        restart(&world);
        let (_pool, space) = salvaged(&world);
        let read = world.sim.run(async move {
            (byte_at(&space, 0).await, byte_at(&space, 9 * BLOCK_BYTES).await, byte_at(&space, 10 * BLOCK_BYTES).await)
        });
        assert_eq!(read, Ok((2, 3, 3)), "seed {seed}");
    }
}

#[test]
fn a_journal_without_its_first_or_last_row_is_lost() {
    for lost in [0, 1] {
        let world = crate::parity::machine(7, 3, 1 << 30);
        let (pool, space) = create(&world, parity(1, 3), Provisioning::Thin, 8 * MIB);
        let id = space.record().id;
        let written = world.sim.run(async move {
            // More than a row of a journal holds.
            space.resize_journal(300 << 20).await.expect("room");
            space.write(0, data(3, 1), Durability::Durable).await.expect("room");
        });
        written.expect("no power cut is planned");
        restart(&world);
        let rows = pool.journal_rows(id);
        assert_eq!(rows.len(), 2);
        lose_metadata(&world);
        assert_eq!(look(&world).expect("slabs are there").spaces[0].journal, Some(JournalFound::Complete));
        lose_row(&world, &pool, &rows[lost].1);
        let found = look(&world).expect("slabs are there");
        assert_eq!(found.spaces[0].journal, Some(JournalFound::Lost), "row {lost}");
        write(&world);
        world.reopen();
    }
}
