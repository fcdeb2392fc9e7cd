//! A volume that takes more of its device.
//!
//! ```text
//!   root and superblock at the new end ─▶ superblock of the second group ─▶ superblock of the first: from here on it has grown
//! ```
//!
//! Invariant: whenever power fails, the volume is found as it was, or grown; never with a group that is missing.

use std::sync::atomic::Ordering;

use holdfast_device::{Durability, IoBuf};
use holdfast_model::ByteSize;

use crate::error::{ErrorKind, VolumeError};
use crate::store::Store;
use crate::superblock::{GROUP_BYTES, Root, Superblock};
use crate::volume::Volume;

impl Store {
    /// Takes the first `size_bytes` of the device in use; false if that is what it has.
    pub(crate) async fn grow(&self, size_bytes: u64) -> Result<bool, VolumeError> {
        self.check_failed()?;
        // No root is written meanwhile.
        let newest = self.checkpoint.lock().await;
        let before = self.superblock();
        let size_bytes = size_bytes / GROUP_BYTES * GROUP_BYTES;
        let refuse = |why: String| Err(VolumeError::new(ErrorKind::Invalid, why));
        if size_bytes < before.size_bytes {
            let (has, wanted) = (ByteSize(before.size_bytes), ByteSize(size_bytes));
            return refuse(format!("it has {has} and cannot grow to {wanted}"));
        }
        let device = ByteSize(self.device.geometry().size_bytes);
        if size_bytes > device.0 {
            return refuse(format!("it cannot have {}: its space has {device}", ByteSize(size_bytes)));
        }
        if size_bytes == before.size_bytes {
            return Ok(false);
        }
        let after = Superblock { size_bytes, ..before };
        // A thin space that has no room for it changes nothing.
        let [.., third] = after.groups();
        self.wipe_group(third).await?;
        // Part of it may be there: what else is written must not guess.
        self.write_groups(&newest.root, &after).await.map_err(|error| self.fail(error))?;
        self.size_bytes.store(size_bytes, Ordering::Release);
        Ok(true)
    }

    /// Has a group hold nothing that could be believed.
    pub(crate) async fn wipe_group(&self, at: u64) -> Result<(), VolumeError> {
        let nothing = IoBuf::zeroed(GROUP_BYTES as usize).freeze();
        Ok(self.device.write(at, nothing, Durability::Durable).await?)
    }

    /// Has the superblocks say another size, the first one last. The group at the new end holds nothing yet.
    pub(crate) async fn write_groups(&self, root: &Root, after: &Superblock) -> Result<(), VolumeError> {
        let [first, second, third] = after.groups();
        self.device.write(third + root.slot(), root.seal(self.volume()), Durability::Durable).await?;
        for at in [third, second, first] {
            self.device.write(at, after.seal(), Durability::Durable).await?;
        }
        Ok(())
    }
}

impl Volume {
    /// Takes the first `size_bytes` of the device in use, while files are; false if the volume has that already.
    ///
    /// # Errors
    /// It would become smaller, the device is not as large, another change of the size is under way, or the device
    /// failed.
    pub async fn grow(&self, size_bytes: u64) -> Result<bool, VolumeError> {
        let _one = self.try_resize()?;
        let grown = self.store.grow(size_bytes).await?;
        if self.unfinished_shrink().is_some() {
            self.note_shrink(None).await?;
        }
        Ok(grown)
    }

    /// One change of the size at a time.
    pub(crate) fn try_resize(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, VolumeError> {
        let busy = |_| VolumeError::new(ErrorKind::Busy, format!("volume {} is being resized already", self.id()));
        self.resizing.try_lock().map_err(busy)
    }
}
