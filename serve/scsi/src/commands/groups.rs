//! REPORT TARGET PORT GROUPS and SET TARGET PORT GROUPS (SPC-4 6.37, 6.45).
//!
//! Invariant: a list is read to its end before any group changes its state.

use crate::answer::{Answer, DataIn};
use crate::cdb::Cdb;
use crate::command::{Command, Conflict, Reach, Run};
use crate::limits::LIST_BYTES;
use crate::ports::{AccessState, Port};
use crate::sense::Sense;
use crate::task::{Task, Wanted, cut};
use crate::unit::Unit;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(&[0xa3, 0xea, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], Run::Now(report))
        .action(0x0a)
        .conflict(Conflict::Never)
        .reach(Reach::Everywhere),
    Command::new(&[0xa4, 0x0a, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], Run::Now(set))
        .action(0x0a)
        .reach(Reach::Everywhere)
        .wanted(wanted),
];

/// All four states can be had.
const SUPPORTED: u8 = 0x0f;

/// Groups in the order of their numbers, each with its ports.
fn groups(ports: &[Port]) -> Vec<(u16, AccessState, Vec<u16>)> {
    let mut groups: Vec<(u16, AccessState, Vec<u16>)> = Vec::new();
    for port in ports {
        match groups.iter_mut().find(|(group, ..)| *group == port.group) {
            Some((_, _, ports)) => ports.push(port.relative_id),
            None => groups.push((port.group, port.state, vec![port.relative_id])),
        }
    }
    groups.sort_by_key(|(group, ..)| *group);
    groups
}

fn report(task: &Task) -> Answer {
    let mut body = Vec::new();
    match task.cdb.u8(1) >> 5 {
        0 => {}
        // The extended header: no time is known that a change of states takes.
        1 => body.extend([0x10, 0, 0, 0]),
        _ => return Err(Sense::cdb_bit(1, 7).into()),
    }
    for (group, state, ports) in groups(&task.nexus.device.ports()) {
        body.extend([state.code(), SUPPORTED]);
        body.extend(group.to_be_bytes());
        body.extend([0, 0, 0, ports.len().min(255) as u8]);
        for relative_id in ports.into_iter().take(255) {
            body.extend([0, 0]);
            body.extend(relative_id.to_be_bytes());
        }
    }
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend(body);
    cut(bytes, task.cdb.u32(6) as usize)
}

fn wanted(cdb: &Cdb, _: &Unit) -> Result<Wanted, Sense> {
    match cdb.u32(6) {
        0 => Ok(Wanted::default()),
        len if !(4..=LIST_BYTES).contains(&len) || len % 4 != 0 => Err(Sense::list_length()),
        len => Ok(Wanted::list(len as usize)),
    }
}

fn set(task: &Task) -> Answer {
    let device = &task.nexus.device;
    let (list, ports) = (task.out.bytes(), device.ports());
    let (descriptors, _) = list.get(4..).unwrap_or_default().as_chunks::<4>();
    let mut states = Vec::with_capacity(descriptors.len());
    for (number, [state, _, high, low]) in descriptors.iter().enumerate() {
        let (at, group) = (4 + 4 * number, u16::from_be_bytes([*high, *low]));
        let state = AccessState::of_code(state & 0x0f).ok_or(Sense::list_bit(at, 3))?;
        if !ports.iter().any(|port| port.group == group) {
            return Err(Sense::list(at + 2).into());
        }
        states.push((group, state));
    }
    if !states.is_empty() {
        device.set_states(&states, task.nexus.serial());
    }
    Ok(DataIn::None)
}
