//! An empty volume on a disk, which all may write to, for tests of one file at a time.

use std::sync::Arc;

use holdfast_device::Device;
use holdfast_device::sim::SimDisk;
use holdfast_model::Uuid;
use holdfast_volume::service::{FileKind, NewFile, OpenMode, Time};
use holdfast_volume::{Format, Settings, Volume, VolumeError, VolumeFormat};

pub const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };
pub const NEW: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };

pub async fn new_volume(disk: Arc<SimDisk>) -> Volume {
    let device: Arc<dyn Device> = disk.clone();
    let store = Format { volume: Uuid::from_u128(7), log_bytes: None };
    let format = VolumeFormat { store, secret: [9; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
    Volume::format(&device, format, Time::default()).await.expect("formatted");
    open(disk).await.expect("opened")
}

pub async fn open(disk: Arc<SimDisk>) -> Result<Volume, VolumeError> {
    Volume::open(disk, Settings::default(), Arc::new(Time::default)).await
}
