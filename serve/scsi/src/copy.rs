//! Offloaded copy: the commands of the copy manager, and the page that tells its limits.

use crate::command::Command;
use crate::unit::Unit;

/// Its commands.
pub(crate) const COMMANDS: &[Command] = &[];

/// The body of VPD page 8Fh, without its four bytes of header; none where it is not offered.
pub(crate) fn vpd_page(_unit: &Unit) -> Option<Vec<u8>> {
    None
}
