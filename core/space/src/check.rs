//! What must hold of a space between any two steps of a simulated run, asserted.

use std::sync::Arc;

use crate::parity::Bands;
use crate::row::{Row, RowBody};
use crate::space::{Inner, Space};

impl Space {
    /// Asserts what must hold of its open rows, of what the pool has of them and of its journal. For simulations:
    /// nothing else may run.
    ///
    /// # Panics
    /// If something does not hold.
    pub fn check(&self) {
        self.inner.check_state();
    }
}

impl Inner {
    fn check_state(&self) {
        let open = self.rows.open_rows();
        // One that has just got its place is in both lists.
        let mut moving = self.rows.provisional().clone();
        moving.retain(|row| !open.iter().any(|other| Arc::ptr_eq(row, other)));
        let mut waiting = 0;
        for row in open.iter().chain(&moving) {
            match &row.body {
                RowBody::Columns(columns) => {
                    columns
                        .iter()
                        .filter(|column| column.is_open())
                        .for_each(|column| column.lock().check(row.marks()));
                }
                RowBody::Bands(bands) => {
                    bands.lock().check(&bands.geometry);
                    waiting += waiting_bytes(bands);
                }
            }
        }
        open.iter().for_each(|row| row.check_record());
        // A row that is being opened, and is not in the table yet, may have some of it.
        assert!(
            waiting <= self.parity.write_buffer.bytes(),
            "{waiting} bytes wait, and the write buffer knows {}",
            self.parity.write_buffer.bytes()
        );
        if let Some(journal) = self.parity.open_journal_if_any() {
            journal.check();
        }
    }
}

fn waiting_bytes(bands: &Bands) -> usize {
    let state = bands.lock();
    state.dirty.values().flat_map(|dirty| dirty.extents()).map(|(_, extent)| extent.bytes()).sum()
}

impl Row {
    /// Asserts that the row is made as the pool knows it, if that knows it still.
    fn check_record(self: &Arc<Self>) {
        let Some(known) = self.pool.row(self.space, self.chunk).filter(|known| known.id == self.record.id) else {
            return;
        };
        assert_eq!(
            (known.shape, known.slab_units),
            (self.record.shape, self.record.slab_units),
            "chunk {}",
            self.chunk
        );
        assert_eq!(known.slabs.len(), self.slabs.len(), "slabs of chunk {}", self.chunk);
        let mut disks: Vec<u16> = known.slabs.iter().map(|slab| slab.disk()).collect();
        disks.sort_unstable();
        assert!(disks.is_sorted_by(|a, b| a < b), "chunk {} has two slabs on one disk: {disks:?}", self.chunk);
        assert!(!self.begun() || known.begun, "chunk {} was written to, and the pool does not know", self.chunk);
    }
}
