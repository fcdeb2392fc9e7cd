//! Records of a change, made under the locks of its trees.
//!
//! ```text
//!   what the change did ─▶ reasons that are new for the file, or a name ─▶ a record at `next`
//!                      └─▶ the file is open: its note has them from now on      it is not: the record closes
//! ```
//!
//! Invariant: the records of a transaction stand in the order in which its changes can be repeated: names that go first,
//! then those that come.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{JournalRecord, Note, Reasons, note_key, record_key, span_of};
use crate::JOURNAL_TREE;
use crate::change::{Stop, View};
use crate::observe::{self, Change};
use crate::transaction::Operation;

/// What a file collected before the change, and with it.
struct Collected {
    before: Option<Note>,
    reasons: Reasons,
    is_closed: bool,
}

/// Operations on the journal that may change nodes of their own: what they touch is beside each other.
const PLACES: usize = 3;

/// How many of some operations need no room of their own: records that are put in or taken out follow each other.
pub(crate) fn beside(operations: &[Operation]) -> usize {
    operations.iter().filter(|done| done.tree == JOURNAL_TREE).count().saturating_sub(PLACES)
}

/// Finds out what operations do, if anybody follows the volume, and adds the records of it.
pub(crate) fn follow(
    view: &View<'_>,
    told: &[(u64, Reasons)],
    operations: &mut Vec<Operation>,
) -> Result<Vec<Change>, Stop> {
    let store = view.store();
    if !store.journal.is_on() && !store.watches.are_any() {
        return Ok(Vec::new());
    }
    let changes = observe::changes(view, operations, told)?;
    if store.journal.is_on() {
        append(view, &changes, operations)?;
    }
    Ok(changes)
}

/// Adds records of changes to the operations that make them.
fn append(view: &View<'_>, changes: &[Change], operations: &mut Vec<Operation>) -> Result<(), Stop> {
    if changes.is_empty() {
        return Ok(());
    }
    let journal = &view.store().journal;
    let mut files: BTreeMap<u64, Collected> = BTreeMap::new();
    for change in changes {
        let number = change.file.number;
        if let Entry::Vacant(file) = files.entry(number) {
            let note = view.get(JOURNAL_TREE, &note_key(number))?.as_deref().and_then(Note::decode);
            let before = note.filter(|note| journal.header().is_some_and(|header| header.id == note.id));
            let reasons = before.map_or(Reasons::NONE, |note| note.reasons);
            file.insert(Collected { before, reasons, is_closed: false });
        }
    }
    // Whether it is on does not change while its tree is held.
    let Some(header) = journal.header().filter(|header| header.is_on) else { return Ok(()) };
    let (mut usn, time) = (header.next, journal.now());
    let mut put = |key, value| operations.push(Operation { tree: JOURNAL_TREE, key, value });
    for change in changes {
        let file = files.get_mut(&change.file.number).expect("it was looked up");
        let has_name = change.reasons.has(Reasons::NAMES);
        let mut new = if has_name { change.reasons } else { change.reasons.without(file.reasons) };
        let is_close = change.reasons.has(Reasons::CLOSE);
        if new.is_empty() || is_close && file.reasons.is_empty() {
            continue;
        }
        if change.is_last && (change.reasons.has(Reasons::FILE_DELETE) || !journal.is_open(change.file.number)) {
            new |= Reasons::CLOSE;
        }
        let reasons = file.reasons | change.reasons | new;
        let record = JournalRecord {
            usn,
            next: usn,
            file: change.file,
            parent: change.parent,
            name: change.name.clone(),
            reasons,
            new,
            source: journal.source(change.file.number),
            attributes: change.attributes,
            is_directory: change.is_directory,
            time,
        };
        let value = record.encode();
        let next = usn + span_of(&value);
        put(record_key(usn), Some(value));
        usn = next;
        // An old name is said once.
        file.reasons = reasons.without(Reasons::RENAME_OLD_NAME);
        file.is_closed |= reasons.has(Reasons::CLOSE);
    }
    for (number, file) in files {
        let after = Note { id: header.id, reasons: file.reasons };
        if file.is_closed {
            if file.before.is_some() {
                put(note_key(number), None);
            }
        } else if !file.reasons.is_empty() && file.before != Some(after) {
            put(note_key(number), Some(after.encode()));
        }
    }
    Ok(())
}
