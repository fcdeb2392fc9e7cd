//! Files that are open.
//!
//! ```text
//!   handle ─▶ File: lock of its data, its length, extents that were looked up, times that are not logged yet,
//!                   data that waits for its place
//! ```
//!
//! A file whose data waits is kept here when the last handle is closed, until that is written back.
//!
//! Invariant: there is at most one [`File`] for each file that is open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use holdfast_model::BLOCK_BYTES;

use crate::delayed::Delayed;
use crate::mappings::Mappings;
use crate::service::{Attributes, DosAttributes, FileId, OpenMode, Time};
use crate::store::held;

/// Parts of the table, each with a lock of its own.
const PARTS: u64 = 32;

/// Times that were accessed and modified and that a record was given, and those that it says now.
pub(crate) type Stamped = (Option<Time>, Option<Time>, (Time, Time));

/// What is known of an open file beside its record.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether the rest was read from its record.
    pub is_loaded: bool,
    /// Its length. It changes only while the data is locked for one.
    pub size: u64,
    /// Whether its bytes are in its record.
    pub is_inline: bool,
    /// When it was read and written, where its record does not say yet.
    pub accessed: Option<Time>,
    pub modified: Option<Time>,
    /// The change number that goes with those.
    pub change: u64,
    /// When the record says that it was accessed and modified.
    pub recorded: (Time, Time),
    /// The last change of its record or extents in the log.
    pub logged: u64,
    /// The last write of its data.
    pub written: u64,
    /// Room behind its last extent that is set aside for what is appended: where, and how many blocks.
    pub window: Option<(u64, u32)>,
    /// Extents that were looked up.
    pub mapping: Option<Mappings>,
    /// Data that waits for its place; the length and the times are those with it.
    pub delayed: Delayed,
    /// Whether it was cut to nothing, and what is written now is to take the place of that.
    pub is_replaced: bool,
    /// The stamp of the journal that says durably that data of it is written over; 0 if it does not.
    pub journaled: u64,
}

impl State {
    /// The record says these times now; what was noted since stays noted.
    pub fn note_stamped(&mut self, (accessed, modified, recorded): Stamped) {
        self.recorded = recorded;
        self.accessed = self.accessed.filter(|time| Some(*time) != accessed);
        self.modified = self.modified.filter(|time| Some(*time) != modified);
    }
}

/// An open file.
#[derive(Debug)]
pub struct File {
    pub(crate) id: FileId,
    /// Shared by reads and by writes in place; alone for whoever changes its length or extents.
    pub(crate) data: tokio::sync::RwLock<()>,
    pub(crate) state: Mutex<State>,
    /// Who changes it, for the journal.
    pub(crate) source: AtomicU32,
    /// Whether its blocks get checksums of their own. It changes only while the data is locked for one.
    pub(crate) strict: AtomicBool,
}

impl File {
    /// Whether its blocks get checksums of their own, so that none is written over.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict.load(Ordering::Relaxed)
    }

    /// Attributes as they are with what is not logged yet.
    pub(crate) fn refresh(&self, facts: &mut Attributes) {
        let state = held(&self.state);
        if !state.delayed.is_empty() {
            facts.size_bytes = state.size;
            // The bytes of the record wait among the others.
            let recorded = facts.allocated_bytes / BLOCK_BYTES * BLOCK_BYTES;
            facts.allocated_bytes = recorded + state.delayed.promised * BLOCK_BYTES;
        }
        facts.accessed = state.accessed.map_or(facts.accessed, |time| time.max(facts.accessed));
        if let Some(modified) = state.modified {
            facts.modified = modified;
            facts.dos |= DosAttributes::ARCHIVE;
            facts.changed = facts.changed.max(modified);
            facts.change = facts.change.max(state.change);
        }
    }
}

/// What a front end holds of a file that it opened.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) file: Arc<File>,
    pub(crate) mode: OpenMode,
    /// Whether it asks the device for all that it reads.
    pub(crate) is_unbuffered: bool,
}

impl Handle {
    /// The file.
    pub fn id(&self) -> FileId {
        self.file.id
    }
}

struct Known {
    file: Arc<File>,
    uses: usize,
    /// Those of them that are front ends': they keep a file without a name alive.
    handles: usize,
    /// Whether data of it waits, so that it is kept also without uses.
    is_kept: bool,
}

#[derive(Default)]
struct Part {
    files: HashMap<u64, Known>,
}

/// Whose use of a file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A handle's, or that of one to come.
    Handle,
    /// The volume's own, for a moment.
    Own,
}

/// What became of a file when a use of it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Others use it.
    InUse,
    /// Nobody uses it, and data of it waits.
    Kept,
    /// Nobody knows it any more.
    Gone,
}

/// The table of them.
#[derive(Default)]
pub(crate) struct OpenFiles {
    parts: [Mutex<Part>; PARTS as usize],
    /// Extents that are kept with them.
    pub mapped: Arc<AtomicUsize>,
}

impl OpenFiles {
    fn part(&self, number: u64) -> &Mutex<Part> {
        &self.parts[(number % PARTS) as usize]
    }

    /// Counts one more use of a file. Whether it exists is to be looked at afterwards.
    pub fn enter(&self, id: FileId, whose: Use) -> Arc<File> {
        let mut part = held(self.part(id.number));
        let known = part.files.entry(id.number).or_insert_with(|| {
            let file = File {
                id,
                data: tokio::sync::RwLock::new(()),
                state: Mutex::default(),
                source: AtomicU32::new(0),
                strict: AtomicBool::new(false),
            };
            Known { file: Arc::new(file), uses: 0, handles: 0, is_kept: false }
        });
        known.uses += 1;
        known.handles += usize::from(whose == Use::Handle);
        known.file.clone()
    }

    /// Counts one more use of a file that is here, by the volume itself.
    pub fn enter_known(&self, number: u64) -> Option<Arc<File>> {
        let mut part = held(self.part(number));
        let known = part.files.get_mut(&number)?;
        known.uses += 1;
        Some(known.file.clone())
    }

    /// Ends one use.
    pub fn leave(&self, file: &File, whose: Use) -> Left {
        let mut part = held(self.part(file.id.number));
        let Some(known) = part.files.get_mut(&file.id.number) else { return Left::InUse };
        known.uses -= 1;
        known.handles -= usize::from(whose == Use::Handle);
        match (known.uses, known.is_kept) {
            (0, true) => Left::Kept,
            (0, false) => {
                part.files.remove(&file.id.number);
                Left::Gone
            }
            _ => Left::InUse,
        }
    }

    /// Keeps a file that is in use also without uses.
    pub fn keep(&self, number: u64) {
        if let Some(known) = held(self.part(number)).files.get_mut(&number) {
            known.is_kept = true;
        }
    }

    /// Keeps a file no longer than it is in use, as it is now.
    pub fn let_go(&self, number: u64) {
        if let Some(known) = held(self.part(number)).files.get_mut(&number) {
            known.is_kept = false;
        }
    }

    /// The file, if it is open, or data of it waits.
    pub fn get(&self, number: u64) -> Option<Arc<File>> {
        held(self.part(number)).files.get(&number).map(|known| known.file.clone())
    }

    /// Whether anybody uses a file.
    pub fn is_used(&self, number: u64) -> bool {
        held(self.part(number)).files.get(&number).is_some_and(|known| known.uses > 0)
    }

    /// How many handles there are of a file.
    pub fn handles(&self, number: u64) -> usize {
        held(self.part(number)).files.get(&number).map_or(0, |known| known.handles)
    }

    /// Whether anybody uses any.
    pub fn are_used(&self) -> bool {
        self.parts.iter().any(|part| held(part).files.values().any(|known| known.uses > 0))
    }

    /// All that are here.
    pub fn all(&self) -> Vec<Arc<File>> {
        self.parts
            .iter()
            .flat_map(|part| held(part).files.values().map(|known| known.file.clone()).collect::<Vec<_>>())
            .collect()
    }
}
