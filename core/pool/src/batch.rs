//! Which of the changes that wait are written together.
//!
//! Invariant: no two changes of a record touch the same thing.

use std::collections::BTreeSet;

use holdfast_model::DiskState;
use holdfast_model::wire::Writer;

use crate::change::{Change, Subject, UNKNOWN};
use crate::committer::{Batch, Committer};
use crate::config::Config;
use crate::place::SlabPlace;

/// Batches that are written together.
#[derive(Default)]
pub(crate) struct Record {
    pub batches: Vec<Batch>,
    pub changes: Vec<Change>,
    pub bytes: usize,
    pub touched: Touched,
}

impl Record {
    pub fn take(&mut self, mut batch: Batch) {
        let changes = std::mem::take(&mut batch.changes);
        let mut writer = Writer::new();
        changes.iter().for_each(|change| change.write(&mut writer));
        self.bytes += writer.len();
        self.changes.extend(changes);
        self.batches.push(batch);
    }

    /// By this a disk that was set back to an older state is recognised when it returns.
    pub fn say_what_lost_disks_hold(&mut self, committer: &Committer) {
        for change in &mut self.changes {
            if let Change::DiskOut { disk, holds, .. } = change
                && *holds == UNKNOWN
            {
                *holds = committer.holds(*disk);
            }
        }
    }

    /// A row whose disk went out after it was allotted has missed whatever that disk's outage stands for, and so has a
    /// slab that came in step while its disk went.
    pub fn mark_slabs_of_lost_disks(&mut self, config: &Config) {
        let going: BTreeSet<u16> = (self.changes.iter())
            .filter_map(|change| if let Change::DiskOut { disk, .. } = change { Some(*disk) } else { None })
            .collect();
        let online = |disk: u16| config.disks.get(&disk).is_some_and(|record| record.state == DiskState::Online);
        let stale = |space: u32, chunk: u32, slab: u16| Change::Stale { space, chunk, slab, stale: true };
        let mut marks = Vec::new();
        for change in &self.changes {
            match change {
                Change::Row { space, chunk, row } => {
                    let lost = |slab: &SlabPlace| going.contains(&slab.disk()) || !online(slab.disk());
                    let slabs = (0u16..).zip(&row.slabs).filter(|(_, slab)| lost(slab));
                    marks.extend(slabs.map(|(slab, _)| stale(*space, *chunk, slab)));
                }
                Change::Stale { space, chunk, slab, stale: false } => {
                    let row = config.spaces.get(space).and_then(|space| space.rows.get(chunk));
                    let place = row.and_then(|row| row.slabs.get(usize::from(*slab)));
                    marks.extend(
                        place.filter(|place| going.contains(&place.disk())).map(|_| stale(*space, *chunk, *slab)),
                    );
                }
                _ => {}
            }
        }
        self.changes.extend(marks);
    }
}

/// What the changes of a record are about.
#[derive(Default)]
pub(crate) struct Touched {
    rows: BTreeSet<(u32, u32)>,
    spaces: BTreeSet<u32>,
    spaces_of_rows: BTreeSet<u32>,
    disks: BTreeSet<u16>,
    disk_gone: bool,
    documents: BTreeSet<Box<str>>,
}

impl Touched {
    /// Whether a change is about none of these, and depends on none.
    pub fn is_apart(&self, change: &Change) -> bool {
        match change.subject() {
            Subject::Pool => true,
            Subject::Disk(disk) => !self.disks.contains(&disk),
            // Rows that come or go decide whether it may.
            Subject::LeavingDisk(disk) => !self.disks.contains(&disk) && self.rows.is_empty() && self.spaces.is_empty(),
            Subject::Space(space) => !self.spaces.contains(&space) && !self.spaces_of_rows.contains(&space),
            Subject::Row(space, chunk) => {
                !self.rows.contains(&(space, chunk)) && !self.spaces.contains(&space) && !self.disk_gone
            }
            Subject::Document(key) => !self.documents.contains(key),
        }
    }

    /// Adds what a change is about.
    pub fn add(&mut self, change: &Change) {
        match change.subject() {
            Subject::Pool => {}
            Subject::Disk(disk) => {
                self.disks.insert(disk);
            }
            Subject::LeavingDisk(disk) => {
                self.disks.insert(disk);
                self.disk_gone = true;
            }
            Subject::Space(space) => {
                self.spaces.insert(space);
            }
            Subject::Row(space, chunk) => {
                self.rows.insert((space, chunk));
                self.spaces_of_rows.insert(space);
            }
            Subject::Document(key) => {
                self.documents.insert(key.into());
            }
        }
    }
}
