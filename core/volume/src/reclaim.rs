//! Blocks given back that no snapshot has any more.
//!
//! ```text
//!   map of owners, in the order of places ─▶ kept, and no snapshot lies in the span? ─▶ taken out, and free
//! ```
//!
//! Invariant: what may be given back stays so, whatever snapshots are made meanwhile: they are younger than any of it. So
//! one that is cut short begins anew, and one that is told to end early loses nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::OWNER_TREE;
use crate::change::{Need, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::keys;
use crate::page::PAGE_BYTES;
use crate::references::{Reference, Whose};
use crate::scan::{Owner, give_way, runs};
use crate::shrink::Steps;
use crate::volume::Volume;

/// Entries that one change takes out.
const AT_ONCE: usize = 32;

/// Keys of the map of owners, and where those behind the leaf begin.
type LeftOver = (Vec<Vec<u8>>, Option<Vec<u8>>);

impl Volume {
    /// Whether destroyed snapshots have left blocks that are to be given back. While one is just being destroyed, they are
    /// not: whoever destroys it asks then.
    pub fn is_to_be_reclaimed(&self) -> bool {
        self.store.snapshots.is_to_be_reclaimed() && !self.store.snapshots.are_leaving()
    }

    /// Whether blocks may be kept for snapshots: for some that there are, one that is just being destroyed, or some whose
    /// blocks are to be given back. The volume does not shrink then.
    pub fn keeps_for_snapshots(&self) -> bool {
        self.store.snapshots.are_any()
    }

    /// Bytes that only snapshots have, or had.
    pub fn kept_bytes(&self) -> u64 {
        self.store.snapshots.kept_blocks() * holdfast_model::BLOCK_BYTES
    }

    /// Gives back what destroyed snapshots have left; answers how many bytes. Files are in use meanwhile.
    ///
    /// # Errors
    /// It was stopped, a node of the map of owners is damaged, or the device failed. What was given back by then stays so.
    pub async fn reclaim(&self, steps: &dyn Steps) -> Result<u64, VolumeError> {
        let _one = self.reclaiming.lock().await;
        let Some(removals) = self.store.snapshots.to_be_reclaimed() else { return Ok(0) };
        let (mut next, mut freed) = (Some(Vec::new()), 0);
        while let Some(from) = next {
            let (some, then) = self.store.look([OWNER_TREE], |view| self.left_over(view, &from)).await?;
            next = then;
            for keys in some.chunks(AT_ONCE) {
                match self.give_back_kept(keys).await {
                    // A change of fewer entries needs less room for nodes.
                    Err(error) if error.kind == ErrorKind::NoSpace => {
                        for key in keys {
                            freed += self.give_back_kept(std::slice::from_ref(key)).await?;
                        }
                    }
                    done => freed += done?,
                }
            }
            let bytes = PAGE_BYTES as u64;
            steps.done(bytes);
            self.store.check_step(steps, bytes).await?;
            give_way().await;
        }
        self.store.snapshots.note_reclaimed(removals);
        Ok(freed * holdfast_model::BLOCK_BYTES)
    }

    /// Keys of one leaf of the map of owners that nothing needs any more, and where those behind the leaf begin.
    fn left_over(&self, view: &View<'_>, from: &[u8]) -> Result<LeftOver, Stop> {
        let (entries, next) = view.entries_from(OWNER_TREE, from)?;
        let left = entries.into_iter().filter(|(key, value)| self.is_left_over(key, value));
        Ok((left.map(|(key, _)| key).collect(), next))
    }

    /// Whether an entry of the map of owners keeps blocks, and no snapshot has them any more.
    fn is_left_over(&self, key: &[u8], value: &[u8]) -> bool {
        let span = match Reference::decode(key) {
            Some(Reference { whose: Whose::Snapshots(span), .. }) => Some(span),
            Some(_) => None,
            None => Owner::decode(value).ok().and_then(|owner| owner.kept),
        };
        span.is_some_and(|span| !self.store.snapshots.have(span))
    }

    /// Takes entries out, if they are as they were; answers how many blocks that frees.
    async fn give_back_kept(&self, keys: &[Vec<u8>]) -> Result<u64, VolumeError> {
        let change = self.store.change([OWNER_TREE], Need::Least, |view| {
            let (mut gone, mut freed) = (BTreeSet::new(), BTreeMap::new());
            for key in keys {
                let Some(value) = view.get(OWNER_TREE, key)?.filter(|value| self.is_left_over(key, value)) else {
                    continue;
                };
                let (place, blocks) = match Reference::decode(key) {
                    Some(reference) => (reference.place, reference.blocks),
                    None => (
                        keys::number(key, 0).unwrap_or_default(),
                        Owner::decode(&value).map_or(0, |owner| owner.blocks),
                    ),
                };
                runs::cut(&mut freed, place, blocks.into());
                freed.insert(place, blocks.into());
                view.remove(OWNER_TREE, key.clone())?;
                gone.insert(key.clone());
            }
            if self.store.has_clones() {
                // What files share stays theirs.
                self.store.uncovered(view, &mut freed, &gone)?;
            }
            Ok(freed.values().sum())
        });
        Ok(change.await?.0)
    }
}
