//! INQUIRY and REPORT LUNS (SPC-4 6.4, 6.33).

use crate::answer::Answer;
use crate::attention::Attention;
use crate::command::{Command, Conflict, Reach, Run};
use crate::commands::vpd;
use crate::copy;
use crate::identity;
use crate::luns;
use crate::sense::Sense;
use crate::task::{Task, cut};

pub(crate) const COMMANDS: &[Command] = &[
    Command::new(&[0x12, 0x01, 0xff, 0xff, 0xff, 0], Run::Now(inquiry))
        .conflict(Conflict::Never)
        .reach(Reach::Everywhere)
        .quiet(),
    Command::new(&[0xa0, 0, 0xff, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0], Run::Now(report_luns))
        .conflict(Conflict::Never)
        .reach(Reach::Everywhere)
        .quiet(),
];

fn inquiry(task: &Task) -> Answer {
    let (page, allowed) = (task.cdb.u8(2), usize::from(task.cdb.u16(3)));
    let bytes = match task.cdb.bit(1, 0) {
        true => vpd::page(task, page)?,
        false if page != 0 => return Err(Sense::cdb(2).into()),
        false => identity::standard(identity::DISK, copy::vpd_page(task.unit()).is_some()),
    };
    cut(bytes, allowed)
}

fn report_luns(task: &Task) -> Answer {
    let bytes = luns::report(&task.nexus.device, &task.cdb)?;
    for link in task.nexus.device.links(task.nexus.serial()) {
        link.party.pending().remove(Attention::LunsChanged);
    }
    Ok(bytes)
}
