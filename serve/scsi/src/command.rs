//! What a command is: its form, when it may be served, and what serves it.
//!
//! ```text
//!   opcode, service action ─▶ Command ─┬─ usage      bits that may be set; also what REPORT SUPPORTED OPERATION CODES tells
//!                                      ├─ conflict   whether reservations of others keep it out
//!                                      ├─ reach      in which access states it is served
//!                                      ├─ wanted     how much data it takes
//!                                      └─ run
//! ```
//!
//! Invariant: a CDB with a bit that its command does not know never reaches what serves it.

use crate::answer::{Answer, Outcome};
use crate::cdb::{CDB_BYTES, Cdb};
use crate::sense::Sense;
use crate::task::{Task, Wanted};
use crate::unit::Unit;

/// Whether reservations of others keep a command out (SPC-4 5.13.1.5, SBC-3 4.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// Never, not even the older kind.
    Never,
    /// Only the older kind keeps it out.
    Reserved,
    /// Those that keep readers out.
    Reads,
    /// All.
    Writes,
}

/// In which access states a command is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    Everywhere,
    /// Not where ports are unavailable.
    Standby,
    /// Where data can be moved.
    Active,
}

/// What serves a command.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// At once.
    Now(fn(&Task) -> Answer),
    /// At once or later.
    Start(fn(Task) -> Outcome),
}

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) opcode: u8,
    pub(crate) action: Option<u16>,
    /// One byte for each of the CDB.
    pub(crate) usage: &'static [u8],
    pub(crate) conflict: Conflict,
    pub(crate) reach: Reach,
    /// Served although something waits to be told.
    pub(crate) quiet: bool,
    /// Not known to units that give no room back.
    pub(crate) thin: bool,
    /// Takes exactly as much data as it says.
    pub(crate) exact: bool,
    /// Serves what came of its data where less came than it takes.
    pub(crate) partial: bool,
    /// Kept out less where the CDB asks for less.
    pub(crate) milder: Option<fn(&Cdb) -> Conflict>,
    /// Refused where the unit may not be written.
    pub(crate) changes: bool,
    pub(crate) wanted: fn(&Cdb, &Unit) -> Result<Wanted, Sense>,
    pub(crate) run: Run,
}

fn nothing(_: &Cdb, _: &Unit) -> Result<Wanted, Sense> {
    Ok(Wanted::default())
}

impl Command {
    /// A command without data from the initiator that every reservation keeps out, served where data can be moved.
    pub(crate) const fn new(usage: &'static [u8], run: Run) -> Self {
        Self {
            opcode: usage[0],
            action: None,
            usage,
            conflict: Conflict::Writes,
            reach: Reach::Active,
            quiet: false,
            thin: false,
            exact: false,
            partial: false,
            milder: None,
            changes: false,
            wanted: nothing,
            run,
        }
    }

    /// It is this service action of its opcode.
    pub(crate) const fn action(self, action: u16) -> Self {
        Self { action: Some(action), ..self }
    }

    /// Reservations keep it out so.
    pub(crate) const fn conflict(self, conflict: Conflict) -> Self {
        Self { conflict, ..self }
    }

    /// It is served there.
    pub(crate) const fn reach(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// It is served although something waits to be told.
    pub(crate) const fn quiet(self) -> Self {
        Self { quiet: true, ..self }
    }

    /// It changes what is on the unit.
    pub(crate) const fn changes(self) -> Self {
        Self { changes: true, ..self }
    }

    /// It is not known to units that give no room back.
    pub(crate) const fn thin(self) -> Self {
        Self { thin: true, ..self }
    }

    /// It takes exactly as much data as it says.
    pub(crate) const fn exact(self) -> Self {
        Self { exact: true, ..self }
    }

    /// It serves what came of its data.
    pub(crate) const fn partial(self) -> Self {
        Self { partial: true, ..self }
    }

    /// What keeps it out is for the CDB to say.
    pub(crate) const fn milder(self, milder: fn(&Cdb) -> Conflict) -> Self {
        Self { milder: Some(milder), ..self }
    }

    /// What keeps this CDB out.
    pub(crate) fn conflict_of(&self, cdb: &Cdb) -> Conflict {
        self.milder.map_or(self.conflict, |milder| milder(cdb))
    }

    /// It takes data.
    pub(crate) const fn wanted(self, wanted: fn(&Cdb, &Unit) -> Result<Wanted, Sense>) -> Self {
        Self { wanted, ..self }
    }

    /// Whether the CDB is in the command's form.
    pub(crate) fn check(&self, cdb: &Cdb) -> Result<(), Sense> {
        let len = self.usage.len().min(CDB_BYTES);
        for (at, (byte, usage)) in cdb.bytes().iter().zip(self.usage).enumerate().take(len).skip(1) {
            let usage = if at == 1 && self.action.is_some() { usage | 0x1f } else { *usage };
            let wrong = byte & !usage;
            if wrong != 0 {
                return Err(Sense::cdb_bit(at as u16, 7 - wrong.leading_zeros() as u8));
            }
        }
        Ok(())
    }
}
