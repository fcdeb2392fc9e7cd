//! What waits for a watcher, in order: events, and what may be events.
//!
//! ```text
//!   Sure     events                        Unsure   not known whether a directory of it lies below
//!   Moved    no event: a directory that comes, goes or moves, behind something unsure, which goes by it
//! ```
//!
//! Invariant: while anything unsure waits, all that happened to directories since waits behind it.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use smallvec::SmallVec;

use super::{WatchEvent, WatchKind, WatchSettings};
use crate::journal::Reasons;
use crate::service::FileId;
use crate::store::held;
use crate::volume::ROOT;

/// Directories of which it is remembered whether they lie below the watched one.
const MOST_KNOWN: usize = 1 << 16;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub directory: FileId,
    pub name: Vec<u8>,
}

/// Something that happened to a file: a name that went, one that came, both for one that changed; or, with only the
/// second, something to a file that keeps it.
#[derive(Clone, Debug)]
pub(super) struct Happening {
    pub file: FileId,
    pub is_directory: bool,
    pub reasons: Reasons,
    pub from: Option<Place>,
    pub to: Option<Place>,
}

impl Happening {
    fn is_about_names(&self) -> bool {
        self.reasons.has(Reasons::NAMES)
    }

    /// Whether the file is gone.
    pub fn is_removal(&self) -> bool {
        self.reasons.has(Reasons::FILE_DELETE)
    }

    fn moves_directory(&self) -> bool {
        self.is_directory && self.is_about_names()
    }

    fn event(&self, kind: WatchKind, place: &Place) -> WatchEvent {
        WatchEvent {
            kind,
            directory: place.directory,
            name: place.name.clone(),
            file: self.file,
            is_directory: self.is_directory,
        }
    }

    /// The events that it is where these of its places are watched.
    fn events(&self, filter: Reasons, from: bool, to: bool) -> SmallVec<[WatchEvent; 2]> {
        let mut events = SmallVec::new();
        if self.is_about_names() && (self.reasons & Reasons::NAMES).has(filter) {
            match (self.from.as_ref().filter(|_| from), self.to.as_ref().filter(|_| to)) {
                (Some(from), Some(to)) => {
                    events.push(self.event(WatchKind::RenamedFrom, from));
                    events.push(self.event(WatchKind::RenamedTo, to));
                }
                (Some(from), None) => events.push(self.event(WatchKind::Removed, from)),
                (None, Some(to)) => events.push(self.event(WatchKind::Created, to)),
                (None, None) => {}
            }
        }
        let Some(place) = self.to.as_ref().filter(|_| to) else { return events };
        let reasons = self.reasons & filter;
        let streams = Reasons::STREAM_CHANGE
            | Reasons::NAMED_DATA_OVERWRITE
            | Reasons::NAMED_DATA_EXTEND
            | Reasons::NAMED_DATA_TRUNCATION;
        let attributes =
            Reasons::BASIC_INFO_CHANGE | Reasons::EA_CHANGE | Reasons::REPARSE_POINT_CHANGE | Reasons::INTEGRITY_CHANGE;
        for (of, kind) in [
            (Reasons::DATA, WatchKind::Modified),
            (attributes, WatchKind::Attributes),
            (Reasons::SECURITY_CHANGE, WatchKind::Security),
            (streams, WatchKind::Streams),
        ] {
            if reasons.has(of) {
                events.push(self.event(kind, place));
            }
        }
        events
    }
}

enum Entry {
    Sure(WatchEvent),
    Unsure(Happening, u64),
    Moved(Happening),
}

/// Which entry was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    /// Entries that were taken out or dropped before it.
    number: u64,
    /// What was known of directories when it came, counted.
    epoch: u64,
}

/// Whether the places of a happening lie below, and which directories were met on the way with the same answer.
pub(super) enum Known {
    Places {
        from: bool,
        to: bool,
        learned: Vec<(u64, bool)>,
    },
    /// It cannot be found out.
    Nothing,
}

/// What a watcher is to do.
pub(super) enum Next {
    Events(SmallVec<[WatchEvent; 2]>),
    Unsure(Happening, At),
    Overflow,
    End,
    Nothing,
}

struct State {
    entries: VecDeque<Entry>,
    /// Entries that were taken out or dropped so far.
    gone: u64,
    unsure: usize,
    below: HashMap<u64, bool>,
    /// Grows whenever what is known is forgotten because a directory moved.
    epoch: u64,
    has_overflowed: bool,
    has_ended: bool,
}

/// The queue of a watch.
pub(super) struct Queue {
    root: FileId,
    most: usize,
    state: Mutex<State>,
    arrived: tokio::sync::Notify,
}

impl Queue {
    pub fn new(root: FileId, most: usize) -> Self {
        let state = State {
            entries: VecDeque::new(),
            gone: 0,
            unsure: 0,
            below: HashMap::new(),
            epoch: 0,
            has_overflowed: false,
            has_ended: false,
        };
        Self { root, most, state: Mutex::new(state), arrived: tokio::sync::Notify::new() }
    }

    /// Something happened in the directory of a watch of one directory, or to it.
    pub fn tell_shallow(&self, root: FileId, settings: &WatchSettings, happening: &Happening) {
        let is_in = |place: &Option<Place>| place.as_ref().is_some_and(|place| place.directory == root);
        let events = happening.events(settings.filter, is_in(&happening.from), is_in(&happening.to));
        let is_end = happening.is_removal() && happening.file == root;
        if events.is_empty() && !is_end {
            return;
        }
        let mut state = held(&self.state);
        if !state.has_ended {
            state.push(self.most, events.into_iter().map(Entry::Sure));
            state.has_ended = is_end;
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Something happened on the volume of a deep watch.
    pub fn tell_deep(&self, root: FileId, settings: &WatchSettings, happening: &Happening) {
        let mut state = held(&self.state);
        if state.has_ended {
            return;
        }
        if happening.is_removal() && happening.file == root {
            state.has_ended = true;
            drop(state);
            self.arrived.notify_one();
            return;
        }
        let is_wanted = happening.reasons.has(settings.filter);
        if !is_wanted && !happening.moves_directory() {
            return;
        }
        let known = |place: &Option<Place>| match place {
            Some(place) => state.is_below(root, place.directory.number),
            None => Some(false),
        };
        let (from, to) = (known(&happening.from), known(&happening.to));
        state.note_move(root, happening, from, to);
        let epoch = state.epoch;
        match (from, to) {
            (Some(is_from), Some(is_to)) => {
                if state.unsure > 0 && happening.moves_directory() {
                    state.push(self.most, [Entry::Moved(happening.clone())]);
                }
                let events = happening.events(settings.filter, is_from, is_to);
                if events.is_empty() {
                    return;
                }
                state.push(self.most, events.into_iter().map(Entry::Sure));
            }
            _ if is_wanted => state.push(self.most, [Entry::Unsure(happening.clone(), epoch)]),
            _ if state.unsure > 0 => state.push(self.most, [Entry::Moved(happening.clone())]),
            _ => return,
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// What comes next.
    pub fn next(&self) -> Next {
        let mut state = held(&self.state);
        if std::mem::take(&mut state.has_overflowed) {
            return Next::Overflow;
        }
        loop {
            match state.entries.front() {
                None if state.has_ended => return Next::End,
                None => return Next::Nothing,
                Some(Entry::Unsure(happening, epoch)) => {
                    return Next::Unsure(happening.clone(), At { number: state.gone, epoch: *epoch });
                }
                Some(Entry::Sure(_) | Entry::Moved(_)) => {}
            }
            state.gone += 1;
            if let Some(Entry::Sure(event)) = state.entries.pop_front() {
                return Next::Events(SmallVec::from_iter([event]));
            }
        }
    }

    pub async fn wait(&self) {
        self.arrived.notified().await;
    }

    /// Whether a directory lies below, by what was known when an entry came; `None` where that is not known.
    pub fn is_below(&self, at: &At, directory: u64) -> Option<bool> {
        let state = held(&self.state);
        if directory == self.root.number || directory == ROOT || state.epoch == at.epoch {
            return state.is_below(self.root, directory);
        }
        None
    }

    /// The directory that one was in when an entry came, if something happened to it since.
    pub fn parent_then(&self, at: &At, directory: u64) -> Option<Option<u64>> {
        let state = held(&self.state);
        if state.gone != at.number {
            return None;
        }
        state.entries.iter().skip(1).find_map(|entry| match entry {
            Entry::Unsure(happening, _) | Entry::Moved(happening)
                if happening.moves_directory() && happening.file.number == directory =>
            {
                Some(happening.from.as_ref().map(|place| place.directory.number))
            }
            _ => None,
        })
    }

    /// An entry that was unsure is not any more: its events take its place.
    pub fn resolve(&self, settings: &WatchSettings, at: At, known: Known) {
        let mut state = held(&self.state);
        if state.gone != at.number {
            // All of it was dropped meanwhile.
            return;
        }
        let Known::Places { from, to, learned } = known else {
            state.overflow();
            return;
        };
        if state.epoch == at.epoch {
            if state.below.len() + learned.len() > MOST_KNOWN {
                state.below.clear();
            }
            state.below.extend(learned);
        }
        if let Some(Entry::Unsure(happening, _)) = state.entries.pop_front() {
            state.unsure -= 1;
            let events = happening.events(settings.filter, from, to);
            events.into_iter().rev().for_each(|event| state.entries.push_front(Entry::Sure(event)));
        }
    }
}

impl State {
    fn is_below(&self, root: FileId, directory: u64) -> Option<bool> {
        match directory {
            _ if directory == root.number => Some(true),
            ROOT => Some(false),
            _ => self.below.get(&directory).copied(),
        }
    }

    /// A directory comes, goes or moves: what is known follows, or is forgotten.
    fn note_move(&mut self, root: FileId, happening: &Happening, from: Option<bool>, to: Option<bool>) {
        if !happening.moves_directory() || happening.file == root {
            return;
        }
        match (&happening.from, &happening.to) {
            // Nothing is in it yet.
            (None, Some(_)) => {
                if let Some(is_below) = to.filter(|_| self.below.len() < MOST_KNOWN) {
                    self.below.insert(happening.file.number, is_below);
                }
            }
            (Some(_), None) => _ = self.below.remove(&happening.file.number),
            _ if from.is_some() && from == to => {}
            _ => {
                self.below.clear();
                self.epoch += 1;
            }
        }
    }

    fn push(&mut self, most: usize, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            if self.entries.len() >= most {
                self.overflow();
                return;
            }
            self.unsure += usize::from(matches!(entry, Entry::Unsure(..)));
            self.entries.push_back(entry);
        }
    }

    fn overflow(&mut self) {
        self.gone += self.entries.len() as u64;
        self.entries.clear();
        (self.unsure, self.has_overflowed) = (0, true);
    }
}
