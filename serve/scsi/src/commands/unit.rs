//! Commands about the unit as such: is it there, is it ready.

use crate::answer::{Answer, DataIn};
use crate::command::{Command, Conflict, Run};
use crate::task::Task;

pub(crate) const COMMANDS: &[Command] =
    &[Command::new(&[0x00, 0, 0, 0, 0, 0x04], Run::Now(test_unit_ready)).conflict(Conflict::Reserved)];

fn test_unit_ready(_: &Task) -> Answer {
    Ok(DataIn::None)
}
