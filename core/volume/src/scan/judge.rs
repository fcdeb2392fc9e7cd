//! Whether something is wrong, decided on the trees as they are, under their locks: nothing counts as found before.
//!
//! A repair asks the same again before it changes anything.

use std::collections::{BTreeMap, HashSet};

use holdfast_model::BLOCK_BYTES;

use crate::bitmap::Bitmap;
use crate::change::{Stop, View};
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::keys::{self, kind};
use crate::names::Names;
use crate::namespace::plain;
use crate::record::{DirectoryEntry, Link, Record};
use crate::scan::facts::{self, Item, Owner};
use crate::scan::shared;
use crate::service::FileKind;
use crate::snapshots::Span;
use crate::store::{Store, held};
use crate::verbs::Verb;
use crate::volume::{ROOT, Volume};
use crate::{DEFERRED_TREE, OWNER_TREE};

/// Entries of a tree that are read at once.
const AT_ONCE: usize = 1024;

/// Where the way up from a directory leads.
pub(crate) enum Way {
    /// To the root, over these.
    Root(Vec<u64>),
    /// Back to it; the least of the circle is named.
    Circle(u64),
    /// Elsewhere: some directory above it is not whole, which is a finding of its own.
    Elsewhere,
}

/// The record of a file, if there is one that can be read.
pub(crate) fn record(view: &View<'_>, file: u64) -> Result<Option<Record>, Stop> {
    let value = view.get(keys::shard(file), &keys::record(file))?;
    Ok(value.and_then(|value| Record::decode(file, &value).ok()))
}

/// The record of a directory that is not removed.
pub(crate) fn living(view: &View<'_>, directory: u64) -> Result<Option<Record>, Stop> {
    Ok(record(view, directory)?.filter(|record| record.is_directory() && record.links > 0))
}

/// Further names of a file, with their slots.
pub(crate) fn further(view: &View<'_>, file: u64) -> Result<Vec<(u64, Link)>, Stop> {
    let prefix = keys::prefix(file, kind::LINK);
    let all = view.range(keys::shard(file), &prefix, &prefix, usize::MAX)?;
    let read = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let link = Link::decode(file, keys::number(key, 9)?, value).ok()?;
        Some((keys::number(key, 17)?, link))
    };
    Ok(all.iter().filter_map(read).collect())
}

/// An entry as it stands.
pub(crate) fn entry(view: &View<'_>, directory: u64, slot: u64) -> Result<Option<DirectoryEntry>, Stop> {
    let value = view.get(keys::shard(directory), &keys::entry(directory, slot))?;
    Ok(value.and_then(|value| DirectoryEntry::decode(directory, &value).ok()))
}

/// Whether a file has this name among those that it knows.
pub(crate) fn knows(
    view: &View<'_>,
    child: (u64, &Record),
    directory: (u64, &Record),
    slot: u64,
    name: &[u8],
) -> Result<bool, Stop> {
    let is_it = |link: &Link| {
        (link.parent, link.parent_generation) == (directory.0, directory.1.generation) && link.name == name
    };
    if is_it(&child.1.link) {
        return Ok(true);
    }
    let value = view.get(keys::shard(child.0), &keys::link(child.0, directory.0, slot))?;
    Ok(value.and_then(|value| Link::decode(child.0, directory.0, &value).ok()).is_some_and(|link| is_it(&link)))
}

/// What the record of a file should count: further names, entries and directories of them, blocks.
pub(crate) fn count(view: &View<'_>, file: u64) -> Result<(u32, (u64, u32), u64), Stop> {
    let (own, mut from) = (file.to_be_bytes(), file.to_be_bytes().to_vec());
    let (mut further, mut entries, mut blocks) = (0, (0, 0), 0);
    loop {
        let some = view.range(keys::shard(file), &from, &own, AT_ONCE)?;
        for (key, value) in &some {
            match key.get(8) {
                Some(&kind::LINK) => further += 1,
                Some(&kind::ENTRY) => {
                    let entry = DirectoryEntry::decode(file, value);
                    entries.0 += 1;
                    entries.1 += u32::from(entry.is_ok_and(|entry| entry.kind == FileKind::Directory));
                }
                Some(&kind::STREAM) => blocks += 1,
                Some(&kind::EXTENT) => blocks += Extent::decode(value).map_or(0, |extent| u64::from(extent.blocks)),
                _ => {}
            }
        }
        match some.last() {
            Some((key, _)) if some.len() == AT_ONCE => from = [&key[..], &[0]].concat(),
            _ => return Ok((further, entries, blocks)),
        }
    }
}

/// Whether a file has data in extents.
pub(crate) fn has_extents(view: &View<'_>, file: u64) -> Result<bool, Stop> {
    let prefix = keys::prefix(file, kind::EXTENT);
    Ok(!view.range(keys::shard(file), &prefix, &prefix, 1)?.is_empty())
}

/// The way up from a directory.
pub(crate) fn way_up(view: &View<'_>, directory: u64) -> Result<Way, Stop> {
    let (mut path, mut seen, mut at) = (vec![directory], HashSet::from([directory]), directory);
    while at != ROOT {
        let Some(record) = living(view, at)? else {
            return Ok(Way::Elsewhere);
        };
        at = record.link.parent;
        if at == directory {
            return Ok(Way::Circle(path.into_iter().min().unwrap_or(directory)));
        }
        if !seen.insert(at) {
            return Ok(Way::Elsewhere);
        }
        path.push(at);
    }
    Ok(Way::Root(path))
}

/// What the map of owners has in a range of blocks, in order.
pub(crate) fn owners_in(view: &View<'_>, from: u64, to: u64) -> Result<Vec<(u64, Owner)>, Stop> {
    let (mut found, mut next) = (Vec::new(), Some(keys::owner(from)));
    while let Some(at) = next.take() {
        let (entries, then) = view.entries_from(OWNER_TREE, &at)?;
        for (key, value) in entries {
            let Some(place) = keys::number(&key, 0).filter(|place| *place < to) else { return Ok(found) };
            if let Ok(owner) = Owner::decode(&value) {
                found.push((place, owner));
            }
        }
        next = then;
    }
    Ok(found)
}

/// The extent that an owner names, if the file has it so.
fn is_owned(view: &View<'_>, place: u64, owner: &Owner) -> Result<Option<Extent>, Stop> {
    if owner.kept.is_some() {
        return Ok(None);
    }
    let end = owner.block + u64::from(owner.blocks);
    let value = view.get(keys::shard(owner.file), &keys::extent(owner.file, owner.stream, end))?;
    let extent = value.and_then(|value| Extent::decode(&value).ok());
    Ok(extent.filter(|extent| !extent.is_shared && (extent.place, extent.blocks) == (place, owner.blocks)))
}

/// What is wrong with the extent of a file that ends before a block.
pub(crate) fn extent(store: &Store, view: &View<'_>, file: u64, end: u64) -> Result<Option<Verb>, Stop> {
    let Some(value) = view.get(keys::shard(file), &keys::extent(file, MAIN, end))? else { return Ok(None) };
    let Some(extent) = Extent::decode(&value).ok().filter(|extent| !extent.is_lost()) else { return Ok(None) };
    let place = extent.place;
    if !store.is_data(place, extent.blocks) {
        return Ok(Some(Verb::Beyond { file, end, place }));
    }
    let start = end.saturating_sub(extent.blocks.into());
    if let Some(verb) = shared::extent(store, view, (file, end), &extent)? {
        return Ok(verb);
    }
    let owner = view.get(OWNER_TREE, &keys::owner(place))?.and_then(|value| Owner::decode(&value).ok());
    let Some(owner) = owner else { return Ok(Some(Verb::Unowned { file, end, place })) };
    let is_same = (owner.file, owner.stream, owner.block, owner.blocks) == (file, MAIN, start, extent.blocks);
    let is_same = is_same && owner.kept.is_none();
    if is_same && owner.is_written == extent.is_written {
        return Ok(None);
    }
    let is_others = (owner.file, owner.block) != (file, start) && is_owned(view, place, &owner)?.is_some();
    Ok(Some(if is_others { Verb::Overlap { file, end, place } } else { Verb::Unowned { file, end, place } }))
}

/// What is wrong with an entry of the map of owners.
fn owner(store: &Store, view: &View<'_>, place: u64) -> Result<Option<Verb>, Stop> {
    let Some(value) = view.get(OWNER_TREE, &keys::owner(place))? else { return Ok(None) };
    let Ok(owner) = Owner::decode(&value) else { return Ok(None) };
    if let Some(span) = owner.kept {
        if shared::is_over(store, view, place, owner.blocks)? {
            return Ok(Some(Verb::KeptApart { place }));
        }
        // What a snapshot that was destroyed had is given back some time afterwards.
        let is_right = store.snapshots.have(span) || store.snapshots.is_to_be_reclaimed();
        return Ok((!is_right).then_some(Verb::OwnerAlone { place }));
    }
    let Some(extent) = is_owned(view, place, &owner)? else {
        // An extent at this place of which the map says another length is a finding of that extent.
        let first = keys::extent(owner.file, owner.stream, owner.block + 1);
        let next = view.range(keys::shard(owner.file), &first, &keys::extents(owner.file, owner.stream), 1)?;
        let there = next.first().and_then(|(_, value)| Extent::decode(value).ok());
        let is_there = there.is_some_and(|extent| extent.place == place);
        return Ok((!is_there).then_some(Verb::OwnerAlone { place }));
    };
    if shared::is_over(store, view, place, owner.blocks)? {
        let end = owner.block + u64::from(owner.blocks);
        return Ok(Some(Verb::Unshared { file: owner.file, end, place }));
    }
    // Of two that have the same blocks, the one that came later was written last, and keeps them.
    for (other_place, other) in owners_in(view, place + 1, extent.end())? {
        if let Some(other_extent) = is_owned(view, other_place, &other)? {
            let loser = if other_extent.birth > extent.birth { (owner, place) } else { (other, other_place) };
            let (Owner { file, block, blocks, .. }, place) = loser;
            return Ok(Some(Verb::Overlap { file, end: block + u64::from(blocks), place }));
        }
    }
    Ok(None)
}

/// What is wrong with the blocks of an extent that a snapshot has.
pub(crate) fn past(
    store: &Store,
    view: &View<'_>,
    snapshot: u64,
    file: u64,
    extent: &Extent,
) -> Result<Option<Verb>, Stop> {
    if !store.snapshots.have(Span { birth: snapshot, death: snapshot }) {
        return Ok(None);
    }
    let (place, blocks) = (extent.place, extent.blocks);
    let others = Ok(Some(Verb::SnapshotData { snapshot, file, place }));
    let unkept = Ok(Some(Verb::Unkept { snapshot, place, blocks: blocks.into() }));
    let Some((zone, block)) = place.checked_mul(BLOCK_BYTES).and_then(|at| store.zone_of(at)) else { return others };
    if !store.is_data(place, blocks) {
        return others;
    }
    let is_free = |taken: &Bitmap| taken.count(block, blocks) < blocks;
    if held(&store.rooms).taken(zone).map_err(Stop::Zone)?.is_some_and(is_free) {
        return unkept;
    }
    if let Some((place, blocks)) = shared::unkept(store, view, snapshot, place..extent.end())?.first_key_value() {
        return Ok(Some(Verb::Unkept { snapshot, place: *place, blocks: *blocks }));
    }
    let owner = view.get(OWNER_TREE, &keys::owner(place))?.and_then(|value| Owner::decode(&value).ok());
    let Some(owner) = owner else { return Ok(None) };
    match owner.kept {
        Some(span) if span.birth > snapshot => others,
        Some(span) if span.death < snapshot => unkept,
        Some(_) => Ok(None),
        None if is_owned(view, place, &owner)?.is_some_and(|there| there.birth > snapshot) => others,
        None => Ok(None),
    }
}

/// What is wrong with a zone of data: runs that are nobody's, and runs that are free and somebody's.
#[derive(Default)]
pub(crate) struct ZoneJudged {
    pub leaks: BTreeMap<u64, u64>,
    pub doubles: BTreeMap<u64, u64>,
}

impl Store {
    /// Whether all of these blocks lie in one zone of data, behind its head.
    pub(crate) fn is_data(&self, place: u64, blocks: u32) -> bool {
        let last = place.saturating_add(u64::from(blocks)).saturating_sub(1);
        let zone = |place: u64| place.checked_mul(BLOCK_BYTES).and_then(|address| self.zone_of(address));
        let (Some(first), Some(last)) = (zone(place), zone(last)) else { return false };
        first.0 == last.0
            && first.1 >= crate::zones::HEAD_BLOCKS as u32
            && last.1 < self.format.data_blocks()
            && held(&self.rooms).has(first.0)
    }

    /// Holds the bitmap of a zone against the map of owners.
    pub(crate) fn judge_zone(&self, view: &View<'_>, zone: u32) -> Result<ZoneJudged, Stop> {
        let start = self.address_in(zone, 0) / BLOCK_BYTES;
        let owned = self.owned_blocks(view, zone)?;
        let rooms = held(&self.rooms);
        let Some(taken) = rooms.taken(zone).map_err(Stop::Zone)? else { return Ok(ZoneJudged::default()) };
        let runs = |runs: Vec<(u32, u32)>| {
            runs.into_iter().map(|(block, len)| (start + u64::from(block), u64::from(len))).collect()
        };
        Ok(ZoneJudged { leaks: runs(taken.runs_beyond(&owned)), doubles: runs(owned.runs_beyond(taken)) })
    }
}

impl Volume {
    /// What is wrong with an item, if anything is.
    pub(crate) fn judge(&self, view: &View<'_>, item: &Item) -> Result<Vec<Verb>, Stop> {
        let verb = match item {
            Item::Entry(directory, slot) => self.judge_entry(view, *directory, *slot)?,
            Item::Names(file) => return self.judge_names(view, *file),
            Item::Count(file) => {
                let Some(record) = record(view, *file)? else { return Ok(Vec::new()) };
                let (further, entries, blocks) = count(view, *file)?;
                let agrees = facts::counts_agree(&record, further, entries, blocks);
                (!agrees).then_some(Verb::Count { file: *file })
            }
            Item::Extent(file, end) => extent(&self.store, view, *file, *end)?,
            Item::Owner(place) => owner(&self.store, view, *place)?,
            Item::Reference(key) => shared::reference(&self.store, view, key)?,
            Item::Note(file) => {
                let note = view.get(DEFERRED_TREE, &file.to_be_bytes())?;
                let record = record(view, *file)?;
                let is_right = match note.as_deref() {
                    Some([1]) => record.is_some_and(|record| record.links == 0),
                    Some(_) => record.is_some(),
                    None => true,
                };
                (!is_right).then_some(Verb::Note { file: *file })
            }
            Item::Attribute(file, name) => {
                let is_whole = is_attribute_whole(view, *file, name)?;
                (!is_whole).then(|| Verb::Attribute { file: *file, name: name.clone() })
            }
            Item::Target(file) => {
                let Some(record) = record(view, *file)? else { return Ok(Vec::new()) };
                let target = view.get(keys::shard(*file), &keys::reparse(*file))?;
                let has = target.is_some_and(|target| !target.is_empty());
                // The keys of what is being removed go one after the other.
                let is_right = record.links == 0 || has == (record.kind == FileKind::Symlink);
                (!is_right).then_some(Verb::SymbolicLink { file: *file })
            }
            Item::Record(file) => {
                let own = file.to_be_bytes();
                let some = view.range(keys::shard(*file), &own, &own, 1)?;
                let is_without = some.first().is_some_and(|(key, _)| *key != keys::record(*file));
                is_without.then_some(Verb::NoRecord { file: *file })
            }
            Item::Stream(file, slot) => {
                let is_gone = record(view, *file)?.is_some_and(|record| record.links == 0);
                let is_right = is_gone || crate::streams::is_whole(self, view, *file, *slot)?;
                (!is_right).then_some(Verb::Stream { file: *file, slot: *slot })
            }
            Item::Reparse(file) => {
                let Some(record) = record(view, *file)?.filter(|record| record.links > 0) else {
                    return Ok(Vec::new());
                };
                let is_right = crate::reparse::is_right(view, *file, &record)?;
                (!is_right).then_some(Verb::Reparse { file: *file })
            }
            Item::Security(file) => {
                let Some(record) = record(view, *file)? else { return Ok(Vec::new()) };
                let is_right = record.security == 0 || view.known_descriptors().has(record.security);
                (!is_right).then_some(Verb::SecurityLost { file: *file })
            }
            Item::Descriptor(number) => {
                let agree = crate::descriptors::agree(view, *number)?;
                (!agree).then_some(Verb::SecurityTwin { number: (*number).into() })
            }
            Item::Key(tree, key) => {
                let value = view.get(*tree, key)?;
                let is_right = value.is_none_or(|value| facts::is_readable(*tree, key, &value));
                (!is_right).then(|| Verb::Unreadable { tree: *tree, key: key.clone() })
            }
        };
        Ok(verb.into_iter().collect())
    }

    fn judge_entry(&self, view: &View<'_>, directory: u64, slot: u64) -> Result<Option<Verb>, Stop> {
        let (Some(entry), Some(above)) = (entry(view, directory, slot)?, record(view, directory)?) else {
            return Ok(None);
        };
        let name = entry.name.clone();
        if !self.names.bucket(&name).contains(&slot) || Names::check(&name).is_err() {
            return Ok(Some(Verb::WrongSlot { directory, slot, name }));
        }
        for (other, there) in self.bucket(view, directory, &name)? {
            if other < slot && there.name == name {
                return Ok(Some(Verb::Duplicate { directory, slot, name }));
            }
        }
        let number = entry.child.number;
        let value = view.get(keys::shard(number), &keys::record(number))?;
        let Some(value) = value else { return Ok(Some(Verb::Dangling { directory, slot, name })) };
        let Ok(child) = Record::decode(number, &value) else {
            return Ok(Some(Verb::RecordLost { directory, slot, name }));
        };
        if child.generation != entry.child.generation {
            return Ok(Some(Verb::StaleGeneration { directory, slot, name }));
        }
        let is_known = child.links > 0
            && plain(child.kind) == entry.kind
            && knows(view, (number, &child), (directory, &above), slot, &name)?;
        Ok((!is_known).then_some(Verb::EntryUnknown { directory, slot, name }))
    }

    /// Whether a directory has a name that leads to a file, at this slot if one is given.
    pub(crate) fn has_entry(
        &self,
        view: &View<'_>,
        child: (u64, &Record),
        link: &Link,
        slot: Option<u64>,
    ) -> Result<bool, Stop> {
        let Some(above) = view.get(keys::shard(link.parent), &keys::record(link.parent))? else { return Ok(false) };
        // A record that cannot be read is a finding itself, and says nothing of the names in its directory.
        if Record::decode(link.parent, &above)?.generation != link.parent_generation {
            return Ok(false);
        }
        let id = (child.0, child.1.generation);
        let is_it =
            |there: &DirectoryEntry| (there.child.number, there.child.generation) == id && there.name == link.name;
        let found = self.bucket(view, link.parent, &link.name)?;
        Ok(found.iter().any(|(at, there)| is_it(there) && slot.is_none_or(|slot| slot == *at)))
    }

    fn judge_names(&self, view: &View<'_>, file: u64) -> Result<Vec<Verb>, Stop> {
        let Some(record) = record(view, file)?.filter(|_| file != ROOT) else { return Ok(Vec::new()) };
        if record.links == 0 {
            let is_noted = view.get(DEFERRED_TREE, &file.to_be_bytes())?.as_deref() == Some(&[1]);
            return Ok(if is_noted { Vec::new() } else { vec![Verb::Orphan { file }] });
        }
        let mut links: Vec<(Option<u64>, Link)> = Vec::new();
        links.extend((!record.link.name.is_empty()).then(|| (None, record.link.clone())));
        links.extend(further(view, file)?.into_iter().map(|(slot, link)| (Some(slot), link)));
        let mut missing = Vec::new();
        for (slot, link) in &links {
            if !self.has_entry(view, (file, &record), link, *slot)? {
                let (directory, name) = (link.parent, link.name.clone());
                missing.push(Verb::LinkUnknown { file, directory, name });
            }
        }
        Ok(if missing.len() == links.len() { vec![Verb::Orphan { file }] } else { missing })
    }
}

fn is_attribute_whole(view: &View<'_>, file: u64, name: &[u8]) -> Result<bool, Stop> {
    let first = keys::extended(file, name, 0);
    let parts = view.range(keys::shard(file), &first[..first.len() - 1], &first[..first.len() - 1], 256)?;
    let part = crate::extended::PART;
    let last = parts.len().saturating_sub(1);
    Ok(parts.iter().enumerate().all(|(at, (key, value))| {
        key.last() == Some(&(at as u8)) && (at == last || value.len() == part) && (at == 0 || !value.is_empty())
    }))
}
