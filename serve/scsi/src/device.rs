//! A SCSI target device: its units by LUN, its ports, and who is connected.
//!
//! ```text
//!   Device ─ slots ─ LUN ─▶ Unit
//!      │        └─ links      one for each nexus: Nexus ─▶ Link ─▶ Unit, Party
//!      ├─ away  ─ LUN ─▶ Away    what is known of a unit that is to come back: its name, reservations, losses
//!      └─ nexuses             who is connected through which port
//! ```
//!
//! Invariants: a LUN is listed until it is removed, also while its unit is away. A unit that was removed is reached by tasks alone that had begun, and the removal ends with the last.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::BoxFuture;
use holdfast_device::Signal;
use holdfast_model::Uuid;
use tokio::sync::Notify;

use crate::attention::Attention;
use crate::away::{Away, Held};
use crate::copy::Proof;
use crate::error::ScsiError;
use crate::lun::MAX_LUN;
use crate::party::Party;
use crate::ports::{AccessState, NexusId, Port};
use crate::shared::Shared;
use crate::unit::Unit;

/// Units of a device at most.
pub const MAX_UNITS: usize = 1024;

/// Raised when a unit that was removed is used no more.
#[derive(Default)]
struct Presence(Arc<Signal>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// A nexus's way to a unit.
pub(crate) struct Link {
    pub(crate) lun: u16,
    pub(crate) unit: Arc<Unit>,
    pub(crate) party: Arc<Party>,
    /// Last, so that the unit is let go of before.
    _presence: Arc<Presence>,
}

struct Slot {
    unit: Arc<Unit>,
    links: Vec<(u64, Arc<Link>)>,
    presence: Arc<Presence>,
}

impl Slot {
    fn link(&mut self, lun: u16, nexus: &NexusState, attention: Attention) {
        let party = Party::new(nexus.id.clone(), nexus.serial, &self.unit, nexus.bell.clone());
        party.tell(attention);
        self.unit.join(&party);
        let link = Link { lun, unit: self.unit.clone(), party, _presence: self.presence.clone() };
        self.links.push((nexus.serial, Arc::new(link)));
    }

    /// Ends what is under way. The future ends when no task uses the unit.
    fn end(self) -> BoxFuture<'static, ()> {
        let gone = self.presence.0.wait();
        for (_, link) in &self.links {
            drop(link.party.renew());
        }
        Box::pin(gone)
    }
}

#[derive(Default)]
struct Table {
    slots: BTreeMap<u16, Slot>,
    /// None of them is in a slot.
    away: BTreeMap<u16, Away>,
    nexuses: Vec<Weak<NexusState>>,
    ports: Arc<[Port]>,
    next_serial: u64,
}

impl Table {
    fn state_of(&self, relative_id: u16) -> AccessState {
        let group = |id| self.ports.iter().find(|port| port.relative_id == id).map(|port| port.group);
        let Some(group) = group(relative_id) else { return AccessState::default() };
        self.ports.iter().find(|port| port.group == group).map_or_else(AccessState::default, |port| port.state)
    }

    /// Those that are connected. They must be let go of without the lock, since the last to do so takes it.
    fn nexuses(&self) -> Vec<Arc<NexusState>> {
        self.nexuses.iter().filter_map(Weak::upgrade).collect()
    }

    fn tell(&self, attention: Attention, except: Option<u64>) {
        let links = self.slots.values().flat_map(|slot| &slot.links);
        links.filter(|(serial, _)| Some(*serial) != except).for_each(|(_, link)| link.party.tell(attention));
    }
}

/// What a nexus is to its device.
pub(crate) struct NexusState {
    pub(crate) id: NexusId,
    pub(crate) device: Arc<Device>,
    pub(crate) bell: Arc<Notify>,
    serial: u64,
    access: AtomicU8,
    /// What its initiator proved when it logged in.
    pub(crate) proof: Proof,
}

impl NexusState {
    /// How well its port reaches the units now.
    pub(crate) fn access(&self) -> AccessState {
        AccessState::of_code(self.access.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// The number that no other nexus of the device has.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }
}

impl Drop for NexusState {
    fn drop(&mut self) {
        let mut table = self.device.table();
        table.nexuses.retain(|nexus| nexus.strong_count() > 0);
        for slot in table.slots.values_mut() {
            for (_, link) in slot.links.extract_if(.., |(serial, _)| *serial == self.serial) {
                link.unit.leave(&link.party);
                drop(link.party.renew());
            }
        }
        table.away.values().for_each(|away| away.left(&self.id, self.serial));
    }
}

/// See the module.
pub struct Device {
    name: String,
    shared: Arc<Shared>,
    table: Mutex<Table>,
    /// Changes with the slots.
    version: AtomicU64,
}

impl Device {
    /// A device without units or ports.
    pub fn new(name: &str, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { name: name.into(), shared, table: Mutex::default(), version: AtomicU64::new(1) })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it shares with others.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Shows a unit as `lun`.
    ///
    /// # Errors
    /// If the number is taken or beyond what can be addressed, or there are too many.
    pub fn add_unit(&self, lun: u16, unit: Arc<Unit>) -> Result<(), ScsiError> {
        if lun > MAX_LUN {
            return Err(ScsiError::Number(lun));
        }
        let mut table = self.table();
        if table.slots.contains_key(&lun) {
            return Err(ScsiError::Taken(lun));
        }
        let returns = table.away.remove(&lun).is_some_and(|away| away.id() == unit.settings().id);
        if table.slots.len() + table.away.len() >= MAX_UNITS {
            return Err(ScsiError::TooMany(MAX_UNITS));
        }
        // One that was listed all along changes nothing of the list.
        if !returns {
            table.tell(Attention::LunsChanged, None);
        }
        let mut slot = Slot { unit, links: Vec::new(), presence: Arc::default() };
        let nexuses = table.nexuses();
        nexuses.iter().for_each(|nexus| slot.link(lun, nexus, Attention::PowerOn));
        table.slots.insert(lun, slot);
        self.version.fetch_add(1, Ordering::Release);
        // A nexus that has just ended leaves the table when it is let go of here.
        drop(table);
        drop(nexuses);
        Ok(())
    }

    /// Shows it no more. The future ends when no task uses it; a number that is free ends it at once.
    pub fn remove_unit(&self, lun: u16) -> BoxFuture<'static, ()> {
        let mut table = self.table();
        let slot = table.slots.remove(&lun);
        if table.away.remove(&lun).is_some() || slot.is_some() {
            self.version.fetch_add(1, Ordering::Release);
            table.tell(Attention::LunsChanged, None);
        }
        drop(table);
        let Some(slot) = slot else { return Box::pin(async {}) };
        for (_, link) in &slot.links {
            link.unit.leave(&link.party);
        }
        slot.end()
    }

    /// Takes a unit out of service that is to come back: its LUN stays, and is not ready. The future ends when no task
    /// uses the unit any more.
    pub fn suspend_unit(&self, lun: u16) -> BoxFuture<'static, ()> {
        let mut table = self.table();
        let Some(slot) = table.slots.remove(&lun) else { return Box::pin(async {}) };
        self.version.fetch_add(1, Ordering::Release);
        slot.links.iter().for_each(|(_, link)| slot.unit.leave_for_now(&link.party));
        table.away.insert(lun, Away::new(slot.unit.settings().id, Some(slot.unit.held())));
        drop(table);
        slot.end()
    }

    /// Says which LUNs have units at all, here or away. Those that are neither yet are away from now on, and what was
    /// known of others that are away is forgotten; units in service stay.
    pub fn set_luns(&self, luns: &BTreeMap<u16, Uuid>) {
        let mut table = self.table();
        let before: Vec<u16> = table.away.keys().copied().collect();
        table.away.retain(|lun, away| luns.get(lun) == Some(&away.id()));
        for (lun, id) in luns.iter().filter(|(lun, _)| **lun <= MAX_LUN) {
            if !table.slots.contains_key(lun) && table.slots.len() + table.away.len() < MAX_UNITS {
                table.away.entry(*lun).or_insert_with(|| Away::new(*id, None));
            }
        }
        if table.away.keys().copied().ne(before) {
            table.tell(Attention::LunsChanged, None);
        }
    }

    /// What stays of a unit that is away, for the unit that takes its place.
    pub fn held(&self, lun: u16, id: Uuid) -> Option<Held> {
        self.table().away.get(&lun).filter(|away| away.id() == id)?.held()
    }

    /// Says whether a unit that is away comes back by itself, or is left until somebody does something about it.
    pub fn set_left(&self, lun: u16, is_left: bool) {
        self.table().away.get_mut(&lun).into_iter().for_each(|away| away.set_left(is_left));
    }

    /// Forgets the reservations of a unit that is away: from now on, what was kept of them counts.
    pub fn forget_reservations(&self, lun: u16) {
        self.table().away.get_mut(&lun).into_iter().for_each(Away::forget_reservations);
    }

    /// What is known of a unit that is away.
    pub(crate) fn away(&self, lun: u16) -> Option<Away> {
        self.table().away.get(&lun).cloned()
    }

    /// Those of all.
    pub(crate) fn all_away(&self) -> Vec<Away> {
        self.table().away.values().cloned().collect()
    }

    /// Its units by number.
    pub fn units(&self) -> Vec<(u16, Arc<Unit>)> {
        self.table().slots.iter().map(|(lun, slot)| (*lun, slot.unit.clone())).collect()
    }

    /// Its LUNs.
    pub(crate) fn luns(&self) -> Vec<u16> {
        let table = self.table();
        let mut luns: Vec<u16> = table.slots.keys().chain(table.away.keys()).copied().collect();
        luns.sort_unstable();
        luns
    }

    /// The ports that it has from now on. Where that changes how well a nexus reaches the units, it is told.
    pub fn set_ports(&self, ports: Vec<Port>) {
        self.change_ports(ports.into(), None);
    }

    fn change_ports(&self, ports: Arc<[Port]>, except: Option<u64>) {
        let mut table = self.table();
        let states =
            |ports: &[Port]| ports.iter().map(|port| (port.relative_id, port.group, port.state)).collect::<Vec<_>>();
        let changed = !table.ports.is_empty() && states(&table.ports) != states(&ports);
        table.ports = ports;
        let nexuses = table.nexuses();
        for nexus in &nexuses {
            nexus.access.store(table.state_of(nexus.id.target.relative_id).code(), Ordering::Relaxed);
        }
        if changed {
            table.tell(Attention::AccessStateChanged, except);
        }
        drop(table);
        drop(nexuses);
    }

    /// Its ports.
    pub fn ports(&self) -> Arc<[Port]> {
        self.table().ports.clone()
    }

    /// Puts groups of ports into other states, as the nexus of this serial number asked for, which is not told.
    pub(crate) fn set_states(&self, states: &[(u16, AccessState)], by: u64) {
        let mut ports = self.ports().to_vec();
        for port in &mut ports {
            if let Some((_, state)) = states.iter().find(|(group, _)| *group == port.group) {
                port.state = *state;
            }
        }
        self.change_ports(ports.into(), Some(by));
    }

    /// Connects a nexus.
    pub(crate) fn enter(self: &Arc<Self>, id: NexusId, proof: Proof) -> Arc<NexusState> {
        let mut table = self.table();
        table.next_serial += 1;
        let access = AtomicU8::new(table.state_of(id.target.relative_id).code());
        let serial = table.next_serial;
        let nexus = Arc::new(NexusState { id, device: self.clone(), bell: Arc::default(), serial, access, proof });
        table.nexuses.push(Arc::downgrade(&nexus));
        table.slots.iter_mut().for_each(|(lun, slot)| slot.link(*lun, &nexus, Attention::PowerOn));
        drop(table);
        let known: Arc<dyn Any + Send + Sync> = nexus.clone();
        self.shared.copies().proofs.enter(&nexus.id.initiator.name, proof, Arc::downgrade(&known));
        nexus
    }

    /// The ways of a nexus to all units.
    pub(crate) fn links(&self, serial: u64) -> Vec<Arc<Link>> {
        let table = self.table();
        let links = table.slots.values().flat_map(|slot| &slot.links);
        links.filter(|(of, _)| *of == serial).map(|(_, link)| link.clone()).collect()
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}
