//! Files that are open.
//!
//! ```text
//!   handle ─▶ File: lock of its data, its length, the extents that were looked up last, times that are not logged yet
//! ```
//!
//! Invariant: there is at most one [`File`] for each file that is open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::extent::Extent;
use crate::service::{Attributes, FileId, OpenMode, Time};
use crate::store::held;

/// Parts of the table, each with a lock of its own.
const PARTS: u64 = 32;

/// Extents of a part of a file, in order; what none of them covers is a hole.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The first block that it knows about.
    pub from: u64,
    /// The block behind the last one.
    pub to: u64,
    /// Each with the block of the file that it begins at.
    pub extents: Vec<(u64, Extent)>,
}

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
    /// What was looked up last.
    pub mapping: Option<Arc<Mapping>>,
}

/// An open file.
#[derive(Debug)]
pub struct File {
    pub(crate) id: FileId,
    /// Shared by reads and by writes in place; alone for whoever changes its length or extents.
    pub(crate) data: tokio::sync::RwLock<()>,
    pub(crate) state: Mutex<State>,
}

impl File {
    /// Attributes as they are with what is not logged yet.
    pub(crate) fn refresh(&self, facts: &mut Attributes) {
        let state = held(&self.state);
        facts.accessed = state.accessed.map_or(facts.accessed, |time| time.max(facts.accessed));
        if let Some(modified) = state.modified {
            facts.modified = modified;
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
}

impl Handle {
    /// The file.
    pub fn id(&self) -> FileId {
        self.file.id
    }
}

#[derive(Default)]
struct Part {
    files: HashMap<u64, (Arc<File>, usize)>,
}

/// The table of them.
#[derive(Default)]
pub(crate) struct OpenFiles {
    parts: [Mutex<Part>; PARTS as usize],
}

impl OpenFiles {
    fn part(&self, number: u64) -> &Mutex<Part> {
        &self.parts[(number % PARTS) as usize]
    }

    /// Counts one more use of a file. Whether it exists is to be looked at afterwards.
    pub fn enter(&self, id: FileId) -> Arc<File> {
        let mut part = held(self.part(id.number));
        let (file, uses) = part.files.entry(id.number).or_insert_with(|| {
            let file = File { id, data: tokio::sync::RwLock::new(()), state: Mutex::default() };
            (Arc::new(file), 0)
        });
        *uses += 1;
        file.clone()
    }

    /// Ends one use; true if it was the last one.
    pub fn leave(&self, file: &File) -> bool {
        let mut part = held(self.part(file.id.number));
        let Some((_, uses)) = part.files.get_mut(&file.id.number) else { return false };
        *uses -= 1;
        let is_last = *uses == 0;
        if is_last {
            part.files.remove(&file.id.number);
        }
        is_last
    }

    /// The file, if it is open.
    pub fn get(&self, number: u64) -> Option<Arc<File>> {
        held(self.part(number)).files.get(&number).map(|(file, _)| file.clone())
    }

    /// All that are open.
    pub fn all(&self) -> Vec<Arc<File>> {
        self.parts
            .iter()
            .flat_map(|part| held(part).files.values().map(|(file, _)| file.clone()).collect::<Vec<_>>())
            .collect()
    }
}
