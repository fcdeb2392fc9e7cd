//! Watches: who is told what happens in a directory, or everywhere below it, while it happens.
//!
//! ```text
//!   change under the locks of trees ─▶ what it does (observe.rs) ─▶ each watch that it may concern: its queue
//!                                                                            │
//!   Watch::next ◀─ is the directory below the watched one? looked up here ───┘
//! ```
//!
//! A watch of one directory is found by that. A deep one remembers of directories whether they lie below
//! ([`deep`](self::deep)); what it does not know waits in its queue until the watcher looks, so that no change waits for a
//! lookup, nor for a watcher. What comes into or leaves the watched part counts as created or removed.
//!
//! Invariants: events come in the order of the changes, each once. A queue has a limit: beyond it all of it is dropped, and
//! one event says that the watcher must list anew.

mod deep;
mod queue;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::browse::Browsed;
use crate::error::VolumeError;
use crate::journal::Reasons;
use crate::keys;
use crate::observe::{Change, Step};
use crate::service::FileId;
use crate::store::held;
use crate::volume::{Volume, directory_of};

use queue::{Happening, Next, Place, Queue};

/// Parts of the table of watches of one directory, each with a lock of its own.
const PARTS: u64 = 16;
/// Events that may wait for a watcher.
const LEAST_WAITING: usize = 16;
const MOST_WAITING: usize = 1 << 16;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// The name is there.
    Created,
    /// The name is not there any more.
    Removed,
    /// The name is another one now: that comes next.
    RenamedFrom,
    /// What had the name before this one has it now.
    RenamedTo,
    /// Bytes of the file changed.
    Modified,
    /// Attributes, times or extended attributes changed.
    Attributes,
    /// Owner or permissions changed.
    Security,
    /// A named stream was added, removed or changed.
    Streams,
    /// More happened than was waited for: the watcher lists anew. No directory or name is given.
    Overflow,
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// What happened.
    pub kind: WatchKind,
    /// The directory of the name.
    pub directory: FileId,
    /// The name.
    pub name: Vec<u8>,
    /// The file.
    pub file: FileId,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// Whether all that lies below the directory is watched, too.
    pub deep: bool,
    /// Of which changes events are told, by their reasons: [`Reasons::NAMES`] for names.
    pub filter: Reasons,
    /// Events that may wait, 16 to 65,536.
    pub most_waiting: usize,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self { deep: false, filter: Reasons::ALL, most_waiting: 1024 }
    }
}

/// One watch: what it is for, and what waits.
pub(crate) struct Watched {
    root: FileId,
    settings: WatchSettings,
    queue: Queue,
}

#[derive(Default)]
struct Table {
    watches: HashMap<u64, Vec<Arc<Watched>>>,
}

/// All watches of a volume.
#[derive(Default)]
pub(crate) struct Watches {
    count: AtomicUsize,
    shallow: [Mutex<Table>; PARTS as usize],
    deep: Mutex<Arc<Vec<Arc<Watched>>>>,
}

impl Watches {
    /// Whether anybody watches anything.
    pub fn are_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn part(&self, directory: u64) -> &Mutex<Table> {
        &self.shallow[(directory % PARTS) as usize]
    }

    fn add(&self, watched: Arc<Watched>) {
        if watched.settings.deep {
            let mut deep = held(&self.deep);
            let all = deep.iter().cloned().chain([watched]).collect();
            *deep = Arc::new(all);
        } else {
            let mut part = held(self.part(watched.root.number));
            part.watches.entry(watched.root.number).or_default().push(watched);
        }
        self.count.fetch_add(1, Ordering::AcqRel);
    }

    fn remove(&self, watched: &Arc<Watched>) {
        let is_other = |other: &Arc<Watched>| !Arc::ptr_eq(other, watched);
        if watched.settings.deep {
            let mut deep = held(&self.deep);
            let left = deep.iter().filter(|other| is_other(other)).cloned().collect();
            *deep = Arc::new(left);
        } else {
            let mut part = held(self.part(watched.root.number));
            if let Some(watches) = part.watches.get_mut(&watched.root.number) {
                watches.retain(is_other);
                if watches.is_empty() {
                    part.watches.remove(&watched.root.number);
                }
            }
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    fn of_directory(&self, directory: u64) -> Vec<Arc<Watched>> {
        held(self.part(directory)).watches.get(&directory).cloned().unwrap_or_default()
    }

    /// Tells watches what a transaction does. Its trees are held.
    pub fn tell(&self, changes: &[Change]) {
        if changes.is_empty() || !self.are_any() {
            return;
        }
        let deep = held(&self.deep).clone();
        for happening in happenings(changes) {
            let mut shallow = Vec::new();
            let places = [&happening.from, &happening.to].into_iter().flatten();
            let mut directories: Vec<u64> = places.map(|place| place.directory.number).collect();
            if happening.is_removal() && happening.is_directory {
                directories.push(happening.file.number);
            }
            directories.sort_unstable();
            directories.dedup();
            directories.iter().for_each(|directory| shallow.extend(self.of_directory(*directory)));
            for watched in &shallow {
                watched.queue.tell_shallow(watched.root, &watched.settings, &happening);
            }
            for watched in deep.iter() {
                watched.queue.tell_deep(watched.root, &watched.settings, &happening);
            }
        }
    }
}

/// What changes are to a watch: both names of a rename together.
fn happenings(changes: &[Change]) -> Vec<Happening> {
    let mut all = Vec::new();
    for change in changes.iter().filter(|change| change.reasons != Reasons::CLOSE) {
        let place = Place { directory: change.parent, name: change.name.clone() };
        let mut happening = Happening {
            file: change.file,
            is_directory: change.is_directory,
            reasons: change.reasons,
            from: None,
            to: None,
        };
        let is_other_half = |step: Step, reason: Reasons| {
            let is_it = |other: &&Change| other.file == change.file && other.step == step && other.reasons.has(reason);
            changes.iter().find(is_it)
        };
        match change.step {
            Step::Goes if change.reasons.has(Reasons::RENAME_OLD_NAME) => continue,
            Step::Goes => happening.from = Some(place),
            Step::Comes => {
                if change.reasons.has(Reasons::RENAME_NEW_NAME) {
                    let old = is_other_half(Step::Goes, Reasons::RENAME_OLD_NAME);
                    happening.from = old.map(|old| Place { directory: old.parent, name: old.name.clone() });
                }
                happening.to = Some(place);
            }
            Step::Stays => {
                for (directory, name) in &change.further {
                    let to = Some(Place { directory: *directory, name: name.clone() });
                    all.push(Happening { to, ..happening.clone() });
                }
                happening.to = Some(place);
            }
        }
        all.push(happening);
    }
    all
}

/// A watch that somebody holds. It ends when it is dropped.
pub struct Watch {
    watched: Arc<Watched>,
    watches: Arc<Watches>,
    /// Further events of the change that was told last.
    ready: VecDeque<WatchEvent>,
}

impl Watch {
    /// The directory that is watched.
    pub fn directory(&self) -> FileId {
        self.watched.root
    }

    /// The next event; waits until there is one. `None` once the directory was removed and all before that was told. It
    /// may be dropped while it waits, and nothing is lost.
    pub async fn next(&mut self, volume: &Volume) -> Option<WatchEvent> {
        let queue = &self.watched.queue;
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match queue.next() {
                Next::Events(events) => self.ready.extend(events),
                Next::Unsure(happening, at) => {
                    let known = volume.resolve(self.watched.root, queue, &happening, &at).await;
                    queue.resolve(&self.watched.settings, at, known);
                }
                Next::Overflow => {
                    let nowhere = self.watched.root;
                    return Some(WatchEvent {
                        kind: WatchKind::Overflow,
                        directory: nowhere,
                        name: Vec::new(),
                        file: nowhere,
                        is_directory: true,
                    });
                }
                Next::End => return None,
                Next::Nothing => queue.wait().await,
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watches.remove(&self.watched);
    }
}

impl Volume {
    /// Watches a directory from now on.
    ///
    /// # Errors
    /// There is no such directory, the volume takes no changes, as a snapshot does not, a node is damaged, or the device
    /// failed.
    pub async fn watch(&self, directory: FileId, settings: WatchSettings) -> Result<Watch, VolumeError> {
        self.store.check_failed()?;
        let most = settings.most_waiting.clamp(LEAST_WAITING, MOST_WAITING);
        let watched = Arc::new(Watched {
            root: directory,
            settings: WatchSettings { most_waiting: most, ..settings },
            queue: Queue::new(directory, most),
        });
        let watches = self.store.watches.clone();
        watches.add(watched.clone());
        let watch = Watch { watched, watches, ready: VecDeque::new() };
        // Who removes it from here on tells the watch.
        self.store.look([keys::shard(directory.number)], |view| directory_of(view, directory).map(drop)).await?;
        Ok(watch)
    }
}

impl Browsed {
    /// Watches a directory of files as they are. The events are asked for with the volume.
    ///
    /// # Errors
    /// Nothing happens in a snapshot ([`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly)); else those of
    /// [`Volume::watch`].
    pub async fn watch(&self, directory: FileId, settings: WatchSettings) -> Result<Watch, VolumeError> {
        self.check_now(&[directory])?;
        self.volume().watch(directory, settings).await
    }
}
