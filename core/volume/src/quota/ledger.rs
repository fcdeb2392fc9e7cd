//! What everybody takes, in memory: changed with every change of records, written by checkpoints.
//!
//! ```text
//!   own    files that name the subject itself            written to the tree of quotas
//!   held   data of files that waits for its place        in memory only
//!   all    both, of a directory tree with those within   what limits are held against
//! ```
//!
//! Invariants: `own` is the sum over all records, as long as it is counted. A change that takes more than a hard limit
//! leaves is refused before anything of it is made. Its lock is taken last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_identity::Sid;
use holdfast_model::ByteSize;
use smallvec::SmallVec;

use super::account::{Account, Amount};
use super::owners::{Owners, Party, parts};
use super::{BY_OWNER, BY_USER, Definition, KEY_COUNTED, Quota, Subject, bytes_of, limits_key, limits_of, narrowed};
use crate::descriptors::NOBODY;
use crate::error::{ErrorKind, VolumeError};
use crate::record::Share;
use crate::service::{FileId, Usage};
use crate::store::held;

/// Users, groups and trees that are known, at most.
const MOST_ACCOUNTS: usize = 1 << 20;
/// How deep trees are within each other, at most.
pub(super) const MOST_DEPTH: usize = 16;

/// Which limits hold for a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Enforce {
    /// All of them.
    #[default]
    All,
    /// Those of directory trees: an administrator makes it.
    Trees,
    /// None: it puts right what is there.
    Nothing,
}

/// A record before and after a change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    pub file: u64,
    pub before: Option<Share>,
    pub after: Option<Share>,
}

type Amounts = SmallVec<[(Party, Amount); 8]>;

fn add(amounts: &mut Amounts, party: Party, amount: Amount) {
    match amounts.iter_mut().find(|(known, _)| *known == party) {
        Some((_, sum)) => *sum += amount,
        None => amounts.push((party, amount)),
    }
}

/// A count of all records that is under way.
#[derive(Default)]
pub(super) struct Recount {
    /// The tree of files that is read, and the key from which on it was not read yet.
    pub(super) shard: u8,
    pub(super) next: Vec<u8>,
    pub(super) found: BTreeMap<Party, Amount>,
}

impl Recount {
    fn has(&self, file: u64) -> bool {
        let shard = crate::keys::shard(file);
        shard < self.shard || shard == self.shard && crate::keys::record(file) < self.next
    }
}

/// The same of the blocks alone.
fn blocks_of(share: &Share) -> impl Iterator<Item = (Party, Amount)> + use<> {
    parts(share).map(|(party, amount)| (party, Amount { files: 0, ..amount }))
}

#[derive(Default)]
struct Inner {
    accounts: BTreeMap<Party, Account>,
    /// Those that have a definition.
    defined: BTreeSet<Party>,
    /// Those whose own amount differs from what the tree of quotas has.
    changed: BTreeSet<Party>,
    is_counted: bool,
    /// Whether owners without a number are told apart.
    by_owner: bool,
    owners: Owners,
    /// What the tree of quotas says of how it was counted, and what a checkpoint that is under way has it say.
    marked: u8,
    marking: u8,
    recount: Option<Recount>,
    /// For files with data that waits for its place, whom they count for, and the blocks that it will take.
    held: HashMap<u64, Share>,
}

impl Inner {
    /// Whom a file counts for itself, and how much, as long as it is counted as it is.
    fn own(&self, party: Party) -> Party {
        if self.by_owner { party } else { party.by_user() }
    }

    /// The party that what a party takes counts for, too.
    fn above(&self, party: Party) -> Option<Party> {
        match party {
            Party::Descriptor(descriptor) => Some(self.owners.of(descriptor)),
            Party::Tree(_) => {
                let definition = self.accounts.get(&party)?.definition?;
                (definition.parent != 0).then_some(Party::Tree(definition.parent))
            }
            _ => None,
        }
    }

    /// All that what a party takes counts for, itself first: the trees that one is within, the owner of a descriptor.
    fn chain(&self, party: Party) -> SmallVec<[Party; 4]> {
        let (mut chain, mut at) = (SmallVec::new(), self.own(party));
        while chain.len() <= MOST_DEPTH && !chain.contains(&at) {
            chain.push(at);
            match self.above(at) {
                Some(above) => at = above,
                None => break,
            }
        }
        chain
    }

    /// Puts limits in the place of those of a subject; answers whose account has them.
    fn define(&mut self, subject: Subject, definition: Option<Definition>) -> Option<Party> {
        let known = self.owners.known(subject);
        let party = match subject {
            Subject::Sid(_) if known.is_some_and(|known| self.defined.contains(&known)) => known?,
            Subject::Sid(_) if definition.is_none() => return None,
            Subject::Sid(sid) => self.owners.hold(&sid),
            _ => known?,
        };
        let account = self.accounts.entry(party).or_default();
        account.definition = definition;
        if definition.is_some() {
            self.defined.insert(party);
        } else if self.defined.remove(&party) {
            // What is told of a quota is told of the one that is there.
            (account.refused, account.crossed) = (0, 0);
            if self.owners.let_go(party) {
                self.accounts.remove(&party);
            }
        }
        Some(party)
    }

    /// Has parties count what is within them: trees, or all of them.
    fn add_up(&mut self, all: bool) {
        let is_meant = |party: &Party| all || matches!(party, Party::Tree(_));
        let own: Vec<(Party, Amount)> = self
            .accounts
            .iter()
            .filter(|(party, _)| is_meant(party))
            .map(|(party, account)| (*party, account.own))
            .collect();
        for (party, _) in &own {
            self.accounts.entry(*party).or_default().all = Amount::default();
        }
        let waiting: Vec<_> = self.held.values().flat_map(blocks_of).filter(|(party, _)| is_meant(party)).collect();
        for (party, amount) in own.into_iter().chain(waiting) {
            for above in self.chain(party) {
                self.accounts.entry(above).or_default().all += amount;
            }
        }
        let known: Vec<Party> = self.accounts.keys().filter(|party| is_meant(party)).copied().collect();
        known.into_iter().for_each(|party| self.forget_empty(party));
    }

    /// Counts so many blocks of a share more, or less, beside what records say.
    fn add_held(&mut self, share: &Share, sign: i64) {
        for (party, amount) in blocks_of(share) {
            let amount = Amount { blocks: amount.blocks * sign, files: 0 };
            for above in self.chain(party) {
                self.accounts.entry(above).or_default().take(amount);
                self.forget_empty(above);
            }
        }
    }

    fn forget_empty(&mut self, party: Party) {
        let is_empty =
            |account: &Account| account.own.is_nothing() && account.all.is_nothing() && account.definition.is_none();
        if self.accounts.get(&party).is_some_and(is_empty) {
            self.accounts.remove(&party);
        }
    }

    fn refuse(&mut self, party: Party, limit: &str) -> VolumeError {
        if let Some(account) = self.accounts.get_mut(&party) {
            account.refused += 1;
        }
        let whose = self.owners.subject(party).map_or_else(|| "the owner".into(), |subject| subject.to_string());
        VolumeError::new(ErrorKind::Quota, format!("{whose} has used all that its quota allows: {limit}"))
    }

    /// What is known of a party, as others see it.
    fn quota(&self, party: Party) -> Option<Quota> {
        Some(self.accounts.get(&party)?.quota(self.owners.subject(party)?))
    }

    fn forget_owner(&mut self, gone: Option<Party>) {
        if let Some(gone) = gone {
            self.accounts.remove(&gone);
        }
    }
}

/// The accounts of a volume.
#[derive(Default)]
pub(crate) struct Ledger {
    inner: Mutex<Inner>,
    /// Whether there is a limit at all.
    is_limited: AtomicBool,
}

impl Ledger {
    /// Takes over an entry of the tree of quotas, as a checkpoint left it.
    pub fn load(&self, key: &[u8], value: &[u8]) {
        let mut inner = held(&self.inner);
        if let Some(subject) = limits_of(key) {
            inner.define(subject, Definition::decode(value));
        } else if let Some((party, own)) = Party::of_taken_key(key).zip(Amount::decode(value)) {
            inner.accounts.entry(party).or_default().own = own;
        } else if key == KEY_COUNTED {
            (inner.is_counted, inner.marked) = (true, value.first().copied().unwrap_or(BY_USER));
        }
    }

    /// All of it was taken over; these are the descriptors that files may name there, with their owners.
    pub fn loaded(&self, owners: &[(u32, Sid)]) {
        let mut inner = held(&self.inner);
        owners.iter().for_each(|(descriptor, owner)| _ = inner.owners.know(*descriptor, owner));
        // Where no owner is without a number, both are the same.
        inner.by_owner = !inner.is_counted || inner.marked != BY_USER || !inner.owners.are_foreign();
        if !inner.is_counted {
            inner.accounts.values_mut().for_each(|account| account.own = Amount::default());
        }
        inner.add_up(true);
        self.note_limits(&inner);
    }

    /// These are the descriptors that files may name now that the log was followed. What is told begins here.
    pub fn followed(&self, owners: impl IntoIterator<Item = (u32, Sid)>) {
        let mut inner = held(&self.inner);
        inner.owners.forget_all();
        owners.into_iter().for_each(|(descriptor, owner)| _ = inner.owners.know(descriptor, &owner));
        inner.accounts.retain(|party, account| !matches!(party, Party::Owner(_)) || account.definition.is_some());
        inner.add_up(true);
        inner.accounts.values_mut().for_each(|account| (account.refused, account.crossed) = (0, 0));
    }

    /// A descriptor that a change puts in has this owner.
    pub fn know(&self, descriptor: u32, owner: &Sid) {
        let mut inner = held(&self.inner);
        let gone = inner.owners.know(descriptor, owner);
        inner.forget_owner(gone);
    }

    /// A change took a descriptor out, which no file names.
    pub fn forget(&self, descriptor: u32) {
        let mut inner = held(&self.inner);
        let gone = inner.owners.forget(descriptor);
        inner.forget_owner(gone);
    }

    fn note_limits(&self, inner: &Inner) {
        self.is_limited.store(inner.is_counted && !inner.defined.is_empty(), Ordering::Release);
    }

    /// A change of the tree of quotas, which is locked.
    pub fn define(&self, key: &[u8], value: Option<&[u8]>) {
        let mut inner = held(&self.inner);
        if let Some(subject) = limits_of(key) {
            let party = inner.owners.known(subject);
            let before = party.and_then(|party| inner.accounts.get(&party)).map(Account::limits).unwrap_or_default();
            let Some(party) = inner.define(subject, value.and_then(Definition::decode)) else { return };
            if matches!(party, Party::Tree(_)) {
                inner.add_up(false);
            }
            if let Some(account) = inner.accounts.get_mut(&party) {
                account.note_new_limits(before);
            }
            inner.forget_empty(party);
        } else if key == KEY_COUNTED {
            inner.is_counted = value.is_some();
            inner.marked = value.map_or(0, |value| value.first().copied().unwrap_or(BY_USER));
        }
        self.note_limits(&inner);
    }

    /// Whether there is a limit at all.
    pub fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Acquire)
    }

    pub fn is_counted(&self) -> bool {
        held(&self.inner).is_counted
    }

    pub fn are_owners_counted(&self) -> bool {
        let inner = held(&self.inner);
        inner.is_counted && inner.by_owner
    }

    /// Whether there are owners that only a volume with the feature tells apart.
    pub fn needs_owners(&self) -> bool {
        held(&self.inner).owners.are_foreign()
    }

    /// What a party is to others.
    pub fn subject(&self, party: Party) -> Subject {
        let inner = held(&self.inner);
        let whose = if let Party::Descriptor(descriptor) = party { inner.owners.of(descriptor) } else { party };
        inner.owners.subject(whose).unwrap_or(Subject::User(NOBODY))
    }

    /// Holds blocks for data of a file that waits for its place; false where a limit is in the way. The tree of its
    /// record is locked.
    pub fn hold(&self, file: u64, share: Share, blocks: u64) -> bool {
        let mut inner = held(&self.inner);
        let more = Share { blocks, ..share };
        let is_over = |account: &Account| account.left().is_some_and(|left| left < blocks);
        for (party, _) in blocks_of(&more).filter(|_| inner.is_counted) {
            if inner.chain(party).iter().any(|above| inner.accounts.get(above).is_some_and(is_over)) {
                return false;
            }
        }
        inner.add_held(&more, 1);
        inner.held.entry(file).or_insert(Share { blocks: 0, ..share }).blocks += blocks;
        true
    }

    /// Holds nothing for a file any more.
    pub fn let_go(&self, file: u64) {
        let mut inner = held(&self.inner);
        if let Some(share) = inner.held.remove(&file) {
            inner.add_held(&share, -1);
        }
    }

    /// Books what a change makes of records, whose trees are locked; all of it, or nothing where a limit is in the way.
    /// So many blocks of it were held for the one file whose record changes.
    pub fn book(&self, shifts: &[Shift], enforce: Enforce, redeemed: u64) -> Result<(), VolumeError> {
        if shifts.is_empty() {
            return Ok(());
        }
        let mut amounts = Amounts::new();
        let mut inner = held(&self.inner);
        for Shift { before, after, .. } in shifts {
            before.iter().flat_map(parts).for_each(|(party, amount)| add(&mut amounts, inner.own(party), -amount));
            after.iter().flat_map(parts).for_each(|(party, amount)| add(&mut amounts, inner.own(party), amount));
        }
        amounts.retain(|(_, amount)| !amount.is_nothing());
        let waiting = inner.waiting(shifts, redeemed);
        if amounts.is_empty() && waiting.is_empty() {
            return Ok(());
        }
        if inner.is_counted {
            let mut all = Amounts::new();
            for (party, amount) in &amounts {
                inner.chain(*party).into_iter().for_each(|above| add(&mut all, above, *amount));
            }
            for (_, before, after) in &waiting {
                for (party, amount) in blocks_of(before) {
                    inner.chain(party).into_iter().for_each(|above| add(&mut all, above, -amount));
                }
                for (party, amount) in blocks_of(after) {
                    inner.chain(party).into_iter().for_each(|above| add(&mut all, above, amount));
                }
            }
            if enforce != Enforce::Nothing {
                inner.check(&all, enforce)?;
            }
            for (party, amount) in &amounts {
                inner.accounts.entry(*party).or_default().own += *amount;
                inner.changed.insert(*party);
            }
            for (party, amount) in all {
                inner.accounts.entry(party).or_default().take(amount);
                inner.forget_empty(party);
            }
        } else {
            for (_, before, after) in &waiting {
                inner.add_held(before, -1);
                inner.add_held(after, 1);
            }
        }
        for (file, _, after) in waiting {
            inner.held.insert(file, after);
        }
        if let Some(recount) = &mut inner.recount {
            for Shift { file, before, after } in shifts {
                if recount.has(*file) {
                    let gone = before.iter().flat_map(parts).map(|(party, amount)| (party, -amount));
                    for (party, amount) in gone.chain(after.iter().flat_map(parts)) {
                        *recount.found.entry(party).or_default() += amount;
                    }
                }
            }
        }
        Ok(())
    }

    /// Of so many blocks more for a file, how many limits leave, and the refusal of the rest.
    pub fn fit(&self, share: Share, blocks: u64) -> (u64, Option<VolumeError>) {
        let mut inner = held(&self.inner);
        let mut least: Option<(u64, Party)> = None;
        for (party, _) in parts(&share) {
            for above in inner.chain(party) {
                let left = inner.accounts.get(&above).and_then(Account::left).filter(|left| *left < blocks);
                if let Some(left) = left.filter(|left| least.is_none_or(|(known, _)| *left < known)) {
                    least = Some((left, above));
                }
            }
        }
        match least {
            None => (blocks, None),
            Some((left, party)) => {
                let hard = inner.accounts.get(&party).and_then(|account| account.limits().hard_bytes);
                let refusal = inner.refuse(party, &ByteSize(hard.unwrap_or_default()).to_string());
                (left, Some(refusal))
            }
        }
    }

    /// What the trees that a file is within leave of the volume.
    pub fn usage_in(&self, tree: u32, whole: Usage) -> Usage {
        let inner = held(&self.inner);
        if tree == 0 {
            return whole;
        }
        inner.chain(Party::Tree(tree)).into_iter().fold(whole, |usage, party| match inner.accounts.get(&party) {
            Some(account) => {
                let files = account.all.files.max(0) as u64;
                narrowed(usage, &account.limits(), bytes_of(account.all.blocks), files)
            }
            None => usage,
        })
    }

    /// All accounts.
    pub fn quotas(&self) -> Vec<Quota> {
        let inner = held(&self.inner);
        let mut quotas: Vec<Quota> = inner.accounts.keys().filter_map(|party| inner.quota(*party)).collect();
        quotas.sort_by_key(|quota| quota.subject);
        quotas
    }

    /// Those that have limits, or had some that a walk still takes away.
    pub fn limited_quotas(&self) -> Vec<Quota> {
        let inner = held(&self.inner);
        let mut quotas: Vec<Quota> = inner.defined.iter().filter_map(|party| inner.quota(*party)).collect();
        quotas.sort_by_key(|quota| quota.subject);
        quotas
    }

    /// The tree whose directory this is.
    pub fn tree_at(&self, directory: FileId) -> Option<u32> {
        self.trees().into_iter().find(|(_, known)| known.directory == directory).map(|(tree, _)| tree)
    }

    /// The directory of a tree.
    pub fn directory_of(&self, tree: u32) -> Option<FileId> {
        let inner = held(&self.inner);
        Some(inner.accounts.get(&Party::Tree(tree))?.definition?.directory)
    }

    /// The trees that have a quota, or had one that a walk still takes away.
    pub fn trees(&self) -> Vec<(u32, Definition)> {
        let inner = held(&self.inner);
        let trees = inner.accounts.range(Party::Tree(0)..=Party::Tree(u32::MAX));
        let defined = trees.filter_map(|(party, account)| match party {
            Party::Tree(tree) => account.definition.map(|definition| (*tree, definition)),
            _ => None,
        });
        defined.collect()
    }

    /// A number for a tree that no file names.
    pub fn next_tree(&self) -> u32 {
        let inner = held(&self.inner);
        let last = inner.accounts.range(Party::Tree(0)..=Party::Tree(u32::MAX)).next_back();
        match last {
            Some((Party::Tree(tree), _)) => tree.saturating_add(1),
            _ => 1,
        }
    }

    /// How deep a tree lies in others.
    pub fn depth(&self, tree: u32) -> usize {
        held(&self.inner).chain(Party::Tree(tree)).len()
    }

    /// Files that name a tree themselves.
    pub fn own_files(&self, tree: u32) -> i64 {
        held(&self.inner).accounts.get(&Party::Tree(tree)).map_or(0, |account| account.own.files)
    }

    /// All files.
    pub fn files(&self) -> i64 {
        let inner = held(&self.inner);
        let is_owner = |party: &Party| matches!(party, Party::User(_) | Party::Descriptor(_));
        inner.accounts.iter().filter(|(party, _)| is_owner(party)).map(|(_, account)| account.own.files).sum()
    }

    /// Accounts that the next checkpoint writes.
    pub fn changed(&self) -> usize {
        held(&self.inner).changed.len()
    }

    /// Their keys and values in the tree of quotas; with the mark of how it was counted, where that is new and the volume
    /// may say so.
    pub fn entries(&self, may_tell_owners: bool) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut inner = held(&self.inner);
        let entry = |party: &Party| {
            let own = inner.accounts.get(party).map_or(Amount::default(), |account| account.own);
            (party.taken_key(), (!own.is_nothing()).then(|| own.encode()))
        };
        let mut entries: Vec<_> = inner.changed.iter().map(entry).collect();
        inner.marking = inner.marked;
        if inner.is_counted {
            inner.marking = if inner.by_owner && may_tell_owners { BY_OWNER } else { BY_USER };
        }
        if inner.marking != inner.marked {
            entries.push((KEY_COUNTED.to_vec(), Some(vec![inner.marking])));
        }
        entries
    }

    /// A checkpoint has them. All trees are locked from [`Self::entries`] until here.
    pub fn settle(&self) {
        let mut inner = held(&self.inner);
        inner.changed.clear();
        inner.marked = inner.marking;
    }

    /// All entries of the tree of quotas that are not amounts. The tree lost some: amounts are written anew, too.
    pub fn restore(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut inner = held(&self.inner);
        inner.changed = inner.accounts.keys().filter(|party| !matches!(party, Party::Owner(_))).copied().collect();
        let limits = inner.accounts.iter().filter_map(|(party, account)| {
            Some((limits_key(inner.owners.subject(*party)?), account.definition?.encode()))
        });
        let mut entries: Vec<_> = limits.collect();
        entries.extend((inner.is_counted && inner.marked != 0).then(|| (KEY_COUNTED.to_vec(), vec![inner.marked])));
        entries
    }

    pub(super) fn begin_recount(&self) {
        held(&self.inner).recount = Some(Recount::default());
    }

    /// Records up to a key were read, under the lock of their tree.
    pub(super) fn count(&self, shares: &[Share], shard: u8, next: Vec<u8>) {
        if let Some(recount) = &mut held(&self.inner).recount {
            for (party, amount) in shares.iter().flat_map(parts) {
                *recount.found.entry(party).or_default() += amount;
            }
            (recount.shard, recount.next) = (shard, next);
        }
    }

    /// Has what was found count, unless the count was given up; answers whether it differs from what was known, or from
    /// what the tree of quotas has.
    pub(super) fn end_recount(&self, kept: Option<BTreeMap<Party, Amount>>) -> bool {
        let mut inner = held(&self.inner);
        let inner = &mut *inner;
        let (Some(Recount { mut found, .. }), Some(kept)) = (inner.recount.take(), kept) else { return false };
        let known: Vec<Party> = inner.accounts.keys().chain(kept.keys()).copied().collect();
        for party in known.into_iter().filter(|party| !matches!(party, Party::Owner(_))) {
            found.entry(party).or_default();
        }
        let mut differs = !std::mem::replace(&mut inner.is_counted, true);
        differs |= !std::mem::replace(&mut inner.by_owner, true);
        for (party, own) in found {
            let is_kept = kept.get(&party).copied().unwrap_or_default() == own || inner.changed.contains(&party);
            let account = inner.accounts.entry(party).or_default();
            if account.own != own || !is_kept {
                differs = true;
                account.own = own;
                inner.changed.insert(party);
            }
        }
        inner.add_up(true);
        self.note_limits(inner);
        differs
    }
}

impl Inner {
    /// What is held for files whose records change, before and after it.
    fn waiting(&self, shifts: &[Shift], redeemed: u64) -> SmallVec<[(u64, Share, Share); 1]> {
        let waiting = |shift: &Shift| {
            let before = *self.held.get(&shift.file)?;
            let blocks = if shift.after.is_some() { before.blocks.saturating_sub(redeemed) } else { 0 };
            Some((shift.file, before, Share { blocks, ..shift.after.unwrap_or(before) }))
        };
        shifts.iter().filter_map(waiting).collect()
    }

    fn check(&mut self, all: &Amounts, enforce: Enforce) -> Result<(), VolumeError> {
        let is_held = |party: &Party| enforce == Enforce::All || matches!(party, Party::Tree(_));
        for (party, amount) in all.iter().filter(|(party, _)| is_held(party)) {
            let refusal = self.accounts.get(party).and_then(|account| account.refusal(*amount));
            if let Some(limit) = refusal {
                return Err(self.refuse(*party, &limit));
            }
        }
        let new = all.iter().filter(|(party, _)| !self.accounts.contains_key(party)).count();
        if new > 0 && self.accounts.len() + new > MOST_ACCOUNTS {
            let text = format!("files of the volume have {MOST_ACCOUNTS} owners: it can count no more");
            return Err(VolumeError::new(ErrorKind::NoSpace, text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
