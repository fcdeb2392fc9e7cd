//! Whether something is wrong with blocks that files share, decided on the trees as they are.
//!
//! Invariant: what is said here of an extent or a reference is said again by the repair before it changes anything.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use crate::OWNER_TREE;
use crate::change::{Stop, View};
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::keys;
use crate::references::{Reference, Whose};
use crate::scan::facts::Owner;
use crate::scan::runs;
use crate::snapshots::Span;
use crate::store::Store;
use crate::verbs::Verb;

/// The extent of a file that ends before a block.
fn extent_at(view: &View<'_>, file: u64, stream: u32, end: u64) -> Result<Option<Extent>, Stop> {
    let value = view.get(keys::shard(file), &keys::extent(file, stream, end))?;
    Ok(value.and_then(|value| Extent::decode(&value).ok()))
}

/// The extent that says the same as a reference of a file, if there is one.
pub(crate) fn sharer(view: &View<'_>, reference: &Reference) -> Result<Option<Extent>, Stop> {
    let Whose::File { file, stream, block } = reference.whose else { return Ok(None) };
    let extent = extent_at(view, file, stream, block + u64::from(reference.blocks))?;
    let is_it =
        |extent: &Extent| extent.is_shared && (extent.place, extent.blocks) == (reference.place, reference.blocks);
    Ok(extent.filter(is_it))
}

/// Whether references are over some blocks.
pub(crate) fn is_over(store: &Store, view: &View<'_>, place: u64, blocks: u32) -> Result<bool, Stop> {
    let mut is_over = false;
    store.each_over(view, place..place + u64::from(blocks), |_, _| {
        is_over = true;
        ControlFlow::Break(())
    })?;
    Ok(is_over)
}

/// What is wrong with an extent that is shared, or is not and should be; nothing is said of others.
pub(crate) fn extent(
    store: &Store,
    view: &View<'_>,
    (file, end): (u64, u64),
    extent: &Extent,
) -> Result<Option<Option<Verb>>, Stop> {
    let (place, start) = (extent.place, end.saturating_sub(extent.blocks.into()));
    let own = store.reference_key(&Reference::of_file(file, MAIN, start, extent));
    let is_known = match own {
        Some(key) => view.get(OWNER_TREE, &key)?.is_some(),
        None => false,
    };
    if extent.is_shared {
        return Ok(Some((!is_known).then_some(Verb::SharerUnknown { file, end, place })));
    }
    if !is_over(store, view, place, extent.blocks)? {
        return Ok(None);
    }
    let owner = view.get(OWNER_TREE, &keys::owner(place))?.and_then(|value| Owner::decode(&value).ok());
    let is_owned = owner.is_some_and(|owner| {
        owner.kept.is_none() && (owner.file, owner.block, owner.blocks) == (file, start, extent.blocks)
    });
    // What nothing else says to be the file's is others'.
    let verb = match is_known || is_owned {
        true => Verb::Unshared { file, end, place },
        false => Verb::Overlap { file, end, place },
    };
    Ok(Some(Some(verb)))
}

/// What is wrong with a reference.
pub(crate) fn reference(store: &Store, view: &View<'_>, key: &[u8]) -> Result<Option<Verb>, Stop> {
    let Some(reference) = Reference::decode(key) else { return Ok(None) };
    if view.get(OWNER_TREE, key)?.is_none() {
        return Ok(None);
    }
    let is_needed = match reference.whose {
        Whose::Snapshots(span) => store.snapshots.have(span) || store.snapshots.is_to_be_reclaimed(),
        Whose::File { .. } => sharer(view, &reference)?.is_some(),
    };
    let is_right = is_needed && store.reference_key(&reference).as_deref() == Some(key);
    Ok((!is_right).then(|| Verb::SharerAlone { place: reference.place, key: key.to_vec() }))
}

/// Blocks of a range that are shared, and that no reference keeps for a snapshot which has them.
pub(crate) fn unkept(
    store: &Store,
    view: &View<'_>,
    snapshot: u64,
    range: Range<u64>,
) -> Result<BTreeMap<u64, u64>, Stop> {
    let (mut shared, mut found) = (BTreeMap::new(), Vec::new());
    if !store.has_clones() {
        return Ok(shared);
    }
    store.each_over(view, range.clone(), |_, reference| {
        found.push(*reference);
        ControlFlow::Continue(())
    })?;
    for reference in &found {
        let (from, to) = (reference.place.max(range.start), reference.end().min(range.end));
        runs::cut(&mut shared, from, to - from);
        shared.insert(from, to - from);
    }
    let keeps = |span: Span| (span.birth..=span.death).contains(&snapshot);
    if !shared.is_empty() {
        // Apart from references, which is a finding of its own.
        for (place, owner) in store.owners_over(view, range, usize::MAX)? {
            if owner.kept.is_some_and(keeps) {
                runs::cut(&mut shared, place, owner.blocks.into());
            }
        }
    }
    for reference in &found {
        if shared.is_empty() {
            break;
        }
        let has = match reference.whose {
            Whose::Snapshots(span) => keeps(span),
            // It keeps them when the file lets go.
            Whose::File { .. } => sharer(view, reference)?.is_some_and(|extent| extent.birth <= snapshot),
        };
        if has {
            runs::cut(&mut shared, reference.place, reference.blocks.into());
        }
    }
    Ok(shared)
}
