//! Entries that cannot be read: taken out, or made again from what leads to them.
//!
//! Invariant: a record that cannot be read is replaced in one change, never first taken out: a name that leads to it would
//! be taken for one that leads nowhere.

use crate::change::Need;
use crate::error::VolumeError;
use crate::keys;
use crate::namespace::plain;
use crate::quota::Enforce;
use crate::rebuild::{kind_of_parts, learn_name};
use crate::record::Link;
use crate::repair::Repaired;
use crate::scan::{Item, is_readable, judge};
use crate::verbs::Verb;
use crate::volume::{ROOT, Volume};

impl Volume {
    /// Takes an entry out that cannot be read. A record to which no name leads becomes one of the parts of its file.
    pub(super) async fn repair_unreadable(&self, tree: u8, key: &[u8]) -> Result<Repaired, VolumeError> {
        let file = keys::number(key, 0).filter(|file| keys::is_record(tree, key) && keys::shard(*file) == tree);
        let need = if file.is_some() { Need::More } else { Need::Less };
        let change = self.store.change([tree], need, |view| {
            let Some(value) = view.get(tree, key)? else { return Ok(Repaired::AlreadyGone) };
            if is_readable(tree, key, &value) {
                return Ok(Repaired::AlreadyGone);
            }
            view.enforce(Enforce::Nothing);
            match file {
                Some(file) => {
                    let kind = kind_of_parts(view, file)?;
                    self.put_made(view, file, kind, 1, &Link::default())?;
                }
                None => view.remove(tree, key.to_vec())?,
            }
            Ok(Repaired::Fixed)
        });
        let done = change.await?.0;
        if let Some(file) = file.filter(|_| done == Repaired::Fixed) {
            self.repair_orphan(file).await?;
        }
        Ok(done)
    }

    /// Makes the record again that a name leads to. Where another name made it already, it learns of this one.
    pub(super) async fn restore_record(
        &self,
        directory: u64,
        slot: u64,
        name: &[u8],
        verb: &Verb,
    ) -> Result<Repaired, VolumeError> {
        let change = self.store.change([], Need::More, |view| {
            view.enforce(Enforce::Nothing);
            let entry = judge::entry(view, directory, slot)?.filter(|entry| entry.name == name);
            let (Some(entry), Some(above)) = (entry, judge::record(view, directory)?) else {
                return Ok(Repaired::AlreadyGone);
            };
            let child = entry.child;
            let link = Link { parent: directory, parent_generation: above.generation, name: name.to_vec() };
            if self.judge(view, &Item::Entry(directory, slot))?.contains(verb) {
                self.put_made(view, child.number, entry.kind, child.generation, &link)?;
                return Ok(Repaired::Fixed);
            }
            let Some(record) = judge::record(view, child.number)?.filter(|_| child.number != ROOT) else {
                return Ok(Repaired::AlreadyGone);
            };
            let is_it = record.generation == child.generation
                && plain(record.kind) == entry.kind
                && !record.is_directory()
                && record.links > 0;
            let learnt = is_it && learn_name(view, (child.number, record), (directory, &above), slot, name)?;
            Ok(if learnt { Repaired::Fixed } else { Repaired::AlreadyGone })
        });
        Ok(change.await?.0)
    }
}
