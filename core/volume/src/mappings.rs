//! What is known of where files lie: extents that were looked up, kept with the files that are open.
//!
//! ```text
//!   block ─▶ parts that are kept ─▶ else its leaf: the extents that are asked for
//!                                      └── asked twice in a row: all that it has, kept
//! ```
//!
//! A file with few extents is one leaf's, and is known as a whole from the second look on. Reads that jump about in one
//! of many leaves take a few entries of a leaf each, and neither read nor keep what they do not need.
//!
//! Invariant: a file keeps [`MOST_PARTS`] leaves at most, all files together [`MOST_EXTENTS`] extents and one leaf; what
//! is kept is forgotten when the extents of the file change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::VolumeError;
use crate::extent::Extent;
use crate::extents::{self, MAIN};
use crate::keys;
use crate::open_files::File;
use crate::page::Page;
use crate::store::held;
use crate::volume::Volume;

/// Leaves that are kept for a file.
const MOST_PARTS: usize = 4;
/// Extents that are kept for all files together: 40 MiB.
const MOST_EXTENTS: usize = 1 << 20;

/// Checksums that take as much memory as an extent.
const SUMS_OF_EXTENT: usize = 8;

/// Extents of a part of a file, in order; what none of them covers is a hole.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The first block that it knows about.
    pub from: u64,
    /// The block behind the last one.
    pub to: u64,
    /// Each with the block of the file that it begins at.
    pub extents: Vec<(u64, Extent)>,
}

impl Mapping {
    /// What its memory counts for, in extents without checksums.
    fn weight(&self) -> usize {
        let sums = self.extents.iter().filter_map(|(_, extent)| extent.sums.as_ref());
        self.extents.len() + sums.map(|sums| 1 + sums.len() as usize / SUMS_OF_EXTENT).sum::<usize>()
    }
}

/// A mapping that is kept, and counted as long as anybody has it.
#[derive(Debug)]
struct Kept {
    mapping: Arc<Mapping>,
    count: Arc<AtomicUsize>,
}

impl Kept {
    fn new(mapping: Arc<Mapping>, count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(mapping.weight(), Ordering::Relaxed);
        Self { mapping, count: count.clone() }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.count.fetch_sub(self.mapping.weight(), Ordering::Relaxed);
    }
}

/// What is known of one file.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    parts: Vec<Kept>,
    /// The part that the next one takes the place of, once there are as many as may be.
    oldest: usize,
    /// The leaf that was looked into last.
    looked_into: Option<u64>,
}

impl Mappings {
    fn find(&self, block: u64) -> Option<&Arc<Mapping>> {
        let has = |part: &&Kept| (part.mapping.from..part.mapping.to).contains(&block);
        self.parts.iter().find(has).map(|part| &part.mapping)
    }

    fn keep(&mut self, part: Kept) {
        if self.parts.len() < MOST_PARTS {
            self.parts.push(part);
        } else {
            self.parts[self.oldest] = part;
            self.oldest = (self.oldest + 1) % MOST_PARTS;
        }
    }
}

/// What one leaf says of a file.
struct Shown {
    mapping: Mapping,
    /// What the leaf is known by: the end of its first extent of the file.
    leaf: Option<u64>,
    is_whole: bool,
    /// Where the next leaf begins, if this one has nothing behind the block that is asked for.
    next: Option<Vec<u8>>,
}

impl Volume {
    /// What lies at a block, and around it as far as its leaf knows.
    pub(crate) async fn mapping(&self, file: &File, block: u64) -> Result<Arc<Mapping>, VolumeError> {
        self.mapping_until(file, block, u64::MAX).await
    }

    /// What lies at a block, and behind it up to `until` as far as its leaf knows.
    pub(crate) async fn mapping_until(&self, file: &File, block: u64, until: u64) -> Result<Arc<Mapping>, VolumeError> {
        let known = held(&file.state).mapping.as_ref().and_then(|known| known.find(block)).cloned();
        match known {
            Some(mapping) => Ok(mapping),
            None => Box::pin(self.look_up(file, block, until)).await,
        }
    }

    async fn look_up(&self, file: &File, block: u64, until: u64) -> Result<Arc<Mapping>, VolumeError> {
        let (number, shard) = (file.id.number, keys::shard(file.id.number));
        let prefix = keys::extents(number, MAIN);
        let before = held(&file.state).mapping.as_ref().and_then(|known| known.looked_into);
        let look = self.store.look([shard], |view| {
            let mut key = keys::extent(number, MAIN, block + 1);
            loop {
                let shown = view.leaf(shard, &key, |leaf| self.show(leaf, &prefix, &key, (block, until), before))?;
                let Some(shown) = shown.transpose()? else {
                    let mapping = Mapping { from: block, to: u64::MAX, extents: Vec::new() };
                    return Ok(Shown { mapping, leaf: None, is_whole: true, next: None });
                };
                match shown.next {
                    Some(next) => key = next,
                    None => return Ok(shown),
                }
            }
        });
        let mut shown = look.await?;
        if shown.is_whole {
            shown.mapping.extents.shrink_to_fit();
        }
        let mapping = Arc::new(shown.mapping);
        let count = &self.open.mapped;
        if shown.is_whole && count.load(Ordering::Relaxed) >= MOST_EXTENTS {
            self.open.all().iter().for_each(|file| held(&file.state).mapping = None);
        }
        let mut state = held(&file.state);
        let known = state.mapping.get_or_insert_default();
        known.looked_into = shown.leaf;
        if shown.is_whole {
            known.keep(Kept::new(mapping.clone(), count));
        }
        Ok(mapping)
    }

    /// Reads of a leaf what lies between two blocks, the first of which `key` is behind; or all that it has of the file,
    /// if it is the leaf `before` or all is asked for.
    fn show(
        &self,
        leaf: &Page,
        prefix: &[u8],
        key: &[u8],
        (block, until): (u64, u64),
        before: Option<u64>,
    ) -> Result<Shown, VolumeError> {
        let place = |key: &[u8]| leaf.find(key).unwrap_or_else(|next| next);
        let (start, first) = (place(prefix), place(key));
        let id = (start < leaf.count()).then(|| keys::number(leaf.key(start), 13)).flatten();
        if until == u64::MAX || id.is_some() && id == before {
            // What is wrong elsewhere in the leaf is for those to say who ask for that.
            if let Ok((extents, is_end)) = self.read_extents(leaf, start, prefix, u64::MAX) {
                let behind = extents.partition_point(|(start, extent)| start + u64::from(extent.blocks) <= block);
                if behind < extents.len() || is_end {
                    let from = extents.first().map_or(block, |(start, _)| block.min(*start));
                    return Ok(Shown::of(extents, from, is_end, id, true));
                }
            }
        }
        let (extents, is_end) = self.read_extents(leaf, first, prefix, until)?;
        let next = if extents.is_empty() && !is_end { leaf.high().map(<[u8]>::to_vec) } else { None };
        Ok(Shown { next, ..Shown::of(extents, block, is_end, id, false) })
    }

    /// Extents of a leaf from an entry on, until one reaches `until`; and whether the file has none behind them.
    fn read_extents(
        &self,
        leaf: &Page,
        first: usize,
        prefix: &[u8],
        until: u64,
    ) -> Result<(Vec<(u64, Extent)>, bool), VolumeError> {
        let mut extents = Vec::new();
        for index in first..leaf.count() {
            let (key, value) = leaf.entry(index);
            if !key.starts_with(prefix) {
                return Ok((extents, true));
            }
            let (start, extent) = extents::decode(key, value)?;
            // What lies where no data can be is nobody's to read, and must not be written over.
            let is_data = self.store.is_data(extent.place, extent.blocks);
            let end = start + u64::from(extent.blocks);
            extents.push((start, if is_data { extent } else { extent.lost() }));
            if end >= until {
                return Ok((extents, false));
            }
        }
        Ok((extents, leaf.high().is_none_or(|high| !high.starts_with(prefix))))
    }
}

impl Shown {
    fn of(extents: Vec<(u64, Extent)>, from: u64, is_end: bool, leaf: Option<u64>, is_whole: bool) -> Self {
        let last = extents.last().map(|(start, extent)| start + u64::from(extent.blocks));
        let to = if is_end { u64::MAX } else { last.unwrap_or(u64::MAX) };
        Self { mapping: Mapping { from, to, extents }, leaf, is_whole, next: None }
    }
}

#[cfg(test)]
mod tests {
    use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
    use holdfast_device::{Device, IoSlice};
    use holdfast_model::{BLOCK_BYTES, Uuid};

    use super::*;
    use crate::extents::{Ground, Piece};
    use crate::service::{Allocate, Caller, FileKind, FileService, NewFile, OpenMode, Time};
    use crate::store::{Format, Settings};
    use crate::volume::{VolumeFormat, WallClock};

    /// Blocks of the file, each an extent but for every seventh, which is a hole.
    const BLOCKS: u64 = 4000;
    /// A number without common divisors with that, so that all blocks are written once, none behind the one before.
    const STRIDE: u64 = 1579;

    const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
    const MODE: OpenMode = OpenMode { read: true, write: true, truncate: false };

    /// Runs a test on a new volume.
    fn with(test: impl AsyncFnOnce(Volume) + 'static) {
        let sim = Sim::new(1);
        let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
        sim.run(async move { test(volume(disk).await).await }).expect("powered");
    }

    async fn volume(disk: Arc<dyn Device>) -> Volume {
        let store = Format { volume: Uuid::from_u128(5), log_bytes: None };
        let format = VolumeFormat { store, secret: [3; 16], owner: (0, 0), is_case_sensitive: false, mode: 0o755 };
        Volume::format(&disk, format, Time::default()).await.expect("formatted");
        let clock: WallClock = Arc::new(Time::default);
        Volume::open(disk, Settings { delayed_bytes: 0, ..Settings::default() }, clock).await.expect("it opens")
    }

    fn is_hole(block: u64) -> bool {
        block % 7 == 3
    }

    fn bytes(block: u64) -> Vec<u8> {
        if is_hole(block) {
            vec![0; BLOCK_BYTES as usize]
        } else {
            block.to_le_bytes().repeat(BLOCK_BYTES as usize / 8)
        }
    }

    #[test]
    fn a_file_of_many_leaves_is_read_in_any_order_and_little_is_kept() {
        with(async |volume| {
            let caller = Caller::default();
            let id = volume.create(&caller, volume.root(), b"file", &NEW).await.expect("created").id;
            let handle = volume.open(&caller, id, MODE).await.expect("opened");
            for block in (0..BLOCKS).map(|step| step * STRIDE % BLOCKS).filter(|block| !is_hole(*block)) {
                let data = IoSlice::padded(&bytes(block));
                volume.write(&handle, block * BLOCK_BYTES, data, BLOCK_BYTES as usize).await.expect("written");
            }
            let file = &*handle.file;
            let kept = || {
                let state = held(&file.state);
                state.mapping.as_ref().map_or(0, |known| known.parts.len())
            };
            let counted = || volume.open.mapped.load(Ordering::Relaxed);

            let narrow = volume.mapping_until(file, 2001, 2002).await.expect("known");
            assert_eq!(narrow.extents.len(), 1, "no more is read than is asked for");
            assert_eq!(kept(), 0);
            let whole = volume.mapping_until(file, 2010, 2011).await.expect("known");
            assert!(whole.extents.len() > 50 && whole.from < 2001, "{} from {}", whole.extents.len(), whole.from);
            assert_eq!((kept(), counted()), (1, whole.extents.len()));
            assert!(Arc::ptr_eq(&whole, &volume.mapping_until(file, 2001, 2002).await.expect("known")));

            for round in 0..3u64 {
                for step in 0..BLOCKS {
                    // In steps that stay in a leaf for some time, back and forth, and all over the file.
                    let block = [step, BLOCKS - 1 - step, step * STRIDE % BLOCKS][round as usize];
                    let read = volume.read(&handle, block * BLOCK_BYTES, BLOCK_BYTES as usize).await.expect("read");
                    assert!(read.to_vec() == bytes(block), "block {block}");
                }
                assert_eq!(kept(), MOST_PARTS);
            }
            let all = volume.pieces(file, 0, BLOCKS).await.expect("known");
            let holes = all.iter().filter(|piece| piece.ground == Ground::Hole).count() as u64;
            assert_eq!(holes, (0..BLOCKS).filter(|block| is_hole(*block)).count() as u64);
            let behind = |at, piece: &Piece| (piece.block == at).then_some(at + piece.blocks);
            assert_eq!(all.iter().try_fold(0, behind), Some(BLOCKS), "without a gap");

            volume.allocate(&handle, 2000 * BLOCK_BYTES, 20 * BLOCK_BYTES, Allocate::Punch).await.expect("punched");
            assert_eq!((kept(), counted()), (0, 0), "what changed is not known any more");
            for block in 2000..2020 {
                let read = volume.read(&handle, block * BLOCK_BYTES, BLOCK_BYTES as usize).await.expect("read");
                assert!(read.to_vec().iter().all(|byte| *byte == 0), "block {block}");
            }
            volume.mapping(file, 0).await.expect("known");
            assert!(counted() > 0);
            volume.close(handle).await.expect("closed");
            assert_eq!(counted(), 0, "nothing is kept of a file that is not open");
        });
    }

    #[test]
    fn all_files_together_keep_no_more_than_may_be() {
        with(async |volume| {
            let caller = Caller::default();
            let mut handles = Vec::new();
            for name in [b"one", b"two"] {
                let id = volume.create(&caller, volume.root(), name, &NEW).await.expect("created").id;
                let handle = volume.open(&caller, id, MODE).await.expect("opened");
                let data = IoSlice::padded(&[7; BLOCK_BYTES as usize]);
                volume.write(&handle, 0, data, BLOCK_BYTES as usize).await.expect("written");
                handles.push(handle);
            }
            let known = |at: usize| held(&handles[at].file.state).mapping.as_ref().map_or(0, |known| known.parts.len());
            volume.mapping(&handles[0].file, 0).await.expect("known");
            assert_eq!(known(0), 1);
            volume.open.mapped.fetch_add(MOST_EXTENTS, Ordering::Relaxed);
            volume.mapping(&handles[1].file, 0).await.expect("known");
            assert_eq!((known(0), known(1)), (0, 1), "the others make room");
        });
    }
}
