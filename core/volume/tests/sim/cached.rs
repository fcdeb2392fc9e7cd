//! Volumes with data kept in memory, for histories that are to meet its limits.

use std::sync::Arc;

use holdfast_device::Device;
use holdfast_device::sim::SimRandom;
use holdfast_volume::{CachedDevice, DataCache, Settings, Volume, VolumeError, WallClock};

/// Bytes of memory for data.
pub fn some_bytes(random: &SimRandom) -> usize {
    [0, 40 << 10, 200 << 10, 8 << 20][random.range(0..4usize)]
}

/// Opens a volume with so many bytes of memory for data; without any if 0.
pub async fn open(
    device: Arc<dyn Device>,
    settings: Settings,
    clock: WallClock,
    bytes: usize,
) -> Result<Volume, VolumeError> {
    if bytes == 0 {
        return Volume::open(device, settings, clock).await;
    }
    Volume::open_cached(CachedDevice::new(device, &Arc::new(DataCache::new(bytes))), settings, clock).await
}
