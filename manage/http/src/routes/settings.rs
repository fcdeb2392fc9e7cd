//! How management is served, and the settings that are changed while the daemon runs.

use axum::Json;
use axum::extract::State;
use holdfast_api::{ErrorBody, ServerSettings, SetSettings, SettingsChanged};

use crate::api::Api;
use crate::refusal::{Answered, Body};

fn settings(api: &Api) -> ServerSettings {
    let network = api.network.get();
    let settings = api.access.settings();
    ServerSettings {
        preferences: api.engine.preferences(),
        https: network.map(|network| network.addresses.iter().map(ToString::to_string).collect()).unwrap_or_default(),
        certificate: network.map(|network| network.tls.shown()),
        session_idle_seconds: settings.session_idle.as_secs(),
        session_seconds: settings.session_life.as_secs(),
        state_folder: api.engine.state_folder().display().to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// Shows the settings, and how management is served.
#[utoipa::path(get, path = "/settings", tag = "access", operation_id = "settings_show",
    responses((status = 200, body = ServerSettings, description = "How it is."),
        (status = "default", body = ErrorBody, description = "Refused or failed.")))]
pub(crate) async fn show(State(api): State<Api>) -> Json<ServerSettings> {
    Json(settings(&api))
}

/// Changes settings; they hold at once, and over restarts.
#[utoipa::path(patch, path = "/settings", tag = "access", operation_id = "settings_set", request_body = SetSettings,
    responses((status = 200, body = SettingsChanged, description = "The settings as they are now."),
        (status = "default", body = ErrorBody, description = "Refused or failed; nothing was changed.")))]
pub(crate) async fn set(State(api): State<Api>, Body(request): Body<SetSettings>) -> Answered<Json<SettingsChanged>> {
    let changed = api.engine.set_preferences(request).await?;
    Ok(Json(SettingsChanged { changed, settings: settings(&api) }))
}
