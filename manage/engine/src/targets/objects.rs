//! What LUNs stand for: a space, or a file of a volume, named by a request and opened.
//!
//! Invariant: an object that is open for a LUN is let go of when the LUN is served no more.

use std::sync::Arc;

use holdfast_api::{ApiError, Condition};
use holdfast_block::ObjectService;
use holdfast_model::{ByteSize, Provisioning, Uuid};
use holdfast_pool::SpaceRecord;
use holdfast_volume::object_id;
use holdfast_volume::service::FileId;

use super::known::{Backing, KnownLun};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, not_found};
use crate::spaces::{parse_path, whole_blocks};
use crate::volumes::{FoundFile, HeldDisk, NewDisk, split};

/// An object that is open for a LUN.
pub(super) struct Object {
    /// What requests go through.
    pub(super) service: Arc<ObjectService>,
    /// Whether room is taken as needed and given back.
    pub(super) thin: bool,
    /// The file that is open for it.
    pub(super) file: Option<HeldDisk>,
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
    /// The file, where it was made for this.
    pub(super) made: Option<FoundFile>,
}

impl Engine {
    /// What `POOL/SPACE` or `POOL/VOLUME:PATH` names.
    ///
    /// # Errors
    /// If there is none, or it cannot be a LUN.
    pub(super) async fn named_object(
        &self,
        object: &str,
        text: &str,
        size_bytes: Option<u64>,
        full: bool,
    ) -> ApiResult<Named> {
        if text.contains(':') {
            return self.named_file(text, size_bytes, full).await;
        }
        if full {
            let message = "all room at once is for files; a fixed space has its own";
            return Err(ApiError::invalid(object, message, "name a file of a volume, or a fixed space").at("full"));
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
        Ok(Named { open, on: Backing::Space(record.uuid), path: path.to_string(), id: record.uuid, made: None })
    }

    /// A file of a volume; with a size it is made where there is none.
    async fn named_file(&self, text: &str, size_bytes: Option<u64>, full: bool) -> ApiResult<Named> {
        if full {
            self.refuse_thin_ground(text)?;
        }
        let new = size_bytes.map(|size_bytes| NewDisk { size_bytes: whole_blocks(size_bytes), allocates: full });
        let (open, found) = self.find_file(text, new).await?;
        let FoundFile { volume, file, path, is_new } = &found;
        let path = format!("{}:{path}", open.volume_name(*volume));
        let on = Backing::File { volume: *volume, number: file.number, generation: file.generation };
        let id = object_id(*volume, *file);
        let made = is_new.then_some(found);
        Ok(Named { open, on, path, id, made })
    }

    /// Refuses to give a file room that the pool has not given its volume yet.
    fn refuse_thin_ground(&self, text: &str) -> ApiResult<()> {
        // What cannot be is told by whoever looks for the file.
        let Some((name, _)) = split(text) else { return Ok(()) };
        let (open, known) = self.open_volume_at(name)?;
        let space = open.volume_and_space(known.id).and_then(|(_, space)| space);
        if space.is_none_or(|space| space.record().provisioning != Provisioning::Thin) {
            return Ok(());
        }
        let message = "its volume lies on a thin space, which may itself run out of room";
        let next = format!("'holdfast space convert {}/{} --fixed' first, or leave it sparse", open.name(), known.on);
        Err(conflict(format!("file {text}"), message, next).at("full"))
    }

    /// Refuses to make a space thin under files of a volume that were given all of their room: the pool may run out of it then.
    pub(crate) fn refuse_thin_under_full(&self, open: &OpenPool, space: &SpaceRecord, object: &str) -> ApiResult<()> {
        let live = self.live();
        let mut full = live.targets.values().flat_map(|target| {
            let of = |(number, lun): (&u16, &KnownLun)| {
                let Backing::File { volume, .. } = lun.on else { return None };
                let lies = lun.full && open.lies_on(volume, space);
                lies.then(|| (target.known.lun_name(*number), lun.path.clone()))
            };
            target.known.luns.iter().filter_map(of)
        });
        let Some((lun, path)) = full.next() else { return Ok(()) };
        let message = format!("LUN {lun} ({path}) was given all of its room, which a thin space may run out of");
        let next = format!("'holdfast lun remove {}' first, and add it again without --full", lun.replace('/', " "));
        Err(conflict(object, message, next).at("thin"))
    }

    /// Gives the file of a LUN that is to have all of its room that of a size; others take theirs as they are written.
    ///
    /// # Errors
    /// As [`Self::give_all_room`].
    pub(super) async fn give_room(&self, open: &OpenPool, known: &KnownLun, size_bytes: u64) -> ApiResult<()> {
        match known.on {
            Backing::File { volume, number, generation } if known.full => {
                self.give_all_room(open, volume, FileId { number, generation }, size_bytes, &known.path).await
            }
            _ => Ok(()),
        }
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
            Backing::File { volume, number, generation } => {
                let file = FileId { number: *number, generation: *generation };
                let held = self.open_file_disk(open, *volume, file).await?;
                let size_bytes = whole_blocks(size_bytes);
                let growing = async {
                    // Room comes first: where there is not enough, nothing is larger.
                    if held.disk.size_bytes() < size_bytes {
                        self.give_room(open, known, size_bytes).await?;
                    }
                    held.grow(size_bytes).await
                };
                let changed = growing.await;
                held.release().await;
                if changed == Ok(true) {
                    tracing::info!("LUN of {} has {}", known.path, ByteSize(size_bytes));
                }
                changed
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
                Ok(Object { service, thin: space.record().provisioning == Provisioning::Thin, file: None })
            }
            Backing::File { volume, number, generation } => {
                let file = FileId { number: *number, generation: *generation };
                let held = self.open_file_disk(open, *volume, file).await;
                let held = held.map_err(|error| Condition::new(error.message, error.next_action))?;
                Ok(Object { service: held.disk.service.clone(), thin: true, file: Some(held) })
            }
        }
    }
}
