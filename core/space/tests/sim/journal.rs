//! Journals of which the copies rot: what was written durably lasts as long as one copy of each of its blocks is sound.
//! And journals that hold something for rows that cannot be opened, or have little room.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_device::sim::{Disappearance, ErrorPersistence, SimDisk, SimRandom};
use holdfast_device::{Durability, IoBuf, IoErrorKind};
use holdfast_model::{BLOCK_BYTES, ByteSize, Layout, Provisioning, Shape, Usage};
use holdfast_pool::slab::HEAD_BYTES;
use holdfast_pool::{DiskChange, Pool, SpaceSpec};
use holdfast_space::{Space, SpaceSettings, Unlimited};

use crate::parity::{BLOCK, byte_at, create, data, machine, parity};
use crate::spoil::Spoiled;
use crate::world::World;

/// The disk and the place of each copy of a block of the journal.
type Copies = Vec<(Arc<SimDisk>, u64)>;

/// Every block of the journal, anchors included, by its copies.
fn journal_blocks(world: &World, pool: &Pool, space: u32) -> Vec<Copies> {
    let disks = pool.disks();
    let mut blocks = Vec::new();
    for (_, row) in pool.journal_rows(space) {
        let copies = usize::from(row.shape.layout.copies());
        for column in row.slabs.chunks(copies) {
            for block in 0..row.slab_data_bytes() / BLOCK_BYTES {
                let place = |slab: &holdfast_pool::SlabPlace| {
                    let serial =
                        &disks.iter().find(|disk| disk.record.index == slab.disk()).expect("a member").record.serial;
                    let disk =
                        world.disks().into_iter().find(|disk| disk.spec().serial == *serial).expect("of this machine");
                    let start = pool.disk(slab.disk()).expect("a member").area.unit_at(slab.unit()) + HEAD_BYTES;
                    (disk, start + block * BLOCK_BYTES)
                };
                blocks.push(column.iter().map(place).collect());
            }
        }
    }
    blocks
}

/// Whether a copy of a block holds anything.
fn is_used(copies: &Copies) -> bool {
    copies.iter().any(|(disk, at)| disk.peek(*at, BLOCK).iter().any(|byte| *byte != 0))
}

/// Spoils all that as many disks hold of the journal as the layout bears losses.
fn rot_disks(blocks: &[Copies], losses: usize, random: &SimRandom) -> Vec<Spoiled> {
    let rotten: Vec<String> = blocks[0].iter().take(losses).map(|(disk, _)| disk.spec().serial.clone()).collect();
    let copies = blocks.iter().filter(|copies| is_used(copies)).flatten();
    let on_rotten: Vec<_> = copies.filter(|(disk, _)| rotten.contains(&disk.spec().serial)).collect();
    on_rotten.into_iter().filter(|_| random.chance(7, 10)).map(|(disk, at)| Spoiled::block(disk, *at, random)).collect()
}

/// Spoils one copy of a few blocks, here and there.
fn rot_blocks(blocks: &[Copies], random: &SimRandom) -> Vec<Spoiled> {
    let used: Vec<&Copies> = blocks.iter().filter(|copies| is_used(copies)).collect();
    let spoil = |copies: &&Copies| {
        let (disk, at) = random.pick(copies).expect("a journal has copies");
        Spoiled::block(disk, *at, random)
    };
    used.iter().filter(|_| random.chance(4, used.len() as u32)).map(spoil).collect()
}

/// Writes durably, so that the journal holds it, and answers what is where.
async fn load(space: &Space, random: &SimRandom) -> BTreeMap<u64, u8> {
    let mut held = BTreeMap::new();
    for step in 0..80u8 {
        let (first, blocks) = (random.range(0..1900u64), random.range(1..24u64));
        let durability = if random.chance(9, 10) { Durability::Durable } else { Durability::Cached };
        space.write(first * BLOCK_BYTES, data(step + 1, blocks as usize), durability).await.expect("there is room");
        held.extend((first..first + blocks).map(|block| (block, step + 1)));
    }
    space.flush().await.expect("flushes");
    held
}

async fn check(space: &Space, held: &BTreeMap<u64, u8>, seed: u64) {
    for (block, byte) in held {
        assert_eq!(byte_at(space, block * BLOCK_BYTES).await, *byte, "seed {seed} block {block}");
    }
}

#[test]
fn a_record_is_taken_from_the_copies_that_are_whole() {
    let mut spoiled = 0;
    for seed in 0..120 {
        let world = machine(seed, 5, 64 << 20);
        let losses = 1 + (seed % 2) as u8;
        let shape = parity(losses, 5, ByteSize::kib(64));
        let (pool, space) = create(&world, shape, 8 << 20, SpaceSettings::default());
        let id = space.record().id;
        let random = world.sim.random();
        let held = world.sim.run(async move { load(&space, &random).await }).expect("no power cut is planned");
        let blocks = journal_blocks(&world, &pool, id);
        drop(pool);
        match seed % 4 {
            0 | 1 => world.sim.kill(),
            _ => {
                world.sim.cut_power();
                world.sim.restart();
            }
        }
        let random = world.sim.random();
        let rotten =
            if seed % 3 == 0 { rot_disks(&blocks, losses.into(), &random) } else { rot_blocks(&blocks, &random) };
        spoiled += rotten.len();
        let (_pool, space) = world.reopen();
        let clock = world.sim.clock();
        let done = world.sim.run(async move {
            check(&space, &held, seed).await;
            space.maintain_once().await.expect("maintenance works");
            clock.sleep(std::time::Duration::from_secs(1)).await;
            check(&space, &held, seed).await;
            assert_eq!(space.verify().await.expect("it can be read").mismatched_blocks, 0, "seed {seed}");
            space.close().await.expect("closes");
        });
        done.expect("no power cut is planned");
    }
    assert!(spoiled > 1000, "only {spoiled} blocks were spoiled");
}

/// A copy that rots while the journal alone holds what was written.
#[test]
fn what_only_the_journal_holds_is_checked_when_it_is_read() {
    for seed in 0..20 {
        let world = machine(seed, 5, 64 << 20);
        let settings = SpaceSettings { write_buffer_bytes: 64 << 10, ..SpaceSettings::default() };
        let (pool, space) = create(&world, parity(1, 5, ByteSize::kib(64)), 8 << 20, settings);
        let id = space.record().id;
        let random = world.sim.random();
        let held = world.sim.run(async move { load(&space, &random).await }).expect("no power cut is planned");
        let blocks = journal_blocks(&world, &pool, id);
        drop(pool);
        world.sim.kill();
        let import = world.import();
        let random = world.sim.random();
        let done = world.sim.run(async move {
            let pool = import.await.expect("all disks are there");
            let space = Space::open(pool.clone(), id, settings).expect("it is there");
            // The first read carries the journal out, and keeps in memory what there is room for.
            space.read(0, IoBuf::new(BLOCK)).await.expect("it can be read");
            let rotten = rot_disks(&blocks, 1, &random);
            let (disk, at) = &blocks[blocks.len() / 2][1];
            disk.fail_reads(*at..at + BLOCK_BYTES, ErrorPersistence::UntilRewritten);
            assert!(!rotten.is_empty());
            check(&space, &held, seed).await;
        });
        done.expect("no power cut is planned");
    }
}

/// Two disks without which the journal can be read, and some rows of data but not all.
fn two_to_lose(pool: &Pool, space: &Space) -> Option<([u16; 2], BTreeMap<u32, bool>)> {
    let id = space.record().id;
    let disks: Vec<u16> = pool.disks().iter().map(|disk| disk.record.index).collect();
    let pairs =
        disks.iter().flat_map(|one| disks.iter().filter(move |other| *other > one).map(move |other| [*one, *other]));
    let lost = |pair: &[u16; 2], slabs: &[holdfast_pool::SlabPlace]| {
        slabs.iter().filter(|slab| pair.contains(&slab.disk())).count()
    };
    pairs.into_iter().find_map(|pair| {
        let journal = pool.journal_rows(id);
        let copies = |row: &holdfast_pool::RowRecord| usize::from(row.shape.layout.copies());
        let logs = journal
            .iter()
            .all(|(_, row)| row.slabs.chunks(copies(row)).all(|column| lost(&pair, column) < column.len()));
        let served: BTreeMap<u32, bool> =
            pool.rows(id).into_iter().map(|(chunk, row)| (chunk, lost(&pair, &row.slabs) < 2)).collect();
        let some = served.values().any(|served| *served) && served.values().any(|served| !*served);
        (logs && some).then_some((pair, served))
    })
}

/// More disks are away than the layout bears: rows that have slabs on other disks are served, and what the journal has
/// for those that have not is there once their disks are. Where it has too much for them, small writes to the others
/// are refused, and nothing else is.
#[test]
fn rows_that_cannot_be_opened_keep_no_other_from_being_served() {
    let mut refused = 0;
    for seed in 0..20 {
        let world = machine(seed, 6, 256 << 20);
        let settings = SpaceSettings { write_buffer_bytes: 256 << 10, staged_bytes: 0, ..SpaceSettings::default() };
        let (pool, space) = create(&world, parity(1, 3, ByteSize::kib(64)), 8 << 20, settings);
        let random = world.sim.random();
        let chunk_blocks = space.record().chunk_bytes / BLOCK_BYTES;
        let writing = space.clone();
        let held = world.sim.run(async move {
            // Large enough that what is written need not be destaged to make room.
            writing.resize_journal(32 << 20).await.expect("there is room");
            let mut held = load(&writing, &random).await;
            if seed % 3 == 0 {
                writing.maintain_once().await.expect("maintenance works");
                held.extend(load(&writing, &random).await);
            }
            held
        });
        let held = held.expect("no power cut is planned");
        let Some((lost, served)) = two_to_lose(&pool, &space) else { continue };
        let serial = |index: u16| {
            pool.disks().into_iter().find(|disk| disk.record.index == index).expect("a member").record.serial
        };
        let numbers = lost.map(|index| serial(index).trim_start_matches('S').parse::<usize>().expect("a number"));
        drop((pool, space));
        match seed % 2 {
            0 => world.sim.kill(),
            _ => {
                world.sim.cut_power();
                world.sim.restart();
            }
        }
        numbers.iter().for_each(|number| world.disk(*number).disappear(Disappearance::PowerLoss));
        let (pool, space) = world.reopen();
        let there: BTreeMap<u64, u8> = held.iter().map(|(block, byte)| (*block, *byte)).collect();
        let is_served = move |block: u64| served[&((block / chunk_blocks) as u32)];
        let mut expected = there.clone();
        let first = *there.keys().find(|block| is_served(**block)).expect("some rows are served");
        let candidates: Vec<_> = numbers.iter().map(|number| world.candidate(*number)).collect();
        let disks = numbers.map(|number| world.disk(number));
        let events = world.events.clone();
        let done = world.sim.run(async move {
            for (block, byte) in &there {
                match is_served(*block) {
                    true => assert_eq!(byte_at(&space, block * BLOCK_BYTES).await, *byte, "seed {seed} block {block}"),
                    false => drop(
                        space.read(block * BLOCK_BYTES, IoBuf::new(BLOCK)).await.expect_err("too few disks are there"),
                    ),
                }
            }
            let reported = events
                .0
                .lock()
                .expect("one thread")
                .iter()
                .any(|event| event.cause.contains("its journal keeps writes to"));
            assert!(reported, "seed {seed}");
            // More than the journal takes, which goes round meanwhile.
            let mut is_full = false;
            for round in 0..if seed % 5 == 0 { 3000 } else { 20 } {
                let byte = (round % 200) as u8 + 1;
                match space.write(first * BLOCK_BYTES, data(byte, 1), Durability::Durable).await {
                    Ok(()) => drop(expected.insert(first, byte)),
                    Err(error) => {
                        assert_eq!(error.kind, IoErrorKind::NoSpace, "seed {seed}: {error}");
                        is_full = true;
                        expected.insert(first, byte_at(&space, first * BLOCK_BYTES).await);
                        break;
                    }
                }
            }
            space.resize_journal(33 << 20).await.expect_err("the journal keeps something");
            disks.iter().for_each(|disk| disk.reappear());
            for candidate in candidates {
                pool.disk_back(candidate).await.expect("a member");
            }
            if seed % 4 < 2 {
                space.maintain_once().await.expect("maintenance works");
            }
            check(&space, &expected, seed).await;
            space.maintain_once().await.expect("maintenance works");
            check(&space, &expected, seed).await;
            assert_eq!(space.verify().await.expect("it can be read").mismatched_blocks, 0, "seed {seed}");
            space.resize_journal(33 << 20).await.expect("nothing stands in the way");
            check(&space, &expected, seed).await;
            space.close().await.expect("closes");
            is_full
        });
        refused += u32::from(done.expect("no power cut is planned"));
    }
    assert!(refused <= 3, "{refused} of 20 are refused");
}

/// A disk of a pool with little room leaves: the journal, too, though there is no room for another one of its size.
#[test]
fn a_journal_gets_smaller_rather_than_stay_on_a_disk_that_leaves() {
    let world = machine(1, 4, 128 << 20);
    let (pool, space) = create(&world, parity(1, 3, ByteSize::kib(64)), 8 << 20, SpaceSettings::default());
    let (events, id) = (world.events.clone(), space.record().id);
    let done = world.sim.run(async move {
        space.resize_journal(32 << 20).await.expect("there is room");
        space.write(0, data(7, 3), Durability::Durable).await.expect("there is room");
        for number in 0.. {
            let spec = SpaceSpec {
                name: format!("ballast{number}").parse().expect("a name"),
                shape: Shape::plain(Layout::Simple, 1, ByteSize::kib(64)),
                provisioning: Provisioning::Fixed,
                size_bytes: 2 << 20,
                journal_bytes: None,
                enclosure_aware: false,
            };
            pool.create_space(spec).await.expect("there is room");
            if pool.status().free_bytes < 40 << 20 {
                break;
            }
        }
        let disk = pool.disks()[0].record.clone();
        let retired = DiskChange { usage: Some(Usage::Retired), ..DiskChange::default() };
        pool.set_disk(disk.id, retired).await.expect("a member");
        space.leave(disk.index, &Unlimited).await.expect("there is room for a small one");
        let journal = pool.journal_rows(id);
        assert!(journal.iter().flat_map(|(_, row)| &row.slabs).all(|slab| slab.disk() != disk.index));
        assert!((1 << 20..32 << 20).contains(&pool.journal_bytes(id)), "{}", pool.journal_bytes(id));
        let reported =
            events.0.lock().expect("one thread").iter().any(|event| event.cause.contains("no longer 32 MiB"));
        assert!(reported);
        assert_eq!(byte_at(&space, 2 * BLOCK_BYTES).await, 7);
        space.write(0, data(8, 3), Durability::Durable).await.expect("there is room");
        space.close().await.expect("closes");
    });
    done.expect("no power cut is planned");
}
