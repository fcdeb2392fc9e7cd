//! The locating light of a disk's slot, switched by `ledctl`.

use std::io::ErrorKind;
use std::time::Duration;

use holdfast_api::{ApiError, Changed, Code, DiskRef};

use crate::engine::Engine;
use crate::error::{Answer, not_found, system};
use crate::tools;

const TIMEOUT: Duration = Duration::from_secs(20);
const MOST_BYTES: u64 = 64 << 10;

impl Engine {
    /// Switches the locating light of a disk's slot on or off.
    ///
    /// # Errors
    /// If there is no such disk, or `ledctl` is missing or refuses.
    pub async fn locate_disk(&self, disk: &str, on: bool) -> Answer<Changed> {
        let disk = DiskRef::new(disk);
        let path = self.resolve(&disk).await?;
        let object = format!("disk {disk}");
        if !std::path::Path::new(&path).exists() {
            return Err(not_found(object, "the light of a disk that is away cannot be switched: see its enclosure and slot"));
        }
        let order = format!("{}={path}", if on { "locate" } else { "locate_off" });
        let printed =
            tools::run(&self.settings.ledctl, &[&order], TIMEOUT, MOST_BYTES).await.map_err(|error| match error.kind() {
                ErrorKind::NotFound => ApiError::new(
                    Code::Failed,
                    &object,
                    "its light is switched by ledctl, which is not there",
                    "install the package ledmon",
                ),
                _ => system(&object, "running ledctl", &error),
            })?;
        if !printed.success {
            let why = if printed.errors.is_empty() { "it says nothing more".into() } else { printed.errors };
            let next = "look whether its enclosure has lights that ledctl can switch";
            return Err(ApiError::new(Code::Failed, object, format!("ledctl did not switch its light: {why}"), next));
        }
        let state = if on { "on" } else { "off" };
        Ok(Changed { changed: true, message: format!("the light of {object} is {state}") })
    }
}
