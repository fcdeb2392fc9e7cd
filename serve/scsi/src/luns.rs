//! Which units a device has, and what is answered where there is none.
//!
//! Invariants: a LUN that is to come back never says that it does not exist, since its initiators would give up what is on
//! it. One that knows no LUN yet can ask LUN 0, or the well known unit, for all of them.

use crate::answer::{Answer, Fault};
use crate::away::Away;
use crate::cdb::Cdb;
use crate::device::Device;
use crate::identity;
use crate::lun::{Address, lun_field};
use crate::ports::NexusId;
use crate::sense::{Sense, SenseKey, code};
use crate::task::cut;

const WELL_KNOWN_FIELD: u64 = 0xc101 << 48;

/// The answer to REPORT LUNS.
pub(crate) fn report(device: &Device, cdb: &Cdb) -> Answer {
    let allowed = cdb.u32(6);
    if allowed < 16 {
        return Err(Sense::cdb(6).into());
    }
    let plain = || device.luns().into_iter().map(lun_field);
    let fields: Vec<u64> = match cdb.u8(2) {
        0x00 | 0x11 => plain().collect(),
        0x01 => vec![WELL_KNOWN_FIELD],
        0x02 => plain().chain([WELL_KNOWN_FIELD]).collect(),
        0x10 => Vec::new(),
        0x12 => plain().filter(|_| false).collect(),
        _ => return Err(Sense::cdb(2).into()),
    };
    let mut bytes = ((fields.len() * 8) as u32).to_be_bytes().to_vec();
    bytes.extend([0; 4]);
    fields.iter().for_each(|field| bytes.extend(field.to_be_bytes()));
    cut(bytes, allowed as usize)
}

/// The answer of a LUN that has no unit or whose unit is away, or of the well known one.
pub(crate) fn answer(device: &Device, nexus: &NexusId, address: Address, cdb: &Cdb) -> Answer {
    if let Address::Unit(lun) = address
        && let Some(away) = device.away(lun)
    {
        return answer_away(&away, device, nexus, cdb);
    }
    let well_known = address == Address::ReportLuns;
    let lists = well_known || matches!(address, Address::Unit(0));
    match cdb.opcode() {
        0x12 => inquiry(address, cdb),
        0xa0 if lists => report(device, cdb),
        0x00 if well_known => Ok(crate::answer::DataIn::None),
        0x03 => {
            let sense = match well_known {
                true => Sense::new(SenseKey::NoSense, code::NONE),
                false => Sense::illegal(code::LUN_NOT_SUPPORTED),
            };
            request_sense(sense, cdb)
        }
        _ if well_known => Err(Sense::illegal(code::INVALID_OPCODE).into()),
        _ => Err(Fault::Check(Sense::illegal(code::LUN_NOT_SUPPORTED))),
    }
}

/// The answer to REQUEST SENSE.
pub(crate) fn request_sense(sense: Sense, cdb: &Cdb) -> Answer {
    let bytes = if cdb.bit(1, 0) { sense.descriptor_format() } else { sense.fixed_format() };
    cut(bytes, usize::from(cdb.u8(4)))
}

/// The answer of a unit that is away: who it is, and that it is not ready.
fn answer_away(away: &Away, device: &Device, nexus: &NexusId, cdb: &Cdb) -> Answer {
    let (id, not_ready) = (away.id(), away.sense());
    let bytes = match (cdb.opcode(), cdb.bit(1, 0), cdb.u8(2)) {
        (0xa0, ..) => return report(device, cdb),
        (0x03, ..) => return request_sense(not_ready, cdb),
        (0x12, false, 0x00) => identity::standard(identity::DISK, false),
        (0x12, true, 0x00) => identity::page(0x00, &[0x00, 0x80, 0x83]),
        (0x12, true, 0x80) => identity::page(0x80, identity::serial(id).as_bytes()),
        (0x12, true, 0x83) => identity::page(0x83, &identity::names(id, device.name(), &device.ports(), &nexus.target)),
        (0x12, ..) => return Err(Sense::cdb(2).into()),
        _ => return Err(not_ready.into()),
    };
    cut(bytes, usize::from(cdb.u16(3)))
}

fn inquiry(address: Address, cdb: &Cdb) -> Answer {
    let first = match address {
        Address::ReportLuns => identity::WELL_KNOWN,
        Address::Unit(0) => identity::EMPTY,
        _ => identity::ABSENT,
    };
    let bytes = match (cdb.bit(1, 0), cdb.u8(2)) {
        (false, 0) => identity::standard(first, false),
        (true, 0) => vec![first, 0, 0, 1, 0],
        _ => return Err(Sense::cdb(2).into()),
    };
    cut(bytes, usize::from(cdb.u16(3)))
}
