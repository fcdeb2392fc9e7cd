//! A pool that gets the features which it does not use yet.
//!
//! Invariant: the labels of all disks in service name a feature before the configuration does.

use futures_util::future::join_all;

use crate::change::Change;
use crate::committer::Guard;
use crate::features::{Feature, Features};
use crate::label::Label;
use crate::pool::Pool;
use crate::promise::{Shown, label_disk, shown};
use crate::{PoolError, PoolErrorKind};

impl Pool {
    /// The features that it uses.
    pub fn features(&self) -> Features {
        self.state().config.features
    }

    /// Lets it use every feature that is known here: in the labels first, then in the configuration. An older version
    /// cannot import it any more. False if it does so already.
    ///
    /// # Errors
    /// A label that cannot be written, another import that has begun, no quorum. The features are not used then.
    pub async fn upgrade(&self) -> Result<bool, PoolError> {
        let _admin = self.admin.lock().await;
        let wanted = self.features().with(Features::known());
        if wanted == self.features() {
            return Ok(false);
        }
        self.check_open()?;
        {
            let committer = self.committer.lock().await;
            let disks: Vec<_> = committer.logs.keys().filter_map(|index| self.disk(*index)).collect();
            let writes =
                disks.iter().filter_map(|disk| Some((disk, disk.device()?))).map(|(disk, device)| async move {
                    let label = Label { features: wanted, ..self.own_label(disk.id, &disk.area) };
                    match shown(&device, &disk.area, &label).await {
                        Shown::Later(generation) => return Err(self.lose(generation).context),
                        Shown::Strange(why) => return Err(format!("disk {}: {why}", self.disk_label(disk.index))),
                        Shown::Own | Shown::Damaged => {}
                    }
                    let written = label_disk(&device, &disk.area, &label).await;
                    written.map_err(|error| {
                        format!("the label of disk {} was not written: {error}", self.disk_label(disk.index))
                    })
                });
            if let Some(Err(why)) = join_all(writes).await.into_iter().find(Result::is_err) {
                let why = format!("pool {} is not upgraded: {why}; check that disk and try again", self.name());
                return Err(PoolError::new(PoolErrorKind::Io, why));
            }
        }
        self.commit(vec![Change::Features(wanted)], Guard::None).await
    }

    /// Refuses what needs a feature that it does not use.
    pub(crate) fn check_feature(&self, what: &str, feature: Feature) -> Result<(), PoolError> {
        if self.features().has(feature) {
            return Ok(());
        }
        Err(PoolError::invalid(format!(
            "{what}: pool {} is of an older version and does not use the feature '{}': run 'holdfast pool upgrade {}' first",
            self.name(),
            feature.name(),
            self.name()
        )))
    }
}
