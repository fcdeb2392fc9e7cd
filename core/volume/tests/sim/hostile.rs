//! Blocks of a volume as an enemy would write them: the kept inputs of the fuzz target, and inputs made of them.

#[path = "../../../../fuzz/fuzz_targets/volume/check.rs"]
mod check;

use holdfast_harness::{corpus, over_seeds};

#[test]
fn kept_inputs_hold() {
    corpus::kept("volume").iter().for_each(|input| check::check(input));
}

#[test]
fn changed_inputs_hold() {
    let kept = corpus::kept("volume");
    over_seeds(150, |seed| check::check(&corpus::changed(&kept, seed)));
}
