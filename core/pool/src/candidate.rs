//! Disks that a pool may be looked for or made on.

use std::sync::Arc;

use holdfast_device::Device;
use holdfast_model::{DiskState, Media, Place, Usage, Uuid};

use crate::PoolError;
use crate::area::Area;
use crate::frame::Position;
use crate::record::DiskRecord;

/// What is known of a disk without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskInfo {
    /// Where it is.
    pub path: String,
    /// Its serial, empty where it tells none.
    pub serial: String,
    /// Its model, empty where it tells none.
    pub model: String,
    /// Its medium.
    pub media: Media,
    /// Its enclosure and slot, where known.
    pub place: Option<Place>,
}

/// A disk that a pool may be looked for or made on.
#[derive(Clone)]
pub struct Candidate {
    /// The disk.
    pub device: Arc<dyn Device>,
    /// What is known of it.
    pub info: DiskInfo,
}

/// Refuses a list that names a disk twice, under one name or under two.
pub(crate) fn refuse_twice(disks: &[Candidate]) -> Result<(), PoolError> {
    for (at, candidate) in disks.iter().enumerate() {
        let same = |other: &&Candidate| {
            other.info.path == candidate.info.path || Arc::ptr_eq(&other.device, &candidate.device)
        };
        if let Some(other) = disks[..at].iter().find(same) {
            return Err(PoolError::invalid(format!(
                "disk {} is named twice, the first time as {}: name it once",
                candidate.info.path, other.info.path
            ))
            .about("disks"));
        }
    }
    Ok(())
}

pub(crate) fn new_record(index: u16, id: Uuid, candidate: &Candidate, area: &Area) -> DiskRecord {
    let info = candidate.info.clone();
    DiskRecord {
        index,
        id,
        serial: info.serial,
        model: info.model,
        path: info.path,
        media: info.media,
        usage: Usage::Auto,
        place: info.place,
        disk_bytes: area.disk_bytes,
        state: DiskState::Online,
        voting: true,
        holds: Position::default(),
    }
}
