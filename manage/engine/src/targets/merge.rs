//! What a pool keeps of targets, and what this node knows of them: which holds.
//!
//! ```text
//!   of two documents of one target   the one that was changed more often
//!   the pool has none any more       its LUNs were removed elsewhere, or the target was destroyed there
//!   it was destroyed here meanwhile  the pool is told, unless it was changed more often elsewhere
//! ```
//!
//! Invariant: a target that was changed on two nodes at once is told of, and never put together from both.

use std::collections::BTreeMap;

use holdfast_model::Uuid;

use super::known::{Document, GoneTarget, KnownTarget};

/// What this node knows.
pub(super) struct Here<'a> {
    /// Its targets.
    pub(super) targets: &'a BTreeMap<Uuid, KnownTarget>,
    /// Those that were destroyed while pools were away.
    pub(super) gone: &'a [GoneTarget],
}

/// What a pool keeps.
pub(super) struct Kept {
    /// The pool's id.
    pub(super) pool: Uuid,
    /// Its documents that can be read.
    pub(super) documents: Vec<Document>,
    /// The targets whose documents cannot be read.
    pub(super) unreadable: Vec<Uuid>,
    /// Whether all documents of the pool were lost, as a salvage leaves it.
    pub(super) salvaged: bool,
}

/// What follows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Merged {
    /// Targets that are to be as they are here.
    pub(super) take: Vec<KnownTarget>,
    /// Targets that are no more.
    pub(super) drop: Vec<Uuid>,
    /// What the pool is to keep of these targets instead.
    pub(super) write: Vec<(Uuid, Option<Document>)>,
    /// Targets whose name another target has, and which.
    pub(super) wait: Vec<(KnownTarget, String)>,
    /// Targets that were changed here and elsewhere; what is known here holds.
    pub(super) differ: Vec<Uuid>,
    /// What is known of destroyed targets.
    pub(super) gone: Vec<GoneTarget>,
}

/// What a pool is to keep of a target: nothing unless one of its LUNs lies there.
pub(super) fn on_pool(target: &KnownTarget, pool: Uuid) -> Option<Document> {
    target.pools().contains(&pool).then(|| Document::Target(Box::new(target.clone())))
}

/// Brings together what is known here and what a pool that comes into service keeps.
pub(super) fn merge(here: &Here<'_>, kept: &Kept) -> Merged {
    let (pool, mut merged) = (kept.pool, Merged { gone: here.gone.to_vec(), ..Merged::default() });
    for document in &kept.documents {
        match document {
            Document::Target(theirs) => target(here, pool, theirs, &mut merged),
            Document::Gone(gone) => destroyed(here, pool, gone, &mut merged),
        }
    }
    let has = |id: &Uuid| kept.unreadable.contains(id) || kept.documents.iter().any(|document| document.id() == *id);
    for ours in here.targets.values().filter(|ours| ours.pools().contains(&pool) && !has(&ours.id)) {
        if kept.salvaged {
            merged.write.push((ours.id, on_pool(ours, pool)));
            continue;
        }
        let mut left = ours.clone();
        left.luns.retain(|_, lun| lun.pool != pool);
        left.changes += 1;
        match left.luns.is_empty() {
            true => merged.drop.push(ours.id),
            false => merged.take.push(left),
        }
    }
    // A pool that keeps nothing of a destroyed target need not be told.
    for gone in &mut merged.gone {
        let told = !has(&gone.id) || merged.write.iter().any(|(id, document)| *id == gone.id && document.is_none());
        if told {
            gone.pools.remove(&pool);
        }
    }
    merged.gone.retain(|gone| !gone.pools.is_empty());
    merged
}

fn target(here: &Here<'_>, pool: Uuid, theirs: &KnownTarget, merged: &mut Merged) {
    if let Some(at) = merged.gone.iter().position(|gone| gone.id == theirs.id) {
        if theirs.changes < merged.gone[at].changes {
            merged.write.push((theirs.id, None));
            return;
        }
        // It lived on elsewhere.
        merged.gone.remove(at);
    }
    match here.targets.get(&theirs.id) {
        Some(ours) if theirs.changes > ours.changes => merged.take.push(theirs.clone()),
        Some(ours) if theirs == ours => {}
        Some(ours) => {
            if theirs.changes == ours.changes {
                merged.differ.push(ours.id);
            }
            merged.write.push((ours.id, on_pool(ours, pool)));
        }
        None => {
            let namesake = |other: &&KnownTarget| other.name == theirs.name || other.iqn == theirs.iqn;
            match here.targets.values().chain(&merged.take).find(namesake) {
                Some(other) => merged.wait.push((theirs.clone(), other.name.clone())),
                None => merged.take.push(theirs.clone()),
            }
        }
    }
}

fn destroyed(here: &Here<'_>, pool: Uuid, gone: &GoneTarget, merged: &mut Merged) {
    match here.targets.get(&gone.id) {
        Some(ours) if ours.changes > gone.changes => merged.write.push((ours.id, on_pool(ours, pool))),
        ours => {
            merged.drop.extend(ours.map(|ours| ours.id));
            let mut left = gone.clone();
            left.pools.remove(&pool);
            if left.pools.is_empty() {
                merged.write.push((gone.id, None));
            }
            match merged.gone.iter_mut().find(|known| known.id == gone.id) {
                Some(known) => known.pools.extend(left.pools),
                None => merged.gone.push(left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::known::{Backing, KnownLun};

    const HERE: Uuid = Uuid::from_u128(1);
    const AWAY: Uuid = Uuid::from_u128(2);

    fn lun(pool: Uuid) -> KnownLun {
        KnownLun {
            id: Uuid::from_u128(9),
            pool,
            on: Backing::Space(Uuid::from_u128(9)),
            path: "tank/vm".into(),
            blocks: Default::default(),
            read_only: false,
            alert_percent: None,
            full: false,
            qos: Default::default(),
        }
    }

    fn known(id: u128, changes: u64, pools: &[Uuid]) -> KnownTarget {
        let mut target = KnownTarget::new(&format!("t{id}"), format!("iqn.2026-11.org.holdfast:t{id}"));
        (target.id, target.changes) = (Uuid::from_u128(id), changes);
        target.luns = (0..).zip(pools).map(|(number, pool)| (number, lun(*pool))).collect();
        target
    }

    fn merged(ours: &[&KnownTarget], gone: &[&GoneTarget], documents: Vec<Document>) -> Merged {
        let targets = ours.iter().map(|target| (target.id, (*target).clone())).collect();
        let gone: Vec<GoneTarget> = gone.iter().map(|gone| (*gone).clone()).collect();
        let kept = Kept { pool: HERE, documents, unreadable: vec![], salvaged: false };
        merge(&Here { targets: &targets, gone: &gone }, &kept)
    }

    fn document(target: &KnownTarget) -> Document {
        Document::Target(Box::new(target.clone()))
    }

    fn end(target: &KnownTarget, pools: &[Uuid]) -> GoneTarget {
        let pools = pools.iter().copied().collect();
        GoneTarget { id: target.id, name: target.name.clone(), changes: target.changes + 1, pools }
    }

    #[test]
    fn the_newer_of_two_documents_holds() {
        let (old, new) = (known(1, 3, &[HERE]), known(1, 4, &[HERE, AWAY]));
        assert_eq!(merged(&[&old], &[], vec![document(&new)]), Merged { take: vec![new.clone()], ..Merged::default() });
        let write = vec![(new.id, Some(document(&new)))];
        assert_eq!(merged(&[&new], &[], vec![document(&old)]), Merged { write, ..Merged::default() });
        assert_eq!(merged(&[&new], &[], vec![document(&new)]), Merged::default());
        assert_eq!(merged(&[], &[], vec![document(&new)]), Merged { take: vec![new], ..Merged::default() });
    }

    #[test]
    fn a_lun_that_was_removed_here_while_its_pool_was_away_is_removed_there() {
        let (old, new) = (known(1, 3, &[HERE, AWAY]), known(1, 4, &[AWAY]));
        assert_eq!(merged(&[&new], &[], vec![document(&old)]).write, [(new.id, None)]);
    }

    #[test]
    fn what_was_changed_on_two_nodes_is_told_and_not_put_together() {
        let (ours, mut theirs) = (known(1, 3, &[HERE]), known(1, 3, &[HERE]));
        theirs.open = true;
        let found = merged(&[&ours], &[], vec![document(&theirs)]);
        assert_eq!((found.differ, found.write), (vec![ours.id], vec![(ours.id, Some(document(&ours)))]));
    }

    #[test]
    fn what_was_removed_elsewhere_is_gone_here() {
        let (whole, mut left) = (known(1, 3, &[HERE, AWAY]), known(1, 4, &[AWAY]));
        left.luns = BTreeMap::from([(1, lun(AWAY))]);
        assert_eq!(merged(&[&whole], &[], vec![]), Merged { take: vec![left], ..Merged::default() });
        let alone = known(1, 3, &[HERE]);
        assert_eq!(merged(&[&alone], &[], vec![]).drop, [alone.id]);
        assert_eq!(merged(&[&known(1, 3, &[AWAY]), &known(2, 1, &[])], &[], vec![]), Merged::default());
    }

    #[test]
    fn a_pool_without_documents_gets_what_is_known_here() {
        let ours = known(1, 3, &[HERE]);
        let targets = BTreeMap::from([(ours.id, ours.clone())]);
        let kept = Kept { pool: HERE, documents: vec![], unreadable: vec![], salvaged: true };
        let found = merge(&Here { targets: &targets, gone: &[] }, &kept);
        assert_eq!(found, Merged { write: vec![(ours.id, Some(document(&ours)))], ..Merged::default() });
        let kept = Kept { unreadable: vec![ours.id], salvaged: false, ..kept };
        assert_eq!(
            merge(&Here { targets: &targets, gone: &[] }, &kept),
            Merged::default(),
            "it is there, if unreadable"
        );
    }

    #[test]
    fn a_destroyed_target_does_not_come_back_with_a_pool_that_was_away() {
        let old = known(1, 3, &[HERE, AWAY]);
        let gone = end(&old, &[HERE, AWAY]);
        let found = merged(&[], &[&gone], vec![document(&old)]);
        assert_eq!((found.take.len(), found.write), (0, vec![(old.id, None)]));
        assert_eq!(found.gone, [end(&old, &[AWAY])]);
        assert_eq!(merged(&[], &[&end(&old, &[HERE])], vec![document(&old)]).gone, []);
        // It was changed elsewhere since.
        let found = merged(&[], &[&gone], vec![document(&known(1, 7, &[HERE, AWAY]))]);
        assert_eq!((found.take.len(), found.gone), (1, vec![]));
    }

    #[test]
    fn a_target_that_was_destroyed_elsewhere_is_gone_here() {
        let ours = known(1, 3, &[HERE, AWAY]);
        let found = merged(&[&ours], &[], vec![Document::Gone(end(&ours, &[AWAY]))]);
        assert_eq!((found.drop, found.gone, found.write), (vec![ours.id], vec![end(&ours, &[AWAY])], vec![]));
        let newer = known(1, 9, &[HERE]);
        let found = merged(&[&newer], &[], vec![Document::Gone(end(&ours, &[AWAY]))]);
        assert_eq!((found.drop, found.write), (vec![], vec![(newer.id, Some(document(&newer)))]));
    }

    #[test]
    fn of_two_targets_of_one_name_the_second_waits() {
        let (ours, mut theirs) = (known(1, 3, &[AWAY]), known(2, 1, &[HERE]));
        theirs.name = ours.name.clone();
        let found = merged(&[&ours], &[], vec![document(&theirs)]);
        assert_eq!((found.take.len(), found.wait), (0, vec![(theirs, ours.name)]));
    }
}
