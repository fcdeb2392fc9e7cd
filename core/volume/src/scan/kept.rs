//! What destroyed and overwritten data snapshots keep, counted from the map of owners, beside what is said of it.
//!
//! ```text
//!   map of owners      blocks of spans ─▶ by the end of their spans ─┐
//!   tree of snapshots  by the end of spans, so many blocks ──────────┴─▶ equal, as of one checkpoint
//! ```
//!
//! Invariant: what is told too much or too little at a checkpoint is so until it is put right, whatever changes meanwhile:
//! changes count by how much they differ. So it is put right by as much.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::VolumeError;
use crate::page::Page;
use crate::references::{Reference, Whose};
use crate::scan::facts::Owner;
use crate::scan::{Leaves, Reach};
use crate::snapshots;
use crate::store::Store;
use crate::{OWNER_TREE, SNAPSHOT_TREE};

/// Both sides.
#[derive(Default)]
pub(crate) struct KeptTally {
    found: BTreeMap<u64, u64>,
    told: BTreeMap<u64, u64>,
}

impl KeptTally {
    /// The next entry of a tree.
    pub fn entry(&mut self, tree: u8, key: &[u8], value: &[u8]) {
        if tree == SNAPSHOT_TREE {
            self.told.extend(snapshots::told_kept(key, value).filter(|(_, blocks)| *blocks > 0));
        } else if tree == OWNER_TREE {
            let kept = match Reference::decode(key) {
                Some(Reference { blocks, whose: Whose::Snapshots(span), .. }) => Some((span, blocks)),
                Some(_) => None,
                None => Owner::decode(value).ok().and_then(|owner| Some((owner.kept?, owner.blocks))),
            };
            if let Some((span, blocks)) = kept {
                *self.found.entry(span.death).or_default() += u64::from(blocks);
            }
        }
    }

    /// Where they differ: the end of the span, what is there, and what is said of it.
    pub fn wrong(&self) -> Vec<(u64, u64, u64)> {
        let ends: BTreeSet<u64> = self.found.keys().chain(self.told.keys()).copied().collect();
        let of = |side: &BTreeMap<u64, u64>, end| side.get(&end).copied().unwrap_or_default();
        let both = ends.into_iter().map(|end| (end, of(&self.found, end), of(&self.told, end)));
        both.filter(|(_, found, told)| found != told).collect()
    }
}

impl Leaves for KeptTally {
    async fn leaf(&mut self, tree: u8, page: &Page) -> Result<(), VolumeError> {
        for index in 0..page.count() {
            let (key, value) = page.entry(index);
            self.entry(tree, key, value);
        }
        Ok(())
    }
}

impl Store {
    /// Counts what is kept for snapshots anew; answers whether it was counted wrong, or nothing where that cannot be known.
    pub(crate) async fn recount_kept(&self) -> Result<Option<bool>, VolumeError> {
        let mut newest = self.checkpoint.lock().await;
        self.write_checkpoint(&mut newest).await?;
        let mut tally = KeptTally::default();
        let walked = self.walk(&newest.root, Reach::Newest, &mut tally, &mut |_| ()).await?;
        if walked.is_partial {
            return Ok(None);
        }
        let wrong = tally.wrong();
        wrong.iter().for_each(|(end, found, told)| self.snapshots.count(*end, *found, *told));
        if !wrong.is_empty() {
            self.write_checkpoint(&mut newest).await?;
        }
        Ok(Some(!wrong.is_empty()))
    }
}
