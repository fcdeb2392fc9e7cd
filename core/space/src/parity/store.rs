//! What a space keeps for its rows with parity: what waits to be destaged, the journal, and who destages.
//!
//! The mechanisms, each in a file of its own, are methods of the store. It stands on the table of rows, and knows
//! nothing of the space.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use holdfast_pool::{Pool, SpaceRecord};

use crate::lock_order::{Lock, TaskLock, rank};
use crate::row_table::RowTable;

use super::helpers::Helpers;
use super::journal::Journal;
use super::log_record::{FoundRecord, Stamps};
use super::write_buffer::WriteBuffer;

/// How much a store may take.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    /// Bytes that may be in memory before the oldest are destaged; twice as much at most.
    pub write_buffer_bytes: usize,
    /// Bytes that change in place together, from which on they are staged.
    pub staged_bytes: usize,
}

/// What the journal has for a row that could not be opened.
#[derive(Clone)]
pub struct DeferredReplay {
    /// What the records of the journal have for it, the oldest first.
    pub(super) records: Vec<FoundRecord>,
    /// What of these does not count.
    pub(super) voids: Arc<Stamps>,
    /// Why it could not be opened.
    pub(super) why: String,
}

/// The rows with parity of a space.
pub struct ParityStore {
    /// Tells which rows there are, and which slabs are in step.
    pub pool: Arc<Pool>,
    /// The space, as it was opened: its number, its name and how large its chunks are.
    pub record: SpaceRecord,
    /// Its limits.
    pub limits: StoreLimits,
    /// The rows, those of the journal among them.
    pub rows: Arc<RowTable>,
    /// Whether the space has a journal: spaces without rows with parity pass all this by.
    journaled: AtomicBool,
    /// What waits to be destaged.
    pub write_buffer: WriteBuffer,
    /// Held by who works on the line of the write buffer.
    pub(super) placing: TaskLock<{ rank::PLACING }>,
    /// Held while bands are destaged by way of the journal: several at once might leave one another no room there, each
    /// with bands in hand that the oldest record waits for.
    pub(super) intending: TaskLock<{ rank::INTENDING }>,
    /// Held while a record of what is only in memory is put together and written: what is written meanwhile goes to the
    /// next.
    pub(super) logging: TaskLock<{ rank::LOGGING }>,
    /// Held while maps are written: a commit takes all that happened since the one before it.
    pub committing: TaskLock<{ rank::COMMITTING }>,
    /// Held while the journal is opened, so that it is carried out once.
    pub(super) opening: TaskLock<{ rank::OPENING }>,
    /// The journal, once it was read and carried out; requests wait for that.
    pub(super) journal: ArcSwapOption<Journal>,
    /// By chunk, what the journal has for rows that could not be opened.
    pub(super) deferred: Lock<{ rank::DEFERRED }, BTreeMap<u32, DeferredReplay>>,
    /// Who destages in the background.
    pub helpers: Helpers,
}

impl ParityStore {
    /// The store of a space whose rows are in a table; its journal is opened when it is needed.
    pub fn new(rows: Arc<RowTable>, record: SpaceRecord, limits: StoreLimits) -> Self {
        let pool = rows.context.pool.clone();
        let store = Self {
            pool,
            record,
            limits,
            rows,
            journaled: AtomicBool::new(false),
            write_buffer: WriteBuffer::default(),
            placing: TaskLock::default(),
            intending: TaskLock::default(),
            logging: TaskLock::default(),
            committing: TaskLock::default(),
            opening: TaskLock::default(),
            journal: ArcSwapOption::default(),
            deferred: Lock::default(),
            helpers: Helpers::default(),
        };
        store.refresh_journaled();
        store
    }

    /// Whether the space has a journal: some of its rows may keep parity.
    pub fn journaled(&self) -> bool {
        self.journaled.load(Ordering::Acquire)
    }

    /// Asks the pool anew whether it has.
    pub fn refresh_journaled(&self) {
        follow(&self.journaled, || !self.pool.journal_rows(self.record.id).is_empty());
    }

    /// The space, as events name it.
    pub fn object(&self) -> holdfast_model::ObjectRef {
        holdfast_model::ObjectRef::space(self.record.uuid, self.path())
    }

    /// How messages call the space.
    pub fn path(&self) -> String {
        format!("{}/{}", self.pool.name(), self.record.name)
    }

    /// The journal, where it was read and carried out.
    pub fn open_journal_if_any(&self) -> Option<Arc<Journal>> {
        self.journal.load_full()
    }
}

/// Sets a flag to what `ask` answers. Another thread may set it to a newer answer before this one has stored its own,
/// so it is asked again until the answer stays.
fn follow(flag: &AtomicBool, ask: impl Fn() -> bool) {
    loop {
        let found = ask();
        flag.store(found, Ordering::Release);
        if ask() == found {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn an_answer_that_is_outdated_when_it_is_stored_does_not_stay() {
        for before in [false, true] {
            let (there, flag, is_first) = (Cell::new(before), AtomicBool::new(!before), Cell::new(true));
            follow(&flag, || {
                let found = there.get();
                if is_first.replace(false) {
                    // Another thread makes or drops the journal now, and stores its own answer.
                    there.set(!before);
                    flag.store(!before, Ordering::Release);
                }
                found
            });
            assert_eq!(flag.load(Ordering::Acquire), !before);
        }
    }
}
