//! What a disk holds is believed only where something proves it: disks set back to an older state, slabs overwritten
//! together with their checksums, and spaces closed while some of their disks are away.

mod lost_writes;
mod older_images;
mod slow_look;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast_device::sim::{Disappearance, ErrorPersistence};
use holdfast_device::{Durability, IoBuf, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, DiskState, Integrity, Layout, Shape, SpaceState};
use holdfast_pool::{Area, Pool, UNIT_BYTES};
use holdfast_space::{Space, SpaceSettings, Unlimited};

use crate::parity::{create, data, machine, slow_machine};
use crate::salvage::restart;
use crate::world::World;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Blocks that are written, in every column of every shape here.
const BLOCKS: u64 = 1536;

fn shape(layout: Layout, columns: u16) -> Shape {
    Shape::plain(layout, columns, ByteSize::kib(64)).with_integrity(Integrity::Crc32c)
}

fn mirror(copies: u8, columns: u16) -> Shape {
    shape(Layout::Mirror { copies }, columns)
}

fn parity(parity: u8, columns: u16) -> Shape {
    shape(Layout::Parity { parity }, columns)
}

fn begin(seed: u64, shape: Shape) -> (World, Arc<Pool>, Arc<Space>) {
    let disks = (shape.width() + 2).max(7);
    let world = machine(seed, disks, 64 << 20);
    let (pool, space) = create(&world, shape, BLOCKS * BLOCK_BYTES, SpaceSettings::default());
    (world, pool, space)
}

fn run<T: 'static>(world: &World, story: impl Future<Output = T> + 'static) -> T {
    world.sim.run(story).expect("no power cut is planned")
}

async fn fill(space: &Space, byte: u8) {
    for block in (0..BLOCKS).step_by(16) {
        space.write(block * BLOCK_BYTES, data(byte, 16), Durability::Cached).await.expect("room is there");
    }
    space.flush().await.expect("flushes");
}

/// Closes the space and its pool, as it can be closed. Answers whether in good order.
fn close(world: &World, pool: Arc<Pool>, space: Arc<Space>) -> bool {
    let closed = run(world, async move {
        let settled = space.close().await.unwrap_or(false);
        if settled {
            pool.export().await.expect("exports");
        }
        settled
    });
    world.sim.kill();
    closed
}

/// For each block the byte that it is full of, or nothing where it cannot be read.
async fn answers(space: &Space) -> Vec<Option<u8>> {
    let mut answers = Vec::new();
    for block in 0..BLOCKS {
        let held = space.read(block * BLOCK_BYTES, IoBuf::new(BLOCK)).await.ok();
        answers.push(held.map(|held| {
            assert!(held.iter().all(|byte| *byte == held[0]), "block {block} is of one piece");
            held[0]
        }));
    }
    answers
}

/// The disks of the machine on which a space has slabs.
fn disks_of(space: &Space) -> Vec<usize> {
    let mut disks: Vec<usize> = space
        .map()
        .iter()
        .flat_map(|row| &row.slabs)
        .map(|slab| slab.path.trim_start_matches("/sim/").parse().expect("a number"))
        .collect();
    disks.sort_unstable();
    disks.dedup();
    disks
}

/// The disks of the machine with the slabs of a space's first row.
fn disks_of_row(space: &Space) -> Vec<usize> {
    let number = |path: &str| path.trim_start_matches("/sim/").parse().expect("a number");
    space.map()[0].slabs.iter().map(|slab| number(&slab.path)).collect()
}

/// What the pool calls a disk of the machine.
fn member_on(pool: &Pool, index: usize) -> u16 {
    let path = format!("/sim/{index}");
    pool.disks().into_iter().find(|disk| disk.record.path == path).expect("a member").record.index
}

fn was_reported(world: &World, what: &str) -> bool {
    world.was_told(what)
}

/// Leaves the log of a disk as an image does that is taken while a record is on its way.
fn tear_log(world: &World, index: usize) {
    let disk = world.disk(index);
    let area = Area::of_disk("", disk.spec().size_bytes).expect("a good size");
    let is_blank = |at: u64| disk.peek(at, BLOCK).iter().all(|byte| *byte == 0);
    let half = (0..2).map(|half| area.log_half(half)).find(|half| !is_blank(*half)).expect("one half is in use");
    let end = (half + BLOCK_BYTES..).step_by(BLOCK).find(|at| is_blank(*at)).expect("a log ends with zeros");
    [end, end + area.log_copy_bytes()].iter().for_each(|at| disk.poke(*at, &[0x5a; BLOCK / 4]));
}

/// Also such whose images were taken while a record was on its way.
#[test]
fn disks_that_were_set_back_win_against_no_other() {
    for (seed, shape, losses) in
        [(0, mirror(2, 2), 1), (1, mirror(3, 1), 1), (2, mirror(3, 1), 2), (3, parity(1, 3), 1), (4, parity(2, 5), 2)]
    {
        for (clean, torn) in [(true, false), (false, false), (true, true), (false, true)] {
            let (world, pool, space) = begin(seed, shape);
            let (first, clock) = (space.clone(), world.sim.clock());
            run(&world, async move { fill(&first, 1).await });
            let lost: Vec<usize> = disks_of(&space).into_iter().take(losses).collect();
            let images: Vec<_> = lost.iter().map(|disk| world.disk(*disk).image()).collect();
            let second = space.clone();
            run(&world, async move {
                fill(&second, 2).await;
                for _ in 0..4 {
                    clock.sleep(std::time::Duration::from_secs(11)).await;
                    second.write(0, data(2, 1), Durability::Durable).await.expect("room is there");
                    second.maintain_once().await.expect("maintenance works");
                }
            });
            match clean {
                true => assert!(close(&world, pool, space)),
                false => {
                    drop((pool, space));
                    world.sim.kill();
                }
            }
            lost.iter().zip(&images).for_each(|(disk, image)| world.disk(*disk).set_back(image));
            if torn {
                lost.iter().for_each(|disk| tear_log(&world, *disk));
            }
            let (pool, space) = world.reopen();
            assert!(was_reported(&world, "set back to an older state"), "{shape}");
            assert_eq!(was_reported(&world, "has a damaged log"), torn, "{shape}");
            let done = space.clone();
            run(&world, async move {
                assert!(done.status().stale_slabs > 0, "{shape}: they are not believed");
                assert!(answers(&done).await.iter().all(|held| *held == Some(2)), "{shape}: old data was read");
                for _ in 0..4 {
                    done.maintain_once().await.expect("maintenance works");
                }
                assert_eq!(done.status().stale_slabs, 0, "{shape}: they are copied anew");
                let found = done.scrub(&Unlimited).await.expect("everything can be read");
                assert_eq!(found.mismatched_blocks, 0, "{shape}: {found:?}");
                assert!(answers(&done).await.iter().all(|held| *held == Some(2)), "{shape}");
            });
            // What was copied anew counts by itself.
            let others: Vec<usize> =
                disks_of(&space).into_iter().filter(|disk| !lost.contains(disk)).take(losses).collect();
            for disk in &others {
                world.disk(*disk).disappear(Disappearance::Cable);
            }
            let members: Vec<u16> = others.iter().map(|other| member_on(&pool, *other)).collect();
            run(&world, async move {
                for member in members {
                    pool.disk_out(member, DiskState::Missing, "pulled").await.expect("a quorum is there");
                }
                assert!(
                    answers(&space).await.iter().all(|held| *held == Some(2)),
                    "{shape}: from the disks that came back"
                );
            });
        }
    }
}

#[test]
fn a_disk_that_is_swapped_for_its_older_image_in_use_is_copied_anew() {
    for (seed, shape) in [(0, mirror(2, 2)), (1, mirror(3, 1)), (2, parity(1, 3)), (3, parity(2, 5))] {
        let (world, pool, space) = begin(seed, shape);
        let first = space.clone();
        run(&world, async move { fill(&first, 1).await });
        let index = disks_of(&space)[0];
        let image = world.disk(index).image();
        let (second, clock) = (space.clone(), world.sim.clock());
        run(&world, async move {
            fill(&second, 2).await;
            for _ in 0..3 {
                clock.sleep(std::time::Duration::from_secs(11)).await;
                second.maintain_once().await.expect("maintenance works");
            }
        });
        let member = member_on(&pool, index);
        world.disk(index).disappear(Disappearance::Cable);
        let out = pool.clone();
        run(
            &world,
            async move { out.disk_out(member, DiskState::Missing, "pulled").await.expect("a quorum is there") },
        );
        world.disk(index).set_back(&image);
        world.disk(index).reappear();
        let candidate = world.candidate(index);
        run(&world, async move {
            pool.disk_back(candidate).await.expect("a member");
            assert!(answers(&space).await.iter().all(|held| *held == Some(2)), "{shape}: old data was read");
            for _ in 0..4 {
                space.maintain_once().await.expect("maintenance works");
            }
            assert_eq!(space.status().stale_slabs, 0, "{shape}");
            let found = space.verify().await.expect("everything can be read");
            assert_eq!(found.mismatched_blocks, 0, "{shape}: {found:?}");
        });
        assert!(was_reported(&world, "older state"), "{shape}");
    }
}

/// Without anybody having seen it go, and also where the pool wrote to its log since.
#[test]
fn a_disk_that_is_set_back_under_its_pool_is_found_by_the_next_look_at_it() {
    for (seed, appended) in [(0, false), (1, true)] {
        let (world, pool, space) = begin(seed, mirror(2, 2));
        let (first, clock) = (space.clone(), world.sim.clock());
        run(&world, async move { fill(&first, 1).await });
        let index = disks_of(&space)[0];
        let image = world.disk(index).image();
        let second = space.clone();
        run(&world, async move {
            fill(&second, 2).await;
            for _ in 0..3 {
                clock.sleep(Duration::from_secs(11)).await;
                second.write(0, data(2, 1), Durability::Durable).await.expect("room is there");
                second.maintain_once().await.expect("maintenance works");
            }
        });
        world.disk(index).set_back(&image);
        let (looked, candidate) = (pool.clone(), world.candidate(index));
        run(&world, async move {
            if appended {
                let now = looked.env().clock.now();
                looked.stamp(now).await.expect("a quorum is there");
            }
            looked.audit().await.expect("a quorum is there");
            assert!(space.status().stale_slabs > 0, "it is not believed");
            assert!(answers(&space).await.iter().all(|held| *held == Some(2)), "old data was read");
            looked.disk_back(candidate).await.expect("a member");
            for _ in 0..4 {
                space.maintain_once().await.expect("maintenance works");
            }
            assert_eq!(space.status().stale_slabs, 0);
            assert_eq!(
                space.verify().await.expect("everything can be read").mismatched_blocks,
                0,
                "appended: {appended}"
            );
        });
        assert!(was_reported(&world, "set back to an older state in use"), "appended: {appended}");
        drop(pool);
    }
}

/// Beyond what the layout bears nothing old is served, and the disk as it was last makes it whole again.
#[test]
fn an_older_image_of_the_only_copy_is_refused() {
    let (world, pool, space) = begin(0, shape(Layout::Simple, 2));
    let first = space.clone();
    run(&world, async move { fill(&first, 1).await });
    let index = disks_of(&space)[0];
    let image = world.disk(index).image();
    let second = space.clone();
    run(&world, async move { fill(&second, 2).await });
    assert!(close(&world, pool, space));
    let last = world.disk(index).image();
    world.disk(index).set_back(&image);
    let (pool, space) = world.reopen();
    let (kept, seen) = (pool.clone(), space.clone());
    run(&world, async move {
        let held = answers(&seen).await;
        assert!(held.iter().all(|held| held.is_none_or(|byte| byte == 2)), "old data was read");
        assert!(held.contains(&None) && held.contains(&Some(2)), "the other column is served");
        assert_eq!(seen.status().state, SpaceState::Failed);
        assert!(kept.disks().iter().any(|disk| disk.record.state == DiskState::Failed));
    });
    assert!(was_reported(&world, "attach the disk as it was last"));
    world.disk(index).set_back(&last);
    let candidate = world.candidate(index);
    run(&world, async move {
        pool.disk_back(candidate).await.expect("it holds what it held last");
        assert!(answers(&space).await.iter().all(|held| *held == Some(2)));
    });
}

/// Where the parts of a slab lie on its disk.
struct Parts {
    start: u64,
    data: u64,
    checksums: u64,
    end: u64,
}

/// The slabs of a space on a disk.
fn slabs_on(pool: &Pool, space: &Space, index: usize) -> Vec<Parts> {
    let mut found = Vec::new();
    for row in pool.rows(space.record().id).into_iter().map(|(_, row)| row) {
        for place in &row.slabs {
            let disk = pool.disk(place.disk()).expect("a member");
            if pool.disk_record(disk.id).expect("a member").path == format!("/sim/{index}") {
                let start = disk.area.unit_at(place.unit());
                let data = start + row.slab_head_bytes();
                let (checksums, end) = (data + row.slab_data_bytes(), start + u64::from(row.slab_units) * UNIT_BYTES);
                found.push(Parts { start, data, checksums, end });
            }
        }
    }
    found
}

/// Overwrites parts of the slabs on a disk.
fn overwrite(world: &World, pool: &Pool, space: &Space, index: usize, byte: u8, part: &str) {
    for Parts { start, data, end, .. } in slabs_on(pool, space, index) {
        let (from, to) = match part {
            "head" => (start, data),
            "data and checksums" => (data, end),
            _ => (start, end),
        };
        world.disk(index).poke(from, &vec![byte; (to - from) as usize]);
    }
}

#[test]
fn what_was_overwritten_with_its_checksums_is_never_served() {
    for (seed, shape) in
        [(0, shape(Layout::Simple, 2)), (1, mirror(2, 1)), (2, mirror(3, 1)), (3, parity(1, 3)), (4, parity(2, 5))]
    {
        for part in ["all", "head", "data and checksums"] {
            for byte in [0, 0xff] {
                let what = format!("{shape}, {part} with {byte:#x}");
                let (world, pool, space) = begin(seed, shape);
                let first = space.clone();
                run(&world, async move { fill(&first, 7).await });
                let index = disks_of(&space)[1];
                let (kept, known) = (pool.clone(), space.clone());
                assert!(close(&world, pool, space), "{what}");
                overwrite(&world, &kept, &known, index, byte, part);
                drop((kept, known));
                let (pool, space) = world.reopen();
                let (redundant, seen) = (shape.layout.tolerates() > 0, space.clone());
                let label = what.clone();
                run(&world, async move {
                    let held = answers(&seen).await;
                    assert!(
                        held.iter().all(|held| held.is_none_or(|byte| byte == 7)),
                        "{label}: something else was read"
                    );
                    assert_eq!(held.contains(&None), !redundant, "{label}");
                    for _ in 0..3 {
                        seen.maintain_once().await.expect("maintenance works");
                    }
                    let found = seen.scrub(&Unlimited).await.expect("it goes on");
                    assert_eq!(found.unrepaired_blocks > 0, !redundant, "{label}: {found:?}");
                    let found = seen.verify().await.expect("it goes on");
                    assert_eq!(found.mismatched_blocks > 0, !redundant, "{label}: {found:?}");
                    // What is written again is right again, and nothing else is.
                    let lost = held.iter().position(Option::is_none).unwrap_or(0) as u64;
                    seen.write(lost * BLOCK_BYTES, data(9, 1), Durability::Durable).await.expect("it takes writes");
                    let again = answers(&seen).await;
                    assert_eq!(again[lost as usize], Some(9), "{label}");
                    assert!((0..).zip(again).all(|(at, now)| at == lost || now == held[at as usize]), "{label}");
                });
                // The next start finds the same.
                close(&world, pool, space);
                let (_pool, space) = world.reopen();
                run(&world, async move {
                    let held = answers(&space).await;
                    let right = |held: &Option<u8>| held.is_none_or(|byte| byte == 7 || byte == 9);
                    assert!(
                        held.iter().all(right) && held.iter().filter(|held| **held == Some(9)).count() == 1,
                        "{what}"
                    );
                    assert_eq!(held.contains(&None), !redundant, "{what}");
                });
            }
        }
    }
}

/// A page of checksums is one block to its disk and 2 MiB to its space.
#[test]
fn a_page_of_checksums_that_cannot_be_read_costs_nothing_beyond_it() {
    for (seed, shape) in [(0, shape(Layout::Simple, 1)), (1, parity(1, 3)), (2, parity(2, 5))] {
        let (world, pool, space) = begin(seed, shape);
        let first = space.clone();
        run(&world, async move { fill(&first, 7).await });
        let index = disks_of(&space)[0];
        let checksums: Vec<Range<u64>> =
            slabs_on(&pool, &space, index).into_iter().map(|slab| slab.checksums..slab.end).collect();
        assert!(close(&world, pool, space));
        let redundant = shape.layout.tolerates() > 0;
        let lasts = if redundant { ErrorPersistence::UntilRewritten } else { ErrorPersistence::Times(1) };
        checksums.into_iter().for_each(|range| world.disk(index).fail_reads(range, lasts));
        let (pool, space) = world.reopen();
        let seen = space.clone();
        run(&world, async move {
            let held = answers(&seen).await;
            assert!(held.iter().all(|held| *held == Some(7) || (!redundant && held.is_none())), "{shape}");
            assert_eq!(held.contains(&None), !redundant, "{shape}: what nothing proves is not served");
            // The page is written with what is noted now, and with all that it held before.
            seen.write(0, data(7, 1), Durability::Durable).await.expect("it takes writes");
            for _ in 0..3 {
                seen.maintain_once().await.expect("maintenance works");
            }
            assert!(answers(&seen).await.iter().all(|held| *held == Some(7)), "{shape}: all is proven again");
            let found = seen.verify().await.expect("it goes on");
            assert_eq!((found.mismatched_blocks, found.unrepaired_blocks), (0, 0), "{shape}: {found:?}");
        });
        let repaired: u64 = pool.pool_disks().iter().map(|disk| disk.counters.repaired.load(Ordering::Relaxed)).sum();
        assert_eq!(repaired, 0, "{shape}: every block was right");
        close(&world, pool, space);
        let (pool, space) = world.reopen();
        // As many other disks go as the layout bears.
        let others = disks_of(&space).into_iter().filter(|other| *other != index).take(shape.layout.tolerates().into());
        others.for_each(|other| world.disk(other).disappear(Disappearance::PowerLoss));
        run(&world, async move {
            assert!(answers(&space).await.iter().all(|held| *held == Some(7)), "{shape}: with disks away");
            drop(pool);
        });
    }
}

/// Heads are read at a start only: while the space is in use a scrub sees to it that what stands there is whole.
#[test]
fn heads_that_are_damaged_in_use_are_whole_again_before_a_crash_asks_for_them() {
    let none = |layout, columns| Shape::plain(layout, columns, ByteSize::kib(64)).with_integrity(Integrity::None);
    let shapes = [
        shape(Layout::Simple, 2),
        mirror(2, 2),
        parity(1, 3),
        parity(2, 5),
        none(Layout::Simple, 2),
        none(Layout::Parity { parity: 1 }, 3),
    ];
    for (seed, shape) in (0..).zip(shapes) {
        for all in [false, true] {
            let (world, pool, space) = begin(seed, shape);
            let first = space.clone();
            run(&world, async move { fill(&first, 7).await });
            let damaged = if all { disks_of(&space) } else { disks_of(&space)[..1].to_vec() };
            for index in &damaged {
                overwrite(&world, &pool, &space, *index, 0xa5, "head");
            }
            let seen = space.clone();
            run(&world, async move {
                let found = seen.verify().await.expect("it goes on");
                assert!(found.mismatched_blocks >= 2 * damaged.len() as u64, "{shape}: {found:?}");
                let found = seen.scrub(&Unlimited).await.expect("it goes on");
                assert!(
                    found.repaired_blocks >= 2 * damaged.len() as u64 && found.unrepaired_blocks == 0,
                    "{shape}: {found:?}"
                );
                for _ in 0..3 {
                    seen.maintain_once().await.expect("maintenance works");
                }
                assert_eq!(seen.status().stale_slabs, 0, "{shape}");
                let found = seen.verify().await.expect("it goes on");
                assert_eq!(found.mismatched_blocks, 0, "{shape}: {found:?}");
            });
            drop((pool, space));
            world.sim.kill();
            let (_pool, space) = world.reopen();
            run(&world, async move {
                assert!(answers(&space).await.iter().all(|held| *held == Some(7)), "{shape}");
            });
        }
    }
}

/// Without checksums nothing tells what is left of a slab whose head is gone, so all of it is copied anew or not
/// served.
#[test]
fn a_slab_without_its_head_does_not_count_where_there_are_no_checksums() {
    let single = Layout::Parity { parity: 1 };
    for (seed, layout, slabs) in
        [(0, Layout::Simple, 1), (1, Layout::Mirror { copies: 2 }, 1), (2, single, 1), (3, single, 2)]
    {
        let columns = if layout.parity() > 0 { 3 } else { 1 };
        let shape = Shape::plain(layout, columns, ByteSize::kib(64)).with_integrity(Integrity::None);
        let (world, pool, space) = begin(seed, shape);
        let first = space.clone();
        run(&world, async move { fill(&first, 7).await });
        let disks = disks_of_row(&space)[..slabs].to_vec();
        let (kept, known) = (pool.clone(), space.clone());
        assert!(close(&world, pool, space), "{shape}");
        disks.into_iter().for_each(|index| overwrite(&world, &kept, &known, index, 0, "all"));
        drop((kept, known));
        let (_pool, space) = world.reopen();
        run(&world, async move {
            let held = answers(&space).await;
            assert!(held.iter().all(|held| held.is_none_or(|byte| byte == 7)), "{shape}: something else was read");
            let lost = slabs > usize::from(shape.layout.tolerates());
            assert_eq!(held.contains(&None), lost, "{shape}");
            // Nor does it count where the space tells how it is.
            let status = space.status();
            assert_eq!(
                (status.protection.lost_slabs > 0, space.unreadable_rows() > 0),
                (lost, lost),
                "{shape}: {status:?}"
            );
            assert_eq!(status.state == SpaceState::Failed, lost, "{shape}: {status:?}");
        });
    }
}

#[test]
fn a_dead_column_keeps_no_other_from_becoming_durable() {
    for seed in 0..8 {
        let (world, pool, space) = begin(seed, mirror(2, 3));
        let first = space.clone();
        // The row is there, and nothing is in columns 1 and 2 yet.
        run(&world, async move { first.write(0, data(5, 16), Durability::Durable).await.expect("room is there") });
        let pair: Vec<usize> = space.map()[0].slabs[2..4]
            .iter()
            .map(|slab| slab.path.trim_start_matches("/sim/").parse().expect("a number"))
            .collect();
        let members: Vec<u16> = pair.iter().map(|index| member_on(&pool, *index)).collect();
        for index in &pair {
            world.disk(*index).disappear(if seed % 2 == 0 { Disappearance::Cable } else { Disappearance::PowerLoss });
        }
        let (second, out) = (space.clone(), pool.clone());
        let at = |column: u64| column * (64 << 10);
        run(&world, async move {
            for member in members {
                out.disk_out(member, DiskState::Missing, "pulled").await.expect("a quorum is there");
            }
            for column in [0, 2] {
                second.write(at(column), data(6, 16), Durability::Cached).await.expect("these columns are there");
            }
            second.write(at(1), data(6, 16), Durability::Cached).await.expect_err("both copies are away");
            assert_eq!(second.flush().await, Ok(()), "what was answered is durable");
        });
        assert!(!close(&world, pool, space), "a column could not be looked at");
        let expect = |byte| IoSlice::padded(&vec![byte; 16 * BLOCK]);
        let (pool, space) = world.reopen();
        assert!(!pool.was_closed());
        let seen = space.clone();
        run(&world, async move {
            for column in [0, 2] {
                let held = seen.read(at(column), IoBuf::new(16 * BLOCK)).await.expect("this column is there");
                assert!(held[..] == expect(6)[..], "seed {seed}: column {column}");
            }
            assert!(seen.read(at(1), IoBuf::new(BLOCK)).await.is_err(), "seed {seed}");
        });
        // They come back in any order.
        let back: Vec<usize> = if seed % 4 < 2 { pair.clone() } else { pair.iter().rev().copied().collect() };
        for index in back {
            world.disk(index).reappear();
            let (candidate, pool) = (world.candidate(index), pool.clone());
            run(&world, async move { pool.disk_back(candidate).await.expect("a member") });
        }
        run(&world, async move {
            for _ in 0..3 {
                space.maintain_once().await.expect("maintenance works");
            }
            assert_eq!(space.status().stale_slabs, 0, "seed {seed}");
            for (column, byte) in [(0, 6), (1, 0), (2, 6)] {
                let held = space.read(at(column), IoBuf::new(16 * BLOCK)).await.expect("everything is there");
                assert!(held[..] == expect(byte)[..], "seed {seed}: column {column}");
            }
        });
    }
}

/// A row of parity whose disks are away, with much of it in the journal, and others that are written to: these go on.
#[test]
fn a_row_of_parity_that_is_away_keeps_no_other_from_becoming_durable() {
    for seed in 0..6 {
        let (world, shape) = (machine(seed, 10, 128 << 20), parity(1 + (seed % 2) as u8, 3 + (seed % 2) as u16 * 2));
        let (pool, space) =
            create(&world, shape, 48 << 20, SpaceSettings { write_buffer_bytes: 1 << 20, ..SpaceSettings::default() });
        let chunk_bytes = space.record().chunk_bytes;
        let (chunks, per_chunk) = ((48 << 20) / chunk_bytes, chunk_bytes / BLOCK_BYTES);
        let first = space.clone();
        run(&world, async move {
            for chunk in 0..chunks {
                first.write(chunk * chunk_bytes, data(1, 16), Durability::Durable).await.expect("room is there");
            }
            first.maintain_once().await.expect("maintenance works");
        });
        let disks = |row: &holdfast_pool::RowRecord| row.slabs.iter().map(|slab| slab.disk()).collect::<Vec<u16>>();
        let rows: Vec<Vec<u16>> = pool.rows(space.record().id).iter().map(|(_, row)| disks(row)).collect();
        let journal: Vec<Vec<u16>> = pool.journal_rows(space.record().id).iter().map(|(_, row)| disks(row)).collect();
        let losses = usize::from(shape.layout.tolerates()) + 1;
        let held = |row: &Vec<u16>, gone: &[u16]| gone.iter().filter(|disk| row.contains(disk)).count();
        let stands = |gone: &[u16]| journal.iter().all(|row| held(row, gone) < row.len());
        let is_other = |row: &Vec<u16>, gone: &[u16]| held(row, gone) < losses;
        let found = (0..rows.len()).find_map(|dead| {
            let gone = rows[dead][..losses].to_vec();
            let other = (0..rows.len()).find(|other| is_other(&rows[*other], &gone))?;
            stands(&gone).then_some((dead as u64, other as u64, gone))
        });
        let (dead, other, gone) = found.expect("ten disks are enough");
        let numbers: Vec<usize> = gone
            .iter()
            .map(|member| {
                let path = pool.disk_record(pool.disk(*member).expect("a member").id).expect("a member").path;
                path.trim_start_matches("/sim/").parse().expect("a number")
            })
            .collect();
        let (second, out) = (space.clone(), pool.clone());
        let lost: Vec<_> = numbers.iter().map(|index| world.disk(*index).clone()).collect();
        let at = move |chunk: u64, nth: u64| chunk * chunk_bytes + nth * 7 % per_chunk * BLOCK_BYTES;
        run(&world, async move {
            for nth in 0..900 {
                second.write(at(dead, nth), data(2, 1), Durability::Durable).await.expect("room is there");
            }
            for (disk, member) in lost.iter().zip(&gone) {
                disk.disappear(Disappearance::Cable);
                out.disk_out(*member, DiskState::Missing, "pulled").await.expect("a quorum is there");
            }
            for round in 0..4 {
                for nth in 0..per_chunk * 2 {
                    let durability = if nth % 3 == 0 { Durability::Durable } else { Durability::Cached };
                    let written = second.write(at(other, nth), data(3 + round, 1), durability).await;
                    assert_eq!(written, Ok(()), "seed {seed}: write {nth} of round {round}, held by another row");
                }
                assert_eq!(
                    second.flush().await,
                    Ok(()),
                    "seed {seed}: nothing of the row that is away waits in memory"
                );
            }
            second
                .write(at(dead, 0), data(9, 1), Durability::Durable)
                .await
                .expect_err("too many of its disks are away");
        });
        drop((pool, space));
        restart(&world);
        numbers.iter().for_each(|index| world.disk(*index).reappear());
        let (_pool, space) = world.reopen();
        run(&world, async move {
            for _ in 0..3 {
                space.maintain_once().await.expect("maintenance works");
            }
            for nth in 0..900.min(per_chunk) {
                assert_eq!(crate::parity::byte_at(&space, at(dead, nth)).await, 2, "seed {seed}: block {nth}");
                assert_eq!(crate::parity::byte_at(&space, at(other, nth)).await, 6, "seed {seed}: block {nth}");
            }
            assert_eq!(space.verify().await.expect("it goes on").mismatched_blocks, 0, "seed {seed}");
        });
    }
}

/// A disk that lost what it had not made durable, the only one of its column: what was durable before reads as before.
#[test]
fn blocks_that_were_durable_outlast_an_outage_of_their_only_disk() {
    for seed in 0..40 {
        let (world, pool, space) = begin(seed, shape(Layout::Simple, 2));
        let (first, random) = (space.clone(), world.sim.random());
        run(&world, async move {
            fill(&first, 1).await;
            for _ in 0..20 {
                let block = random.range(0..BLOCKS);
                first.write(block * BLOCK_BYTES, data(2, 1), Durability::Cached).await.expect("room is there");
            }
        });
        let index = disks_of(&space)[0];
        world.disk(index).disappear(Disappearance::PowerLoss);
        let member = member_on(&pool, index);
        let (out, failing) = (pool.clone(), space.clone());
        run(&world, async move {
            out.disk_out(member, DiskState::Missing, "pulled").await.expect("a quorum is there");
            let _ = failing.flush().await;
        });
        let (pool, space) = match seed % 2 {
            0 => (pool, space),
            _ => {
                assert!(!close(&world, pool, space), "seed {seed}: a disk was away");
                world.reopen()
            }
        };
        world.disk(index).reappear();
        let candidate = world.candidate(index);
        run(&world, async move {
            pool.disk_back(candidate).await.expect("a member");
            let held = answers(&space).await;
            assert!(held.iter().all(|held| matches!(held, Some(1 | 2))), "seed {seed}: {held:?}");
            let _ = space.flush().await;
            assert_eq!(answers(&space).await, held, "seed {seed}: what was read once stays");
        });
    }
}

/// While more is away than a layout bears, requests are answered or refused soon, by writers side by side, and so is a
/// close; what was durable before is there once the disks are.
#[test]
fn what_cannot_be_written_is_refused_soon() {
    for (seed, shape) in (0..24).flat_map(|seed| [(seed, parity(2, 6)), (seed, parity(1, 4)), (seed, mirror(2, 2))]) {
        let (world, pool, space) = begin(seed, shape);
        let first = space.clone();
        run(&world, async move { fill(&first, 1).await });
        let gone = disks_of_row(&space)[..=usize::from(shape.layout.tolerates())].to_vec();
        let (clock, stop) = (world.sim.clock(), std::rc::Rc::new(std::cell::Cell::new(false)));
        let soon = move |began: std::time::Duration, what: &str, now: std::time::Duration| {
            assert!(
                now - began < std::time::Duration::from_secs(3),
                "{shape}, seed {seed}: {what} took {:?}",
                now - began
            );
        };
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let (space, clock, stop, random) = (space.clone(), clock.clone(), stop.clone(), world.sim.random());
                world.sim.spawn_handle(async move {
                    while !stop.get() {
                        let (block, began) = (random.range(0..BLOCKS / 4) * 4 + writer, clock.now());
                        let durability = if random.chance(1, 4) { Durability::Durable } else { Durability::Cached };
                        let written = space.write(block * BLOCK_BYTES, data(2, 1), durability).await.is_ok();
                        soon(began, "a write", clock.now());
                        let began = clock.now();
                        if random.chance(1, 8) {
                            let _ = space.flush().await;
                        }
                        soon(began, "a flush", clock.now());
                        if !written {
                            clock.sleep(std::time::Duration::from_millis(1)).await;
                        }
                    }
                })
            })
            .collect();
        let members: Vec<u16> = gone.iter().map(|index| member_on(&pool, *index)).collect();
        let disks: Vec<_> = gone.iter().map(|index| world.disk(*index)).collect();
        let (busy, out, ending) = (space.clone(), pool.clone(), clock.clone());
        run(&world, async move {
            for (disk, member) in disks.iter().zip(&members) {
                ending.sleep(std::time::Duration::from_millis(200)).await;
                disk.disappear(Disappearance::Cable);
                if seed % 2 == 0 {
                    out.disk_out(*member, DiskState::Missing, "pulled").await.expect("a quorum is there");
                }
            }
            ending.sleep(std::time::Duration::from_millis(500)).await;
            let began = ending.now();
            let _ = busy.maintain_once().await;
            soon(began, "maintenance", ending.now());
            stop.set(true);
            for writer in writers {
                writer.await;
            }
            let began = ending.now();
            let _ = busy.close().await;
            soon(began, "a close", ending.now());
            disks.iter().for_each(|disk| disk.reappear());
        });
        drop((pool, space));
        world.sim.kill();
        let (_pool, space) = world.reopen();
        run(&world, async move {
            for (block, found) in answers(&space).await.into_iter().enumerate() {
                assert!(matches!(found, Some(1 | 2)), "{shape}, seed {seed}: block {block} is {found:?}");
            }
        });
    }
}

/// Writes that no disk took, since all copies were away: what was there before is there afterwards.
#[test]
fn writes_that_are_refused_while_all_copies_are_away_take_nothing_with_them() {
    for (seed, shape) in
        (0..16).flat_map(|seed| [(seed, mirror(2, 2)), (seed, shape(Layout::Simple, 2)), (seed, parity(1, 3))])
    {
        let (world, pool, space) = begin(seed, shape);
        let first = space.clone();
        run(&world, async move { fill(&first, 1).await });
        let gone = disks_of_row(&space)[..=usize::from(shape.layout.tolerates())].to_vec();
        let held = std::rc::Rc::new(std::cell::RefCell::new(vec![Some(1); BLOCKS as usize]));
        for index in &gone {
            world.disk(*index).disappear(if seed % 2 == 0 { Disappearance::Cable } else { Disappearance::PowerLoss });
            let (pool, space, member, held) = (pool.clone(), space.clone(), member_on(&pool, *index), held.clone());
            let is_last = Some(index) == gone.last();
            run(&world, async move {
                pool.disk_out(member, DiskState::Missing, "pulled").await.expect("a quorum is there");
                for block in (0..BLOCKS).step_by(8) {
                    let durability = if seed % 6 == 0 { Durability::Cached } else { Durability::Durable };
                    match space.write(block * BLOCK_BYTES, data(2, 1), durability).await {
                        Ok(()) => held.borrow_mut()[block as usize] = Some(2),
                        // It may stand in the journal, or nowhere.
                        Err(_) => held.borrow_mut()[block as usize] = None,
                    }
                }
                if seed & 4 != 0 {
                    let _ = answers(&space).await;
                }
                if seed & 8 != 0 || !is_last {
                    let _ = space.flush().await;
                    let _ = space.maintain_once().await;
                }
            });
        }
        let last = *gone.last().expect("one at least");
        world.disk(last).reappear();
        let candidate = world.candidate(last);
        run(&world, async move {
            pool.disk_back(candidate).await.expect("a member");
            for (block, (found, held)) in answers(&space).await.into_iter().zip(held.borrow().iter()).enumerate() {
                match held {
                    Some(_) => assert_eq!(found, *held, "{shape}, seed {seed}: block {block}"),
                    None => assert!(matches!(found, Some(1 | 2)), "{shape}, seed {seed}: block {block} is {found:?}"),
                }
            }
        });
    }
}

/// More disks than parity go while small writes are destaged, and with them what their caches held. The journal keeps
/// every write that was flushed until it is durable where it belongs, whether the disks come back to the same process
/// or to the next one.
#[test]
fn what_a_journal_keeps_outlasts_disks_that_go_while_it_is_put_in_place() {
    let mut reopened = 0;
    for (seed, step) in (0u64..).zip((0..60).chain(0..60)) {
        let shape = if seed % 2 == 0 { parity(1, 3) } else { parity(2, 5) };
        let shape = if seed % 8 < 4 { shape } else { shape.with_integrity(Integrity::None) };
        let (stays, noticed) = (seed >= 60, seed % 3 == 0);
        let world = slow_machine(seed, 7, 64 << 20);
        let (pool, space) = create(&world, shape, BLOCKS * BLOCK_BYTES, SpaceSettings::default());
        let small = (0..BLOCKS).step_by(37).collect::<Vec<u64>>();
        let first = space.clone();
        let written = small.clone();
        run(&world, async move {
            fill(&first, 1).await;
            for _ in 0..3 {
                first.maintain_once().await.expect("maintenance works");
            }
            for block in written {
                first.write(block * BLOCK_BYTES, data(2, 1), Durability::Cached).await.expect("room is there");
            }
            first.flush().await.expect("flushes");
        });
        let going = disks_of_row(&space)[..=usize::from(shape.layout.tolerates())].to_vec();
        let members: Vec<u16> = going.iter().map(|index| member_on(&pool, *index)).collect();
        let disks: Vec<_> = going.iter().map(|index| world.disk(*index).clone()).collect();
        let candidates: Vec<_> = going.iter().map(|index| world.candidate(*index)).collect();
        let (kept, seen, clock) = (pool.clone(), space.clone(), world.sim.clock());
        let wanted = (0..BLOCKS).map(|block| 1 + u8::from(small.contains(&block))).collect::<Vec<_>>();
        let at_last = wanted.clone();
        let maintaining = space.clone();
        let maintained = world.sim.spawn_handle(async move { maintaining.maintain_once().await });
        let way = if seed % 4 < 2 { Disappearance::PowerLoss } else { Disappearance::Cable };
        run(&world, async move {
            clock.sleep(Duration::from_micros(step * 25)).await;
            for (disk, member) in disks.iter().zip(&members) {
                disk.disappear(way);
                if noticed {
                    kept.disk_out(*member, DiskState::Missing, "pulled").await.expect("a quorum is there");
                }
            }
            let _ = maintained.await;
            if !stays {
                return;
            }
            for (member, (disk, candidate)) in members.into_iter().zip(disks.into_iter().zip(candidates)) {
                let _ = kept.disk_out(member, DiskState::Missing, "pulled").await;
                disk.reappear();
                kept.disk_back(candidate).await.unwrap_or_else(|error| assert!(kept.refusal().is_some(), "{error}"));
            }
            let right = |(block, held): (usize, Option<u8>)| held.is_none_or(|held| held == wanted[block]);
            assert!(
                answers(&seen).await.into_iter().enumerate().all(right),
                "seed {seed}, {shape}: what was lost is served"
            );
            for _ in 0..3 {
                let _ = seen.maintain_once().await;
            }
            assert!(kept.refusal().is_none() || kept.is_to_reopen(), "{:?}", kept.refusal());
            let is_read = kept.is_to_reopen() || answers(&seen).await.iter().all(Option::is_some);
            assert!(is_read, "seed {seed}, {shape}: disks are back, and nothing can be read for good");
        });
        reopened += u32::from(pool.is_to_reopen());
        close(&world, pool, space);
        going.iter().filter(|index| !world.disk(**index).is_present()).for_each(|index| world.disk(*index).reappear());
        let (_pool, space) = world.reopen();
        run(&world, async move {
            for _ in 0..3 {
                space.maintain_once().await.expect("maintenance works");
            }
            let held = answers(&space).await;
            let wrong = (0..BLOCKS as usize).filter(|block| held[*block] != Some(at_last[*block])).collect::<Vec<_>>();
            assert!(wrong.is_empty(), "seed {seed}, {shape}, {way:?} after {step}: {wrong:?}");
            assert_eq!(space.verify().await.expect("it goes on").mismatched_blocks, 0, "seed {seed}");
        });
    }
    assert!(reopened > 0, "no pool had to be opened anew");
}

/// A flush does not succeed where the only disk with what was written went away meanwhile, and its cache with it.
#[test]
fn writes_that_a_lost_cache_took_along_fail_the_flush() {
    let none = Shape::plain(Layout::Simple, 1, ByteSize::kib(64)).with_integrity(Integrity::None);
    for (seed, shape) in [(0, none), (1, shape(Layout::Simple, 1)), (2, mirror(2, 1))] {
        let (world, pool, space) = begin(seed, shape);
        let first = space.clone();
        run(&world, async move { fill(&first, 1).await });
        let index = disks_of_row(&space)[0];
        let (member, disk, candidate) = (member_on(&pool, index), world.disk(index).clone(), world.candidate(index));
        let lonely = shape.layout.tolerates() == 0;
        let (seen, clock) = (space.clone(), world.sim.clock());
        run(&world, async move {
            for cached in [false, true] {
                if cached {
                    seen.write(0, data(2, 4), Durability::Cached).await.expect("it takes writes");
                }
                disk.disappear(Disappearance::PowerLoss);
                pool.disk_out(member, DiskState::Missing, "pulled").await.expect("a quorum is there");
                if cached {
                    assert_eq!(seen.flush().await.is_err(), lonely, "{shape}, with the disk away");
                }
                disk.reappear();
                pool.disk_back(candidate.clone()).await.expect("a member");
                // However long maintenance goes on before anybody asks.
                for _ in 0..3 {
                    let _ = seen.maintain_once().await;
                    clock.sleep(Duration::from_secs(600)).await;
                }
                assert_eq!(seen.flush().await.is_err(), lonely && cached, "{shape}, after a write: {cached}");
                seen.flush().await.expect("what is lost is reported once");
            }
            if !lonely {
                assert!(answers(&seen).await[..4].iter().all(|held| *held == Some(2)), "{shape}");
            }
        });
        assert_eq!(was_reported(&world, "that were not flushed may be lost"), lonely, "{shape}");
    }
}
