//! Handles that were given up without being closed: the volume closes them itself.
//!
//! ```text
//!   dropped, or its closing was given up ─▶ queue ─▶ closed by the maintenance, a sync, whoever makes a file a disk
//! ```
//!
//! Invariants: a handle is left once: it stays in the queue until its use of the file ends, and goes in the same step, so
//! whoever closes it may be given up, too. What is left to do for the file then is noted as late until it is done.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::error::VolumeError;
use crate::open_files::{File, Handle, Use};
use crate::store::held;
use crate::volume::Volume;

/// Those of a volume.
#[derive(Default)]
pub(crate) struct LeftHandles {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    handles: BTreeMap<u64, Handle>,
    next: u64,
}

impl LeftHandles {
    /// Nobody closes this one. It waits for nothing, and may be told where a thing is dropped.
    pub fn add(&self, handle: Handle) {
        let mut list = held(&self.list);
        let number = list.next;
        list.next += 1;
        list.handles.insert(number, handle);
    }

    /// The first one behind so many.
    fn next(&self, behind: Option<u64>) -> Option<(u64, Handle)> {
        let list = held(&self.list);
        let from = behind.map_or(0, |number| number + 1);
        list.handles.range(from..).next().map(|(number, handle)| (*number, handle.clone()))
    }

    /// Takes one out; false if somebody else did.
    fn take(&self, number: u64) -> bool {
        held(&self.list).handles.remove(&number).is_some()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        held(&self.list).handles.is_empty()
    }
}

/// A file whose use ended while what is left to do for it is not done.
struct Leaving<'a> {
    volume: &'a Volume,
    number: u64,
    is_done: bool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            held(&self.volume.late).insert(self.number);
        }
    }
}

impl Volume {
    /// Closes handles that nobody closes. What of that fails stays as it is where a file is closed: data waits, and what
    /// there is no room for is noted.
    pub(crate) async fn close_left(&self) {
        let mut last = None;
        while let Some((number, handle)) = self.left.next(last) {
            last = Some(number);
            _ = self.end_writes(&handle).await;
            if self.left.take(number) {
                _ = self.leave_surely(&handle.file).await;
            }
        }
    }

    /// Ends a handle's use of a file. Once this was begun it is ended, also if it is given up then.
    pub(crate) async fn leave_surely(&self, file: &File) -> Result<(), VolumeError> {
        let mut leaving = Leaving { volume: self, number: file.id.number, is_done: false };
        let left = self.leave(file, Use::Handle).await;
        leaving.is_done = true;
        left
    }
}
