//! Rounds of everything that a server goes through, on every layout, under load: kills, orderly ends, stops of the
//! process, disks that go and come, come back as they were earlier, or are written over while the daemon is down.
//!
//! ```text
//!   stage.rs    a daemon with a pool, a space of one layout and a load that knows what each block may hold
//!   scenes.rs   what happens in a round
//! ```
//!
//! After each round, once all disks are back, every block is read and holds what it may. Each layout has a round of
//! each kind in `make test`; `HOLDFAST_KILLS` asks for more. The seed is printed; `HOLDFAST_SEED` repeats it, and
//! `HOLDFAST_ROUND=older-image` plays rounds of one kind only.

mod scenes;
mod stage;

use holdfast_tests::random::Random;

use crate::crash::rounds;
use stage::{Layout, Stage};

/// Of so many kills that are asked for, each layout has a round of each kind.
const KILLS_OF_ALL_KINDS: u64 = 20;

const SIMPLE: Layout = Layout {
    options: &["--layout", "simple", "--columns", "2", "--interleave", "64KiB"],
    disks: 4,
    tolerance: 0,
    parity: false,
};
const TWO_WAY: Layout = Layout {
    options: &["--layout", "mirror", "--columns", "2", "--interleave", "64KiB", "--thin"],
    disks: 5,
    tolerance: 1,
    parity: false,
};
const THREE_WAY: Layout = Layout {
    options: &["--layout", "mirror", "--copies", "3", "--columns", "2"],
    disks: 7,
    tolerance: 2,
    parity: false,
};
const SINGLE_PARITY: Layout = Layout {
    options: &["--layout", "parity", "--columns", "4", "--interleave", "64KiB", "--thin"],
    disks: 6,
    tolerance: 1,
    parity: true,
};
const DUAL_PARITY: Layout = Layout {
    options: &["--layout", "parity", "--parity", "2", "--columns", "6"],
    disks: 8,
    tolerance: 2,
    parity: true,
};

fn torture(layout: &'static Layout) {
    let mut random = Random::announced();
    let only = std::env::var("HOLDFAST_ROUND").ok();
    let kinds: Vec<_> =
        scenes::ALL.iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)).collect();
    assert!(!kinds.is_empty(), "no round is called {only:?}");
    let first = random.below(kinds.len() as u64) as usize;
    let count = (rounds() * kinds.len() as u64).div_ceil(KILLS_OF_ALL_KINDS) as usize;
    let mut stage = Stage::new(layout, random);
    for (number, (name, scene)) in kinds.iter().cycle().skip(first).take(count).enumerate() {
        stage.begin(number, name);
        scene(&mut stage);
        stage.end();
    }
}

#[test]
fn torture_of_a_simple_space() {
    torture(&SIMPLE);
}

#[test]
fn torture_of_a_two_way_mirror() {
    torture(&TWO_WAY);
}

#[test]
fn torture_of_a_three_way_mirror() {
    torture(&THREE_WAY);
}

#[test]
fn torture_of_a_space_of_single_parity() {
    torture(&SINGLE_PARITY);
}

#[test]
fn torture_of_a_space_of_dual_parity() {
    torture(&DUAL_PARITY);
}
