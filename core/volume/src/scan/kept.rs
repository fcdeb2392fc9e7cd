//! What destroyed and overwritten data snapshots keep, counted from the map of owners, beside what is said of it.
//!
//! ```text
//!   map of owners      blocks of spans ─▶ by the end of their spans ─┐
//!   tree of snapshots  by the end of spans, so many blocks ──────────┴─▶ equal, as of one checkpoint
//! ```
//!
//! Invariant: a checkpoint has both sides as they were at one moment, so that they are equal unless one is wrong.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::VolumeError;
use crate::page::Page;
use crate::references::{Reference, Whose};
use crate::scan::Leaves;
use crate::scan::facts::Owner;
use crate::snapshots::{self, Span};
use crate::{OWNER_TREE, SNAPSHOT_TREE};

/// The span and the blocks that an entry of the map of owners keeps, if it keeps any.
pub(crate) fn kept_of(key: &[u8], value: Option<&[u8]>) -> Option<(Span, u32)> {
    match Reference::decode(key) {
        Some(Reference { blocks, whose: Whose::Snapshots(span), .. }) => value.map(|_| (span, blocks)),
        Some(_) => None,
        None => Owner::decode(value?).ok().and_then(|owner| Some((owner.kept?, owner.blocks))),
    }
}

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
        } else if tree == OWNER_TREE
            && let Some((span, blocks)) = kept_of(key, Some(value))
        {
            *self.found.entry(span.death).or_default() += u64::from(blocks);
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
