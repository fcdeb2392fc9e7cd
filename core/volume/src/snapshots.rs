//! Which snapshots there are, and how much only they keep.
//!
//! ```text
//!   checkpoint     3         7               9             12
//!   trees          ────┬─────────────────────┬──────────────▶  files as they are
//!   snapshots        daily                 hourly
//!   a block            born 5 ─────── overwritten: kept (5, 9), as long as there is a snapshot from 5 to 9
//! ```
//!
//! A snapshot is the roots of the trees of files of one checkpoint. It is made and removed by the cut of one, never by
//! the log, so which there are is the same for all changes between two cuts, also when they are replayed.
//!
//! One that was removed is kept for until the root before the newest one does not have it either: that counts where the
//! newest one is lost.
//!
//! Invariants: while a snapshot is known, no node that its roots lead to is freed, and no block of data that its extents
//! name is freed or written over. What is known is written with the root that it belongs to, in two trees.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_model::wire::{Reader, WireError, Writer};

use crate::error::VolumeError;
use crate::extent::Extent;
use crate::page::NodeRef;
use crate::service::Time;
use crate::store::held;
use crate::{SHARED_TREES, change};

/// Snapshots that a volume has, at most.
pub const MOST_SNAPSHOTS: usize = 1024;
/// Bytes of the name of a snapshot, at most.
pub const MOST_NAME_BYTES: usize = 200;
/// What begins the keys of snapshots in the tree that has all settings twice.
pub(crate) const TWIN_PREFIX: &[u8] = b"snapshot ";
const VERSION: u8 = 1;
/// Keys: a snapshot by its checkpoint, the blocks that were kept since it, a note that some may be kept by none.
const KEY_SNAPSHOT: u8 = 1;
const KEY_KEPT: u8 = 2;
const KEY_RECLAIM: u8 = 3;
/// Nodes that writing one of them may change, in both trees.
const NODES_OF_ENTRY: usize = 8;

/// A snapshot, as those who ask are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name, which no other snapshot of the volume has.
    pub name: String,
    /// Which one it is, as long as it is there: no other snapshot of the volume has this number meanwhile.
    pub number: u16,
    /// The checkpoint that it is. Later snapshots have higher ones.
    pub generation: u64,
    /// When it was made.
    pub created: Time,
    /// Files that it has.
    pub files: u64,
    /// Bytes that files let go of between this snapshot and the next one, or until now: only snapshots keep them.
    pub kept_bytes: u64,
}

/// The span of checkpoints in which a block was a file's: which snapshots have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first checkpoint that has it.
    pub birth: u64,
    /// The newest snapshot that there was when its file let go of it.
    pub death: u64,
}

/// A snapshot, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub name: String,
    pub number: u16,
    pub created: Time,
    pub files: u64,
    /// The roots of the trees of files. Those of the newest root are not known to itself.
    pub roots: Option<Vec<(u8, NodeRef)>>,
}

impl Known {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION).u16(self.number).u64(self.created.seconds as u64).u32(self.created.nanos).u64(self.files);
        writer.u16(self.name.len() as u16).raw(self.name.as_bytes());
        match &self.roots {
            None => _ = writer.u8(0),
            Some(roots) => {
                writer.u8(1).u8(roots.len() as u8);
                roots.iter().for_each(|(tree, node)| _ = writer.u8(*tree).raw(&node.to_bytes()));
            }
        }
        writer.into_bytes()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            if reader.u8()? != VERSION {
                return Err(WireError::Value("version"));
            }
            let number = reader.u16()?;
            let created = Time { seconds: reader.u64()? as i64, nanos: reader.u32()? };
            let files = reader.u64()?;
            let name = reader.u16().and_then(|len| reader.take(len.into()))?;
            let name = std::str::from_utf8(name).map_err(|_| WireError::Value("name"))?.to_owned();
            let roots = match reader.u8()? {
                0 => None,
                _ => {
                    let mut roots = Vec::new();
                    for _ in 0..reader.u8()? {
                        let tree = reader.u8()?;
                        if tree >= SHARED_TREES || roots.last().is_some_and(|(last, _)| *last >= tree) {
                            return Err(WireError::Value("tree"));
                        }
                        roots.push((tree, NodeRef::read(&mut reader)?));
                    }
                    Some(roots)
                }
            };
            Ok(Self { name, number, created, files, roots })
        };
        read(Reader::new(value)).ok()
    }
}

/// What the next cut does to snapshots.
#[derive(Clone, Debug)]
pub(crate) enum Coming {
    /// It is one itself, of this name.
    Create { name: String, created: Time },
    /// One is there no more. These nodes were its only.
    Remove { generation: u64, nodes: Vec<u64> },
}

/// Entries of the tree of snapshots, to be put in or taken out.
pub(crate) type Entries = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// What a cut makes of snapshots.
#[derive(Default)]
pub(crate) struct Settled {
    /// Nodes of trees of files up to this checkpoint stay, although the root to come does not have them.
    pub pinned: u64,
    /// Nodes that nothing has any more.
    pub given_up: Vec<u64>,
}

#[derive(Default)]
struct Table {
    known: BTreeMap<u64, Known>,
    /// Snapshots whose roots are known and not stored.
    bare: BTreeSet<u64>,
    /// By the end of their spans: blocks that are kept.
    kept: BTreeMap<u64, u64>,
    /// Those of them that changed since the last cut.
    changed: BTreeSet<u64>,
    /// Whether blocks may be kept that no snapshot has any more, and whether that is stored.
    is_reclaimed: bool,
    is_stored_reclaimed: bool,
    /// Snapshots that the newest root has no more, and the one before it does: all is kept for them.
    leaving: BTreeSet<u64>,
    /// Snapshots that were removed since the opening.
    removals: u64,
    /// The last cut that made or removed one.
    last_change: u64,
    coming: Option<Coming>,
}

impl Table {
    /// Whether something is to be kept for a snapshot of these checkpoints.
    fn any_in(&self, checkpoints: RangeInclusive<u64>) -> bool {
        self.known.range(checkpoints.clone()).next().is_some() || self.leaving.range(checkpoints).next().is_some()
    }

    /// The newest one that something is to be kept for, 0 without any.
    fn newest(&self) -> u64 {
        self.leaving.last().copied().unwrap_or_default().max(self.newest_known())
    }

    /// The newest one that the root to come has, 0 without any.
    fn newest_known(&self) -> u64 {
        self.known.last_key_value().map_or(0, |(newest, _)| *newest)
    }
}

/// The snapshots of a volume.
pub(crate) struct Snapshots {
    /// The checkpoint of the newest one, 0 without any.
    newest: AtomicU64,
    table: Mutex<Table>,
}

impl Default for Snapshots {
    fn default() -> Self {
        let table = Table { is_reclaimed: true, is_stored_reclaimed: true, ..Table::default() };
        Self { newest: AtomicU64::new(0), table: Mutex::new(table) }
    }
}

fn key(sort: u8, number: u64) -> Vec<u8> {
    let mut key = vec![sort];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// What an entry of the tree of snapshots says is kept: the end of a span, and how many blocks.
pub(crate) fn told_kept(key: &[u8], value: &[u8]) -> Option<(u64, u64)> {
    let end = key.get(1..9).filter(|_| key[0] == KEY_KEPT && key.len() == 9)?;
    Some((u64::from_be_bytes(end.try_into().ok()?), value.try_into().map_or(0, u64::from_le_bytes)))
}

impl Snapshots {
    /// The checkpoint of the newest one, 0 without any. It changes under the locks of all trees only.
    pub fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Whether a snapshot may have these blocks, so that they are not to be written over.
    pub fn keep(&self, extent: &Extent) -> bool {
        let newest = self.newest();
        newest != 0 && extent.birth <= newest
    }

    /// Whether the same snapshots have what was born with the one and with the other checkpoint.
    pub fn are_alike(&self, one: u64, other: u64) -> bool {
        let (first, last) = (one.min(other), one.max(other));
        first == last || first > self.newest() || !held(&self.table).any_in(first..=last - 1)
    }

    /// Whether there is a snapshot that has what lived for a span.
    pub fn have(&self, span: Span) -> bool {
        span.birth <= span.death && held(&self.table).any_in(span.birth..=span.death)
    }

    /// Whether blocks may be kept that no snapshot has any more.
    pub fn is_to_be_reclaimed(&self) -> bool {
        self.to_be_reclaimed().is_some()
    }

    /// How many snapshots were removed so far, if there may be such blocks.
    pub fn to_be_reclaimed(&self) -> Option<u64> {
        let table = held(&self.table);
        (!table.is_reclaimed).then_some(table.removals)
    }

    /// Whether one is just being removed, which leaves blocks to be reclaimed when it is.
    pub fn are_leaving(&self) -> bool {
        !held(&self.table).leaving.is_empty()
    }

    /// All blocks were given back that were left when so many were removed. One that is just being removed, and keeps its
    /// blocks until then, leaves some.
    pub fn note_reclaimed(&self, removals: u64) {
        let mut table = held(&self.table);
        table.is_reclaimed = table.removals == removals && table.leaving.is_empty();
    }

    /// Blocks that are kept.
    pub fn kept_blocks(&self) -> u64 {
        held(&self.table).kept.values().sum()
    }

    /// Whether there are any, or blocks of earlier ones.
    pub fn are_any(&self) -> bool {
        let table = held(&self.table);
        !table.known.is_empty() || !table.leaving.is_empty() || !table.is_reclaimed
    }

    /// All of them, the oldest first.
    pub fn list(&self) -> Vec<Snapshot> {
        let table = held(&self.table);
        let generations: Vec<u64> = table.known.keys().copied().collect();
        let of = |(index, (generation, known)): (usize, (&u64, &Known))| {
            // What was kept since a snapshot that is gone is kept by the one before it.
            let from = if index == 0 { 0 } else { *generation };
            let until = generations.get(index + 1).copied().unwrap_or(u64::MAX);
            let kept: u64 = table.kept.range(from..until).map(|(_, blocks)| *blocks).sum();
            Snapshot {
                name: known.name.clone(),
                number: known.number,
                generation: *generation,
                created: known.created,
                files: known.files,
                kept_bytes: kept.saturating_mul(holdfast_model::BLOCK_BYTES),
            }
        };
        table.known.iter().enumerate().map(of).collect()
    }

    /// The one of a number.
    pub fn of_number(&self, number: u16) -> Option<Snapshot> {
        self.list().into_iter().find(|one| one.number == number)
    }

    /// Grows with each one that is made or removed.
    pub fn changes(&self) -> u64 {
        held(&self.table).last_change
    }

    /// The checkpoints of those for which something is kept.
    pub fn kept_for(&self) -> BTreeSet<u64> {
        let table = held(&self.table);
        table.known.keys().chain(&table.leaving).copied().collect()
    }

    /// Their roots, the newest first.
    pub fn roots(&self) -> Vec<(u64, Vec<(u8, NodeRef)>)> {
        let table = held(&self.table);
        let with_roots = |(generation, known): (&u64, &Known)| Some((*generation, known.roots.clone()?));
        table.known.iter().rev().filter_map(with_roots).collect()
    }

    /// The least number that none of them has.
    fn free_number(table: &Table) -> u16 {
        let taken: BTreeSet<u16> = table.known.values().map(|known| known.number).collect();
        (1..=u16::MAX).find(|number| !taken.contains(number)).unwrap_or(u16::MAX)
    }

    /// Has the next cut do this.
    pub fn prepare(&self, coming: Coming) {
        held(&self.table).coming = Some(coming);
    }

    /// So many blocks are kept from now on, or are no more.
    pub fn count(&self, death: u64, kept: u64, dropped: u64) {
        let mut table = held(&self.table);
        let blocks = table.kept.entry(death).or_default();
        *blocks = blocks.saturating_add(kept).saturating_sub(dropped);
        table.changed.insert(death);
    }

    /// Holds what is told to be kept against what was found, and against what the newest cut wrote, and has the next one
    /// write what differs; answers whether anything did.
    pub fn put_right(&self, found: &BTreeMap<u64, u64>, stored: &BTreeMap<u64, u64>) -> bool {
        let mut table = held(&self.table);
        let ends: BTreeSet<u64> = found.keys().chain(stored.keys()).chain(table.kept.keys()).copied().collect();
        let of = |side: &BTreeMap<u64, u64>, end| side.get(&end).copied().unwrap_or_default();
        let mut was_wrong = false;
        for end in ends {
            let (is, told) = (of(found, end), of(&table.kept, end));
            if is != told || of(stored, end) != told && !table.changed.contains(&end) {
                table.kept.insert(end, is);
                table.changed.insert(end);
                was_wrong = true;
            }
        }
        was_wrong
    }

    /// Nodes that the next cut may change for them.
    pub fn nodes_to_come(&self) -> usize {
        let table = held(&self.table);
        NODES_OF_ENTRY * (table.changed.len().min(MOST_SNAPSHOTS) + table.bare.len())
    }

    /// What the cut of a checkpoint has to write.
    pub fn entries(&self, generation: u64, files: u64) -> Entries {
        let table = held(&self.table);
        let mut entries = Entries::new();
        for bare in &table.bare {
            let known = table.known.get(bare).filter(|known| known.roots.is_some());
            entries.extend(known.map(|known| (key(KEY_SNAPSHOT, *bare), Some(known.encode()))));
        }
        for death in &table.changed {
            let blocks = table.kept.get(death).copied().filter(|blocks| *blocks > 0);
            entries.push((key(KEY_KEPT, *death), blocks.map(|blocks| blocks.to_le_bytes().to_vec())));
        }
        let mut is_reclaimed = table.is_reclaimed;
        match &table.coming {
            Some(Coming::Create { name, created }) => {
                let number = Self::free_number(&table);
                let known = Known { name: name.clone(), number, created: *created, files, roots: None };
                entries.push((key(KEY_SNAPSHOT, generation), Some(known.encode())));
            }
            Some(Coming::Remove { generation, .. }) => {
                entries.retain(|(at, _)| *at != key(KEY_SNAPSHOT, *generation));
                entries.push((key(KEY_SNAPSHOT, *generation), None));
                is_reclaimed = false;
            }
            None => {}
        }
        if is_reclaimed != table.is_stored_reclaimed {
            entries.push((vec![KEY_RECLAIM], (!is_reclaimed).then(Vec::new)));
        }
        entries
    }

    /// The cut wrote that.
    pub fn settle(&self, generation: u64, files: u64) -> Settled {
        let mut table = held(&self.table);
        let table = &mut *table;
        table.changed.clear();
        table.kept.retain(|_, blocks| *blocks > 0);
        table.bare.retain(|bare| table.known.get(bare).is_some_and(|known| known.roots.is_none()));
        let mut settled = Settled { pinned: table.newest_known(), given_up: Vec::new() };
        match table.coming.take() {
            Some(Coming::Create { name, created }) => {
                let number = Self::free_number(table);
                table.known.insert(generation, Known { name, number, created, files, roots: None });
                table.bare.insert(generation);
                table.last_change = generation;
            }
            Some(Coming::Remove { generation: removed, nodes }) => {
                table.known.remove(&removed);
                table.bare.remove(&removed);
                table.leaving.insert(removed);
                table.is_reclaimed = false;
                table.last_change = generation;
                settled = Settled { pinned: table.newest_known(), given_up: nodes };
            }
            None => {}
        }
        table.is_stored_reclaimed = table.is_reclaimed;
        self.newest.store(table.newest(), Ordering::Release);
        settled
    }

    /// The two newest roots do not have a snapshot any more: nothing is kept for it from now on. All trees are locked.
    pub fn forget(&self, removed: u64) {
        let mut table = held(&self.table);
        table.leaving.remove(&removed);
        table.is_reclaimed = false;
        table.removals += 1;
        self.newest.store(table.newest(), Ordering::Release);
    }

    /// The roots of a checkpoint that was made durable: one that is a snapshot learns of its own.
    pub fn learn(&self, generation: u64, trees: &[(u8, NodeRef)]) {
        let mut table = held(&self.table);
        if let Some(known) = table.known.get_mut(&generation).filter(|known| known.roots.is_none()) {
            known.roots = Some(trees.iter().filter(|(tree, _)| *tree < SHARED_TREES).copied().collect());
        }
    }

    /// Has the next cut write all that is known: a part of it was lost.
    pub fn store_again(&self) {
        let mut table = held(&self.table);
        let table = &mut *table;
        table.bare.extend(table.known.keys());
        table.changed.extend(table.kept.keys());
        table.is_stored_reclaimed = true;
    }

    /// Takes over what the root of a checkpoint has; answers what cannot be.
    pub fn load(&self, entries: &[change::Pair], generation: u64, trees: &[(u8, NodeRef)]) -> Result<(), VolumeError> {
        let mut table = held(&self.table);
        let mut wrong = Ok(());
        for (at, value) in entries {
            let number = at.get(1..9).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
            match (at.first(), number) {
                (Some(&KEY_SNAPSHOT), Some(of)) => {
                    let known = Known::decode(value).filter(|_| of > 0 && of <= generation);
                    match known.filter(|known| known.roots.is_some() || of == generation) {
                        Some(known) => {
                            if known.roots.is_none() {
                                table.bare.insert(of);
                            }
                            table.known.insert(of, known);
                        }
                        None => {
                            wrong = Err(VolumeError::corrupt(format!("the snapshot of checkpoint {of} cannot be read")))
                        }
                    }
                }
                (Some(&KEY_KEPT), Some(death)) => {
                    let blocks = value[..].try_into().map_or(0, u64::from_le_bytes);
                    table.kept.insert(death, blocks);
                }
                (Some(&KEY_RECLAIM), None) => (table.is_reclaimed, table.is_stored_reclaimed) = (false, false),
                _ => wrong = Err(VolumeError::corrupt("the tree of snapshots has a key that names none")),
            }
        }
        let newest = table.newest();
        table.last_change = newest;
        self.newest.store(newest, Ordering::Release);
        drop(table);
        self.learn(generation, trees);
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(address: u64) -> NodeRef {
        NodeRef { address, generation: 3, crc: 9 }
    }

    fn create(snapshots: &Snapshots, name: &str, generation: u64) -> Settled {
        snapshots.prepare(Coming::Create { name: name.into(), created: Time { seconds: 5, nanos: 6 } });
        let settled = snapshots.settle(generation, 7);
        snapshots.learn(generation, &[(0, node(1)), (31, node(2)), (33, node(3))]);
        settled
    }

    #[test]
    fn what_is_stored_is_what_is_known() {
        let snapshots = Snapshots::default();
        assert_eq!(create(&snapshots, "one", 10).pinned, 0, "nodes that it replaces are not its own");
        snapshots.prepare(Coming::Create { name: "two".into(), created: Time::default() });
        snapshots.count(10, 5, 0);
        let stored: Vec<_> =
            snapshots.entries(20, 9).into_iter().map(|(at, value)| (at, value.expect("put"))).collect();
        assert_eq!(snapshots.settle(20, 9).pinned, 10);

        let read = Snapshots::default();
        read.load(&stored, 20, &[(4, node(8))]).expect("all of it is sound");
        let names: Vec<_> =
            read.list().into_iter().map(|one| (one.name, one.number, one.files, one.kept_bytes)).collect();
        assert_eq!(names, [("one".into(), 1, 7, 5 * 4096), ("two".into(), 2, 9, 0)]);
        assert_eq!(read.roots(), [(20, vec![(4, node(8))]), (10, vec![(0, node(1)), (31, node(2))])]);
        assert_eq!(read.newest(), 20);
        assert!(read.load(&stored, 19, &[]).is_err(), "one of a later checkpoint");
        assert!(read.load(&[(vec![9], Vec::new())], 20, &[]).is_err());
        for (at, value) in &stored {
            for len in 0..value.len() {
                // It must not panic, whatever it makes of it.
                _ = Snapshots::default().load(&[(at.clone(), value[..len].to_vec())], 20, &[]);
            }
        }
    }

    #[test]
    fn spans_are_kept_as_long_as_a_snapshot_lies_in_them() {
        let snapshots = Snapshots::default();
        create(&snapshots, "one", 10);
        create(&snapshots, "two", 20);
        let span = |birth, death| Span { birth, death };
        assert!(snapshots.have(span(10, 10)) && snapshots.have(span(11, 20)) && !snapshots.have(span(11, 19)));
        assert!(!snapshots.have(span(20, 10)));
        assert!(snapshots.are_alike(21, 30) && snapshots.are_alike(11, 20) && !snapshots.are_alike(10, 11));
        assert!(!snapshots.are_alike(20, 21), "the one of checkpoint 20 has what was born with it");
        snapshots.count(10, 3, 0);
        snapshots.count(20, 4, 0);
        snapshots.prepare(Coming::Remove { generation: 20, nodes: vec![77] });
        assert!(!snapshots.is_to_be_reclaimed());
        let removed = snapshots.settle(30, 0);
        assert_eq!((removed.pinned, removed.given_up), (10, vec![77]));
        assert!(snapshots.have(span(11, 20)) && snapshots.newest() == 20, "the root before has it");
        assert!(!snapshots.are_alike(11, 21));
        snapshots.forget(20);
        assert!(snapshots.is_to_be_reclaimed() && !snapshots.have(span(11, 20)) && snapshots.newest() == 10);
        assert_eq!(snapshots.list()[0].kept_bytes, 7 * 4096, "what it kept is the one's before it");
        snapshots.count(20, 0, 4);
        assert_eq!(snapshots.kept_blocks(), 3);
        create(&snapshots, "three", 40);
        assert_eq!(snapshots.list()[1].number, 2, "a number is given again");
    }

    #[test]
    fn a_reclaim_that_ends_while_another_is_removed_leaves_its_blocks_to_be_reclaimed() {
        let snapshots = Snapshots::default();
        create(&snapshots, "one", 10);
        create(&snapshots, "two", 20);
        let remove = |generation, at| {
            snapshots.prepare(Coming::Remove { generation, nodes: Vec::new() });
            snapshots.settle(at, 0);
        };
        remove(20, 30);
        snapshots.forget(20);
        let reclaimed = snapshots.to_be_reclaimed().expect("there is something");
        remove(10, 40);
        snapshots.note_reclaimed(reclaimed);
        let erased = (vec![KEY_RECLAIM], None);
        assert!(!snapshots.entries(50, 0).contains(&erased), "the note of it stays");
        snapshots.settle(50, 0);
        snapshots.forget(10);
        assert!(snapshots.is_to_be_reclaimed());
        snapshots.note_reclaimed(snapshots.to_be_reclaimed().expect("there is something"));
        assert!(!snapshots.is_to_be_reclaimed() && snapshots.entries(60, 0).contains(&erased));
        // Also where a reclaim that began later ended first.
        create(&snapshots, "three", 70);
        snapshots.prepare(Coming::Remove { generation: 70, nodes: Vec::new() });
        snapshots.settle(80, 0);
        held(&snapshots.table).is_reclaimed = true;
        snapshots.forget(70);
        assert!(snapshots.is_to_be_reclaimed());
    }
}
