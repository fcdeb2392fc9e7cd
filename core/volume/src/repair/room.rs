//! Room and its owners brought together again.
//!
//! Invariant: blocks are given back only after all extents were read and none had them.

use std::collections::BTreeMap;

use holdfast_model::BLOCK_BYTES;

use crate::bitmap::Bitmap;
use crate::change::{Need, Pair, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::extent::Extent;
use crate::extents::MAIN;
use crate::open_files::Use;
use crate::page::Page;
use crate::repair::Repaired;
use crate::scan::{Leaves, NoLeaves, Owner, Reach, judge, readable, runs};
use crate::service::FileId;
use crate::snapshots::Span;
use crate::store::held;
use crate::verbs::Verb;
use crate::volume::Volume;
use crate::{OWNER_TREE, SHARED_TREES, keys};

/// Entries of the map of owners that one change puts in.
const KEPT_AT_ONCE: usize = 32;

/// Takes what snapshots have out of runs.
struct Past<'a>(&'a mut BTreeMap<u64, u64>);

impl Leaves for Past<'_> {
    async fn past(&mut self, _: u64, page: &Page) -> Result<(), VolumeError> {
        for (key, value) in (0..page.count()).map(|index| page.entry(index)) {
            if let (Some(_), Ok(extent)) = (keys::read_extent(page.tree(), key), Extent::decode(value)) {
                runs::cut(self.0, extent.place, extent.blocks.into());
            }
        }
        Ok(())
    }
}

impl Volume {
    /// Blocks of a zone before which owners may begin that reach over a place.
    fn zone_start(&self, place: u64) -> Option<u64> {
        let (zone, _) = self.store.zone_of(place.checked_mul(BLOCK_BYTES)?)?;
        Some(self.store.address_in(zone, 0) / BLOCK_BYTES)
    }

    /// Has an extent be one whose bytes are lost, and all others that share blocks with it keep them.
    pub(super) async fn repair_lost_extent(&self, file: u64, end: u64, verb: &Verb) -> Result<Repaired, VolumeError> {
        let change = self.store.change([], Need::More, |view| {
            let Some(extent) = self.extent_of(view, file, end)? else { return Ok(Repaired::AlreadyGone) };
            let mut others = self.sharers(view, (file, end), &extent)?;
            if !extent.is_shared {
                let Some(sharers) = self.sharers_of(view, &extent)? else { return Ok(Repaired::NeedsOffline) };
                others.extend(sharers);
            }
            let is_beyond = !self.store.is_data(extent.place, extent.blocks);
            let is_still = match verb {
                Verb::Beyond { .. } => is_beyond,
                _ => !others.is_empty(),
            };
            if extent.is_lost() || !is_still {
                return Ok(Repaired::AlreadyGone);
            }
            view.put(keys::shard(file), keys::extent(file, MAIN, end), extent.lost().encode())?;
            for (key, value) in others {
                let shard = keys::shard(keys::number(&key, 0).unwrap_or_default());
                view.put(shard, key, value)?;
            }
            Ok(Repaired::Fixed)
        });
        Ok(self.holding(file, change).await?.0)
    }

    /// Changes where the blocks of a file lie while it is locked alone, whoever opens it meanwhile; nobody goes on with what
    /// was known of them before.
    pub(super) async fn holding<T>(
        &self,
        number: u64,
        change: impl Future<Output = Result<T, VolumeError>>,
    ) -> Result<T, VolumeError> {
        let record = self.store.look([keys::shard(number)], |view| judge::record(view, number)).await?;
        // Without a record nobody can open it.
        let Some(record) = record else { return change.await };
        let file = self.open.enter(FileId { number, generation: record.generation }, Use::Own);
        let done = {
            let _alone = file.data.write().await;
            let done = change.await;
            held(&file.state).mapping = None;
            done
        };
        // What cannot be read of what is noted of it is a finding of its own.
        let left = readable(self.leave(&file, Use::Own).await);
        done.and_then(|done| left.map(|_| done))
    }

    fn extent_of(&self, view: &View<'_>, file: u64, end: u64) -> Result<Option<Extent>, Stop> {
        let value = view.get(keys::shard(file), &keys::extent(file, MAIN, end))?;
        Ok(value.and_then(|value| Extent::decode(&value).ok()))
    }

    /// Extents that share blocks with one, as the map of owners knows them.
    fn sharers(&self, view: &View<'_>, own: (u64, u64), extent: &Extent) -> Result<Vec<Pair>, Stop> {
        let Some(start) = self.zone_start(extent.place) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for (place, owner) in judge::owners_in(view, start, extent.end())? {
            let end = owner.block + u64::from(owner.blocks);
            if place + u64::from(owner.blocks) <= extent.place || (owner.file, end) == own {
                continue;
            }
            let there = self.extent_of(view, owner.file, end)?;
            if let Some(there) = there.filter(|there| (there.place, there.blocks) == (place, owner.blocks)) {
                found.push((keys::extent(owner.file, owner.stream, end), there.encode()));
            }
        }
        Ok(found)
    }

    pub(super) async fn repair_unowned(
        &self,
        file: u64,
        end: u64,
        place: u64,
        verb: &Verb,
    ) -> Result<Repaired, VolumeError> {
        // The map of owners follows from the extent as soon as that is put in, also where it was before.
        let done = self.repair_if(verb, Need::More, |view| {
            let key = keys::extent(file, MAIN, end);
            let Some(value) = view.get(keys::shard(file), &key)? else { return Ok(()) };
            view.put(keys::shard(file), key, value)
        });
        let done = done.await?;
        // Where its bitmap cannot be read, that is a finding of its own.
        readable(self.repair_double(place, 1).await)?;
        Ok(done)
    }

    /// Frees blocks that are nobody's.
    pub(super) async fn repair_leak(&self, place: u64, blocks: u64) -> Result<Repaired, VolumeError> {
        let mut wanted = BTreeMap::from([(place, blocks)]);
        self.without_extents(&mut wanted).await?;
        let Some((zone, _)) = place.checked_mul(BLOCK_BYTES).and_then(|at| self.store.zone_of(at)) else {
            return Ok(Repaired::AlreadyGone);
        };
        self.store
            .look([OWNER_TREE], |view| {
                let judged = self.store.judge_zone(view, zone)?;
                let free = runs::common(&judged.leaks, &wanted);
                let mut rooms = held(&self.store.rooms);
                free.iter().for_each(|(place, blocks)| rooms.free(*place, *blocks as u32));
                Ok(if free.is_empty() { Repaired::AlreadyGone } else { Repaired::Fixed })
            })
            .await
    }

    /// Has blocks be kept that a snapshot has.
    pub(super) async fn repair_unkept(&self, snapshot: u64, place: u64, blocks: u64) -> Result<Repaired, VolumeError> {
        let wanted = BTreeMap::from([(place, blocks)]);
        let Some((zone, _)) = place.checked_mul(BLOCK_BYTES).and_then(|at| self.store.zone_of(at)) else {
            return Ok(Repaired::AlreadyGone);
        };
        let start = self.store.address_in(zone, 0) / BLOCK_BYTES;
        let end = start + self.store.superblock().zone_bytes / BLOCK_BYTES;
        let change = self.store.change([OWNER_TREE], Need::More, |view| {
            if !self.store.snapshots.have(Span { birth: snapshot, death: snapshot }) {
                return Ok(false);
            }
            let mut wanted = wanted.clone();
            let mut done = self.keep_shared(view, snapshot, &mut wanted, KEPT_AT_ONCE)?;
            let mut missing = wanted.clone();
            for (at, owner) in judge::owners_in(view, start, end)? {
                let within = runs::within(&wanted, at, owner.blocks.into());
                runs::cut(&mut missing, at, owner.blocks.into());
                let (false, Some(span)) = (within.is_empty(), owner.kept) else { continue };
                if span.death < snapshot && done < KEPT_AT_ONCE {
                    let Owner { file, stream, block, blocks, is_written, .. } = owner;
                    let span = Span { birth: span.birth.min(snapshot), death: snapshot };
                    view.put(
                        OWNER_TREE,
                        keys::owner(at),
                        keys::kept_value(file, stream, block, blocks, is_written, span),
                    )?;
                    done += 1;
                }
            }
            // Which file had them, and since when, nobody knows.
            let span = Span { birth: 1, death: snapshot };
            for (at, blocks) in missing.into_iter().take(KEPT_AT_ONCE - done) {
                view.put(OWNER_TREE, keys::owner(at), keys::kept_value(0, MAIN, 0, blocks as u32, true, span))?;
                done += 1;
            }
            Ok(done > 0)
        });
        let is_changed = change.await?.0;
        let is_claimed = readable(self.repair_double(place, blocks).await)? == Some(Repaired::Fixed);
        Ok(if is_changed || is_claimed { Repaired::Fixed } else { Repaired::AlreadyGone })
    }

    /// Takes blocks out of runs that a file says it has, or a snapshot.
    async fn without_extents(&self, wanted: &mut BTreeMap<u64, u64>) -> Result<(), VolumeError> {
        if self.store.snapshots.newest() != 0 {
            let newest = self.store.checkpoint.lock().await;
            let walked = self.store.walk_newest(&newest, Reach::Snapshots, &mut Past(wanted)).await?;
            if walked.is_past_partial {
                return Err(VolumeError::new(ErrorKind::Corrupt, "a snapshot that may have it cannot be read"));
            }
        }
        for tree in 0..SHARED_TREES {
            let mut next = Some(Vec::new());
            while let Some(from) = next.take() {
                let (entries, then) = self.store.look([tree], |view| view.entries_from(tree, &from)).await?;
                for (key, value) in entries {
                    if keys::read_extent(tree, &key).is_some()
                        && let Ok(extent) = Extent::decode(&value)
                        && !extent.is_lost()
                    {
                        runs::cut(wanted, extent.place, extent.blocks.into());
                    }
                }
                next = then;
                crate::scan::give_way().await;
            }
        }
        Ok(())
    }

    /// Takes blocks that a file has and that are free by their bitmap; those beside them in the zone, too.
    pub(super) async fn repair_double(&self, place: u64, blocks: u64) -> Result<Repaired, VolumeError> {
        let Some((zone, _)) = place.checked_mul(BLOCK_BYTES).and_then(|at| self.store.zone_of(at)) else {
            return Ok(Repaired::AlreadyGone);
        };
        let wanted = BTreeMap::from([(place, blocks)]);
        self.store
            .look([OWNER_TREE], |view| {
                let judged = self.store.judge_zone(view, zone)?;
                let is_there = !runs::common(&judged.doubles, &wanted).is_empty();
                let mut rooms = held(&self.store.rooms);
                let claimed = judged.doubles.iter().all(|(place, blocks)| rooms.claim(*place, *blocks as u32));
                Ok(match (is_there, claimed) {
                    (false, _) => Repaired::AlreadyGone,
                    (true, true) => Repaired::Fixed,
                    // Somebody is about to write there.
                    (true, false) => Repaired::NeedsOffline,
                })
            })
            .await
    }

    /// Makes the bitmap of a zone of the extents that lie in it.
    pub(super) async fn repair_bitmap(&self, zone: u32) -> Result<Repaired, VolumeError> {
        if !self.is_bitmap_lost(zone).await {
            return Ok(Repaired::AlreadyGone);
        }
        let of_zone = self.store.superblock().zone_bytes / BLOCK_BYTES;
        let start = self.store.address_in(zone, 0) / BLOCK_BYTES;
        // Extents that the map of owners does not have count, too: then nobody is given their room.
        let mut free = BTreeMap::from([(start, of_zone)]);
        match self.store.load_zone(zone).await {
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Corrupt => self.without_extents(&mut free).await?,
            Err(error) => return Err(error),
        }
        let done = self
            .store
            .look([OWNER_TREE], |view| {
                let mut bits = self.store.owned_blocks(view, zone)?;
                let mut used = Bitmap::zone(of_zone as u32);
                used.set(0, of_zone as u32, true);
                free.iter().for_each(|(place, len)| used.set((place - start) as u32, *len as u32, false));
                used.runs_beyond(&bits.clone()).into_iter().for_each(|(block, len)| bits.set(block, len, true));
                held(&self.store.rooms).restore(zone, bits);
                Ok(Repaired::Fixed)
            })
            .await?;
        self.checkpoint().await?;
        Ok(done)
    }

    /// Room of nodes by what the trees refer to; answers how many of the findings were still there.
    pub(super) async fn repair_node_room(&self, verbs: &[Verb]) -> Result<u64, VolumeError> {
        if verbs.is_empty() {
            return Ok(0);
        }
        let newest = self.store.checkpoint.lock().await;
        let walked = self.store.walk_newest(&newest, Reach::Snapshots, &mut NoLeaves).await?;
        let mut fixed = 0;
        for verb in verbs.iter().filter(|verb| walked.verbs.contains(verb)) {
            let (address, blocks, is_used) = match verb {
                Verb::NodeFree { address, blocks } => (*address, *blocks, true),
                Verb::NodeLeak { address, blocks } => (*address, *blocks, false),
                _ => continue,
            };
            held(&self.store.zones).correct(address, blocks as u32, is_used);
            fixed += 1;
        }
        Ok(fixed)
    }
}
