//! Names of files: found, given and taken.
//!
//! Invariants: each name of a directory leads to a file that knows it, and the other way round; both sides change
//! together. A directory has one name, and is not below itself.

use holdfast_identity::SecurityDescriptor;

use crate::access::{self, EXECUTE, SET_GID};
use crate::change::{Need, Stop, View, refuse};
use crate::error::{ErrorKind, VolumeError};
use crate::integrity::Integrity;
use crate::keys;
use crate::name_rules::NameRules;
use crate::names::{MAX_NAME_BYTES, MOST_BYTES, Names};
use crate::quota::Enforce;
use crate::record::{DirectoryEntry, Link, Record};
use crate::removal::{self, Removed};
use crate::service::{Attributes, Caller, FileId, FileKind, NewFile, Remove, Rename, Time};
use crate::store::held;
use crate::superblock::NT_RULES;
use crate::volume::{Volume, directory_of, put_record, record_of};

/// Names of one file, at most (as ext4).
const MOST_LINKS: u32 = 65_000;

/// An entry, with its place in the directory.
pub(crate) struct Found {
    pub slot: u64,
    pub entry: DirectoryEntry,
}

impl Volume {
    /// The entry of a name. The exact name wins; else, for a caller who ignores case, the first that is alike.
    pub(crate) fn find(
        &self,
        view: &View<'_>,
        directory: u64,
        name: &[u8],
        ignores_case: bool,
    ) -> Result<Option<Found>, Stop> {
        Ok(self.find_in(self.bucket(view, directory, name)?, name, ignores_case))
    }

    fn find_in(&self, bucket: Vec<(u64, DirectoryEntry)>, name: &[u8], ignores_case: bool) -> Option<Found> {
        let mut alike = None;
        for (slot, entry) in bucket {
            if entry.name == name {
                return Some(Found { slot, entry });
            }
            if ignores_case && !self.is_case_sensitive() && alike.is_none() && self.names.is_alike(&entry.name, name) {
                alike = Some(Found { slot, entry });
            }
        }
        alike
    }

    /// The place for a name that must be free.
    fn slot_for_new(&self, view: &View<'_>, directory: u64, name: &[u8], ignores_case: bool) -> Result<u64, Stop> {
        let bucket = self.bucket(view, directory, name)?;
        if bucket.is_empty() {
            return Ok(self.names.bucket(name).start);
        }
        if self.find_in(bucket, name, ignores_case).is_some() {
            return refuse(ErrorKind::Exists, "the name is taken");
        }
        self.free_slot(view, directory, name)
    }

    pub(crate) fn bucket(
        &self,
        view: &View<'_>,
        directory: u64,
        name: &[u8],
    ) -> Result<Vec<(u64, DirectoryEntry)>, Stop> {
        self.bucket_at(view, directory, self.names.bucket(name).start)
    }

    /// The same of a bucket by its first slot.
    pub(crate) fn bucket_at(
        &self,
        view: &View<'_>,
        directory: u64,
        first: u64,
    ) -> Result<Vec<(u64, DirectoryEntry)>, Stop> {
        let prefix = keys::entry(directory, first);
        let mut found = Vec::new();
        // All slots of a bucket begin alike.
        view.each(keys::shard(directory), &prefix, &prefix[..prefix.len() - 1], 256, |key, value| {
            let slot = keys::number(key, 9).unwrap_or_default();
            found.push((slot, DirectoryEntry::decode(directory, value)?));
            Ok(())
        })?;
        Ok(found)
    }

    /// A place for a name that the directory does not have; none where 256 names are alike.
    pub(crate) fn slot_for(&self, view: &View<'_>, directory: u64, name: &[u8]) -> Result<Option<u64>, Stop> {
        let taken: Vec<u64> = self.bucket(view, directory, name)?.into_iter().map(|(slot, _)| slot).collect();
        Ok(self.names.bucket(name).find(|slot| !taken.contains(slot)))
    }

    /// The same, which there must be.
    pub(crate) fn free_slot(&self, view: &View<'_>, directory: u64, name: &[u8]) -> Result<u64, Stop> {
        match self.slot_for(view, directory, name)? {
            Some(slot) => Ok(slot),
            None => refuse(ErrorKind::NoSpace, "too many names of the directory are alike"),
        }
    }

    pub(crate) fn touch(&self, record: &mut Record, now: Time) {
        (record.modified, record.changed, record.change) = (now, now, self.next_change());
        record.note_data();
    }

    pub(crate) async fn lookup_name(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
    ) -> Result<Option<Attributes>, VolumeError> {
        let too_long = || Err(VolumeError::new(ErrorKind::NameTooLong, "a name has 255 bytes at most"));
        if name.len() > MOST_BYTES {
            return too_long();
        }
        let found = self
            .store
            .look([keys::shard(dir.number)], |view| {
                let directory = directory_of(view, dir)?;
                access::allow(view, caller, &directory, EXECUTE)?;
                let Some(found) = self.find(view, dir.number, name, caller.ignores_case)? else { return Ok(None) };
                let child = found.entry.child;
                Ok(Some(self.with_open(record_of(view, child)?.facts(child.number))))
            })
            .await?;
        // Those of NT may be longer, and are found.
        let is_none = found.is_none() && name.len() > MAX_NAME_BYTES && caller.names == NameRules::Posix;
        if is_none { too_long() } else { Ok(found) }
    }

    /// Attributes with what an open file knows better. The tree of its record is held, so that what is written back
    /// meanwhile counts here or there.
    pub(crate) fn with_open(&self, mut facts: Attributes) -> Attributes {
        if let Some(file) = self.open.get(facts.id.number) {
            file.refresh(&mut facts);
        }
        facts
    }

    /// The record of a file to be.
    pub(crate) fn new_record(&self, caller: &Caller, directory: &Record, new: &NewFile<'_>, id: FileId) -> Record {
        let now = self.now();
        let is_directory = new.kind == FileKind::Directory;
        let is_proven = is_directory || new.kind == FileKind::Regular;
        let mut mode = new.mode & 0o7777;
        let inherits = directory.mode & SET_GID != 0;
        if inherits && is_directory {
            mode |= SET_GID;
        }
        let mut record = Record {
            generation: id.generation,
            kind: new.kind,
            attributes: if is_proven { directory.attributes & Integrity::ATTRIBUTES.bits() } else { 0 },
            mode,
            uid: caller.uid,
            gid: if inherits { directory.gid } else { caller.gid },
            security: 0,
            links: if is_directory { 2 } else { 1 },
            size: if new.kind == FileKind::Symlink { new.target.len() as u64 } else { 0 },
            blocks: 0,
            quota_tree: directory.quota_tree,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            change: self.next_change(),
            link: Link::default(),
            inline: (new.kind == FileKind::Regular).then(Vec::new),
        };
        record.note_data();
        record
    }

    pub(crate) async fn create_name(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        new: &NewFile<'_>,
        given: Option<&SecurityDescriptor>,
        enforce: Enforce,
    ) -> Result<Attributes, VolumeError> {
        Names::check(name)?;
        if new.kind == FileKind::Symlink && !(1..=4095).contains(&new.target.len()) {
            return Err(VolumeError::new(ErrorKind::NameTooLong, "a symbolic link leads to 1 to 4,095 bytes of path"));
        }
        self.make_room().await;
        let is_directory = new.kind == FileKind::Directory;
        let id = self.draw_id(dir.number, is_directory).await?;
        let trees = [keys::shard(dir.number), keys::shard(id.number)];
        let (facts, _) = self
            .store
            .change(&trees, Need::More, |view| {
                let mut directory = directory_of(view, dir)?;
                let slot = self.slot_for_new(view, dir.number, name, caller.ignores_case)?;
                access::allow_adding(view, caller, &directory, is_directory)?;
                view.enforce(enforce);
                let mut record = self.new_record(caller, &directory, new, id);
                self.secure_new(view, caller, &directory, &mut record, given)?;
                record.link = Link { parent: dir.number, parent_generation: dir.generation, name: name.to_vec() };
                need_for(view, name)?;
                let entry = DirectoryEntry { child: id, kind: new.kind, name: name.to_vec() };
                view.put(keys::shard(dir.number), keys::entry(dir.number, slot), entry.encode())?;
                put_record(view, id.number, &record)?;
                if new.kind == FileKind::Symlink {
                    view.put(keys::shard(id.number), keys::reparse(id.number), new.target.to_vec())?;
                }
                directory.size += 1;
                if is_directory {
                    directory.links = directory.links.saturating_add(1);
                }
                self.touch(&mut directory, record.created);
                put_record(view, dir.number, &directory)?;
                Ok(record.facts(id.number))
            })
            .await?;
        Ok(facts)
    }

    pub(crate) async fn link_name(
        &self,
        caller: &Caller,
        id: FileId,
        dir: FileId,
        name: &[u8],
    ) -> Result<Attributes, VolumeError> {
        Names::check(name)?;
        let trees = [keys::shard(dir.number), keys::shard(id.number)];
        let now = self.now();
        let (facts, _) = self
            .store
            .change(&trees, Need::More, |view| {
                let mut directory = directory_of(view, dir)?;
                let mut record = record_of(view, id)?;
                if record.is_directory() {
                    return refuse(ErrorKind::NotPermitted, "a directory has one name");
                }
                if record.links >= MOST_LINKS {
                    return refuse(ErrorKind::TooManyLinks, "the file has 65,000 names");
                }
                if self.find(view, dir.number, name, caller.ignores_case)?.is_some() {
                    return refuse(ErrorKind::Exists, "the name is taken");
                }
                access::allow_adding(view, caller, &directory, false)?;
                record.quota_tree = self.check_link(view, id, &record, &directory)?;
                let slot = self.free_slot(view, dir.number, name)?;
                need_for(view, name)?;
                let entry = DirectoryEntry { child: id, kind: plain(record.kind), name: name.to_vec() };
                view.put(keys::shard(dir.number), keys::entry(dir.number, slot), entry.encode())?;
                if record.links == 0 {
                    if self.open.handles(id.number) == 0 {
                        return refuse(ErrorKind::Stale, "the file does not exist any more");
                    }
                    removal::keep(view, id.number)?;
                    if let Some(file) = self.open.get(id.number) {
                        // What was written over while it had no name, the journal did not tell.
                        held(&file.state).journaled = 0;
                    }
                }
                record.links = record.links.saturating_add(1);
                add_link(view, id.number, &mut record, dir, slot, name)?;
                (record.changed, record.change) = (now, self.next_change());
                put_record(view, id.number, &record)?;
                directory.size += 1;
                self.touch(&mut directory, now);
                put_record(view, dir.number, &directory)?;
                Ok(self.with_open(record.facts(id.number)))
            })
            .await?;
        Ok(facts)
    }

    pub(crate) async fn remove_name(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        what: Remove,
    ) -> Result<(), VolumeError> {
        let now = self.now();
        let (removed, _) = self
            .give_back(&[keys::shard(dir.number)], |view, most| {
                let mut directory = directory_of(view, dir)?;
                let Some(found) = self.find(view, dir.number, name, caller.ignores_case)? else {
                    return refuse(ErrorKind::NotFound, "there is no such name");
                };
                let child = record_of(view, found.entry.child)?;
                access::allow_removal(view, caller, &directory, &child)?;
                access::allow_change(caller, &child)?;
                match (what, child.is_directory()) {
                    (Remove::File, true) => return refuse(ErrorKind::IsDirectory, "it is a directory"),
                    (Remove::Directory, false) => return refuse(ErrorKind::NotDirectory, "it is no directory"),
                    _ => {}
                }
                view.remove(keys::shard(dir.number), keys::entry(dir.number, found.slot))?;
                directory.size = directory.size.saturating_sub(1);
                if child.is_directory() {
                    directory.links = directory.links.saturating_sub(1);
                }
                self.touch(&mut directory, now);
                put_record(view, dir.number, &directory)?;
                let gone = (dir.number, found.slot, &found.entry.name[..]);
                self.unlink(view, caller, (found.entry.child, child), gone, (now, most))
            })
            .await?;
        self.finish_removal(removed).await
    }

    /// A file loses a name. A directory must be empty.
    fn unlink(
        &self,
        view: &mut View<'_>,
        caller: &Caller,
        (id, mut record): (FileId, Record),
        (parent, slot, name): (u64, u64, &[u8]),
        (now, most): (Time, usize),
    ) -> Result<Removed, Stop> {
        if record.is_directory() {
            let prefix = keys::prefix(id.number, keys::kind::ENTRY);
            if !view.range(keys::shard(id.number), &prefix, &prefix, 1)?.is_empty() {
                return refuse(ErrorKind::NotEmpty, "the directory is not empty");
            }
            self.end_tree(view, id, &record)?;
            record.links = 0;
        } else {
            record.links = record.links.saturating_sub(1);
        }
        if record.links == 0 {
            let is_left = if caller.keeps_unnamed {
                self.remembered.leave(id)
            } else {
                self.remembered.note_removal();
                false
            };
            return removal::bury(view, &self.open, (id, is_left), record, most);
        }
        drop_link(view, id.number, &mut record, parent, slot, name)?;
        record.quota_tree = self.tree_left(view, id.number, &record)?;
        (record.changed, record.change) = (now, self.next_change());
        put_record(view, id.number, &record)?;
        Ok(Removed::Nothing)
    }

    pub(crate) async fn rename_name(
        &self,
        caller: &Caller,
        from: (FileId, &[u8]),
        to: (FileId, &[u8]),
        mode: Rename,
    ) -> Result<(), VolumeError> {
        Names::check(to.1)?;
        let trees = [keys::shard(from.0.number), keys::shard(to.0.number)];
        let now = self.now();
        // A name that takes another's place needs no more room than that had.
        let replaces = mode.replaces() && self.lookup_name(caller, to.0, to.1).await?.is_some();
        let whiteout = match mode {
            Rename::Whiteout { .. } => Some(self.draw_id(from.0.number, false).await?),
            Rename::Replace | Rename::NoReplace | Rename::Exchange => None,
        };
        // Nobody finds less under a name than was there before, whenever power fails.
        let is_exchange = mode == Rename::Exchange;
        for (dir, name) in [(replaces || is_exchange).then_some(from), is_exchange.then_some(to)].into_iter().flatten()
        {
            if let Some(moved) = self.lookup_name(caller, dir, name).await? {
                Box::pin(self.write_back(moved.id.number)).await?;
            }
        }
        let how = (mode, whiteout);
        let (removed, _) = if replaces && whiteout.is_none() {
            self.give_back(&trees, |view, most| self.rename_in(view, caller, from, to, how, (now, most))).await?
        } else {
            let most = removal::KEYS_AT_ONCE;
            self.store
                .change(trees, Need::More, |view| self.rename_in(view, caller, from, to, how, (now, most)))
                .await?
        };
        self.finish_removal(removed).await
    }

    fn rename_in(
        &self,
        view: &mut View<'_>,
        caller: &Caller,
        (from, name): (FileId, &[u8]),
        (to, new_name): (FileId, &[u8]),
        (mode, whiteout): (Rename, Option<FileId>),
        (now, most): (Time, usize),
    ) -> Result<Removed, Stop> {
        let old_directory = directory_of(view, from)?;
        let new_directory = directory_of(view, to)?;
        let Some(moved) = self.find(view, from.number, name, caller.ignores_case)? else {
            return refuse(ErrorKind::NotFound, "there is no such name");
        };
        let id = moved.entry.child;
        let record = record_of(view, id)?;
        access::allow_removal(view, caller, &old_directory, &record)?;
        let there = self.find(view, to.number, new_name, caller.ignores_case)?;
        // A name that changes its case only finds itself.
        let there = there.filter(|there| (to, there.slot) != (from, moved.slot) || there.entry.name == new_name);
        access::allow_adding(view, caller, &new_directory, record.is_directory())?;
        if let Some(there) = &there {
            let replaced = record_of(view, there.entry.child)?;
            access::allow_removal(view, caller, &new_directory, &replaced)?;
            if mode.replaces() && there.entry.child != id {
                access::allow_change(caller, &replaced)?;
            }
            if mode.needs_free() {
                return refuse(ErrorKind::Exists, "the name is taken");
            }
            if there.entry.child == id {
                return Ok(Removed::Nothing);
            }
            // What was written to the file in place lasts no shorter than its new name.
            view.follow_data();
            if mode == Rename::Exchange {
                self.check_above(view, id, &record, to)?;
                self.check_above(view, there.entry.child, &replaced, from)?;
                let one = self.check_tree(view, (id, &record), &old_directory, &new_directory)?;
                let other = self.check_tree(view, (there.entry.child, &replaced), &new_directory, &old_directory)?;
                return self.exchange(view, (from, moved, one), (to, there, other), now).map(|()| Removed::Nothing);
            }
            match (record.is_directory(), replaced.is_directory()) {
                (true, false) => return refuse(ErrorKind::NotDirectory, "the other name is no directory's"),
                (false, true) => return refuse(ErrorKind::IsDirectory, "the other name is a directory's"),
                _ => {}
            }
        } else if mode == Rename::Exchange {
            return refuse(ErrorKind::NotFound, "there is no such name to exchange with");
        }
        self.check_above(view, id, &record, to)?;
        let tree = self.check_tree(view, (id, &record), &old_directory, &new_directory)?;
        view.remove(keys::shard(from.number), keys::entry(from.number, moved.slot))?;
        self.count(view, from, -1, record.is_directory(), now)?;
        let (slot, removed) = match there {
            Some(there) => {
                let replaced = record_of(view, there.entry.child)?;
                self.count(view, to, -1, replaced.is_directory(), now)?;
                let gone = (to.number, there.slot, &there.entry.name[..]);
                (there.slot, self.unlink(view, caller, (there.entry.child, replaced), gone, (now, most))?)
            }
            None if whiteout.is_none() && from == to && self.names.bucket(new_name).contains(&moved.slot) => {
                (moved.slot, Removed::Nothing)
            }
            None => (self.free_slot(view, to.number, new_name)?, Removed::Nothing),
        };
        need_for(view, new_name)?;
        let entry = DirectoryEntry { child: id, kind: plain(record.kind), name: new_name.to_vec() };
        view.put(keys::shard(to.number), keys::entry(to.number, slot), entry.encode())?;
        self.count(view, to, 1, record.is_directory(), now)?;
        let mut record = record_of(view, id)?;
        drop_link(view, id.number, &mut record, from.number, moved.slot, &moved.entry.name)?;
        add_link(view, id.number, &mut record, to, slot, new_name)?;
        record.quota_tree = tree;
        (record.changed, record.change) = (now, self.next_change());
        put_record(view, id.number, &record)?;
        if let Some(whiteout) = whiteout {
            self.put_whiteout(view, caller, (from, &moved), whiteout, now)?;
        }
        Ok(removed)
    }

    /// Puts a whiteout where a name was that moved.
    fn put_whiteout(
        &self,
        view: &mut View<'_>,
        caller: &Caller,
        (dir, moved): (FileId, &Found),
        id: FileId,
        now: Time,
    ) -> Result<(), Stop> {
        let (directory, name) = (directory_of(view, dir)?, &moved.entry.name);
        access::allow_adding(view, caller, &directory, false)?;
        view.enforce(caller.limits());
        let new = NewFile { kind: FileKind::CharDevice(0), mode: 0, target: &[] };
        let mut record = self.new_record(caller, &directory, &new, id);
        self.secure_new(view, caller, &directory, &mut record, None)?;
        record.link = Link { parent: dir.number, parent_generation: dir.generation, name: name.clone() };
        let entry = DirectoryEntry { child: id, kind: new.kind, name: name.clone() };
        view.put(keys::shard(dir.number), keys::entry(dir.number, moved.slot), entry.encode())?;
        put_record(view, id.number, &record)?;
        self.count(view, dir, 1, false, now)
    }

    fn exchange(
        &self,
        view: &mut View<'_>,
        (from, one, one_tree): (FileId, Found, u32),
        (to, other, other_tree): (FileId, &Found, u32),
        now: Time,
    ) -> Result<(), Stop> {
        for (directory, place, child) in [(from, &one, &other.entry), (to, other, &one.entry)] {
            let entry = DirectoryEntry { name: place.entry.name.clone(), ..child.clone() };
            view.put(keys::shard(directory.number), keys::entry(directory.number, place.slot), entry.encode())?;
        }
        for (child, old, place, new, tree) in [
            (one.entry.child, from, &one, (to, other), one_tree),
            (other.entry.child, to, other, (from, &one), other_tree),
        ] {
            let mut record = record_of(view, child)?;
            record.quota_tree = tree;
            drop_link(view, child.number, &mut record, old.number, place.slot, &place.entry.name)?;
            let (directory, there) = new;
            add_link(view, child.number, &mut record, directory, there.slot, &there.entry.name)?;
            (record.changed, record.change) = (now, self.next_change());
            put_record(view, child.number, &record)?;
            self.count(view, old, -1, record.is_directory(), now)?;
            self.count(view, directory, 1, record.is_directory(), now)?;
        }
        Ok(())
    }

    /// A directory has one name more or less.
    pub(crate) fn count(
        &self,
        view: &mut View<'_>,
        id: FileId,
        by: i64,
        is_directory: bool,
        now: Time,
    ) -> Result<(), Stop> {
        let mut directory = directory_of(view, id)?;
        directory.size = directory.size.saturating_add_signed(by);
        if is_directory {
            directory.links = directory.links.saturating_add_signed(by as i32);
        }
        self.touch(&mut directory, now);
        put_record(view, id.number, &directory)
    }

    /// Refuses to put a directory into itself, or below.
    fn check_above(&self, view: &View<'_>, id: FileId, record: &Record, into: FileId) -> Result<(), Stop> {
        if !record.is_directory() {
            return Ok(());
        }
        let mut at = into;
        let mut seen = std::collections::BTreeSet::new();
        loop {
            if !seen.insert(at) {
                return refuse(ErrorKind::Corrupt, "directories are in each other: scan the volume");
            }
            if at == id {
                return refuse(ErrorKind::Invalid, "a directory cannot be put into itself");
            }
            if at.number == crate::volume::ROOT {
                return Ok(());
            }
            let above = directory_of(view, at)?;
            at = FileId { number: above.link.parent, generation: above.link.parent_generation };
        }
    }
}

/// Has the volume say that it has names longer than those of POSIX, before it has one.
fn need_for(view: &View<'_>, name: &[u8]) -> Result<(), Stop> {
    if name.len() > MAX_NAME_BYTES { view.need_feature(NT_RULES) } else { Ok(()) }
}

/// What an entry says of a kind: not which device.
pub(crate) fn plain(kind: FileKind) -> FileKind {
    match kind {
        FileKind::CharDevice(_) => FileKind::CharDevice(0),
        FileKind::BlockDevice(_) => FileKind::BlockDevice(0),
        other => other,
    }
}

/// A file knows one more of its names. Its record is to be put back by the caller.
pub(crate) fn add_link(
    view: &mut View<'_>,
    number: u64,
    record: &mut Record,
    parent: FileId,
    slot: u64,
    name: &[u8],
) -> Result<(), Stop> {
    let link = Link { parent: parent.number, parent_generation: parent.generation, name: name.to_vec() };
    if record.link.name.is_empty() {
        record.link = link;
        return Ok(());
    }
    view.put(keys::shard(number), keys::link(number, parent.number, slot), link.encode())
}

/// A file forgets one of its names; a further one takes its place in the record, which the caller puts back.
pub(crate) fn drop_link(
    view: &mut View<'_>,
    number: u64,
    record: &mut Record,
    parent: u64,
    slot: u64,
    name: &[u8],
) -> Result<(), Stop> {
    let shard = keys::shard(number);
    if record.link.parent != parent || record.link.name != name {
        return view.remove(shard, keys::link(number, parent, slot));
    }
    record.link = Link::default();
    if record.is_directory() {
        return Ok(());
    }
    let prefix = keys::prefix(number, keys::kind::LINK);
    if let Some((key, value)) = view.range(shard, &prefix, &prefix, 1)?.pop() {
        record.link = Link::decode(number, keys::number(&key, 9).unwrap_or_default(), &value)?;
        view.remove(shard, key)?;
    }
    Ok(())
}
