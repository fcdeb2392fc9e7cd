//! Pools that are closed in good order, or destroyed.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_device::{Device, Durability, IoSlice};
use holdfast_model::BLOCK_BYTES;

use crate::area::Area;
use crate::change::Change;
use crate::committer::Guard;
use crate::pool::Pool;
use crate::refusal::Refusal;
use crate::scan::front_label;
use crate::{PoolError, PoolErrorKind};

/// Removes every trace of a pool from a disk: both labels, the sign of life, and the beginnings of both copies of both log halves.
pub async fn wipe(device: &Arc<dyn Device>) -> Result<(), PoolError> {
    let size_bytes = device.geometry().size_bytes;
    let labelled = front_label(device).await.map(|label| label.disk_bytes).filter(|labelled| *labelled < size_bytes);
    let mut offsets = BTreeSet::new();
    for size_bytes in labelled.into_iter().chain([size_bytes]) {
        let area = Area::of_disk("", size_bytes)?;
        offsets.extend(area.labels().into_iter().chain([area.sign_of_life()]).chain(area.log_heads()));
    }
    for offset in offsets {
        device.write(offset, IoSlice::padded(&[0; BLOCK_BYTES as usize]), Durability::Durable).await?;
    }
    Ok(())
}

impl Pool {
    /// Closes the pool in good order. Its spaces must be closed. Every later change is refused.
    pub async fn export(&self) -> Result<(), PoolError> {
        let _admin = self.admin.lock().await;
        self.commit(vec![Change::Closed], Guard::None).await?;
        self.inform_witness().await;
        let why = format!("pool {} is exported: import it first", self.name());
        self.refuse(Refusal { why, next_action: "", is_over: true, reopens: false });
        Ok(())
    }

    /// Wipes the labels and logs of all its disks in service. Its spaces must be closed.
    pub async fn destroy(&self) -> Result<(), PoolError> {
        let _admin = self.admin.lock().await;
        let _committer = self.committer.lock().await;
        let why = format!("pool {} is destroyed", self.name());
        self.refuse(Refusal { why, next_action: "", is_over: true, reopens: false });
        let mut failed = Vec::new();
        for disk in self.pool_disks().into_iter().filter(|disk| disk.in_service()) {
            if let Some(device) = disk.device()
                && let Err(error) = wipe(&device).await
            {
                failed.push(format!("{} ({error})", self.disk_label(disk.index)));
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => {
                let disks = failed.join(", ");
                Err(PoolError::new(
                    PoolErrorKind::Io,
                    format!("pool {} is destroyed, but these were not wiped: {disks}", self.name()),
                ))
            }
        }
    }
}
