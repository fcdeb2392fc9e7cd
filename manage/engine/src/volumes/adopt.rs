//! Volumes that lie on a space and that their pool does not know, as after a salvage of the pool.
//!
//! Invariant: nothing is formatted; a space that has no volume is refused.

use std::sync::Arc;

use holdfast_api::{AdoptVolume, VolumeChanged};
use holdfast_device::Device;
use holdfast_volume::{Settings, Volume, VolumeError};

use super::known::{KnownVolume, Stage};
use super::{claim, from_volume, parse_volume, wall_clock};
use crate::engine::Engine;
use crate::error::{ApiResult, conflict, exists_with};
use crate::spaces::parse_path;

impl Engine {
    /// Takes up the volume that lies on a space, under a name. The space stays when the volume is destroyed.
    ///
    /// # Errors
    /// If the name is another volume's, or there is no volume on the space; nothing is changed then.
    pub async fn adopt_volume(self: &Arc<Self>, path: String, request: AdoptVolume) -> ApiResult<VolumeChanged> {
        self.change(move |engine| async move { engine.take_up(&path, &request).await }).await
    }

    async fn take_up(&self, path: &str, request: &AdoptVolume) -> ApiResult<VolumeChanged> {
        let path = parse_volume(path)?;
        let object = format!("volume {path}");
        let on = parse_path(&request.on).map_err(|error| error.at("on"))?;
        if on.pool != path.pool {
            return Err(conflict(&object, format!("space {on} is of another pool"), "name it in its own pool").at("on"));
        }
        let open = self.pool_named(path.pool.as_str())?;
        let before = open.volumes().get(path.space.as_str()).map(|live| live.known.clone());
        if let Some(before) = before.as_ref().filter(|before| before.stage != Stage::Unreadable) {
            if before.on != on.space.as_str() {
                return Err(exists_with(&object, "space", format!("{}/{}", open.name(), before.on), on));
            }
            return Ok(VolumeChanged { changed: false, volume: self.volume(&path.to_string())? });
        }
        let name = path.space.to_string();
        let space = self.free_space(&open, &object, &on, Some(&name))?;
        let uuid = space.record().uuid;
        let claim = claim(&open, &space, &name, &object)?;
        let opened = self.on_reactor(move || async move {
            let device: Arc<dyn Device> = space;
            let volume = Volume::open(device, Settings::default(), wall_clock()).await?;
            let facts = (volume.id(), volume.is_case_sensitive());
            volume.shut_down().await?;
            Ok::<_, VolumeError>(facts)
        });
        let (id, case_sensitive) = opened.await?.map_err(|error| from_volume(&object, &error).at("on"))?;
        drop(claim);
        let known = KnownVolume {
            name,
            id,
            stage: Stage::Made,
            space: uuid,
            on: on.space.to_string(),
            owns_space: false,
            case_sensitive,
            mount: None,
            snapshot_rules: Vec::new(),
        };
        self.keep_volume(&open, &known).await?;
        self.note(&open.volume_object(&known), &format!("taken up from space {on}"));
        self.open_volume(&open, known).await;
        Ok(VolumeChanged { changed: true, volume: self.volume(&path.to_string())? })
    }
}
