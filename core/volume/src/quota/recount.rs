//! What everybody takes, counted anew.
//!
//! ```text
//!   records, shard by shard ─▶ sums        a change behind the reader's place is added to both
//!                                ledger ──▶ the sums take its place, under the lock of the tree of quotas
//! ```
//!
//! Invariant: when the reader is through, the sums are what records say, whatever changed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::ledger::{Amount, parts};
use super::{KEY_COUNTED, Subject, TAKEN, subject_of};
use crate::change::Need;
use crate::error::VolumeError;
use crate::keys;
use crate::record::Share;
use crate::volume::Volume;
use crate::{QUOTA_TREE, SHARED_TREES};

/// What records of a durable root say, beside what its tree of quotas does.
#[derive(Default)]
pub(crate) struct Tally {
    found: BTreeMap<Subject, Amount>,
    told: BTreeMap<Subject, Amount>,
    is_counted: bool,
}

impl Tally {
    /// The next entry of a tree.
    pub fn entry(&mut self, tree: u8, key: &[u8], value: &[u8]) {
        if keys::is_record(tree, key) {
            for (subject, amount) in Share::of(value).iter().flat_map(parts) {
                *self.found.entry(subject).or_default() += amount;
            }
        } else if tree == QUOTA_TREE {
            if let Some((subject, amount)) = subject_of(TAKEN, key).zip(Amount::decode(value)) {
                self.told.insert(subject, amount);
            }
            self.is_counted |= key == KEY_COUNTED;
        }
    }

    /// Whose sums differ.
    pub fn wrong(&self) -> Vec<Subject> {
        if !self.is_counted {
            return Vec::new();
        }
        let known: BTreeSet<Subject> = self.found.keys().chain(self.told.keys()).copied().collect();
        let of = |sums: &BTreeMap<Subject, Amount>, subject: &Subject| sums.get(subject).copied().unwrap_or_default();
        known.into_iter().filter(|subject| of(&self.found, subject) != of(&self.told, subject)).collect()
    }
}

impl Volume {
    /// Counts what users, groups and trees take, while files change; answers whether anything was counted wrong.
    ///
    /// # Errors
    /// A node is damaged, or the device failed. What was counted before stays then.
    pub async fn recount(&self) -> Result<bool, VolumeError> {
        let _one = self.walks.one.lock().await;
        self.store.ledger.begin_recount();
        let read = self.read_shares().await;
        let ended = self
            .store
            .look([QUOTA_TREE], |view| {
                // No cut is made while its tree is held.
                let kept = view.range(QUOTA_TREE, &[TAKEN], &[TAKEN], usize::MAX)?;
                let amount = |(key, value): &(Vec<u8>, Vec<u8>)| subject_of(TAKEN, key).zip(Amount::decode(value));
                let kept = kept.iter().filter_map(amount).collect();
                Ok(self.store.ledger.end_recount(read.is_ok().then_some(kept)))
            })
            .await;
        if ended.is_err() {
            self.store.ledger.end_recount(None);
        }
        read?;
        let differs = ended?;
        if differs {
            self.checkpoint().await?;
        }
        let change = self.store.change([QUOTA_TREE], Need::Less, |view| {
            if view.get(QUOTA_TREE, KEY_COUNTED)?.is_none() {
                view.put(QUOTA_TREE, KEY_COUNTED.to_vec(), vec![1])?;
            }
            Ok(())
        });
        change.await?;
        Ok(differs)
    }

    async fn read_shares(&self) -> Result<(), VolumeError> {
        for shard in 0..SHARED_TREES {
            let mut next = Some(Vec::new());
            while let Some(from) = next.take() {
                self.store.check_interrupted()?;
                let read = self.store.look([shard], |view| {
                    let mut shares = Vec::new();
                    let then = view.visit(shard, &from, |key, value| {
                        if keys::is_record(shard, key) {
                            shares.extend(Share::of(value));
                        }
                        ControlFlow::Continue(())
                    })?;
                    let (of, place) = match &then {
                        Some(then) => (shard, then.clone()),
                        None => (shard + 1, Vec::new()),
                    };
                    self.store.ledger.count(&shares, of, place);
                    Ok(then)
                });
                next = read.await?;
                crate::scan::give_way().await;
            }
        }
        Ok(())
    }
}
