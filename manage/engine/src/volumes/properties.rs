//! Properties of a volume that can be changed while it is in use.

use std::sync::Arc;

use holdfast_api::{ModeChange, SetVolume, VolumeChanged};

use super::from_volume;
use crate::engine::Engine;
use crate::error::ApiResult;

/// As answers tell it.
pub(super) fn mode_change(is: holdfast_identity::ModeChange) -> ModeChange {
    match is {
        holdfast_identity::ModeChange::Mask => ModeChange::Mask,
        holdfast_identity::ModeChange::Discard => ModeChange::Discard,
        holdfast_identity::ModeChange::Refuse => ModeChange::Refuse,
    }
}

fn asked(to: ModeChange) -> holdfast_identity::ModeChange {
    match to {
        ModeChange::Mask => holdfast_identity::ModeChange::Mask,
        ModeChange::Discard => holdfast_identity::ModeChange::Discard,
        ModeChange::Refuse => holdfast_identity::ModeChange::Refuse,
    }
}

impl Engine {
    /// Changes properties of a volume.
    ///
    /// # Errors
    /// If there is no such volume, it is not open, or there is no room.
    pub async fn set_volume(self: &Arc<Self>, path: String, request: SetVolume) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move {
            let (open, name, object) = engine.volume_at(&path)?;
            let (known, volume) = open.open_volume_named(&name, &object)?;
            let mut changed = false;
            if let Some(to) = request.mode_change {
                let set = engine.on_reactor(move || async move { volume.set_mode_change(asked(to)).await }).await?;
                changed = set.map_err(|error| from_volume(object, &error))?;
                if changed {
                    let word = holdfast_api::word(&to);
                    engine.note(&open.volume_object(&known), &format!("mode change set to {word}"));
                }
            }
            Ok(VolumeChanged { changed, volume: engine.volume(&path)? })
        })
        .await
    }
}
