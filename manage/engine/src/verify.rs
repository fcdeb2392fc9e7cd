//! Spaces compared with their copies or parity.

use std::collections::HashMap;

use holdfast_api::{Mismatch, Severity, SpaceVerified};
use holdfast_model::{ByteSize, Uuid, counted};

use crate::engine::Engine;
use crate::error::{ApiResult, from_io};
use crate::spaces::parse_path;

impl Engine {
    /// Compares all data of a space with their copies or parity, while it is in use. Mends nothing.
    ///
    /// # Errors
    /// If there is no such space, or a row of it cannot be looked at.
    pub async fn verify_space(&self, path: &str) -> ApiResult<SpaceVerified> {
        let path = parse_path(path)?;
        let (open, _, space) = self.space_at(&path)?;
        let object = open.space_object(&space.record());
        let verified = self.on_reactor(move || async move { space.verify().await }).await?;
        let verified = verified.map_err(|error| from_io(&object, error))?;
        let paths: HashMap<Uuid, String> =
            open.pool.disks().into_iter().map(|disk| (disk.record.id, disk.record.path)).collect();
        if verified.mismatched_blocks > 0 {
            let blocks = counted(verified.mismatched_blocks, "block does not match", "blocks do not match");
            let cause = format!("{blocks} their copies or parity");
            let next = format!("'holdfast space verify {path}' shows where; compare that data with a backup");
            self.events().emit(Severity::Error, &object, &cause, &next);
        } else {
            self.note(&object, &format!("verified, {} agree", ByteSize(verified.checked_bytes)));
        }
        let mismatches = verified.mismatches.into_iter().map(|found| Mismatch {
            offset_bytes: found.offset_bytes,
            piece: found.piece,
            disk: found.disk,
            path: paths.get(&found.disk).cloned().unwrap_or_default(),
            disk_offset_bytes: found.disk_offset_bytes,
            length_bytes: found.len_bytes,
        });
        Ok(SpaceVerified {
            name: path.to_string(),
            checked_bytes: verified.checked_bytes,
            unchecked_bytes: verified.unchecked_bytes,
            mismatched_blocks: verified.mismatched_blocks,
            mismatches: mismatches.collect(),
        })
    }
}
