//! References and those who share blocks brought together again.
//!
//! Invariant: no reference is taken out before all extents were read that could need its blocks; where a file may write over
//! what others have, it is the file that learns of it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::change::{Need, Pair, Stop, View};
use crate::error::VolumeError;
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::references::{Reference, Whose};
use crate::repair::Repaired;
use crate::scan::{Owner, runs, shared};
use crate::snapshots::Span;
use crate::verbs::Verb;
use crate::volume::Volume;
use crate::{OWNER_TREE, keys};

/// References that one change puts right beside another thing, at most.
const AT_ONCE: usize = 24;

impl Volume {
    /// Takes out a reference that nobody has, and frees blocks that were its only.
    pub(super) async fn repair_sharer(&self, key: &[u8], verb: &Verb) -> Result<Repaired, VolumeError> {
        let done = self.repair_if(verb, Need::Less, |view| view.remove(OWNER_TREE, key.to_vec())).await?;
        if let Some(Reference { place, blocks, .. }) = Reference::decode(key).filter(|_| done == Repaired::Fixed) {
            self.repair_leak(place, blocks.into()).await?;
        }
        Ok(done)
    }

    /// Has a file know that others have blocks that it took for its own.
    pub(super) async fn repair_unshared(&self, file: u64, end: u64, verb: &Verb) -> Result<Repaired, VolumeError> {
        self.store.note_clones().await?;
        let done = self.repair_if(verb, Need::More, |view| {
            let key = keys::extent(file, MAIN, end);
            let extent = view.get(keys::shard(file), &key)?.and_then(|value| Extent::decode(&value).ok());
            let Some(extent) = extent else { return Ok(()) };
            view.put(keys::shard(file), key, Extent { is_shared: true, is_written: true, ..extent }.encode())
        });
        self.holding(file, done).await
    }

    /// Has what is kept of blocks that are shared be a reference as all others.
    pub(super) async fn repair_kept_apart(&self, place: u64, verb: &Verb) -> Result<Repaired, VolumeError> {
        self.repair_if(verb, Need::More, |view| {
            let owner = view.get(OWNER_TREE, &keys::owner(place))?.and_then(|value| Owner::decode(&value).ok());
            let Some((blocks, span)) = owner.and_then(|owner| Some((owner.blocks, owner.kept?))) else { return Ok(()) };
            view.remove(OWNER_TREE, keys::owner(place))?;
            match self.store.reference_key(&Reference { place, blocks, whose: Whose::Snapshots(span) }) {
                Some(key) => view.put(OWNER_TREE, key, Vec::new()),
                None => Ok(()),
            }
        })
        .await
    }

    /// Has blocks that are shared be kept for a snapshot, of what is wanted, which is left with those that are not shared.
    /// Answers how many references that took.
    pub(super) fn keep_shared(
        &self,
        view: &mut View<'_>,
        snapshot: u64,
        wanted: &mut BTreeMap<u64, u64>,
        most: usize,
    ) -> Result<usize, Stop> {
        let (mut done, span) = (0, Span { birth: snapshot, death: snapshot });
        for (place, blocks) in wanted.clone() {
            let unkept = shared::unkept(&self.store, view, snapshot, place..place + blocks)?;
            for (place, blocks) in unkept.into_iter().take(most - done) {
                let reference = Reference { place, blocks: blocks as u32, whose: Whose::Snapshots(span) };
                if let Some(key) = self.store.reference_key(&reference) {
                    view.put(OWNER_TREE, key, Vec::new())?;
                    done += 1;
                }
            }
            self.store.each_over(view, place..place + blocks, |_, reference| {
                runs::cut(wanted, reference.place, reference.blocks.into());
                ControlFlow::Continue(())
            })?;
        }
        Ok(done)
    }

    /// Extents of files that share blocks which another one has wrongly, so many that all of those are in one; nothing where
    /// these are too many for one change.
    pub(super) fn sharers_of(&self, view: &View<'_>, extent: &Extent) -> Result<Option<Vec<Pair>>, Stop> {
        let (mut left, mut found) = (BTreeMap::from([(extent.place, u64::from(extent.blocks))]), Vec::new());
        self.store.each_over(view, extent.place..extent.end(), |_, reference| {
            let is_new = !runs::within(&left, reference.place, reference.blocks.into()).is_empty();
            if is_new && matches!(reference.whose, Whose::File { .. }) {
                runs::cut(&mut left, reference.place, reference.blocks.into());
                found.push(*reference);
            }
            if found.len() > AT_ONCE || left.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if found.len() > AT_ONCE {
            return Ok(None);
        }
        let mut pairs = Vec::with_capacity(found.len());
        for reference in found {
            let Whose::File { file, stream, block } = reference.whose else { continue };
            if let Some(there) = shared::sharer(view, &reference)? {
                pairs.push((keys::extent(file, stream, block + u64::from(reference.blocks)), there.encode()));
            }
        }
        Ok(Some(pairs))
    }
}
