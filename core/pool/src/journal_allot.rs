//! Which disks the journal of a parity space gets, and how large it is.
//!
//! Invariant: its copies are on different disks, and it takes no more of disks for data than their part for journals
//! unless more was asked for.

use std::collections::BTreeMap;

use holdfast_model::{ByteSize, DiskState, Layout, Media, Shape, Usage};

use crate::allot::allot_on;
use crate::area::{Area, UNIT_BYTES};
use crate::config::{Config, SpaceRows};
use crate::geometry::{USUAL_SLAB_BYTES, slab_units};
use crate::place::SlabPlace;
use crate::record::{DiskRecord, RowRecord, SpaceRecord};
use crate::{PoolError, PoolErrorKind, enclosures};

/// The smallest journal that can be asked for.
pub const LEAST_JOURNAL: ByteSize = ByteSize::mib(32);
/// The largest journal.
pub const MOST_JOURNAL: ByteSize = ByteSize::gib(100);
/// A journal that nobody gave a size, where the pool has no disk made for it.
const DEFAULT_BYTES: u64 = 32 << 20;
/// A journal that nobody gave a size, where the pool has solid-state or journal disks.
const DEFAULT_FAST_BYTES: u64 = 1 << 30;
/// A journal that nobody gave a size takes at most this part of a disk, and of what is free.
const DEFAULT_PART: u64 = 16;
/// It holds at most this part of its space.
const SPACE_PART: u64 = 8;
/// Journals take at most this part of disks that take data as well, unless larger ones were asked for.
const ALL_PART: u64 = 4;
/// A further journal takes at most this part of what is left of that.
const LEFT_PART: u64 = 4;
/// However small the disks and the space are. A default journal also has no columns shorter than that.
const LEAST_DEFAULT_BYTES: u64 = 1 << 20;
const INTERLEAVE: ByteSize = ByteSize::kib(256);
const MOST_COLUMNS: usize = 8;

/// Rows of one shape and size that make up a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    shape: Shape,
    slab_bytes: u64,
    rows: u64,
}

impl Plan {
    /// The rows that hold `bytes`, or, where `most` is less, the whole stripes that fit in that.
    fn new(copies: u8, columns: u16, bytes: u64, most: u64) -> Self {
        let shape = Shape::plain(Layout::Mirror { copies }, columns, INTERLEAVE);
        let stripe = shape.stripe_bytes();
        let bytes = bytes
            .next_multiple_of(stripe)
            .min((most / stripe * stripe).max(LEAST_DEFAULT_BYTES.next_multiple_of(stripe)));
        let rows = bytes.div_ceil(USUAL_SLAB_BYTES * u64::from(columns));
        let slab_bytes = bytes.div_ceil(rows * u64::from(columns)).next_multiple_of(INTERLEAVE.bytes());
        Self { shape, slab_bytes, rows }
    }

    fn slab_units(&self) -> u32 {
        slab_units(&self.shape, self.row_bytes())
    }

    fn row_bytes(&self) -> u64 {
        self.slab_bytes * u64::from(self.shape.columns)
    }
}

/// The disks that a journal lies on, the ones with a low rank before the others.
struct Chosen {
    ranks: BTreeMap<u16, u8>,
    most_columns: usize,
}

impl Chosen {
    /// Journal disks; else solid-state disks in front of rotating ones; else, for three copies, two of these and any
    /// other; else all that take data. Where the journal must survive the loss of an enclosure, fast disks alone do if
    /// they are in enclosures enough.
    fn of(config: &Config, copies: usize, enclosure_aware: bool) -> Self {
        let usable = |disk: &&DiskRecord| disk.state == DiskState::Online && !config.avoided.contains(&disk.index);
        let enough = config.disks.values().filter(usable).filter(|disk| disk.usage.takes_slabs()).count() >= copies;
        let online = || {
            config.disks.values().filter(|disk| disk.state == DiskState::Online).filter(|disk| !enough || usable(disk))
        };
        let data = || online().filter(|disk| disk.usage.takes_slabs());
        let indices = |disks: &mut dyn Iterator<Item = &DiskRecord>| disks.map(|disk| disk.index).collect::<Vec<_>>();
        let mut fast = indices(&mut online().filter(|disk| disk.usage == Usage::Journal));
        if fast.len() < copies && data().any(|disk| disk.media == Media::Hdd) {
            fast.extend(data().filter(|disk| disk.media == Media::Ssd).map(|disk| disk.index));
        }
        let all = indices(&mut data());
        let with_rank = |disks: &[u16], rank| disks.iter().map(|disk| (*disk, rank)).collect::<BTreeMap<_, _>>();
        let row = Shape::plain(Layout::Mirror { copies: copies as u8 }, 1, INTERLEAVE);
        let spread = || {
            enclosures::most_of_row(&row, fast.iter().map(|disk| enclosures::enclosure(&config.disks[disk]))).is_some()
        };
        if fast.len() >= copies && (!enclosure_aware || spread()) {
            return Self { ranks: with_rank(&fast, 0), most_columns: fast.len() / copies };
        }
        if copies == 3 && fast.len() == 2 {
            let mut ranks = with_rank(&all, 1);
            ranks.extend(with_rank(&fast, 0));
            return Self { ranks, most_columns: 1 };
        }
        Self { ranks: with_rank(&all, 0), most_columns: all.len() / copies }
    }

    /// The most that a journal of so many columns takes by default.
    fn default_bytes(&self, config: &Config, copies: u64, columns: u64) -> u64 {
        let disks = || self.ranks.keys().filter_map(|disk| config.disks.get(disk));
        let units_of = |disk: &DiskRecord| Area::of_disk("", disk.disk_bytes).map_or(0, |area| u64::from(area.units()));
        let free: u64 =
            self.ranks.keys().filter_map(|disk| config.free.get(disk)).map(|free| u64::from(free.free())).sum();
        let per_disk = disks().map(units_of).min().unwrap_or(0) * columns;
        let for_journals: u64 = disks()
            .map(|disk| if disk.usage == Usage::Journal { units_of(disk) } else { units_of(disk) / ALL_PART })
            .sum();
        let journals = config.spaces.values().flat_map(SpaceRows::journal_rows).map(|(_, row)| row);
        let here =
            |row: &RowRecord| row.slabs.iter().filter(|slab| self.ranks.contains_key(&slab.disk())).count() as u64;
        let taken: u64 = journals.map(|row| here(row) * u64::from(row.slab_units)).sum();
        let of_left = for_journals.saturating_sub(taken) / LEFT_PART;
        (per_disk / DEFAULT_PART).min(free / DEFAULT_PART / copies).min(of_left / copies) * UNIT_BYTES
    }
}

/// The journal of a space of this size by default, where the disks have room for it: a power of two, so that sizes
/// close to each other have the same.
fn default_journal(config: &Config, space_bytes: u64) -> u64 {
    let fast = config.disks.values().any(|disk| disk.usage == Usage::Journal || disk.media == Media::Ssd);
    let most = if fast { DEFAULT_FAST_BYTES } else { DEFAULT_BYTES };
    let part = (space_bytes / SPACE_PART).checked_ilog2().map_or(0, |power| 1 << power);
    part.clamp(LEAST_DEFAULT_BYTES, most)
}

/// The smallest space that is given as large a journal by default as one of `space_bytes`.
pub(crate) fn least_with_journal_like(config: &Config, space_bytes: u64) -> u64 {
    match default_journal(config, space_bytes) {
        LEAST_DEFAULT_BYTES => 0,
        journal => journal * SPACE_PART,
    }
}

/// Takes the units of a journal with so many copies, for a space of `space_bytes`: of `bytes`, or as large as the pool
/// makes it.
pub(crate) fn allot_journal(
    config: &mut Config,
    path: &str,
    copies: u8,
    enclosure_aware: bool,
    bytes: Option<u64>,
    space_bytes: u64,
) -> Result<Vec<RowRecord>, PoolError> {
    let chosen = Chosen::of(config, copies.into(), enclosure_aware);
    let usual = default_journal(config, space_bytes);
    // Where the disks have no room for the default, they may have it for less.
    let smaller =
        |size: &u64| (bytes.is_none() && *size > LEAST_DEFAULT_BYTES).then(|| (size / 2).max(LEAST_DEFAULT_BYTES));
    let ranks = |disk: &DiskRecord| chosen.ranks.get(&disk.index).copied();
    // Where not enough of the disks have room side by side, fewer of them may have it.
    let columns = (1..=chosen.most_columns.clamp(1, MOST_COLUMNS) as u16).rev();
    let sizes = std::iter::successors(Some(bytes.unwrap_or(usual)), smaller);
    for (wanted, columns) in sizes.flat_map(|size| columns.clone().map(move |columns| (size, columns))) {
        let most = match bytes {
            Some(_) => u64::MAX,
            None => chosen.default_bytes(config, copies.into(), columns.into()),
        };
        if bytes.is_none() && columns > 1 && wanted.min(most) < LEAST_DEFAULT_BYTES * u64::from(columns) {
            continue;
        }
        let plan = Plan::new(copies, columns, wanted, most);
        let mut rows = Vec::new();
        while (rows.len() as u64) < plan.rows {
            match allot_on(config, plan.shape, plan.slab_units(), enclosure_aware, &ranks) {
                Ok(row) => rows.push(row),
                Err(_) => break,
            }
        }
        if rows.len() as u64 == plan.rows {
            return Ok(rows);
        }
        rows.iter().for_each(|row| config.release(row));
    }
    Err(match bytes {
        Some(bytes) => PoolError::new(
            PoolErrorKind::NoSpace,
            format!(
                "space {path}: a journal of {} in {copies} copies, each on other disks, does not fit; add disks, attach the missing ones, free room or choose a smaller journal",
                ByteSize(bytes)
            ),
        )
        .about("journal_bytes"),
        None => PoolError::new(
            PoolErrorKind::NoSpace,
            format!(
                "the journal of space {path} does not fit: even the smallest takes {} on each of {copies} disks; add disks, attach the missing ones or free room",
                ByteSize(LEAST_DEFAULT_BYTES)
            ),
        ),
    })
}

/// Bytes of data that rows of a journal hold, each copy counted once.
pub(crate) fn bytes_of<'a>(rows: impl Iterator<Item = &'a RowRecord>) -> u64 {
    rows.map(|row| row.slab_data_bytes() * u64::from(row.shape.columns)).sum()
}

/// Whether rows are a journal of `bytes`, which they hold in whole stripes of equal rows.
fn are_of(rows: &[(u32, RowRecord)], bytes: u64) -> bool {
    let held = bytes_of(rows.iter().map(|(_, row)| row));
    let step: u64 = rows.iter().map(|(_, row)| row.shape.stripe_bytes()).sum();
    (held.saturating_sub(step) + 1..=held).contains(&bytes)
}

/// Whether rows have so many copies, on disks that neither went out with a stale slab nor are retired.
fn are_sound(config: &Config, copies: u8, rows: &[(u32, RowRecord)]) -> bool {
    let sound = |slab: &SlabPlace| {
        config
            .disks
            .get(&slab.disk())
            .is_some_and(|disk| disk.usage != Usage::Retired && (disk.state == DiskState::Online || !slab.stale()))
    };
    rows.iter().all(|(_, row)| row.shape.layout.copies() == copies && row.slabs.iter().all(sound))
}

/// Whether rows are a sound journal of so many copies, and of so many bytes where that is given.
pub(crate) fn suits(config: &Config, copies: u8, rows: &[(u32, RowRecord)], bytes: Option<u64>) -> bool {
    bytes.is_none_or(|bytes| are_of(rows, bytes)) && are_sound(config, copies, rows)
}

/// Takes the units of the journal that is to take the place of `old`: of `bytes`, or of the size that it has. Where
/// that has no room and nobody asked for it, as large as the pool makes it: a small journal is better than one that is
/// about to be lost.
pub(crate) fn renewed_journal<'a>(
    config: &mut Config,
    space: &SpaceRecord,
    copies: u8,
    old: impl IntoIterator<Item = &'a RowRecord>,
    bytes: Option<u64>,
) -> Result<Vec<RowRecord>, PoolError> {
    let path = format!("{}/{}", config.name.as_ref().map(ToString::to_string).unwrap_or_default(), space.name);
    let held = Some(bytes_of(old.into_iter())).filter(|held| *held >= LEAST_JOURNAL.bytes());
    let aware = space.enclosure_aware;
    let size = space.size_bytes;
    match allot_journal(config, &path, copies, aware, bytes.or(held), size) {
        Err(full) if bytes.is_none() && held.is_some() => {
            allot_journal(config, &path, copies, aware, None, size).map_err(|_| full)
        }
        allotted => allotted,
    }
}

impl SpaceRows {
    /// The copies that its journal is to have: one more than any of its rows may lose.
    pub(crate) fn journal_copies(&self) -> u8 {
        let rows = self.data_rows(0).map(|(_, row)| row.shape.layout.parity());
        rows.chain([self.record.shape.layout.parity()]).max().unwrap_or(0) + 1
    }
}

/// Refuses a size that a journal cannot be given.
pub(crate) fn check_journal(path: &str, shape: &Shape, bytes: u64) -> Result<(), PoolError> {
    if shape.layout.parity() == 0 {
        return Err(PoolError::invalid(format!(
            "space {path} is a {} and has no journal: leave out the journal size, or choose parity",
            shape.layout
        ))
        .about("journal_bytes"));
    }
    if !(LEAST_JOURNAL.bytes()..=MOST_JOURNAL.bytes()).contains(&bytes) {
        return Err(PoolError::invalid(format!(
            "space {path} cannot have a journal of {}: choose a size from {LEAST_JOURNAL} to {MOST_JOURNAL}",
            ByteSize(bytes).beside(if bytes < LEAST_JOURNAL.bytes() { LEAST_JOURNAL } else { MOST_JOURNAL })
        ))
        .about("journal_bytes"));
    }
    Ok(())
}
