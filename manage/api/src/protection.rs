//! How many losses a space bears, as its rows are now.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How many losses a space is to bear and bears now. What is held is counted over its rows, the weakest one counts; it
/// is never taken from the layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Protection {
    /// Disks whose loss its layout is to survive.
    pub wanted_losses: u8,
    /// Disks that may be lost from now on without loss of data, whichever they are; disks that are out already are not
    /// among them.
    pub held_losses: u8,
    /// Enclosures whose loss it is to survive; none where it is not spread over enclosures.
    pub wanted_enclosures: Option<u8>,
    /// Enclosures that may be lost from now on; none where it is not spread over enclosures.
    pub held_enclosures: Option<u8>,
    /// Rows that hold data or journal.
    pub rows: u64,
    /// Of these, rows that bear fewer losses than wanted.
    pub weak_rows: u64,
    /// Of these, rows that cannot be read now.
    pub unreadable_rows: u64,
    /// How much of its data has the present layout already, in whole percent; none where all of it has.
    pub converted_percent: Option<u8>,
    /// How much of what returned disks missed is in step again, in percent to one decimal; none where none of it is out
    /// of step.
    pub in_step_percent: Option<f64>,
    /// How far the job is that rebuilds, moves or converts it, in percent to one decimal; none where none does.
    pub job_percent: Option<f64>,
    /// Disks that may be lost one after another for which the pool has enough others to rebuild on, at most as many as
    /// wanted.
    pub rebuildable_losses: u8,
    /// What it survives, in a sentence: `survives 1 lost disk`.
    pub summary: String,
    /// Why it holds less than wanted, one sentence each; empty where it does not.
    pub reasons: Vec<String>,
}
