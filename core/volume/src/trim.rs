//! Room that was freed, given back to what the volume lies on.
//!
//! A thin space gets room back that files do not use any more. Written blocks are worth keeping, as the next write to
//! them costs less: so only units of 1 MiB that are free as a whole are given back, and only after a minute's rest.
//!
//! Invariant: what is being given back is set aside meanwhile, so that nobody writes to it.

use std::collections::BTreeMap;

use holdfast_model::BLOCK_BYTES;

use crate::error::VolumeError;
use crate::store::held;
use crate::volume::Volume;

/// Blocks that are given back together: 1 MiB.
pub(crate) const UNIT_BLOCKS: u32 = 256;
/// Zones that are looked at in one round.
const ZONES_AT_ONCE: usize = 64;

/// Units of a zone: one bit for each, as a zone has 256 MiB at most.
type Units = [u64; 4];

/// Units in which room was freed.
#[derive(Default)]
pub(crate) struct Freed {
    /// Since the last turn.
    fresh: BTreeMap<u32, Units>,
    /// Before that.
    rested: BTreeMap<u32, Units>,
}

impl Freed {
    /// Room was freed.
    pub fn note(&mut self, zone: u32, block: u32, len: u32) {
        let units = self.fresh.entry(zone).or_default();
        for unit in block / UNIT_BLOCKS..(block + len).div_ceil(UNIT_BLOCKS) {
            units[unit as usize / 64] |= 1 << (unit % 64);
        }
    }

    /// What was freed has rested from now on, once what rested before is dealt with.
    pub fn turn(&mut self) {
        if self.rested.is_empty() {
            self.rested = std::mem::take(&mut self.fresh);
        }
    }

    /// A zone with units that have rested, and these.
    pub fn next(&mut self) -> Option<(u32, impl Iterator<Item = u32> + use<>)> {
        let (zone, units) = self.rested.pop_first()?;
        Some((zone, (0..256u32).filter(move |unit| units[*unit as usize / 64] & (1 << (unit % 64)) != 0)))
    }
}

impl Volume {
    /// Gives back room that has rested, some of it.
    pub(crate) async fn trim_rested(&self) {
        for _ in 0..ZONES_AT_ONCE {
            if self.closing.raised() {
                return;
            }
            let next = held(&self.store.rooms).freed.next();
            let Some((zone, units)) = next else { return };
            // A zone that cannot be read keeps what it has.
            let _ = self.trim_units(zone, units.collect()).await;
        }
    }

    /// Gives back all room of zones of data that files do not use, rested or not; answers how many bytes.
    ///
    /// # Errors
    /// A bitmap is damaged, or the device failed.
    pub async fn trim(&self) -> Result<u64, VolumeError> {
        // What the newest two roots use is not free.
        self.checkpoint().await?;
        self.checkpoint().await?;
        let zones = held(&self.store.rooms).numbers();
        let mut bytes = 0;
        for zone in zones {
            self.store.check_interrupted()?;
            bytes += self.trim_units(zone, (0..256).collect()).await?;
        }
        Ok(bytes)
    }

    /// Gives back those units of a zone that are free; answers how many bytes.
    async fn trim_units(&self, zone: u32, units: Vec<u32>) -> Result<u64, VolumeError> {
        self.store.load_zone(zone).await?;
        let _aside = self.trimming.lock().await;
        let runs = held(&self.store.rooms).set_units_aside(zone, &units);
        let mut bytes = 0;
        for (place, blocks) in runs {
            let len = u64::from(blocks) * BLOCK_BYTES;
            // A device that cannot discard keeps the room.
            if self.store.device.discard(place * BLOCK_BYTES, len).await.is_ok() {
                bytes += len;
            }
            held(&self.store.rooms).release(place, blocks);
        }
        Ok(bytes)
    }
}
