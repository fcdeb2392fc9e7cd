//! Blocks of strict files that are right in no copy: told when they are found, and kept with the pool.
//!
//! ```text
//!   read or scrub finds one ─▶ look, every few seconds ─▶ event, document of the pool ─▶ condition of the volume
//!   scrub to its end: what it found, and those known that are lost still ─▶ document of the pool
//! ```
//!
//! Invariant: a volume that lost data does not look healthy until a whole scrub found that it has lost none any more, also
//! after a restart.

use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_api::{Condition, DamagedBlock, Severity};
use holdfast_model::{Integrity, Reason, Uuid, counted};
use holdfast_pool::{Pool, PoolError};
use holdfast_space::Space;
use holdfast_volume::{DamageOutcome, Volume, VolumeError};
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, OpenPool};
use crate::error::{ApiResult, from_pool};

/// What the names of documents begin with that tell what volumes lost.
const LOST: &str = "lost/";
/// Blocks that are kept of a volume, and that one look tells as events each, at most.
const MOST_KEPT: usize = 256;
const TOLD: usize = 5;

/// A block that is right in no copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LostBlock {
    file: u64,
    offset: u64,
    /// The checkpoint of the snapshot that has it, if the file has it no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    snapshot: Option<u64>,
}

impl LostBlock {
    /// One that was found, if it is lost.
    pub(crate) fn of(found: &holdfast_volume::DamagedBlock) -> Option<Self> {
        let is_lost = found.outcome == DamageOutcome::Lost;
        is_lost.then_some(Self { file: found.file, offset: found.offset, snapshot: found.snapshot })
    }

    /// Whether it still is, or may be.
    pub(crate) async fn is_still(&self, volume: &Volume) -> Result<bool, VolumeError> {
        volume.is_lost(self.snapshot, self.file, self.offset).await
    }

    fn words(&self) -> String {
        let whose = if self.snapshot.is_some() { "as a snapshot has it, " } else { "" };
        format!("file {}, {whose}at byte {}", self.file, self.offset)
    }
}

/// What is known of a volume's damage.
#[derive(Debug, Default)]
pub(crate) struct DamageWatch {
    /// Blocks that are lost, as far as is known.
    lost: BTreeSet<LostBlock>,
    /// Those of them that no event told of yet.
    untold: Vec<LostBlock>,
    /// Blocks that were put right, as far as was told: of strict files, and of metadata.
    healed: u64,
    mended: u64,
}

impl DamageWatch {
    /// What a pool keeps of it.
    pub(super) fn load(pool: &Pool, id: Uuid) -> Self {
        let text = pool.document(&key(id)).unwrap_or_default();
        let lost: BTreeSet<LostBlock> = serde_json::from_slice(&text).unwrap_or_default();
        Self { lost, ..Self::default() }
    }

    /// That data is lost.
    pub(super) fn condition(&self, name: &str) -> Option<Condition> {
        let first = self.lost.first()?;
        let count = self.lost.len();
        let least = if count == MOST_KEPT { "at least " } else { "" };
        let blocks = counted(count as u64, "block", "blocks");
        let cause = format!("lost {least}{blocks} of strict files, which are right in no copy: {}", first.words());
        let next = format!(
            "'holdfast volume damage {name}' lists them; restore these files from a snapshot or backup, then 'holdfast \
             volume scrub {name}'"
        );
        Some(Condition::new(cause, next).because(Reason::LostData))
    }

    /// Keeps a block as lost, if it is not known and room is left; answers whether.
    fn keep(&mut self, block: LostBlock) -> bool {
        self.lost.len() < MOST_KEPT && self.lost.insert(block)
    }

    /// Takes over what reads found.
    fn gather(&mut self, volume: &Volume) {
        for block in volume.take_damaged().iter().filter_map(LostBlock::of) {
            if self.keep(block) {
                self.untold.push(block);
            }
        }
    }

    /// What is new since the last look: blocks of strict files and of metadata that were put right, and blocks that are lost.
    fn news(&mut self, volume: &Volume) -> ([u64; 2], Vec<LostBlock>) {
        self.gather(volume);
        let (healed, mended) = (volume.checksum_counts().healed, volume.mended());
        let new_healed = healed - std::mem::replace(&mut self.healed, healed);
        let new_mended = mended.saturating_sub(std::mem::replace(&mut self.mended, mended));
        ([new_healed, new_mended], std::mem::take(&mut self.untold))
    }
}

fn key(id: Uuid) -> String {
    format!("{LOST}{id}")
}

impl OpenPool {
    /// Keeps what is known to be lost of a volume. On a reactor.
    async fn keep_lost(&self, id: Uuid) -> Result<(), PoolError> {
        let mut written = None;
        loop {
            let lost = self.volumes().values().find(|live| live.known.id == id).map(|live| live.damage.lost.clone());
            if lost == written {
                return Ok(());
            }
            let text = lost.as_ref().filter(|lost| !lost.is_empty()).and_then(|lost| serde_json::to_vec(lost).ok());
            self.pool.set_document(&key(id), text).await?;
            // Another one may have known more meanwhile, and come before.
            written = lost;
        }
    }

    /// Volumes on any of these spaces that has rows without checksums, or is being given some. On a reactor.
    pub(crate) fn volumes_on_bare(&self, spaces: &[Arc<Space>], is_converted: bool) -> Vec<Uuid> {
        let is_bare = |id: Uuid| {
            let record = spaces.iter().map(|space| space.record()).find(|record| record.uuid == id);
            // A conversion that was cut short leaves rows of both kinds.
            record.is_some_and(|record| {
                let mut rows = self.pool.rows(record.id).into_iter();
                is_converted
                    || record.shape.integrity == Integrity::None
                    || rows.any(|(_, row)| row.shape.integrity == Integrity::None)
            })
        };
        let volumes = self.volumes();
        volumes.values().filter(|live| is_bare(live.known.space)).map(|live| live.known.id).collect()
    }

    /// The volume of an id, if it is open and no job has taken it away. On a reactor.
    pub(crate) fn volume_in_use(&self, id: Uuid) -> Option<Arc<Volume>> {
        let volumes = self.volumes();
        let live = volumes.values().find(|live| live.known.id == id && !live.is_away)?;
        live.open.as_ref().map(|open| open.volume.clone())
    }

    /// What is known to be lost of a volume, with what reads found just now. On a reactor.
    pub(crate) fn known_lost(&self, id: Uuid) -> BTreeSet<LostBlock> {
        let mut volumes = self.volumes();
        let Some(live) = volumes.values_mut().find(|live| live.known.id == id) else { return BTreeSet::new() };
        if let Some(open) = &live.open {
            live.damage.gather(&open.volume);
        }
        live.damage.lost.clone()
    }

    /// Keeps what a scrub found to its end beside what was known, but for what is not lost any more. On a reactor.
    pub(crate) async fn note_scrubbed(
        &self,
        id: Uuid,
        found: &BTreeSet<LostBlock>,
        whole: &BTreeSet<LostBlock>,
    ) -> Result<(), PoolError> {
        if let Some(live) = self.volumes().values_mut().find(|live| live.known.id == id) {
            live.damage.lost.retain(|block| !whole.contains(block));
            for block in found {
                live.damage.keep(*block);
            }
        }
        self.keep_lost(id).await
    }

    /// Forgets what was lost of a volume that is no more. On a reactor.
    pub(super) async fn forget_lost(&self, id: Uuid) -> Result<(), PoolError> {
        self.pool.set_document(&key(id), None).await.map(drop)
    }
}

impl Engine {
    /// Blocks of strict files of a volume that are right in no copy, the first 256 of them.
    ///
    /// # Errors
    /// If there is no such volume.
    pub fn volume_damage(&self, path: &str) -> ApiResult<Vec<DamagedBlock>> {
        let (open, name, object) = self.volume_at(path)?;
        let (known, _) = open.open_volume_named(&name, &object)?;
        let volumes = open.volumes();
        let lost = volumes.values().find(|live| live.known.id == known.id).map(|live| live.damage.lost.clone());
        let shown =
            |lost: LostBlock| DamagedBlock { file: lost.file, offset: lost.offset, snapshot: lost.snapshot.is_some() };
        Ok(lost.into_iter().flatten().map(shown).collect())
    }

    /// Looks what reads of a pool's volumes found since the last look, and tells it.
    pub(crate) async fn look_at_damage(&self, open: &Arc<OpenPool>) {
        let news: Vec<_> = {
            let mut volumes = open.volumes();
            let news = volumes.values_mut().filter_map(|live| {
                let volume = live.open.as_ref()?.volume.clone();
                let (righted, lost) = live.damage.news(&volume);
                Some((live.known.id, open.volume_object(&live.known), righted, lost))
            });
            news.collect()
        };
        for (id, object, [healed, mended], lost) in news {
            let righted = [
                (healed, "block of strict files was", "blocks of strict files were"),
                (mended, "block of metadata was", "blocks of metadata were"),
            ];
            for (count, one, several) in righted.into_iter().filter(|(count, ..)| *count > 0) {
                let blocks = counted(count, one, several);
                let cause = format!("{blocks} wrong in a copy and written anew from another one");
                self.events.emit(Severity::Warning, &object, &cause, "check the disks of its pool");
            }
            for lost in lost.iter().take(TOLD) {
                let cause = format!("a block is right in no copy: {}", lost.words());
                let next =
                    format!("'holdfast volume damage {}' lists all; restore it from a snapshot or backup", object.name);
                self.events.emit(Severity::Error, &object, &cause, &next);
            }
            if lost.is_empty() {
                continue;
            }
            let keeping = open.clone();
            let kept = self.on_reactor(move || async move { keeping.keep_lost(id).await }).await;
            if let Err(error) = kept.and_then(|kept| kept.map_err(|error| from_pool(&object.name, error))) {
                tracing::warn!("what volume {} lost is not kept: {error}", object.name);
            }
        }
    }
}
