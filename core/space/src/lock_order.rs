//! The order in which locks are taken, the only place where it is written down; debug builds assert it.
//!
//! With a lock held, only such are taken as stand below it in [`rank`]. Locks of one rank are taken in the order of
//! what they guard, or side by side by [`join_all`]; a lock that is only tried may be taken at any time. Two things are
//! waited for like locks and have no rank: the turn of blocks or of a band, which comes before [`rank::COMMITTING`],
//! and a gate, which is given up after a time.
//!
//! A [`Held`] lock may be kept over an await, so it belongs to a chain of futures: a request, a pass of maintenance, a
//! move, each made a [`branch`] where it begins, or one that [`join_all`] runs beside others. A [`Locked`] one never
//! is, so it belongs to its thread.

use std::ops::{Deref, DerefMut};

/// The ranks, the outermost lock first.
pub mod rank {
    /// The size of a space changes.
    pub const RESIZING: u8 = 1;
    /// A helper destages.
    pub const HELPING: u8 = 2;
    /// A pass of maintenance.
    pub const MAINTAINING: u8 = 3;
    /// Checksums are written because they take too much memory.
    pub const RELIEVING: u8 = 4;
    /// The journal is read and carried out.
    pub const OPENING: u8 = 5;
    /// The row of a chunk of data comes, goes or is replaced.
    pub const CHUNK: u8 = 6;
    /// A flush of rows without parity.
    pub const FLUSHING: u8 = 7;
    /// A record of what is only in memory is put together and written.
    pub const LOGGING: u8 = 8;
    /// The line of bands that wait is worked on.
    pub const PLACING: u8 = 9;
    /// Bands are destaged by way of the journal.
    pub const INTENDING: u8 = 10;
    /// Maps of rows with parity are written.
    pub const COMMITTING: u8 = 11;
    /// A record is appended to the journal, or another one takes its place.
    pub const APPENDING: u8 = 12;
    /// The row of a chunk of the journal is opened.
    pub const JOURNAL_CHUNK: u8 = 13;
    /// The headers of a row are written.
    pub const HEADERS: u8 = 14;
    /// The maps of a column, or of all bands of a row, are written.
    pub const MAPS: u8 = 15;
    /// Checksums of a row are written.
    pub const SUMS_WRITING: u8 = 16;
    /// Checksums of a row are read.
    pub const SUMS_READING: u8 = 17;

    /// A shard of the table of rows.
    pub const SHARD: u8 = 32;
    /// What waits for rows that cannot be opened.
    pub const DEFERRED: u8 = 33;
    /// The state of a column or of the bands of a row.
    pub const STATE: u8 = 34;
    /// The log of the journal.
    pub const LOG: u8 = 35;
    /// The line of bands that wait, and other lists that rows stand in.
    pub const LISTS: u8 = 36;
}

/// A lock that is held over awaits, and the rank that it has.
#[derive(Default)]
pub struct TaskLock<const RANK: u8, T = ()>(tokio::sync::Mutex<T>);

/// While it lives, a [`TaskLock`] is held.
pub struct Held<'a, const RANK: u8, T = ()> {
    guard: tokio::sync::MutexGuard<'a, T>,
    _mark: asserted::ChainMark<RANK>,
}

impl<const RANK: u8, T> TaskLock<RANK, T> {
    /// A lock around something.
    pub fn new(value: T) -> Self {
        Self(tokio::sync::Mutex::new(value))
    }

    /// Waits for it.
    pub async fn lock(&self) -> Held<'_, RANK, T> {
        let chain = asserted::Chain::current();
        chain.check(RANK);
        let guard = self.0.lock().await;
        Held { guard, _mark: chain.mark() }
    }

    /// Takes it if nobody has it.
    pub fn try_lock(&self) -> Option<Held<'_, RANK, T>> {
        let guard = self.0.try_lock().ok()?;
        Some(Held { guard, _mark: asserted::Chain::current().mark() })
    }
}

impl<const RANK: u8, T> Deref for Held<'_, RANK, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<const RANK: u8, T> DerefMut for Held<'_, RANK, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A lock that is never held over an await, and the rank that it has.
#[derive(Debug, Default)]
pub struct Lock<const RANK: u8, T>(std::sync::Mutex<T>);

/// While it lives, a [`Lock`] is held.
pub struct Locked<'a, const RANK: u8, T> {
    guard: std::sync::MutexGuard<'a, T>,
    _mark: asserted::ThreadMark<RANK>,
}

impl<const RANK: u8, T> Lock<RANK, T> {
    /// A lock around something.
    pub fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Takes it.
    ///
    /// # Panics
    /// If somebody panicked while it was held.
    pub fn lock(&self) -> Locked<'_, RANK, T> {
        let mark = asserted::ThreadMark::new();
        Locked { guard: self.0.lock().expect("no panic while held"), _mark: mark }
    }
}

impl<const RANK: u8, T> Deref for Locked<'_, RANK, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<const RANK: u8, T> DerefMut for Locked<'_, RANK, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A lock that readers share, never held over an await.
#[derive(Default)]
pub struct SharedLock<const RANK: u8, T>(std::sync::RwLock<T>);

/// While it lives, a [`SharedLock`] is held, by a reader or a writer.
pub struct Marked<G, const RANK: u8> {
    guard: G,
    _mark: asserted::ThreadMark<RANK>,
}

impl<const RANK: u8, T> SharedLock<RANK, T> {
    /// Takes it beside other readers.
    ///
    /// # Panics
    /// If somebody panicked while it was held.
    pub fn read(&self) -> Marked<std::sync::RwLockReadGuard<'_, T>, RANK> {
        let mark = asserted::ThreadMark::new();
        Marked { guard: self.0.read().expect("no panic while held"), _mark: mark }
    }

    /// Takes it alone.
    ///
    /// # Panics
    /// If somebody panicked while it was held.
    pub fn write(&self) -> Marked<std::sync::RwLockWriteGuard<'_, T>, RANK> {
        let mark = asserted::ThreadMark::new();
        Marked { guard: self.0.write().expect("no panic while held"), _mark: mark }
    }
}

impl<G: Deref, const RANK: u8> Deref for Marked<G, RANK> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut, const RANK: u8> DerefMut for Marked<G, RANK> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Runs futures side by side, each of which takes locks for itself.
pub fn join_all<I>(futures: I) -> futures_util::future::JoinAll<asserted::Branch<I::Item>>
where
    I: IntoIterator,
    I::Item: Future,
{
    futures_util::future::join_all(futures.into_iter().map(asserted::branch))
}

pub use asserted::branch;

#[cfg(not(debug_assertions))]
mod asserted {
    //! Nothing is asserted, and nothing costs anything.

    pub struct Chain;
    pub struct ChainMark<const RANK: u8>;
    pub struct ThreadMark<const RANK: u8>;
    pub type Branch<F> = F;

    /// `future` as it is.
    pub fn branch<F>(future: F) -> F {
        future
    }

    impl Chain {
        pub fn current() -> Self {
            Self
        }

        pub fn check(&self, _rank: u8) {}

        pub fn mark<const RANK: u8>(self) -> ChainMark<RANK> {
            ChainMark
        }
    }

    impl<const RANK: u8> ThreadMark<RANK> {
        pub fn new() -> Self {
            Self
        }
    }
}

#[cfg(debug_assertions)]
mod asserted {
    //! What each chain and thread holds.

    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    /// A chain of futures, and the one that it branched off.
    struct Link {
        number: u64,
        parent: Option<Arc<Link>>,
    }

    thread_local! {
        static CURRENT: RefCell<Option<Arc<Link>>> = const { RefCell::new(None) };
        static NUMBERS: Cell<u64> = const { Cell::new(0) };
        static HELD: RefCell<BTreeMap<u64, Vec<u8>>> = const { RefCell::new(BTreeMap::new()) };
        static LOCKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }

    /// Who takes a lock that may be held over awaits; nobody knows outside of a branch.
    pub struct Chain(Option<Arc<Link>>);

    /// Takes what is marked from the list of its chain.
    pub struct ChainMark<const RANK: u8>(Option<u64>);

    impl Chain {
        /// The chain that runs now.
        pub fn current() -> Self {
            Self(CURRENT.with_borrow(Clone::clone))
        }

        /// Asserts that the chain, and those that it branched off, hold nothing below this rank.
        pub fn check(&self, rank: u8) {
            let mut next = self.0.as_ref();
            while let Some(link) = next {
                let last =
                    HELD.with_borrow(|held| held.get(&link.number).and_then(|ranks| ranks.iter().max().copied()));
                assert!(
                    last.is_none_or(|last| last <= rank),
                    "a lock of rank {rank} is taken under one of rank {last:?}"
                );
                next = link.parent.as_ref();
            }
        }

        /// Notes that the chain holds a lock of this rank.
        pub fn mark<const RANK: u8>(self) -> ChainMark<RANK> {
            let number = self.0.map(|link| link.number);
            if let Some(number) = number {
                HELD.with_borrow_mut(|held| held.entry(number).or_default().push(RANK));
            }
            ChainMark(number)
        }
    }

    impl<const RANK: u8> Drop for ChainMark<RANK> {
        fn drop(&mut self) {
            let Some(number) = self.0 else { return };
            // The thread may be about to end.
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(ranks) = held.get_mut(&number) {
                    if let Some(at) = ranks.iter().rposition(|rank| *rank == RANK) {
                        ranks.remove(at);
                    }
                    if ranks.is_empty() {
                        held.remove(&number);
                    }
                }
            });
        }
    }

    /// A lock that the thread holds.
    pub struct ThreadMark<const RANK: u8>;

    impl<const RANK: u8> ThreadMark<RANK> {
        /// Asserts that the thread holds nothing of this rank or below.
        pub fn new() -> Self {
            LOCKED.with_borrow_mut(|locked| {
                let last = locked.iter().max().copied();
                assert!(
                    last.is_none_or(|last| last < RANK),
                    "a lock of rank {RANK} is taken under one of rank {last:?}"
                );
                locked.push(RANK);
            });
            Self
        }
    }

    impl<const RANK: u8> Drop for ThreadMark<RANK> {
        fn drop(&mut self) {
            let _ = LOCKED.try_with(|locked| {
                let mut locked = locked.borrow_mut();
                if let Some(at) = locked.iter().rposition(|rank| *rank == RANK) {
                    locked.remove(at);
                }
            });
        }
    }

    /// A future that takes locks for itself.
    pub struct Branch<F> {
        future: Pin<Box<F>>,
        link: Option<Arc<Link>>,
    }

    /// Lets a future take locks for itself, under those that who awaits it holds.
    pub fn branch<F: Future>(future: F) -> Branch<F> {
        Branch { future: Box::pin(future), link: None }
    }

    /// Puts back which chain ran before, also if the one that runs panics.
    struct Outer(Option<Arc<Link>>);

    impl Drop for Outer {
        fn drop(&mut self) {
            let outer = self.0.take();
            let _ = CURRENT.try_with(|current| *current.borrow_mut() = outer);
        }
    }

    impl<F: Future> Future for Branch<F> {
        type Output = F::Output;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            let outer = Outer(CURRENT.with_borrow(Clone::clone));
            let link = self.link.get_or_insert_with(|| {
                let number = NUMBERS.get() + 1;
                NUMBERS.set(number);
                Arc::new(Link { number, parent: outer.0.clone() })
            });
            let link = link.clone();
            CURRENT.set(Some(link));
            self.future.as_mut().poll(context)
        }
    }
}
