//! Descriptors that nobody wrote: what the fuzzer keeps, and changes of it.

use holdfast_harness::{corpus, over_seeds};

#[path = "../../../../fuzz/fuzz_targets/security/check.rs"]
mod check;

#[test]
fn what_the_fuzzer_keeps_is_read_or_refused() {
    corpus::kept("security").iter().for_each(|input| check::check(input));
}

#[test]
fn changes_of_it_are_read_or_refused() {
    let kept = corpus::kept("security");
    over_seeds(20_000, |seed| check::check(&corpus::changed(&kept, seed)));
}
