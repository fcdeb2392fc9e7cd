//! The virtual disk: what it consists of, and how requests enter it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_device::{Device, Durability, Geometry, Io, IoBuf, IoError, IoErrorKind, IoSlice};
use holdfast_model::{BLOCK_BYTES, ByteSize, ObjectRef, Provisioning};
use holdfast_pool::{Pool, PoolError, PoolErrorKind, SpaceRecord};

use crate::boxed_cold::{boxed_cold, small};
use crate::checksums::ChecksumCache;
use crate::claims::Movement;
use crate::counters::SpaceCounters;
use crate::in_flight::{InFlight, InFlightGuard};
use crate::kept_marked::KeptMarked;
use crate::lock_order::{TaskLock, branch, rank};
use crate::parity::{ParityStore, StoreLimits};
use crate::row::RowContext;
use crate::row_table::RowTable;

/// What a space may take and how it maintains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceSettings {
    /// Rows that stay open at most; beyond that idle ones are closed.
    pub open_rows: usize,
    /// How often maintenance looks.
    pub maintenance_interval: std::time::Duration,
    /// Bytes written to a parity space that may be in memory before the oldest are destaged; twice as much at most.
    pub write_buffer_bytes: usize,
    /// Bytes that change in place of a parity space together, from which on they are staged beside their place on disks
    /// that do not rotate, instead of in every copy of the journal.
    pub staged_bytes: usize,
    /// Bytes of memory for block checksums: a megabyte for those of about 800 MiB on the disks.
    pub checksum_cache_bytes: usize,
    /// Whether checksums that come with a write are compared with its data at once. Else the reads of simple and
    /// mirrored rows do that.
    pub compare_given: bool,
}

impl Default for SpaceSettings {
    fn default() -> Self {
        Self {
            open_rows: 4096,
            maintenance_interval: std::time::Duration::from_secs(5),
            write_buffer_bytes: 16 << 20,
            staged_bytes: 64 << 10,
            checksum_cache_bytes: 64 << 20,
            compare_given: cfg!(debug_assertions),
        }
    }
}

/// A virtual disk.
pub struct Space {
    pub(crate) inner: Arc<Inner>,
}

/// What a space consists of.
pub(crate) struct Inner {
    /// Tells which rows there are, and which of their slabs are in step.
    pub pool: Arc<Pool>,
    /// The space as it was opened. Of its parts those that never change are taken from here: number, name, chunk size.
    pub record: SpaceRecord,
    /// The open rows.
    pub rows: Arc<RowTable>,
    /// What rows with parity share.
    pub parity: ParityStore,
    /// What moves.
    pub movement: Movement,
    /// How much it may take.
    pub settings: SpaceSettings,
    /// What it did, for status; that writes go on also tells when disks are due for a record of the time.
    pub counters: SpaceCounters,
    /// Held during a flush of rows without parity: each settles what was pending when it began.
    pub flushing: TaskLock<{ rank::FLUSHING }>,
    /// Held during a pass of maintenance; a close waits for it.
    pub maintaining: TaskLock<{ rank::MAINTAINING }>,
    /// Held while checksums are written because they take too much memory: one writer does that for all.
    pub relieving: TaskLock<{ rank::RELIEVING }>,
    /// Whether rows are allotted when they are written to. It changes under a conversion; every discard asks.
    thin: AtomicBool,
    /// Set from a salvage until somebody accepts what it made.
    read_only: AtomicBool,
    /// Set by a close: nothing is written any more, and loops end.
    pub closed: AtomicBool,
    /// Called by a close, so that maintenance does not sleep on.
    pub closing: tokio::sync::Notify,
    /// The chunk to which the sweep after a crash came; `u64::MAX` once it is over, which a clean close needs.
    pub swept: AtomicU64,
    /// Whether rows may be out of step, since a crash, of which nothing is in memory.
    pub unsettled: AtomicBool,
    /// How many changes were asked for when a stamp was last thought of.
    pub stamped: AtomicU64,
    /// The chunk that the slow look at slab metadata comes to next.
    pub audited: AtomicU32,
    /// Ranges that stay marked dirty though they are idle.
    pub kept_marked: KeptMarked,
    /// When the last look for idle regions began.
    pub looked: Mutex<std::time::Duration>,
    /// Requests under way: who makes the space smaller waits for them.
    pub in_flight: InFlight,
    /// Its size, which every request is checked against.
    pub size_bytes: AtomicU64,
}

impl Space {
    /// Opens a space of a pool.
    ///
    /// # Errors
    /// No such space.
    pub fn open(pool: Arc<Pool>, id: u32, settings: SpaceSettings) -> Result<Arc<Self>, PoolError> {
        let record = pool.space(id).ok_or_else(|| {
            PoolError::new(PoolErrorKind::NotFound, format!("pool {} has no space {id}", pool.name()))
        })?;
        let thin = record.provisioning == Provisioning::Thin;
        let read_only = record.read_only;
        let swept = if pool.was_closed() || !pool.has_begun_rows(id) { u64::MAX } else { 0 };
        let context = RowContext {
            pool: pool.clone(),
            space: id,
            chunk_bytes: record.chunk_bytes,
            checksums: ChecksumCache::new(settings.checksum_cache_bytes),
            doubtful: Arc::default(),
            lost: Arc::default(),
            repairs: Arc::default(),
            lagging: Arc::default(),
        };
        let rows = Arc::new(RowTable::new(context));
        let SpaceSettings { write_buffer_bytes, staged_bytes, .. } = settings;
        let limits = StoreLimits { write_buffer_bytes, staged_bytes };
        let inner = Inner {
            parity: ParityStore::new(rows.clone(), record.clone(), limits),
            rows,
            size_bytes: AtomicU64::new(record.size_bytes),
            pool,
            record,
            settings,
            counters: SpaceCounters::default(),
            flushing: TaskLock::default(),
            movement: Movement::default(),
            thin: AtomicBool::new(thin),
            read_only: AtomicBool::new(read_only),
            maintaining: TaskLock::default(),
            relieving: TaskLock::default(),
            closed: AtomicBool::new(false),
            closing: tokio::sync::Notify::new(),
            swept: AtomicU64::new(swept),
            unsettled: AtomicBool::new(false),
            stamped: AtomicU64::new(0),
            audited: AtomicU32::new(0),
            looked: Mutex::default(),
            kept_marked: KeptMarked::default(),
            in_flight: InFlight::default(),
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

    /// Ends its maintenance, makes everything durable and cleans all dirty marks. No request may be under way. Answers
    /// whether it was closed in good order: otherwise its pool must not be, so that what is left is looked at as after
    /// a crash.
    ///
    /// # Errors
    /// Something that was answered could not be made durable.
    pub async fn close(&self) -> Result<bool, IoError> {
        self.inner.closed.store(true, Ordering::Release);
        self.inner.closing.notify_one();
        self.inner.parity.helpers.close();
        let _none_helps = self.inner.parity.helpers.busy.lock().await;
        let _last = self.inner.maintaining.lock().await;
        branch(self.inner.close()).await
    }

    /// Destages what was written to a parity space in the background, until the space is closed. To be run on every
    /// thread that serves it.
    pub async fn background_destage(self: Arc<Self>) {
        branch(self.inner.parity.background_destage()).await;
    }

    /// Makes every write answered so far durable.
    pub fn flush(&self) -> Io<()> {
        let inner = self.inner.clone();
        Io::eager(branch(async move { inner.flush().await }))
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
        self.begin(in_flight_guard, async move |inner| inner.write(offset, data, None, durability).await)
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
    pub(crate) fn begin<T: Unpin + 'static>(
        &self,
        in_flight_guard: InFlightGuard,
        request: impl AsyncFnOnce(&Inner) -> Result<T, IoError> + 'static,
    ) -> Io<T> {
        let inner = self.inner.clone();
        Io::eager(branch(small(async move {
            let result = request(&inner).await;
            drop(in_flight_guard);
            if result.is_err() {
                inner.counters.errors.fetch_add(1, Ordering::Relaxed);
            }
            result
        })))
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

    /// Takes over what the pool knows of its provisioning and journal.
    pub fn refresh_record(&self) {
        if let Some(record) = self.pool.space(self.record.id) {
            self.thin.store(record.provisioning == Provisioning::Thin, Ordering::Release);
        }
        self.parity.refresh_journaled();
    }

    /// The space, as events name it.
    pub fn object(&self) -> ObjectRef {
        ObjectRef::space(self.record.uuid, self.path())
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

    /// Whether clients may change it.
    pub fn check_writable(&self) -> Result<(), IoError> {
        if self.is_closed() {
            return Err(IoError::new(IoErrorKind::Gone, format!("space {} is closed", self.path())));
        }
        if self.read_only.load(Ordering::Acquire) {
            let path = self.path();
            let why =
                format!("space {path} was salvaged and is read-only until you run 'holdfast space accept {path}'");
            return Err(IoError::new(IoErrorKind::ReadOnly, why));
        }
        match self.pool.refusal() {
            Some(why) => Err(IoError::new(IoErrorKind::ReadOnly, why)),
            None => Ok(()),
        }
    }
}
