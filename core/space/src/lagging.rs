//! Which disks of a space were found to lack what they had acknowledged: each is told of once.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// Disks of a space that were found to lack what they had acknowledged.
#[derive(Default)]
pub struct Lagging(Mutex<BTreeSet<u16>>);

impl Lagging {
    /// Notes one; false if it is known.
    pub fn note(&self, disk: u16) -> bool {
        self.0.lock().expect("no panic while held").insert(disk)
    }
}
