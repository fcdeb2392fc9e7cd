//! Parity brought up to date where some columns change and the others are not read.
//!
//! The field is linear: whatever a column's change adds to the column, its constant times the same is what P and Q
//! gain.

use crate::pass::{MAX_SOURCES, Pass, Value};
use crate::{Kernel, MAX_COLUMNS};

/// What one data column held and what it is to hold, in the range that P and Q are given for.
///
/// `None` stands for zeros, so a column that was never written has no `old`, and a caller that has the difference at
/// hand gives it as `new` alone.
#[derive(Clone, Copy, Debug)]
pub struct ColumnUpdate<'a> {
    /// Which data column.
    pub column: usize,
    /// What it held.
    pub old: Option<&'a [u8]>,
    /// What it is to hold.
    pub new: Option<&'a [u8]>,
}

/// Of each change two sources.
const CHANGES_PER_PASS: usize = MAX_SOURCES / 2;

impl Kernel {
    /// Adds `from` to `into`, which is XOR.
    ///
    /// # Panics
    /// If they differ in length.
    #[track_caller]
    pub fn xor_into(self, into: &mut [u8], from: &[u8]) {
        let mut pass = Pass::new(into.len());
        pass.source(0, from);
        pass.output(into, Value::P, true);
        self.walk(&mut pass);
    }

    /// Brings P up to date, in place. The order of changes does not matter.
    ///
    /// # Panics
    /// If a column is [`MAX_COLUMNS`] or beyond, or if slices differ in length.
    #[track_caller]
    pub fn update_p(self, changes: &[ColumnUpdate], p: &mut [u8]) {
        for some in changes.chunks(CHANGES_PER_PASS) {
            let mut pass = Pass::new(p.len());
            add_changes(&mut pass, some);
            pass.output(p, Value::P, true);
            self.walk(&mut pass);
        }
    }

    /// Brings P and Q up to date, in place, in one walk for all changes. Their order does not matter.
    ///
    /// # Panics
    /// As [`Kernel::update_p`].
    #[track_caller]
    pub fn update_pq(self, changes: &[ColumnUpdate], p: &mut [u8], q: &mut [u8]) {
        for some in changes.chunks(CHANGES_PER_PASS) {
            let mut pass = Pass::new(p.len());
            add_changes(&mut pass, some);
            pass.output(p, Value::P, true);
            pass.output(q, Value::Q, true);
            self.walk(&mut pass);
        }
    }
}

/// Old and new of each change as sources, from the highest column down.
#[track_caller]
fn add_changes<'a>(pass: &mut Pass<'a, '_>, changes: &[ColumnUpdate<'a>]) {
    let mut order: [usize; CHANGES_PER_PASS] = std::array::from_fn(|place| place);
    let order = &mut order[..changes.len()];
    order.sort_unstable_by_key(|place| std::cmp::Reverse(changes[*place].column));
    for change in order.iter().map(|place| &changes[*place]) {
        assert!(change.column < MAX_COLUMNS, "data column {}; {MAX_COLUMNS} can be protected", change.column);
        for bytes in [change.old, change.new].into_iter().flatten() {
            pass.source(change.column, bytes);
        }
    }
}
