//! The locating light of a disk's slot, switched by `ledctl`.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use holdfast_api::{Changed, DiskRef};
use holdfast_model::DiskState;

use crate::engine::Engine;
use crate::error::{ApiResult, conflict, not_found, system};
use crate::tools;

const TIMEOUT: Duration = Duration::from_secs(20);
const MOST_BYTES: u64 = 64 << 10;

impl Engine {
    /// Switches the locating light of a disk's slot on or off.
    ///
    /// # Errors
    /// If there is no such disk, or `ledctl` is missing or refuses.
    pub async fn locate_disk(&self, disk: &str, on: bool) -> ApiResult<Changed> {
        let disk = DiskRef::new(disk);
        let path = self.resolve(&disk).await?;
        let object = format!("disk {disk}");
        if !Path::new(&path).exists() {
            return Err(not_found(object, "a missing disk has no locate LED: find it by its enclosure and slot"));
        }
        self.check_still_at(&disk, &path).await?;
        let order = format!("{}={path}", if on { "locate" } else { "locate_off" });
        let printed = tools::run(&self.settings.ledctl, &[&order], TIMEOUT, MOST_BYTES).await.map_err(|error| {
            match error.kind() {
                ErrorKind::NotFound => conflict(
                    &object,
                    "the locate LED needs ledctl, which is not installed",
                    "install the package ledmon",
                ),
                _ => system(&object, "running ledctl", &error),
            }
        })?;
        if !printed.success {
            let why = if printed.errors.is_empty() { "without a message".into() } else { printed.errors };
            let next = "check that ledctl supports its enclosure";
            return Err(conflict(object, format!("ledctl failed: {why}"), next));
        }
        let state = if on { "on" } else { "off" };
        Ok(Changed { changed: true, message: format!("the locate LED of {object} is {state}") })
    }

    /// Refuses the path where a member of a pool that is out of service was seen last, unless it is still there: the
    /// light of the slot could be another disk's by now.
    async fn check_still_at(&self, disk: &DiskRef, path: &str) -> ApiResult<()> {
        let Some((open, id)) = self.member(disk, path) else { return Ok(()) };
        let Some(record) = open.pool.disk_record(id).filter(|record| record.state != DiskState::Online) else {
            return Ok(());
        };
        let held = open.disks().get(&id).cloned();
        let is_held = held.is_some_and(|device| device.path() == Path::new(path) && device.still_there());
        let is_told = || async {
            self.probe(path).await.is_ok_and(|facts| facts.serial.is_some_and(|told| told == record.serial))
        };
        if is_held || is_told().await {
            return Ok(());
        }
        let place = record.place.as_ref().map_or_else(
            || "its enclosure and slot are not known".into(),
            |place| format!("it was in slot {} of enclosure {}", place.slot, place.enclosure),
        );
        let message = format!("it is out of service, and the disk at {path} may be another one now");
        Err(conflict(format!("disk {disk}"), message, format!("look for serial number {:?}; {place}", record.serial)))
    }
}
