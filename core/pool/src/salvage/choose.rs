//! Which of the slabs that were found count.
//!
//! - Of several rows of a chunk the one with the greatest id does: ids are never used twice. But a row that was only
//!   being filled gives way to the one that it was to replace, while that can be read: it is never written to before
//!   its headers say that it counts. A row counts no more as soon as one of its headers says that it was given back,
//!   nor does any before it; nor one whose room a row that counts uses again, where the one that was to replace it can
//!   be read.
//! - Of several slabs that say to be the same one, that with the newest maps does: a slab that got another disk left
//!   one behind. One that was only to come there counts where there is no other.
//! - Of slabs that lie in one another, that of the row with the greater id does: its units had been given back.
//! - The rows of a journal are allotted together, so their ids and chunk numbers run side by side; the journal with the
//!   greatest ids counts.
//! - A slab whose maps are behind those of the others missed writes. Where that leaves too few, those behind by one map
//!   count as in step, or by two: a crash leaves that, the latter in the first commit after an opening without all
//!   slabs, which passes over a number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_model::{Name, Shape, Uuid, counted};

use crate::area::UNIT_BYTES;
use crate::geometry::{JOURNAL_CHUNK, JournalSpan};
use crate::record::RowRecord;
use crate::slab::{ARRIVING, SpaceFacts, WRITTEN_OFF};

use super::walk::Slab;
use super::{ChunkCounts, JournalFound, SalvagedSpace};

/// Maps by which a slab is behind the others when a crash cut a commit short, at most.
const MOST_BEHIND: u64 = 2;

/// What counts of all that was found.
pub struct Chosen {
    pub spaces: Vec<ChosenSpace>,
    /// The greatest id of a row that was found.
    pub last_row: u64,
    /// The greatest number of a space that was found.
    pub last_space: u32,
    pub doubts: Vec<String>,
}

/// A space, with the rows that count.
pub struct ChosenSpace {
    pub facts: Arc<SpaceFacts>,
    pub name: Name,
    pub size_bytes: u64,
    pub shape: Shape,
    /// By chunk; those of its journal behind the others.
    pub rows: BTreeMap<u32, ChosenRow>,
    pub journal: Option<JournalFound>,
    /// All rows that the journal has, where its headers tell.
    span: Option<JournalSpan>,
    doubts: Vec<String>,
}

/// A row that counts.
#[derive(Clone)]
pub struct ChosenRow {
    pub id: u64,
    pub shape: Shape,
    pub units: u32,
    pub slabs: Vec<Option<ChosenSlab>>,
    /// All rows of the journal that it is one of, where a header tells.
    journal: Option<JournalSpan>,
    /// The row that it was to replace; 0 where it counts by itself.
    replaces: u64,
    /// Whether one of its headers says that it was given back.
    written_off: bool,
    /// The row that was to replace it, where that can be read.
    heir: Option<Box<ChosenRow>>,
    /// Whether slabs of newer rows lie in its own.
    parted: bool,
    /// Whether other rows of the chunk were found, or slabs of others lie in its own.
    conflicting: bool,
    /// Slabs that are behind count, since too few others are there.
    uneven: bool,
}

/// A slab of a row that counts.
#[derive(Clone)]
pub struct ChosenSlab {
    /// The disk, by its place in the list.
    pub disk: u16,
    pub offset: u64,
    /// Whether it missed writes.
    pub stale: bool,
    maps: Box<[u64]>,
    dirty: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    Complete,
    Degraded,
    Not,
}

impl ChosenRow {
    fn found(&self) -> impl Iterator<Item = &ChosenSlab> {
        self.slabs.iter().flatten()
    }

    /// Tells which slabs are in step from the numbers of their maps.
    fn judge(&mut self) {
        let group_len = self.shape.group(0).len();
        self.uneven = false;
        for group in self.slabs.chunks_mut(group_len) {
            // All have as many maps, since they are of one shape and size.
            let mut newest: Box<[u64]> = Box::default();
            for slab in group.iter().flatten() {
                let maps = newest.iter().chain(std::iter::repeat(&0)).zip(&slab.maps);
                newest = maps.map(|(newest, map)| *newest.max(map)).collect();
            }
            let behind =
                |slab: &ChosenSlab| newest.iter().zip(&slab.maps).map(|(newest, map)| newest - map).max().unwrap_or(0);
            let within = |most: u64| group.iter().flatten().filter(|slab| behind(slab) <= most).count();
            let most = (0..MOST_BEHIND).find(|most| within(*most) >= self.shape.needed()).unwrap_or(MOST_BEHIND);
            self.uneven |= most > 0;
            for slab in group.iter_mut().flatten() {
                slab.stale = behind(slab) > most;
            }
        }
    }

    fn served(&self) -> Served {
        let in_step = |slab: &Option<ChosenSlab>| slab.as_ref().is_some_and(|slab| !slab.stale);
        if self.slabs.iter().all(in_step) {
            return Served::Complete;
        }
        let mut groups = self.slabs.chunks(self.shape.group(0).len());
        match groups.all(|group| group.iter().filter(|slab| in_step(slab)).count() >= self.shape.needed()) {
            true => Served::Degraded,
            false => Served::Not,
        }
    }
}

/// Chooses among slabs, each with its disk's place in the list.
pub fn choose(slabs: Vec<(u16, Slab)>) -> Chosen {
    let mut doubts = Vec::new();
    let last_row = slabs.iter().map(|(_, slab)| slab.row).max().unwrap_or(0);
    let last_space = slabs.iter().map(|(_, slab)| slab.facts.space).max().unwrap_or(0);
    let mut spaces: BTreeMap<(u32, Uuid), Vec<(u16, Slab)>> = BTreeMap::new();
    for (disk, slab) in slabs {
        spaces.entry((slab.facts.space, slab.facts.space_uuid)).or_default().push((disk, slab));
    }
    let newest = |slabs: &[(u16, Slab)]| slabs.iter().map(|(_, slab)| slab.row).max();
    let mut by_number: BTreeMap<u32, (Uuid, Vec<(u16, Slab)>)> = BTreeMap::new();
    for ((number, uuid), slabs) in spaces {
        let (kept, dropped) = match by_number.remove(&number) {
            Some((other, others)) if newest(&others) > newest(&slabs) => ((other, others), Some(uuid)),
            Some((other, _)) => ((uuid, slabs), Some(other)),
            None => ((uuid, slabs), None),
        };
        doubts.extend(
            dropped.map(|uuid| format!("space {uuid} has the number {number} of another space and is ignored")),
        );
        by_number.insert(number, kept);
    }
    let mut spaces: Vec<ChosenSpace> = by_number.into_values().map(|(_, slabs)| ChosenSpace::of(slabs)).collect();
    part_overlaps(&mut spaces);
    for space in &mut spaces {
        space.settle();
    }
    name_apart(&mut spaces);
    Chosen { spaces, last_row, last_space, doubts }
}

/// Of slabs that lie in one another, keeps those of the newer rows. A row whose room was used again had been given
/// back: the one that was to replace it counts in its stead.
fn part_overlaps(spaces: &mut [ChosenSpace]) {
    loop {
        let mut whole: Vec<_> = spaces.iter().map(|space| space.rows.clone()).collect();
        part_once(spaces);
        let mut replaced = false;
        for (space, whole) in spaces.iter().zip(&mut whole) {
            for (chunk, row) in space.rows.iter().filter(|(_, row)| row.parted) {
                if let Some(heir) = row.heir.as_deref() {
                    whole.insert(*chunk, ChosenRow { conflicting: true, ..heir.clone() });
                    replaced = true;
                }
            }
        }
        if !replaced {
            return;
        }
        spaces.iter_mut().zip(whole).for_each(|(space, whole)| space.rows = whole);
    }
}

fn part_once(spaces: &mut [ChosenSpace]) {
    let mut order: Vec<(u64, usize, u32)> = Vec::new();
    for (at, space) in spaces.iter().enumerate() {
        order.extend(space.rows.iter().map(|(chunk, row)| (row.id, at, *chunk)));
    }
    order.sort_unstable();
    let mut taken: BTreeMap<(u16, u64), u64> = BTreeMap::new();
    for (_, at, chunk) in order.into_iter().rev() {
        let row = spaces[at].rows.get_mut(&chunk).expect("a row that was listed");
        let bytes = u64::from(row.units) * UNIT_BYTES;
        for place in &mut row.slabs {
            let Some(slab) = place else { continue };
            let before = taken.range(..(slab.disk, slab.offset + bytes)).next_back();
            if before.is_some_and(|((disk, _), end)| *disk == slab.disk && *end > slab.offset) {
                *place = None;
                (row.parted, row.conflicting) = (true, true);
            } else {
                taken.insert((slab.disk, slab.offset), slab.offset + bytes);
            }
        }
        row.judge();
    }
}

/// Gives each space a name of its own; the one made last keeps it.
fn name_apart(spaces: &mut [ChosenSpace]) {
    let mut taken: BTreeSet<Name> = spaces.iter().map(|space| space.name.clone()).collect();
    let mut kept = BTreeSet::new();
    for space in spaces.iter_mut().rev() {
        if kept.insert(space.name.clone()) {
            continue;
        }
        space.doubts.push(format!("a newer space has the name {}: this one may have been destroyed", space.name));
        let with = |suffix: String| -> Name {
            let kept =
                &space.name.as_str()[..space.name.as_str().len().min(holdfast_model::MAX_NAME_BYTES - suffix.len())];
            format!("{kept}{suffix}").parse().expect("a name with a number is one")
        };
        let number = space.facts.space;
        let further = (2u64..).map(|further| format!("-{number}-{further}"));
        let mut apart = std::iter::once(format!("-{number}")).chain(further).map(with);
        space.name = apart.find(|name| taken.insert(name.clone())).expect("one of so many is free");
    }
}

impl ChosenSpace {
    fn of(slabs: Vec<(u16, Slab)>) -> Self {
        let (_, newest) = slabs.iter().max_by_key(|(_, slab)| slab.row).expect("a space has slabs");
        let (facts, mut doubts) = (newest.facts.clone(), Vec::new());
        let sizes = || slabs.iter().map(|(_, slab)| slab.facts.space_bytes);
        let (least, size_bytes) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
        if least != size_bytes {
            doubts.push(format!("headers record sizes from {least} to {size_bytes} bytes; the largest is used"));
        }
        let total = slabs.len();
        let mut rows: BTreeMap<u32, BTreeMap<u64, ChosenRow>> = BTreeMap::new();
        let mut odd = 0;
        let mut slabs: Vec<(u16, Slab)> =
            slabs.into_iter().filter(|(_, slab)| slab.facts.chunk_bytes == facts.chunk_bytes).collect();
        // Of those that contradict each other the first counts.
        slabs.sort_by_key(|(_, slab)| (slab.replaces == ARRIVING, Reverse(slab.age())));
        for (disk, slab) in slabs {
            let row = rows.entry(slab.chunk).or_default().entry(slab.row).or_insert_with(|| ChosenRow {
                id: slab.row,
                shape: slab.shape,
                units: slab.units,
                slabs: vec![None; slab.shape.width()],
                journal: None,
                replaces: slab.replaces,
                written_off: false,
                heir: None,
                parted: false,
                conflicting: false,
                uneven: false,
            });
            odd += usize::from(!row.take(disk, &slab));
        }
        let kept: usize = rows.values().flat_map(BTreeMap::values).map(|row| row.found().count()).sum();
        if odd > 0 {
            doubts.push(format!("{odd} of {total} headers contradict others of their row; {kept} slabs remain"));
        }
        let journals = rows.split_off(&JOURNAL_CHUNK);
        let mut space = Self {
            name: facts.space_name.clone(),
            size_bytes,
            shape: newest_shape(&rows, &journals),
            facts,
            rows: BTreeMap::new(),
            journal: None,
            span: None,
            doubts,
        };
        let mut older = 0;
        for (chunk, mut rows) in rows {
            // A row that was to replace another and is not all there, or whose other was given back itself, is left of
            // an attempt.
            let gone = rows.values().rev().find(|row| row.written_off).map_or(0, |row| row.id);
            rows.retain(|id, row| {
                *id > gone && (row.replaces == 0 || row.replaces > gone && row.served() != Served::Not)
            });
            if rows.is_empty() {
                continue;
            }
            let mut row = newest_that_counts(&rows);
            older += u32::from(rows.values().any(|other| other.id != row.id && other.served() != Served::Not));
            row.conflicting |= rows.len() > 1;
            space.rows.insert(chunk, row);
        }
        if older > 0 {
            let chunks = counted(older.into(), "chunk also has", "chunks also have");
            space.doubts.push(format!(
                "{chunks} older complete rows, which are ignored: they were moved or freed, or about to be"
            ));
        }
        let (journal, span) = newest_journal(journals);
        space.rows.extend(journal);
        space.span = span;
        space
    }

    /// Looks at what is left of the rows once all spaces have theirs.
    fn settle(&mut self) {
        let journal: Vec<u32> = self.rows.range(JOURNAL_CHUNK..).map(|(chunk, _)| *chunk).collect();
        let keeps_parity = |row: &ChosenRow| row.shape.layout.parity() > 0;
        let wanted = keeps(&self.shape) || self.rows.values().any(keeps_parity);
        let worst = |served: Served, row: &ChosenRow| match (served, row.served()) {
            (Served::Not, _) | (_, Served::Not) => Served::Not,
            (Served::Complete, Served::Complete) => Served::Complete,
            _ => Served::Degraded,
        };
        // Its rows have numbers side by side: where one is left out, all of that is lost.
        let apart = journal.windows(2).any(|pair| pair[1] - pair[0] > 1);
        let short = self.span.is_some_and(|span| span.rows as usize != journal.len());
        let begin = if apart || short { Served::Not } else { Served::Complete };
        let whole = self.rows.range(JOURNAL_CHUNK..).map(|(_, row)| row).fold(begin, worst);
        self.journal = match (wanted, journal.is_empty(), whole) {
            (false, ..) => None,
            (true, true, _) | (true, _, Served::Not) => Some(JournalFound::Lost),
            (true, _, Served::Complete) => Some(JournalFound::Complete),
            (true, _, Served::Degraded) => Some(JournalFound::Degraded),
        };
        if matches!(self.journal, None | Some(JournalFound::Lost)) {
            journal.iter().for_each(|chunk| drop(self.rows.remove(chunk)));
        }
        if self.span.is_none() && matches!(self.journal, Some(JournalFound::Complete | JournalFound::Degraded)) {
            self.doubts.push(
                "its journal was created by an earlier version, whose headers do not record the number of rows: if rows at its ends are lost, so are writes"
                    .into(),
            );
        }
        if self.journal == Some(JournalFound::Lost) {
            self.doubts.push("its journal is lost, and with it all writes that were not in place yet".into());
        }
        let differing =
            |row: &&ChosenRow| !keeps_parity(row) && row.shape.needed() == 1 && row.found().any(|slab| slab.dirty > 0);
        let mirrored = |row: &&ChosenRow| row.shape.group(0).len() > 1;
        let dirty = self.rows.range(..JOURNAL_CHUNK).map(|(_, row)| row).filter(mirrored).filter(differing).count();
        if dirty > 0 {
            let chunks = counted(dirty as u64, "chunk has", "chunks have");
            self.doubts.push(format!(
                "{chunks} regions in which copies may differ: they were being written, or a copy missed writes that only the lost metadata recorded"
            ));
        }
        let parted = self.rows.values().filter(|row| row.parted).count();
        if parted > 0 {
            let chunks = counted(parted as u64, "chunk has", "chunks have");
            self.doubts.push(format!("{chunks} slabs of newer rows and may have been freed: the data may be old"));
        }
        let uneven = self.rows.values().filter(|row| row.uneven && row.served() != Served::Not).count();
        if uneven > 0 {
            let chunks = counted(uneven as u64, "chunk has", "chunks have");
            self.doubts.push(format!(
                "{chunks} too few slabs with the newest maps; slabs one or two versions behind are read there, after a crash or because a disk was missing"
            ));
        }
        let stale = self.rows.values().flat_map(ChosenRow::found).filter(|slab| slab.stale).count();
        if stale > 0 {
            let slabs = counted(stale as u64, "slab is", "slabs are");
            self.doubts.push(format!("{slabs} older than the others of the row and not read"));
        }
    }

    /// What is reported of it.
    pub fn report(&self) -> SalvagedSpace {
        let mut chunks =
            ChunkCounts { total: self.size_bytes.div_ceil(self.facts.chunk_bytes), ..ChunkCounts::default() };
        for (_, row) in self.rows.range(..JOURNAL_CHUNK) {
            match row.served() {
                Served::Complete => chunks.complete += 1,
                Served::Degraded => chunks.degraded += 1,
                Served::Not => chunks.missing += 1,
            }
            chunks.conflicting += u64::from(row.conflicting);
        }
        chunks.absent = chunks.total.saturating_sub(chunks.complete + chunks.degraded + chunks.missing);
        SalvagedSpace {
            number: self.facts.space,
            id: self.facts.space_uuid,
            name: self.name.clone(),
            size_bytes: self.size_bytes,
            shape: self.shape,
            provisioning: self.facts.provisioning,
            chunks,
            journal: self.journal,
            doubts: self.doubts.clone(),
        }
    }
}

impl ChosenRow {
    /// Takes a slab in; false where it contradicts what is known of the row.
    fn take(&mut self, disk: u16, slab: &Slab) -> bool {
        if (slab.shape, slab.units) != (self.shape, self.units) {
            return false;
        }
        self.written_off |= slab.replaces == WRITTEN_OFF;
        self.journal = self.journal.or(slab.journal);
        // One header that says that the row counts is enough: they are written only then.
        if slab.replaces == 0 {
            self.replaces = 0;
        }
        let index = usize::from(slab.slab);
        if self.slabs[index].is_some() || self.found().any(|known| known.disk == disk) {
            return false;
        }
        self.slabs[index] =
            Some(ChosenSlab { disk, offset: slab.offset, stale: false, maps: slab.maps.clone(), dirty: slab.dirty });
        self.judge();
        true
    }
}

fn keeps(shape: &Shape) -> bool {
    shape.layout.parity() > 0
}

fn newest_shape(
    rows: &BTreeMap<u32, BTreeMap<u64, ChosenRow>>,
    journals: &BTreeMap<u32, BTreeMap<u64, ChosenRow>>,
) -> Shape {
    let newest = |rows: &BTreeMap<u32, BTreeMap<u64, ChosenRow>>| {
        rows.values().flat_map(BTreeMap::values).max_by_key(|row| row.id).map(|row| row.shape)
    };
    newest(rows).or_else(|| newest(journals)).expect("a space has slabs")
}

/// The row of a chunk that counts.
fn newest_that_counts(rows: &BTreeMap<u64, ChosenRow>) -> ChosenRow {
    let mut row = rows.values().next_back().expect("a chunk has rows").clone();
    while row.replaces != 0 {
        match rows.get(&row.replaces).filter(|replaced| replaced.id < row.id && replaced.served() != Served::Not) {
            Some(replaced) => row = ChosenRow { heir: Some(Box::new(row)), ..replaced.clone() },
            None => break,
        }
    }
    row
}

/// The rows of the journal that counts, those that were allotted together, last; and all that it has, where headers
/// tell.
fn newest_journal(
    journals: BTreeMap<u32, BTreeMap<u64, ChosenRow>>,
) -> (BTreeMap<u32, ChosenRow>, Option<JournalSpan>) {
    let rows = || journals.iter().flat_map(|(chunk, rows)| rows.iter().map(|(id, row)| (*chunk, *id, row)));
    let first_of = |chunk: u32, id: u64, span: &JournalSpan| id.checked_sub(u64::from(chunk.checked_sub(span.first)?));
    let whole: BTreeSet<(u64, JournalSpan)> =
        rows().filter_map(|(chunk, id, row)| Some((first_of(chunk, id, &row.journal?)?, row.journal?))).collect();
    let mut together: BTreeMap<(u64, Option<JournalSpan>), BTreeMap<u32, ChosenRow>> = BTreeMap::new();
    for (chunk, id, row) in rows() {
        // A header of an earlier version tells nothing, that of another row of the same journal may.
        let is_of = |(first, span): &&(u64, JournalSpan)| {
            row.journal.is_none_or(|known| known == *span)
                && span.contains(chunk)
                && first_of(chunk, id, span) == Some(*first)
        };
        let known = whole.iter().find(is_of).map(|(first, span)| (*first, Some(*span)));
        let Some(key) = known.or_else(|| Some((id.checked_sub(u64::from(chunk - JOURNAL_CHUNK))?, None))) else {
            continue;
        };
        together.entry(key).or_default().insert(chunk, row.clone());
    }
    let newest = |rows: &BTreeMap<u32, ChosenRow>| rows.values().map(|row| row.id).max();
    let counts = together.into_iter().max_by_key(|(_, rows)| newest(rows));
    counts.map_or_else(Default::default, |((_, span), rows)| (rows, span))
}

/// The slabs' places as a row of a configuration, those that were not found left to the caller.
impl ChosenRow {
    pub fn record(&self, place: impl FnMut(usize) -> crate::place::SlabPlace) -> RowRecord {
        let slabs = (0..self.slabs.len()).map(place).collect();
        RowRecord { id: self.id, shape: self.shape, slab_units: self.units, begun: false, slabs }
    }
}
