//! Disks that lose what they had acknowledged and keep all else: what a cache that lies, or ignores flushes, leaves. Old
//! blocks beside old checksums and maps prove themselves, so only what other slabs say of them tells.

use holdfast_device::sim::SimImage;

use super::*;

/// What of a slab is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Everything,
    BlocksAndChecksums,
    Checksums,
    Blocks,
}

const ALL: [Lost; 4] = [Lost::Everything, Lost::BlocksAndChecksums, Lost::Checksums, Lost::Blocks];

/// Where one slab lies on its disk, and its parts.
struct Slab {
    disk: usize,
    start: u64,
    data: u64,
    sums: u64,
    end: u64,
}

fn slabs_of(pool: &Pool, space: &Space) -> Vec<Slab> {
    let id = space.record().id;
    let mut slabs = Vec::new();
    for (_, row) in pool.rows(id).into_iter().chain(pool.journal_rows(id)) {
        for place in &row.slabs {
            let disk = pool.disk(place.disk()).expect("a member");
            let record = pool.disks().into_iter().map(|disk| disk.record).find(|record| record.index == place.disk());
            let path = record.expect("a member").path;
            let start = disk.area.unit_at(place.unit());
            let data = start + row.slab_head_bytes();
            slabs.push(Slab {
                disk: path.trim_start_matches("/sim/").parse().expect("a number"),
                start,
                data,
                sums: data + row.slab_data_bytes(),
                end: start + u64::from(row.slab_units) * UNIT_BYTES,
            });
        }
    }
    slabs
}

/// Loses what was written to the slabs of a disk since an image was taken.
fn lose(world: &World, slabs: &[Slab], disk: usize, image: &SimImage, lost: Lost) {
    for slab in slabs.iter().filter(|slab| slab.disk == disk) {
        let (from, to) = match lost {
            Lost::Everything => (slab.start, slab.end),
            Lost::BlocksAndChecksums => (slab.data, slab.end),
            Lost::Checksums => (slab.sums, slab.end),
            Lost::Blocks => (slab.data, slab.sums),
        };
        world.disk(disk).lose_writes(from..to, image);
    }
}

/// Writes runs of blocks here and there, and notes what each block holds then.
async fn scatter(space: &Space, seed: u64, held: &mut [u8]) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..24u8 {
        let len = 1 + draw(if round % 6 == 0 { 200 } else { 12 });
        let first = draw(BLOCKS - len);
        let byte = 10 + round;
        space.write(first * BLOCK_BYTES, data(byte, len as usize), Durability::Cached).await.expect("room is there");
        held[first as usize..(first + len) as usize].fill(byte);
    }
    space.flush().await.expect("flushes");
}

/// A space written twice, whose disks lose the second half of that, the more recent one where so many `losses` are not
/// in its first row's slabs; `clean` after an orderly stop, or else with the power.
fn after_losses(
    seed: u64,
    shape: Shape,
    losses: usize,
    lost: Lost,
    clean: bool,
) -> (World, Arc<Pool>, Arc<Space>, Vec<u8>) {
    let (world, pool, space) = begin(seed, shape);
    let first = space.clone();
    let clock = world.sim.clock();
    run(&world, async move {
        fill(&first, 1).await;
        for _ in 0..3 {
            clock.sleep(Duration::from_secs(11)).await;
            first.maintain_once().await.expect("maintenance works");
        }
    });
    let all = disks_of(&space);
    let chosen: Vec<usize> = (0..losses).map(|at| all[(seed as usize + at) % all.len()]).collect();
    let images: Vec<_> = chosen.iter().map(|disk| world.disk(*disk).image()).collect();
    let (second, clock) = (space.clone(), world.sim.clock());
    let held = run(&world, async move {
        let mut held = vec![1; BLOCKS as usize];
        scatter(&second, seed, &mut held).await;
        for _ in 0..4 {
            clock.sleep(Duration::from_secs(11)).await;
            second.maintain_once().await.expect("maintenance works");
        }
        held
    });
    let slabs = slabs_of(&pool, &space);
    match clean {
        true => assert!(close(&world, pool, space), "{shape}"),
        false => {
            drop((pool, space));
            world.sim.cut_power();
            world.sim.restart();
        }
    }
    chosen.iter().zip(&images).for_each(|(disk, image)| lose(&world, &slabs, *disk, image, lost));
    let (pool, space) = world.reopen();
    (world, pool, space, held)
}

fn right(answers: &[Option<u8>], held: &[u8]) -> usize {
    answers.iter().zip(held).filter(|(answer, held)| **answer == Some(**held)).count()
}

/// As many disks as the layout bears: all is read as it was written last, and is repaired, also where a scrub comes
/// first.
#[test]
fn a_disk_that_lost_writes_wins_against_no_other() {
    let shapes = [
        (mirror(2, 1), 1),
        (mirror(2, 2), 1),
        (mirror(3, 1), 1),
        (mirror(3, 1), 2),
        (parity(1, 3), 1),
        (parity(1, 5), 1),
        (parity(2, 5), 1),
        (parity(2, 6), 2),
    ];
    for (seed, (shape, losses)) in (0..).zip(shapes) {
        for lost in ALL {
            for (clean, scrubbed) in [(true, false), (true, true), (false, false)] {
                let what = format!("{shape}, {losses} disks, {lost:?}, clean {clean}, scrubbed first {scrubbed}");
                let (world, _pool, space, held) = after_losses(seed, shape, losses, lost, clean);
                run(&world, async move {
                    if !scrubbed {
                        assert_eq!(right(&answers(&space).await, &held), held.len(), "{what}");
                    }
                    let found = space.scrub(&Unlimited).await.expect("everything can be read");
                    assert_eq!(found.unrepaired_blocks, 0, "{what}: {found:?}");
                    for _ in 0..3 {
                        space.maintain_once().await.expect("maintenance works");
                    }
                    assert_eq!(space.status().stale_slabs, 0, "{what}");
                    let found = space.verify().await.expect("everything can be read");
                    assert_eq!(found.mismatched_blocks, 0, "{what}: {found:?}");
                    assert_eq!(right(&answers(&space).await, &held), held.len(), "{what}");
                });
                if lost == Lost::Everything || lost == Lost::BlocksAndChecksums {
                    assert!(!clean || world.was_told("lost writes to space"), "{shape}, {lost:?}: the disk is told");
                }
            }
        }
    }
}

/// More disks than the layout bears: a block is what was written last, or cannot be read.
#[test]
fn more_disks_that_lost_writes_than_the_layout_bears_serve_nothing_old() {
    for (seed, (shape, losses)) in (0..).zip([(parity(1, 4), 2), (parity(1, 6), 2), (parity(2, 6), 3)]) {
        let (world, _pool, space, held) = after_losses(seed, shape, losses, Lost::BlocksAndChecksums, true);
        run(&world, async move {
            for _ in 0..2 {
                let found = answers(&space).await;
                for (block, (answer, held)) in found.iter().zip(&held).enumerate() {
                    assert!(answer.is_none_or(|answer| answer == *held), "{shape}: block {block} is old");
                }
                let _ = space.scrub(&Unlimited).await;
                let _ = space.maintain_once().await;
            }
        });
    }
}

/// Without checksums the maps tell, which change whenever a region is written that was at rest.
#[test]
fn a_mirror_without_checksums_copies_anew_what_has_older_maps() {
    for (seed, shape) in (0..).zip([mirror(2, 1), mirror(3, 2)]) {
        let shape = shape.with_integrity(Integrity::None);
        let (world, _pool, space, held) = after_losses(seed, shape, 1, Lost::Everything, true);
        run(&world, async move {
            assert!(space.status().stale_slabs > 0 || right(&answers(&space).await, &held) == held.len());
            assert_eq!(right(&answers(&space).await, &held), held.len(), "{shape}");
            for _ in 0..3 {
                space.maintain_once().await.expect("maintenance works");
            }
            assert_eq!(space.status().stale_slabs, 0, "{shape}");
            assert_eq!(space.verify().await.expect("everything can be read").mismatched_blocks, 0, "{shape}");
        });
        assert!(world.was_told("lost writes to space"), "{shape}: the disk is told");
    }
}
