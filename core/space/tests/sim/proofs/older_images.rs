//! More older images than a layout bears, and older images at an import elsewhere: what is old is refused or outvoted,
//! never served.

use holdfast_device::sim::SimImage;

use super::*;

/// A pool that was closed in good order, some of its disks, and images of these from before its last writes, on which
/// blocks hold ones; afterwards they hold twos.
fn closed_with_images(
    seed: u64,
    shape: Shape,
    choose: impl Fn(&Space) -> Vec<usize>,
) -> (World, Vec<usize>, Vec<SimImage>) {
    let (world, pool, space) = begin(seed, shape);
    let first = space.clone();
    run(&world, async move { fill(&first, 1).await });
    let chosen = choose(&space);
    let images = chosen.iter().map(|disk| world.disk(*disk).image()).collect();
    world.note_machine();
    let (second, clock) = (space.clone(), world.sim.clock());
    run(&world, async move {
        fill(&second, 2).await;
        for _ in 0..3 {
            clock.sleep(Duration::from_secs(11)).await;
            second.maintain_once().await.expect("maintenance works");
        }
    });
    assert!(close(&world, pool, space), "{shape}");
    (world, chosen, images)
}

/// Where every copy, or more columns than there is parity, is an older image: the rows they concern fail, with the
/// reason, until the disks come back as they were last. On the machine that had the pool, on one that had it earlier,
/// and on one that never had it.
#[test]
fn older_images_beyond_the_promise_are_refused_with_the_reason() {
    let shapes = [
        (shape(Layout::Simple, 2), 1),
        (mirror(2, 2), 2),
        (mirror(3, 1), 3),
        (parity(1, 3), 2),
        (parity(1, 4), 3),
        (parity(2, 5), 3),
    ];
    for (seed, (shape, count)) in (0..).zip(shapes) {
        for machine in ["the same", "an earlier one", "a new one"] {
            let what = format!("{shape}, {count} disks, {machine}");
            let (world, lost, images) = closed_with_images(seed, shape, |space| disks_of_row(space)[..count].to_vec());
            let last: Vec<_> = lost.iter().map(|disk| world.disk(*disk).image()).collect();
            lost.iter().zip(&images).for_each(|(disk, image)| world.disk(*disk).set_back(image));
            match machine {
                "the same" => {}
                _ => world.change_machine(machine == "an earlier one"),
            }
            let (pool, space) = world.reopen();
            let (seen, label) = (space.clone(), what.clone());
            run(&world, async move {
                for _ in 0..2 {
                    let held = answers(&seen).await;
                    assert!(held.iter().all(|held| held.is_none_or(|byte| byte == 2)), "{label}: old data was read");
                    assert!(held.contains(&None), "{label}: nothing proves these blocks");
                    assert_eq!(seen.status().state, SpaceState::Failed, "{label}");
                    // Neither maintenance nor a scrub, which report the row that cannot be served, makes old data the
                    // truth.
                    let _ = seen.maintain_once().await;
                    let _ = seen.scrub(&Unlimited).await;
                }
            });
            assert!(was_reported(&world, "set back to an older state"), "{what}");
            lost.iter().zip(&last).for_each(|(disk, image)| world.disk(*disk).set_back(image));
            let candidates: Vec<_> = lost.iter().map(|disk| world.candidate(*disk)).collect();
            run(&world, async move {
                for candidate in candidates {
                    pool.disk_back(candidate).await.expect("it holds what it held last");
                }
                for _ in 0..4 {
                    space.maintain_once().await.expect("maintenance works");
                }
                assert!(answers(&space).await.iter().all(|held| *held == Some(2)), "{what}: all is there again");
                assert_eq!(space.status().stale_slabs, 0, "{what}");
            });
        }
    }
}

/// Within the promise, on machines that cannot know what the pool was last: what most disks say counts.
#[test]
fn older_images_are_outvoted_on_machines_that_do_not_know_the_pool() {
    for (seed, shape) in (0..).zip([mirror(2, 2), mirror(3, 1), parity(1, 3), parity(2, 5)]) {
        for had_it in [false, true] {
            let losses = usize::from(shape.layout.tolerates());
            let (world, lost, images) = closed_with_images(seed, shape, |space| disks_of(space)[..losses].to_vec());
            lost.iter().zip(&images).for_each(|(disk, image)| world.disk(*disk).set_back(image));
            world.change_machine(had_it);
            let (_pool, space) = world.reopen();
            run(&world, async move {
                assert!(space.status().stale_slabs > 0, "{shape}: they are not believed");
                assert!(answers(&space).await.iter().all(|held| *held == Some(2)), "{shape}: old data was read");
                for _ in 0..4 {
                    space.maintain_once().await.expect("maintenance works");
                }
                assert_eq!(space.status().stale_slabs, 0, "{shape}: they are copied anew");
                assert_eq!(space.verify().await.expect("everything can be read").mismatched_blocks, 0, "{shape}");
            });
        }
    }
}
