//! Offloaded copy: the commands of the copy manager (SPC-4 5.17, SBC-3 4.28), and the page that tells its limits.
//!
//! ```text
//!   populate      ranges ─▶ a token, which ends when they change
//!   write_using   token ─▶ ranges                                      ┐
//!   extended      list ─▶ descriptors                                  ├─▶ Copier of the block service
//!   segments      descriptors ─▶ ranges of units, one after another    ┘
//!   operations    what is under way and what came of it ─▶ results
//!   reach         which units a copy may use ─▶ proof: what its initiator proved where
//! ```
//!
//! Invariant: a copy does what its initiator could do by reading and writing, and nothing that it could not.

mod begun;
mod block_ranges;
mod codes;
mod extended;
mod limits;
mod list;
mod operations;
mod page;
mod populate;
mod proof;
mod reach;
mod results;
mod rod_token;
mod segments;
mod shared;
mod write_using;

use crate::cdb::Cdb;
use crate::command::{Command, Conflict, Run};
use crate::sense::Sense;
use crate::task::Wanted;
use crate::unit::Unit;

pub(crate) use operations::Operations;
pub use proof::Proof;
pub(crate) use shared::Copies;

const LISTED: [u8; 16] = [0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04];
const TOKEN: [u8; 16] = [0x83, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f, 0x04];
const ABORT: [u8; 16] = [0x83, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x04];
const RESULTS_1: [u8; 16] = [0x84, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04];
const RESULTS_4: [u8; 16] = [0x84, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04];
const RESULTS_0: [u8; 16] = [0x84, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0x04];

/// Its commands.
pub(crate) const COMMANDS: &[Command] = &[
    Command::new(&LISTED, Run::Start(segments::serve)).action(0x00).wanted(wanted),
    Command::new(&LISTED, Run::Start(segments::serve)).action(0x01).wanted(wanted),
    Command::new(&TOKEN, Run::Start(populate::serve)).action(0x10).conflict(Conflict::Reads).wanted(wanted),
    Command::new(&TOKEN, Run::Start(write_using::serve)).action(0x11).changes().wanted(wanted),
    Command::new(&ABORT, Run::Start(results::abort)).action(0x1c),
    Command::new(&RESULTS_1, Run::Now(results::status_lid1)).action(0x00),
    Command::new(&RESULTS_1, Run::Now(results::held_data_lid1)).action(0x01),
    Command::new(&RESULTS_0, Run::Now(results::operating_parameters)).action(0x03).conflict(Conflict::Reserved),
    Command::new(&RESULTS_1, Run::Now(results::failure_details_lid1)).action(0x04),
    Command::new(&RESULTS_4, Run::Now(results::status_lid4)).action(0x05),
    Command::new(&RESULTS_4, Run::Now(results::token_information)).action(0x07),
    Command::new(&RESULTS_0, Run::Now(results::all_tokens)).action(0x08),
];

fn wanted(cdb: &Cdb, _: &Unit) -> Result<Wanted, Sense> {
    match cdb.u32(10) {
        len if len > limits::LIST_BYTES => Err(Sense::list_length()),
        len => Ok(Wanted::list(len as usize)),
    }
}

/// The body of VPD page 8Fh, without its four bytes of header.
pub(crate) fn vpd_page(unit: &Unit) -> Option<Vec<u8>> {
    Some(page::third_party_copy(unit))
}
