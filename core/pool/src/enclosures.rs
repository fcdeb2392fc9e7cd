//! Rows spread over enclosures, so that the loss of a whole one is survived.
//!
//! Invariant: of slabs that back each other, no enclosure holds more than the layout bears losses. Disks whose place is
//! not known count as one enclosure.
//!
//! Copies are spread as evenly as there are enclosures for them. Within that, the disks that stand for most of what is
//! left are taken first, so that no room is left that nobody can back: a disk with much room itself, or those of an
//! enclosure with much in all.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use holdfast_model::{DiskState, Shape};

use crate::PoolError;
use crate::config::Config;
use crate::record::{DiskRecord, RowRecord};

/// A disk that a row could be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fitting<'a> {
    pub disk: u16,
    pub enclosure: &'a str,
    /// Not in service, and of a rank behind others: low ones are taken first.
    pub rank: (bool, u8),
    /// Slabs that it has room for.
    pub slabs: u64,
    /// Among equals the lowest is taken.
    pub turn: u64,
}

/// The enclosure of a disk; empty where it is not known.
pub(crate) fn enclosure(disk: &DiskRecord) -> &str {
    disk.place.as_ref().map_or("", |place| &place.enclosure)
}

/// Groups of slabs that back each other, in a row of this shape, and slabs of each.
fn groups(shape: &Shape) -> (usize, usize) {
    let each = shape.group(0).len();
    (shape.width() / each, each)
}

/// Slabs of a row that one enclosure may hold, on disks in these enclosures; `None` where they cannot bear the shape.
pub(crate) fn most_of_row<'a>(shape: &Shape, enclosures: impl Iterator<Item = &'a str>) -> Option<usize> {
    let (groups, each) = groups(shape);
    let disks = count(enclosures);
    let losses = usize::from(shape.layout.tolerates());
    let even = if shape.layout.parity() > 0 { losses } else { each.div_ceil(disks.len().max(1)) };
    let fits = |most: &usize| disks.values().map(|disks| *most.min(disks)).sum::<usize>() >= shape.width();
    (even..=losses).map(|each| groups * each).find(fits)
}

/// Slabs of a row that one enclosure may hold where as many as may be lost are together in it.
pub(crate) fn most_of_any_row(shape: &Shape) -> usize {
    groups(shape).0 * usize::from(shape.layout.tolerates())
}

fn count<'a>(enclosures: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut disks = BTreeMap::new();
    enclosures.for_each(|enclosure| *disks.entry(enclosure).or_default() += 1);
    disks
}

/// Refuses a shape that cannot survive the loss of an enclosure of this pool; else tells how many slabs of a row one
/// may hold.
pub(crate) fn check(config: &Config, path: &str, shape: &Shape) -> Result<usize, PoolError> {
    let data = || config.disks.values().filter(|disk| disk.usage.takes_slabs() && disk.state == DiskState::Online);
    if let Some(most) = most_of_row(shape, data().map(enclosure)) {
        return Ok(most);
    }
    let losses = usize::from(shape.layout.tolerates());
    if losses == 0 {
        return Err(PoolError::invalid(format!(
            "space {path}: a {shape} cannot survive the loss of an enclosure: choose a mirror or parity"
        ))
        .about("enclosure_aware"));
    }
    let (groups, each) = groups(shape);
    let disks = count(data().map(enclosure));
    let there: Vec<String> = disks.iter().map(|(name, disks)| format!("{disks} in {}", shown(name))).collect();
    Err(PoolError::invalid(format!(
        "space {path}: a {shape} survives the loss of an enclosure if none holds more than {losses} of {each} slabs that back each other, so it needs {} disks in at least {} enclosures, at most {} of each; the pool has {}: add disks to other enclosures, set the place of disks with 'holdfast disk set', or choose fewer columns",
        shape.width(),
        each.div_ceil(losses),
        groups * losses,
        if there.is_empty() { "none".into() } else { there.join(", ") }
    ))
    .about("enclosure_aware"))
}

fn shown(enclosure: &str) -> String {
    if enclosure.is_empty() { "no known enclosure".into() } else { format!("enclosure {enclosure}") }
}

/// Of the slabs that back one of a row, how many others are in the enclosure of a disk.
pub(crate) fn others_beside(config: &Config, row: &RowRecord, slab: usize, disk: u16) -> usize {
    let of = |disk: u16| config.disks.get(&disk).map_or("", enclosure);
    row.shape.group(slab).filter(|other| *other != slab && of(row.slabs[*other].disk()) == of(disk)).count()
}

/// The disks for the slabs of a row, in their order and at most so many of an enclosure; `None` where there is no room.
pub(crate) fn choose(shape: &Shape, fitting: &[Fitting<'_>], most: usize) -> Option<Vec<u16>> {
    let (groups, each) = groups(shape);
    let picked = pick(fitting, shape.width(), most)?;
    arrange(&picked, groups, each, shape.needed(), most / groups)
}

/// So many of the disks, at most so many of an enclosure.
fn pick<'a>(fitting: &[Fitting<'a>], width: usize, most: usize) -> Option<Vec<Fitting<'a>>> {
    let mut enclosures: BTreeMap<&str, Vec<Fitting<'a>>> = BTreeMap::new();
    fitting.iter().for_each(|disk| enclosures.entry(disk.enclosure).or_default().push(*disk));
    let mut offered = Vec::new();
    for disks in enclosures.values_mut() {
        disks.sort_by_key(|disk| (disk.rank, Reverse(disk.slabs), disk.turn));
        let slabs: Vec<u64> = disks.iter().map(|disk| disk.slabs).collect();
        let stands_for =
            |nth: usize, disk: &Fitting<'_>| disk.slabs.max(rows_that_need(&slabs, most as u64, nth as u64 + 1));
        offered.extend(disks.iter().take(most).enumerate().map(|(nth, disk)| (stands_for(nth, disk), *disk)));
    }
    offered.sort_by_key(|(stands_for, disk)| (disk.rank, Reverse(*stands_for), Reverse(disk.slabs), disk.turn));
    let picked: Vec<Fitting<'a>> = offered.into_iter().take(width).map(|(_, disk)| disk).collect();
    (picked.len() == width).then_some(picked)
}

/// The most rows to come for which each must have `nth` slabs in an enclosure, if none of the room on its disks is to
/// be left over: no row has more than `most` there.
fn rows_that_need(slabs: &[u64], most: u64, nth: u64) -> u64 {
    let (mut need, mut do_not) = (0, slabs.iter().sum::<u64>() / most + 2);
    while need + 1 < do_not {
        let rows = need + (do_not - need) / 2;
        match slabs.iter().map(|slabs| (*slabs).min(rows)).sum::<u64>() >= most * (rows - 1) + nth {
            true => need = rows,
            false => do_not = rows,
        }
    }
    need
}

/// Deals disks to groups, so that no group has more than `most` of an enclosure and each has what it needs in service.
fn arrange(picked: &[Fitting<'_>], groups: usize, each: usize, needed: usize, most: usize) -> Option<Vec<u16>> {
    // Dealt round, disks of one enclosure go to as many groups as there are.
    let mut dealt: Vec<Fitting<'_>> = picked.to_vec();
    dealt.sort_by_key(|disk| disk.enclosure);
    let members = |group: usize| (0..each).map(move |member| member * groups + group);
    let in_service = |dealt: &[Fitting<'_>], group| members(group).filter(|at| !dealt[*at].rank.0).count();
    let within = |dealt: &[Fitting<'_>], group: usize| {
        count(members(group).map(|at| dealt[at].enclosure)).values().all(|disks| *disks <= most)
    };
    while let Some(poor) = (0..groups).find(|group| in_service(&dealt, *group) < needed) {
        let rich = (0..groups).filter(|group| in_service(&dealt, *group) > needed);
        let swaps =
            rich.flat_map(|rich| members(rich).flat_map(move |from| members(poor).map(move |to| (rich, from, to))));
        let swapped =
            swaps.filter(|(_, from, to)| !dealt[*from].rank.0 && dealt[*to].rank.0).find_map(|(rich, from, to)| {
                let mut swapped = dealt.clone();
                swapped.swap(from, to);
                (within(&swapped, rich) && within(&swapped, poor)).then_some(swapped)
            });
        dealt = swapped?;
    }
    Some((0..groups).flat_map(|group| members(group).map(|at| dealt[at].disk).collect::<Vec<_>>()).collect())
}
