//! The virtual disk: its open rows, and how they come and go.
//!
//! Open rows stand in sharded tables, so that requests of different chunks do not meet. A row that may change is *used*;
//! only a row that nobody uses and that holds nothing is given back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, Provisioning};
use holdfast_pool::{Pool, PoolError, PoolErrorKind, SpaceRecord};

use crate::boxed_cold::{boxed_cold, small};
use crate::checksums::ChecksumCache;
use crate::column::Column;
use crate::parity::write_buffer::WriteBuffer;
use crate::resize::{InFlight, InFlightGuard};
use crate::row::{Row, RowContext};
use crate::status::SpaceCounters;

const SHARDS: usize = 16;
/// How long a gate waits for those who change the row to end.
const GATE_TRIES: u32 = 100;
const GATE_PAUSE: std::time::Duration = std::time::Duration::from_micros(500);

/// What a space may take and how it maintains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceSettings {
    /// Rows that stay open at most; beyond that idle ones are closed.
    pub open_rows: usize,
    /// How often maintenance looks.
    pub maintenance_interval: std::time::Duration,
    /// Bytes written to a parity space that may be in memory before the oldest are destaged; twice as much at most.
    pub write_buffer_bytes: usize,
    /// Bytes that change in place of a parity space together, from which on they are staged beside their place on disks that do
    /// not rotate, instead of in every copy of the journal.
    pub staged_bytes: usize,
    /// Bytes of memory for block checksums: a megabyte for those of about 800 MiB on the disks.
    pub checksum_cache_bytes: usize,
}

impl Default for SpaceSettings {
    fn default() -> Self {
        Self {
            open_rows: 4096,
            maintenance_interval: std::time::Duration::from_secs(5),
            write_buffer_bytes: 16 << 20,
            staged_bytes: 64 << 10,
            checksum_cache_bytes: 64 << 20,
        }
    }
}

/// A virtual disk.
pub struct Space {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub pool: Arc<Pool>,
    pub record: SpaceRecord,
    pub context: RowContext,
    pub settings: SpaceSettings,
    pub counters: SpaceCounters,
    pub flushing: tokio::sync::Mutex<()>,
    /// By their ids, the rows that the next flush settles.
    pub touched: Mutex<BTreeMap<u64, Arc<Row>>>,
    pub maintaining: tokio::sync::Mutex<()>,
    /// Held while checksums are written because they take too much memory.
    pub relieving: tokio::sync::Mutex<()>,
    /// Held while a chunk moves to another row.
    pub relocating: tokio::sync::Mutex<()>,
    moving: Mutex<Vec<Arc<Row>>>,
    thin: AtomicBool,
    read_only: AtomicBool,
    journaled: AtomicBool,
    pub closed: AtomicBool,
    pub closing: tokio::sync::Notify,
    pub swept: AtomicU64,
    /// Whether rows may be out of step, since a crash, of which nothing is in memory.
    pub unsettled: AtomicBool,
    /// How many changes were asked for when a stamp was last thought of.
    pub stamped: AtomicU64,
    /// When the last look for idle regions began.
    pub looked: Mutex<std::time::Duration>,
    pub write_buffer: WriteBuffer,
    pub in_flight: InFlight,
    pub size_bytes: AtomicU64,
    shards: [RwLock<Shard>; SHARDS],
    chunk_locks: [tokio::sync::Mutex<()>; SHARDS + 1],
}

#[derive(Default)]
struct Shard {
    open: HashMap<u32, Arc<Row>>,
    freeing: HashSet<u32>,
}

/// A row that is kept from being given back while this is held.
pub(crate) struct UsedRow(Arc<Row>);

/// While this is held, nobody else begins to change a row, and nobody does.
pub(crate) struct Gate<'a> {
    space: &'a Inner,
    row: &'a UsedRow,
    _one: tokio::sync::MutexGuard<'a, ()>,
}

impl Gate<'_> {
    fn set_closing(&self, closing: bool) {
        // Whoever begins to change the row counts itself in while it holds the shard.
        let _shard = self.space.shard(self.row.chunk).write().expect("no panic while held");
        self.row.closing.store(closing, Ordering::Release);
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.set_closing(false);
    }
}

impl Deref for UsedRow {
    type Target = Arc<Row>;

    fn deref(&self) -> &Arc<Row> {
        &self.0
    }
}

impl Drop for UsedRow {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Space {
    /// Opens a space of a pool.
    ///
    /// # Errors
    /// No such space.
    pub fn open(pool: Arc<Pool>, id: u32, settings: SpaceSettings) -> Result<Arc<Self>, PoolError> {
        let record = pool
            .space(id)
            .ok_or_else(|| PoolError::new(PoolErrorKind::NotFound, format!("pool {} has no space {id}", pool.name())))?;
        let (thin, journaled) = (record.provisioning == Provisioning::Thin, !pool.journal_rows(id).is_empty());
        let read_only = record.read_only;
        let swept = if pool.was_closed() || !pool.has_begun_rows(id) { u64::MAX } else { 0 };
        let context = RowContext {
            pool: pool.clone(),
            space: id,
            chunk_bytes: record.chunk_bytes,
            checksums: ChecksumCache::new(settings.checksum_cache_bytes),
            doubtful: Arc::default(),
            lost: Arc::default(),
        };
        let inner = Inner {
            context,
            size_bytes: AtomicU64::new(record.size_bytes),
            pool,
            record,
            settings,
            counters: SpaceCounters::default(),
            flushing: tokio::sync::Mutex::default(),
            touched: Mutex::default(),
            relocating: tokio::sync::Mutex::default(),
            moving: Mutex::default(),
            thin: AtomicBool::new(thin),
            read_only: AtomicBool::new(read_only),
            journaled: AtomicBool::new(journaled),
            maintaining: tokio::sync::Mutex::default(),
            relieving: tokio::sync::Mutex::default(),
            closed: AtomicBool::new(false),
            closing: tokio::sync::Notify::new(),
            swept: AtomicU64::new(swept),
            unsettled: AtomicBool::new(false),
            stamped: AtomicU64::new(0),
            looked: Mutex::default(),
            write_buffer: WriteBuffer::default(),
            in_flight: InFlight::default(),
            shards: Default::default(),
            chunk_locks: Default::default(),
        };
        Ok(Arc::new(Self { inner: Arc::new(inner) }))
    }

    /// What the pool knows of it.
    pub fn record(&self) -> SpaceRecord {
        let known = self.inner.pool.space(self.inner.record.id).unwrap_or_else(|| self.inner.record.clone());
        SpaceRecord { size_bytes: self.inner.size_bytes(), ..known }
    }

    /// Its pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.inner.pool
    }

    /// Whether clients may only read it, since nobody has accepted what a salvage made of it.
    pub fn is_read_only(&self) -> bool {
        self.inner.read_only.load(Ordering::Acquire)
    }

    /// Lets clients write to it from now on; false if they may already.
    ///
    /// # Errors
    /// No quorum.
    pub async fn accept(&self) -> Result<bool, PoolError> {
        let accepted = self.inner.pool.accept_space(self.inner.record.id).await?;
        self.inner.read_only.store(false, Ordering::Release);
        Ok(accepted)
    }

    /// Ends its maintenance, makes everything durable and cleans all dirty marks. No request may be under way. Answers whether it was
    /// closed in good order: otherwise its pool must not be, so that what is left is looked at as after a crash.
    ///
    /// # Errors
    /// Something that was answered could not be made durable.
    pub async fn close(&self) -> Result<bool, IoError> {
        self.inner.closed.store(true, Ordering::Release);
        self.inner.closing.notify_one();
        self.inner.write_buffer.helpers.ring_all();
        let _none_helps = self.inner.write_buffer.helpers.busy.lock().await;
        let _last = self.inner.maintaining.lock().await;
        self.inner.close().await
    }

    /// Makes every write answered so far durable.
    pub fn flush(&self) -> Io<()> {
        let inner = self.inner.clone();
        Io::eager(async move { inner.flush().await })
    }

    /// Fills `buf` from `offset`.
    pub fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        let in_flight_guard = self.inner.in_flight.enter();
        if let Err(error) = self.inner.check(offset, buf.len() as u64) {
            return Io::ready(Err(error));
        }
        self.inner.counters.reads.add(buf.len());
        self.begin(in_flight_guard, async move |inner| inner.read(offset, buf).await)
    }

    /// Writes `data` at `offset`.
    pub fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        let in_flight_guard = self.inner.in_flight.enter();
        if let Err(error) = self.inner.check(offset, data.len() as u64).and_then(|()| self.inner.check_writable()) {
            return Io::ready(Err(error));
        }
        self.inner.counters.writes.add(data.len());
        self.begin(in_flight_guard, async move |inner| inner.write(offset, data, durability).await)
    }

    /// Gives a range back; it reads as zeros afterwards.
    pub fn discard(&self, offset: u64, len: u64, durability: Durability) -> Io<()> {
        self.zero(offset, len, durability, false)
    }

    /// Makes a range read as zeros. With `keep_room` it takes as much room as data would.
    pub fn write_zeroes(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        self.zero(offset, len, durability, keep_room)
    }

    fn zero(&self, offset: u64, len: u64, durability: Durability, keep_room: bool) -> Io<()> {
        let in_flight_guard = self.inner.in_flight.enter();
        if let Err(error) = self.inner.check(offset, len).and_then(|()| self.inner.check_writable()) {
            return Io::ready(Err(error));
        }
        self.inner.counters.discards.add(len as usize);
        self.begin(in_flight_guard, async move |inner| boxed_cold(inner.zero(offset, len, durability, keep_room)).await)
    }

    /// Begins a request, and counts it if it fails.
    fn begin<T: Unpin + 'static>(
        &self,
        in_flight_guard: InFlightGuard,
        request: impl AsyncFnOnce(&Inner) -> Result<T, IoError> + 'static,
    ) -> Io<T> {
        let inner = self.inner.clone();
        Io::eager(small(async move {
            let result = request(&inner).await;
            drop(in_flight_guard);
            if result.is_err() {
                inner.counters.errors.fetch_add(1, Ordering::Relaxed);
            }
            result
        }))
    }
}

impl Device for Space {
    fn geometry(&self) -> Geometry {
        let disks = self.inner.pool.pool_disks();
        let geometries: Vec<Geometry> = disks.iter().filter_map(|disk| disk.geometry()).collect();
        Geometry {
            size_bytes: self.inner.size_bytes(),
            logical_sector_bytes: 512,
            physical_sector_bytes: BLOCK_BYTES as u32,
            rotational: geometries.iter().any(|geometry| geometry.rotational),
            discard: true,
        }
    }

    fn read(&self, offset: u64, buf: IoBuf) -> Io<IoBuf> {
        Space::read(self, offset, buf)
    }

    fn write(&self, offset: u64, data: IoSlice, durability: Durability) -> Io<()> {
        Space::write(self, offset, data, durability)
    }

    fn flush(&self) -> Io<()> {
        Space::flush(self)
    }

    fn discard(&self, offset: u64, len: u64) -> Io<()> {
        Space::discard(self, offset, len, Durability::Cached)
    }
}

impl Inner {
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    pub fn thin(&self) -> bool {
        self.thin.load(Ordering::Acquire)
    }

    /// Whether it has a journal: some of its rows may keep parity.
    pub fn journaled(&self) -> bool {
        self.journaled.load(Ordering::Acquire)
    }

    /// Takes over what the pool knows of its provisioning and journal.
    pub fn refresh_record(&self) {
        if let Some(record) = self.pool.space(self.record.id) {
            self.thin.store(record.provisioning == Provisioning::Thin, Ordering::Release);
        }
        self.journaled.store(!self.pool.journal_rows(self.record.id).is_empty(), Ordering::Release);
    }

    /// Provisional rows.
    pub fn moving(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Row>>> {
        self.moving.lock().expect("no panic while held")
    }

    /// How messages call the space.
    pub fn path(&self) -> String {
        format!("{}/{}", self.pool.name(), self.record.name)
    }

    pub fn check(&self, offset: u64, len: u64) -> Result<(), IoError> {
        let size = self.size_bytes();
        let aligned = offset.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK_BYTES);
        if !aligned || offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(IoError::invalid(format!(
                "space {} of {}: {len} bytes at {offset} are not whole blocks within",
                self.path(),
                ByteSize(size)
            )));
        }
        Ok(())
    }

    /// Whether it is closed, or about to be.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn check_writable(&self) -> Result<(), IoError> {
        if self.is_closed() {
            return Err(IoError::new(IoErrorKind::Gone, format!("space {} is closed", self.path())));
        }
        if self.read_only.load(Ordering::Acquire) {
            let path = self.path();
            let why = format!("space {path} was salvaged and is read-only until you run 'holdfast space accept {path}'");
            return Err(IoError::new(IoErrorKind::ReadOnly, why));
        }
        match self.pool.refusal() {
            Some(why) => Err(IoError::new(IoErrorKind::ReadOnly, why)),
            None => Ok(()),
        }
    }

    /// Held while the row of a chunk is opened, allotted, given back or replaced. Whoever holds one of data may need the journal, so
    /// the rows of that have a lock of their own.
    pub fn chunk_lock(&self, chunk: u32) -> &tokio::sync::Mutex<()> {
        let journal = chunk >= holdfast_pool::JOURNAL_CHUNK;
        &self.chunk_locks[if journal { SHARDS } else { chunk as usize % SHARDS }]
    }

    fn shard(&self, chunk: u32) -> &RwLock<Shard> {
        &self.shards[chunk as usize % SHARDS]
    }

    /// The row of a chunk, where it is open.
    pub fn open_row(&self, chunk: u32) -> Option<Arc<Row>> {
        self.shard(chunk).read().expect("no panic while held").open.get(&chunk).cloned()
    }

    /// The row of a chunk for changing, where it is open.
    pub fn used_row(&self, chunk: u32) -> Option<UsedRow> {
        let shard = self.shard(chunk).read().expect("no panic while held");
        let row = shard.open.get(&chunk).filter(|row| !row.closing.load(Ordering::Acquire))?;
        row.users.fetch_add(1, Ordering::AcqRel);
        Some(UsedRow(row.clone()))
    }

    fn is_freeing(&self, chunk: u32) -> bool {
        self.shard(chunk).read().expect("no panic while held").freeing.contains(&chunk)
    }

    /// The row of a chunk for reading; `None` where it has none.
    pub async fn row(&self, chunk: u32) -> Result<Option<Arc<Row>>, IoError> {
        if let Some(row) = self.open_row(chunk) {
            return Ok(Some(row));
        }
        if self.is_freeing(chunk) || self.pool.row(self.record.id, chunk).is_none() {
            return Ok(None);
        }
        boxed_cold(async {
            let _one = self.chunk_lock(chunk).lock().await;
            self.load_row(chunk).await
        })
        .await
    }

    /// The row of a chunk for changing, where it has one.
    pub async fn row_if_any(&self, chunk: u32) -> Result<Option<UsedRow>, IoError> {
        loop {
            if let Some(row) = self.used_row(chunk) {
                return Ok(Some(row));
            }
            let _one = self.chunk_lock(chunk).lock().await;
            if self.load_row(chunk).await?.is_none() {
                return Ok(None);
            }
        }
    }

    /// The row of a chunk for changing, allotted now if it has none.
    pub async fn row_for_write(&self, chunk: u32) -> Result<UsedRow, IoError> {
        loop {
            if let Some(row) = self.used_row(chunk) {
                return Ok(row);
            }
            boxed_cold(self.load_or_allot_row(chunk)).await?;
        }
    }

    async fn load_or_allot_row(&self, chunk: u32) -> Result<(), IoError> {
        let _one = self.chunk_lock(chunk).lock().await;
        if self.load_row(chunk).await?.is_none() {
            let record = self.pool.allot_row(self.record.id, chunk).await?;
            self.keep(Row::fresh(&self.context, chunk, record)?);
        }
        Ok(())
    }

    /// The first chunk from `chunk` on that has a row.
    pub fn next_chunk(&self, chunk: u32) -> Option<u32> {
        self.pool.chunks_from(self.record.id, chunk, 1).first().copied()
    }

    /// Opens the row of a chunk. The chunk's lock must be held.
    pub async fn load_row(&self, chunk: u32) -> Result<Option<Arc<Row>>, IoError> {
        if let Some(row) = self.open_row(chunk) {
            return Ok(Some(row));
        }
        let Some(record) = self.pool.row(self.record.id, chunk) else { return Ok(None) };
        let (id, slabs) = (record.id, record.slabs.len());
        let row = match Row::load(&self.context, chunk, record).await {
            Err(error) if error.kind == IoErrorKind::Media => {
                self.context.lost.note(chunk, id, || (0..slabs).collect());
                return Err(error);
            }
            loaded => loaded?,
        };
        if row.parity.is_some() {
            boxed_cold(self.replay_deferred(&row)).await?;
        }
        self.keep(row.clone());
        Ok(Some(row))
    }

    fn keep(&self, row: Arc<Row>) {
        self.shard(row.chunk).write().expect("no panic while held").open.insert(row.chunk, row);
    }

    /// Keeps rows of data from being opened, allotted, given back or replaced.
    pub async fn lock_chunks(&self) -> Vec<tokio::sync::MutexGuard<'_, ()>> {
        let mut guards = Vec::with_capacity(SHARDS);
        for lock in &self.chunk_locks[..SHARDS] {
            guards.push(lock.lock().await);
        }
        guards
    }

    /// Closes a row that the space gave up, with what waits of it. Its units stay taken as long as anybody knows it.
    pub fn let_go(&self, chunk: u32, freed: holdfast_pool::FreedRow) {
        let row = self.shard(chunk).write().expect("no panic while held").open.remove(&chunk);
        self.forget_deferred(chunk);
        if let Some(row) = row {
            self.forget_touched(&row);
            self.forget_waiting(&row);
            row.hold_freed([freed]);
        }
    }

    /// Closes rows that the space has no more.
    pub fn forget_rows(&self, chunks: &[u32]) {
        for chunk in chunks {
            self.shard(*chunk).write().expect("no panic while held").open.remove(chunk);
            self.touched.lock().expect("no panic while held").retain(|_, row| row.chunk != *chunk);
        }
    }

    /// All open rows.
    pub fn open_rows(&self) -> Vec<Arc<Row>> {
        let rows = |shard: &RwLock<Shard>| shard.read().expect("no panic while held").open.values().cloned().collect::<Vec<_>>();
        let mut rows: Vec<Arc<Row>> = self.shards.iter().flat_map(rows).collect();
        rows.sort_by_key(|row| row.chunk);
        rows
    }

    /// Puts a row on the list of the next flush.
    pub fn touch(&self, row: &Arc<Row>) {
        if !row.touched.swap(true, Ordering::AcqRel) {
            self.touched.lock().expect("no panic while held").insert(row.record.id, row.clone());
        }
    }

    /// Gives the row of a chunk back to the pool if it holds nothing and nobody is about to change that.
    pub async fn free_if_empty(&self, chunk: u32) -> Result<(), IoError> {
        let empty = |row: &Row| match &row.parity {
            Some(bands) => bands.lock().is_empty(),
            None => row.columns.iter().all(|column| column.is_open() && column.lock().written.is_empty()),
        };
        if !self.thin() || !self.open_row(chunk).is_some_and(|row| empty(&row)) {
            return Ok(());
        }
        let _one = self.chunk_lock(chunk).lock().await;
        let row = {
            let mut shard = self.shard(chunk).write().expect("no panic while held");
            let idle = |row: &&Arc<Row>| row.users.load(Ordering::Acquire) == 0 && empty(row);
            if shard.open.get(&chunk).filter(idle).is_none() {
                return Ok(());
            }
            shard.freeing.insert(chunk);
            shard.open.remove(&chunk)
        };
        // It holds nothing, so this may be on the disks before the pool knows.
        if let Some(row) = &row {
            row.write_off().await;
        }
        let freed = self.pool.free_row(self.record.id, chunk).await;
        self.shard(chunk).write().expect("no panic while held").freeing.remove(&chunk);
        if let Some(row) = row {
            match freed {
                Ok(freed) => {
                    // Until now a flush had to see to it that what was discarded stays so.
                    self.forget_touched(&row);
                    if let Some(bands) = &row.parity {
                        bands.forget();
                    }
                    row.hold_freed(freed);
                }
                Err(error) => {
                    row.touched.store(false, Ordering::Release);
                    self.touch(&row);
                    self.keep(row);
                    return Err(error.into());
                }
            }
            // A read that began before may still be on its way to the disk.
            if Arc::strong_count(&row) == 1 {
                self.discard_slabs(&row).await;
            }
        }
        Ok(())
    }

    /// Keeps everybody from beginning to change a row, once nobody but the caller does. `None` where that takes too long.
    pub async fn close_gate<'a>(&'a self, row: &'a UsedRow) -> Option<Gate<'a>> {
        let one = self.chunk_lock(row.chunk).lock().await;
        let gate = Gate { space: self, row, _one: one };
        gate.set_closing(true);
        for _ in 0..GATE_TRIES {
            if row.users.load(Ordering::Acquire) == 1 {
                return Some(gate);
            }
            self.pool.env().clock.sleep(GATE_PAUSE).await;
        }
        None
    }

    /// A row has taken the place of the one behind the gate.
    pub fn take_place(&self, gate: Gate<'_>, old: &UsedRow, new: &Arc<Row>) {
        self.keep(new.clone());
        self.forget_touched(old);
        drop(gate);
    }

    /// Takes a row from the list of the next flush.
    pub fn forget_touched(&self, row: &Row) {
        self.touched.lock().expect("no panic while held").remove(&row.record.id);
    }

    /// Tells the disks that the slabs of a row hold nothing any more; a hint, so failures do not matter.
    async fn discard_slabs(&self, row: &Row) {
        let bytes = u64::from(row.record.slab_units) * holdfast_pool::UNIT_BYTES;
        for slab in row.slabs.iter().filter(|slab| slab.disk.geometry().is_some_and(|geometry| geometry.discard)) {
            let _ = slab.disk.discard(slab.start, bytes).await;
        }
    }

    /// Closes idle rows beyond the limit.
    pub fn evict(&self) {
        let open: Vec<u32> = self.open_rows().into_iter().map(|row| row.chunk).collect();
        let mut excess = open.len().saturating_sub(self.settings.open_rows);
        // In order, so that a simulated run depends on nothing but its seed.
        for chunk in open {
            if excess == 0 {
                break;
            }
            let mut shard = self.shard(chunk).write().expect("no panic while held");
            let Some(row) = shard.open.get(&chunk).filter(|row| self.is_idle(row)) else { continue };
            if !row.columns.iter().all(Column::is_open) {
                self.unsettled.store(true, Ordering::Release);
            }
            shard.open.remove(&chunk);
            excess -= 1;
        }
    }

    /// Whether nobody uses an open row, and the disks hold all that is known of it. Its shard must be held.
    fn is_idle(&self, row: &Arc<Row>) -> bool {
        Arc::strong_count(row) == 1
            && row.users.load(Ordering::Acquire) == 0
            && row.parity.as_ref().is_none_or(|bands| self.may_forget(bands))
            && row.columns.iter().all(|column| column.lock().is_settled())
            && row.checksums.as_ref().is_none_or(|checksums| checksums.is_settled())
    }
}
