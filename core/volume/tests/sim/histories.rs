//! Which histories of files are gone through.

use std::cell::RefCell;
use std::rc::Rc;

use crate::files::{Sort, run, run_followed, run_twinned};
use crate::journal::Follower;

#[test]
fn what_a_crash_leaves_of_files_is_what_operations_left() {
    // Some with hardly any memory for data that waits, and some without.
    holdfast_harness::over_seeds(700, |seed| {
        run(seed, [64 << 20, 40 << 10, 200 << 10, 0][seed as usize % 4], Sort::Plain)
    });
}

#[test]
fn files_that_share_blocks_stay_apart() {
    holdfast_harness::over_seeds(700, |seed| {
        run(seed, [64 << 20, 40 << 10, 200 << 10, 0][seed as usize % 4], Sort::Clones)
    });
}

#[test]
fn what_strict_files_hold_is_as_their_checksums_say() {
    holdfast_harness::over_seeds(450, |seed| {
        run(seed, [64 << 20, 40 << 10, 200 << 10, 0][seed as usize % 4], Sort::Strict)
    });
}

#[test]
fn files_that_are_disks_hold_what_was_written_by_whatever_way() {
    holdfast_harness::over_seeds(450, |seed| {
        run(seed, [64 << 20, 40 << 10, 200 << 10, 0][seed as usize % 4], Sort::Disks)
    });
}

#[test]
fn whoever_follows_the_journal_has_all_changes_over_crashes() {
    holdfast_harness::over_seeds(450, |seed| {
        let follower = Rc::new(RefCell::new(Follower::default()));
        let delayed = [64 << 20, 40 << 10, 200 << 10, 0][seed as usize % 4];
        let sort = [Sort::Plain, Sort::Clones, Sort::Strict][(seed / 4 % 3) as usize];
        run_followed(seed, delayed, sort, Some(follower));
    });
}

#[test]
fn one_bad_block_of_metadata_on_a_ground_without_copies_costs_nothing() {
    holdfast_harness::over_seeds(450, |seed| {
        let sort = [Sort::Plain, Sort::Clones, Sort::Strict][(seed / 4 % 3) as usize];
        run_twinned(seed, [64 << 20, 40 << 10, 200 << 10, 0][seed as usize % 4], sort);
    });
}

#[test]
fn seeds_that_found_something_stay_good() {
    // Room that was freed and given out again between an older root and the newest one, which was lost.
    [200_012, 200_364, 200_625].into_iter().for_each(|seed| run(seed, 0, Sort::Plain));
    // A file without a name that is open while what lies above the new end is moved.
    run(3_500_019, 0, Sort::Plain);
    // Refused writes that had changed a part of what they were to write over, and one that a crash cut in two.
    run(20_561, 40 << 10, Sort::Plain);
    run(30_788, 64 << 20, Sort::Plain);
    run(40_549, 40 << 10, Sort::Plain);
    run(50_241, 40 << 10, Sort::Plain);
    // A directory that inherits just what its mode says.
    run(651_344, 64 << 20, Sort::Plain);
    // A name that took another's place before what had been written to its file in place was durable.
    run_followed(500_104, 64 << 20, Sort::Plain, Some(Rc::default()));
    // A zone of data that was given out of while it became one of nodes.
    run_followed(774, 200 << 10, Sort::Plain, Some(Rc::default()));
}
