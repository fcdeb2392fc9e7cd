//! A pool put together again from the heads of its slabs, where no disk has whole metadata any more.
//!
//! ```text
//!  walk.rs    every unit of every disk is looked at: headers, and the numbers of the maps behind them
//!  choose.rs  which row counts for each chunk, which of its slabs are in step, what is doubtful
//!  write.rs   a new configuration, in new logs and labels
//! ```
//!
//! The pool keeps its id and its disks theirs: every header, map and record of a journal names them, and a reader of
//! one checks them. The new history begins under a generation beyond all that is known of the old one, and says that it
//! was forced: a disk that turns up later with a log of the old history is refused, not believed.
//!
//! Invariants: nothing is written before the report was made and asked for; then logs and labels only, never a slab. A
//! chunk of which anything was found never reads as zeros: what cannot be served fails. The spaces are read-only until
//! they are accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use choose::{Chosen, choose};
use futures_util::future::join_all;
use holdfast_model::{Name, Provisioning, Shape, Uuid};
use walk::{Slab, Walk, walk};

use crate::area::{Area, UNIT_BYTES};
use crate::candidate::{Candidate, DiskInfo, refuse_twice};
use crate::geometry::HEAD_BYTES;
use crate::label::Label;
use crate::scan::scan;
use crate::slab::SpaceFacts;
use crate::{PoolError, PoolErrorKind};

mod choose;
mod walk;
mod write;

/// What was found of a pool, and what a salvage would make of it.
pub struct Salvage {
    /// The pool's identity.
    pub id: Uuid,
    /// Its name, as the newest header tells it.
    pub name: Name,
    /// Other pools of which slabs were found on these disks.
    pub others: Vec<Uuid>,
    /// Its disks.
    pub disks: Vec<SalvagedDisk>,
    /// Its spaces.
    pub spaces: Vec<SalvagedSpace>,
    /// What is doubtful about the whole.
    pub doubts: Vec<String>,
    /// Why nothing can be written, if so.
    pub obstacle: Option<String>,
    members: Vec<MemberDisk>,
    chosen: Chosen,
    promised: u64,
}

/// A disk on which slabs of the pool were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedDisk {
    /// What is known of the disk.
    pub info: DiskInfo,
    /// Its identity in the pool.
    pub id: Uuid,
    /// Headers that were found.
    pub slabs: usize,
    /// Of these, slabs of rows that count.
    pub counting: usize,
    /// Reads that failed.
    pub unreadable: u64,
}

/// A space of which slabs were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SalvagedSpace {
    /// Its number.
    pub number: u32,
    /// Its identity.
    pub id: Uuid,
    /// Its name.
    pub name: Name,
    /// Its size.
    pub size_bytes: u64,
    /// The shape of its newest row.
    pub shape: Shape,
    /// Fixed or thin.
    pub provisioning: Provisioning,
    /// Its chunks.
    pub chunks: ChunkCounts,
    /// Its journal, where its rows keep parity.
    pub journal: Option<JournalFound>,
    /// What is doubtful.
    pub doubts: Vec<String>,
}

/// How many chunks of a space are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkCounts {
    /// All that the space has.
    pub total: u64,
    /// All slabs found and in step.
    pub complete: u64,
    /// Fewer, and all data can be read.
    pub degraded: u64,
    /// So few that some data cannot be read.
    pub missing: u64,
    /// Of those above, chunks of which several rows were found, or whose slabs others lie in.
    pub conflicting: u64,
    /// No slab found: never written to, or all of them lost.
    pub absent: u64,
}

/// What was found of the journal of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalFound {
    /// All its slabs.
    Complete,
    /// All its data.
    Degraded,
    /// Too little: writes that were in it alone are lost.
    Lost,
}

/// A disk, by the identity that its slabs have.
struct MemberDisk {
    candidate: Candidate,
    id: Uuid,
    area: Area,
}

impl Salvage {
    /// Looks at every unit of the disks and writes nothing. Where slabs of several pools are found, `pool` says which
    /// one is wanted.
    ///
    /// # Errors
    /// No slabs, several pools, or more of them than fit into memory.
    pub async fn look(candidates: Vec<Candidate>, pool: Option<Uuid>) -> Result<Self, PoolError> {
        refuse_twice(&candidates)?;
        let known = scan(candidates.clone()).await;
        let walks = join_all(candidates.iter().map(walk)).await.into_iter().collect::<Result<Vec<Walk>, _>>()?;
        let mut counts: BTreeMap<Uuid, usize> = BTreeMap::new();
        for slab in walks.iter().flat_map(|walk| &walk.slabs) {
            *counts.entry(slab.pool).or_default() += 1;
        }
        let id = wanted(&counts, pool)?;
        let (mut doubts, mut obstacle) = (Vec::new(), None);
        // Labels promise also where no whole configuration is left.
        let strays = known.strays.iter().filter(|(of, _)| *of == id).map(|(_, member)| member.promised);
        let mut promised = strays.max().unwrap_or(0);
        for found in known.pools.iter().filter(|found| found.id == id) {
            let members = found.members.iter().map(|member| member.promised);
            promised = members.chain([promised, found.position.generation]).max().unwrap_or(0);
            // A pool's own first change follows its first checkpoint at once; what has none is a salvage that was cut
            // short. A log that is damaged in its midst tells less than the slabs.
            if found.position.sequence > 1 && (found.damaged_before().is_none() || found.has_moved().await) {
                obstacle = Some(format!(
                    "pool {} has metadata on {} of its disks: import it, with force if too few of them are present; if you know that this metadata is wrong, wipe those disks, which keeps their slabs, and salvage again",
                    found.name(),
                    found.members.len()
                ));
            }
        }
        let mut members: Vec<MemberDisk> = Vec::new();
        let mut disks: Vec<SalvagedDisk> = Vec::new();
        let mut slabs: Vec<(u16, Slab)> = Vec::new();
        for (candidate, walk) in candidates.into_iter().zip(walks) {
            let Some(disk) = identity(&walk.slabs, id) else { continue };
            if members.iter().any(|member| member.id == disk) {
                obstacle.get_or_insert(format!(
                    "disk {} is a copy of another disk of the pool: detach one of the two",
                    candidate.info.path
                ));
                continue;
            }
            let number = members.len() as u16;
            let own = |slab: &Slab| slab.pool == id && slab.disk == disk;
            let (mine, strange): (Vec<Slab>, Vec<Slab>) = walk.slabs.into_iter().partition(own);
            if strange.iter().any(|slab| slab.pool == id) {
                doubts.push(format!(
                    "disk {} was a member of the pool under another id before: its data from that time is ignored",
                    candidate.info.path
                ));
            }
            let (area, found) = (area_of(&candidate, &mine)?, mine.len());
            if let Some(flags) = later_features(&candidate, &area, id).await {
                obstacle.get_or_insert(format!(
                    "disk {} says that the pool uses features of a later version, flags {flags:#x}, which {} does not know: use that version; if you know that the label is wrong, wipe the disk, which keeps its slabs, and salvage again",
                    candidate.info.path,
                    env!("CARGO_PKG_VERSION")
                ));
            }
            let mine: Vec<Slab> = mine.into_iter().filter(|slab| slab.lies_in(&area)).collect();
            if mine.len() < found {
                doubts.push(format!(
                    "disk {}: {} headers are where no slab of the pool can be, and are ignored",
                    candidate.info.path,
                    found - mine.len()
                ));
            }
            let info = candidate.info.clone();
            disks.push(SalvagedDisk { info, id: disk, slabs: mine.len(), counting: 0, unreadable: walk.unreadable });
            if walk.unreadable > 0 {
                doubts.push(format!(
                    "disk {} failed {} reads: slabs there were not found",
                    candidate.info.path, walk.unreadable
                ));
            }
            slabs.extend(mine.into_iter().map(|slab| (number, slab)));
            members.push(MemberDisk { candidate, id: disk, area });
        }
        let newest = slabs.iter().max_by_key(|(_, slab)| slab.row).map(|(_, slab)| slab.facts.clone());
        let name = newest.map(|facts| facts.pool_name.clone()).ok_or_else(none_found)?;
        let chosen = choose(slabs);
        for space in &chosen.spaces {
            for row in space.rows.values() {
                for slab in row.slabs.iter().flatten() {
                    disks[usize::from(slab.disk)].counting += 1;
                }
            }
        }
        let others = counts.into_keys().filter(|other| *other != id).collect();
        let spaces = chosen.spaces.iter().map(choose::ChosenSpace::report).collect();
        doubts.extend(chosen.doubts.iter().cloned());
        Ok(Self { id, name, others, disks, spaces, doubts, obstacle, members, chosen, promised })
    }
}

fn none_found() -> PoolError {
    PoolError::new(
        PoolErrorKind::NotFound,
        "no slab of a pool was found on these disks: name all disks that the pool had",
    )
}

/// The pool that is asked for, or the only one.
fn wanted(counts: &BTreeMap<Uuid, usize>, pool: Option<Uuid>) -> Result<Uuid, PoolError> {
    let list = || counts.iter().map(|(id, slabs)| format!("{id} ({slabs} slabs)")).collect::<Vec<_>>().join(", ");
    match (pool, counts.len()) {
        (_, 0) => Err(none_found()),
        (Some(id), _) if counts.contains_key(&id) => Ok(id),
        (Some(id), _) => {
            let text = format!("no slab of pool {id} was found, but of {}: name one of these", list());
            Err(PoolError::new(PoolErrorKind::NotFound, text))
        }
        (None, 1) => counts.keys().next().copied().ok_or_else(none_found),
        (None, _) => {
            Err(PoolError::invalid(format!("slabs of several pools were found: {}; choose one of them", list())))
        }
    }
}

/// What a disk is called in a pool: as its newest slab says.
fn identity(slabs: &[Slab], pool: Uuid) -> Option<Uuid> {
    slabs.iter().filter(|slab| slab.pool == pool).max_by_key(|slab| slab.row).map(|slab| slab.disk)
}

/// Flags of features in the labels of a disk of the pool that forbid to write to it here.
async fn later_features(candidate: &Candidate, area: &Area, pool: Uuid) -> Option<u64> {
    let mut flags = 0;
    for offset in area.labels() {
        let label = Label::read(&candidate.device, offset).await.filter(|label| label.pool == pool);
        flags |= label.map_or(0, |label| label.features.unknown_incompatible() | label.features.unknown_read_only());
    }
    (flags != 0).then_some(flags)
}

/// How a disk was divided: as its size tells, unless it grew since and more of its slabs lie where a disk of a smaller
/// size has them.
fn area_of(candidate: &Candidate, slabs: &[Slab]) -> Result<Area, PoolError> {
    let size_bytes = candidate.device.geometry().size_bytes;
    let area = Area::of_disk(&candidate.info.path, size_bytes)?;
    let sorted = |place: fn(&Slab) -> u64| {
        let mut places: Vec<u64> = slabs.iter().map(place).collect();
        places.sort_unstable();
        places
    };
    let (starts, ends) = (sorted(|slab| slab.offset), sorted(Slab::end));
    let outside = |area: &Area| {
        let before = starts.partition_point(|start| *start < area.reserved_bytes);
        before + ends.len() - ends.partition_point(|end| *end <= area.unit_at(area.units()))
    };
    let begins_at = |first: u64| Area::of_disk("", size_bytes.min((first + UNIT_BYTES) * 256 - HEAD_BYTES)).ok();
    let smaller: Vec<Area> = {
        let mut firsts: Vec<u64> = starts.iter().copied().take_while(|start| *start < area.reserved_bytes).collect();
        firsts.dedup();
        firsts.into_iter().filter_map(begins_at).collect()
    };
    let best = std::iter::once(area).chain(smaller).min_by_key(outside);
    Ok(best.unwrap_or(area))
}

/// The facts of headers, each kept once.
#[derive(Default)]
struct Known(std::collections::BTreeSet<Arc<SpaceFacts>>);

impl Known {
    fn once(&mut self, facts: SpaceFacts) -> Arc<SpaceFacts> {
        if let Some(known) = self.0.get(&facts) {
            return known.clone();
        }
        let facts = Arc::new(facts);
        self.0.insert(facts.clone());
        facts
    }
}
