//! Persistent reservations as they are kept over a restart.
//!
//! ```text
//!   "HFPR" | version | registrants: count, (initiator, ISID, device, port, key).. | type, holder's number | CRC-32C
//! ```
//!
//! Invariant: what is read back is sound, or it is not taken at all.

use holdfast_model::wire::{Reader, WireError, Writer, crc32c};

use crate::ports::NexusId;
use crate::reservations::kind::Kind;
use crate::reservations::state::{Held, MAX_REGISTRANTS, Registrant, State};

const MAGIC: [u8; 4] = *b"HFPR";
const VERSION: u16 = 1;

/// What is kept of a unit's reservations has at most so many bytes, as registrations that would take more are refused.
pub const KEPT_BYTES: usize = 64 << 10;

pub(crate) fn encode(state: &State) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.raw(&MAGIC).u16(VERSION).u32(state.registrants.len() as u32);
    for Registrant { nexus, key } in &state.registrants {
        nexus.write(&mut writer);
        writer.u64(*key);
    }
    let held = state.held.as_ref();
    let number =
        held.and_then(|held| state.registrants.iter().position(|one| Some(&one.nexus) == held.holder.as_ref()));
    writer.u8(held.map_or(0, |held| held.kind as u8)).u32(number.map_or(u32::MAX, |number| number as u32));
    let mut bytes = writer.into_bytes();
    bytes.extend(crc32c(&bytes).to_le_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<State, WireError> {
    let (body, crc) = bytes.split_last_chunk().ok_or(WireError::Short)?;
    if crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(WireError::Value("checksum"));
    }
    let mut reader = Reader::new(body);
    if reader.array()? != MAGIC || reader.u16()? != VERSION {
        return Err(WireError::Value("version"));
    }
    let count = reader.u32()? as usize;
    if count > MAX_REGISTRANTS {
        return Err(WireError::Value("number of registrants"));
    }
    let mut registrants: Vec<Registrant> = Vec::new();
    for _ in 0..count {
        let (nexus, key) = (NexusId::read(&mut reader)?, reader.u64()?);
        if key == 0 || registrants.iter().any(|one| one.nexus == nexus) {
            return Err(WireError::Value("registrant"));
        }
        registrants.push(Registrant { nexus, key });
    }
    let (code, number) = (reader.u8()?, reader.u32()?);
    let holder = registrants.get(number as usize).map(|one| one.nexus.clone());
    let held = match (code, Kind::of_code(code)) {
        (0, _) => None,
        (_, Some(kind)) if kind.is_all_registrants() && !registrants.is_empty() => Some(Held { kind, holder: None }),
        (_, Some(kind)) if !kind.is_all_registrants() && holder.is_some() => Some(Held { kind, holder }),
        _ => return Err(WireError::Value("reservation")),
    };
    if reader.remaining() > 0 {
        return Err(WireError::Value("length"));
    }
    Ok(State { registrants, held, generation: 0, aptpl: true })
}
