//! Commits: the maps of a row are brought up to what is in place, and what the journal kept for that may go.
//!
//! Invariant: a map on disk tells only of data that is durable; the places that it does not name any more are used
//! anew, only once it is on every slab that takes writes, those that did not are recorded as stale, and the journal
//! says which of its records do not count. The log may go on past records that are in place as soon as the maps are
//! there.

use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{Durability, IoBuf, IoError, IoErrorKind};
use holdfast_model::Uuid;
use holdfast_pool::slab::map_at;

use crate::block_set::BlockSet;
use crate::map_owner::MapOwner;
use crate::row::Row;

use super::band_map::BandMap;
use super::bands::{Uncommitted, map_of_state};
use super::log_record::Draft;
use super::record::{Entry, MOST_ENTRIES};
use super::store::ParityStore;

/// What was in place when a commit began.
struct Snapshot {
    places: Vec<u16>,
    written: BlockSet,
    work: Uncommitted,
    /// Whether all maps are to be written.
    all: bool,
}

impl ParityStore {
    /// Commits rows that have a band, of those in a range, whose change is nowhere but in its place.
    pub async fn commit_direct(&self, rows: &[Arc<Row>], only: Option<(u32, u32)>) -> Result<(), IoError> {
        let _one = self.committing.lock().await;
        let direct = |row: &&Arc<Row>| {
            let (first, last) = only.unwrap_or((0, row.bands().geometry.bands - 1));
            row.bands().lock().uncommitted.direct.contains_any(first, last + 1)
        };
        let rows: Vec<Arc<Row>> = rows.iter().filter(direct).cloned().collect();
        self.commit_held(&rows, false).await
    }

    /// Commits a row.
    pub async fn commit_row(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let _one = self.committing.lock().await;
        self.commit_held(std::slice::from_ref(row), false).await
    }

    /// Commits a row with all its maps, so that a slab that joins gets them too.
    pub async fn commit_whole(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let _one = self.committing.lock().await;
        self.commit_held(std::slice::from_ref(row), true).await
    }

    /// Writes down that a slab of a row that is not in step missed every band.
    pub async fn miss_all(&self, row: &Arc<Row>) -> Result<(), IoError> {
        let _one = self.committing.lock().await;
        row.bands().lock().missed.insert(0, row.bands().geometry.bands);
        self.commit_held(std::slice::from_ref(row), true).await
    }

    /// Commits every open row.
    pub async fn commit_all(&self) -> Result<(), IoError> {
        let _one = self.committing.lock().await;
        let moving = self.rows.provisional().clone();
        let rows: Vec<Arc<Row>> =
            self.rows.open_rows().into_iter().chain(moving).filter(|row| row.bands_if_any().is_some()).collect();
        self.commit_held(&rows, false).await
    }

    /// Commits those rows that have something to commit, or marks that no slab needs any more; with `all`, each with
    /// all its maps.
    async fn commit_held(&self, rows: &[Arc<Row>], all: bool) -> Result<(), IoError> {
        let mut snapshots: Vec<(&Arc<Row>, Snapshot)> = Vec::with_capacity(rows.len());
        for row in rows {
            let mut state = row.bands().lock();
            state.close_stage();
            state.end_doubts(self.journal.load().as_ref().map(|journal| journal.end()));
            let marked = !state.missed.is_empty() && row.whole();
            if !all && !marked && state.uncommitted.is_empty() {
                if state.returned.is_empty() {
                    continue;
                }
                if state.is_all_durable() {
                    state.returned.clear();
                    drop(state);
                    row.refresh();
                    continue;
                }
            }
            let work = std::mem::replace(&mut state.uncommitted, Uncommitted::new(row.bands().geometry.bands));
            state.committing = true;
            snapshots.push((row, Snapshot { places: state.places.clone(), written: state.written.clone(), work, all }));
        }
        let mut results = self.commit_snapshots(&snapshots).await;
        for ((row, snapshot), _) in snapshots.iter_mut().zip(&results).filter(|(_, result)| result.is_ok()) {
            row.let_records_go(&mut snapshot.work);
        }
        let (written, open): (Vec<_>, Vec<_>) =
            snapshots.iter().zip(&mut results).filter(|(_, result)| result.is_ok()).unzip();
        if let Err(error) = self.write_voids(&written).await {
            open.into_iter().for_each(|result| *result = Err(error.clone()));
        }
        let mut first = Ok(());
        for ((row, snapshot), result) in snapshots.into_iter().zip(results) {
            let mut guard = row.bands().lock();
            let state = &mut *guard;
            state.committing = false;
            if result.is_err() {
                state.uncommitted.take_back(snapshot.work);
                first = first.and(result);
                continue;
            }
            state.give_places(snapshot.work.left);
            for (start, end) in snapshot.work.direct.runs(0, snapshot.work.direct.limit()) {
                for band in (start..end).filter(|band| !state.uncommitted.direct.contains(*band)) {
                    state.moved.remove(band, band + 1);
                }
            }
        }
        first
    }

    /// Makes snapshots last, but for what the journal is to say of them. Answers what came of each: a row that cannot
    /// be settled keeps no other from it.
    async fn commit_snapshots(&self, snapshots: &[(&Arc<Row>, Snapshot)]) -> Vec<Result<(), IoError>> {
        let mut results = vec![Ok(()); snapshots.len()];
        if snapshots.is_empty() {
            return results;
        }
        let mut checksums = Vec::with_capacity(snapshots.len());
        for ((row, _), result) in snapshots.iter().zip(&mut results) {
            match row.write_sums(&|_, _| true).await {
                Ok(written) => checksums.push((row, written)),
                Err(error) => *result = row.unless_gone(Err(error)),
            }
        }
        let settled = self.rows.settle_disks().await;
        if let (Err(error), Some(_)) = (settled, self.pool.refusal()) {
            results.fill(Err(error));
            return results;
        }
        checksums.into_iter().for_each(|(row, written)| row.end_sums(written));
        for ((row, snapshot), result) in snapshots.iter().zip(&mut results) {
            if result.is_ok() {
                *result = row.unless_gone(row.confirm_settled().await);
            }
            if result.is_ok() {
                *result = row.unless_gone(row.write_band_maps(snapshot).await);
            }
        }
        results
    }

    async fn append_void(&self, draft: &Draft) -> Result<(), IoError> {
        let full = || IoError::new(IoErrorKind::NoSpace, format!("the journal of space {} is full", self.path()));
        self.append(draft, true).await?.map(drop).ok_or_else(full)
    }

    /// Writes down which records of the journal do not count any more, where it still has them.
    async fn write_voids(&self, snapshots: &[&(&Arc<Row>, Snapshot)]) -> Result<(), IoError> {
        if snapshots.iter().all(|(_, snapshot)| snapshot.work.voids.is_empty()) {
            return Ok(());
        }
        let journal = self.opened_journal()?;
        let (mut draft, mut said) = (Draft::default(), Vec::new());
        for (row, snapshot) in snapshots {
            for (band, stamp) in &snapshot.work.voids {
                let logged = row.bands().lock().logged.get(band).copied();
                let Some(last) = logged.filter(|last| journal.reaches(last.end)) else { continue };
                let void = Entry::Void { chunk: row.chunk, row: row.record.id, stamp: *stamp, band: *band };
                draft.add(row.chunk, *band, void, []);
                said.push((row, *band, *stamp, last));
                if draft.entries.len() == MOST_ENTRIES {
                    self.append_void(&std::mem::take(&mut draft)).await?;
                }
            }
        }
        if !draft.entries.is_empty() {
            self.append_void(&draft).await?;
        }
        said.into_iter().for_each(|(row, band, stamp, last)| row.bands().lock().note_void(band, stamp, last));
        Ok(())
    }
}

impl Row {
    /// The maps are on disk: the log may go on past the records that were kept for them, which makes the room in which
    /// it may have to be said that younger ones do not count.
    fn let_records_go(&self, work: &mut Uncommitted) {
        work.held.clear();
        let mut state = self.bands().lock();
        for (band, stamp) in &work.placed {
            if let Some(dirty) = state.dirty.get_mut(band) {
                dirty.extents_mut().for_each(|(_, extent)| extent.held.retain(|(held, _)| held > stamp));
            }
        }
    }

    /// Which map of the row.
    pub(super) fn band_map_owner(&self, map: u32) -> MapOwner {
        MapOwner { pool: self.pool.id(), row: self.record.id, chunk: self.chunk, map }
    }

    /// The number of a map in a block that was read at an offset of a disk.
    pub fn band_map_number(&self, map: u32, block: &[u8], disk: Uuid, offset: u64) -> Option<u64> {
        BandMap::open(block, &self.band_map_owner(map), disk, offset).map(|(sequence, _)| sequence)
    }

    /// After the disks were flushed: makes sure that every slab has durably what was destaged, or is recorded to have
    /// missed it.
    async fn confirm_settled(&self) -> Result<(), IoError> {
        let returned: Vec<usize> = self.bands().lock().returned.iter().copied().collect();
        if !returned.is_empty() {
            self.settle_returned(&returned).await?;
        }
        let takes = |index: &usize| self.slabs.get(*index).takes_writes();
        let away: Vec<usize> = (0..self.slabs.len()).filter(|index| !takes(index)).collect();
        if !away.is_empty() {
            self.confirm_missed(&away).await?;
        }
        Ok(())
    }

    /// Has the pool opened anew, which carries out again what the journal has.
    pub(super) fn ask_to_reopen(&self) {
        let path = self.path();
        self.pool.refuse_until_reopened(&format!(
            "disks went away and came back before what was written to space {path} was durable on them: its journal is replayed"
        ));
    }

    /// Has it recorded that slabs missed what their disks lost; where the others do not suffice then, the pool is
    /// opened anew.
    async fn settle_returned(&self, returned: &[usize]) -> Result<(), IoError> {
        for index in returned {
            self.pool.mark_stale(self.space, self.chunk, *index).await?;
        }
        self.refresh();
        let confirmed = self.confirm_missed(returned).await;
        if confirmed.is_ok() {
            self.bands().lock().returned.retain(|index| !returned.contains(index));
        } else {
            self.ask_to_reopen();
        }
        confirmed
    }

    /// Writes the maps that a commit changes to every slab that takes writes. While a slab is not in step they also
    /// tell which bands it missed.
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
                    let content =
                        map_of_state(&snapshot.places, &snapshot.written, &missed, &bands.geometry, first, end);
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
        self.band_map_now(map).seal(&self.band_map_owner(map), disk, offset, sequence)
    }

    /// A map as the row's state tells it.
    pub fn band_map_now(&self, map: u32) -> BandMap {
        let bands = self.bands();
        let (first, end) = bands.bands_in(map);
        let state = bands.lock();
        map_of_state(&state.places, &state.written, &state.missed, &bands.geometry, first, end)
    }

    /// Writes a map to every slab that takes writes, durably.
    pub async fn write_band_map(
        &self,
        map: u32,
        content: &BandMap,
        place: &mut crate::column::MapOnDisk,
    ) -> Result<(), IoError> {
        let owner = self.band_map_owner(map);
        place.sequence += 1;
        let takes = |index: &usize| self.slabs.get(*index).takes_writes();
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
