//! Security descriptors brought together with the files that name them.
//!
//! Invariant: a repair gives nobody more than there was: a file whose descriptor is lost is left to its owner and to
//! administrators, and it is told.

use crate::change::Need;
use crate::descriptors;
use crate::error::VolumeError;
use crate::repair::Repaired;
use crate::scan::judge;
use crate::security::put_descriptor;
use crate::verbs::Verb;
use crate::volume::{Volume, put_record};

impl Volume {
    /// Gives a file whose descriptor is lost one that lets nobody at its data, until somebody sets another one.
    pub(super) async fn repair_security(&self, file: u64, verb: &Verb) -> Result<Repaired, VolumeError> {
        self.repair_if(verb, Need::More, |view| {
            let Some(mut record) = judge::record(view, file)? else { return Ok(()) };
            let left = view.known_descriptors().of(&record);
            put_descriptor(view, None, &mut record, &left)?;
            record.change = self.next_change();
            put_record(view, file, &record)
        })
        .await
    }

    /// Has both trees have a descriptor as it is known.
    pub(super) async fn repair_descriptor(&self, number: u64, verb: &Verb) -> Result<Repaired, VolumeError> {
        let Ok(number) = u32::try_from(number) else { return Ok(Repaired::AlreadyGone) };
        self.repair_if(verb, Need::More, |view| descriptors::put_again(view, number)).await
    }
}
