//! Names and files brought together again.
//!
//! Invariant: a repair of names changes an entry and what its file knows of it together, and counts both.

use crate::change::{Need, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::keys;
use crate::names::Names;
use crate::namespace::{add_link, drop_link, plain};
use crate::quota::Enforce;
use crate::record::{DirectoryEntry, Link, Record};
use crate::removal;
use crate::repair::Repaired;
use crate::scan::Item;
use crate::scan::judge::{self, Way};
use crate::service::{Caller, FileId, FileKind, FileService, NewFile};
use crate::verbs::Verb;
use crate::volume::{ROOT, Volume, put_record};

/// Where files go whose names nobody knows.
const LOST_AND_FOUND: &str = "lost+found";
/// Names that are tried where one is taken.
const TRIES: u32 = 1000;

impl Volume {
    /// The directory of what was found without a name; made where it is missing.
    pub(super) async fn lost_and_found(&self) -> Result<FileId, VolumeError> {
        let (caller, root) = (Caller::default(), self.root());
        let new = NewFile { kind: FileKind::Directory, mode: 0o700, target: b"" };
        let mut number = 0;
        while number < TRIES {
            let name = if number == 0 { LOST_AND_FOUND.to_owned() } else { format!("{LOST_AND_FOUND} {number}") };
            match self.lookup(&caller, root, name.as_bytes()).await? {
                Some(facts) if facts.kind == FileKind::Directory => return Ok(facts.id),
                Some(_) => number += 1,
                None => match self.create_name(&caller, root, name.as_bytes(), &new, None, Enforce::Nothing).await {
                    Ok(made) => return Ok(made.id),
                    // Another repair made it meanwhile.
                    Err(error) if error.kind == ErrorKind::Exists => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Err(VolumeError::new(ErrorKind::Exists, "every name for the directory of lost files is taken"))
    }

    /// A living directory.
    fn living(&self, view: &View<'_>, number: u64, generation: Option<u32>) -> Result<Option<FileId>, Stop> {
        let record = judge::living(view, number)?
            .filter(|record| generation.is_none_or(|generation| generation == record.generation));
        Ok(record.map(|record| FileId { number, generation: record.generation }))
    }

    /// Whether a directory can take a file under this name.
    fn can_take(&self, view: &View<'_>, child: u64, link: &Link) -> Result<Option<FileId>, Stop> {
        let living = self.living(view, link.parent, Some(link.parent_generation))?;
        let Some(directory) = living.filter(|_| Names::check(&link.name).is_ok()) else { return Ok(None) };
        if self.find(view, directory.number, &link.name, false)?.is_some()
            || self.slot_for(view, directory.number, &link.name)?.is_none()
        {
            return Ok(None);
        }
        let is_above = match judge::way_up(view, directory.number)? {
            Way::Root(path) => !path.contains(&child),
            _ => directory.number != child,
        };
        Ok(is_above.then_some(directory))
    }

    /// Puts an entry in, and counts it.
    fn put_entry(
        &self,
        view: &mut View<'_>,
        directory: FileId,
        slot: u64,
        child: FileId,
        record: &Record,
        name: &[u8],
    ) -> Result<(), Stop> {
        let entry = DirectoryEntry { child, kind: plain(record.kind), name: name.to_vec() };
        view.put(keys::shard(directory.number), keys::entry(directory.number, slot), entry.encode())?;
        self.count(view, directory, 1, record.is_directory(), self.now())
    }

    /// Takes an entry out, and counts it.
    fn take_entry(&self, view: &mut View<'_>, directory: u64, slot: u64, is_directory: bool) -> Result<(), Stop> {
        view.remove(keys::shard(directory), keys::entry(directory, slot))?;
        match self.living(view, directory, None)? {
            Some(id) => self.count(view, id, -1, is_directory, self.now()),
            None => Ok(()),
        }
    }

    /// Gives a file that has no entry its only name.
    fn adopt(&self, view: &mut View<'_>, file: u64, mut record: Record, lost: Option<FileId>) -> Result<(), Stop> {
        let id = FileId { number: file, generation: record.generation };
        let home = match self.can_take(view, file, &record.link)? {
            Some(directory) if record.links > 0 => Some((directory, record.link.name.clone())),
            _ => None,
        };
        let (directory, name) = match home {
            Some(home) => home,
            None => {
                let Some(lost) = lost else { return refuse(ErrorKind::NotFound, NO_HOME) };
                (lost, self.free_name(view, lost, file)?)
            }
        };
        if record.links == 0 {
            removal::keep(view, file)?;
            let (further, entries, _) = judge::count(view, file)?;
            record.links = if record.is_directory() { 2 + entries.1 } else { 1 + further };
        }
        record.link = Link { parent: directory.number, parent_generation: directory.generation, name: name.clone() };
        record.change = self.next_change();
        put_record(view, file, &record)?;
        let slot = self.free_slot(view, directory.number, &name)?;
        self.put_entry(view, directory, slot, id, &record, &name)
    }

    pub(super) fn free_name(&self, view: &View<'_>, directory: FileId, file: u64) -> Result<Vec<u8>, Stop> {
        for number in 0..TRIES {
            let name = if number == 0 { format!("file {file}") } else { format!("file {file}.{number}") };
            if self.find(view, directory.number, name.as_bytes(), false)?.is_none() {
                return Ok(name.into_bytes());
            }
        }
        refuse(ErrorKind::Exists, "every name for a lost file is taken")
    }

    pub(super) async fn repair_orphan(&self, file: u64) -> Result<Repaired, VolumeError> {
        let verb = Verb::Orphan { file };
        let attempt = async |lost: Option<FileId>| {
            self.repair_if(&verb, Need::More, |view| {
                let Some(record) = judge::record(view, file)? else { return Ok(()) };
                self.adopt(view, file, record, lost)
            })
            .await
        };
        let done = match attempt(None).await {
            Err(error) if error.kind == ErrorKind::NotFound => attempt(Some(self.lost_and_found().await?)).await?,
            done => done?,
        };
        self.repair_names(file).await?;
        Ok(done)
    }

    /// Repairs what is left of the names of a file.
    async fn repair_names(&self, file: u64) -> Result<(), VolumeError> {
        let verbs = self.store.look([], |view| self.judge(view, &Item::Names(file))).await?;
        for verb in verbs {
            match &verb {
                Verb::LinkUnknown { directory, name, .. } => _ = self.repair_link(file, *directory, name).await?,
                _ => _ = Box::pin(self.repair_orphan(file)).await?,
            }
        }
        Ok(())
    }

    /// A name that only the file has: given back to its directory if that has room for it, else forgotten.
    pub(super) async fn repair_link(&self, file: u64, directory: u64, name: &[u8]) -> Result<Repaired, VolumeError> {
        let verb = Verb::LinkUnknown { file, directory, name: name.to_vec() };
        self.repair_if(&verb, Need::More, |view| {
            let Some(mut record) = judge::record(view, file)? else { return Ok(()) };
            let id = FileId { number: file, generation: record.generation };
            let further = judge::further(view, file)?;
            let of_this = further.into_iter().find(|(_, link)| link.parent == directory && link.name == name);
            let link = of_this.as_ref().map_or(&record.link, |(_, link)| link).clone();
            let slot = of_this.as_ref().map(|(slot, _)| *slot);
            if let Some(home) = self.can_take(view, file, &link)? {
                let free = self.free_slot(view, directory, name)?;
                if let Some(slot) = slot.filter(|slot| *slot != free) {
                    view.remove(keys::shard(file), keys::link(file, directory, slot))?;
                    view.put(keys::shard(file), keys::link(file, directory, free), link.encode())?;
                }
                return self.put_entry(view, home, free, id, &record, name);
            }
            drop_link(view, file, &mut record, directory, slot.unwrap_or_default(), name)?;
            record.links = record.links.saturating_sub(1).max(1);
            put_record(view, file, &record)
        })
        .await
    }

    pub(super) async fn repair_dangling(
        &self,
        directory: u64,
        slot: u64,
        verb: &Verb,
    ) -> Result<Repaired, VolumeError> {
        self.repair_if(verb, Need::Less, |view| {
            let Some(entry) = judge::entry(view, directory, slot)? else { return Ok(()) };
            self.take_entry(view, directory, slot, entry.kind == FileKind::Directory)
        })
        .await
    }

    /// The later of two entries of one name goes; its file gets another name if it has none now.
    pub(super) async fn repair_duplicate(
        &self,
        directory: u64,
        slot: u64,
        verb: &Verb,
    ) -> Result<Repaired, VolumeError> {
        let mut child = None;
        let done = self.repair_if(verb, Need::Less, |view| {
            let Some(entry) = judge::entry(view, directory, slot)? else { return Ok(()) };
            child = Some(entry.child.number);
            self.take_entry(view, directory, slot, entry.kind == FileKind::Directory)
        });
        let done = done.await?;
        if let Some(child) = child {
            self.repair_names(child).await?;
        }
        Ok(done)
    }

    /// An entry moves to where its name is looked for.
    pub(super) async fn repair_slot(&self, directory: u64, slot: u64, verb: &Verb) -> Result<Repaired, VolumeError> {
        let mut child = None;
        let done = self.repair_if(verb, Need::More, |view| {
            let Some(entry) = judge::entry(view, directory, slot)? else { return Ok(()) };
            child = Some(entry.child.number);
            let (shard, is_directory) = (keys::shard(directory), entry.kind == FileKind::Directory);
            let is_free =
                Names::check(&entry.name).is_ok() && self.find(view, directory, &entry.name, false)?.is_none();
            let to = if is_free { self.slot_for(view, directory, &entry.name)? } else { None };
            let Some(to) = to else { return self.take_entry(view, directory, slot, is_directory) };
            view.remove(shard, keys::entry(directory, slot))?;
            view.put(shard, keys::entry(directory, to), entry.encode())?;
            let (of_child, old) = (keys::shard(entry.child.number), keys::link(entry.child.number, directory, slot));
            if let Some(link) = view.get(of_child, &old)? {
                view.remove(of_child, old)?;
                view.put(of_child, keys::link(entry.child.number, directory, to), link)?;
            }
            Ok(())
        });
        let done = done.await?;
        if let Some(child) = child {
            self.repair_names(child).await?;
        }
        Ok(done)
    }

    /// An entry that its file does not know so: the file learns it where its own count says that it lacks one, or where
    /// it has no other; else the entry goes.
    pub(super) async fn repair_entry(&self, directory: u64, slot: u64, verb: &Verb) -> Result<Repaired, VolumeError> {
        self.repair_if(verb, Need::More, |view| {
            let Some(entry) = judge::entry(view, directory, slot)? else { return Ok(()) };
            let number = entry.child.number;
            let (Some(mut record), Some(above)) = (judge::record(view, number)?, judge::record(view, directory)?)
            else {
                return Ok(());
            };
            let home = FileId { number: directory, generation: above.generation };
            if record.links > 0 && judge::knows(view, (number, &record), (directory, &above), slot, &entry.name)? {
                let entry = DirectoryEntry { kind: plain(record.kind), ..entry };
                return view.put(keys::shard(directory), keys::entry(directory, slot), entry.encode());
            }
            let is_orphan = self.judge(view, &Item::Names(number))?.contains(&Verb::Orphan { file: number });
            let further = judge::further(view, number)?;
            let named = u32::from(!record.link.name.is_empty()) + further.len() as u32;
            if is_orphan && plain(record.kind) == entry.kind {
                record.link = Link::default();
                if record.links == 0 {
                    let (_, entries, _) = judge::count(view, number)?;
                    record.links = if record.is_directory() { 2 + entries.1 } else { 1 };
                }
                add_link(view, number, &mut record, home, slot, &entry.name)?;
                return put_record(view, number, &record);
            }
            if number != ROOT && !record.is_directory() && record.links > named {
                add_link(view, number, &mut record, home, slot, &entry.name)?;
                return put_record(view, number, &record);
            }
            self.take_entry(view, directory, slot, entry.kind == FileKind::Directory)
        })
        .await
    }

    /// A circle of directories is opened at one of them, which goes to the directory of lost files.
    pub(super) async fn repair_circle(&self, directory: u64) -> Result<Repaired, VolumeError> {
        let is_least =
            |view: &View<'_>| Ok(matches!(judge::way_up(view, directory)?, Way::Circle(least) if least == directory));
        if !self.store.look([], is_least).await? {
            return Ok(Repaired::AlreadyGone);
        }
        let lost = self.lost_and_found().await?;
        let change = self.store.change([], Need::More, |view| {
            let record = if is_least(view)? { judge::record(view, directory)? } else { None };
            let Some(mut record) = record else { return Ok(Repaired::AlreadyGone) };
            let above = record.link.clone();
            if let Some(found) = self.find(view, above.parent, &above.name, false)?
                && found.entry.child.number == directory
            {
                self.take_entry(view, above.parent, found.slot, true)?;
                record = judge::record(view, directory)?.unwrap_or(record);
            }
            record.link = Link::default();
            self.adopt(view, directory, record, Some(lost))?;
            Ok(Repaired::Fixed)
        });
        Ok(change.await?.0)
    }
}

const NO_HOME: &str = "the directory that the file names cannot take it";
