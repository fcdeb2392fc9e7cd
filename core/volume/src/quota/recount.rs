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

use super::account::Amount;
use super::owners::{Party, parts};
use super::{BY_USER, KEY_COUNTED, TAKEN};
use crate::error::VolumeError;
use crate::keys;
use crate::record::Share;
use crate::superblock::NT_RULES;
use crate::volume::Volume;
use crate::{QUOTA_TREE, SHARED_TREES};

/// What records of a durable root say, beside what its tree of quotas does.
#[derive(Default)]
pub(crate) struct Tally {
    found: BTreeMap<Party, Amount>,
    told: BTreeMap<Party, Amount>,
    /// How it was counted, if it was.
    counted: Option<u8>,
}

impl Tally {
    /// The next entry of a tree.
    pub fn entry(&mut self, tree: u8, key: &[u8], value: &[u8]) {
        if keys::is_record(tree, key) {
            for (party, amount) in Share::of(value).iter().flat_map(parts) {
                *self.found.entry(party).or_default() += amount;
            }
        } else if tree == QUOTA_TREE {
            if let Some((party, amount)) = Party::of_taken_key(key).zip(Amount::decode(value)) {
                self.told.insert(party, amount);
            }
            if key == KEY_COUNTED {
                self.counted = Some(value.first().copied().unwrap_or(BY_USER));
            }
        }
    }

    /// Whose sums differ.
    pub fn wrong(&self) -> Vec<Party> {
        let Some(counted) = self.counted else { return Vec::new() };
        let mut found: BTreeMap<Party, Amount> = BTreeMap::new();
        for (party, amount) in &self.found {
            let party = if counted == BY_USER { party.by_user() } else { *party };
            *found.entry(party).or_default() += *amount;
        }
        let known: BTreeSet<Party> = found.keys().chain(self.told.keys()).copied().collect();
        let of = |sums: &BTreeMap<Party, Amount>, party: &Party| sums.get(party).copied().unwrap_or_default();
        known.into_iter().filter(|party| of(&found, party) != of(&self.told, party)).collect()
    }
}

impl Volume {
    /// Counts what owners, groups and trees take, while files change; answers whether anything was counted wrong, or
    /// otherwise than it is now.
    ///
    /// # Errors
    /// A node is damaged, or the device failed. What was counted before stays then.
    pub async fn recount(&self) -> Result<bool, VolumeError> {
        let _one = self.walks.one.lock().await;
        if self.store.ledger.needs_owners() {
            self.store.use_feature(NT_RULES).await?;
        }
        self.store.ledger.begin_recount();
        let read = self.read_shares().await;
        let ended = self
            .store
            .look([QUOTA_TREE], |view| {
                // No cut is made while its tree is held.
                let kept = view.range(QUOTA_TREE, &[TAKEN], &[TAKEN], usize::MAX)?;
                let amount = |(key, value): &(Vec<u8>, Vec<u8>)| Party::of_taken_key(key).zip(Amount::decode(value));
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
            // The same root says that it was counted.
            self.checkpoint().await?;
        }
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
