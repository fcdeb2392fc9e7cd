//! What the last scan found, kept in the volume until it is repaired or found no more.
//!
//! Invariant: a finding is kept once, under its number and a hash of itself.

use crate::change::Need;
use crate::error::VolumeError;
use crate::page::crc_of;
use crate::store::held;
use crate::transaction::{MOST_OPERATIONS, Operation, Transaction};
use crate::verbs::Verb;
use crate::volume::Volume;
use crate::{JOURNAL_TREE, VERB_TREE};

fn key(verb: &Verb) -> Vec<u8> {
    let value = verb.encode();
    let (one, other) = value.split_at(value.len() / 2);
    [&[verb.number()][..], &crc_of(one).to_be_bytes(), &crc_of(other).to_be_bytes()].concat()
}

/// Findings that are read, at most: a scan keeps half as many, and what an opening left out comes with them.
const MOST: usize = 200_000;

impl Volume {
    /// What the last scan found and nothing repaired since, in order of its numbers.
    ///
    /// # Errors
    /// A node is damaged, or the device failed.
    pub async fn findings(&self) -> Result<Vec<Verb>, VolumeError> {
        let kept = self.store.range(VERB_TREE, b"", MOST).await?;
        kept.iter().map(|(_, value)| Verb::decode(value)).collect()
    }

    /// Keeps these in place of all that was kept.
    pub(crate) async fn keep_verbs(&self, verbs: &[Verb]) -> Result<(), VolumeError> {
        let before = self.store.range(VERB_TREE, b"", MOST).await?;
        let new: std::collections::BTreeMap<Vec<u8>, Vec<u8>> =
            verbs.iter().map(|verb| (key(verb), verb.encode())).collect();
        // What was left out is found by no scan: it stays until the volume is repaired offline.
        let stays = |value: &[u8]| matches!(Verb::decode(value), Ok(Verb::LeftOut { .. }));
        let gone = before.iter().filter(|(key, value)| !new.contains_key(key) && !stays(value));
        let gone = gone.map(|(key, _)| Operation { tree: VERB_TREE, key: key.clone(), value: None });
        let operations: Vec<Operation> = gone.collect();
        self.apply_verbs(operations, Need::Less).await?;
        let old = |key: &[u8]| before.binary_search_by(|(before, _)| before.as_slice().cmp(key)).is_ok();
        let new = new.into_iter().filter(|(key, _)| !old(key));
        let put = new.map(|(key, value)| Operation { tree: VERB_TREE, key, value: Some(value) });
        self.apply_verbs(put.collect(), Need::More).await
    }

    /// Keeps what the opening had to leave out.
    pub(crate) async fn keep_left_out(&self) -> Result<(), VolumeError> {
        let left = std::mem::take(&mut *held(&self.store.left_out));
        // The journal begins behind what it lost.
        let left = left.into_iter().filter(|(tree, _)| *tree != JOURNAL_TREE);
        let verbs = left.map(|(tree, key)| Verb::LeftOut { tree, key });
        let put = verbs.map(|verb| Operation { tree: VERB_TREE, key: key(&verb), value: Some(verb.encode()) });
        self.apply_verbs(put.collect(), Need::More).await
    }

    /// A finding is there no more.
    pub(crate) async fn forget_verb(&self, verb: &Verb) -> Result<(), VolumeError> {
        let gone = Operation { tree: VERB_TREE, key: key(verb), value: None };
        self.apply_verbs(vec![gone], Need::Less).await
    }

    async fn apply_verbs(&self, operations: Vec<Operation>, need: Need) -> Result<(), VolumeError> {
        for some in operations.chunks(MOST_OPERATIONS / 4) {
            let transaction = Transaction { operations: some.to_vec(), ..Transaction::default() };
            let change = self.store.change([VERB_TREE], need, |view| {
                for Operation { tree, key, value } in &transaction.operations {
                    match value {
                        Some(value) => view.put(*tree, key.clone(), value.clone())?,
                        None => view.remove(*tree, key.clone())?,
                    }
                }
                Ok(())
            });
            change.await?;
        }
        Ok(())
    }
}
