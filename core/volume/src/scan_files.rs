//! What the records, entries and extents of all files say, held against each other.
//!
//! Each fact is written in two places: a name in its directory and in its file, an extent in its file and in the map of
//! owners, a block in an extent and in a bitmap. A scan reads both sides.
//!
//! Invariant: a scan changes nothing. Nothing else may change the volume meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use holdfast_model::BLOCK_BYTES;

use crate::error::VolumeError;
use crate::extent::Extent;
use crate::keys::{self, kind};
use crate::names::Names;
use crate::record::{DirectoryEntry, Link, Record};
use crate::scan::Finding;
use crate::store::held;
use crate::volume::{ROOT, Volume};
use crate::{DEFERRED_TREE, OWNER_TREE, SHARED_TREES};

/// Entries that are read at once.
const AT_ONCE: usize = 1024;

/// What was read.
#[derive(Default)]
struct Seen {
    records: HashMap<u64, Record>,
    /// By directory and slot.
    entries: BTreeMap<(u64, u64), DirectoryEntry>,
    /// Further names, with the slots that they name.
    links: Vec<(u64, u64, Link)>,
    /// By their places: file, block of the file, extent.
    extents: BTreeMap<u64, (u64, u64, Extent)>,
    blocks: HashMap<u64, u64>,
    files_of_keys: BTreeSet<u64>,
    findings: Vec<Finding>,
}

impl Volume {
    /// Reads all metadata of the volume and says what of it does not agree.
    ///
    /// # Errors
    /// The device failed, or a tree cannot be read at all.
    pub async fn scan(&self) -> Result<Vec<Finding>, VolumeError> {
        let mut findings = self.store.scan().await?;
        let mut seen = Seen::default();
        for shard in 0..SHARED_TREES {
            let mut from = Vec::new();
            loop {
                let some = self.store.range(shard, &from, AT_ONCE).await?;
                for (key, value) in &some {
                    seen.add(key, value);
                }
                if some.len() < AT_ONCE {
                    break;
                }
                from = some.last().map(|(key, _)| [&key[..], &[0]].concat()).unwrap_or_default();
            }
        }
        self.check_names(&mut seen).await?;
        self.check_room_of(&mut seen).await?;
        findings.append(&mut seen.findings);
        Ok(findings)
    }

    async fn check_names(&self, seen: &mut Seen) -> Result<(), VolumeError> {
        let deferred: BTreeSet<u64> = {
            let all = self.store.range(DEFERRED_TREE, b"", usize::MAX).await?;
            all.iter().filter_map(|(key, _)| keys::number(key, 0)).collect()
        };
        let mut findings = Vec::new();
        let mut names: HashMap<u64, u32> = HashMap::new();
        let mut entries: HashMap<u64, (u64, u32)> = HashMap::new();
        for ((directory, slot), entry) in &seen.entries {
            let (directory, name) = (*directory, entry.name.clone());
            let count = entries.entry(directory).or_default();
            count.0 += 1;
            if !self.names.bucket(&name).contains(slot) || Names::check(&name).is_err() {
                findings.push(Finding::WrongSlot { directory, name: name.clone() });
            }
            let child = seen.records.get(&entry.child.number);
            let Some(child) = child.filter(|child| child.generation == entry.child.generation) else {
                findings.push(Finding::Dangling { directory, name });
                continue;
            };
            count.1 += u32::from(child.is_directory());
            *names.entry(entry.child.number).or_default() += 1;
            let is_first = child.link.parent == directory && child.link.name == name;
            let is_further = || {
                seen.links.iter().any(|(file, linked, link)| {
                    (*file, link.parent, *linked) == (entry.child.number, directory, *slot) && link.name == name
                })
            };
            if !(is_first || is_further()) || crate::namespace::plain(child.kind) != entry.kind {
                findings.push(Finding::EntryUnknown { directory, name });
            }
        }
        let has_entry = |directory: u64, child: u64, name: &[u8]| {
            let bucket = self.names.bucket(name);
            let mut there = seen.entries.range((directory, bucket.start)..(directory, bucket.end));
            there.any(|(_, entry)| entry.child.number == child && entry.name == name)
        };
        for (file, record) in &seen.records {
            let (file, named) = (*file, names.get(file).copied().unwrap_or_default());
            if record.links == 0 {
                if !deferred.contains(&file) {
                    findings.push(Finding::Orphan { file });
                }
                continue;
            }
            if file != ROOT && named == 0 {
                findings.push(Finding::Orphan { file });
            }
            let further = seen.links.iter().filter(|(linked, ..)| *linked == file).map(|(.., link)| link);
            for link in std::iter::once(&record.link).filter(|_| file != ROOT).chain(further) {
                if !has_entry(link.parent, file, &link.name) {
                    findings.push(Finding::LinkUnknown { file, directory: link.parent, name: link.name.clone() });
                }
            }
            let (held, directories) = entries.get(&file).copied().unwrap_or_default();
            let (links, size) = if record.is_directory() { (2 + directories, held) } else { (named, record.size) };
            let blocks = seen.blocks.get(&file).copied().unwrap_or_default();
            if (record.links, record.size, record.blocks) != (links, size, blocks) {
                let what = format!(
                    "names, size, blocks: {:?}, and {:?} are there",
                    (record.links, record.size, record.blocks),
                    (links, size, blocks)
                );
                findings.push(Finding::WrongCount { file, what });
            }
            if record.is_directory() && !is_reachable(&seen.records, file) {
                findings.push(Finding::Unreachable { directory: file });
            }
        }
        let without = seen.files_of_keys.iter().filter(|file| !seen.records.contains_key(file));
        findings.extend(without.map(|file| Finding::NoRecord { file: *file }));
        seen.findings.append(&mut findings);
        Ok(())
    }

    async fn check_room_of(&self, seen: &mut Seen) -> Result<(), VolumeError> {
        let mut owners: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for (key, value) in self.store.range(OWNER_TREE, b"", usize::MAX).await? {
            owners.insert(keys::number(&key, 0).unwrap_or_default(), value);
        }
        let mut used: BTreeMap<u32, u32> = BTreeMap::new();
        let mut end = 0;
        for (place, (file, block, extent)) in &seen.extents {
            let (place, file) = (*place, *file);
            if place < end {
                seen.findings.push(Finding::ExtentWrong { file, place, why: "another extent has it, too" });
            }
            end = end.max(extent.end());
            if extent.end() * BLOCK_BYTES > self.store.superblock().size_bytes {
                seen.findings.push(Finding::ExtentWrong { file, place, why: "it lies beyond the volume" });
                continue;
            }
            for at in place..extent.end() {
                let state = loop {
                    let state = held(&self.store.rooms).is_taken(at);
                    match state {
                        Ok(state) => break state,
                        Err(zone) => self.store.load_zone(zone).await?,
                    }
                };
                match state {
                    Some((zone, true)) => *used.entry(zone).or_default() += 1,
                    Some((_, false)) => {
                        seen.findings.push(Finding::ExtentWrong { file, place: at, why: "its bitmap has it free" });
                    }
                    None => {
                        seen.findings.push(Finding::ExtentWrong { file, place: at, why: "it lies in no zone of data" });
                    }
                }
            }
            let expected = keys::owner_value(file, crate::extents::MAIN, *block, extent.blocks);
            if owners.remove(&place) != Some(expected) {
                seen.findings.push(Finding::OwnerWrong { place });
            }
        }
        seen.findings.extend(owners.keys().map(|place| Finding::OwnerWrong { place: *place }));
        for (zone, taken) in held(&self.store.rooms).taken_of_zones() {
            let used = used.get(&zone).copied().unwrap_or_default();
            if taken != used {
                seen.findings.push(Finding::ZoneWrong { zone, taken, used });
            }
        }
        Ok(())
    }
}

impl Seen {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let (Some(file), Some(what)) = (keys::number(key, 0), key.get(8)) else {
            self.findings.push(Finding::Unreadable { file: 0, why: format!("a key of {} bytes", key.len()) });
            return;
        };
        self.files_of_keys.insert(file);
        if let Err(error) = self.add_value(file, *what, key, value) {
            self.findings.push(Finding::Unreadable { file, why: error.to_string() });
        }
    }

    fn add_value(&mut self, file: u64, what: u8, key: &[u8], value: &[u8]) -> Result<(), VolumeError> {
        let number = |at: usize| {
            keys::number(key, at).ok_or_else(|| VolumeError::corrupt(format!("a key of {} bytes", key.len())))
        };
        match what {
            kind::RECORD => drop(self.records.insert(file, Record::decode(file, value)?)),
            kind::ENTRY => drop(self.entries.insert((file, number(9)?), DirectoryEntry::decode(file, value)?)),
            kind::LINK => self.links.push((file, number(17)?, Link::decode(file, number(9)?, value)?)),
            kind::EXTENT => {
                let extent = Extent::decode(value)?;
                let start = number(13)?.saturating_sub(extent.blocks.into());
                *self.blocks.entry(file).or_default() += u64::from(extent.blocks);
                if self.extents.insert(extent.place, (file, start, extent)).is_some() {
                    let why = "another extent begins there, too";
                    self.findings.push(Finding::ExtentWrong { file, place: extent.place, why });
                }
            }
            kind::EXTENDED | kind::REPARSE => {}
            other => return Err(VolumeError::corrupt(format!("a key of kind {other}"))),
        }
        Ok(())
    }
}

/// Whether a way leads from a directory up to the root.
fn is_reachable(records: &HashMap<u64, Record>, directory: u64) -> bool {
    let mut at = directory;
    for _ in 0..=records.len() {
        if at == ROOT {
            return true;
        }
        match records.get(&at) {
            Some(record) if record.links > 0 => at = record.link.parent,
            _ => return false,
        }
    }
    false
}
