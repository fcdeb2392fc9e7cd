//! Findings repaired while the volume is in use: each by an ordinary change that looks again before it changes anything.
//!
//! ```text
//!   verb ─▶ trees locked ─▶ still so? ─▶ changed, logged ─▶ forgotten
//!                              └ no ─▶ forgotten
//! ```
//!
//! Invariants: a repair takes nothing that reads right. Names go where their files say, else to `lost+found`. Bytes of
//! which nobody can say whose they are read as an error, not as zeros or as another file's.

mod bulk;
mod descriptors;
mod known;
mod lost;
mod names;
mod room;
mod shared;
#[cfg(test)]
pub(crate) mod tests;

use crate::change::Need;
use crate::error::{ErrorKind, VolumeError};
use crate::graft::Graft;
use crate::keys;
use crate::quota::Enforce;
use crate::reparse::put_right;
use crate::scan::{Item, judge};
use crate::service::FileKind;
use crate::streams::parts_of;
use crate::verbs::Verb;
use crate::volume::{Volume, put_record};
use crate::{DEFERRED_TREE, JOURNAL_TREE, OWNER_TREE};

/// Rounds of scan and repair, at most: what one repair shows is repaired by the next.
const ROUNDS: usize = 8;

/// Parts of a stream that one change takes out.
const STREAM_PARTS_AT_ONCE: usize = 32;

/// What came of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// It is right now.
    Fixed,
    /// It was right already.
    AlreadyGone,
    /// It cannot be repaired while the volume is in use.
    NeedsOffline,
}

/// What came of the repair of all that a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spotfixed {
    /// Findings that were repaired.
    pub fixed: u64,
    /// What is left, and needs the volume offline.
    pub left: Vec<Verb>,
}

/// What a verb is about.
fn item_of(verb: &Verb) -> Option<Item> {
    Some(match verb {
        Verb::Orphan { file } | Verb::LinkUnknown { file, .. } => Item::Names(*file),
        Verb::Dangling { directory, slot, .. }
        | Verb::StaleGeneration { directory, slot, .. }
        | Verb::WrongSlot { directory, slot, .. }
        | Verb::Duplicate { directory, slot, .. }
        | Verb::RecordLost { directory, slot, .. }
        | Verb::EntryUnknown { directory, slot, .. } => Item::Entry(*directory, *slot),
        Verb::Overlap { file, end, .. }
        | Verb::Unowned { file, end, .. }
        | Verb::Beyond { file, end, .. }
        | Verb::SharerUnknown { file, end, .. }
        | Verb::Unshared { file, end, .. } => Item::Extent(*file, *end),
        Verb::OwnerAlone { place } | Verb::KeptApart { place } => Item::Owner(*place),
        Verb::SharerAlone { key, .. } => Item::Reference(key.clone()),
        Verb::Count { file } => Item::Count(*file),
        Verb::Attribute { file, name } => Item::Attribute(*file, name.clone()),
        Verb::SymbolicLink { file } => Item::Target(*file),
        Verb::Note { file } => Item::Note(*file),
        Verb::Stream { file, slot } => Item::Stream(*file, *slot),
        Verb::Reparse { file } => Item::Reparse(*file),
        Verb::SecurityLost { file } => Item::Security(*file),
        Verb::SecurityTwin { number } => Item::Descriptor(u32::try_from(*number).ok()?),
        _ => return None,
    })
}

impl Volume {
    /// Repairs one finding.
    ///
    /// # Errors
    /// No room, a node on the way is damaged, or the device failed. Nothing was changed then.
    pub async fn repair(&self, verb: &Verb) -> Result<Repaired, VolumeError> {
        let done = Box::pin(self.repair_now(verb)).await?;
        if done != Repaired::NeedsOffline {
            self.forget_verb(verb).await?;
        }
        Ok(done)
    }

    /// Scans and repairs until nothing is left that can be repaired while the volume is in use.
    ///
    /// # Errors
    /// As [`Volume::scan`].
    pub async fn spotfix(&self) -> Result<Spotfixed, VolumeError> {
        self.spotfix_some(|_| true).await
    }

    /// The same with findings of some kinds; others are left.
    pub(crate) async fn spotfix_some(&self, is_wanted: impl Fn(&Verb) -> bool) -> Result<Spotfixed, VolumeError> {
        let mut done = Spotfixed::default();
        for _ in 0..ROUNDS {
            done.left = self.scan().await?;
            // A name at a wrong place is moved before its file is taken for one without a name.
            let rank = |verb: &Verb| (!matches!(verb, Verb::WrongSlot { .. }), verb.number());
            let mut verbs: Vec<Verb> = done.left.iter().filter(|verb| is_wanted(verb)).cloned().collect();
            verbs.sort_by_key(rank);
            let (nodes, verbs): (Vec<Verb>, Vec<Verb>) =
                verbs.into_iter().partition(|verb| matches!(verb, Verb::NodeFree { .. } | Verb::NodeLeak { .. }));
            let mut fixed = self.repair_node_room(&nodes).await?;
            for verb in &nodes {
                self.forget_verb(verb).await?;
            }
            for verb in &verbs {
                self.store.check_interrupted()?;
                match self.repair_some(verb).await {
                    Ok((some, left)) => {
                        fixed += some;
                        if left.as_ref() != Some(verb) {
                            self.forget_verb(verb).await?;
                        }
                    }
                    Err(error) if matches!(error.kind, ErrorKind::ReadOnly | ErrorKind::NoSpace) => return Err(error),
                    // What something else that is damaged keeps from being repaired is left.
                    Err(_) => {}
                }
                crate::scan::give_way().await;
            }
            done.fixed += fixed;
            if fixed == 0 {
                return Ok(done);
            }
        }
        done.left = self.scan().await?;
        Ok(done)
    }

    /// Repairs a finding; answers how many things that put right, and what of it is left.
    async fn repair_some(&self, verb: &Verb) -> Result<(u64, Option<Verb>), VolumeError> {
        if let Verb::Orphans { first, files } = verb {
            let (fixed, left) = self.repair_orphans(*first, *files).await?;
            return Ok((fixed, (left != 0).then_some(Verb::Orphans { first: *first, files: left })));
        }
        Ok(match Box::pin(self.repair_now(verb)).await? {
            Repaired::Fixed => (1, None),
            Repaired::AlreadyGone => (0, None),
            Repaired::NeedsOffline => (0, Some(verb.clone())),
        })
    }

    pub(crate) async fn repair_now(&self, verb: &Verb) -> Result<Repaired, VolumeError> {
        match verb {
            Verb::Orphan { file } => self.repair_orphan(*file).await,
            Verb::Orphans { first, files } => Ok(match self.repair_orphans(*first, *files).await? {
                (_, left) if left != 0 => Repaired::NeedsOffline,
                (0, _) => Repaired::AlreadyGone,
                _ => Repaired::Fixed,
            }),
            Verb::LinkUnknown { file, directory, name } => self.repair_link(*file, *directory, name).await,
            Verb::Dangling { directory, slot, .. } | Verb::StaleGeneration { directory, slot, .. } => {
                self.repair_dangling(*directory, *slot, verb).await
            }
            Verb::WrongSlot { directory, slot, .. } => self.repair_slot(*directory, *slot, verb).await,
            Verb::Duplicate { directory, slot, .. } => self.repair_duplicate(*directory, *slot, verb).await,
            Verb::EntryUnknown { directory, slot, .. } => self.repair_entry(*directory, *slot, verb).await,
            Verb::Unreachable { directory } => self.repair_circle(*directory).await,
            Verb::Overlap { file, end, .. } | Verb::Beyond { file, end, .. } => {
                self.repair_lost_extent(*file, *end, verb).await
            }
            Verb::Unowned { file, end, place } | Verb::SharerUnknown { file, end, place } => {
                self.repair_unowned(*file, *end, *place, verb).await
            }
            Verb::SharerAlone { key, .. } => self.repair_sharer(key, verb).await,
            Verb::Unshared { file, end, .. } => self.repair_unshared(*file, *end, verb).await,
            Verb::KeptApart { place } => self.repair_kept_apart(*place, verb).await,
            Verb::OwnerAlone { place } => self.repair_owner(*place, verb).await,
            Verb::Leak { place, blocks } => self.repair_leak(*place, *blocks).await,
            Verb::Double { place, blocks } => self.repair_double(*place, *blocks).await,
            Verb::Bitmap { zone } => self.repair_bitmap(*zone as u32).await,
            Verb::NodeFree { .. } | Verb::NodeLeak { .. } => {
                Ok(match self.repair_node_room(std::slice::from_ref(verb)).await? {
                    0 => Repaired::AlreadyGone,
                    _ => Repaired::Fixed,
                })
            }
            Verb::Count { .. }
            | Verb::Attribute { .. }
            | Verb::SymbolicLink { .. }
            | Verb::Note { .. }
            | Verb::Stream { .. }
            | Verb::Reparse { .. } => self.repair_beside(verb).await,
            Verb::SecurityLost { file } => self.repair_security(*file, verb).await,
            Verb::SecurityTwin { number } => self.repair_descriptor(*number, verb).await,
            Verb::QuotaWrong { .. } => self.repair_quotas().await,
            Verb::KeptWrong { .. } => Ok(match self.store.recount_kept().await? {
                Some(true) => Repaired::Fixed,
                Some(false) => Repaired::AlreadyGone,
                None => Repaired::NeedsOffline,
            }),
            Verb::Unkept { snapshot, place, blocks } => self.repair_unkept(*snapshot, *place, *blocks).await,
            Verb::NodeLost { tree: JOURNAL_TREE, address, low, .. }
            | Verb::NodeMisplaced { tree: JOURNAL_TREE, address, low, .. } => {
                self.repair_journal_node(*address, low).await
            }
            Verb::JournalGap { usn } => self.repair_journal_gap(*usn).await,
            Verb::JournalNote { file } => self.repair_journal_note(*file).await,
            Verb::NodeLost { tree, address, low, .. } => self.repair_node(*tree, *address, low).await,
            // It is told; what can be made again of it is by the repair of the node.
            Verb::LeftOut { .. } => Ok(Repaired::Fixed),
            Verb::NodeMisplaced { .. }
            | Verb::NodeShared { .. }
            | Verb::Unreadable { .. }
            | Verb::RecordLost { .. }
            | Verb::NoRecord { .. }
            | Verb::SnapshotNode { .. }
            | Verb::SnapshotData { .. } => Ok(Repaired::NeedsOffline),
        }
    }

    /// Makes a change if a finding is still there.
    pub(crate) async fn repair_if(
        &self,
        verb: &Verb,
        need: Need,
        mut repair: impl FnMut(&mut crate::change::View<'_>) -> Result<(), crate::change::Stop>,
    ) -> Result<Repaired, VolumeError> {
        let Some(item) = item_of(verb) else { return Ok(Repaired::NeedsOffline) };
        let change = self.store.change([], need, |view| {
            view.enforce(Enforce::Nothing);
            if !self.judge(view, &item)?.contains(verb) {
                return Ok(Repaired::AlreadyGone);
            }
            repair(view)?;
            Ok(Repaired::Fixed)
        });
        Ok(change.await?.0)
    }

    /// What concerns one file alone.
    async fn repair_beside(&self, verb: &Verb) -> Result<Repaired, VolumeError> {
        match verb {
            Verb::Count { file } => {
                self.repair_if(verb, Need::Less, |view| {
                    let Some(mut record) = judge::record(view, *file)? else { return Ok(()) };
                    let (further, entries, blocks) = judge::count(view, *file)?;
                    record.blocks = blocks;
                    // What it has says what it is.
                    if entries.0 > 0 {
                        (record.kind, record.inline) = (FileKind::Directory, None);
                    } else if record.is_directory() && judge::has_extents(view, *file)? {
                        record.kind = FileKind::Regular;
                    }
                    if record.kind == FileKind::Directory {
                        (record.links, record.size) = (2 + entries.1, entries.0);
                    } else {
                        // A file without a name is a finding of its own, which keeps it.
                        record.links = (u32::from(!record.link.name.is_empty()) + further).max(1);
                    }
                    put_record(view, *file, &record)
                })
                .await
            }
            Verb::Attribute { file, name } => {
                self.repair_if(verb, Need::Less, |view| {
                    let first = keys::extended(*file, name, 0);
                    let prefix = &first[..first.len() - 1];
                    for (key, _) in view.range(keys::shard(*file), prefix, prefix, 256)? {
                        view.remove(keys::shard(*file), key)?;
                    }
                    Ok(())
                })
                .await
            }
            Verb::SymbolicLink { file } => {
                let mut is_without = false;
                let done = self.repair_if(verb, Need::Less, |view| {
                    let record = judge::record(view, *file)?;
                    is_without = record.is_some_and(|record| record.kind == FileKind::Symlink);
                    // Where a link led is written nowhere else: it stays as it is until somebody removes it.
                    if is_without { Ok(()) } else { view.remove(keys::shard(*file), keys::reparse(*file)) }
                });
                let done = done.await?;
                Ok(if is_without && done == Repaired::Fixed { Repaired::NeedsOffline } else { done })
            }
            Verb::Stream { file, slot } => {
                self.repair_if(verb, Need::Less, |view| {
                    let parts = parts_of(view, *file, *slot)?;
                    if let Some(mut record) = judge::record(view, *file)? {
                        record.blocks = record.blocks.saturating_sub(parts.len().min(STREAM_PARTS_AT_ONCE) as u64);
                        put_record(view, *file, &record)?;
                    }
                    // What is left of one that has more than it can have is found again.
                    for (key, _) in parts.into_iter().take(STREAM_PARTS_AT_ONCE) {
                        view.remove(keys::shard(*file), key)?;
                    }
                    Ok(())
                })
                .await
            }
            Verb::Reparse { file } => {
                self.repair_if(verb, Need::Less, |view| {
                    let Some(mut record) = judge::record(view, *file)? else { return Ok(()) };
                    put_right(view, *file, &mut record)
                })
                .await
            }
            Verb::Note { file } => {
                self.repair_if(verb, Need::Less, |view| view.remove(DEFERRED_TREE, file.to_be_bytes().to_vec())).await
            }
            _ => Ok(Repaired::NeedsOffline),
        }
    }

    /// A node that is still in memory is written to another place.
    async fn repair_node(&self, tree: u8, address: u64, low: &[u8]) -> Result<Repaired, VolumeError> {
        if !self.store.graft(tree, address, low, Graft::Rewrite).await? {
            return Ok(Repaired::NeedsOffline);
        }
        self.checkpoint().await?;
        Ok(Repaired::Fixed)
    }

    /// All are counted anew: whoever took what one of them is missing may be another.
    async fn repair_quotas(&self) -> Result<Repaired, VolumeError> {
        Ok(if self.recount().await? { Repaired::Fixed } else { Repaired::AlreadyGone })
    }

    async fn repair_owner(&self, place: u64, verb: &Verb) -> Result<Repaired, VolumeError> {
        let mut blocks = 0;
        let done = self.repair_if(verb, Need::Less, |view| {
            blocks = judge::owners_in(view, place, place.saturating_add(1))?
                .first()
                .map_or(0, |(_, owner)| owner.blocks.into());
            view.remove(OWNER_TREE, keys::owner(place))
        });
        let done = done.await?;
        if done == Repaired::Fixed {
            self.repair_leak(place, blocks).await?;
        }
        Ok(done)
    }
}
