//! How a space is, and where its slabs lie.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use holdfast_model::{Condition, Health, Reason, SpaceState, Uuid};
use holdfast_pool::UNIT_BYTES;

use crate::block_map::REGION_BYTES;
use crate::counters::SpaceCounters;
use crate::parity::JournalStatus;
use crate::protection::{Protection, Tally};
use crate::row::Row;
use crate::space::Space;

/// How a space is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceStatus {
    /// Whether it serves its data, and how well it is protected.
    pub state: SpaceState,
    /// How urgent that is.
    pub health: Health,
    /// Why, and what to do, but for what the protection tells.
    pub conditions: Vec<Condition>,
    /// How many losses it is to bear, and bears now.
    pub protection: Protection,
    /// Bytes of data that its rows have room for.
    pub allocated_bytes: u64,
    /// Bytes that its slabs take on the disks.
    pub raw_bytes: u64,
    /// Bytes in regions marked dirty, in rows that are open.
    pub dirty_bytes: u64,
    /// Slabs.
    pub slabs: u64,
    /// Of these, slabs that missed a write or whose disk is out.
    pub stale_slabs: u64,
    /// Rows that are open.
    pub open_rows: u64,
}

/// Where a row lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMap {
    /// The chunk.
    pub chunk: u32,
    /// Where it begins in the space.
    pub offset_bytes: u64,
    /// Its length in the space.
    pub len_bytes: u64,
    /// Its slabs.
    pub slabs: Vec<SlabMap>,
}

/// Where a slab lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabMap {
    /// Its column.
    pub column: u16,
    /// Its copy.
    pub copy: u8,
    /// Its disk.
    pub disk: Uuid,
    /// Where that disk is.
    pub path: String,
    /// Where it begins on the disk.
    pub offset_bytes: u64,
    /// Its length.
    pub len_bytes: u64,
    /// Whether it missed a write.
    pub stale: bool,
}

impl Space {
    /// What it did since it was opened.
    pub fn counters(&self) -> &SpaceCounters {
        &self.inner.counters
    }

    /// Whether copies are being brought in step.
    pub fn is_resyncing(&self) -> bool {
        let behind = |row: &Arc<Row>| {
            row.slabs.iter().any(|slab| slab.joining())
                || row.columns().iter().any(|column| !column.lock().unsynced.is_empty())
        };
        self.inner.swept.load(Ordering::Acquire) != u64::MAX || self.inner.rows.open_rows().iter().any(behind)
    }

    /// How it is now.
    pub fn status(&self) -> SpaceStatus {
        let inner = &self.inner;
        let record = self.record();
        let mut tally = Tally::new(&inner.pool, &record);
        let (mut slabs, mut stale, mut raw, mut allocated) = (0u64, 0u64, 0u64, 0u64);
        for (chunk, row) in inner.pool.rows(record.id).into_iter().chain(inner.pool.journal_rows(record.id)) {
            let journal = chunk >= holdfast_pool::JOURNAL_CHUNK;
            slabs += row.slabs.len() as u64;
            raw += row.slabs.len() as u64 * u64::from(row.slab_units) * UNIT_BYTES;
            allocated += if journal { 0 } else { record.chunk_bytes };
            stale += tally.add(chunk, &row, &inner.rows.context.lost.of(chunk, row.id));
        }
        let protection = tally.end();
        let marked =
            |row: &Arc<Row>| row.columns().iter().map(|column| u64::from(column.lock().marked.count())).sum::<u64>();
        let dirty = inner.rows.open_rows().iter().map(marked).sum::<u64>() * REGION_BYTES;
        let resyncing = self.is_resyncing();
        let path = inner.path();
        let mut conditions = Vec::new();
        let below = protection.held_losses < protection.wanted_losses
            || protection.held_enclosures < protection.wanted_enclosures;
        let (state, health) = if protection.unreadable_rows > 0 {
            (SpaceState::Failed, Health::Unhealthy)
        } else if resyncing {
            (SpaceState::Resyncing, if stale > 0 || below { Health::Warning } else { Health::Healthy })
        } else if stale > 0 || below {
            (SpaceState::Degraded, Health::Warning)
        } else {
            (SpaceState::Ok, Health::Healthy)
        };
        let health = if self.is_read_only() {
            let cause = format!("space {path} was recovered by a salvage and is read-only");
            let next = format!("check its data, then run 'holdfast space accept {path}'");
            conditions.push(Condition::new(cause, next).because(Reason::Salvaged));
            health.max(Health::Warning)
        } else {
            health
        };
        SpaceStatus {
            state,
            health,
            conditions,
            protection,
            allocated_bytes: allocated,
            raw_bytes: raw,
            dirty_bytes: dirty,
            slabs,
            stale_slabs: stale,
            open_rows: inner.rows.open_rows().len() as u64,
        }
    }

    /// How full its journal is; `None` where it has none, or was not used since it was opened.
    pub fn journal_status(&self) -> Option<JournalStatus> {
        let journal = self.inner.parity.open_journal_if_any()?;
        Some(JournalStatus {
            size_bytes: journal.size_bytes(),
            used_bytes: journal.held(),
            waiting_bytes: self.inner.parity.write_buffer.bytes() as u64,
        })
    }

    /// How often it changed which slabs count as lost.
    pub fn losses_noted(&self) -> u64 {
        self.inner.rows.context.lost.changes()
    }

    /// Rows that cannot be read now.
    pub fn unreadable_rows(&self) -> u64 {
        // Of slabs that back each other, as many as serve them are never stale.
        let all_there = self.inner.pool.pool_disks().iter().all(|disk| disk.in_service());
        match all_there && self.inner.rows.context.lost.is_empty() {
            true => 0,
            false => self.status().protection.unreadable_rows,
        }
    }

    /// Where every slab lies. Rows that the space is about to give up since it becomes smaller are left out.
    pub fn map(&self) -> Vec<RowMap> {
        let inner = &self.inner;
        let (chunk_bytes, size_bytes) = (inner.record.chunk_bytes, inner.size_bytes());
        let paths: std::collections::HashMap<u16, (Uuid, String)> = inner
            .pool
            .disks()
            .into_iter()
            .map(|disk| (disk.record.index, (disk.record.id, disk.record.path)))
            .collect();
        let row_map = |(chunk, row): (u32, holdfast_pool::RowRecord)| {
            let copies = u16::from(row.shape.layout.copies());
            let slab = |(index, place): (usize, &holdfast_pool::SlabPlace)| {
                let (disk, path) = paths.get(&place.disk()).cloned().unwrap_or_default();
                let start = inner.pool.disk(place.disk()).map_or(0, |disk| disk.area.unit_at(place.unit()));
                SlabMap {
                    column: index as u16 / copies,
                    copy: (index as u16 % copies) as u8,
                    disk,
                    path,
                    offset_bytes: start,
                    len_bytes: u64::from(row.slab_units) * UNIT_BYTES,
                    stale: place.stale(),
                }
            };
            let offset_bytes = u64::from(chunk) * chunk_bytes;
            let end = (offset_bytes + chunk_bytes).min(size_bytes);
            RowMap {
                chunk,
                offset_bytes,
                len_bytes: end - offset_bytes,
                slabs: row.slabs.iter().enumerate().map(slab).collect(),
            }
        };
        let rows = inner.pool.rows(inner.record.id).into_iter();
        rows.filter(|(chunk, _)| u64::from(*chunk) * chunk_bytes < size_bytes).map(row_map).collect()
    }
}
