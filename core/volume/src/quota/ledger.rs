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
use std::ops::{AddAssign, Neg};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_model::wire::{Reader, Writer};
use holdfast_model::{BLOCK_BYTES, ByteSize};
use smallvec::SmallVec;

use super::{
    Definition, KEY_COUNTED, LIMITS, Limits, Quota, QuotaState, Subject, TAKEN, bytes_of, key_of, limits_of, narrowed,
    subject_of,
};
use crate::error::{ErrorKind, VolumeError};
use crate::record::Share;
use crate::service::{FileId, Usage};
use crate::store::held;

/// Users, groups and trees that are known, at most.
const MOST_ACCOUNTS: usize = 1 << 20;
/// How deep trees are within each other, at most.
pub(super) const MOST_DEPTH: usize = 16;

/// Blocks and files, more or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub blocks: i64,
    pub files: i64,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.files = self.files.saturating_add(other.files);
    }
}

impl Neg for Amount {
    type Output = Self;

    fn neg(self) -> Self {
        Self { blocks: -self.blocks, files: -self.files }
    }
}

impl Amount {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u64(self.blocks as u64).u64(self.files as u64);
        writer.into_bytes()
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        Some(Self { blocks: reader.u64().ok()? as i64, files: reader.u64().ok()? as i64 })
    }
}

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

/// Whom a file counts for, and how much.
pub(super) fn parts(share: &Share) -> impl Iterator<Item = (Subject, Amount)> + use<> {
    let amount = Amount { blocks: share.blocks as i64, files: 1 };
    let tree = (share.tree != 0).then_some(Subject::Tree(share.tree));
    [Some(Subject::User(share.uid)), Some(Subject::Group(share.gid)), tree]
        .into_iter()
        .flatten()
        .map(move |subject| (subject, amount))
}

/// The same of the blocks alone.
fn blocks_of(share: &Share) -> impl Iterator<Item = (Subject, Amount)> + use<> {
    parts(share).map(|(subject, amount)| (subject, Amount { files: 0, ..amount }))
}

type Amounts = SmallVec<[(Subject, Amount); 6]>;

fn add(amounts: &mut Amounts, subject: Subject, amount: Amount) {
    match amounts.iter_mut().find(|(known, _)| *known == subject) {
        Some((_, sum)) => *sum += amount,
        None => amounts.push((subject, amount)),
    }
}

#[derive(Default)]
struct Account {
    own: Amount,
    all: Amount,
    definition: Option<Definition>,
    refused: u64,
    crossed: u64,
}

impl Account {
    fn limits(&self) -> Limits {
        self.definition.map_or(Limits::default(), |definition| definition.limits)
    }

    /// Blocks that the hard limit leaves.
    fn left(&self) -> Option<u64> {
        let hard = self.limits().hard_bytes?;
        Some((hard / BLOCK_BYTES).saturating_sub(self.all.blocks.max(0) as u64))
    }

    /// Why it cannot take more, if so.
    fn refusal(&self, more: Amount) -> Option<String> {
        let limits = self.limits();
        if more.blocks > 0 && self.left().is_some_and(|left| more.blocks as u64 > left) {
            return Some(ByteSize(limits.hard_bytes?).to_string());
        }
        let files = (self.all.files.max(0) as u64).saturating_add(more.files.max(0) as u64);
        let is_over = more.files > 0 && limits.hard_files.is_some_and(|hard| files > hard);
        is_over.then(|| format!("{} files", limits.hard_files.unwrap_or_default()))
    }

    fn quota(&self, subject: Subject) -> Quota {
        let directory = self.definition.map(|definition| definition.directory);
        Quota {
            subject,
            limits: self.definition.map(|definition| definition.limits),
            directory: directory.filter(|directory| directory.number != 0),
            state: self.definition.map_or(QuotaState::Settled, |definition| definition.state),
            used_bytes: bytes_of(self.all.blocks),
            used_files: self.all.files.max(0) as u64,
            refused: self.refused,
            crossed: self.crossed,
        }
    }

    /// Whether what it takes is beyond its soft limits, of room and of files.
    fn is_over(&self) -> (bool, bool) {
        let limits = self.limits();
        let bytes = limits.soft_bytes.is_some_and(|soft| bytes_of(self.all.blocks) > soft);
        (bytes, limits.soft_files.is_some_and(|soft| self.all.files.max(0) as u64 > soft))
    }

    fn take(&mut self, more: Amount) {
        let before = self.is_over();
        self.all += more;
        let after = self.is_over();
        self.crossed += u64::from(after.0 && !before.0) + u64::from(after.1 && !before.1);
    }

    /// A soft limit that is new and lies below what is taken was crossed by that.
    fn note_new_limits(&mut self, before: Limits) {
        let (limits, over) = (self.limits(), self.is_over());
        let is_new = (limits.soft_bytes != before.soft_bytes, limits.soft_files != before.soft_files);
        self.crossed += u64::from(over.0 && is_new.0) + u64::from(over.1 && is_new.1);
    }
}

/// A count of all records that is under way.
#[derive(Default)]
pub(super) struct Recount {
    /// The tree of files that is read, and the key from which on it was not read yet.
    pub(super) shard: u8,
    pub(super) next: Vec<u8>,
    pub(super) found: BTreeMap<Subject, Amount>,
}

impl Recount {
    fn has(&self, file: u64) -> bool {
        let shard = crate::keys::shard(file);
        shard < self.shard || shard == self.shard && crate::keys::record(file) < self.next
    }
}

#[derive(Default)]
struct Inner {
    accounts: BTreeMap<Subject, Account>,
    /// Those that have a definition.
    defined: BTreeSet<Subject>,
    /// Those whose own amount differs from what the tree of quotas has.
    changed: BTreeSet<Subject>,
    is_counted: bool,
    recount: Option<Recount>,
    /// For files with data that waits for its place, whom they count for, and the blocks that it will take.
    held: HashMap<u64, Share>,
}

impl Inner {
    /// The trees that one is within, itself first.
    fn chain(&self, subject: Subject) -> SmallVec<[Subject; 4]> {
        let (mut chain, mut at) = (SmallVec::new(), subject);
        while chain.len() <= MOST_DEPTH && !chain.contains(&at) {
            chain.push(at);
            match self.accounts.get(&at).and_then(|account| account.definition) {
                Some(Definition { parent, .. }) if parent != 0 => at = Subject::Tree(parent),
                _ => break,
            }
        }
        chain
    }

    fn define(&mut self, subject: Subject, definition: Option<Definition>) {
        let account = self.accounts.entry(subject).or_default();
        account.definition = definition;
        if definition.is_some() {
            self.defined.insert(subject);
        } else {
            self.defined.remove(&subject);
            // What is told of a quota is told of the one that is there.
            (account.refused, account.crossed) = (0, 0);
        }
    }

    /// Has trees count what is within them.
    fn add_up(&mut self) {
        let trees = Subject::Tree(0)..=Subject::Tree(u32::MAX);
        let own: Vec<(Subject, Amount)> =
            self.accounts.range(trees).map(|(subject, account)| (*subject, account.own)).collect();
        for (subject, _) in &own {
            self.accounts.entry(*subject).or_default().all = Amount::default();
        }
        let waiting: Vec<_> = self.held.values().filter(|share| share.tree != 0).flat_map(blocks_of).collect();
        let waiting = waiting.into_iter().filter(|(subject, _)| matches!(subject, Subject::Tree(_)));
        for (subject, amount) in own.into_iter().chain(waiting) {
            for above in self.chain(subject) {
                self.accounts.entry(above).or_default().all += amount;
            }
        }
    }

    /// Counts so many blocks of a share more, or less, beside what records say.
    fn add_held(&mut self, share: &Share, sign: i64) {
        for (subject, amount) in blocks_of(share) {
            let amount = Amount { blocks: amount.blocks * sign, files: 0 };
            for above in self.chain(subject) {
                self.accounts.entry(above).or_default().take(amount);
                self.forget_empty(above);
            }
        }
    }

    fn forget_empty(&mut self, subject: Subject) {
        let is_empty =
            |account: &Account| account.own.is_nothing() && account.all.is_nothing() && account.definition.is_none();
        if self.accounts.get(&subject).is_some_and(is_empty) {
            self.accounts.remove(&subject);
        }
    }

    fn refuse(&mut self, subject: Subject, limit: &str) -> VolumeError {
        if let Some(account) = self.accounts.get_mut(&subject) {
            account.refused += 1;
        }
        VolumeError::new(ErrorKind::Quota, format!("{subject} has used all that its quota allows: {limit}"))
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
        } else if let Some((subject, own)) = subject_of(TAKEN, key).zip(Amount::decode(value)) {
            let account = inner.accounts.entry(subject).or_default();
            (account.own, account.all) = (own, own);
        } else if key == KEY_COUNTED {
            inner.is_counted = true;
        }
    }

    /// All of it was taken over.
    pub fn loaded(&self) {
        let mut inner = held(&self.inner);
        if !inner.is_counted {
            let nothing = Amount::default();
            inner.accounts.values_mut().for_each(|account| (account.own, account.all) = (nothing, nothing));
        }
        inner.add_up();
        self.note_limits(&inner);
    }

    fn note_limits(&self, inner: &Inner) {
        self.is_limited.store(inner.is_counted && !inner.defined.is_empty(), Ordering::Release);
    }

    /// A change of the tree of quotas, which is locked.
    pub fn define(&self, key: &[u8], value: Option<&[u8]>) {
        let mut inner = held(&self.inner);
        if let Some(subject) = limits_of(key) {
            let before = inner.accounts.get(&subject).map(Account::limits).unwrap_or_default();
            inner.define(subject, value.and_then(Definition::decode));
            if matches!(subject, Subject::Tree(_)) {
                inner.add_up();
            }
            if let Some(account) = inner.accounts.get_mut(&subject) {
                account.note_new_limits(before);
            }
            inner.forget_empty(subject);
        } else if key == KEY_COUNTED {
            inner.is_counted = value.is_some();
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

    /// Holds blocks for data of a file that waits for its place; false where a limit is in the way. The tree of its
    /// record is locked.
    pub fn hold(&self, file: u64, share: Share, blocks: u64) -> bool {
        let mut inner = held(&self.inner);
        let more = Share { blocks, ..share };
        let is_over = |account: &Account| account.left().is_some_and(|left| left < blocks);
        for (subject, _) in blocks_of(&more).filter(|_| inner.is_counted) {
            if inner.chain(subject).iter().any(|above| inner.accounts.get(above).is_some_and(is_over)) {
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
        for Shift { before, after, .. } in shifts {
            before.iter().flat_map(parts).for_each(|(subject, amount)| add(&mut amounts, subject, -amount));
            after.iter().flat_map(parts).for_each(|(subject, amount)| add(&mut amounts, subject, amount));
        }
        amounts.retain(|(_, amount)| !amount.is_nothing());
        let mut inner = held(&self.inner);
        let waiting = inner.waiting(shifts, redeemed);
        if amounts.is_empty() && waiting.is_empty() {
            return Ok(());
        }
        if inner.is_counted {
            let mut all = Amounts::new();
            for (subject, amount) in &amounts {
                inner.chain(*subject).into_iter().for_each(|above| add(&mut all, above, *amount));
            }
            for (_, before, after) in &waiting {
                for (subject, amount) in blocks_of(before) {
                    inner.chain(subject).into_iter().for_each(|above| add(&mut all, above, -amount));
                }
                for (subject, amount) in blocks_of(after) {
                    inner.chain(subject).into_iter().for_each(|above| add(&mut all, above, amount));
                }
            }
            if enforce != Enforce::Nothing {
                inner.check(&all, enforce)?;
            }
            for (subject, amount) in &amounts {
                inner.accounts.entry(*subject).or_default().own += *amount;
                inner.changed.insert(*subject);
            }
            for (subject, amount) in all {
                inner.accounts.entry(subject).or_default().take(amount);
                inner.forget_empty(subject);
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
                    let gone = before.iter().flat_map(parts).map(|(subject, amount)| (subject, -amount));
                    for (subject, amount) in gone.chain(after.iter().flat_map(parts)) {
                        *recount.found.entry(subject).or_default() += amount;
                    }
                }
            }
        }
        Ok(())
    }

    /// Of so many blocks more for a file, how many limits leave, and the refusal of the rest.
    pub fn fit(&self, share: Share, blocks: u64) -> (u64, Option<VolumeError>) {
        let mut inner = held(&self.inner);
        let mut least: Option<(u64, Subject)> = None;
        for (subject, _) in parts(&share) {
            for above in inner.chain(subject) {
                let left = inner.accounts.get(&above).and_then(Account::left).filter(|left| *left < blocks);
                if let Some(left) = left.filter(|left| least.is_none_or(|(known, _)| *left < known)) {
                    least = Some((left, above));
                }
            }
        }
        match least {
            None => (blocks, None),
            Some((left, subject)) => {
                let hard = inner.accounts.get(&subject).and_then(|account| account.limits().hard_bytes);
                let refusal = inner.refuse(subject, &ByteSize(hard.unwrap_or_default()).to_string());
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
        inner.chain(Subject::Tree(tree)).into_iter().fold(whole, |usage, subject| match inner.accounts.get(&subject) {
            Some(account) => {
                let files = account.all.files.max(0) as u64;
                narrowed(usage, &account.limits(), bytes_of(account.all.blocks), files)
            }
            None => usage,
        })
    }

    /// All accounts.
    pub fn quotas(&self) -> Vec<Quota> {
        held(&self.inner).accounts.iter().map(|(subject, account)| account.quota(*subject)).collect()
    }

    /// Those that have limits, or had some that a walk still takes away.
    pub fn limited_quotas(&self) -> Vec<Quota> {
        let inner = held(&self.inner);
        inner.defined.iter().filter_map(|subject| Some(inner.accounts.get(subject)?.quota(*subject))).collect()
    }

    /// The tree whose directory this is.
    pub fn tree_at(&self, directory: FileId) -> Option<u32> {
        self.trees().into_iter().find(|(_, known)| known.directory == directory).map(|(tree, _)| tree)
    }

    /// The directory of a tree.
    pub fn directory_of(&self, tree: u32) -> Option<FileId> {
        let inner = held(&self.inner);
        Some(inner.accounts.get(&Subject::Tree(tree))?.definition?.directory)
    }

    /// The trees that have a quota, or had one that a walk still takes away.
    pub fn trees(&self) -> Vec<(u32, Definition)> {
        let inner = held(&self.inner);
        let trees = inner.accounts.range(Subject::Tree(0)..=Subject::Tree(u32::MAX));
        let defined = trees.filter_map(|(subject, account)| match subject {
            Subject::Tree(tree) => account.definition.map(|definition| (*tree, definition)),
            _ => None,
        });
        defined.collect()
    }

    /// A number for a tree that no file names.
    pub fn next_tree(&self) -> u32 {
        let inner = held(&self.inner);
        let trees = inner.accounts.range(Subject::Tree(0)..=Subject::Tree(u32::MAX));
        let known = trees.last().map_or(0, |(subject, _)| subject.numbers().1);
        known.saturating_add(1)
    }

    /// How deep a tree lies in others.
    pub fn depth(&self, tree: u32) -> usize {
        held(&self.inner).chain(Subject::Tree(tree)).len()
    }

    /// Files that name a tree themselves.
    pub fn own_files(&self, tree: u32) -> i64 {
        held(&self.inner).accounts.get(&Subject::Tree(tree)).map_or(0, |account| account.own.files)
    }

    /// All files.
    pub fn files(&self) -> i64 {
        let inner = held(&self.inner);
        inner.accounts.range(Subject::User(0)..=Subject::User(u32::MAX)).map(|(_, account)| account.own.files).sum()
    }

    /// Accounts that the next checkpoint writes.
    pub fn changed(&self) -> usize {
        held(&self.inner).changed.len()
    }

    /// Their keys and values in the tree of quotas.
    pub fn entries(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let inner = held(&self.inner);
        let entry = |subject: &Subject| {
            let own = inner.accounts.get(subject).map_or(Amount::default(), |account| account.own);
            (key_of(TAKEN, *subject), (!own.is_nothing()).then(|| own.encode()))
        };
        inner.changed.iter().map(entry).collect()
    }

    /// A checkpoint has them. All trees are locked from [`Self::entries`] until here.
    pub fn settle(&self) {
        held(&self.inner).changed.clear();
    }

    /// All entries of the tree of quotas that are not amounts. The tree lost some: amounts are written anew, too.
    pub fn restore(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut inner = held(&self.inner);
        inner.changed = inner.accounts.keys().copied().collect();
        let limits = inner.accounts.iter().filter_map(|(subject, account)| {
            account.definition.map(|definition| (key_of(LIMITS, *subject), definition.encode()))
        });
        let mut entries: Vec<_> = limits.collect();
        entries.extend(inner.is_counted.then(|| (KEY_COUNTED.to_vec(), vec![1])));
        entries
    }

    pub(super) fn begin_recount(&self) {
        held(&self.inner).recount = Some(Recount::default());
    }

    /// Records up to a key were read, under the lock of their tree.
    pub(super) fn count(&self, shares: &[Share], shard: u8, next: Vec<u8>) {
        if let Some(recount) = &mut held(&self.inner).recount {
            for (subject, amount) in shares.iter().flat_map(parts) {
                *recount.found.entry(subject).or_default() += amount;
            }
            (recount.shard, recount.next) = (shard, next);
        }
    }

    /// Has what was found count, unless the count was given up; answers whether it differs from what was known, or from
    /// what the tree of quotas has.
    pub(super) fn end_recount(&self, kept: Option<BTreeMap<Subject, Amount>>) -> bool {
        let mut inner = held(&self.inner);
        let inner = &mut *inner;
        let (Some(Recount { mut found, .. }), Some(kept)) = (inner.recount.take(), kept) else { return false };
        let known: Vec<Subject> = inner.accounts.keys().chain(kept.keys()).copied().collect();
        for subject in known {
            found.entry(subject).or_default();
        }
        let mut differs = !std::mem::replace(&mut inner.is_counted, true);
        for (subject, own) in found {
            let is_kept = kept.get(&subject).copied().unwrap_or_default() == own || inner.changed.contains(&subject);
            let account = inner.accounts.entry(subject).or_default();
            if account.own != own || !is_kept {
                differs = true;
                account.all += -account.own;
                account.all += own;
                account.own = own;
                inner.changed.insert(subject);
            }
            inner.forget_empty(subject);
        }
        inner.add_up();
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
        let is_held = |subject: &Subject| enforce == Enforce::All || matches!(subject, Subject::Tree(_));
        for (subject, amount) in all.iter().filter(|(subject, _)| is_held(subject)) {
            let refusal = self.accounts.get(subject).and_then(|account| account.refusal(*amount));
            if let Some(limit) = refusal {
                return Err(self.refuse(*subject, &limit));
            }
        }
        let new = all.iter().filter(|(subject, _)| !self.accounts.contains_key(subject)).count();
        if new > 0 && self.accounts.len() + new > MOST_ACCOUNTS {
            let text = format!("files of the volume have {MOST_ACCOUNTS} owners: it can count no more");
            return Err(VolumeError::new(ErrorKind::NoSpace, text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
