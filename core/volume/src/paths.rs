//! Where files are: all their names.
//!
//! Invariant: a name that is answered was the file's at one moment; several are not of the same moment.

use crate::error::VolumeError;
use crate::keys;
use crate::record::Link;
use crate::service::FileId;
use crate::volume::{Volume, record_of};

impl Volume {
    /// The paths of a file from the root on: one for each of its names, `most` at most.
    ///
    /// # Errors
    /// The file does not exist any more, a node is damaged, or the device failed.
    pub async fn paths_of(&self, file: FileId, most: usize) -> Result<Vec<Vec<u8>>, VolumeError> {
        let (shard, number) = (keys::shard(file.number), file.number);
        let links = self.store.look([shard], |view| {
            let mut links = vec![record_of(view, file)?.link];
            let prefix = keys::prefix(number, keys::kind::LINK);
            for (key, value) in view.range(shard, &prefix, &prefix, most.saturating_sub(1))? {
                links.push(Link::decode(number, keys::number(&key, 9).unwrap_or_default(), &value)?);
            }
            Ok(links)
        });
        let mut paths = Vec::new();
        for link in links.await?.into_iter().filter(|link| !link.name.is_empty()).take(most) {
            let above = FileId { number: link.parent, generation: link.parent_generation };
            let mut path = self.path_of(above).await?;
            if !path.ends_with(b"/") {
                path.push(b'/');
            }
            path.extend_from_slice(&link.name);
            paths.push(path);
        }
        Ok(paths)
    }
}
