//! What files keep to prove their data: shown and set.

use std::sync::Arc;

use holdfast_api::{FileIntegrity, FileIntegrityChanged, IntegrityMode, JobKind, SetFileIntegrity};
use holdfast_volume::service::{Attributes, FileKind, FileService, Flush};
use holdfast_volume::{Integrity, VolumeError};

use super::acl::Asked;
use super::{administrator, from_volume};
use crate::engine::Engine;
use crate::error::ApiResult;
use crate::jobs::{JobSpec, Target, mode_of};

fn shown(path: &str, facts: &Attributes) -> FileIntegrity {
    FileIntegrity {
        path: path.to_owned(),
        directory: facts.kind == FileKind::Directory,
        mode: match facts.dos.integrity() {
            Integrity::PassThrough => IntegrityMode::PassThrough,
            Integrity::Strict => IntegrityMode::Strict,
            Integrity::None => IntegrityMode::None,
        },
    }
}

impl Engine {
    /// What a file of a volume keeps to prove its data.
    ///
    /// # Errors
    /// If there is no such volume or file, or the volume is not open.
    pub async fn file_integrity(&self, path: &str, below: &str) -> ApiResult<FileIntegrity> {
        Ok(shown(below, &self.file_asked(path, below).await?.facts))
    }

    /// Has a file of a volume keep something else, or a directory hand that on. A job does it for a file, and for what is
    /// below a directory, if that is asked for: what becomes strict is read.
    ///
    /// # Errors
    /// If there is no such volume or file, it can keep nothing, another such job goes over the volume, or there is no room.
    pub async fn set_file_integrity(
        self: &Arc<Self>,
        path: String,
        request: SetFileIntegrity,
    ) -> ApiResult<FileIntegrityChanged> {
        self.change(move |engine| async move {
            let Asked { open, known, volume, facts, object } = engine.file_asked(&path, &request.path).await?;
            let is_file = facts.kind == FileKind::Regular;
            let before = shown(&request.path, &facts);
            if is_file || request.below && facts.kind == FileKind::Directory {
                let spec = JobSpec {
                    path: Some(request.path.clone()),
                    integrity: Some(request.mode),
                    ..JobSpec::new(JobKind::Integrity, Target::volume(&open, known.id, &known.name))
                };
                engine.refuse_unlike(object, &spec, "sets others of this volume")?;
                let answer = engine.add_in_use(&path, spec, request.pace)?;
                let (changed, job) = (answer.changed, Some(answer.job));
                return Ok(FileIntegrityChanged { changed, integrity: before, job });
            }
            let (id, mode) = (facts.id, mode_of(request.mode));
            let set = engine.on_reactor(move || async move {
                let facts = volume.set_integrity(&administrator(), id, mode).await?;
                volume.flush(id, Flush::All).await?;
                Ok::<_, VolumeError>(facts)
            });
            let integrity = shown(&request.path, &set.await?.map_err(|error| from_volume(&object, &error))?);
            let changed = integrity != before;
            if changed {
                let word = holdfast_api::word(&integrity.mode);
                engine.note(&open.volume_object(&known), &format!("new files below {} are {word}", request.path));
            }
            Ok(FileIntegrityChanged { changed, integrity, job: None })
        })
        .await
    }
}
