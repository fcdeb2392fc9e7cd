//! An I_T nexus: one session of an initiator with a device, and the way of each command.
//!
//! ```text
//!   prepare   LUN ─▶ unit, opcode ─▶ command, CDB ─▶ how much data         nothing is changed yet
//!   (the transport fills the buffer)
//!   start     reservations ─▶ attentions ─▶ access state ─▶ the command    answered, or running
//! ```
//!
//! Invariant: what may keep a command out is looked at when its data are there, so that one that waited for them is
//! kept out by what happened meanwhile.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use futures_util::future::LocalBoxFuture;
use holdfast_model::BLOCK_BYTES;

use crate::answer::{DataIn, Fault, Outcome, Response, Status};
use crate::attention::Attention;
use crate::away::Away;
use crate::cdb::Cdb;
use crate::command::{Command, Run};
use crate::commands;
use crate::copy::Proof;
use crate::device::{Device, Link, NexusState};
use crate::gate;
use crate::limits::{LIST_BYTES, PIECE_BYTES, TRANSFER_BYTES};
use crate::lun::Address;
use crate::luns;
use crate::ports::{InitiatorPort, NexusId, TargetPort};
use crate::sense::Sense;
use crate::task::{DataOut, Task, response};

/// Something that an initiator may be told before it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The field that names the unit.
    pub lun: u64,
    /// What happened, as the unit attention that waits there.
    pub sense: Sense,
}

/// A task management function (SAM-5 7). ABORT TASK is the transport's: what it drops is over by
/// [`Running::over`](crate::Running::over).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manage {
    /// Ends when what the transport has dropped of the tasks of this nexus on the unit has no effect any more.
    AbortTaskSet,
    /// Aborts the tasks of all nexuses on the unit.
    ClearTaskSet,
    /// Resets the unit.
    LogicalUnitReset,
    /// Resets all units of the device.
    TargetWarmReset,
    /// The same as after power on; the transport ends the sessions.
    TargetColdReset,
}

/// What comes of a task management function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManageAnswer {
    /// It is done.
    Complete,
    /// There is no such unit.
    NoUnit,
}

/// A command with its data from the initiator, which the transport fills in place.
pub struct Prepared {
    cdb: Cdb,
    write_len: u32,
    out: DataOut,
    goal: Goal,
}

enum Goal {
    /// The command, why it will not be served, and how often its nexus was aborted before it came.
    Unit(Arc<Link>, Option<&'static Command>, Option<Fault>, u64),
    Elsewhere(Address),
}

impl Prepared {
    /// The buffer, as long as the command wants it; that may be less or more than the initiator means to send. Empty
    /// where the command takes no data, or is not going to be served.
    pub fn data_out(&mut self) -> &mut [u8] {
        self.out.bytes_mut()
    }

    /// The most memory that its data take, those to the initiator too, who expects so many.
    pub fn most_bytes(&self, read_len: u32) -> u64 {
        let out = self.out.len() as u64;
        let Goal::Unit(link, Some(_), None, _) = &self.goal else { return out };
        let range = self.cdb.range().blocks.saturating_mul(link.unit.block_bytes());
        // What is worked through takes a piece of it, in whole blocks.
        let piece = |range: u64| PIECE_BYTES.min(range) + 2 * BLOCK_BYTES;
        match self.cdb.opcode() {
            0x0a | 0x2a | 0xaa | 0x8a if out > 0 => out,
            // No blocks are all to the end.
            0x41 | 0x93 if out > 0 => out + piece(if range == 0 { u64::MAX } else { range }),
            // What was written is held against what is read.
            0x2e | 0xae | 0x8e if out > 0 => 2 * out + piece(range),
            0x2f | 0xaf | 0x8f => out + piece(range),
            // What data are held against is read as well.
            _ if out > 0 => 2 * out,
            0x08 | 0x28 | 0xa8 | 0x88 => range.min(TRANSFER_BYTES),
            _ => read_len.min(LIST_BYTES).into(),
        }
    }
}

#[derive(Default)]
struct Remembered {
    version: u64,
    links: BTreeMap<u16, Weak<Link>>,
}

/// See the module. It lives on the thread of its connection. Dropping it is the loss of the nexus.
pub struct Nexus {
    state: Arc<NexusState>,
    remembered: RefCell<Remembered>,
}

impl Device {
    /// Connects an initiator through the port of this relative number.
    pub fn connect(self: &Arc<Self>, initiator: InitiatorPort, port: u16) -> Nexus {
        self.connect_proved(initiator, port, Proof::Nothing)
    }

    /// The same of one that proved something of itself: its copies reach the units of other devices to which it proved
    /// as much.
    pub fn connect_proved(self: &Arc<Self>, initiator: InitiatorPort, port: u16, proof: Proof) -> Nexus {
        let target = TargetPort { device: self.name().into(), relative_id: port };
        Nexus { state: self.enter(NexusId { initiator, target }, proof), remembered: RefCell::default() }
    }
}

impl Nexus {
    /// Whose commands they are, and where they come in.
    pub fn id(&self) -> &NexusId {
        &self.state.id
    }

    fn link(&self, lun: u16) -> Option<Arc<Link>> {
        let mut remembered = self.remembered.borrow_mut();
        let version = self.state.device.version();
        if remembered.version != version {
            *remembered = Remembered { version, links: BTreeMap::new() };
        }
        if let Some(link) = remembered.links.get(&lun) {
            return link.upgrade();
        }
        let links = self.state.device.links(self.state.serial());
        let link = links.into_iter().find(|link| link.lun == lun)?;
        remembered.links.insert(lun, Arc::downgrade(&link));
        Some(link)
    }

    /// What a command needs, known from its CDB alone. The lengths are those that the initiator expects to receive and
    /// to send.
    pub fn prepare(&self, lun: u64, cdb: &[u8], _read_len: u32, write_len: u32) -> Prepared {
        let cdb = Cdb::new(cdb);
        let none = DataOut::new(Default::default());
        let address = Address::parse(lun);
        let link = match address {
            Address::Unit(lun) => self.link(lun),
            _ => None,
        };
        let Some(link) = link else {
            return Prepared { cdb, write_len, out: none, goal: Goal::Elsewhere(address) };
        };
        let (command, aborts) = (commands::find(&cdb, &link.unit), link.party.aborts());
        let wanted = command.map_err(Fault::from).and_then(|command| {
            // Who is kept out need not send anything.
            gate::reserved(Some(command), &cdb, &link)?;
            command.check(&cdb)?;
            gate::protected(command, &link.unit)?;
            Ok((command.wanted)(&cdb, &link.unit)?)
        });
        let (out, fault) = match wanted {
            Ok(wanted) => (DataOut::new(wanted), None),
            Err(fault) => (none, Some(fault)),
        };
        Prepared { cdb, write_len, out, goal: Goal::Unit(link, command.ok(), fault, aborts) }
    }

    /// Serves a command, whose data are there.
    pub fn start(&self, prepared: Prepared) -> Outcome {
        let Prepared { cdb, write_len, mut out, goal } = prepared;
        let (link, command, fault, aborts) = match goal {
            Goal::Unit(link, command, fault, aborts) => (link, command, fault, aborts),
            Goal::Elsewhere(address) => {
                return Outcome::Answered(response(luns::answer(&self.state.device, self.id(), address, &cdb), false));
            }
        };
        let refused = |fault| Outcome::Answered(response(Err(fault), link.unit.mode().descriptor_sense()));
        // Before what may keep it out is looked at: who keeps it out from then on waits for the work.
        let work = link.party.work();
        if let Err(fault) = gate::pass(command, &cdb, &self.state, &link) {
            return refused(fault);
        }
        let command = match (command, fault) {
            (Some(command), None) => command,
            (_, Some(fault)) => return refused(fault),
            (None, None) => return refused(Sense::opcode().into()),
        };
        if aborts != link.party.aborts() {
            return refused(Fault::Status(Status::TaskAborted));
        }
        if let Err(fault) = gate::amount(command, &cdb, out.len(), write_len) {
            return refused(fault);
        }
        // No part of a logical block is written.
        let sent = match command.partial {
            true => write_len - write_len % link.unit.block_bytes() as u32,
            false => write_len,
        };
        out.shorten(sent as usize);
        let task = Task { nexus: self.state.clone(), cdb, out, fate: Rc::default(), work, link };
        match command.run {
            Run::Now(serve) => task.answered(serve(&task)),
            Run::Start(serve) => serve(task),
        }
    }

    /// Serves a task management function. The transport has dropped the tasks of this nexus that it names before.
    pub fn manage(&self, function: Manage, lun: u64) -> LocalBoxFuture<'_, ManageAnswer> {
        Box::pin(async move {
            let every = matches!(function, Manage::TargetWarmReset | Manage::TargetColdReset);
            let links = match Address::parse(lun) {
                _ if every => self.state.device.links(self.state.serial()),
                Address::Unit(lun) => self.link(lun).into_iter().collect(),
                _ => Vec::new(),
            };
            let away = match Address::parse(lun) {
                _ if every => self.state.device.all_away(),
                Address::Unit(lun) => self.state.device.away(lun).into_iter().collect(),
                _ => Vec::new(),
            };
            if links.is_empty() && away.is_empty() && !every {
                return ManageAnswer::NoUnit;
            }
            if !matches!(function, Manage::AbortTaskSet | Manage::ClearTaskSet) {
                away.iter().for_each(Away::reset);
            }
            let mut over = Vec::new();
            for link in &links {
                over.extend(manage_unit(function, link));
            }
            for work in over {
                work.await;
            }
            ManageAnswer::Complete
        })
    }

    /// Ends all that is under way; over when nothing of it has an effect any more.
    pub async fn quiesce(&self) {
        let links = self.state.device.links(self.state.serial());
        let over: Vec<_> = links.iter().flat_map(|link| link.party.renew()).collect();
        drop(links);
        for work in over {
            work.await;
        }
    }

    /// Something that the initiator may be told before it asks; ends when there is something. It stays for the next
    /// command to that unit to be told.
    pub async fn event(&self) -> Event {
        loop {
            self.state.bell.notified().await;
            if let Some(event) = self.take_event() {
                return event;
            }
        }
    }

    /// The same, without waiting.
    pub fn take_event(&self) -> Option<Event> {
        let links = self.state.device.links(self.state.serial());
        links.iter().find_map(|link| {
            let attention = link.party.pending().peek_urgent()?;
            Some(Event { lun: crate::lun::lun_field(link.lun), sense: attention.sense() })
        })
    }
}

fn manage_unit(function: Manage, link: &Link) -> Vec<holdfast_device::Raised> {
    let own = &link.party;
    let told = match function {
        Manage::AbortTaskSet => return own.renew(),
        Manage::ClearTaskSet => Attention::CommandsCleared,
        Manage::LogicalUnitReset => Attention::DeviceReset,
        Manage::TargetWarmReset => Attention::BusReset,
        Manage::TargetColdReset => Attention::PowerOn,
    };
    let parties = link.unit.parties();
    let reset = function != Manage::ClearTaskSet;
    if reset {
        link.unit.reset();
    }
    for party in &parties {
        if reset || !Arc::ptr_eq(party, own) {
            party.tell(told);
        }
    }
    parties.iter().flat_map(|party| party.renew()).collect()
}

impl Drop for Nexus {
    fn drop(&mut self) {
        // Copies that nobody waits for hold the nexus until they are over.
        self.state.device.links(self.state.serial()).iter().for_each(|link| link.party.copies().reset());
    }
}

impl std::fmt::Debug for Nexus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nexus").field("id", &self.state.id).finish_non_exhaustive()
    }
}

/// A command that no unit may hear of: the transport has no room for it.
pub fn task_set_full() -> Response {
    Response { status: Status::TaskSetFull, sense: None, data: DataIn::None }
}
