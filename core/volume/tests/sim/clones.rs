//! Ranges and whole files cloned beside everything else that happens to files, from files and from snapshots: what one file
//! does is never seen in another, whenever power is cut, and when all is removed all room is there again.

use std::rc::Rc;

use holdfast_volume::service::{Caller, FileId, FileService};
use holdfast_volume::{ErrorKind, Volume, VolumeError};

use crate::files::Life;
use crate::model::{BLOCK, Files};

/// A range of a source of so many bytes, and where in a target of so many it goes: in bytes.
struct Drawn {
    from: usize,
    to: usize,
    len: usize,
}

impl Life<'_> {
    /// A range that can be cloned, perhaps all of the source.
    fn range(&self, source: usize, target: usize) -> Drawn {
        let blocks = source.div_ceil(BLOCK);
        let from = if self.random.chance(1, 3) { 0 } else { self.random.range(0..=blocks) };
        let count = if self.random.chance(1, 3) { blocks - from } else { self.random.range(0..=blocks - from) };
        let to = match self.random.range(0..3u32) {
            0 => 0,
            1 => self.random.range(0..=target.div_ceil(BLOCK)),
            _ => self.random.range(0..target.div_ceil(BLOCK) + 6),
        };
        let len = (count * BLOCK).min(source.saturating_sub(from * BLOCK));
        Drawn { from: if len == 0 { 0 } else { from * BLOCK }, to: to * BLOCK, len }
    }

    /// What a target holds that gets a range.
    fn with_range(old: &[u8], source: &[u8], range: &Drawn) -> Vec<u8> {
        let mut new = old.to_vec();
        if range.len > 0 {
            new.resize(new.len().max(range.to + range.len), 0);
            new[range.to..range.to + range.len].copy_from_slice(&source[range.from..range.from + range.len]);
        }
        new
    }

    /// Something that has files share blocks.
    pub async fn clone_something(&self) {
        match self.random.range(0..8u32) {
            0..4 => self.clone_range().await,
            4..6 => self.copy().await,
            _ => self.restore().await,
        }
    }

    async fn clone_range(&self) {
        let files = self.files();
        let (Some(source), Some(target)) = (self.file(&files), self.file(&files)) else { return };
        let (data, old) = (files.nodes[&source.number].data.clone(), files.nodes[&target.number].data.clone());
        let range = self.range(data.len(), old.len());
        let (from, to) = (self.open(source).await, self.open(target).await);
        let cloning = self.volume.clone_range((&from, range.from as u64), (&to, range.to as u64), range.len as u64);
        let overlaps = source == target && range.from.abs_diff(range.to) < range.len;
        let ends_within = !range.len.is_multiple_of(BLOCK) && range.to + range.len < old.len();
        if overlaps || ends_within {
            assert_eq!(cloning.await.expect_err("it is no such range").kind, ErrorKind::Invalid);
        } else {
            self.give(files, target, Self::with_range(&old, &data, &range), cloning).await;
        }
        self.volume.close(from).await.expect("it can be closed");
        self.volume.close(to).await.expect("it can be closed");
    }

    async fn copy(&self) {
        let files = self.files();
        let (Some(source), Some(target)) = (self.file(&files), self.file(&files)) else { return };
        let (data, old) = (files.nodes[&source.number].data.clone(), files.nodes[&target.number].data.clone());
        let mut range = self.range(data.len(), old.len());
        let skip = self.random.range(0..BLOCK).min(range.len);
        (range.from, range.to, range.len) = (range.from + skip, range.to + skip, range.len - skip);
        range.len = self.random.range(0..=range.len);
        range.to += if self.random.chance(1, 4) { self.random.range(0..BLOCK) } else { 0 };
        let (from, to) = (self.open(source).await, self.open(target).await);
        let copying = async {
            let (from, to) = ((&from, range.from as u64), (&to, range.to as u64));
            let count = self.volume.copy(from, to, range.len as u64).await?;
            // Whoever asks for the rest is told why not.
            if count == range.len as u64 { Ok(()) } else { Err(VolumeError::new(ErrorKind::NoSpace, "the rest")) }
        };
        if source == target && range.from.abs_diff(range.to) < range.len {
            assert_eq!(copying.await.expect_err("it is no such range").kind, ErrorKind::Invalid);
        } else {
            self.give(files, target, Self::with_range(&old, &data, &range), copying).await;
        }
        self.volume.close(from).await.expect("it can be closed");
        self.volume.close(to).await.expect("it can be closed");
    }

    /// A file gets what one of a snapshot has, perhaps the same file.
    async fn restore(&self) {
        let files = self.files();
        let snapshots: Vec<(String, Files)> = self.model.borrow().snapshots.clone().into_iter().collect();
        let Some((name, past)) = self.random.pick(&snapshots).cloned() else { return };
        let Some(source) = self.file(&past) else { return };
        let same = files.nodes.get(&source.number).map(|node| node.id).filter(|_| self.random.chance(1, 2));
        let Some(target) = same.or_else(|| self.file(&files)) else { return };
        let (data, old) = (past.nodes[&source.number].data.clone(), files.nodes[&target.number].data.clone());
        let mut range = self.range(data.len(), old.len());
        if self.random.chance(1, 3) {
            range.to = range.from;
        }
        let to = self.open(target).await;
        let from = (name.as_str(), source, range.from as u64);
        let caller = Caller::default();
        let restoring = self.volume.clone_from_snapshot(&caller, from, (&to, range.to as u64), range.len as u64);
        if !range.len.is_multiple_of(BLOCK) && range.to + range.len < old.len() {
            assert_eq!(restoring.await.expect_err("it is no such range").kind, ErrorKind::Invalid);
        } else {
            self.give(files, target, Self::with_range(&old, &data, &range), restoring).await;
        }
        self.volume.close(to).await.expect("it can be closed");
    }

    async fn give(
        &self,
        mut next: Files,
        target: FileId,
        new: Vec<u8>,
        operation: impl Future<Output = Result<(), VolumeError>>,
    ) {
        next.nodes.get_mut(&target.number).expect("it is there").data = Rc::new(new);
        self.change_in_part(target, next, operation).await;
    }
}

/// After all files and snapshots were removed, nobody has any block.
pub async fn check_empty(volume: &Volume) {
    volume.checkpoint().await.expect("it lasts");
    let plan = volume.plan_shrink(0).await.expect("planned");
    assert_eq!(plan.data_bytes, 0, "all room is there again");
    assert_eq!(volume.scan().await, Ok(Vec::new()), "after all was removed");
}
