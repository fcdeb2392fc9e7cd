//! What is known of the journal in memory: where it begins and ends, and whether it is to be cut.
//!
//! Invariant: all of it follows from the transactions that were made, in their order, so that replay has it, too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::{Header, KEY_JOURNAL, span_of, usn_of};
use crate::open_files::OpenFiles;
use crate::page::PAGE_BYTES;
use crate::service::Time;
use crate::store::held;
use crate::transaction::Operation;
use crate::volume::WallClock;
use crate::{JOURNAL_TREE, SETTINGS_TREE, SETTINGS_TWIN};

/// Nodes of the trees of settings that a checkpoint writes for it.
const NODES_OF_HEADER: usize = 6;

/// Files that are open, and the clock: what records tell of them.
struct Owner {
    open: Arc<OpenFiles>,
    clock: WallClock,
}

#[derive(Default)]
struct Known {
    header: Option<Header>,
    /// The header as the trees of settings have it.
    stored: Option<Vec<u8>>,
    /// A cut that found no room is tried again behind this position.
    refused: u64,
}

/// The journal of a store.
#[derive(Default)]
pub(crate) struct Journal {
    is_on: AtomicBool,
    has_header: AtomicBool,
    wants_cut: AtomicBool,
    /// Grows when what files noted in the journal does not count any more.
    stamp: AtomicU64,
    known: Mutex<Known>,
    owner: OnceLock<Owner>,
}

impl Journal {
    /// Whether changes are recorded.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Whether there is something to take out of it.
    pub fn wants_cut(&self) -> bool {
        self.wants_cut.load(Ordering::Acquire)
    }

    /// Changes whenever what an open file has in the journal does not count any more; never 0.
    pub fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire) + 1
    }

    /// What it is, once a volume had one.
    pub fn header(&self) -> Option<Header> {
        held(&self.known).header
    }

    /// Has it know which files are open, and what time it is.
    pub fn serve(&self, open: Arc<OpenFiles>, clock: WallClock) {
        _ = self.owner.set(Owner { open, clock });
    }

    /// Whether a file is open, or data of it waits.
    pub fn is_open(&self, file: u64) -> bool {
        self.owner.get().is_some_and(|owner| owner.open.get(file).is_some())
    }

    /// What was said of a file that is open about who changes it.
    pub fn source(&self, file: u64) -> u32 {
        let file = self.owner.get().and_then(|owner| owner.open.get(file));
        file.map_or(0, |file| file.source.load(Ordering::Relaxed))
    }

    pub fn now(&self) -> Time {
        self.owner.get().map_or(Time::default(), |owner| (owner.clock)())
    }

    /// Takes over what the trees of settings of a root have.
    pub fn load(&self, header: Header) {
        self.define(header);
    }

    /// What files noted counts no more: readers begin anew, and so do files that are open.
    pub fn forget_notes(&self) {
        self.stamp.fetch_add(1, Ordering::AcqRel);
    }

    fn define(&self, header: Header) {
        let mut known = held(&self.known);
        let before = known.header;
        let next = before.map_or(header.next, |before| before.next.max(header.next));
        if before.is_none_or(|before| (before.is_on, before.id) != (header.is_on, header.id)) {
            self.stamp.fetch_add(1, Ordering::AcqRel);
        }
        known.header = Some(Header { next, ..header });
        self.has_header.store(true, Ordering::Release);
        self.is_on.store(header.is_on, Ordering::Release);
        self.look(&known);
        if before.is_some_and(|before| before.is_on) && !header.is_on {
            self.want_cut();
        }
    }

    /// There is something to take out.
    pub fn want_cut(&self) {
        self.wants_cut.store(true, Ordering::Release);
    }

    /// Whether it outgrew its size, or is off and not empty yet.
    fn look(&self, known: &Known) {
        let Some(header) = known.header else { return };
        let is_over = if header.is_on {
            header.bytes() > header.max_bytes + header.slack_bytes && header.next >= known.refused
        } else {
            header.first < header.next
        };
        if is_over {
            self.want_cut();
        }
    }

    /// Follows a transaction that is being made. The trees that it changes are held.
    pub fn follow(&self, operations: &[Operation]) {
        for Operation { tree, key, value } in operations {
            let Some(value) = value else { continue };
            if *tree == SETTINGS_TREE && key == KEY_JOURNAL {
                if let Ok(header) = Header::decode(value) {
                    self.define(header);
                }
            } else if *tree == JOURNAL_TREE
                && let Some(usn) = usn_of(key)
            {
                let mut known = held(&self.known);
                if let Some(header) = &mut known.header {
                    header.next = header.next.max(usn.saturating_add(span_of(value)));
                }
                self.look(&known);
            }
        }
    }

    /// Nothing is to be taken out for now.
    pub fn end_cut(&self) {
        self.wants_cut.store(false, Ordering::Release);
    }

    /// A cut found no room: it is tried again when the journal has grown by a part of its slack.
    pub fn put_off_cut(&self) {
        let mut known = held(&self.known);
        known.refused = known.header.map_or(0, |header| header.next + header.slack_bytes / 4);
        self.wants_cut.store(false, Ordering::Release);
    }

    /// Nodes that the journal may still come to take, which others leave to it.
    pub fn nodes_to_come(&self) -> usize {
        if self.is_on() { self.header().map_or(0, |header| nodes_for(&header)) } else { 0 }
    }

    /// Nodes that a checkpoint may write for the header.
    pub fn nodes_of_header(&self) -> usize {
        if self.has_header.load(Ordering::Acquire) { NODES_OF_HEADER } else { 0 }
    }

    /// The header as a checkpoint puts it into the trees of settings; nothing where they have it.
    pub fn entries(&self) -> Vec<(u8, Vec<u8>, Option<Vec<u8>>)> {
        let known = held(&self.known);
        let Some(header) = known.header.map(|header| header.encode()) else { return Vec::new() };
        if known.stored.as_ref() == Some(&header) {
            return Vec::new();
        }
        [SETTINGS_TREE, SETTINGS_TWIN].map(|tree| (tree, KEY_JOURNAL.to_vec(), Some(header.clone()))).into()
    }

    /// The trees of settings have the header.
    pub fn settle(&self) {
        let mut known = held(&self.known);
        known.stored = known.header.map(|header| header.encode());
    }

    /// One of the trees of settings lost it, perhaps.
    pub fn store_again(&self) {
        held(&self.known).stored = None;
    }
}

/// Nodes that a journal comes to take beyond what it has: leaves that are filled in order, and what stands above them.
pub(super) fn nodes_for(header: &Header) -> usize {
    let most = header.max_bytes + 2 * header.slack_bytes;
    (most.saturating_sub(header.bytes()) as usize).div_ceil(PAGE_BYTES / 4 * 3) + NODES_OF_HEADER
}
