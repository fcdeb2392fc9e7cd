//! What follows from changes of extents that are shared.
//!
//! ```text
//!   a file comes to have blocks    its reference ─▶ what snapshots kept of them, and the map of owners had, is one, too
//!   a file lets go of them         a snapshot has its own ─▶ that is kept as a reference
//!                                  none does ─▶ free, but for what other references are over
//! ```
//!
//! Invariant: a block that is shared is free once no reference is over it, and not before. What cannot be known, as it
//! stood in a node that is lost, is taken for somebody's.

use std::collections::{BTreeMap, BTreeSet};

use crate::OWNER_TREE;
use crate::change::{Need, Stop, View};
use crate::extent::Extent;
use crate::keys;
use crate::references::{Reference, Whose, unless_lost};
use crate::scan::runs;
use crate::snapshots::Span;
use crate::store::Store;

/// An extent of a file before or after a change: file, stream, and the block that it begins at.
pub(crate) type Owned = (Extent, u64, u32, u64);

/// A change of the map of owners.
pub(crate) type OwnerChange = (Vec<u8>, Option<Vec<u8>>);

/// What a change does to blocks that are shared.
#[derive(Default)]
pub(crate) struct Shares {
    /// References that were taken out, and are not put in.
    gone: BTreeSet<Vec<u8>>,
    /// Those that are put in.
    put: BTreeMap<Vec<u8>, Reference>,
    /// Blocks that may have nobody any more.
    loose: BTreeMap<u64, u64>,
    /// Owners that become references.
    pub owners: Vec<OwnerChange>,
    /// Blocks that nobody had before.
    pub taken: BTreeMap<u64, u64>,
    /// Blocks that snapshots keep from now on, by the end of their span.
    pub kept: Vec<(u64, u64)>,
}

fn run(extent: &Extent) -> BTreeMap<u64, u64> {
    BTreeMap::from([(extent.place, extent.blocks.into())])
}

impl Shares {
    /// Blocks that something else had which was taken out: nobody may have them any more.
    pub fn loosen(&mut self, place: u64, blocks: u32) {
        // What two had is loosened once.
        runs::cut(&mut self.loose, place, blocks.into());
        self.loose.insert(place, blocks.into());
    }

    /// A reference that was kept is taken out.
    pub fn remove(&mut self, key: &[u8], reference: &Reference) {
        self.gone.insert(key.to_vec());
        self.loosen(reference.place, reference.blocks);
    }

    /// A reference is put in.
    pub fn put(&mut self, key: &[u8], reference: Reference) {
        self.put.insert(key.to_vec(), reference);
    }

    /// Whether anything shared changed.
    pub fn is_empty(&self, old: &[Owned], new: &[Owned]) -> bool {
        self.gone.is_empty() && self.loose.is_empty() && old.iter().chain(new).all(|(extent, ..)| !extent.is_shared)
    }

    /// What follows from extents that a change takes out and puts in.
    pub fn change(
        &mut self,
        store: &Store,
        view: &View<'_>,
        (old, new): (&[Owned], &[Owned]),
        need: Need,
    ) -> Result<(), Stop> {
        for (extent, file, stream, start) in new.iter().filter(|(extent, ..)| extent.is_shared) {
            let reference = Reference::of_file(*file, *stream, *start, extent);
            if let Some(key) = store.reference_key(&reference) {
                self.put.insert(key, reference);
                self.adopt(store, view, extent, old, need)?;
            }
        }
        for (extent, file, stream, start) in old.iter().filter(|(extent, ..)| extent.is_shared) {
            let Some(key) = store.reference_key(&Reference::of_file(*file, *stream, *start, extent)) else { continue };
            if !self.put.contains_key(&key) {
                self.gone.insert(key);
            }
            self.let_go(store, view, (extent, *file), new, need)?;
        }
        self.free_what_is_loose(store, view, new, need)
    }

    /// A file lets go of an extent, but for what it still has of it at other places.
    fn let_go(
        &mut self,
        store: &Store,
        view: &View<'_>,
        (extent, file): (&Extent, u64),
        new: &[Owned],
        need: Need,
    ) -> Result<(), Stop> {
        let mut left = run(extent);
        if !store.snapshots.keep(extent) {
            left.into_iter().for_each(|(place, blocks)| self.loosen(place, blocks as u32));
            return Ok(());
        }
        let goes_on = |(other, of, ..): &&Owned| *of == file && view.are_alike(other.birth, extent.birth);
        new.iter().filter(goes_on).for_each(|(other, ..)| runs::cut(&mut left, other.place, other.blocks.into()));
        let span = Span { birth: extent.birth, death: store.snapshots.newest() };
        for (place, blocks) in left {
            self.keep(store, view, Reference { place, blocks: blocks as u32, whose: Whose::Snapshots(span) }, need)?;
        }
        Ok(())
    }

    /// Has a reference be kept, unless it is already: what two files had for the same snapshots is kept once.
    fn keep(&mut self, store: &Store, view: &View<'_>, reference: Reference, need: Need) -> Result<(), Stop> {
        let (Some(key), Whose::Snapshots(span)) = (store.reference_key(&reference), reference.whose) else {
            return Ok(());
        };
        let is_known = unless_lost(store, need, view.get(OWNER_TREE, &key))?.flatten().is_some();
        if self.put.insert(key, reference).is_none() && !is_known {
            self.kept.push((span.death, reference.blocks.into()));
        }
        Ok(())
    }

    /// Has blocks that come to be shared be nothing but references: what the map of owners has kept of them for snapshots
    /// becomes one.
    fn adopt(
        &mut self,
        store: &Store,
        view: &View<'_>,
        extent: &Extent,
        old: &[Owned],
        need: Need,
    ) -> Result<(), Stop> {
        let mut left = run(extent);
        old.iter().for_each(|(other, ..)| runs::cut(&mut left, other.place, other.blocks.into()));
        let is_known = unless_lost(store, need, store.uncovered(view, &mut left, &BTreeSet::new()))?.is_some();
        for (place, blocks) in left.clone() {
            let owners = unless_lost(store, need, store.owners_over(view, place..place + blocks, usize::MAX))?;
            for (at, owner) in owners.into_iter().flatten() {
                let Some(span) = owner.kept.filter(|_| is_known) else { continue };
                self.owners.push((keys::owner(at), None));
                runs::cut(&mut left, at, owner.blocks.into());
                let reference = Reference { place: at, blocks: owner.blocks, whose: Whose::Snapshots(span) };
                // It is kept as it was, and counted.
                if let Some(key) = store.reference_key(&reference) {
                    self.put.insert(key, reference);
                }
            }
        }
        for (place, blocks) in left {
            runs::cut(&mut self.taken, place, blocks);
            self.taken.insert(place, blocks);
        }
        Ok(())
    }

    /// Of what is loose, leaves what nobody has.
    fn free_what_is_loose(&mut self, store: &Store, view: &View<'_>, new: &[Owned], need: Need) -> Result<(), Stop> {
        let loose = &mut self.loose;
        new.iter().for_each(|(extent, ..)| runs::cut(loose, extent.place, extent.blocks.into()));
        self.put.values().for_each(|reference| runs::cut(loose, reference.place, reference.blocks.into()));
        if unless_lost(store, need, store.uncovered(view, loose, &self.gone))?.is_none() {
            loose.clear();
        }
        Ok(())
    }

    /// What the map of owners has no more, and what it has from now on; and blocks that are free.
    pub fn into_changes(self) -> (Vec<OwnerChange>, BTreeMap<u64, u64>) {
        let gone = self.gone.into_iter().map(|key| (key, None));
        let put = self.put.into_keys().map(|key| (key, Some(Vec::new())));
        (self.owners.into_iter().chain(gone).chain(put).collect(), self.loose)
    }
}
