//! Volumes made.
//!
//! Invariant: a request that is refused has changed nothing, and one that is repeated changes nothing more, but brings
//! to its end what was cut short.

use std::sync::Arc;

use holdfast_api::{ApiError, CreateSpace, CreateVolume, VolumeChanged};
use holdfast_device::IoBuf;
use holdfast_model::{SpacePath, Uuid};
use holdfast_pool::SpaceRecord;
use holdfast_space::Space;
use holdfast_volume::{Format, Volume, VolumeFormat};

use super::known::{KnownVolume, Stage};
use super::{BLANK_BYTES, claim, from_volume, parse_volume, present};
use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, conflict, exists_with, from_io};
use crate::spaces::{parse_path, same_parameters, space_size};

impl Engine {
    /// Makes a volume.
    ///
    /// # Errors
    /// If its space cannot be made or used; nothing is changed then.
    pub async fn create_volume(self: &Arc<Self>, request: CreateVolume) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move { engine.make_volume(request).await }).await
    }

    async fn make_volume(&self, mut request: CreateVolume) -> ApiResult<VolumeChanged> {
        let path = parse_volume(&request.name).map_err(|error| error.at("name"))?;
        let object = format!("volume {path}");
        let open = self.pool_named(path.pool.as_str()).map_err(|error| error.at("name"))?;
        let on = space_of(&object, &path, &mut request)?;
        let begun = same_volume(&object, &open, &path, &on, &request)?;
        let known = match begun.clone() {
            Some(known) if known.stage == Stage::Made => {
                return Ok(VolumeChanged { changed: false, volume: self.volume(&path.to_string())? });
            }
            Some(known) => known,
            None => self.begin_volume(&open, &object, &path, &on, &request).await?,
        };
        match self.finish_volume(&open, &object, &on, known.clone(), request.space).await {
            Ok(known) => {
                self.note(&open.volume_object(&known), &format!("created on space {on}"));
                self.open_volume(&open, known).await;
                Ok(VolumeChanged { changed: true, volume: self.volume(&path.to_string())? })
            }
            Err(error) => {
                // What an earlier request began is left as it was: this one may have asked for something else.
                if begun.is_none()
                    && let Err(left) = self.take_apart(&open, &object, &known).await
                {
                    tracing::warn!("{object} is left half made: {left}");
                    self.open_volume(&open, known).await;
                }
                Err(error)
            }
        }
    }

    /// Checks what there must be before a volume is made, and writes down that it is.
    async fn begin_volume(
        &self,
        open: &Arc<OpenPool>,
        object: &str,
        path: &SpacePath,
        on: &SpacePath,
        request: &CreateVolume,
    ) -> ApiResult<KnownVolume> {
        let mut known = KnownVolume {
            name: path.space.to_string(),
            id: Uuid::new_v4(),
            stage: Stage::Making,
            space: Uuid::nil(),
            on: on.space.to_string(),
            owns_space: request.space.is_some(),
            case_sensitive: request.case_sensitive,
            mount: None,
            snapshot_rules: Vec::new(),
        };
        if known.owns_space {
            if open.pool.spaces().iter().any(|record| record.name == on.space) {
                let message = format!("space {on} exists already");
                return Err(conflict(object, message, "choose another name, or put the volume on it if it is empty"));
            }
        } else {
            let space = self.free_space(open, object, on, None)?;
            let _claim = claim(open, &space, &known.name, object)?;
            known.space = space.record().uuid;
            let begin = self.on_reactor(move || async move { space.read(0, IoBuf::new(BLANK_BYTES)).await }).await?;
            let begin = begin.map_err(|error| from_io(format!("space {on}"), error))?;
            if begin.iter().any(|byte| *byte != 0) {
                let message = format!("space {on} holds data");
                return Err(conflict(object, message, "choose an empty space, or let a new one be made").at("on"));
            }
        }
        self.keep_volume(open, &known).await?;
        Ok(known)
    }

    /// The space that a volume is to lie on, which nobody else uses.
    pub(super) fn free_space(
        &self,
        open: &OpenPool,
        object: &str,
        on: &SpacePath,
        volume: Option<&str>,
    ) -> ApiResult<Arc<Space>> {
        let (_, _, space) = self.space_at(on).map_err(|error| error.at("on"))?;
        let record = space.record();
        self.refuse_exported(object, record.uuid).map_err(|error| error.at("on"))?;
        let own = volume.map(|volume| format!("{}/{volume}", open.name()));
        if let Some(other) = open.volume_on(&record).filter(|other| own.as_ref() != Some(other)) {
            let message = format!("volume {other} lies on space {on}");
            return Err(conflict(object, message, "choose another space").at("on"));
        }
        Ok(space)
    }

    /// Makes the space where it is the volume's own, formats it, and has the pool keep that the volume is made.
    async fn finish_volume(
        &self,
        open: &Arc<OpenPool>,
        object: &str,
        on: &SpacePath,
        mut known: KnownVolume,
        own_space: Option<CreateSpace>,
    ) -> ApiResult<KnownVolume> {
        if let Some(space) = own_space {
            self.make_space(space).await.map_err(|error| error.inside("space"))?;
        }
        let space = self.free_space(open, object, on, Some(&known.name))?;
        let claim = claim(open, &space, &known.name, object)?;
        known.space = space.record().uuid;
        let secret = Uuid::new_v4().as_u128() ^ Uuid::new_v4().as_u128().rotate_left(64);
        let format = VolumeFormat {
            store: Format { volume: known.id, log_bytes: None },
            secret: secret.to_le_bytes(),
            owner: (0, 0),
            mode: 0o755,
            is_case_sensitive: known.case_sensitive,
        };
        let formatted =
            self.on_reactor(move || async move { Volume::format_with_copies(space, format, present()).await });
        formatted.await?.map_err(|error| from_volume(object, &error))?;
        known.stage = Stage::Made;
        self.keep_volume(open, &known).await?;
        drop(claim);
        Ok(known)
    }
}

/// The space that a request names, its size in whole blocks.
fn space_of(object: &str, path: &SpacePath, request: &mut CreateVolume) -> ApiResult<SpacePath> {
    let refuse = |message: &str, next: &str| ApiError::invalid(object, message, next).at("space");
    let on = match (&mut request.space, &request.on) {
        (Some(_), Some(_)) => return Err(refuse("a new space and one that exists are both given", "give one")),
        (None, None) => return Err(refuse("no space is given", "give a size for a new space, or one that exists")),
        (Some(space), None) => {
            let on = parse_path(&space.name).map_err(|error| error.at("space"))?;
            space.size_bytes = space_size(&on, space.size_bytes).map_err(|error| error.inside("space"))?;
            on
        }
        (None, Some(on)) => parse_path(on).map_err(|error| error.at("on"))?,
    };
    if on.pool != path.pool {
        let message = format!("its space would be {on}, which is of another pool");
        return Err(ApiError::invalid(object, message, "name a space of the same pool"));
    }
    Ok(on)
}

/// The volume that is asked for, where it is there, or begun; refused where that is another.
fn same_volume(
    object: &str,
    open: &OpenPool,
    path: &SpacePath,
    on: &SpacePath,
    request: &CreateVolume,
) -> ApiResult<Option<KnownVolume>> {
    let known = {
        let volumes = open.volumes();
        let Some(live) = volumes.get(path.space.as_str()) else { return Ok(None) };
        if matches!(live.known.stage, Stage::Going | Stage::Unreadable) {
            return Err(live.refusal(object));
        }
        live.known.clone()
    };
    let record: Option<SpaceRecord> = open.pool.spaces().into_iter().find(|record| known.is_on(record));
    let has = record.as_ref().map_or_else(|| known.on.clone(), |record| record.name.to_string());
    if has != on.space.as_str() {
        return Err(exists_with(object, "space", format!("{}/{has}", open.name()), on).at("name"));
    }
    if known.owns_space != request.space.is_some() {
        let word = |own: bool| if own { "created for it" } else { "of its own" };
        return Err(exists_with(object, "space", word(known.owns_space), word(!known.owns_space)).at("name"));
    }
    if let (Some(record), Some(space)) = (&record, &request.space) {
        same_parameters(object, open, record, space).map_err(|error| error.inside("space"))?;
    }
    if known.case_sensitive != request.case_sensitive {
        let word = |sensitive: bool| if sensitive { "sensitive" } else { "insensitive for clients that ask" };
        let (has, wanted) = (word(known.case_sensitive), word(request.case_sensitive));
        return Err(exists_with(object, "case of names", has, wanted).at("case_sensitive"));
    }
    Ok(Some(known))
}
