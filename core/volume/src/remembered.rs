//! Files without a name that stay because somebody knows them.
//!
//! ```text
//!   last name gone ─▶ known to somebody? ─ no ─▶ removed as soon as it is not open
//!                          │ yes
//!                          └─▶ left ── forgotten ──▶ removed as soon as it is not open
//! ```
//!
//! Invariant: a file that is left is noted to be removed, so that an opening removes it whatever became of those who knew
//! it. Who learns of a file while its last name goes sees that from the count of removals.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};

use crate::error::VolumeError;
use crate::service::{FileId, Remembers};
use crate::store::held;
use crate::volume::Volume;

/// Who knows files, and which of them have no name.
#[derive(Default)]
pub(crate) struct Remembered {
    who: Mutex<Vec<Weak<dyn Remembers>>>,
    left: Mutex<BTreeSet<u64>>,
    removals: AtomicU64,
}

impl Remembered {
    fn is_known(&self, id: FileId) -> bool {
        held(&self.who).iter().filter_map(Weak::upgrade).any(|one| one.knows(id))
    }

    /// A file loses its last name by a caller who has it stay while it is known: answers whether it does. Its tree is
    /// held.
    pub fn leave(&self, id: FileId) -> bool {
        self.note_removal();
        // Whoever forgets it looks here behind that.
        held(&self.left).insert(id.number);
        let is_known = self.is_known(id);
        if !is_known {
            held(&self.left).remove(&id.number);
        }
        is_known
    }

    /// A file loses its last name. It comes before it is looked who knows the file.
    pub fn note_removal(&self) {
        self.removals.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a file has no name, and stays.
    pub fn has_left(&self, number: u64) -> bool {
        held(&self.left).contains(&number)
    }
}

impl Volume {
    pub(crate) fn note_who_remembers(&self, who: Weak<dyn Remembers>) {
        let mut all = held(&self.remembered.who);
        all.retain(|one| one.strong_count() > 0);
        all.push(who);
    }

    pub(crate) fn count_removals(&self) -> u64 {
        self.remembered.removals.load(Ordering::SeqCst)
    }

    /// A file that may be left is known to one less.
    pub(crate) async fn end_left(&self, id: FileId) -> Result<(), VolumeError> {
        if self.remembered.is_known(id) || !held(&self.remembered.left).remove(&id.number) {
            return Ok(());
        }
        // Whoever has it open ends it.
        if self.open.handles(id.number) > 0 {
            return Ok(());
        }
        self.discard_unnamed(id.number).await?;
        self.end_unused(id.number).await
    }
}
