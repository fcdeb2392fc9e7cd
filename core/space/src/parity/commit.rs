//! Commits: the maps of a row are brought up to what is in place, and what the journal kept for that may go.
//!
//! Invariant: a map on disk tells only of data that is durable; the places that it does not name any more are used anew,
//! and journal records let go, only once it is on every slab that takes writes and those that did not are recorded as stale.

use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind};
use holdfast_model::Uuid;
use holdfast_pool::slab::map_at;

use crate::block_set::BlockSet;
use crate::row::Row;
use crate::space::Inner;

use super::band_map::Owner;
use super::bands::{Uncommitted, map_of_state};
use super::journal::Draft;
use super::record::{Entry, MOST_ENTRIES};

/// What was in place when a commit began.
struct Snapshot {
    places: Vec<u16>,
    written: BlockSet,
    work: Uncommitted,
    /// Whether all maps are to be written.
    all: bool,
}

impl Inner {
    /// Commits rows that have a band, of those in a range, whose change is nowhere but in its place.
    pub async fn commit_direct(&self, rows: &[Arc<Row>], only: Option<(u32, u32)>) -> Result<(), IoError> {
        let _one = self.backlog.committing.lock().await;
        let direct = |row: &&Arc<Row>| {
            let (first, last) = only.unwrap_or((0, row.bands().geometry.bands - 1));
            row.bands().lock().uncommitted.direct.contains_any(first, last + 1)
        };
        let rows: Vec<Arc<Row>> = rows.iter().filter(direct).cloned().collect();
        self.commit_held(&rows, false).await
    }

    /// Commits a row.
    pub async fn commit_row(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let _one = self.backlog.committing.lock().await;
        self.commit_held(std::slice::from_ref(row), false).await
    }

    /// Commits a row with all its maps, so that a slab that joins gets them too.
    pub async fn commit_whole(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let _one = self.backlog.committing.lock().await;
        self.commit_held(std::slice::from_ref(row), true).await
    }

    /// Writes down that a slab of a row that is not in step missed every band.
    pub async fn miss_all(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let _one = self.backlog.committing.lock().await;
        row.bands().lock().missed.insert(0, row.bands().geometry.bands);
        self.commit_held(std::slice::from_ref(row), true).await
    }

    /// Commits every open row.
    pub async fn commit_all(&self) -> Result<(), IoError> {
        let _one = self.backlog.committing.lock().await;
        let moving = self.moving().clone();
        let rows: Vec<Arc<Row>> = self.open_rows().into_iter().chain(moving).filter(|row| row.parity.is_some()).collect();
        self.commit_held(&rows, false).await
    }

    /// Commits those rows that have something to commit, or marks that no slab needs any more; with `all`, each with all its maps.
    async fn commit_held(&self, rows: &[Arc<Row>], all: bool) -> Result<(), IoError> {
        let mut snapshots: Vec<(&Arc<Row>, Snapshot)> = Vec::with_capacity(rows.len());
        for row in rows {
            let mut state = row.bands().lock();
            state.close_stage();
            state.end_doubts(self.backlog.journal.load().as_deref());
            let marked = !state.missed.is_empty() && row.whole();
            if !all && !marked && state.uncommitted.is_empty() {
                continue;
            }
            let work = std::mem::replace(&mut state.uncommitted, Uncommitted::new(row.bands().geometry.bands));
            snapshots.push((row, Snapshot { places: state.places.clone(), written: state.written.clone(), work, all }));
        }
        let result = self.commit_snapshots(&snapshots).await;
        for (row, snapshot) in snapshots {
            let mut guard = row.bands().lock();
            let state = &mut *guard;
            if result.is_err() {
                state.uncommitted.take_back(snapshot.work);
                continue;
            }
            state.give_places(snapshot.work.left);
            for (start, end) in snapshot.work.direct.runs(0, snapshot.work.direct.limit()) {
                for band in (start..end).filter(|band| !state.uncommitted.direct.contains(*band)) {
                    state.moved.remove(band, band + 1);
                }
            }
            for (band, stamp) in &snapshot.work.placed {
                if let Some(dirty) = state.dirty.get_mut(band) {
                    dirty.extents_mut().for_each(|(_, extent)| extent.held.retain(|(held, _)| held > stamp));
                }
            }
        }
        result
    }

    async fn commit_snapshots(&self, snapshots: &[(&Arc<Row>, Snapshot)]) -> Result<(), IoError> {
        if snapshots.is_empty() {
            return Ok(());
        }
        let mut sums = Vec::with_capacity(snapshots.len());
        for (row, _) in snapshots {
            let written = row.write_sums(&|_, _| true).await;
            row.unless_gone(written.map(|written| sums.push((row, written))))?;
        }
        self.settle_disks().await?;
        sums.into_iter().for_each(|(row, written)| row.end_sums(written));
        for (row, snapshot) in snapshots {
            let written = row.write_band_maps(snapshot).await;
            row.unless_gone(written)?;
        }
        self.write_voids(snapshots).await
    }

    async fn append_void(&self, draft: &Draft) -> Result<(), IoError> {
        let full = || IoError::new(IoErrorKind::NoSpace, format!("the journal of space {} is full", self.path()));
        self.append(draft, true).await?.map(drop).ok_or_else(full)
    }

    /// Writes down which records of the journal do not count any more, where it still has them.
    async fn write_voids(&self, snapshots: &[(&Arc<Row>, Snapshot)]) -> Result<(), IoError> {
        if snapshots.iter().all(|(_, snapshot)| snapshot.work.voids.is_empty()) {
            return Ok(());
        }
        let journal = self.journal().await?;
        let mut draft = Draft::default();
        for (row, snapshot) in snapshots {
            for (band, stamp) in &snapshot.work.voids {
                let logged = row.bands().lock().logged.get(band).copied();
                if !logged.is_some_and(|end| journal.reaches(end)) {
                    continue;
                }
                let void = Entry::Void { chunk: row.chunk, row: row.record.id, stamp: *stamp, band: *band };
                draft.add(row.chunk, *band, void, []);
                if draft.entries.len() == MOST_ENTRIES {
                    self.append_void(&std::mem::take(&mut draft)).await?;
                }
            }
        }
        if !draft.entries.is_empty() {
            self.append_void(&draft).await?;
        }
        Ok(())
    }
}

impl Row {
    /// Which map of the row.
    pub(super) fn band_map_owner(&self, map: u32) -> Owner {
        Owner { pool: self.pool.id(), row: self.record.id, chunk: self.chunk, map }
    }

    /// Writes the maps that a commit changes to every slab that takes writes. While a slab is not in step they also tell which
    /// bands it missed.
    async fn write_band_maps(&self, snapshot: &Snapshot) -> Result<(), IoError> {
        let bands = self.bands();
        let mut slots = bands.maps.lock().await;
        let changed = &snapshot.work.changed;
        loop {
            let whole = self.whole();
            let mut missed = if whole { BlockSet::new(changed.limit()) } else { bands.lock().missed.clone() };
            if !whole {
                missed.insert_all(changed);
            }
            for map in 0..slots.len() as u32 {
                let (first, end) = bands.bands_in(map);
                let marks = {
                    let state = bands.lock();
                    (first..end).any(|band| state.missed.contains(band) != missed.contains(band))
                };
                if snapshot.all || marks || snapshot.work.behind.contains(&map) {
                    let content = map_of_state(&snapshot.places, &snapshot.written, &missed, &bands.geometry, first, end);
                    self.write_band_map(map, &content, &mut slots[map as usize]).await?;
                }
            }
            if whole && !self.whole() {
                continue;
            }
            bands.lock().missed = missed;
            return Ok(());
        }
    }

    /// A map as the row's state tells it, to be written at an offset of a disk.
    pub fn seal_band_map(&self, map: u32, disk: Uuid, offset: u64, sequence: u64) -> IoBuf {
        let (bands, owner) = (self.bands(), self.band_map_owner(map));
        let (first, end) = bands.bands_in(map);
        let state = bands.lock();
        let content = map_of_state(&state.places, &state.written, &state.missed, &bands.geometry, first, end);
        content.seal(&owner, disk, offset, sequence)
    }

    /// Writes a map to every slab that takes writes, durably.
    pub(super) async fn write_band_map(
        &self,
        map: u32,
        content: &super::band_map::BandMap,
        place: &mut crate::column::MapOnDisk,
    ) -> Result<(), IoError> {
        let owner = self.band_map_owner(map);
        place.sequence += 1;
        let takes = |index: &usize| self.slabs.get(*index).usable() || self.slabs.get(*index).joining();
        let targets: Vec<usize> = (0..self.slabs.len()).filter(takes).collect();
        let started: Vec<_> = targets
            .iter()
            .map(|index| {
                let slab = self.slabs.get(*index);
                let slot = &mut place.slots[*index];
                *slot = 1 - *slot;
                let offset = slab.start + map_at(map as usize, (*slot).into());
                let block = content.seal(&owner, slab.disk.id, offset, place.sequence);
                let write = slab.disk.write(offset, block.freeze(), Durability::Durable);
                async move { (slab, write.await) }
            })
            .collect();
        let mut missed: Vec<usize> = (0..self.slabs.len()).filter(|index| !targets.contains(index)).collect();
        for (index, (slab, result)) in targets.iter().zip(join_all(started).await) {
            if let Err(error) = result {
                self.write_failed(*index, &slab, &error).await?;
                missed.push(*index);
            }
        }
        self.confirm_missed(&missed).await
    }
}
