//! The order of entries that Windows writes and expects: explicit ones first, among them those that deny, and inherited
//! ones behind, as they came (canonical order of ACEs in a DACL).
//!
//! The generations of inherited entries cannot be told apart, so those keep their order; each came in canonical order.
//!
//! Invariant: sorting moves no entry past another of its own rank.

use crate::ace::Ace;

fn rank(entry: &Ace) -> u8 {
    match (entry.is_inherited(), entry.is_denying()) {
        (false, true) => 0,
        (false, false) => 1,
        (true, _) => 2,
    }
}

/// Whether entries stand in that order. Others are checked in the order in which they stand all the same; Windows'
/// editor asks to sort them first.
pub fn is_canonical(entries: &[Ace]) -> bool {
    entries.is_sorted_by_key(rank)
}

/// Puts entries in that order. That may change who may do what.
pub fn sort_canonical(entries: &mut [Ace]) {
    entries.sort_by_key(rank);
}
