//! Rows that take the place of others, slabs that get another disk, and another shape for what is allotted next.
//!
//! Invariants: a chunk has one row at every moment: the old one is given up and the new one comes in the same change. A
//! slab that gets another disk is stale there from its beginning.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_model::{ByteSize, DiskState, Provisioning, Shape, Usage};

use crate::allot::{allot_on, eligible};
use crate::area::UNIT_BYTES;
use crate::balance::{SlabMove, is_sound, takes_what_leaves};
use crate::change::{Change, standing};
use crate::committer::{Guard, OutageMark};
use crate::config::Config;
use crate::disk::PoolDisk;
use crate::geometry::{JOURNAL_CHUNK, can_hold, slab_units};
use crate::journal_allot::check_journal;
use crate::place::SlabPlace;
use crate::pool::Pool;
use crate::record::{DiskRecord, RowRecord, SpaceRecord};
use crate::room::check_room;
use crate::rows::FreedRow;
use crate::{PoolError, PoolErrorKind, enclosures};

impl Pool {
    /// Takes the units of a row of a space's present shape, all on disks in service and none on those of `without`: if
    /// such are named, on spares too where the others have no room. They are given back when the second part of the
    /// answer is dropped, unless it is set to keep them. Its id is written down as used: what is left of it on the
    /// disks after a crash is never taken for another row's.
    ///
    /// # Errors
    /// No such space, no room on enough disks, no quorum.
    pub async fn reserve_row(
        self: &Arc<Self>,
        space: u32,
        without: &[u16],
    ) -> Result<(RowRecord, FreedRow), PoolError> {
        let record = self.known_space(space)?;
        let row = self.take_row(&record, without)?;
        let reserved = FreedRow::new(self.clone(), row.clone());
        let used = self.state().config.counters();
        self.commit(vec![used], Guard::None).await?;
        Ok((row, reserved))
    }

    /// Takes the units of a row of a space, as above.
    fn take_row(&self, record: &SpaceRecord, without: &[u16]) -> Result<RowRecord, PoolError> {
        let mut state = self.state();
        check_room(&state, 0, &[(1, record.shape)])?;
        let units = slab_units(&record.shape, record.chunk_bytes);
        let avoided = state.config.avoided.clone();
        let takes = |disk: &DiskRecord| rank_for_move(disk, without, &avoided);
        allot_on(&mut state.config, record.shape, units, record.enclosure_aware, &takes).map_err(|fitting| {
            PoolError::new(
                PoolErrorKind::NoSpace,
                format!(
                    "pool {} has no room to move a row of space {}: it needs {} on each of {} other disks, and {fitting} have it; add disks or free room",
                    self.name(),
                    record.name,
                    ByteSize(u64::from(units) * UNIT_BYTES),
                    record.shape.width(),
                ),
            )
        })
    }

    /// Puts a reserved row in the place of the one that a chunk has, whose units stay taken until the answer is
    /// dropped. `None`, and nothing is changed, where one of its disks went out since its outage count was as given, or
    /// the chunk has no row.
    ///
    /// # Errors
    /// No quorum.
    pub async fn move_row(
        self: &Arc<Self>,
        space: u32,
        chunk: u32,
        row: &RowRecord,
        outages: Vec<(Arc<PoolDisk>, u32)>,
    ) -> Result<Option<FreedRow>, PoolError> {
        let Some(old) = self.row(space, chunk) else { return Ok(None) };
        let marks: Vec<OutageMark> = outages.into_iter().map(|(disk, outages)| OutageMark { disk, outages }).collect();
        let changes = vec![Change::RowGone { space, chunk }, Change::Row { space, chunk, row: row.clone() }];
        let moved = self.commit(changes, Guard::AllInService(marks.into())).await?;
        Ok(moved.then(|| FreedRow::new(self.clone(), old)))
    }

    /// Gives a stale slab another disk in service: the one with the most room that has no other slab of its row. It is
    /// stale there too, and what it had before stays taken until the answer is dropped. `None` where it is not stale.
    ///
    /// # Errors
    /// No disk with room, no quorum.
    pub async fn replace_slab(
        self: &Arc<Self>,
        space: u32,
        chunk: u32,
        slab: usize,
    ) -> Result<Option<(RowRecord, FreedRow)>, PoolError> {
        let Some(old) = self.row(space, chunk) else { return Ok(None) };
        let Some(lost) = old.slabs.get(slab).copied().filter(SlabPlace::stale) else { return Ok(None) };
        let aware = self.known_space(space)?.enclosure_aware;
        let taken = self.take_slab(&old, slab, aware)?;
        let part = |place| RowRecord { slabs: Box::new([place]), ..old.clone() };
        let reserved = FreedRow::new(self.clone(), part(taken));
        let changes = with_slab_at(space, chunk, &old, slab, taken);
        if !self.commit(changes, Guard::RowIs(space, chunk, Box::new(old.clone()))).await? {
            return Ok(None);
        }
        reserved.keep();
        let now = self.row(space, chunk).ok_or_else(|| self.gone(space))?;
        Ok(Some((now, FreedRow::new(self.clone(), part(lost)))))
    }

    /// How the slab of a chunk that is on a disk could leave that alone; `None` where it has none there, or no other
    /// disk has room.
    pub fn slab_off(&self, space: u32, chunk: u32, disk: u16) -> Option<SlabMove> {
        let state = self.state();
        let known = state.config.spaces.get(&space)?;
        let row = known.rows.get(&chunk)?;
        let slab = row.slabs.iter().position(|slab| slab.disk() == disk)?;
        let to = emptiest_for(&state.config, row, slab, known.record.enclosure_aware)?;
        Some(SlabMove { space, chunk, slab: slab as u16, from: disk, to, units: row.slab_units })
    }

    /// Takes units for a slab on the disk that it is to move to, and tells the row that it is of. They are given back
    /// when the last part of the answer is dropped, unless it is set to keep them. `None` where the move is not
    /// allowed, or good for nothing, as the pool is now.
    pub fn reserve_slab(self: &Arc<Self>, wanted: &SlabMove) -> Option<(RowRecord, SlabPlace, FreedRow)> {
        let mut state = self.state();
        let space = state.config.spaces.get(&wanted.space)?;
        let (row, aware) = (space.rows.get(&wanted.chunk)?.clone(), space.record.enclosure_aware);
        if wanted.chunk >= JOURNAL_CHUNK || space.record.read_only || !is_sound(&state.config, &row, wanted, aware) {
            return None;
        }
        let unit = state.config.free.get_mut(&wanted.to)?.take(row.slab_units)?;
        let place = SlabPlace::new(wanted.to, unit);
        drop(state);
        let units = FreedRow::new(self.clone(), RowRecord { slabs: Box::new([place]), ..row.clone() });
        Some((row, place, units))
    }

    /// Puts a slab of a row in the place that was reserved for it, which holds all that the slab holds; the units that
    /// it had stay taken until the answer is dropped. `None`, and nothing is changed, where the row is not as given any
    /// more, or its new disk went out since its outage count was as given.
    ///
    /// # Errors
    /// No quorum.
    pub async fn move_slab(
        self: &Arc<Self>,
        wanted: &SlabMove,
        row: &RowRecord,
        place: SlabPlace,
        disk: &Arc<PoolDisk>,
        outages: u32,
    ) -> Result<Option<FreedRow>, PoolError> {
        let SlabMove { space, chunk, slab, .. } = *wanted;
        let changes = with_slab_at(space, chunk, row, slab.into(), place);
        let mark = Arc::new(OutageMark { disk: disk.clone(), outages });
        let moved = self.commit(changes, Guard::RowIsAndInService(space, chunk, Box::new(row.clone()), mark)).await?;
        let left = RowRecord { slabs: Box::new([row.slabs[usize::from(slab)]]), ..row.clone() };
        Ok(moved.then(|| FreedRow::new(self.clone(), left)))
    }

    /// Takes the units of another place for a slab of a row, with `enclosure_aware` in an enclosure that may hold it.
    fn take_slab(&self, row: &RowRecord, slab: usize, enclosure_aware: bool) -> Result<SlabPlace, PoolError> {
        let mut state = self.state();
        let config = &mut state.config;
        let emptiest = emptiest_for(config, row, slab, enclosure_aware);
        let taken = emptiest.and_then(|disk| {
            config.free.get_mut(&disk).and_then(|free| free.take(row.slab_units)).map(|unit| SlabPlace::new(disk, unit))
        });
        taken.ok_or_else(|| {
            PoolError::new(
                PoolErrorKind::NoSpace,
                format!(
                    "pool {} cannot rebuild a slab: no disk in service without a slab of its row{} has {} free; add a disk or give space back",
                    self.name(),
                    if enclosure_aware { " and is in an enclosure that may hold it" } else { "" },
                    ByteSize(u64::from(row.slab_units) * UNIT_BYTES)
                ),
            )
        })
    }

    /// From now on rows of a space are allotted in this shape; those that it has stay as they are until they are moved.
    /// A space that keeps parity from now on gets a journal with the same change. False if it has that shape and
    /// provisioning.
    ///
    /// # Errors
    /// A shape that the disks in service cannot bear, no room for the journal, no quorum.
    pub async fn set_shape(
        &self,
        id: u32,
        shape: Shape,
        provisioning: Provisioning,
        journal_bytes: Option<u64>,
    ) -> Result<bool, PoolError> {
        let _admin = self.admin.lock().await;
        let record = self.known_space(id)?;
        if (record.shape, record.provisioning) == (shape, provisioning) {
            return Ok(false);
        }
        let path = format!("{}/{}", self.name(), record.name);
        self.check_accepted(&record)?;
        let shaped = SpaceRecord { shape, provisioning, ..record };
        journal_bytes.map_or(Ok(()), |bytes| check_journal(&path, &shape, bytes))?;
        let chunk = ByteSize(shaped.chunk_bytes);
        if !can_hold(&shape, shaped.chunk_bytes) {
            return Err(PoolError::invalid(format!(
                "space {path}: a row of {shape} cannot hold its chunks of {chunk}: choose more columns or a larger interleave"
            ))
            .about("columns"));
        }
        let has_journal = {
            let state = self.state();
            Shape::choose(shape.layout, Some(shape.columns), Some(shape.interleave), eligible(&state.config))
                .map_err(|error| PoolError::invalid(format!("space {path}: {error}")).about(error.parameter()))?;
            if shaped.enclosure_aware {
                enclosures::check(&state.config, &path, &shape)?;
            }
            state.config.spaces.get(&id).is_some_and(|space| space.journal_rows().next().is_some())
        };
        let journal = if has_journal { Vec::new() } else { self.reserve_journal(&path, &shaped, journal_bytes, 0)? };
        let rows = journal.iter().map(|(chunk, row)| Change::Row { space: id, chunk: *chunk, row: row.clone() });
        let made = self.commit(std::iter::once(Change::Space(shaped)).chain(rows).collect(), Guard::None).await;
        if made != Ok(true) {
            self.release_rows(&journal);
        }
        made
    }

    /// Gives a space all the rows that it has not, and makes it fixed.
    ///
    /// # Errors
    /// Too little room, no quorum.
    pub async fn fill_space(&self, id: u32) -> Result<(), PoolError> {
        let _admin = self.admin.lock().await;
        loop {
            let record = self.known_space(id)?;
            let path = format!("{}/{}", self.name(), record.name);
            let rows = self.reserve_rows(&path, &record, 0, None)?;
            match self.commit_rows(id, rows).await {
                Ok(()) => break,
                // A write may have been given one of the rows meanwhile.
                Err(error) if error.kind == PoolErrorKind::NotFound && self.space(id).is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let fixed = SpaceRecord { provisioning: Provisioning::Fixed, ..self.known_space(id)? };
        self.commit(vec![Change::Space(fixed)], Guard::None).await.map(drop)
    }

    /// Takes the journal of a space that keeps no parity any more away. It must be empty; its units stay taken until
    /// the answer is dropped.
    ///
    /// # Errors
    /// No quorum.
    pub async fn drop_journal(self: &Arc<Self>, space: u32) -> Result<Vec<FreedRow>, PoolError> {
        let _admin = self.admin.lock().await;
        let rows = self.journal_rows(space);
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let gone = rows.iter().map(|(chunk, _)| Change::RowGone { space, chunk: *chunk }).collect();
        let gone = self.commit(gone, Guard::None).await?;
        let freed = |(_, row)| FreedRow::new(self.clone(), row);
        Ok(if gone { rows.into_iter().map(freed).collect() } else { Vec::new() })
    }

    /// Chunks of a space whose row has not its present shape.
    pub fn chunks_of_other_shape(&self, space: u32) -> Vec<u32> {
        self.known_space(space).map_or(Vec::new(), |record| self.chunks_where(space, |row| row.shape != record.shape))
    }

    /// Chunks of a space whose row has a slab on a disk.
    pub fn chunks_on(&self, space: u32, disk: u16) -> Vec<u32> {
        self.chunks_where(space, |row| row.slabs.iter().any(|slab| slab.disk() == disk))
    }

    /// Slabs of a space that are stale on disks out of service, as chunk and index in the row, those of the most
    /// endangered rows first. Those of its journal are not among them, and a space that a salvage made has none before
    /// it is accepted.
    pub fn lost_slabs(&self, space: u32) -> Vec<(u32, usize)> {
        let state = self.state();
        let out = |disk: u16| state.config.disks.get(&disk).is_none_or(|disk| disk.state != DiskState::Online);
        if !state.config.disks.keys().any(|disk| out(*disk)) {
            return Vec::new();
        }
        let accepted = state.config.spaces.get(&space).filter(|space| !space.record.read_only);
        let rows = accepted.map(|space| space.data_rows(0));
        let mut lost: Vec<(usize, u32, usize)> = Vec::new();
        for (chunk, row) in rows.into_iter().flatten() {
            for (index, _) in row.slabs.iter().enumerate().filter(|(_, slab)| slab.stale() && out(slab.disk())) {
                let in_step = row.shape.group(index).filter(|other| !row.slabs[*other].stale()).count();
                lost.push((in_step - row.shape.needed(), *chunk, index));
            }
        }
        lost.sort_unstable();
        lost.into_iter().map(|(_, chunk, index)| (chunk, index)).collect()
    }

    fn chunks_where(&self, space: u32, test: impl Fn(&RowRecord) -> bool) -> Vec<u32> {
        let state = self.state();
        let rows = state.config.spaces.get(&space).map(|space| space.data_rows(0));
        rows.into_iter().flatten().filter(|(_, row)| test(row)).map(|(chunk, _)| *chunk).collect()
    }

    pub(crate) fn known_space(&self, space: u32) -> Result<SpaceRecord, PoolError> {
        self.space(space).ok_or_else(|| self.gone(space))
    }

    fn gone(&self, space: u32) -> PoolError {
        PoolError::new(PoolErrorKind::NotFound, format!("space {space} of pool {} is gone", self.name()))
    }
}

/// The disk with the most room that can take over a slab of a row, with `enclosure_aware` in an enclosure that may hold
/// it.
pub(crate) fn emptiest_for(config: &Config, row: &RowRecord, slab: usize, enclosure_aware: bool) -> Option<u16> {
    let takes = |disk: &DiskRecord| takes_what_leaves(disk) && row.slabs.iter().all(|slab| slab.disk() != disk.index);
    let together = |index: &u16| if enclosure_aware { enclosures::others_beside(config, row, slab, *index) } else { 0 };
    let bears = |index: &u16| !enclosure_aware || together(index) < row.shape.layout.tolerates().into();
    let fitting = config
        .free
        .iter()
        .filter(|(index, free)| free.fits(row.slab_units) && takes(&config.disks[index]) && bears(index));
    fitting
        .min_by_key(|(index, free)| (together(index), config.avoided.contains(index), Reverse(free.free()), **index))
        .map(|(index, _)| *index)
}

/// How soon a disk is taken for a row that moves off those of `without`: low ranks first, none not at all.
pub(crate) fn rank_for_move(disk: &DiskRecord, without: &[u16], avoided: &BTreeSet<u16>) -> Option<u8> {
    let rank = match disk.usage {
        _ if disk.state != DiskState::Online || without.contains(&disk.index) => None,
        usage if usage.takes_slabs() => Some(0),
        Usage::HotSpare if !without.is_empty() => Some(1),
        _ => None,
    };
    rank.map(|rank| rank + 2 * u8::from(avoided.contains(&disk.index)))
}

/// A slab that gets another place is to be filled from the others: what all of it has missed is marked there
/// beforehand.
fn stale_at(space: u32, chunk: u32, slab: usize) -> Change {
    Change::Stale { space, chunk, slab: slab as u16, stale: true }
}

/// The changes that give a slab of a row another place. It is stale there if it was before, as all others.
fn with_slab_at(space: u32, chunk: u32, old: &RowRecord, slab: usize, place: SlabPlace) -> Vec<Change> {
    let mut row = old.clone();
    let was_stale = |(index, known): (usize, &SlabPlace)| {
        let moves = index == slab;
        known.stale().then(|| if moves { stale_at(space, chunk, slab) } else { standing(*known, space, chunk, index) })
    };
    let stale: Vec<Change> = old.slabs.iter().enumerate().filter_map(was_stale).collect();
    row.slabs.iter_mut().for_each(|known| *known = SlabPlace::new(known.disk(), known.unit()));
    row.slabs[slab] = place;
    [Change::RowGone { space, chunk }, Change::Row { space, chunk, row }].into_iter().chain(stale).collect()
}
