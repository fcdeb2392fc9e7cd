//! The table: files by key in 256 shards, and acts on them with what they cause.
//!
//! Locks, in this order: a file's, then those that all files share. A shard's is held alone, to find, add or drop an
//! entry; so an open that nobody else has costs one lock of a shard, and one of the file that nobody else asks for.
//!
//! Invariant: a file has at most one entry that is not dead, and the entry of a dead one is dropped by whoever made it
//! so. Callbacks and wakers are called without any lock.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::{FixedState, RandomState};

use crate::access::Access;
use crate::common::Common;
use crate::effects::{Context, held};
use crate::error::Error;
use crate::key::{FileKey, OpenId};
use crate::seat::{FileSeat, FileState};
use crate::settings::Settings;
use crate::summary::Summary;

const SHARDS: usize = 256;

#[derive(Debug)]
struct Entries {
    files: HashMap<FileKey, Arc<FileSeat>, RandomState>,
    opened: u64,
}

/// Apart from its neighbours in the caches of processors.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Entries>);

/// Every open of every protocol. It is shared by all front ends, and asked from any thread; nothing of it blocks for
/// longer than a few locks are held.
///
/// Time is what the caller's clock says, from any origin, the same for all calls.
pub struct Table {
    shards: Box<[Shard]>,
    hasher: FixedState,
    pub(crate) common: Common,
}

impl std::fmt::Debug for FileSeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:?}", self.key, self.summary())
    }
}

/// A place in the table: the right to do I/O on a file. It is kept with the volume's handle, cloned as that is, and given
/// back by [`Table::close`] after the last I/O through it; dropping it closes nothing.
#[derive(Clone, Debug)]
pub struct Seat {
    pub(crate) file: Arc<FileSeat>,
    pub(crate) place: u32,
    pub(crate) open: OpenId,
    /// The number of its lease, or 0.
    pub(crate) lease: u32,
    pub(crate) access: Access,
}

impl Seat {
    /// Its file.
    pub fn file(&self) -> FileKey {
        self.file.key
    }

    /// Its open.
    pub fn open(&self) -> OpenId {
        self.open
    }

    /// What it was opened for.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether any range of the file is locked, by whomever, at this moment.
    pub fn is_locked(&self) -> bool {
        self.file.summary().any(Summary::RANGES)
    }

    /// Whether the file is a disk to somebody at this moment, so that nothing of it is to be cached.
    pub fn is_disk(&self) -> bool {
        self.file.summary().any(Summary::DISK)
    }

    pub(crate) fn gone(&self) -> Error {
        Error::NoOpen { open: self.open }
    }
}

/// What a table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that are open.
    pub files: usize,
    /// Opens.
    pub opens: usize,
    /// Locked ranges.
    pub ranges: usize,
    /// Leases.
    pub leases: usize,
    /// Opens that are kept for clients that are away.
    pub kept: usize,
}

/// Sends the breaks of an act, and says so even if a callback panics.
struct Sending<'a, 'b> {
    seat: &'a FileSeat,
    context: &'a mut Context<'b>,
}

impl Drop for Sending<'_, '_> {
    fn drop(&mut self) {
        let wake = self.seat.sent(self.context.batch);
        self.context.wake.extend(wake);
    }
}

impl Table {
    /// An empty table.
    pub fn new(settings: Settings) -> Self {
        let entries = || Entries { files: HashMap::default(), opened: 0 };
        Self {
            shards: (0..SHARDS).map(|_| Shard(Mutex::new(entries()))).collect(),
            hasher: FixedState::default(),
            common: Common::new(settings),
        }
    }

    fn shard(&self, key: &FileKey) -> usize {
        let hash = self.hasher.hash_one(HashedKey(key));
        (hash >> 56) as usize % SHARDS
    }

    /// The entry of a file, made where there is none, and a number for a new open of it.
    pub(crate) fn seat_of(&self, key: FileKey) -> Result<(Arc<FileSeat>, OpenId), Error> {
        let shard = self.shard(&key);
        let mut entries = held(&self.shards[shard].0);
        let number = self.common.settings.first_open + (entries.opened << 8 | shard as u64);
        let seat = match entries.files.get(&key).filter(|seat| !seat.summary().any(Summary::DEAD)) {
            Some(seat) => seat.clone(),
            None => {
                self.common.budgets.files.take(1).map_err(|limit| Error::Limit { file: key, limit })?;
                let seat = Arc::new(FileSeat::new(key));
                entries.files.insert(key, seat.clone());
                seat
            }
        };
        entries.opened += 1;
        Ok((seat, OpenId(number)))
    }

    /// The entry of a file, if anybody has it open.
    pub(crate) fn find(&self, key: FileKey) -> Option<Arc<FileSeat>> {
        let entries = held(&self.shards[self.shard(&key)].0);
        entries.files.get(&key).filter(|seat| !seat.summary().any(Summary::DEAD)).cloned()
    }

    /// All entries of one shard.
    pub(crate) fn seats(&self, shard: usize) -> Vec<Arc<FileSeat>> {
        held(&self.shards[shard].0).files.values().cloned().collect()
    }

    /// All entries, in the order of their keys within a shard.
    pub(crate) fn all_seats(&self) -> impl Iterator<Item = Arc<FileSeat>> {
        (0..SHARDS).flat_map(|shard| {
            let mut seats = self.seats(shard);
            seats.sort_by_key(|seat| seat.key);
            seats
        })
    }

    fn drop_entry(&self, seat: &FileSeat) {
        let mut entries = held(&self.shards[self.shard(&seat.key)].0);
        let is_its = entries.files.get(&seat.key).is_some_and(|known| std::ptr::eq(&**known, seat));
        let gone = if is_its { entries.files.remove(&seat.key) } else { None };
        if entries.files.is_empty() && entries.files.capacity() > 1024 {
            entries.files.shrink_to_fit();
        }
        drop(entries);
        drop(gone);
    }

    /// Acts on a file and carries out what that causes. The breaks of the act are sent when this returns.
    pub(crate) fn act<R>(
        &self,
        seat: &FileSeat,
        now: Duration,
        act: impl FnOnce(&mut FileState, &mut Context) -> R,
    ) -> R {
        let mut context = Context::new(&self.common, seat.key, now);
        let (result, was_dead) = seat.act(&mut context, |state, context| {
            let was_dead = state.dead;
            (act(state, context), was_dead)
        });
        if !was_dead && seat.summary().any(Summary::DEAD) {
            self.drop_entry(seat);
        }
        if !context.messages.is_empty() {
            let sending = Sending { seat, context: &mut context };
            sending.context.tell();
        }
        context.wake.drain(..).for_each(Waker::wake);
        result
    }

    /// What it holds.
    pub fn counts(&self) -> Counts {
        let budgets = &self.common.budgets;
        Counts {
            files: budgets.files.taken(),
            opens: budgets.opens.taken(),
            ranges: budgets.ranges.taken(),
            leases: budgets.leases.taken(),
            kept: self.common.kept_count(),
        }
    }

    /// Asserts what holds of each file and of all together, while nobody else asks the table.
    ///
    /// # Panics
    /// If it does not hold.
    pub fn check(&self) {
        let mut counts = Counts { kept: self.common.kept_count(), ..Counts::default() };
        let (mut waits, mut kept, mut scheduled) = (0, 0, 0);
        for seat in self.all_seats() {
            let state = held(&seat.state);
            state.check(&self.common);
            assert_eq!(state.dead, seat.summary().any(Summary::DEAD), "{}", seat.key);
            assert!(!state.dead, "{}: the entry of a dead file is dropped", seat.key);
            counts.files += 1;
            counts.opens += state.opens.len();
            counts.leases += state.leases.iter().count();
            counts.ranges += state.locks.as_ref().map_or(0, |locks| locks.count());
            waits += state.locks.as_ref().map_or(0, |locks| locks.posix_waits());
            kept += state.opens.iter().filter(|(_, open)| open.aside.is_some()).count();
            scheduled += usize::from(state.scheduled().is_some());
        }
        assert_eq!(counts, self.counts());
        assert_eq!(waits, self.common.graph.len(), "waits in the graph");
        assert_eq!(kept, counts.kept, "kept opens");
        assert_eq!(scheduled, self.common.scheduled(), "time limits");
    }
}

/// Numbers of files follow each other, so a few multiplications of them spread well enough over shards.
struct HashedKey<'a>(&'a FileKey);

impl Hash for HashedKey<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.number);
        state.write_u64(self.0.volume);
    }
}

impl FileState {
    fn check(&self, common: &Common) {
        let mut shares = crate::access::Shares::default();
        let mut users = BTreeMap::<_, crate::leases::Users>::new();
        for (_, open) in self.opens.iter() {
            shares.add(open.access, open.share);
            if let Some(lease) = open.lease {
                users.entry(lease).or_default().step(open, |count| *count += 1);
            }
        }
        assert_eq!(shares, self.shares, "share modes");
        assert_eq!(users.len(), self.leases.iter().count(), "leases that are named");
        self.leases.iter().for_each(|lease| assert_eq!(users.get(&lease.key), Some(&lease.users)));
        self.leases.check();
        if let Some(locks) = &self.locks {
            locks.check();
            locks.check_waits();
        }
        assert!(self.waits() <= common.settings.waits_of_file);
        let kept = self.opens.iter().filter_map(|(_, open)| open.aside).map(|aside| aside.deadline).min();
        assert_eq!(self.scheduled(), self.leases.deadline().into_iter().chain(kept).min(), "the next time limit");
        assert!(!self.deleting || (self.pending.is_some() && self.opens.is_empty()));
    }
}
