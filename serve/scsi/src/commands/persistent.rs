//! PERSISTENT RESERVE IN and OUT (SPC-4 6.15, 6.16).
//!
//! Invariant: a list is read to its end before anything changes, and what is answered as done is in force and kept.

use crate::answer::{Answer, DataIn, Fault, Outcome, Status};
use crate::cdb::Cdb;
use crate::command::{Command, Conflict, Reach, Run};
use crate::limits::LIST_BYTES;
use crate::ports::{InitiatorPort, NexusId, TargetPort};
use crate::reservations::kept::{self, KEPT_BYTES};
use crate::reservations::kind::Kind;
use crate::reservations::state::{Action, State, not_kept};
use crate::sense::{Sense, code};
use crate::task::{Task, Wanted, cut};
use crate::unit::Unit;

const fn reads(usage: &'static [u8], action: u16, serve: fn(&Task) -> Answer) -> Command {
    Command::new(usage, Run::Now(serve)).action(action).conflict(Conflict::Reserved).reach(Reach::Standby)
}

const fn changes(usage: &'static [u8], action: u16) -> Command {
    Command::new(usage, Run::Start(reserve_out))
        .action(action)
        .conflict(Conflict::Reserved)
        .reach(Reach::Standby)
        .wanted(wanted)
}

pub(crate) const COMMANDS: &[Command] = &[
    reads(&[0x5e, 0x00, 0, 0, 0, 0, 0, 0xff, 0xff, 0], 0, read_keys),
    reads(&[0x5e, 0x01, 0, 0, 0, 0, 0, 0xff, 0xff, 0], 1, read_reservation),
    reads(&[0x5e, 0x02, 0, 0, 0, 0, 0, 0xff, 0xff, 0], 2, report_capabilities),
    reads(&[0x5e, 0x03, 0, 0, 0, 0, 0, 0xff, 0xff, 0], 3, read_full_status),
    changes(&[0x5f, 0x00, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], REGISTER),
    changes(&[0x5f, 0x01, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], RESERVE),
    changes(&[0x5f, 0x02, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], RELEASE),
    changes(&[0x5f, 0x03, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], CLEAR),
    changes(&[0x5f, 0x04, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], PREEMPT),
    changes(&[0x5f, 0x05, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], PREEMPT_AND_ABORT),
    changes(&[0x5f, 0x06, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], REGISTER_AND_IGNORE),
    changes(&[0x5f, 0x07, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0], REGISTER_AND_MOVE),
];

const REGISTER: u16 = 0;
const RESERVE: u16 = 1;
const RELEASE: u16 = 2;
const CLEAR: u16 = 3;
const PREEMPT: u16 = 4;
const PREEMPT_AND_ABORT: u16 = 5;
const REGISTER_AND_IGNORE: u16 = 6;
const REGISTER_AND_MOVE: u16 = 7;

/// Bytes of a list without TransportIDs.
const PLAIN_LIST: u32 = 24;

fn wanted(cdb: &Cdb, _: &Unit) -> Result<Wanted, Sense> {
    match cdb.u32(5) {
        len if !(PLAIN_LIST..=LIST_BYTES).contains(&len) => Err(Sense::list_length()),
        len => Ok(Wanted::list(len as usize)),
    }
}

fn state(task: &Task) -> State {
    task.unit().table().persistent()
}

fn with_head(state: &State, body: &[u8]) -> Vec<u8> {
    let mut bytes = state.generation.to_be_bytes().to_vec();
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn allowed(task: &Task) -> usize {
    task.cdb.u16(7).into()
}

fn read_keys(task: &Task) -> Answer {
    let state = state(task);
    let keys: Vec<u8> = state.registrants.iter().flat_map(|one| one.key.to_be_bytes()).collect();
    cut(with_head(&state, &keys), allowed(task))
}

fn read_reservation(task: &Task) -> Answer {
    let state = state(task);
    let mut body = Vec::new();
    if let Some(held) = &state.held {
        let key = held.holder.as_ref().and_then(|holder| state.key_of(holder)).unwrap_or(0);
        body.extend(key.to_be_bytes());
        body.extend([0, 0, 0, 0, 0, held.kind as u8, 0, 0]);
    }
    cut(with_head(&state, &body), allowed(task))
}

fn report_capabilities(task: &Task) -> Answer {
    // Named initiators, all target ports, power loss; and whether that is on. Every type.
    let activated = u8::from(state(task).aptpl);
    cut(vec![0, 8, 0x0d, 0x80 | activated, 0xea, 0x01, 0, 0], allowed(task))
}

fn read_full_status(task: &Task) -> Answer {
    let state = state(task);
    let mut body = Vec::new();
    for one in &state.registrants {
        let holder = state.part_of(&one.nexus) == crate::reservations::kind::Part::Holder;
        let kind = state.held.as_ref().filter(|_| holder).map_or(0, |held| held.kind as u8);
        let id = one.nexus.initiator.transport_id();
        body.extend(one.key.to_be_bytes());
        body.extend([0, 0, 0, 0, u8::from(holder), kind, 0, 0, 0, 0]);
        body.extend(one.nexus.target.relative_id.to_be_bytes());
        body.extend((id.len() as u32).to_be_bytes());
        body.extend(id);
    }
    cut(with_head(&state, &body), allowed(task))
}

/// Type and scope from the CDB, which must be those of a unit.
fn kind(cdb: &Cdb) -> Result<Kind, Sense> {
    match cdb.u8(2) >> 4 {
        0 => Kind::of_code(cdb.u8(2) & 0x0f).ok_or(Sense::cdb_bit(2, 3)),
        _ => Err(Sense::cdb_bit(2, 7)),
    }
}

fn u64_at(list: &[u8], at: usize) -> u64 {
    list.get(at..at + 8).map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap_or_default()))
}

fn u32_at(list: &[u8], at: usize) -> u32 {
    list.get(at..at + 4).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap_or_default()))
}

/// What a command asks for.
fn action(task: &Task, list: &[u8]) -> Result<Action, Sense> {
    let (cdb, new_key) = (&task.cdb, u64_at(list, 8));
    let service = cdb.action();
    if service == REGISTER_AND_MOVE {
        return move_action(task, list, new_key);
    }
    let flags = list.get(20).copied().unwrap_or(0);
    let (names_initiators, all_ports, aptpl) = (flags & 0x08 != 0, flags & 0x04 != 0, flags & 0x01 != 0);
    if names_initiators && service != REGISTER {
        return Err(Sense::list_bit(20, 3));
    }
    if !names_initiators && list.len() != PLAIN_LIST as usize {
        return Err(Sense::list_length());
    }
    Ok(match service {
        REGISTER | REGISTER_AND_IGNORE => {
            let id = &task.nexus.id;
            let ports = if all_ports { on_all_ports(task, &id.initiator) } else { vec![id.clone()] };
            let named = if names_initiators { named(task, list, all_ports)? } else { Vec::new() };
            Action::Register { ignore: service == REGISTER_AND_IGNORE, new_key, aptpl, ports, named }
        }
        RESERVE => Action::Reserve(kind(cdb)?),
        RELEASE => Action::Release(kind(cdb)?),
        CLEAR => Action::Clear,
        _ => Action::Preempt { kind: kind(cdb)?, victim: new_key, abort: service == PREEMPT_AND_ABORT },
    })
}

fn on_all_ports(task: &Task, initiator: &InitiatorPort) -> Vec<NexusId> {
    let ports = task.nexus.device.ports();
    let own = task.nexus.id.target.relative_id;
    let others = ports.iter().map(|port| port.relative_id).filter(|id| *id != own);
    let device = task.nexus.device.name();
    let target = |relative_id| TargetPort { device: device.to_owned(), relative_id };
    let nexus = |id| NexusId { initiator: initiator.clone(), target: target(id) };
    [own].into_iter().chain(others).map(nexus).collect()
}

/// The initiators that a list names, each with the port of the command or with all.
fn named(task: &Task, list: &[u8], all_ports: bool) -> Result<Vec<NexusId>, Sense> {
    let len = u32_at(list, 24) as usize;
    if list.len() < 28 || len != list.len() - 28 {
        return Err(Sense::list_length());
    }
    let (mut at, mut found) = (28, Vec::new());
    while at < list.len() {
        let taken = InitiatorPort::take_transport_id(&list[at..]);
        let Some((name, Some(isid), len)) = taken else { return Err(Sense::list(at)) };
        let initiator = InitiatorPort { name, isid };
        match all_ports {
            true => found.extend(on_all_ports(task, &initiator)),
            false => found.push(NexusId { initiator, target: task.nexus.id.target.clone() }),
        }
        at += len;
    }
    found.sort();
    found.dedup();
    found.retain(|one| *one != task.nexus.id);
    Ok(found)
}

fn move_action(task: &Task, list: &[u8], new_key: u64) -> Result<Action, Sense> {
    let flags = list.get(17).copied().unwrap_or(0);
    let relative_id = (u32_at(list, 16) & 0xffff) as u16;
    if u32_at(list, 20) as usize != list.len() - PLAIN_LIST as usize {
        return Err(Sense::list_length());
    }
    let Some((name, Some(isid), len)) = InitiatorPort::take_transport_id(&list[24..]) else {
        return Err(Sense::list(24));
    };
    if 24 + len != list.len() {
        return Err(Sense::list_length());
    }
    if !task.nexus.device.ports().iter().any(|port| port.relative_id == relative_id) {
        return Err(Sense::list(18));
    }
    let target = TargetPort { device: task.nexus.device.name().to_owned(), relative_id };
    let to = NexusId { initiator: InitiatorPort { name, isid }, target };
    Ok(Action::Move { new_key, unregister: flags & 0x02 != 0, aptpl: flags & 0x01 != 0, to })
}

fn reserve_out(task: Task) -> Outcome {
    task.changing(serve_out)
}

async fn serve_out(task: Task) -> Answer {
    let (unit, list) = (task.unit().clone(), task.out.bytes());
    let (key, action) = (u64_at(list, 0), action(&task, list)?);
    let turn = unit.table().turn().await;
    if task.is_given_up() {
        return Err(Fault::Status(Status::TaskAborted));
    }
    if unit.table().has_older() {
        return Err(Fault::Status(Status::ReservationConflict));
    }
    let before = unit.table().persistent();
    let mut next = before.clone();
    let effects = next.apply(&task.nexus.id, key, &action)?;
    if next != before && (next.aptpl || before.aptpl) {
        let kept = next.aptpl.then(|| kept::encode(&next));
        if kept.as_ref().is_some_and(|kept| kept.len() > KEPT_BYTES) {
            return Err(Sense::illegal(code::INSUFFICIENT_REGISTRATION_RESOURCES).into());
        }
        if let Err(error) = unit.shared().keeper().keep(unit.settings().id, kept).await {
            tracing::warn!(unit = unit.settings().name, error, "a change of reservations could not be kept");
            return Err(not_kept());
        }
    }
    unit.table().set_persistent(next);
    // Those who are waited for below may wait for their turn.
    drop(turn);
    let (mut over, parties) = (Vec::new(), unit.parties());
    for (nexus, attention) in &effects.tell {
        parties.iter().filter(|party| party.id() == nexus).for_each(|party| party.tell(*attention));
    }
    for party in parties.iter().filter(|party| effects.abort.contains(party.id())) {
        over.extend(party.renew());
    }
    for work in over {
        work.await;
    }
    Ok(DataIn::None)
}
