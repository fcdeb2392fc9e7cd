//! The open rows of a space, by chunk: who may open, use, replace and close them.
//!
//! They stand in shards, so that requests of different chunks do not meet. A row that may change is *used*; only a row
//! that nobody uses is closed or given back, and only one that nobody else uses is replaced, behind a [`Gate`].
//!
//! Invariants:
//! - A chunk has at most one open row, and the chunk's lock is held by who puts it in, or takes it out for good.
//! - A row that was written to since the last flush is on the list of touched rows, or of the flush under way.
//!
//! Rows of data and of the journal are distinguished by their chunk's number alone, in [`RowTable::lock_chunk`]: the
//! role of a row, once there are frames too, belongs into the [`RowContext`] that it is opened with.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use holdfast_device::{IoError, IoErrorKind};
use holdfast_pool::JOURNAL_CHUNK;

use crate::lock_order::{Held, Lock, Locked, SharedLock, TaskLock, rank};
use crate::row::{Row, RowContext};

const SHARDS: usize = 16;
/// How long a gate waits for those who change the row to end.
const GATE_TRIES: u32 = 100;
const GATE_PAUSE: std::time::Duration = std::time::Duration::from_micros(500);

/// The open rows.
pub struct RowTable {
    /// What every row is opened with.
    pub context: RowContext,
    /// The open rows; each request looks its own up here.
    shards: [SharedLock<{ rank::SHARD }, Shard>; SHARDS],
    /// Held while a chunk's row is opened, allotted, given back or replaced: two would make two rows of it.
    chunk_locks: [TaskLock<{ rank::CHUNK }>; SHARDS],
    /// The same for all chunks of the journal: who holds the lock of one of data may need the journal.
    journal_lock: TaskLock<{ rank::JOURNAL_CHUNK }>,
    /// By their ids, the rows that the next flush settles: it does not look at all others.
    touched: Lock<{ rank::LISTS }, BTreeMap<u64, Arc<Row>>>,
    /// Rows that are being filled and are no chunk's yet: what is destaged and committed goes on in them as in open
    /// ones.
    provisional: Lock<{ rank::LISTS }, Vec<Arc<Row>>>,
}

#[derive(Default)]
struct Shard {
    open: HashMap<u32, Arc<Row>>,
    /// Chunks whose empty row is being given back: they read as zeros, though the pool knows the row until it is gone.
    freeing: HashSet<u32>,
}

/// A row that is kept from being given back while this is held.
pub struct UsedRow(Arc<Row>);

impl Deref for UsedRow {
    type Target = Arc<Row>;

    fn deref(&self) -> &Arc<Row> {
        &self.0
    }
}

impl Drop for UsedRow {
    fn drop(&mut self) {
        self.0.in_use.leave();
    }
}

/// While this is held, the row of its chunk neither comes nor goes but by who holds it.
pub enum ChunkLock<'a> {
    /// A chunk of data, with some others.
    Data(#[expect(dead_code, reason = "held until it is dropped")] Held<'a, { rank::CHUNK }>),
    /// A chunk of the journal, with all others of it.
    Journal(#[expect(dead_code, reason = "held until it is dropped")] Held<'a, { rank::JOURNAL_CHUNK }>),
}

/// While this is held, nobody else begins to change a row, and nobody does.
pub struct Gate<'a> {
    table: &'a RowTable,
    row: &'a UsedRow,
    _one: ChunkLock<'a>,
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.table.set_closing(self.row, false);
    }
}

impl RowTable {
    /// No row is open.
    pub fn new(context: RowContext) -> Self {
        Self {
            context,
            shards: Default::default(),
            chunk_locks: Default::default(),
            journal_lock: TaskLock::default(),
            touched: Lock::default(),
            provisional: Lock::default(),
        }
    }

    /// Takes the lock under which the row of a chunk comes and goes.
    pub async fn lock_chunk(&self, chunk: u32) -> ChunkLock<'_> {
        match chunk >= JOURNAL_CHUNK {
            true => ChunkLock::Journal(self.journal_lock.lock().await),
            false => ChunkLock::Data(self.chunk_locks[chunk as usize % SHARDS].lock().await),
        }
    }

    /// Takes it if nobody has it.
    pub fn try_lock_chunk(&self, chunk: u32) -> Option<ChunkLock<'_>> {
        match chunk >= JOURNAL_CHUNK {
            true => self.journal_lock.try_lock().map(ChunkLock::Journal),
            false => self.chunk_locks[chunk as usize % SHARDS].try_lock().map(ChunkLock::Data),
        }
    }

    /// Keeps rows of data from being opened, allotted, given back or replaced.
    pub async fn lock_chunks(&self) -> Vec<Held<'_, { rank::CHUNK }>> {
        let mut guards = Vec::with_capacity(SHARDS);
        for lock in &self.chunk_locks {
            guards.push(lock.lock().await);
        }
        guards
    }

    fn shard(&self, chunk: u32) -> &SharedLock<{ rank::SHARD }, Shard> {
        &self.shards[chunk as usize % SHARDS]
    }

    /// The row of a chunk, where it is open.
    pub fn open_row(&self, chunk: u32) -> Option<Arc<Row>> {
        self.shard(chunk).read().open.get(&chunk).cloned()
    }

    /// The row of a chunk for changing, where it is open.
    pub fn used_row(&self, chunk: u32) -> Option<UsedRow> {
        let shard = self.shard(chunk).read();
        let row = shard.open.get(&chunk).filter(|row| row.in_use.enter())?;
        Some(UsedRow(row.clone()))
    }

    /// All open rows, by chunk.
    pub fn open_rows(&self) -> Vec<Arc<Row>> {
        let mut rows: Vec<Arc<Row>> = Vec::new();
        for shard in &self.shards {
            rows.extend(shard.read().open.values().cloned());
        }
        rows.sort_by_key(|row| row.chunk);
        rows
    }

    /// Opens the row of a chunk, where it has one; `admit` says whether it may be served. The chunk's lock must be
    /// held.
    pub async fn load(
        &self,
        chunk: u32,
        admit: impl AsyncFnOnce(&Arc<Row>) -> Result<(), IoError>,
    ) -> Result<Option<Arc<Row>>, IoError> {
        if let Some(row) = self.open_row(chunk) {
            return Ok(Some(row));
        }
        let Some(record) = self.context.pool.row(self.context.space, chunk) else { return Ok(None) };
        let (id, slabs) = (record.id, record.slabs.len());
        let row = match Row::load(&self.context, chunk, record).await {
            Err(error) if error.kind == IoErrorKind::Media => {
                self.context.lost.note(chunk, id, || (0..slabs).collect());
                return Err(error);
            }
            loaded => loaded?,
        };
        admit(&row).await?;
        self.keep(row.clone());
        Ok(Some(row))
    }

    /// Puts an open row in. The chunk's lock must be held.
    pub fn keep(&self, row: Arc<Row>) {
        self.shard(row.chunk).write().open.insert(row.chunk, row);
    }

    /// Takes the row of a chunk out, with its place on the list of the next flush.
    pub fn close(&self, chunk: u32) -> Option<Arc<Row>> {
        let row = self.shard(chunk).write().open.remove(&chunk)?;
        self.forget_touched(&row);
        Some(row)
    }

    /// Whether the row of a chunk is being given back.
    pub fn is_freeing(&self, chunk: u32) -> bool {
        self.shard(chunk).read().freeing.contains(&chunk)
    }

    /// Takes the row of a chunk out if it holds nothing and nobody is about to change that. The chunk has none from
    /// then on, until [`RowTable::end_freeing`].
    pub fn begin_freeing(&self, chunk: u32) -> Option<Arc<Row>> {
        let mut shard = self.shard(chunk).write();
        shard.open.get(&chunk).filter(|row| row.in_use.users() == 0 && row.is_empty())?;
        shard.freeing.insert(chunk);
        shard.open.remove(&chunk)
    }

    /// The pool knows the row no more, or it stays.
    pub fn end_freeing(&self, chunk: u32) {
        self.shard(chunk).write().freeing.remove(&chunk);
    }

    /// Closes so many rows that nobody knows but the table and that `may` be, in order of their chunks: a simulated run
    /// depends on nothing but its seed.
    pub fn close_idle(&self, mut excess: usize, may: impl Fn(&Arc<Row>) -> bool) -> Vec<Arc<Row>> {
        let chunks: Vec<u32> = self.open_rows().into_iter().map(|row| row.chunk).collect();
        let mut closed = Vec::new();
        for chunk in chunks {
            if excess == 0 {
                break;
            }
            let mut shard = self.shard(chunk).write();
            let idle = |row: &&Arc<Row>| Arc::strong_count(row) == 1 && row.in_use.users() == 0 && may(row);
            if shard.open.get(&chunk).filter(idle).is_some() {
                closed.extend(shard.open.remove(&chunk));
                excess -= 1;
            }
        }
        closed
    }

    fn set_closing(&self, row: &Row, closing: bool) {
        let _shard = self.shard(row.chunk).write();
        row.in_use.set_closing(closing);
    }

    /// Keeps everybody from beginning to change a row, once nobody but the caller does. `None` where that takes too
    /// long.
    pub async fn close_gate<'a>(&'a self, row: &'a UsedRow) -> Option<Gate<'a>> {
        let one = self.lock_chunk(row.chunk).await;
        let gate = Gate { table: self, row, _one: one };
        self.set_closing(row, true);
        for _ in 0..GATE_TRIES {
            if row.in_use.users() == 1 {
                return Some(gate);
            }
            self.context.pool.env().clock.sleep(GATE_PAUSE).await;
        }
        None
    }

    /// A row has taken the place of the one behind the gate.
    pub fn take_place(&self, gate: Gate<'_>, old: &UsedRow, new: &Arc<Row>) {
        self.keep(new.clone());
        self.forget_touched(old);
        drop(gate);
    }

    /// Rows that are to take the places of open ones.
    pub fn provisional(&self) -> Locked<'_, { rank::LISTS }, Vec<Arc<Row>>> {
        self.provisional.lock()
    }

    /// Puts a row on the list of the next flush.
    pub fn touch(&self, row: &Arc<Row>) {
        if row.in_use.touch() {
            self.touched.lock().insert(row.record.id, row.clone());
        }
    }

    /// Takes the list of the next flush.
    pub fn take_touched(&self) -> Vec<Arc<Row>> {
        std::mem::take(&mut *self.touched.lock()).into_values().collect()
    }

    /// Takes a row from the list of the next flush.
    pub fn forget_touched(&self, row: &Row) {
        self.touched.lock().remove(&row.record.id);
    }
}
