//! The slow look at the metadata of slabs: what is damaged in use is whole again before a scrub comes or a start asks
//! for it.

use super::*;

/// Heads, maps and pages of checksums of a disk are damaged; as many looks as the space has rows, and one for its
/// journal, repair them all.
#[test]
fn slab_metadata_that_is_damaged_in_use_is_repaired_by_looks_at_one_row_each() {
    for (seed, shape) in (0..).zip([shape(Layout::Simple, 2), mirror(2, 2), mirror(3, 1), parity(1, 3), parity(2, 5)]) {
        for part in ["head", "checksums"] {
            let (world, pool, space) = begin(seed, shape);
            let (first, clock) = (space.clone(), world.sim.clock());
            run(&world, async move {
                fill(&first, 7).await;
                // Checksums reach the disks, and regions are unmarked.
                for _ in 0..4 {
                    clock.sleep(Duration::from_secs(31)).await;
                    first.maintain_once().await.expect("maintenance works");
                }
            });
            let index = disks_of(&space)[0];
            for Parts { start, data, checksums, end } in slabs_on(&pool, &space, index) {
                let (from, to) = if part == "head" { (start, data) } else { (checksums, end) };
                world.disk(index).poke(from, &vec![0xa5; (to - from) as usize]);
            }
            let seen = space.clone();
            run(&world, async move {
                let found = seen.verify().await.expect("it goes on");
                assert!(found.mismatched_blocks > 0, "{shape}, {part}: {found:?}");
                let mut repaired = 0;
                for _ in 0..=seen.map().len() {
                    let found = seen.audit_next().await.expect("it goes on");
                    assert_eq!(found.unrepaired_blocks, 0, "{shape}, {part}: {found:?}");
                    repaired += found.repaired_blocks;
                }
                assert!(repaired > 0, "{shape}, {part}");
                for _ in 0..3 {
                    seen.maintain_once().await.expect("maintenance works");
                }
                let found = seen.verify().await.expect("it goes on");
                assert_eq!(found.mismatched_blocks, 0, "{shape}, {part}: {found:?}");
            });
            drop((pool, space));
            world.sim.kill();
            let (_pool, space) = world.reopen();
            run(&world, async move {
                assert!(answers(&space).await.iter().all(|held| *held == Some(7)), "{shape}, {part}");
            });
        }
    }
}
