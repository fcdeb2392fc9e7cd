//! Units as initiators meet them: commands, reservations, attentions, access states, and hostile bytes.

#[path = "../../../block/tests/support/memory.rs"]
#[allow(dead_code)]
mod memory;

mod attention;
mod commands;
mod devices;
mod hostile;
mod losses;
mod persistent;
mod rig;
mod together;
