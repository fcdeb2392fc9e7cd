//! What an owner does with a pool: its disks and the rows of its spaces.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use holdfast_model::{DiskState, Name, ObjectKind, ObjectRef, Uuid};

use crate::committer::{Batch, Committer};
use crate::config::Config;
use crate::disk::PoolDisk;
use crate::event::{Env, Event, Severity};
use crate::frame::Position;
use crate::record::{DiskRecord, SpaceRecord};
use crate::refusal::Refusal;
use crate::state::State;
use crate::{PoolError, PoolErrorKind};

/// A pool in use.
pub struct Pool {
    pub(crate) env: Env,
    id: Uuid,
    name: Name,
    was_closed: bool,
    state: Mutex<State>,
    pub(crate) admin: tokio::sync::Mutex<()>,
    /// Held while a document is written.
    pub(crate) documents: tokio::sync::Mutex<()>,
    pub(crate) committer: tokio::sync::Mutex<Committer>,
    pub(crate) pending: Mutex<VecDeque<Batch>>,
    pub(crate) position: Mutex<Position>,
    /// When the last record was begun: whatever a disk was given before is older than its last record.
    pub(crate) recorded: Mutex<Duration>,
    pub(crate) refusal: Mutex<Option<Refusal>>,
    /// Whether another owner has it.
    pub(crate) lost: AtomicBool,
    /// Behind the disk whose metadata was looked at last.
    pub(crate) audited: AtomicU32,
    drawn: AtomicU64,
    /// Signs of life that this owner wrote.
    pub(crate) signs: AtomicU64,
}

impl Pool {
    pub(crate) fn assemble(
        env: Env,
        id: Uuid,
        config: Config,
        disks: BTreeMap<u16, Arc<PoolDisk>>,
        committer: Committer,
    ) -> Arc<Self> {
        let generation = committer.position.generation;
        Arc::new(Self {
            env,
            id,
            name: config.name.clone().expect("a configuration with a name"),
            was_closed: config.closed,
            position: Mutex::new(committer.position),
            recorded: Mutex::default(),
            state: Mutex::new(State { config, disks, judgements: BTreeMap::new() }),
            admin: tokio::sync::Mutex::new(()),
            documents: tokio::sync::Mutex::new(()),
            committer: tokio::sync::Mutex::new(committer),
            pending: Mutex::default(),
            refusal: Mutex::default(),
            lost: AtomicBool::new(false),
            audited: AtomicU32::new(0),
            signs: AtomicU64::new(0),
            // No two generations draw the same ids, though they may be handed the same seed.
            drawn: AtomicU64::new(generation.wrapping_mul(1 << 32)),
        })
    }

    /// Its identity.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Whether it was closed in good order before this import, so that no region can be dirty.
    pub fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// What it was handed.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Its spaces.
    pub fn spaces(&self) -> Vec<SpaceRecord> {
        self.state().config.spaces.values().map(|space| space.record.clone()).collect()
    }

    /// One of its spaces.
    pub fn space(&self, id: u32) -> Option<SpaceRecord> {
        self.state().config.spaces.get(&id).map(|space| space.record.clone())
    }

    /// One of its disks.
    pub fn disk(&self, index: u16) -> Option<Arc<PoolDisk>> {
        self.state().disks.get(&index).cloned()
    }

    /// All its disks.
    pub fn pool_disks(&self) -> Vec<Arc<PoolDisk>> {
        self.state().disks.values().cloned().collect()
    }

    /// What it remembers of a disk.
    pub fn disk_record(&self, id: Uuid) -> Option<DiskRecord> {
        self.state().config.disks.values().find(|record| record.id == id).cloned()
    }

    /// What it remembers of the state of a disk.
    pub fn disk_state(&self, index: u16) -> Option<DiskState> {
        self.state().config.disks.get(&index).map(|record| record.state)
    }

    /// Tells its owner something.
    pub fn emit(&self, severity: Severity, object: ObjectRef, cause: String, next_action: &str) {
        self.env.events.emit(Event { severity, object, cause, next_action: next_action.into() });
    }

    /// The pool, as events name it.
    pub fn object(&self) -> ObjectRef {
        ObjectRef::pool(self.id(), self.name().as_str())
    }

    /// A disk of it, as events name it.
    pub fn disk_object(&self, index: u16) -> ObjectRef {
        let state = self.state();
        let known = state.config.disks.get(&index);
        known.map_or_else(|| ObjectRef::named(ObjectKind::Disk, index.to_string()), DiskRecord::object)
    }

    /// A space of it, as events name it.
    pub fn space_object(&self, space: u32) -> ObjectRef {
        let (state, pool) = (self.state(), self.name());
        state.config.spaces.get(&space).map_or_else(
            || ObjectRef::named(ObjectKind::Space, format!("{pool}/{space}")),
            |known| ObjectRef::space(known.record.uuid, format!("{pool}/{}", known.record.name)),
        )
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    /// What a disk is called: its serial number, or else its path.
    pub fn disk_label(&self, index: u16) -> String {
        self.state().config.disks.get(&index).map_or_else(|| index.to_string(), |record| record.label().to_string())
    }

    pub(crate) fn draw_uuid(&self) -> Uuid {
        draw_uuid(self.env.seed, self.id.as_u128() as u64 ^ self.drawn.fetch_add(1, Ordering::Relaxed))
    }
}

/// A version 4 id from the seed that was handed in and a number that was not used before.
pub(crate) fn draw_uuid(seed: u64, number: u64) -> Uuid {
    let mix = |value: u64| {
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    let high = mix(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let low = mix(high ^ seed.rotate_left(32) ^ number);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&high.to_le_bytes());
    bytes[8..].copy_from_slice(&low.to_le_bytes());
    holdfast_model::uuid_from_random(bytes)
}

impl Pool {
    /// Why it takes no changes, where it does not.
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().expect("no panic while held").as_ref().map(|refusal| refusal.why.clone())
    }

    /// Refuses a change where it takes none, and says why and what to do.
    pub(crate) fn check_open(&self) -> Result<(), PoolError> {
        let refusal = self.refusal.lock().expect("no panic while held");
        let Some(Refusal { why, next_action, .. }) = refusal.as_ref() else { return Ok(()) };
        let text = if next_action.is_empty() { why.clone() } else { format!("{why}; {next_action}") };
        Err(PoolError::new(PoolErrorKind::ReadOnly, text))
    }

    pub(crate) fn refused(&self, what: &str) -> PoolError {
        let unknown =
            || PoolError::new(PoolErrorKind::ReadOnly, format!("pool {} refused the change of {what}", self.name()));
        self.check_open().err().unwrap_or_else(unknown)
    }

    pub(crate) fn refuse_changes(&self, why: &str) {
        self.refuse_once(Refusal { why: why.into(), next_action: self.way_out(), is_over: false, reopens: false });
    }

    /// Takes no changes any more until it is opened anew, which makes good what keeps it from going on.
    pub fn refuse_until_reopened(&self, why: &str) {
        let next_action = "it is closed and imported again; where it is not, export and import it";
        self.refuse_once(Refusal { why: why.into(), next_action, is_over: false, reopens: true });
    }

    /// Takes no changes any more, and says so, unless there is a reason already.
    fn refuse_once(&self, refusal: Refusal) {
        let mut known = self.refusal.lock().expect("no panic while held");
        if known.is_none() {
            self.emit(Severity::Error, self.object(), refusal.why.clone(), refusal.next_action);
            *known = Some(refusal);
        }
    }

    /// Whether it waits to be opened anew.
    pub fn is_to_reopen(&self) -> bool {
        self.refusal.lock().expect("no panic while held").as_ref().is_some_and(|refusal| refusal.reopens)
    }

    /// Takes no changes any more, for this reason.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        *self.refusal.lock().expect("no panic while held") = Some(refusal);
    }

    /// Whether it is in service still, as far as is known.
    pub(crate) fn may_be_lost(&self) -> bool {
        let reads_only = self.features().unknown_read_only() != 0;
        let is_over = self.refusal.lock().expect("no panic while held").as_ref().is_some_and(|refusal| refusal.is_over);
        !self.is_lost() && !reads_only && !is_over
    }

    /// What to do about it where it takes no changes.
    pub(crate) fn next_action(&self) -> &'static str {
        self.refusal.lock().expect("no panic while held").as_ref().map_or("", |refusal| refusal.next_action)
    }

    /// What to do where too few disks can be written, or a later version is needed.
    fn way_out(&self) -> &'static str {
        match self.features().unknown_read_only() {
            0 => "attach the missing disks, then export and import the pool",
            _ => "use the later version to change it",
        }
    }
}
