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
use crate::transaction::MOST_OPERATIONS;
use crate::volume::{ROOT, Volume, put_record};

/// Files that one change gives a name: for each an entry, and the record of a directory if all have different ones.
const AT_ONCE: usize = MOST_OPERATIONS / 2;
/// The same in the directory of what was lost: for each an entry and its record.
const AT_ONCE_LOST: usize = (MOST_OPERATIONS - 1) / 2;
/// Keys of a run of files that are read at once: what a directory has between two files is not read further.
const KEYS_AT_ONCE: usize = 4 * RUN as usize;

/// A directory that files of a run go to.
struct Home {
    id: FileId,
    record: Record,
    /// What this change puts in, by slots.
    filled: BTreeMap<u64, DirectoryEntry>,
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

/// A file that may lack its name.
struct Nameless {
    file: u64,
    record: Record,
    /// Whether it has one name at most and nothing below it.
    is_simple: bool,
}

/// Files of one run, in order, as far as they have records that can be read.
fn look_at(view: &View<'_>, files: &[u64]) -> Result<Vec<Nameless>, Stop> {
    let mut found: Vec<Nameless> = Vec::with_capacity(files.len());
    let mut left = files;
    while let Some(first) = left.first() {
        let (tree, first) = (keys::shard(*first), keys::record(*first));
        // All numbers of a run begin alike, and no other run of its tree does.
        let (mut last, mut seen) = (None, 0);
        view.each(tree, &first, &first[..7], KEYS_AT_ONCE, |key, value| {
            seen += 1;
            let Some(file) = keys::number(key, 0) else { return Ok(()) };
            let is_record = keys::is_record(tree, key);
            last = Some((file, is_record));
            if is_record && left.binary_search(&file).is_ok() {
                if let Ok(record) = Record::decode(file, value) {
                    let is_simple = file != ROOT && !record.is_directory() && record.links == 1;
                    found.push(Nameless { file, record, is_simple });
                }
            } else if key.get(8) == Some(&kind::LINK)
                && let Some(of) = found.last_mut().filter(|of| of.file == file)
            {
                // Further names stand right behind the record.
                of.is_simple = false;
            }
            Ok(())
        })?;
        let Some((file, is_record)) = last.filter(|_| seen == KEYS_AT_ONCE) else { break };
        // Whether the last one has further names was not seen.
        let is_open = is_record && found.pop_if(|last| last.file == file).is_some();
        left = &left[left.partition_point(|other| *other < file || (*other == file && !is_open))..];
    }
    Ok(found)
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
            for some in homeless.chunks(AT_ONCE_LOST) {
                let lost = self.lost_and_found().await?;
                let housed = self.house_some(some, Some(lost)).await?;
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
        for Nameless { file, mut record, is_simple } in look_at(view, files)? {
            if !is_simple {
                housed.others.push(file);
                continue;
            }
            // The directory that a file names may be none any more, and have its name all the same.
            if lost.is_some() && self.has_entry(view, (file, &record), &record.link, None)? {
                continue;
            }
            let (number, name) = match lost {
                Some(lost) => (lost.number, self.free_name(view, lost, file)?),
                None => (record.link.parent, std::mem::take(&mut record.link.name)),
            };
            let home = match homes.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Home::of(view, number)?),
            };
            let is_it = |home: &&mut Home| {
                lost.is_some_and(|lost| lost == home.id) || home.id.generation == record.link.parent_generation
            };
            let Some(home) = home.as_mut().filter(is_it).filter(|_| Names::check(&name).is_ok()) else {
                housed.homeless.push(file);
                continue;
            };
            let child = FileId { number: file, generation: record.generation };
            let slots = self.names.bucket(&name);
            let bucket = self.bucket_at(view, number, slots.start)?;
            if bucket.iter().any(|(_, entry)| entry.child == child && entry.name == name) {
                continue;
            }
            let is_taken = bucket.iter().any(|(_, entry)| entry.name == name)
                || home.filled.range(slots.clone()).any(|(_, filled)| filled.name == name);
            let is_free = |slot: &u64| !home.filled.contains_key(slot) && bucket.iter().all(|(taken, _)| taken != slot);
            let slot = slots.into_iter().find(is_free).filter(|_| !is_taken);
            let Some(slot) = slot else {
                housed.homeless.push(file);
                continue;
            };
            let kind = plain(record.kind);
            if lost.is_some() {
                let (parent, parent_generation) = (home.id.number, home.id.generation);
                record.link = Link { parent, parent_generation, name: name.clone() };
                record.change = self.next_change();
                put_record(view, file, &record)?;
            }
            home.filled.insert(slot, DirectoryEntry { child, kind, name });
            housed.count += 1;
        }
        let now = self.now();
        for Home { id, mut record, filled } in homes.into_values().flatten().filter(|home| !home.filled.is_empty()) {
            record.size = record.size.saturating_add(filled.len() as u64).min(i64::MAX as u64);
            self.touch(&mut record, now);
            put_record(view, id.number, &record)?;
            // In the order of their keys: neighbours go to one leaf.
            for (slot, entry) in filled {
                view.add(keys::shard(id.number), keys::entry(id.number, slot), entry.encode())?;
            }
        }
        Ok(housed)
    }
}
