//! A volume that gives up the end of its device while files are in use.
//!
//! ```text
//!   plan ─▶ noted ─▶ line drawn ─▶ data moved ─▶ nodes written anew ─▶ zones above taken out of the tree of zones
//!                                                                          │ checkpoint
//!   note taken out ◀─ old end wiped ◀─ superblock of the first group ◀─ group at the new end, second group
//!                                      from here on it has shrunk
//! ```
//!
//! Invariants: whenever power fails, the volume is found as large as it was, with all of its zones, or shrunk. Nothing
//! is moved where the plan says that it does not fit. What was moved when a shrink ends early stays where it is.

use std::pin::Pin;
use std::sync::atomic::Ordering;

use holdfast_model::wire::{Reader, WireError, Writer};
use holdfast_model::{BLOCK_BYTES, ByteSize};

use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::line::Line;
use crate::page::PAGE_BYTES;
use crate::store::{Store, held, kept_of};
use crate::superblock::{GROUP_BYTES, LEAST_BYTES, Superblock};
use crate::volume::Volume;
use crate::{SETTINGS_TREE, VERB_TREE};

/// The note of a shrink under way.
const KEY_SHRINK: &[u8] = b"shrink";
/// Zones that are taken out of the tree of zones between two checkpoints.
const ZONES_AT_ONCE: usize = 1024;
/// The same in one change.
const ZONES_OF_CHANGE: usize = 32;

/// What lets the steps of long work go on, and hears how far it is.
pub trait Steps {
    /// Waits until the next step may begin, after one that moved or read so many bytes; false ends the work.
    fn step(&self, bytes: u64) -> Pin<Box<dyn Future<Output = bool> + '_>>;

    /// So many bytes were moved.
    fn done(&self, bytes: u64);
}

/// What a shrink would do, as of now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShrinkPlan {
    /// What the volume has.
    pub size_bytes: u64,
    /// What it would have.
    pub new_size_bytes: u64,
    /// Data that would be moved.
    pub data_bytes: u64,
    /// Metadata that would be moved.
    pub metadata_bytes: u64,
    /// What would be free afterwards.
    pub free_bytes: u64,
    /// The smallest size that the volume can have now.
    pub smallest_bytes: u64,
    /// Why it cannot be done.
    pub refusal: Option<VolumeError>,
}

/// What is above a line, and whether it fits below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Above {
    blocks: u64,
    nodes: u64,
    free_blocks: u64,
    fits: bool,
}

/// What the note of a shrink says: the size from which, and to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShrinkNote {
    from_bytes: u64,
    pub to_bytes: u64,
}

impl ShrinkNote {
    fn encode(self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u64(self.from_bytes).u64(self.to_bytes);
        writer.into_bytes()
    }

    fn decode(value: &[u8]) -> Result<Self, VolumeError> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            Ok(Self { from_bytes: reader.u64()?, to_bytes: reader.u64()? })
        };
        let note = read(Reader::new(value)).ok();
        let sound = |note: &Self| {
            LEAST_BYTES <= note.to_bytes
                && note.to_bytes < note.from_bytes
                && note.from_bytes.is_multiple_of(GROUP_BYTES)
        };
        note.filter(sound).ok_or_else(|| VolumeError::corrupt("the note of a shrink says what cannot be"))
    }
}

/// While this is there, the volume becomes smaller.
struct Shrinking<'a>(&'a Volume);

impl Drop for Shrinking<'_> {
    fn drop(&mut self) {
        self.0.is_shrinking.store(false, Ordering::Release);
    }
}

impl Store {
    /// Ends work that is to end early.
    pub(crate) async fn check_step(&self, steps: &dyn Steps, bytes: u64) -> Result<(), VolumeError> {
        let goes_on = steps.step(bytes).await;
        self.check_interrupted()?;
        if goes_on { Ok(()) } else { Err(VolumeError::new(ErrorKind::Busy, "it was stopped")) }
    }

    /// For each number of zones, what would be above them.
    fn above(&self) -> Vec<Above> {
        let margin = self.needed(0, Need::More) as u64;
        let (zones, rooms) = (held(&self.zones), held(&self.rooms));
        let all = self.superblock().zones();
        let (usable, of_zone) = (u64::from(rooms.usable()), zones.nodes_of_zone() as u64);
        // Of each zone: blocks in use and free, nodes in use and free, whether it is nobody's.
        let mut kinds = vec![(0, 0, 0, 0, true); all as usize];
        for (zone, used, free) in rooms.fill() {
            kinds[zone as usize] = (u64::from(used), u64::from(free), 0, 0, false);
        }
        for (zone, used, free) in zones.fill() {
            kinds[zone as usize] = (0, 0, used as u64, free as u64, false);
        }
        let used: u64 = kinds.iter().map(|kind| kind.0).sum();
        let nodes: u64 = kinds.iter().map(|kind| kind.2).sum();
        let (mut below, mut free, mut nobodys) = (Above::default(), (0, 0), 0);
        let mut found = vec![Above { blocks: used, nodes, ..Above::default() }];
        for (zone, kind) in kinds.iter().enumerate() {
            (below.blocks, below.nodes) = (below.blocks + kind.0, below.nodes + kind.2);
            free = (free.0 + kind.1, free.1 + kind.3);
            nobodys += u64::from(kind.4);
            let (blocks, above) = (used - below.blocks, nodes - below.nodes);
            let for_data = blocks.saturating_sub(free.0).div_ceil(usable);
            let for_nodes = (above + margin).saturating_sub(free.1).div_ceil(of_zone);
            let kept = u64::from(kept_of(zone as u32 + 1, self.format.has_twins()));
            let needed = if for_data == 0 { for_nodes } else { for_data + for_nodes.max(kept) };
            let free_blocks = free.0 + nobodys.saturating_sub(for_nodes.max(kept)) * usable;
            found.push(Above {
                blocks,
                nodes: above,
                free_blocks: free_blocks.saturating_sub(blocks),
                fits: needed <= nobodys,
            });
        }
        found
    }

    /// The size of a volume with so many zones, at least.
    fn size_of(&self, zones: u32) -> u64 {
        let Superblock { log_bytes, zone_bytes, .. } = self.format;
        let end = self.superblock().zones_at() + u64::from(zones) * zone_bytes + GROUP_BYTES;
        // The log takes less than half of a volume.
        end.max(LEAST_BYTES).max(2 * log_bytes + GROUP_BYTES).next_multiple_of(GROUP_BYTES)
    }

    /// Takes all zones from one on out of the tree of zones. Nobody has anything of them.
    async fn retire(&self, line: &Line<'_>) -> Result<(), VolumeError> {
        loop {
            {
                // Each cut has a zone in all places or in none.
                let _no_cut = self.checkpoint.lock().await;
                self.check_failed()?;
                let (nodes, rooms) = (held(&self.zones).above(line.zone), held(&self.rooms).above(line.zone));
                let some: Vec<u32> = nodes.into_iter().chain(rooms).take(ZONES_AT_ONCE).collect();
                if some.is_empty() {
                    return Ok(());
                }
                let clear = held(&self.zones).are_clear(line.zone) && held(&self.rooms).are_clear(line.zone);
                if !clear {
                    return Err(VolumeError::new(ErrorKind::Busy, "something is still above the new end"));
                }
                for zones in some.chunks(ZONES_OF_CHANGE) {
                    self.disown_zones(zones).await?;
                }
            }
            self.checkpoint().await?;
        }
    }

    /// Has the superblocks say the new size, and wipes the group at the old end.
    async fn cut_off(&self, size_bytes: u64) -> Result<(), VolumeError> {
        // The root before the newest one must have nothing above either: it counts where that is lost.
        self.checkpoint().await?;
        let newest = self.checkpoint.lock().await;
        self.check_failed()?;
        let before = self.superblock();
        let after = Superblock { size_bytes, ..before };
        let ([.., old], [.., new]) = (before.groups(), after.groups());
        self.wipe_group(new).await?;
        let cut = async {
            self.write_groups(&newest.root, &after).await?;
            self.size_bytes.store(size_bytes, Ordering::Release);
            // What the end of the volume once said must not be believed if the beginning is lost.
            self.wipe_group(old).await
        };
        cut.await.map_err(|error| self.fail(error))
    }
}

impl Volume {
    /// What a shrink to so many bytes would do.
    ///
    /// # Errors
    /// A node is damaged, or the device failed.
    pub async fn plan_shrink(&self, size_bytes: u64) -> Result<ShrinkPlan, VolumeError> {
        let now = self.store.superblock();
        let above = self.store.above();
        let fitting = above.iter().rev().take_while(|above| above.fits).count();
        let least = (above.len() - fitting).min(now.zones() as usize) as u32;
        let smallest_bytes = self.store.size_of(least).min(now.size_bytes);
        let mut plan = ShrinkPlan {
            size_bytes: now.size_bytes,
            new_size_bytes: size_bytes / GROUP_BYTES * GROUP_BYTES,
            data_bytes: 0,
            metadata_bytes: 0,
            free_bytes: 0,
            smallest_bytes,
            refusal: None,
        };
        let size = ByteSize(plan.new_size_bytes);
        let refuse = |kind, text: String| Some(VolumeError::new(kind, text));
        if plan.new_size_bytes > now.size_bytes {
            let has = ByteSize(now.size_bytes);
            plan.refusal = refuse(ErrorKind::Invalid, format!("it has {has} and does not shrink to {size}"));
            return Ok(plan);
        }
        // The same number of zones: only what lies between the last one and the end goes.
        let zones = match plan.new_size_bytes.checked_sub(self.store.size_of(0)) {
            Some(_) => Superblock { size_bytes: plan.new_size_bytes, ..now }.zones() as usize,
            None => 0,
        };
        let Above { blocks, nodes, free_blocks, .. } = above[zones.min(above.len() - 1)];
        plan.data_bytes = blocks * BLOCK_BYTES;
        plan.metadata_bytes = nodes * PAGE_BYTES as u64;
        plan.free_bytes = free_blocks * BLOCK_BYTES;
        if plan.new_size_bytes < smallest_bytes {
            plan.refusal = refuse(
                ErrorKind::NoSpace,
                format!(
                    "it cannot shrink to {size}: the smallest size that it can have now is {smallest_bytes} bytes ({})",
                    ByteSize(smallest_bytes)
                ),
            );
        } else if plan.new_size_bytes < now.size_bytes && self.store.snapshots.are_any() {
            let text =
                "it has snapshots, which cannot be moved: destroy them first, and let what they keep be given back";
            plan.refusal = refuse(ErrorKind::Busy, text.into());
        } else if !self.store.range(VERB_TREE, b"", 1).await?.is_empty() {
            let text = "it has findings of a scan that are not repaired: repair them first";
            plan.refusal = refuse(ErrorKind::Corrupt, text.into());
        }
        Ok(plan)
    }

    /// Makes the volume smaller while files are in use; false if it has that size already. It is never to be dropped:
    /// `steps` or [`Volume::interrupt`] end it early, and nothing is lost then.
    ///
    /// # Errors
    /// What [`ShrinkPlan::refusal`] says, another change of the size is under way, it was stopped, what is above the
    /// new end cannot be read, or the device failed. The volume has its old size, and all of it is in use again.
    pub async fn shrink(&self, size_bytes: u64, steps: &dyn Steps) -> Result<bool, VolumeError> {
        let _one = self.try_resize()?;
        self.store.check_failed()?;
        let _no_snapshot = self.begin_shrink().await;
        // What cannot be written keeps its promise of room, which is looked at when the line is drawn.
        _ = self.write_back_all(&self.waiting.all()).await;
        self.store.end_reading();
        let plan = self.plan_shrink(size_bytes).await?;
        if let Some(refusal) = plan.refusal {
            if self.unfinished_shrink().is_some() {
                // What was begun before a crash is over, too.
                self.note_shrink(None).await?;
            }
            return Err(refusal);
        }
        if plan.new_size_bytes == plan.size_bytes {
            self.note_shrink(None).await?;
            return Ok(false);
        }
        self.note_shrink(Some(ShrinkNote { from_bytes: plan.size_bytes, to_bytes: plan.new_size_bytes })).await?;
        let shrunk = Box::pin(self.shrink_to(plan.new_size_bytes, steps)).await;
        if self.store.check_failed().is_ok() {
            // As it was, or done: either way nothing is under way any more.
            let forgotten = self.note_shrink(None).await;
            return shrunk.and(forgotten).map(|()| true);
        }
        shrunk.map(|()| true)
    }

    /// Has no snapshot be made until this is dropped.
    async fn begin_shrink(&self) -> Shrinking<'_> {
        let _none_under_way = self.snapshotting.lock().await;
        self.is_shrinking.store(true, Ordering::Release);
        Shrinking(self)
    }

    async fn shrink_to(&self, size_bytes: u64, steps: &dyn Steps) -> Result<(), VolumeError> {
        let zones = Superblock { size_bytes, ..self.store.format }.zones();
        let line = self.store.draw_line(zones).await?;
        self.store.check_step(steps, 0).await?;
        self.move_data(line.zone, steps).await?;
        self.store.vacate(line.zone, steps).await?;
        self.store.retire(&line).await?;
        self.store.cut_off(size_bytes).await
    }

    /// The size that a shrink was to reach which a crash cut short. The volume has the size that it had, and all of it
    /// is in use: another shrink goes on, and growing it ends the matter.
    pub fn unfinished_shrink(&self) -> Option<u64> {
        held(&self.unfinished).map(|note| note.to_bytes)
    }

    /// Has the volume say durably that it is being made smaller, or that it is not.
    pub(crate) async fn note_shrink(&self, note: Option<ShrinkNote>) -> Result<(), VolumeError> {
        let change = self.store.change([SETTINGS_TREE], Need::Less, |view| {
            let is_there = view.get(SETTINGS_TREE, KEY_SHRINK)?.is_some();
            match note {
                Some(note) => view.put(SETTINGS_TREE, KEY_SHRINK.to_vec(), note.encode()),
                None if is_there => view.remove(SETTINGS_TREE, KEY_SHRINK.to_vec()),
                None => Ok(()),
            }
        });
        self.store.lasting(change).await?;
        *held(&self.unfinished) = None;
        Ok(())
    }

    /// Looks at the note that an earlier opening left, and ends what only the wiping of the old end was missing of.
    pub(crate) async fn take_up_shrink(&self) -> Result<(), VolumeError> {
        let Some(value) = self.store.get(SETTINGS_TREE, KEY_SHRINK).await? else { return Ok(()) };
        let Ok(note) = ShrinkNote::decode(&value) else { return self.note_shrink(None).await };
        if self.size_bytes() > note.to_bytes {
            *held(&self.unfinished) = Some(note);
            return Ok(());
        }
        if note.from_bytes <= self.store.device.geometry().size_bytes {
            self.store.wipe_group(note.from_bytes - GROUP_BYTES).await?;
        }
        self.note_shrink(None).await
    }
}
