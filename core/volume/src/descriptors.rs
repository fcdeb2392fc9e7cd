//! The security descriptors that files name, each kept once: all in memory, and on the device in two trees.
//!
//! ```text
//!   record: number ──▶ table: number │ descriptor ──▶ trees 41 and 42:   number (4) │ part (1)   ─▶   4,000 bytes of it
//!                        ▲ equal bytes, equal number                     its last part is shorter
//! ```
//!
//! Numbers come from a count in the settings, which has its twin, too. An entry that no file names is taken out after a
//! scan that read all records, those of snapshots too; one that was named since that scan began stays.
//!
//! Invariant: a number never stands for another descriptor than the first it was given to. Whoever names one holds tree
//! 41 until the record that names it is in its tree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_identity::well_known::ADMINISTRATORS;
use holdfast_identity::{
    AccessMask, Ace, Acl, AclState, Domain, Id, IdMap, ModeChange, Node, SecurityDescriptor, Sid, computed,
};
use smallvec::SmallVec;

use crate::change::{Need, Pair, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::quota::is_foreign;
use crate::record::Record;
use crate::store::{Store, held};
use crate::superblock::{DESCRIPTORS, NT_RULES};
use crate::transaction::{MOST_OPERATIONS, Transaction};
use crate::{SECURITY_TREE, SECURITY_TWIN, SETTINGS_TREE, SETTINGS_TWIN};

/// Bytes of all descriptors of a volume in their binary form, at most. In memory they take up to four times as much.
const MOST_BYTES: usize = 16 << 20;
/// Bytes of a part.
const PART: usize = 4000;
/// Numbers that are set aside at once.
const NUMBERS_AT_ONCE: u32 = 256;
/// Below which number all may have been given out, in the settings and their twin.
pub(crate) const KEY_NUMBERS: &[u8] = b"security numbers";
/// Entries that are put in again in one change: one of the largest has 17 parts.
const PARTS_AT_ONCE: usize = MOST_OPERATIONS / 2;
/// Parts of one that are taken out beside that; more of them are found again.
const STRAY_AT_ONCE: usize = 14;
/// Whom files belong to whose owner or group has no number (`nobody` of Linux).
pub(crate) const NOBODY: u32 = 65_534;

struct Known {
    descriptor: Arc<SecurityDescriptor>,
    /// Bytes of its binary form.
    bytes: usize,
    /// The sweep that had begun last when it was named last.
    named: u64,
}

#[derive(Default)]
struct Table {
    known: BTreeMap<u32, Known>,
    numbers: HashMap<Arc<SecurityDescriptor>, u32>,
    /// Bytes of all of them.
    bytes: usize,
    /// The number that is given next, and the one from which on none may be.
    next: u32,
    until: u32,
    sweep: u64,
}

/// All descriptors, and what decides on new ones.
pub(crate) struct Descriptors {
    table: Mutex<Table>,
    ids: Mutex<Arc<IdMap>>,
    mode_change: AtomicU8,
}

impl Default for Descriptors {
    fn default() -> Self {
        let ids = IdMap::new(Domain([0; 3]), 0..0).expect("no ids are few");
        Self { table: Mutex::default(), ids: Mutex::new(Arc::new(ids)), mode_change: AtomicU8::new(0) }
    }
}

/// What a change does to the table, once it is made.
#[derive(Default)]
pub(crate) struct Pending {
    added: SmallVec<[(u32, Arc<SecurityDescriptor>); 1]>,
    until: Option<u32>,
    gone: SmallVec<[u32; 1]>,
}

impl Pending {
    /// Those that it puts in, with their owners.
    pub fn added(&self) -> impl Iterator<Item = (u32, Sid)> {
        self.added.iter().filter_map(|(number, descriptor)| Some((*number, descriptor.owner?)))
    }

    /// Those that it takes out.
    pub fn gone(&self) -> impl Iterator<Item = u32> {
        self.gone.iter().copied()
    }
}

fn key(number: u32, part: usize) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.push(part as u8);
    key
}

/// The number that a key names.
pub(crate) fn number_of(key: &[u8]) -> Option<u32> {
    if key.len() != 5 {
        return None;
    }
    Some(u32::from_be_bytes(key[..4].try_into().expect("four bytes")))
}

/// An entry as it stands in either tree.
fn parts(number: u32, descriptor: &SecurityDescriptor) -> Vec<Pair> {
    let bytes = descriptor.to_bytes().unwrap_or_default();
    bytes.chunks(PART).enumerate().map(|(part, bytes)| (key(number, part), bytes.to_vec())).collect()
}

/// The descriptor that parts in order make up, if they are all there and say what is written again as they are.
fn read_parts<'a>(parts: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Option<SecurityDescriptor> {
    let mut bytes = Vec::new();
    for (at, (key, part)) in parts.into_iter().enumerate() {
        if key.last() != Some(&(at as u8)) {
            return None;
        }
        bytes.extend_from_slice(part);
    }
    let read = SecurityDescriptor::from_bytes(&bytes).ok()?;
    let is_whole = read.to_bytes().is_ok_and(|again| again == bytes) && read.owner.is_some() && read.group.is_some();
    is_whole.then_some(read)
}

/// The descriptor of a file whose own is lost: its owner may look at it and change it, administrators may do so and
/// become the owner. Nobody gets at the data before one of them did.
fn denying(owner: Sid, group: Sid) -> SecurityDescriptor {
    let rights = AccessMask::READ_CONTROL | AccessMask::WRITE_DAC | AccessMask::WRITE_OWNER;
    let entry = Ace::allow(ADMINISTRATORS, rights | AccessMask::READ_ATTRIBUTES | AccessMask::SYNCHRONIZE);
    let dacl = AclState::Present(Acl::new(vec![entry]).expect("one entry fits"));
    SecurityDescriptor { owner: Some(owner), group: Some(group), dacl, ..SecurityDescriptor::default() }
}

/// What a descriptor is of.
pub(crate) fn node_of(record: &Record) -> Node {
    if record.is_directory() { Node::Directory } else { Node::File }
}

impl Table {
    fn add(&mut self, number: u32, descriptor: Arc<SecurityDescriptor>) {
        let bytes = descriptor.len_bytes();
        self.bytes += bytes;
        self.next = self.next.max(number.saturating_add(1));
        self.numbers.insert(descriptor.clone(), number);
        self.known.insert(number, Known { descriptor, bytes, named: self.sweep });
    }

    fn remove(&mut self, number: u32) {
        if let Some(known) = self.known.remove(&number) {
            self.bytes -= known.bytes;
            if self.numbers.get(&known.descriptor) == Some(&number) {
                self.numbers.remove(&known.descriptor);
            }
        }
    }
}

impl Descriptors {
    /// The identifiers of users and groups that have numbers.
    pub fn ids(&self) -> Arc<IdMap> {
        held(&self.ids).clone()
    }

    /// Has others be the identifiers of users and groups.
    pub fn use_ids(&self, ids: IdMap) {
        *held(&self.ids) = Arc::new(ids);
    }

    /// What a change of the mode does to a descriptor.
    pub fn mode_change(&self) -> ModeChange {
        mode_change_of(self.mode_change.load(Ordering::Relaxed)).unwrap_or_default()
    }

    pub fn set_mode_change(&self, change: ModeChange) {
        self.mode_change.store(number_of_mode_change(change), Ordering::Relaxed);
    }

    /// One of a number.
    pub fn get(&self, number: u32) -> Option<Arc<SecurityDescriptor>> {
        held(&self.table).known.get(&number).map(|known| known.descriptor.clone())
    }

    /// Whether there is one of this number.
    pub fn has(&self, number: u32) -> bool {
        held(&self.table).known.contains_key(&number)
    }

    /// That of a file: the one that it names, or what its owner, group and mode amount to. One that is named and not
    /// there is never more than it was.
    pub fn of(&self, record: &Record) -> Arc<SecurityDescriptor> {
        let ids = self.ids();
        let (owner, group) = (ids.sid_of(Id::User(record.uid)), ids.sid_of(Id::Group(record.gid)));
        match record.security {
            0 => Arc::new(computed(owner, group, record.mode, node_of(record))),
            number => self.get(number).unwrap_or_else(|| Arc::new(denying(owner, group))),
        }
    }

    /// Numbers up to this one may have been given out before.
    pub fn begin(&self, numbers: u32) {
        let mut table = held(&self.table);
        table.next = table.next.max(numbers).max(1);
        table.until = numbers;
    }

    /// What a change did, which is made.
    pub fn settle(&self, pending: Pending) {
        if pending.added.is_empty() && pending.gone.is_empty() {
            return;
        }
        let mut table = held(&self.table);
        pending.gone.into_iter().for_each(|number| table.remove(number));
        pending.added.into_iter().for_each(|(number, descriptor)| table.add(number, descriptor));
        table.until = pending.until.unwrap_or(table.until);
    }

    /// All entries as they stand in either tree.
    pub fn entries(&self) -> Vec<Pair> {
        let table = held(&self.table);
        table.known.iter().flat_map(|(number, known)| parts(*number, &known.descriptor)).collect()
    }

    /// The owners of all of them.
    pub fn owners(&self) -> Vec<(u32, Sid)> {
        let table = held(&self.table);
        let owner = |(number, known): (&u32, &Known)| Some((*number, known.descriptor.owner?));
        table.known.iter().filter_map(owner).collect()
    }

    /// The numbers of all of them.
    pub fn numbers(&self) -> BTreeSet<u32> {
        held(&self.table).known.keys().copied().collect()
    }

    /// From here on it is noted which are named.
    pub fn begin_sweep(&self) -> u64 {
        let mut table = held(&self.table);
        table.sweep += 1;
        table.sweep
    }

    /// Those that are not among `named`, and were not named since a sweep began.
    fn unnamed(&self, sweep: u64, named: &BTreeSet<u32>) -> Vec<u32> {
        let table = held(&self.table);
        let is_old = |(number, known): &(&u32, &Known)| known.named < sweep && !named.contains(number);
        table.known.iter().filter(is_old).map(|(number, _)| *number).collect()
    }

    fn is_named_since(&self, sweep: u64, number: u32) -> bool {
        held(&self.table).known.get(&number).is_none_or(|known| known.named >= sweep)
    }
}

pub(crate) fn number_of_mode_change(change: ModeChange) -> u8 {
    match change {
        ModeChange::Mask => 0,
        ModeChange::Discard => 1,
        ModeChange::Refuse => 2,
    }
}

pub(crate) fn mode_change_of(number: u8) -> Option<ModeChange> {
    Some(match number {
        0 => ModeChange::Mask,
        1 => ModeChange::Discard,
        2 => ModeChange::Refuse,
        _ => return None,
    })
}

/// The number of a descriptor, which is put into the trees where it is new. The record that names it is to be put back in
/// the same change.
pub(crate) fn intern(view: &mut View<'_>, descriptor: &SecurityDescriptor) -> Result<u32, Stop> {
    view.hold(SECURITY_TREE)?;
    let known = view.known_descriptors();
    if let Some((number, _)) = view.descriptors.added.iter().find(|(_, added)| **added == *descriptor) {
        return Ok(*number);
    }
    let (number, until) = {
        let mut table = held(&known.table);
        if let Some(number) = table.numbers.get(descriptor).copied() {
            let sweep = table.sweep;
            if let Some(known) = table.known.get_mut(&number) {
                known.named = sweep;
            }
            return Ok(number);
        }
        if table.bytes + descriptor.len_bytes() > MOST_BYTES {
            return refuse(ErrorKind::NoSpace, FULL);
        }
        (table.next + view.descriptors.added.len() as u32, table.until)
    };
    let bytes = descriptor.to_bytes().map_err(|error| VolumeError::new(ErrorKind::Invalid, error.to_string()))?;
    let owner = descriptor.owner.as_ref();
    view.need_feature(if owner.is_some_and(is_foreign) { DESCRIPTORS | NT_RULES } else { DESCRIPTORS })?;
    if number >= until {
        let Some(until) = number.checked_add(NUMBERS_AT_ONCE) else { return refuse(ErrorKind::NoSpace, NO_NUMBERS) };
        for tree in [SETTINGS_TREE, SETTINGS_TWIN] {
            view.put(tree, KEY_NUMBERS.to_vec(), until.to_le_bytes().to_vec())?;
        }
        view.descriptors.until = Some(until);
    }
    for tree in [SECURITY_TREE, SECURITY_TWIN] {
        for (part, bytes) in bytes.chunks(PART).enumerate() {
            view.put(tree, key(number, part), bytes.to_vec())?;
        }
    }
    view.descriptors.added.push((number, Arc::new(descriptor.clone())));
    Ok(number)
}

const FULL: &str = "the volume has as many different security descriptors as it can: scan it, which takes out those that no \
                    file has any more";
const NO_NUMBERS: &str = "the volume has no more numbers for security descriptors: copy its files to a new one";

/// What both trees have of a number, in order.
fn stored(view: &View<'_>, tree: u8, number: u32) -> Result<Vec<Pair>, Stop> {
    let prefix = number.to_be_bytes();
    view.range(tree, &prefix, &prefix, 256)
}

/// Whether both trees have an entry as it is known, or neither has any of one that is not.
pub(crate) fn agree(view: &View<'_>, number: u32) -> Result<bool, Stop> {
    view.hold(SECURITY_TREE)?;
    let known = view.known_descriptors().get(number);
    let expected = known.map_or_else(Vec::new, |known| parts(number, &known));
    for tree in [SECURITY_TREE, SECURITY_TWIN] {
        if stored(view, tree, number)? != expected {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Has both trees have an entry as it is known, or neither any of one that is not.
pub(crate) fn put_again(view: &mut View<'_>, number: u32) -> Result<(), Stop> {
    view.hold(SECURITY_TREE)?;
    let known = view.known_descriptors().get(number);
    let expected = known.map_or_else(Vec::new, |known| parts(number, &known));
    for tree in [SECURITY_TREE, SECURITY_TWIN] {
        let is_stray = |key: &Vec<u8>| expected.iter().all(|(wanted, _)| wanted != key);
        let stray = stored(view, tree, number)?.into_iter().map(|(key, _)| key).filter(is_stray);
        for key in stray.take(STRAY_AT_ONCE) {
            view.remove(tree, key)?;
        }
        for (key, value) in &expected {
            view.put(tree, key.clone(), value.clone())?;
        }
    }
    Ok(())
}

impl Store {
    /// Takes over all descriptors, from either of the trees that have them, in place of what was known.
    pub(crate) async fn open_descriptors(&self) -> Result<(), VolumeError> {
        *held(&self.descriptors.table) = Table::default();
        for tree in [SECURITY_TREE, SECURITY_TWIN] {
            let entries = self.range(tree, b"", usize::MAX).await?;
            let of_one = entries.chunk_by(|(one, _), (other, _)| number_of(one) == number_of(other));
            for parts in of_one {
                let number = parts.first().and_then(|(key, _)| number_of(key)).filter(|number| *number > 0);
                let read = read_parts(parts.iter().map(|(key, value)| (&key[..], &value[..])));
                if let (Some(number), Some(read)) = (number, read)
                    && !self.descriptors.has(number)
                {
                    held(&self.descriptors.table).add(number, Arc::new(read));
                }
            }
        }
        Ok(())
    }

    /// Has both trees have what one of them lacked when the volume was opened.
    pub(crate) async fn mend_descriptors(&self) -> Result<(), VolumeError> {
        let all = self.descriptors.entries();
        for tree in [SECURITY_TREE, SECURITY_TWIN] {
            let there: BTreeMap<Vec<u8>, Vec<u8>> = self.range(tree, b"", usize::MAX).await?.into_iter().collect();
            let missing: Vec<_> = all.iter().filter(|(key, value)| there.get(key) != Some(value)).collect();
            for some in missing.chunks(PARTS_AT_ONCE) {
                let mut transaction = Transaction::new();
                some.iter().for_each(|(key, value)| _ = transaction.put(tree, key, value));
                self.apply(&transaction).await?;
            }
        }
        Ok(())
    }

    /// Takes out what no file names, by a scan before which the sweep began and that met all of `named`; answers how many
    /// that were.
    pub(crate) async fn sweep_descriptors(&self, sweep: u64, named: &BTreeSet<u32>) -> Result<u64, VolumeError> {
        let mut swept = 0;
        for number in self.descriptors.unnamed(sweep, named) {
            let change = self.change([SECURITY_TREE, SECURITY_TWIN], Need::Less, |view| {
                if self.descriptors.is_named_since(sweep, number) {
                    return Ok(0);
                }
                for tree in [SECURITY_TREE, SECURITY_TWIN] {
                    for (key, _) in stored(view, tree, number)?.into_iter().take(PARTS_AT_ONCE) {
                        view.remove(tree, key)?;
                    }
                }
                view.descriptors.gone.push(number);
                Ok(1)
            });
            swept += change.await?.0;
        }
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(entries: usize) -> SecurityDescriptor {
        let sid = |rid: usize| ADMINISTRATORS.domain().and_then(|domain| domain.with_rid(rid as u32).ok());
        let entry = |rid: usize| Ace::allow(sid(rid).expect("a SID"), AccessMask::FILE_READ);
        let dacl = AclState::Present(Acl::new((0..entries).map(entry).collect()).expect("few"));
        SecurityDescriptor { owner: sid(1), group: sid(2), dacl, ..SecurityDescriptor::default() }
    }

    #[test]
    fn parts_that_are_not_all_there_are_no_descriptor() {
        for entries in [0, 1, 600, 2000] {
            let whole = descriptor(entries);
            let stored = parts(7, &whole);
            let read = |pairs: &[Pair]| read_parts(pairs.iter().map(|(key, value)| (&key[..], &value[..])));
            assert_eq!(read(&stored), Some(whole));
            assert!(stored.len() <= PARTS_AT_ONCE && stored.iter().all(|(key, _)| number_of(key) == Some(7)));
            for at in 0..stored.len() {
                let mut less = stored.clone();
                less.remove(at);
                assert_eq!(read(&less), None, "without part {at} of {}", stored.len());
            }
            let mut longer = stored.clone();
            longer.last_mut().expect("a part").1.push(0);
            assert_eq!(read(&longer), None, "with a byte behind it");
        }
        assert_eq!(read_parts([]), None);
    }

    #[test]
    fn a_descriptor_that_is_lost_gives_nobody_data() {
        use holdfast_identity::{Access, Privileges, Token, check};
        let owner = descriptor(0).owner.expect("an owner");
        let lost = denying(owner, owner);
        let data = AccessMask::READ_DATA | AccessMask::WRITE_DATA | AccessMask::EXECUTE | AccessMask::DELETE;
        for user in [owner, ADMINISTRATORS] {
            let token = Token::new(user, user, &[], Privileges::empty()).expect("no groups");
            let granted = check(&lost, &token, Access::maximum()).expect("something");
            assert!(!granted.intersects(data) && granted.contains(AccessMask::WRITE_DAC), "{user}: {granted:?}");
        }
        let other = Token::new(descriptor(0).group.expect("a group"), owner, &[], Privileges::empty());
        let other = other.expect("no groups");
        assert!(check(&lost, &other, Access::to(AccessMask::READ_ATTRIBUTES)).is_err());
    }
}
