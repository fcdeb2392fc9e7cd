//! MODE SENSE and MODE SELECT (SPC-4 6.11 to 6.14, 7.5; SBC-3 6.5).
//!
//! ```text
//!   header | block descriptor | pages: 01 error recovery, 08 caching, 0A control, 1C/00 exceptions, 1C/02 thin thresholds
//! ```
//!
//! Invariants: what a page shows as changeable can be changed, and anything else in it cannot: a list that tries is
//! refused as a whole. Where the write cache is off when MODE SELECT is answered, all that was answered is durable.

use crate::answer::{Answer, DataIn, Outcome};
use crate::attention::Attention;
use crate::cdb::Cdb;
use crate::command::{Command, Conflict, Reach, Run};
use crate::mode::{self, DESCRIPTOR_SENSE, WRITE_CACHE, WRITE_PROTECT};
use crate::sense::{Sense, code};
use crate::task::{Task, Wanted, cut};
use crate::unit::{ROOM_SET_BYTES, Unit};

const SENSE: Command = Command::new(&[0], Run::Now(mode_sense)).conflict(Conflict::Reads).reach(Reach::Standby);
const SELECT: Command = Command::new(&[0], Run::Start(mode_select)).reach(Reach::Standby).wanted(wanted);

pub(crate) const COMMANDS: &[Command] = &[
    Command { opcode: 0x1a, usage: &[0x1a, 0x08, 0xff, 0xff, 0xff, 0], ..SENSE },
    Command { opcode: 0x5a, usage: &[0x5a, 0x18, 0xff, 0xff, 0, 0, 0, 0xff, 0xff, 0], ..SENSE },
    Command { opcode: 0x15, usage: &[0x15, 0x11, 0, 0, 0xff, 0], ..SELECT },
    Command { opcode: 0x55, usage: &[0x55, 0x11, 0, 0, 0, 0, 0, 0xff, 0xff, 0], ..SELECT },
];

/// Which values of a page are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Current,
    Changeable,
    Default,
}

const ALL_PAGES: u8 = 0x3f;
const ALL_SUBPAGES: u8 = 0xff;
const PAGES: [(u8, u8); 5] = [(0x01, 0), (0x08, 0), (0x0a, 0), (0x1c, 0), (0x1c, 2)];

fn is_short(cdb: &Cdb) -> bool {
    cdb.opcode() >> 5 == 0
}

/// One page with its header.
fn page(unit: &Unit, code: (u8, u8), values: Values) -> Option<Vec<u8>> {
    let changeable = values == Values::Changeable;
    let flags = match values {
        Values::Current => unit.mode().flags(),
        Values::Changeable => WRITE_CACHE | WRITE_PROTECT | DESCRIPTOR_SENSE,
        Values::Default => mode::DEFAULT,
    };
    let bit = |flag: u8, bit: u8| if flags & flag != 0 { bit } else { 0 };
    let fixed = |value: u8| if changeable { 0 } else { value };
    Some(match code {
        (0x01, 0) => {
            // Faults are repaired in place; thresholds are told.
            let mut page = vec![0x01, 0x0a, fixed(0xc0), 0, 0, 0, 0, fixed(0x80), 0, 0, 0, 0];
            page.truncate(12);
            page
        }
        (0x08, 0) => {
            let mut page = vec![0; 20];
            page[..3].copy_from_slice(&[0x08, 0x12, bit(WRITE_CACHE, 0x04)]);
            page
        }
        (0x0a, 0) => {
            let mut page = vec![0x0a, 0x0a, fixed(0x02) | bit(DESCRIPTOR_SENSE, 0x04), fixed(0x10)];
            page.extend([bit(WRITE_PROTECT, 0x08), fixed(0x40), 0, 0, fixed(0xff), fixed(0xff), 0, 0]);
            page
        }
        (0x1c, 0) => vec![0x1c, 0x0a, fixed(0x08), 0, 0, 0, 0, 0, 0, 0, 0, 0],
        (0x1c, 2) if unit.provisioning().is_thin => thresholds(unit, changeable),
        _ => return None,
    })
}

/// The page of thresholds: one, of available room that falls, where one was set.
fn thresholds(unit: &Unit, changeable: bool) -> Vec<u8> {
    let mut page = vec![0x5c, 0x02, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let Some(room) = unit.room().filter(|room| room.threshold_percent > 0) else { return page };
    page[3] = 20;
    let all = room.used_bytes.saturating_add(room.available_bytes);
    let left = u128::from(all) * u128::from(100 - room.threshold_percent.min(100)) / 100;
    let count = u32::try_from(left / u128::from(ROOM_SET_BYTES)).unwrap_or(u32::MAX);
    match changeable {
        true => page.extend([0; 8]),
        false => {
            page.extend([0x81, 0x01, 0, 0]);
            page.extend(count.to_be_bytes());
        }
    }
    page
}

fn header(unit: &Unit, short: bool, long: bool, descriptor: &[u8], pages: &[u8]) -> Vec<u8> {
    let protected = unit.mode().is_write_protected() || unit.target().info().read_only;
    let specific = if protected { 0x90 } else { 0x10 };
    let mut bytes = match short {
        true => {
            let len = (3 + descriptor.len() + pages.len()).min(255);
            vec![len as u8, 0, specific, descriptor.len() as u8]
        }
        false => {
            let mut bytes = ((6 + descriptor.len() + pages.len()) as u16).to_be_bytes().to_vec();
            bytes.extend([0, specific, u8::from(long), 0, 0, descriptor.len() as u8]);
            bytes
        }
    };
    bytes.extend(descriptor);
    bytes.extend(pages);
    bytes
}

fn descriptor(unit: &Unit, long: bool) -> Vec<u8> {
    let (blocks, len) = (unit.capacity(), unit.block_bytes() as u32);
    if !long {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        return [blocks.to_be_bytes(), len.to_be_bytes()].concat();
    }
    [&blocks.to_be_bytes()[..], &[0; 4], &len.to_be_bytes()].concat()
}

fn mode_sense(task: &Task) -> Answer {
    let (unit, cdb, short) = (task.unit(), &task.cdb, is_short(&task.cdb));
    let values = match cdb.u8(2) >> 6 {
        0 => Values::Current,
        1 => Values::Changeable,
        2 => Values::Default,
        _ => return Err(Sense::illegal(code::SAVING_NOT_SUPPORTED).into()),
    };
    let (asked, sub) = (cdb.u8(2) & 0x3f, cdb.u8(3));
    if asked == ALL_PAGES && sub != 0 && sub != ALL_SUBPAGES {
        return Err(Sense::cdb(3).into());
    }
    let meant = |code: &(u8, u8)| (asked == ALL_PAGES || code.0 == asked) && (sub == ALL_SUBPAGES || code.1 == sub);
    let pages: Vec<Vec<u8>> = PAGES.into_iter().filter(meant).filter_map(|code| page(unit, code, values)).collect();
    if pages.is_empty() {
        return Err(Sense::cdb_bit(2, 5).into());
    }
    let long = !short && cdb.bit(1, 4);
    let descriptor = if cdb.bit(1, 3) { Vec::new() } else { descriptor(unit, long) };
    let allowed = if short { cdb.u8(4).into() } else { cdb.u16(7) };
    cut(header(unit, short, long && !descriptor.is_empty(), &descriptor, &pages.concat()), allowed.into())
}

fn wanted(cdb: &Cdb, _: &Unit) -> Result<Wanted, Sense> {
    // Nothing is saved, and pages have the standard's form.
    if cdb.bit(1, 0) {
        return Err(Sense::cdb_bit(1, 0));
    }
    let len = if is_short(cdb) { cdb.u8(4).into() } else { cdb.u16(7) };
    if len > 0 && !cdb.bit(1, 4) {
        return Err(Sense::cdb_bit(1, 4));
    }
    Ok(Wanted::list(len.into()))
}

/// Checks the block descriptor of a list: it may name what is. Answers how long it is.
fn check_descriptor(unit: &Unit, list: &[u8], short: bool) -> Result<usize, Sense> {
    let head = if short { 4 } else { 8 };
    if list.len() < head {
        return Err(Sense::list_length());
    }
    let long = !short && list[4] & 1 != 0;
    let len = if short { list[3].into() } else { usize::from(u16::from_be_bytes([list[6], list[7]])) };
    let field = if short { 3 } else { 6 };
    if len != 0 && len != if long { 16 } else { 8 } {
        return Err(Sense::list(field));
    }
    let found = list.get(head..head + len).ok_or(Sense::list_length())?;
    let expected = descriptor(unit, long);
    let (blocks, size) = found.split_at(found.len().saturating_sub(4));
    if len > 0 {
        let blocks = if long { &blocks[..8] } else { blocks };
        let same = *blocks == expected[..blocks.len()];
        let any = blocks.iter().all(|byte| *byte == 0) || blocks.iter().all(|byte| *byte == 0xff);
        if !same && !any {
            return Err(Sense::list(head));
        }
        if size[1..] != expected[len - 3..] {
            return Err(Sense::list(head + len - 3));
        }
    }
    Ok(head + len)
}

/// The flags that a list of pages asks for.
fn flags_of(unit: &Unit, list: &[u8], mut at: usize) -> Result<u8, Sense> {
    let mut flags = unit.mode().flags();
    while at < list.len() {
        let rest = &list[at..];
        let with_sub = rest[0] & 0x40 != 0;
        let code = (rest[0] & 0x3f, if with_sub { *rest.get(1).ok_or(Sense::list_length())? } else { 0 });
        let (Some(current), Some(changeable)) =
            (page(unit, code, Values::Current), page(unit, code, Values::Changeable))
        else {
            return Err(Sense::list_bit(at, 5));
        };
        let found = rest.get(..current.len()).ok_or(Sense::list_length())?;
        let head = if with_sub { 4 } else { 2 };
        if with_sub != (code.1 != 0) || found[1..head] != current[1..head] {
            return Err(Sense::list(at + 1));
        }
        for (byte, value) in found.iter().enumerate().skip(head) {
            let wrong = (value ^ current[byte]) & !changeable[byte];
            if wrong != 0 {
                return Err(Sense::list_bit(at + byte, 7 - wrong.leading_zeros() as u8));
            }
        }
        let mut take = |byte: usize, bit: u8, flag: u8| match found[byte] & bit {
            0 => flags &= !flag,
            _ => flags |= flag,
        };
        match code.0 {
            0x08 => take(2, 0x04, WRITE_CACHE),
            0x0a => {
                take(2, 0x04, DESCRIPTOR_SENSE);
                take(4, 0x08, WRITE_PROTECT);
            }
            _ => {}
        }
        at += found.len();
    }
    Ok(flags)
}

/// The flags that a task asks for; none where it asks for nothing.
fn asked(task: &Task) -> Result<Option<u8>, Sense> {
    let (unit, list) = (task.unit(), task.out.bytes());
    if list.is_empty() {
        return Ok(None);
    }
    let at = check_descriptor(unit, list, is_short(&task.cdb))?;
    flags_of(unit, list, at).map(Some)
}

fn mode_select(task: Task) -> Outcome {
    let flags = match asked(&task) {
        Ok(Some(flags)) => flags,
        Ok(None) => return task.answered(Ok(DataIn::None)),
        Err(sense) => return task.answered(Err(sense.into())),
    };
    let cached = !task.unit().mode().writes_through();
    let changed = task.unit().mode().set(flags);
    let tell = move |task: &Task| {
        if changed {
            task.unit().tell_others(&task.link.party, Attention::ModeChanged);
        }
    };
    if flags & WRITE_CACHE != 0 {
        tell(&task);
        return task.answered(Ok(DataIn::None));
    }
    // What begins from now on is durable when it is answered. It is emptied also where it was off already: whoever turned
    // that off may not be through yet.
    task.changing(async move |task| {
        let told = task.link.party.told_losses();
        let flushed = task.flushed(task.finish(task.session().target().flush()).await, told);
        if flushed.is_err() {
            if cached {
                task.unit().mode().cache_again();
            }
            return flushed;
        }
        tell(&task);
        Ok(DataIn::None)
    })
}
