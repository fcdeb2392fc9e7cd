//! Change journals of volumes.

use axum::Json;
use holdfast_api::{ApiError, ErrorBody, JournalEntries, SetVolumeJournal, VolumeJournal, VolumeJournalChanged};
use holdfast_engine::JournalAsked;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{Confirm, OnEngine};
use crate::refusal::{Answered, Body, InPath, InQuery};

/// Shows the change journal of a volume.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/journal", tag = "volumes", operation_id = "volume_journal_show",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = VolumeJournal, description = "The journal."),
        (status = "default", body = ErrorBody, description = "Refused or failed; not-found if there is none.")))]
pub(crate) async fn show(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
) -> Answered<Json<VolumeJournal>> {
    Ok(Json(engine.volume_journal(&format!("{pool}/{volume}"))?))
}

/// Switches the change journal of a volume on, or gives the one that there is another size.
#[utoipa::path(put, path = "/volumes/{pool}/{volume}/journal", tag = "volumes", operation_id = "volume_journal_set", request_body = SetVolumeJournal,
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume.")),
    responses((status = 200, body = VolumeJournalChanged, description = "The journal as it is now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    Body(request): Body<SetVolumeJournal>,
) -> Answered<Json<VolumeJournalChanged>> {
    Ok(Json(engine.set_volume_journal(format!("{pool}/{volume}"), request).await?))
}

/// Switches the change journal of a volume off. Its records are gone.
#[utoipa::path(delete, path = "/volumes/{pool}/{volume}/journal", tag = "volumes", operation_id = "volume_journal_remove",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Confirm),
    responses((status = 200, body = VolumeJournalChanged, description = "There is none any more."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn remove(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(query): InQuery<Confirm>,
) -> Answered<Json<VolumeJournalChanged>> {
    Ok(Json(engine.remove_volume_journal(format!("{pool}/{volume}"), query.confirm).await?))
}

/// Where a reader is.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// The journal that was read before; the one that there is if it is left out.
    id: Option<String>,
    /// The position from which to read; the first one that there is if it is left out.
    from: Option<u64>,
    /// Records, at most; 1000 if left out, which is the most.
    most: Option<usize>,
}

/// Reads records of the change journal of a volume. What is answered is durable.
#[utoipa::path(get, path = "/volumes/{pool}/{volume}/journal/entries", tag = "volumes", operation_id = "volume_journal_read",
    params(("pool" = String, Path, description = "Name of the pool."), ("volume" = String, Path, description = "Name of the volume."), Asked),
    responses((status = 200, body = JournalEntries, description = "The records, and whether any before them are gone."),
        (status = "default", body = ErrorBody, description = "Refused or failed; not-found if there is no journal.")))]
pub(crate) async fn read(
    engine: OnEngine,
    InPath((pool, volume)): InPath<(String, String)>,
    InQuery(Asked { id, from, most }): InQuery<Asked>,
) -> Answered<Json<JournalEntries>> {
    let path = format!("{pool}/{volume}");
    let id = id.map(|id| id.parse()).transpose().map_err(|_| {
        ApiError::invalid(format!("volume {path}"), "this is the id of no journal", "repeat with the id of an answer")
            .at("id")
    })?;
    let asked = JournalAsked { id, from, most };
    Ok(Json(engine.volume_journal_entries(&path, asked).await?))
}
