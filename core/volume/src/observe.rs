//! What a transaction does to files, for those who follow it: the journal and watches.
//!
//! ```text
//!   entries put in and taken out ─▶ names that go and come ┐
//!   record before and after      ─▶ reasons               ├─▶ changes, in an order in which they can be repeated
//!   what the caller tells beside ─▶ reasons               ┘
//! ```
//!
//! It is derived from the operations, so that no way of changing a file is missed.
//!
//! Invariant: a file without a name changes nothing that is told: it comes with its first name, and goes with its last.

use std::collections::BTreeMap;

use crate::SHARED_TREES;
use crate::change::{Stop, View};
use crate::extent::{Extent, without};
use crate::integrity::Integrity;
use crate::journal::Reasons;
use crate::keys::{self, kind};
use crate::record::{DirectoryEntry, Link, Record};
use crate::service::{DosAttributes, FileId, FileKind};
use crate::streams::Head;
use crate::transaction::Operation;

/// Further names of a file that are told, at most.
const MOST_NAMES: usize = 32;

/// Attributes that say what other reasons tell: that data changed, what a file stands for, and how its data is proven.
const TOLD_OTHERWISE: DosAttributes =
    DosAttributes::ARCHIVE.union(DosAttributes::REPARSE_POINT).union(Integrity::ATTRIBUTES);

/// What happens to a name, in the order in which it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// It goes, for good or to another place.
    Goes,
    /// It comes.
    Comes,
    /// It stays.
    Stays,
}

/// What a transaction does to a file, by one of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub step: Step,
    pub file: FileId,
    pub is_directory: bool,
    pub attributes: u32,
    pub reasons: Reasons,
    pub parent: FileId,
    pub name: Vec<u8>,
    /// Whether it is the last one of the file in this transaction.
    pub is_last: bool,
    /// Names that it has beside, where it stays and somebody watches.
    pub further: Vec<(FileId, Vec<u8>)>,
}

/// A name, and the directory that has it.
type Name = (u64, Vec<u8>);

/// What the operations say of one file.
#[derive(Default)]
struct Seen<'a> {
    /// The value that its record is given, if it is.
    record: Option<Option<&'a [u8]>>,
    goes: Vec<Name>,
    comes: Vec<Name>,
    /// Extents that it had, of those that are taken out or put in, and those that it has then.
    old: Vec<Extent>,
    new: Vec<Extent>,
    reasons: Reasons,
}

/// What operations do, before they are made. Reasons that no operation shows are told beside, with the file.
pub(crate) fn changes(view: &View<'_>, operations: &[Operation], told: &[(u64, Reasons)]) -> Result<Vec<Change>, Stop> {
    let mut seen: BTreeMap<u64, Seen<'_>> = BTreeMap::new();
    for operation in operations.iter().filter(|done| done.tree < SHARED_TREES) {
        let Operation { tree, key, value } = operation;
        let (Some(file), Some(what)) = (keys::number(key, 0), key.get(8)) else { continue };
        match *what {
            kind::RECORD => seen.entry(file).or_default().record = Some(value.as_deref()),
            kind::EXTENDED => seen.entry(file).or_default().reasons |= Reasons::EA_CHANGE,
            kind::REPARSE => seen.entry(file).or_default().reasons |= Reasons::REPARSE_POINT_CHANGE,
            kind::STREAM => {
                let before = view.get(*tree, key)?;
                seen.entry(file).or_default().reasons |= of_stream(key, before.as_deref(), value.as_deref());
            }
            kind::EXTENT => {
                let extent = |value: &[u8]| Extent::decode(value).ok();
                let (before, seen) = (view.get(*tree, key)?, seen.entry(file).or_default());
                seen.old.extend(before.as_deref().and_then(extent));
                seen.new.extend(value.as_deref().and_then(extent));
            }
            kind::ENTRY => {
                let entry = |value: &[u8]| DirectoryEntry::decode(file, value).ok();
                let (before, after) = (view.get(*tree, key)?, value.as_deref().and_then(entry));
                if let Some(entry) = before.as_deref().and_then(entry) {
                    seen.entry(entry.child.number).or_default().goes.push((file, entry.name));
                }
                if let Some(entry) = after {
                    seen.entry(entry.child.number).or_default().comes.push((file, entry.name));
                }
            }
            _ => {}
        }
    }
    for (file, reasons) in told {
        seen.entry(*file).or_default().reasons |= *reasons;
    }
    let looking = Looking { view, operations };
    let mut changes = Vec::new();
    for (file, seen) in seen {
        looking.file(file, seen, &mut changes)?;
    }
    changes.sort_by_key(|change| change.step);
    for index in 0..changes.len() {
        let file = changes[index].file;
        changes[index].is_last = changes[index + 1..].iter().all(|later| later.file != file);
    }
    Ok(changes)
}

struct Looking<'a, 'b> {
    view: &'a View<'b>,
    operations: &'a [Operation],
}

impl Looking<'_, '_> {
    fn record(&self, file: u64) -> Result<Option<Record>, Stop> {
        let value = match self.view.get(keys::shard(file), &keys::record(file)) {
            // What is lost is nothing that can be compared, and no reason to refuse a repair.
            Err(Stop::Node(node)) if self.view.store().cache.is_lost(node) => None,
            value => value?,
        };
        Ok(value.and_then(|value| Record::decode(file, &value).ok()))
    }

    /// A directory by its number, as it is then.
    fn directory(&self, number: u64) -> Result<FileId, Stop> {
        let key = keys::record(number);
        let put = self.operations.iter().find(|done| done.tree == keys::shard(number) && done.key == key);
        let record = match put.and_then(|done| done.value.as_deref()) {
            Some(value) => Record::decode(number, value).ok(),
            None => self.record(number)?,
        };
        Ok(FileId { number, generation: record.map_or(0, |record| record.generation) })
    }

    fn file(&self, number: u64, mut seen: Seen<'_>, changes: &mut Vec<Change>) -> Result<(), Stop> {
        if seen.record.is_none() && seen.goes.is_empty() && seen.comes.is_empty() && seen.reasons.is_empty() {
            // Data that only moved to another place.
            return Ok(());
        }
        let before = self.record(number)?;
        let after = match seen.record {
            Some(value) => value.and_then(|value| Record::decode(number, value).ok()),
            None => before.clone(),
        };
        let named = |record: &Option<Record>| record.clone().filter(|record| record.links > 0);
        let (before, after) = (named(&before), named(&after));
        seen.goes.retain(|name| match seen.comes.iter().position(|other| other == name) {
            // It only moved to another slot.
            Some(same) => {
                seen.comes.swap_remove(same);
                false
            }
            None => true,
        });
        let Some(known) = after.as_ref().or(before.as_ref()) else { return Ok(()) };
        let base = Change {
            step: Step::Stays,
            file: FileId { number, generation: known.generation },
            is_directory: known.is_directory(),
            attributes: known.attributes,
            reasons: Reasons::NONE,
            parent: FileId { number: known.link.parent, generation: known.link.parent_generation },
            name: known.link.name.clone(),
            is_last: true,
            further: Vec::new(),
        };
        let named = |step, reasons, (parent, name): &Name| -> Result<Change, Stop> {
            Ok(Change { step, reasons, parent: self.directory(*parent)?, name: name.clone(), ..base.clone() })
        };
        let first = |names: &[Name]| names.first().cloned().unwrap_or((base.parent.number, base.name.clone()));
        match (&before, &after) {
            (None, Some(_)) => changes.push(named(Step::Comes, Reasons::FILE_CREATE, &first(&seen.comes))?),
            (Some(_), None) => changes.push(named(Step::Goes, Reasons::FILE_DELETE, &first(&seen.goes))?),
            (Some(before), Some(after)) => {
                let start = changes.len();
                if let ([from], [to]) = (&seen.goes[..], &seen.comes[..]) {
                    changes.push(named(Step::Goes, Reasons::RENAME_OLD_NAME, from)?);
                    changes.push(named(Step::Comes, Reasons::RENAME_NEW_NAME, to)?);
                } else {
                    for name in &seen.goes {
                        changes.push(named(Step::Goes, Reasons::HARD_LINK_CHANGE, name)?);
                    }
                    for name in &seen.comes {
                        changes.push(named(Step::Comes, Reasons::HARD_LINK_CHANGE, name)?);
                    }
                }
                let reasons = compare(before, after, &seen)?;
                if reasons.is_empty() {
                    return Ok(());
                }
                match changes[start..].last_mut() {
                    Some(last) => last.reasons |= reasons,
                    None => changes.push(Change { reasons, further: self.further(number, after)?, ..base }),
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Names of a file beside its first one, if anybody looks for them.
    fn further(&self, number: u64, record: &Record) -> Result<Vec<(FileId, Vec<u8>)>, Stop> {
        if record.is_directory() || record.links < 2 || !self.view.store().watches.are_any() {
            return Ok(Vec::new());
        }
        let prefix = keys::prefix(number, kind::LINK);
        let found = self.view.range(keys::shard(number), &prefix, &prefix, MOST_NAMES)?;
        let link = |(key, value): &(Vec<u8>, Vec<u8>)| {
            let parent = keys::number(key, 9)?;
            let link = Link::decode(number, parent, value).ok()?;
            Some((FileId { number: parent, generation: link.parent_generation }, link.name))
        };
        Ok(found.iter().filter_map(link).collect())
    }
}

/// What becomes of a named stream where one of its parts is put in or taken out.
fn of_stream(key: &[u8], before: Option<&[u8]>, after: Option<&[u8]>) -> Reasons {
    let Some((_, part)) = keys::read_stream(key) else { return Reasons::NONE };
    let (Some(before), Some(after)) = (before, after) else {
        return if part == 0 { Reasons::STREAM_CHANGE } else { Reasons::NONE };
    };
    if part > 0 {
        // What was written again as it was is written over, and what only follows is not.
        let len = before.len().min(after.len());
        let is_over = before == after || before[..len] != after[..len];
        return if is_over { Reasons::NAMED_DATA_OVERWRITE } else { Reasons::NONE };
    }
    let (Some(before), Some(after)) = (Head::decode(before), Head::decode(after)) else {
        return Reasons::STREAM_CHANGE;
    };
    let length = match before.len.cmp(&after.len) {
        std::cmp::Ordering::Less => Reasons::NAMED_DATA_EXTEND,
        std::cmp::Ordering::Greater => Reasons::NAMED_DATA_TRUNCATION,
        std::cmp::Ordering::Equal => Reasons::NONE,
    };
    if before.name == after.name { length } else { length | Reasons::STREAM_CHANGE }
}

/// Why a file that stays is another one afterwards.
fn compare(before: &Record, after: &Record, seen: &Seen<'_>) -> Result<Reasons, Stop> {
    let mut reasons = seen.reasons;
    let owner = |record: &Record| (record.mode, record.uid, record.gid, record.security);
    if owner(before) != owner(after) {
        reasons |= Reasons::SECURITY_CHANGE;
    }
    let own = |record: &Record| (record.attributes & !TOLD_OTHERWISE.bits(), record.created);
    if own(before) != own(after) {
        reasons |= Reasons::BASIC_INFO_CHANGE;
    }
    let integrity = |record: &Record| record.attributes & Integrity::ATTRIBUTES.bits();
    if integrity(before) != integrity(after) {
        reasons |= Reasons::INTEGRITY_CHANGE;
    }
    if after.kind != FileKind::Regular {
        return Ok(reasons);
    }
    match before.size.cmp(&after.size) {
        std::cmp::Ordering::Less => {
            reasons |= Reasons::DATA_EXTEND;
            if is_overwritten(before, after, seen) {
                reasons |= Reasons::DATA_OVERWRITE;
            }
        }
        std::cmp::Ordering::Greater => reasons |= Reasons::DATA_TRUNCATION,
        std::cmp::Ordering::Equal => {
            // Its time is set by hand, or by whoever wrote to it.
            let is_touched = before.modified != after.modified && !seen.reasons.has(Reasons::BASIC_INFO_CHANGE);
            if is_touched || before.change != after.change && is_filled(before, after, seen) {
                reasons |= Reasons::DATA_OVERWRITE;
            }
        }
    }
    Ok(reasons)
}

/// Whether data that a file has lies elsewhere afterwards, or is other data.
fn is_overwritten(before: &Record, after: &Record, seen: &Seen<'_>) -> bool {
    match (&before.inline, &after.inline) {
        (Some(old), Some(new)) => return !new.starts_with(old),
        // What it is outside of the record is not seen here.
        (Some(old), None) if !old.is_empty() => return true,
        _ => {}
    }
    seen.old.iter().any(|old| old.is_written && !without(vec![old.clone()], &seen.new).is_empty())
}

/// Whether data lies where none did, or other data.
fn is_filled(before: &Record, after: &Record, seen: &Seen<'_>) -> bool {
    let written = |all: &[Extent]| all.iter().filter(|extent| extent.is_written).cloned().collect::<Vec<_>>();
    is_overwritten(before, after, seen) || !without(written(&seen.new), &written(&seen.old)).is_empty()
}
