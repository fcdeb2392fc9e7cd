//! Files without a name, many in one change: all of a run of ids at once, as they mostly have one directory.
//!
//! ```text
//!   run of ids ─▶ a name in the directory that the record names ─▶ else one in lost+found ─▶ else alone
//! ```
//!
//! Invariants: as for each repair alone, whether a name is missing is decided again under the locks of the trees. A
//! change puts names in, and counts them in their directories, or does nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::change::{Need, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::keys::{self, RUN, kind};
use crate::names::Names;
use crate::namespace::plain;
use crate::quota::Enforce;
use crate::record::{DirectoryEntry, Link, Record};
use crate::repair::Repaired;
use crate::scan::judge;
use crate::service::FileId;
use crate::volume::{ROOT, Volume, put_record};

/// Files that one change gives a name: for each an entry, and its record or that of its directory.
const AT_ONCE: usize = 31;

/// A directory that files of a run go to.
struct Home {
    id: FileId,
    record: Record,
    /// What this change put in: slots and names.
    filled: BTreeMap<u64, Vec<u8>>,
}

impl Home {
    fn of(view: &View<'_>, number: u64) -> Result<Option<Self>, Stop> {
        let record = judge::living(view, number)?;
        let id = |record: &Record| FileId { number, generation: record.generation };
        Ok(record.map(|record| Self { id: id(&record), record, filled: BTreeMap::new() }))
    }
}

/// What came of a change for several files.
#[derive(Default)]
struct Housed {
    /// How many have a name again.
    count: u64,
    /// Those that the directory which they name cannot take.
    homeless: Vec<u64>,
    /// Those of which more is to be looked at.
    others: Vec<u64>,
}

/// The record of a file, and whether the file has one name at most and nothing below it.
fn look_at(view: &View<'_>, file: u64) -> Result<Option<(Record, bool)>, Stop> {
    let (first, own) = (keys::record(file), file.to_be_bytes());
    // Further names stand right behind the record.
    let (mut record, mut is_alone) = (None, true);
    view.each(keys::shard(file), &first, &own, 2, |key, value| {
        if key == first {
            record = Record::decode(file, value).ok();
        } else {
            is_alone &= key.get(8) != Some(&kind::LINK);
        }
        Ok(())
    })?;
    Ok(record.map(|record: Record| {
        let is_simple = is_alone && file != ROOT && !record.is_directory() && record.links == 1;
        (record, is_simple)
    }))
}

impl Volume {
    /// Gives files of the run from `first` on a name; answers how many have one again, and a bit for each of those that
    /// something else which is damaged keeps from it.
    pub(super) async fn repair_orphans(&self, first: u64, files: u64) -> Result<(u64, u64), VolumeError> {
        let numbers: Vec<u64> = (0..RUN).filter(|bit| files >> bit & 1 == 1).map(|bit| first + bit).collect();
        let (mut fixed, mut left) = (0, 0);
        for some in numbers.chunks(AT_ONCE) {
            let Housed { count, homeless, mut others } = self.house_some(some, None).await?;
            fixed += count;
            if !homeless.is_empty() {
                let lost = self.lost_and_found().await?;
                let housed = self.house_some(&homeless, Some(lost)).await?;
                fixed += housed.count;
                others.extend(housed.homeless.into_iter().chain(housed.others));
            }
            for file in others {
                match self.repair_orphan(file).await {
                    Ok(done) => fixed += u64::from(done == Repaired::Fixed),
                    Err(error) if matches!(error.kind, ErrorKind::ReadOnly | ErrorKind::NoSpace) => return Err(error),
                    Err(_) => left |= 1 << (file % RUN),
                }
            }
        }
        Ok((fixed, left))
    }

    async fn house_some(&self, files: &[u64], lost: Option<FileId>) -> Result<Housed, VolumeError> {
        let Some(first) = files.first() else { return Ok(Housed::default()) };
        let change = self.store.change([keys::shard(*first)], Need::More, |view| self.house(view, files, lost));
        match change.await {
            Ok((housed, _)) => Ok(housed),
            Err(error) if error.kind == ErrorKind::ReadOnly => Err(error),
            // One of them alone may need less room, and meets less that is damaged.
            Err(_) => Ok(Housed { others: files.to_vec(), ..Housed::default() }),
        }
    }

    /// Puts in the names that files say they have, or other ones in the directory of what was lost.
    fn house(&self, view: &mut View<'_>, files: &[u64], lost: Option<FileId>) -> Result<Housed, Stop> {
        view.enforce(Enforce::Nothing);
        let (mut homes, mut housed) = (BTreeMap::<u64, Option<Home>>::new(), Housed::default());
        for file in files {
            let Some((mut record, is_simple)) = look_at(view, *file)? else { continue };
            if !is_simple {
                housed.others.push(*file);
                continue;
            }
            // The directory that a file names may be none any more, and have its name all the same.
            if lost.is_some() && self.has_entry(view, (*file, &record), &record.link, None)? {
                continue;
            }
            let (number, name) = match lost {
                Some(lost) => (lost.number, self.free_name(view, lost, *file)?),
                None => (record.link.parent, record.link.name.clone()),
            };
            let home = match homes.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Home::of(view, number)?),
            };
            let is_it = |home: &&mut Home| {
                lost.is_some_and(|lost| lost == home.id) || home.id.generation == record.link.parent_generation
            };
            let Some(home) = home.as_mut().filter(is_it).filter(|_| Names::check(&name).is_ok()) else {
                housed.homeless.push(*file);
                continue;
            };
            let child = FileId { number: *file, generation: record.generation };
            let bucket = self.bucket(view, number, &name)?;
            if bucket.iter().any(|(_, entry)| entry.child == child && entry.name == name) {
                continue;
            }
            let slots = self.names.bucket(&name);
            let is_taken = bucket.iter().any(|(_, entry)| entry.name == name)
                || home.filled.range(slots.clone()).any(|(_, filled)| *filled == name);
            let is_free = |slot: &u64| !home.filled.contains_key(slot) && bucket.iter().all(|(taken, _)| taken != slot);
            let slot = slots.into_iter().find(is_free).filter(|_| !is_taken);
            let Some(slot) = slot else {
                housed.homeless.push(*file);
                continue;
            };
            let entry = DirectoryEntry { child, kind: plain(record.kind), name: name.clone() };
            view.put(keys::shard(number), keys::entry(number, slot), entry.encode())?;
            if lost.is_some() {
                let (parent, parent_generation) = (home.id.number, home.id.generation);
                record.link = Link { parent, parent_generation, name: name.clone() };
                record.change = self.next_change();
                put_record(view, *file, &record)?;
            }
            home.filled.insert(slot, name);
            housed.count += 1;
        }
        let now = self.now();
        for Home { id, mut record, filled } in homes.into_values().flatten().filter(|home| !home.filled.is_empty()) {
            record.size = record.size.saturating_add(filled.len() as u64).min(i64::MAX as u64);
            self.touch(&mut record, now);
            put_record(view, id.number, &record)?;
        }
        Ok(housed)
    }
}
