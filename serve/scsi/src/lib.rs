//! SCSI units over block objects (SPC-4, SBC-3): commands, reservations, access states of ports, attention.
//!
//! ```text
//!   transport ─▶ Nexus ─▶ command ─▶ task ─▶ Session of the block service
//!                  │         ├─ gate           reservations, attentions, access states
//!                  │         └─ commands       the table: what is served, and by what
//!                  ├─ Device                   units by LUN, ports, who is connected
//!                  └─ Unit ─┬─ reservations    persistent ones, and the older kind
//!                           ├─ attention       what each nexus has yet to be told
//!                           └─ mode            what MODE SELECT changes
//! ```
//!
//! It knows no transport: one that carries CDBs and data serves all of it.
//!
//! Invariant: nothing that an initiator sends can make it panic, hold more than its limits, or touch a byte outside the
//! range of a checked command.

mod answer;
mod attention;
mod away;
mod cdb;
mod command;
mod commands;
mod copy;
mod device;
mod error;
mod fate;
mod gate;
mod identity;
mod limits;
mod losses;
mod lun;
mod luns;
mod mode;
mod nexus;
mod party;
mod ports;
mod reservations;
mod sense;
mod shared;
mod task;
mod unit;

pub use answer::{DataIn, Outcome, Response, Running, Status};
pub use away::Held;
pub use copy::Proof;
pub use device::{Device, MAX_UNITS};
pub use error::ScsiError;
pub use fate::Over;
pub use lun::{MAX_LUN, lun_field};
pub use nexus::{Event, Manage, ManageAnswer, Nexus, Prepared, task_set_full};
pub use ports::{AccessState, InitiatorPort, NexusId, Port, TargetPort};
pub use reservations::kept::KEPT_BYTES;
pub use reservations::{RegistrantView, ReservationView};
pub use sense::{Code, FieldPointer, Sense, SenseKey, code};
pub use shared::{ReservationKeeper, Shared};
pub use unit::{LogicalBlocks, Room, Unit, UnitSettings};
