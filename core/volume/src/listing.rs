//! What a directory holds, in the order of its slots.
//!
//! Invariant: a name keeps its slot as long as it is there, so a listing that goes on behind a cursor misses none and
//! repeats none.

use crate::access::{self, READ};
use crate::error::VolumeError;
use crate::keys;
use crate::record::DirectoryEntry;
use crate::service::{Caller, Entry, FileId};
use crate::volume::{Volume, directory_of, record_of};

/// Names that are looked up under one lock.
const AT_ONCE: usize = 256;

impl Volume {
    pub(crate) async fn list_names(
        &self,
        caller: &Caller,
        dir: FileId,
        cursor: u64,
        most: usize,
        attributes: bool,
    ) -> Result<Vec<Entry>, VolumeError> {
        let (mut found, mut cursor) = (Vec::new(), cursor);
        while found.len() < most {
            let count = AT_ONCE.min(most - found.len());
            let some = self.list_some(caller, dir, cursor, count, attributes).await?;
            let is_end = some.len() < count;
            cursor = some.last().map_or(cursor, |entry| entry.cursor);
            found.extend(some);
            if is_end {
                break;
            }
        }
        Ok(found)
    }

    async fn list_some(
        &self,
        caller: &Caller,
        dir: FileId,
        cursor: u64,
        count: usize,
        attributes: bool,
    ) -> Result<Vec<Entry>, VolumeError> {
        let shard = keys::shard(dir.number);
        self.store
            .look([shard], |view| {
                access::allow(view, caller, &directory_of(view, dir)?, READ)?;
                let from = keys::entry(dir.number, cursor + 1);
                let prefix = keys::prefix(dir.number, keys::kind::ENTRY);
                let mut entries = Vec::new();
                view.each(shard, &from, &prefix, count, |key, value| {
                    let DirectoryEntry { child, kind, name } = DirectoryEntry::decode(dir.number, value)?;
                    let cursor = keys::number(key, 9).unwrap_or_default();
                    let mut listed = Entry { name: caller.shown(name), id: child, kind, cursor, attributes: None };
                    if attributes {
                        listed.attributes = Some(self.with_open(record_of(view, child)?.facts(child.number)));
                    }
                    entries.push(listed);
                    Ok(())
                })?;
                Ok(entries)
            })
            .await
    }
}
