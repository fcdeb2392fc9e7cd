//! What LUNs stand for: a space, or a file of a volume, named by a request and opened.
//!
//! Invariant: an object that is open for a LUN is let go of when the LUN is served no more.

use std::sync::Arc;

use holdfast_api::{ApiError, Condition};
use holdfast_block::ObjectService;
use holdfast_model::{Provisioning, Uuid};

use super::known::{Backing, KnownLun};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, not_found};
use crate::spaces::parse_path;

/// An object that is open for a LUN.
pub(super) struct Object {
    /// What requests go through.
    pub(super) service: Arc<ObjectService>,
    /// Whether room is taken as needed and given back.
    pub(super) thin: bool,
}

/// What a request names.
pub(super) struct Named {
    /// The pool.
    pub(super) open: Arc<OpenPool>,
    /// What is on it.
    pub(super) on: Backing,
    /// The name in full.
    pub(super) path: String,
    /// The id that initiators know it by. A space has its own, also where it was a LUN before.
    pub(super) id: Uuid,
}

impl Engine {
    /// What `POOL/SPACE` or `POOL/VOLUME:PATH` names.
    ///
    /// # Errors
    /// If there is none, or it cannot be a LUN.
    pub(super) fn named_object(&self, object: &str, text: &str, size_bytes: Option<u64>) -> ApiResult<Named> {
        if text.contains(':') {
            let message = "files of volumes cannot be LUNs";
            return Err(ApiError::invalid(object, message, "name a space: POOL/SPACE"));
        }
        let path = parse_path(text)?;
        if size_bytes.is_some() {
            let message = "a size is for files that are made; a space has its own";
            return Err(ApiError::invalid(object, message, "leave the size out").at("size_bytes"));
        }
        let (open, _, space) = self.space_at(&path)?;
        let record = space.record();
        if let Some(volume) = open.volume_on(&record) {
            let message = format!("volume {volume} lies on space {path}");
            return Err(conflict(object, message, "name another space"));
        }
        Ok(Named { open, on: Backing::Space(record.uuid), path: path.to_string(), id: record.uuid })
    }

    /// Makes what a LUN stands for larger. False if it has that size already.
    ///
    /// # Errors
    /// If it would become smaller, or there is no room.
    pub(super) async fn grow_object(&self, open: &Arc<OpenPool>, known: &KnownLun, size_bytes: u64) -> ApiResult<bool> {
        match &known.on {
            Backing::Space(id) => {
                let record = open.pool.spaces().into_iter().find(|record| record.uuid == *id);
                let record = record.ok_or_else(|| not_found(format!("space {}", known.path), "remove the LUN"))?;
                let path = format!("{}/{}", open.name(), record.name);
                Ok(self.enlarge_space(&path, size_bytes).await?.changed)
            }
            Backing::File { .. } => {
                let message = "files of volumes do not grow as LUNs";
                Err(conflict(format!("LUN of {}", known.path), message, "run the version that added it"))
            }
        }
    }

    /// Opens what a LUN stands for, or says why that cannot be.
    pub(super) async fn open_object(&self, open: &Arc<OpenPool>, on: &Backing) -> Result<Object, Condition> {
        match on {
            Backing::Space(id) => {
                let service = open.services().get(id).cloned();
                let space = open.space_with(*id);
                let (Some(service), Some(space)) = (service, space) else {
                    let there = open.pool.spaces().iter().any(|record| record.uuid == *id);
                    let cause = if there { "its space is not open" } else { "its space is gone" };
                    return Err(Condition::new(cause, "see the health of its pool"));
                };
                Ok(Object { service, thin: space.record().provisioning == Provisioning::Thin })
            }
            Backing::File { .. } => {
                let cause = "it is a file of a volume, which this version does not serve";
                Err(Condition::new(cause, "run the version that added it"))
            }
        }
    }
}
