//! What an import must find of a pool after a life.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::*;
use holdfast_model::Provisioning;
use holdfast_pool::{JOURNAL_CHUNK, Pool, RowRecord, SpaceRecord};

/// What a space must be like.
#[derive(Clone, Debug)]
pub struct SpaceModel {
    pub record: SpaceRecord,
    pub rows: BTreeMap<u32, RowRecord>,
    pub stale: BTreeSet<(u64, u16)>,
}

/// A change that was asked for and not answered yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Open {
    Create(String),
    Grow(u32, u64),
    Destroy(u32),
    Row(u32, u32),
    Free(u32, u32),
    Journal(u32, u64),
    InStep(u32, u32, u16),
    Add(Vec<String>),
    Remove(String),
    Document(String, Option<Vec<u8>>),
}

#[derive(Default)]
pub struct Model {
    pub spaces: BTreeMap<u32, SpaceModel>,
    pub serials: BTreeSet<String>,
    pub documents: BTreeMap<String, Vec<u8>>,
    pub open: Vec<Open>,
}

impl Model {
    pub fn is_open(&self, wanted: impl Fn(&Open) -> bool) -> bool {
        self.open.iter().any(wanted)
    }

    pub fn note_row(&mut self, space: u32, chunk: u32, row: RowRecord) {
        let space = self.spaces.get_mut(&space).expect("its owner knows it");
        let stale =
            row.slabs.iter().enumerate().filter(|(_, slab)| slab.stale()).map(|(index, _)| (row.id, index as u16));
        space.stale.extend(stale);
        space.rows.insert(chunk, row);
    }

    /// Notes every slab that is stale now: from here on it must stay so until it is said to be in step.
    pub fn note_stale(&mut self, pool: &Pool) {
        for (id, space) in &mut self.spaces {
            for (chunk, row) in all_rows(pool, *id) {
                if space.rows.get(&chunk).is_some_and(|known| known.id == row.id) {
                    let stale = row.slabs.iter().enumerate().filter(|(_, slab)| slab.stale());
                    space.stale.extend(stale.map(|(index, _)| (row.id, index as u16)));
                }
            }
        }
    }

    /// Holds what an import found against what must be, and goes on from it.
    pub fn check(&mut self, pool: &Pool) {
        check_allotment(pool);
        assert_eq!(pool.check(), Ok(()));
        self.check_documents(pool);
        let found: BTreeMap<u32, SpaceRecord> = pool.spaces().into_iter().map(|space| (space.id, space)).collect();
        for (id, known) in &self.spaces {
            let Some(record) = found.get(id) else {
                assert!(self.is_open(|open| *open == Open::Destroy(*id)), "space {} is gone", known.record.name);
                continue;
            };
            let grown = self.is_open(|open| *open == Open::Grow(*id, record.size_bytes));
            assert!(
                record.size_bytes == known.record.size_bytes || grown,
                "{}: size {}",
                record.name,
                record.size_bytes
            );
            assert_eq!(
                SpaceRecord { size_bytes: 0, ..record.clone() },
                SpaceRecord { size_bytes: 0, ..known.record.clone() }
            );
            self.check_rows(pool, record, known);
        }
        for record in found.values().filter(|record| !self.spaces.contains_key(&record.id)) {
            assert!(
                self.is_open(|open| *open == Open::Create(record.name.to_string())),
                "space {} from nowhere",
                record.name
            );
        }
        for record in found.values() {
            let fixed = record.provisioning == Provisioning::Fixed;
            assert!(
                record.complete && (!fixed || pool.row_count(record.id) == record.chunks() as usize),
                "half a space"
            );
        }
        let serials: BTreeSet<String> = pool.disks().into_iter().map(|disk| disk.record.serial).collect();
        let gone = |serial: &&String| !self.is_open(|open| *open == Open::Remove((*serial).clone()));
        let lost: Vec<&String> = self.serials.difference(&serials).filter(gone).collect();
        assert!(lost.is_empty(), "disks are gone: {lost:?} of {:?}", self.serials);
        for new in serials.difference(&self.serials) {
            let whole = |open: &Open| matches!(open, Open::Add(all) if all.contains(new) && all.iter().all(|it| serials.contains(it)));
            assert!(self.is_open(whole), "disk {new} from nowhere");
        }
        self.adopt(pool, serials);
    }

    pub fn check_documents(&self, pool: &Pool) {
        let found: BTreeMap<String, Vec<u8>> = pool.documents("").into_iter().collect();
        for key in found.keys().chain(self.documents.keys()) {
            let now = found.get(key).cloned();
            let asked = self.is_open(|open| *open == Open::Document(key.clone(), now.clone()));
            assert!(asked || now == self.documents.get(key).cloned(), "document {key} is another");
        }
    }

    pub fn check_rows(&self, pool: &Pool, record: &SpaceRecord, known: &SpaceModel) {
        let found: BTreeMap<u32, RowRecord> = all_rows(pool, record.id).into_iter().collect();
        let exchanged = self.check_journal(record, known, &found);
        let place =
            |row: &RowRecord| -> Vec<(u16, u32)> { row.slabs.iter().map(|slab| (slab.disk(), slab.unit())).collect() };
        for (chunk, row) in &known.rows {
            let freed =
                self.is_open(|open| *open == Open::Free(record.id, *chunk)) || (exchanged && *chunk >= JOURNAL_CHUNK);
            match found.get(chunk) {
                None => assert!(freed, "row {chunk} of {} is gone", record.name),
                Some(now) if now.id != row.id => {
                    assert!(freed, "row {chunk} of {} is another", record.name);
                }
                Some(now) => {
                    assert_eq!(
                        (now.shape, place(now)),
                        (row.shape, place(row)),
                        "row {chunk} of {} moved",
                        record.name
                    );
                    for (slab, now) in now.slabs.iter().enumerate() {
                        let must = known.stale.contains(&(row.id, slab as u16));
                        let excused = self.is_open(|open| *open == Open::InStep(record.id, *chunk, slab as u16));
                        assert!(
                            !must || now.stale() || excused,
                            "slab {slab} of row {chunk} of {} is believed",
                            record.name
                        );
                    }
                }
            }
        }
        let grown = record.size_bytes != known.record.size_bytes && record.provisioning == Provisioning::Fixed;
        for chunk in found.keys().filter(|chunk| !known.rows.contains_key(chunk)) {
            let asked = self.is_open(|open| *open == Open::Row(record.id, *chunk));
            let asked = asked || (exchanged && *chunk >= JOURNAL_CHUNK);
            assert!(asked || grown, "row {chunk} of {} from nowhere", record.name);
        }
    }

    /// Whether the journal is another one than before: then it must be wholly so, and as it was asked for.
    pub fn check_journal(&self, record: &SpaceRecord, known: &SpaceModel, found: &BTreeMap<u32, RowRecord>) -> bool {
        let ids =
            |rows: &BTreeMap<u32, RowRecord>| rows.range(JOURNAL_CHUNK..).map(|(_, row)| row.id).collect::<Vec<_>>();
        let data = |row: &RowRecord| row.slab_data_bytes() * u64::from(row.shape.columns);
        let (before, now) = (ids(&known.rows), ids(found));
        if before == now {
            return false;
        }
        assert!(now.iter().all(|id| !before.contains(id)), "{} has half a journal", record.name);
        let bytes: u64 = found.range(JOURNAL_CHUNK..).map(|(_, row)| data(row)).sum();
        let asked = |open: &Open| matches!(open, Open::Journal(id, wanted) if *id == record.id && (*wanted..wanted + 4 * MIB).contains(&bytes));
        assert!(self.is_open(asked), "{} has a journal of {bytes} from nowhere", record.name);
        true
    }

    pub fn adopt(&mut self, pool: &Pool, serials: BTreeSet<String>) {
        self.open.clear();
        self.serials = serials;
        self.documents = pool.documents("").into_iter().collect();
        self.spaces.clear();
        for record in pool.spaces() {
            let rows = all_rows(pool, record.id).into_iter().collect();
            self.spaces.insert(record.id, SpaceModel { record, rows, stale: BTreeSet::new() });
        }
        self.note_stale(pool);
    }
}
