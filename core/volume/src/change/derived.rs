//! What follows from a change of extents, of records, and of what snapshots keep: bitmaps, the map of owners, counts.
//!
//! Invariant: it is a function of the change and of what the trees said before, so that replay makes the same of it.

use smallvec::SmallVec;

use super::{Need, Stop, View};
use crate::extent::{Extent, without};
use crate::quota::Shift;
use crate::record::Share;
use crate::references::Reference;
use crate::scan::kept_of;
use crate::sharing::{Owned, Shares};
use crate::snapshots::Span;
use crate::transaction::Operation;
use crate::{OWNER_TREE, keys};

/// The end of a span, how many blocks are kept from now on, and how many no more.
type Kept = SmallVec<[(u64, u64, u64); 2]>;

/// Blocks, as an extent of nobody.
fn extent_of((place, blocks): (&u64, &u64)) -> Extent {
    Extent { place: *place, blocks: *blocks as u32, birth: 0, is_written: true, is_shared: false, sums: None }
}

/// What follows from a change of extents.
pub(super) struct Derived {
    /// Blocks that no file has any more, and no snapshot.
    pub(super) freed: Vec<Extent>,
    /// The newest snapshot that keeps blocks, how many of them it keeps from now on, and how many no more.
    pub(super) kept: Kept,
    /// Blocks that a file has now.
    pub(super) taken: Vec<Extent>,
    /// Changes of the map of owners.
    pub(super) owners: Vec<Operation>,
    /// Whether the change says of blocks that they hold data, which must not last longer than that.
    pub(super) names_data: bool,
    /// Files that there are more, or less.
    pub(super) files: i64,
    /// Records that count for others, or for more or less.
    pub(super) shifts: SmallVec<[Shift; 2]>,
}

impl View<'_> {
    /// What follows from a change of the map of owners itself: blocks that were kept are so no more, or others are.
    fn derive_kept(
        &self,
        key: &[u8],
        (before, after): (Option<&[u8]>, Option<&[u8]>),
        kept: &mut Kept,
        shares: &mut Shares,
        given_up: &mut Vec<Extent>,
    ) {
        let (old, new) = (kept_of(key, before), kept_of(key, after));
        kept.extend(old.map(|(span, blocks)| (span.death, 0, blocks.into())));
        kept.extend(new.map(|(span, blocks)| (span.death, blocks.into(), 0)));
        if let (Some(_), Some(reference)) = (new, Reference::decode(key)) {
            shares.put(key, reference);
        }
        let (Some((span, blocks)), None) = (old, after) else { return };
        let place = keys::number(key, 0).unwrap_or_default();
        match Reference::decode(key) {
            Some(reference) => shares.remove(key, &reference),
            // Should references be over it, they count.
            None if self.store.has_clones() => shares.loosen(place, blocks),
            None => given_up.push(Extent { birth: span.birth, ..extent_of((&place, &blocks.into())) }),
        }
    }

    /// What follows from changes of extents, and of what snapshots keep.
    pub(super) fn derive(&self, operations: &[Operation], need: Need) -> Result<Derived, Stop> {
        let (mut old, mut new, mut given_up) = (Vec::new(), Vec::new(), Vec::new());
        let (mut kept, mut shares) = (SmallVec::new(), Shares::default());
        for Operation { tree, key, value } in operations {
            if *tree == OWNER_TREE {
                let before = self.before(*tree, key, need)?;
                self.derive_kept(key, (before.as_deref(), value.as_deref()), &mut kept, &mut shares, &mut given_up);
                continue;
            }
            let Some((file, stream, end)) = keys::read_extent(*tree, key) else { continue };
            self.index(OWNER_TREE)?;
            let before = self.before(*tree, key, need)?;
            let owned = |value: &[u8]| -> Result<_, Stop> {
                // What checksums it has follows from nothing, and nothing from them.
                let extent = Extent::decode_bare(value)?;
                let start = end.saturating_sub(extent.blocks.into());
                Ok((!extent.is_lost()).then_some((extent, file, stream, start)))
            };
            // What cannot be read is nobody's: it can be replaced and taken out.
            old.extend(before.as_deref().and_then(|value| owned(value).ok().flatten()));
            new.extend(value.as_deref().map(owned).transpose()?.flatten());
        }
        let extents = |list: &[Owned]| list.iter().map(|(extent, ..)| extent.clone()).collect::<Vec<_>>();
        let (after, mut owners) = (extents(&new), Vec::with_capacity(old.len() + new.len()));
        let newest = self.store.snapshots.newest();
        for (extent, file, stream, start) in old.iter().filter(|(extent, ..)| !extent.is_shared) {
            owners.push((keys::owner(extent.place), None));
            for part in without(vec![extent.clone()], &after) {
                if !self.store.snapshots.keep(&part) {
                    given_up.push(part);
                    continue;
                }
                let span = Span { birth: part.birth, death: newest };
                let block = start + (part.place - extent.place);
                let value = keys::kept_value(*file, *stream, block, part.blocks, part.is_written, span);
                owners.push((keys::owner(part.place), Some(value)));
                kept.push((newest, part.blocks.into(), 0));
            }
        }
        for (extent, file, stream, start) in new.iter().filter(|(extent, ..)| !extent.is_shared) {
            let value = keys::owner_value(*file, *stream, *start, extent.blocks, extent.is_written);
            owners.push((keys::owner(extent.place), Some(value)));
        }
        let own: Vec<Extent> = after.iter().filter(|extent| !extent.is_shared).cloned().collect();
        let mut taken = without(own, &extents(&old));
        if !shares.is_empty(&old, &new) {
            shares.change(self.store, self, (&old, &new), need)?;
            kept.extend(shares.kept.iter().map(|(death, blocks)| (*death, *blocks, 0)));
            taken.extend(shares.taken.iter().map(extent_of));
            let (changes, freed) = shares.into_changes();
            owners.extend(changes);
            given_up.extend(freed.iter().map(extent_of));
        }
        // What was said last of a place counts.
        owners.reverse();
        owners.sort_by(|(one, _), (other, _)| one.cmp(other));
        owners.dedup_by(|(one, _), (other, _)| one == other);
        let owner = |(key, value)| Operation { tree: OWNER_TREE, key, value };
        let mut derived = Derived {
            freed: given_up,
            taken,
            owners: owners.into_iter().map(owner).collect(),
            kept,
            names_data: false,
            files: 0,
            shifts: SmallVec::new(),
        };
        for Operation { tree, key, value } in operations.iter().filter(|done| keys::is_record(done.tree, &done.key)) {
            let before = self.before(*tree, key, need)?;
            derived.files += i64::from(value.is_some()) - i64::from(before.is_some());
            let (before, after) = (before.as_deref().and_then(Share::of), value.as_deref().and_then(Share::of));
            if before != after {
                let file = keys::number(key, 0).unwrap_or_default();
                derived.shifts.push(Shift { file, before, after });
            }
        }
        let is_new = |extent: &Extent| !old.iter().any(|(before, ..)| before == extent);
        derived.names_data = new.iter().any(|(extent, ..)| extent.is_written && is_new(extent));
        Ok(derived)
    }
}
