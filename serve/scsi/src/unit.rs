//! A logical unit: one for each LUN of the product, shared by every session, portal and target that reaches it.
//!
//! ```text
//!   Unit ─▶ Target (serve/block)
//!    ├─ parties        who is to be told of what happens to it
//!    ├─ mode           what MODE SELECT changes
//!    ├─ reservations   who may do what
//!    ├─ losses         which answered writes are gone, and who has yet to hear of it
//!    └─ room           how full the ground below is
//! ```
//!
//! Invariant: whatever changes a unit for its initiators tells each nexus by a unit attention.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::BoxFuture;
use holdfast_block::Target;
use holdfast_model::Uuid;

use crate::attention::Attention;
use crate::away::Held;
use crate::losses::Losses;
use crate::mode::{self, Mode};
use crate::party::Party;
use crate::ports::NexusId;
use crate::reservations::{ReservationView, Reservations};
use crate::shared::Shared;

/// Room is counted in sets of so many bytes.
pub(crate) const ROOM_SET_BYTES: u64 = 1 << 20;

/// The blocks that initiators address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LogicalBlocks {
    /// 512 bytes, and physically too.
    B512,
    /// 512 bytes, of which eight make a physical block.
    #[default]
    B512e,
    /// 4096 bytes.
    B4096,
}

impl LogicalBlocks {
    /// The size of a logical block.
    pub fn bytes(self) -> u64 {
        match self {
            Self::B512 | Self::B512e => 512,
            Self::B4096 => 4096,
        }
    }

    /// Logical blocks in a physical one, as a power of two.
    pub fn per_physical_exponent(self) -> u8 {
        match self {
            Self::B512e => 3,
            Self::B512 | Self::B4096 => 0,
        }
    }
}

/// What a unit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSettings {
    /// The same over restarts: serial number and names come from it.
    pub id: Uuid,
    /// For people: a space or a file of a volume.
    pub name: String,
    /// What initiators address.
    pub blocks: LogicalBlocks,
    /// Whether room is given back and used as needed.
    pub thin: bool,
}

/// How full the ground of a unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that the unit takes.
    pub used_bytes: u64,
    /// Bytes that it can still take.
    pub available_bytes: u64,
    /// Initiators are told when so much of both is used; 0: never.
    pub threshold_percent: u8,
}

impl Room {
    /// Whether so much is used that initiators are told.
    pub fn is_crossed(&self) -> bool {
        let all = u128::from(self.used_bytes) + u128::from(self.available_bytes);
        self.threshold_percent > 0 && u128::from(self.used_bytes) * 100 >= all * u128::from(self.threshold_percent)
    }
}

/// What is given back of a unit, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Provisioning {
    /// Whether anything is.
    pub(crate) is_thin: bool,
    /// In units of this size.
    pub(crate) granularity_bytes: u64,
    /// Whether it reads as zeros then.
    pub(crate) reads_zeros: bool,
}

/// See the module.
pub struct Unit {
    settings: UnitSettings,
    target: Arc<Target>,
    shared: Arc<Shared>,
    size_bytes: AtomicU64,
    read_only: bool,
    provisioning: Provisioning,
    mode: Mode,
    /// Outlive it where it is only away.
    reservations: Arc<Reservations>,
    losses: Arc<Losses>,
    parties: Mutex<Vec<Weak<Party>>>,
    room: Mutex<Option<Room>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Unit {
    /// The unit of `target`.
    pub fn new(settings: UnitSettings, target: Arc<Target>, shared: &Arc<Shared>) -> Arc<Self> {
        Self::resumed(settings, target, shared, None)
    }

    /// The same of one that was away, which has the reservations that it had, and the losses that nexuses have yet to
    /// hear of.
    pub fn resumed(settings: UnitSettings, target: Arc<Target>, shared: &Arc<Shared>, held: Option<Held>) -> Arc<Self> {
        let info = target.info();
        let (reservations, losses) = held.map(|held| (held.reservations, held.losses)).unwrap_or_default();
        losses.follow(target.object().losses().clone());
        let provisioning = Provisioning {
            is_thin: settings.thin && info.discard.is_some(),
            granularity_bytes: info.discard.map_or(0, |discard| discard.granularity_bytes),
            reads_zeros: info.discard.is_some_and(|discard| discard.reads_zeros),
        };
        Arc::new(Self {
            settings,
            target,
            shared: shared.clone(),
            size_bytes: AtomicU64::new(info.geometry.size_bytes),
            read_only: info.read_only,
            provisioning,
            mode: Mode::default(),
            reservations: reservations.unwrap_or_default(),
            losses,
            parties: Mutex::default(),
            room: Mutex::default(),
        })
    }

    /// What it is.
    pub fn settings(&self) -> &UnitSettings {
        &self.settings
    }

    /// What it stands on.
    pub fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// What it shares with all others.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Bytes in a logical block.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.settings.blocks.bytes()
    }

    /// Logical blocks that initiators know of.
    pub(crate) fn capacity(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed) / self.block_bytes()
    }

    /// Whether it was made to be read only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// What MODE SELECT changes.
    pub(crate) fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Who has reserved it.
    pub(crate) fn table(&self) -> &Reservations {
        &self.reservations
    }

    /// What the next unit of its id takes over. No reservations where nobody knows who may do what.
    pub(crate) fn held(&self) -> Held {
        let reservations = (!self.reservations.is_unreadable()).then(|| self.reservations.clone());
        Held { reservations, losses: self.losses.clone() }
    }

    /// It was taken out of service with answered writes that could not be made durable.
    pub fn note_loss(&self) {
        self.losses.add();
    }

    /// Which answered writes are lost.
    pub(crate) fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    /// Of how many losses a nexus knows that begins.
    pub(crate) fn losses_known_to(&self, nexus: &NexusId) -> u64 {
        let parties = self.parties();
        let own = parties.iter().filter(|party| party.id().initiator.name == nexus.initiator.name);
        self.losses.begins(nexus, own.map(|party| party.knew_of_losses()))
    }

    /// What is given back of it.
    pub(crate) fn provisioning(&self) -> Provisioning {
        self.provisioning
    }

    /// Room is counted in sets of so many logical blocks, as a power of two: 1 MiB.
    pub(crate) fn threshold_exponent(&self) -> u8 {
        (ROOM_SET_BYTES / self.block_bytes()).trailing_zeros() as u8
    }

    /// Takes back what does not outlive a reset.
    pub(crate) fn reset(&self) {
        self.reservations.release(None);
        self.mode.set(mode::DEFAULT);
    }

    /// The size of what it stands on has changed: initiators see the new one from now on.
    pub fn size_changed(&self) {
        let size = self.target.info().geometry.size_bytes;
        if self.size_bytes.swap(size, Ordering::SeqCst) != size {
            self.tell_all(Attention::CapacityChanged);
        }
    }

    /// Says how full its ground is.
    pub fn set_room(&self, room: Option<Room>) {
        let before = std::mem::replace(&mut *lock(&self.room), room);
        let crossed = |room: Option<Room>| room.is_some_and(|room| room.is_crossed());
        if crossed(room) && !crossed(before) {
            self.tell_all(Attention::ThinThreshold);
        }
    }

    /// How full its ground is, if that was said.
    pub fn room(&self) -> Option<Room> {
        *lock(&self.room)
    }

    /// Who is registered, and what is reserved.
    pub fn reservations(&self) -> ReservationView {
        self.reservations.view()
    }

    /// Forgets all registrations and reservations of both kinds, where they are kept too. Who was registered is told.
    pub fn clear_reservations(self: &Arc<Self>) -> BoxFuture<'static, Result<(), String>> {
        let unit = self.clone();
        Box::pin(async move {
            let _turn = unit.reservations.turn().await;
            unit.shared.keeper().keep(unit.settings.id, None).await?;
            let registered = unit.reservations.clear();
            let parties = unit.parties();
            let told = parties.iter().filter(|party| registered.contains(party.id()));
            told.for_each(|party| party.tell(Attention::ReservationsPreempted));
            Ok(())
        })
    }

    /// Takes back what was kept.
    ///
    /// # Errors
    /// If it cannot be read. The unit is not ready then until its reservations are cleared.
    pub fn restore_reservations(&self, kept: &[u8]) -> Result<(), String> {
        self.reservations.restore(kept)
    }

    /// A nexus has left it: what it had reserved by the older command is free, and who follows it hears of the losses that
    /// it may not have heard of.
    pub(crate) fn leave(&self, party: &Party) {
        self.reservations.release(Some(party));
        self.losses.ended(party.id(), party.knew_of_losses());
    }

    /// It is taken from a nexus that stays, and gets its next unit.
    pub(crate) fn leave_for_now(&self, party: &Party) {
        self.losses.ended(party.id(), party.knew_of_losses());
    }

    pub(crate) fn join(&self, party: &Arc<Party>) {
        let mut parties = lock(&self.parties);
        parties.retain(|party| party.strong_count() > 0);
        parties.push(Arc::downgrade(party));
    }

    /// Everybody who is connected to it, through whatever target.
    pub(crate) fn parties(&self) -> Vec<Arc<Party>> {
        lock(&self.parties).iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn tell_others(&self, party: &Arc<Party>, attention: Attention) {
        self.parties().iter().filter(|other| !Arc::ptr_eq(other, party)).for_each(|other| other.tell(attention));
    }

    pub(crate) fn tell_all(&self, attention: Attention) {
        self.parties().iter().for_each(|party| party.tell(attention));
    }
}

impl std::fmt::Debug for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unit").field("settings", &self.settings).finish_non_exhaustive()
    }
}
