//! LOG SENSE (SPC-4 6.8, SBC-3 6.4.5).
//!
//! ```text
//!   00    the pages
//!   0C    room that the unit can take and that it takes, in sets of 1 MiB
//! ```

use crate::answer::Answer;
use crate::command::{Command, Conflict, Reach, Run};
use crate::sense::Sense;
use crate::task::{Task, cut};
use crate::unit::{ROOM_SET_BYTES, Room};

pub(crate) const COMMANDS: &[Command] =
    &[Command::new(&[0x4d, 0, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0], Run::Now(log_sense))
        .conflict(Conflict::Reserved)
        .reach(Reach::Standby)];

const PROVISIONING: u8 = 0x0c;
const AVAILABLE: u16 = 1;
const USED: u16 = 2;

fn log_sense(task: &Task) -> Answer {
    let (page, sub, first) = (task.cdb.u8(2) & 0x3f, task.cdb.u8(3), task.cdb.u16(5));
    let room = task.unit().room().filter(|_| task.unit().provisioning().is_thin);
    let pages = || [0].into_iter().chain(room.map(|_| PROVISIONING));
    let body: Vec<u8> = match (page, sub, room) {
        (0, 0, _) => pages().collect(),
        (0, 0xff, _) => pages().flat_map(|page| [page, 0]).chain([0, 0xff]).collect(),
        (PROVISIONING, 0, Some(room)) => {
            if first > USED {
                return Err(Sense::cdb(5).into());
            }
            parameters(room, first)
        }
        (PROVISIONING | 0, ..) => return Err(Sense::cdb(3).into()),
        _ => return Err(Sense::cdb_bit(2, 5).into()),
    };
    let mut bytes = vec![page | if sub > 0 { 0x40 } else { 0 }, sub];
    bytes.extend((body.len() as u16).to_be_bytes());
    bytes.extend(body);
    cut(bytes, task.cdb.u16(7).into())
}

/// The parameters from `first` on.
fn parameters(room: Room, first: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (code, value) in [(AVAILABLE, room.available_bytes), (USED, room.used_bytes)] {
        if code >= first {
            let count = u32::try_from(value / ROOM_SET_BYTES).unwrap_or(u32::MAX);
            bytes.extend(code.to_be_bytes());
            bytes.extend([0x03, 8]);
            bytes.extend(count.to_be_bytes());
            // Room is shared by all that stand on the same pool.
            bytes.extend([0x02, 0, 0, 0]);
        }
    }
    bytes
}
