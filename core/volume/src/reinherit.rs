//! What a directory hands on brought to all that is below it, in steps that whoever asked for it drives.
//!
//! Setting the descriptor of a directory changes nothing below, as a tree may have millions of files. Each step looks at
//! some of them: explicit entries stay, inherited ones become those of the directory as it is then ([MS-DTYP] 2.5.3.4).
//!
//! Invariant: memory for the way down only. A walk that ends early has changed files that it came by, and no other; one
//! that is begun again finds these right.

use holdfast_identity::{Access, AccessMask, Control, check, reinherit};

use crate::change::{Need, refuse};
use crate::descriptors::node_of;
use crate::error::{ErrorKind, VolumeError};
use crate::keys;
use crate::security::put_descriptor;
use crate::service::{Caller, FileId, FileKind};
use crate::volume::{Volume, directory_of, put_record, record_of};

/// Directories below each other that are gone into, at most.
const MOST_DEPTH: usize = 4096;
/// Names that are listed at once.
const AT_ONCE: usize = 64;

/// A walk under way.
#[derive(Clone, Debug)]
pub struct Reinheriting {
    /// Directories on the way down, and where their listing goes on.
    way: Vec<(FileId, u64)>,
    changed: u64,
    refused: u64,
    protected: u64,
}

impl Reinheriting {
    /// A walk of what is below a directory.
    pub fn below(directory: FileId) -> Self {
        Self { way: vec![(directory, 0)], changed: 0, refused: 0, protected: 0 }
    }

    /// Whether it has come to its end.
    pub fn is_over(&self) -> bool {
        self.way.is_empty()
    }

    /// Files that have another descriptor now.
    pub fn changed(&self) -> u64 {
        self.changed
    }

    /// Files, and directories with all below them, that stayed as they are: the caller may not change them, their entries
    /// would not fit, or they stand too deep.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Files whose list takes nothing from above, and that stayed as they are.
    pub fn protected(&self) -> u64 {
        self.protected
    }
}

/// What came of one file.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    /// It has another descriptor now.
    is_changed: bool,
    /// Its list takes nothing from above.
    is_protected: bool,
    /// It hands on what it has.
    goes_down: bool,
}

impl Volume {
    /// Takes a walk on, by up to `most` files. What the caller may not change stays as it is, and is counted.
    ///
    /// # Errors
    /// No room, a node is damaged, or the device failed. The walk may be taken on from where it is.
    pub async fn reinherit(&self, caller: &Caller, walk: &mut Reinheriting, most: usize) -> Result<(), VolumeError> {
        let mut left = most;
        while left > 0 {
            let Some((directory, cursor)) = walk.way.last().copied() else { return Ok(()) };
            // It is the caller's right to change files that counts, and not that to list.
            let lister = Caller::default();
            let entries = match self.list_names(&lister, directory, cursor, AT_ONCE.min(left), false).await {
                Ok(entries) => entries,
                // It was removed meanwhile.
                Err(error) if matches!(error.kind, ErrorKind::Stale | ErrorKind::NotFound) => Vec::new(),
                Err(error) => return Err(error),
            };
            if entries.is_empty() {
                walk.way.pop();
                continue;
            }
            for entry in entries {
                left -= 1;
                let goes_down = match self.reinherit_one(caller, directory, entry.id).await {
                    Ok(Looked { is_changed, is_protected, goes_down }) => {
                        walk.changed += u64::from(is_changed);
                        walk.protected += u64::from(is_protected);
                        goes_down
                    }
                    Err(error) => match error.kind {
                        ErrorKind::AccessDenied | ErrorKind::TooLarge => {
                            walk.refused += 1;
                            false
                        }
                        ErrorKind::Stale | ErrorKind::NotFound | ErrorKind::NotDirectory => false,
                        _ => return Err(error),
                    },
                };
                walk.way.last_mut().expect("it is on the way").1 = entry.cursor;
                if goes_down && entry.kind == FileKind::Directory {
                    if walk.way.len() >= MOST_DEPTH {
                        walk.refused += 1;
                        continue;
                    }
                    walk.way.push((entry.id, 0));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Gives one file what its directory hands on.
    async fn reinherit_one(&self, caller: &Caller, directory: FileId, id: FileId) -> Result<Looked, VolumeError> {
        let now = self.now();
        let trees = [keys::shard(directory.number), keys::shard(id.number)];
        let change = self.store.change(trees, Need::More, |view| {
            let above = directory_of(view, directory)?;
            let mut record = record_of(view, id)?;
            if record.kind == FileKind::Symlink {
                return Ok(Looked::default());
            }
            let known = view.known_descriptors();
            let (parent, before) = (known.of(&above), known.of(&record));
            let after = reinherit(&before, &parent, node_of(&record));
            let after = after.map_err(|error| VolumeError::new(ErrorKind::TooLarge, error.to_string()))?;
            let both = Control::DACL_PROTECTED | Control::SACL_PROTECTED;
            let is_protected = before.control.contains(Control::DACL_PROTECTED);
            let looked =
                Looked { is_changed: after != *before, is_protected, goes_down: !after.control.contains(both) };
            if !looked.is_changed {
                return Ok(looked);
            }
            let token = caller.as_token(&known.ids(), &[&before])?;
            let access = Access { desired: AccessMask::WRITE_DAC, backup_intent: caller.is_root() };
            if let Err(refused) = check(&before, &token, access) {
                return refuse(ErrorKind::AccessDenied, refused.to_string());
            }
            put_descriptor(view, None, &mut record, &after)?;
            (record.changed, record.change) = (now, self.next_change());
            put_record(view, id.number, &record)?;
            Ok(looked)
        });
        Ok(change.await?.0)
    }
}
