//! Files that are block objects, and files that may not become one for now.
//!
//! Invariant: a file is a block object once at most, and none while somebody keeps it from being one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use holdfast_model::Uuid;

use crate::error::{ErrorKind, VolumeError};
use crate::open_files::Handle;
use crate::service::FileId;
use crate::store::held;

/// What a file is to block front ends.
enum Use {
    /// A block object of this id.
    Object(Uuid, FileId),
    /// None, while so many want that.
    KeptOff(usize),
}

/// Those of a volume, by the numbers of the files.
#[derive(Default)]
pub(crate) struct Objects {
    list: Mutex<HashMap<u64, Use>>,
}

impl Objects {
    /// A file is a block object from now on.
    pub fn add(&self, id: Uuid, handle: &Handle) -> Result<(), VolumeError> {
        let mut list = held(&self.list);
        match list.get(&handle.id().number) {
            Some(Use::Object(..)) => Err(busy("clients use the file as a disk already")),
            Some(Use::KeptOff(_)) => Err(busy("the file is being restored")),
            None => {
                list.insert(handle.id().number, Use::Object(id, handle.id()));
                Ok(())
            }
        }
    }

    /// A file is none any more.
    pub fn remove(&self, file: FileId, id: Uuid) {
        let mut list = held(&self.list);
        if matches!(list.get(&file.number), Some(Use::Object(known, _)) if *known == id) {
            list.remove(&file.number);
        }
    }

    /// The file that is the block object of this id.
    pub fn file(&self, id: Uuid) -> Option<FileId> {
        held(&self.list).values().find_map(|one| match one {
            Use::Object(known, file) if *known == id => Some(*file),
            _ => None,
        })
    }

    /// All files that are block objects.
    pub fn files(&self) -> Vec<FileId> {
        let mut files: Vec<FileId> = held(&self.list)
            .values()
            .filter_map(|one| match one {
                Use::Object(_, file) => Some(*file),
                Use::KeptOff(_) => None,
            })
            .collect();
        files.sort_unstable();
        files
    }

    /// Keeps a file from becoming a block object for as long as what is answered lives.
    pub fn keep_off(self: &Arc<Self>, file: FileId) -> Result<KeptOff, VolumeError> {
        let mut list = held(&self.list);
        match list.entry(file.number).or_insert(Use::KeptOff(0)) {
            Use::Object(..) => return Err(busy("clients use the file as a disk")),
            Use::KeptOff(count) => *count += 1,
        }
        Ok(KeptOff { objects: self.clone(), file: file.number })
    }
}

fn busy(why: &'static str) -> VolumeError {
    VolumeError::new(ErrorKind::Busy, why)
}

/// Keeps a file from becoming a block object.
#[must_use = "the file may become one when this is dropped"]
pub struct KeptOff {
    objects: Arc<Objects>,
    file: u64,
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        let mut list = held(&self.objects.list);
        let Some(Use::KeptOff(count)) = list.get_mut(&self.file) else { return };
        *count -= 1;
        if *count == 0 {
            list.remove(&self.file);
        }
    }
}
