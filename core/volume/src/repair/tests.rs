//! Each verb: a volume is damaged in that way only, a scan finds exactly it, and after the repair a scan finds nothing.

mod bulk;
mod cuts;
mod descriptors;
mod fuzz;
mod journal;
pub(crate) mod kinds;
mod known;
mod names;
mod nodes;
mod quotas;
mod room;
mod shared;
mod snapshots;
mod streams;
mod wrecks;

use std::sync::Arc;

use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_device::{Device, IoBuf};
use holdfast_model::Uuid;

use crate::change::{Need, Stop, View};
use crate::keys::{self, kind};
use crate::record::{DirectoryEntry, Record};
use crate::repair::Repaired;
use crate::scan::judge;
use crate::service::{Caller, FileId, FileKind, FileService, NewFile, OpenMode, Remove, SetMode, Time};
use crate::store::{Format, Settings};
use crate::verbs::Verb;
use crate::volume::{Volume, VolumeFormat, WallClock, put_record};

const BLOCK: usize = 4096;
const FILE: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
const DIRECTORY: NewFile<'static> = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };
const OPEN: OpenMode = OpenMode { read: true, write: true, truncate: false };

fn clock() -> WallClock {
    Arc::new(|| Time { seconds: 1_700_000_000, nanos: 0 })
}

async fn open(disk: &Arc<SimDisk>) -> Volume {
    // What is damaged stands on the device.
    let settings = Settings { cache_bytes: 1 << 20, delayed_bytes: 0, ..Settings::default() };
    Volume::open(disk.clone(), settings, clock()).await.expect("it opens")
}

/// The volume that is damaged.
struct World {
    disk: Arc<SimDisk>,
    volume: Volume,
    /// `dir`, and `dir/below`.
    dir: FileId,
    below: FileId,
    /// `dir/data`, 8 blocks, also named `link` in the root; `dir/other`, 8 blocks; `dir/below/deep`, small.
    data: FileId,
    other: FileId,
    deep: FileId,
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..8 * BLOCK).map(|at| (at / 7) as u8 ^ seed).collect()
}

impl World {
    async fn new(disk: Arc<SimDisk>) -> Self {
        let device: Arc<dyn Device> = disk.clone();
        let format = VolumeFormat {
            store: Format { volume: Uuid::from_u128(5), log_bytes: None },
            secret: [3; 16],
            owner: (0, 0),
            is_case_sensitive: false,
            mode: 0o755,
        };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let volume = open(&disk).await;
        let (caller, root) = (Caller::default(), volume.root());
        let make = async |dir: FileId, name: &str, new: &NewFile<'_>| {
            volume.create(&caller, dir, name.as_bytes(), new).await.expect("made").id
        };
        let dir = make(root, "dir", &DIRECTORY).await;
        let below = make(dir, "below", &DIRECTORY).await;
        let (data, other) = (make(dir, "data", &FILE).await, make(dir, "other", &FILE).await);
        let deep = make(below, "deep", &FILE).await;
        let target = NewFile { kind: FileKind::Symlink, mode: 0o777, target: b"dir/data" };
        make(root, "symlink", &target).await;
        volume.link(&caller, data, root, b"link").await.expect("linked");
        volume.set_extended(&caller, data, b"user.long", &[7; 9000], SetMode::Any).await.expect("set");
        let world = Self { disk, dir, below, data, other, deep, volume };
        world.write(data, &pattern(1)).await;
        world.write(other, &pattern(2)).await;
        world.write(deep, b"small").await;
        assert_eq!(world.volume.scan().await, Ok(Vec::new()), "sound at first");
        world
    }

    async fn write(&self, id: FileId, bytes: &[u8]) {
        let handle = self.volume.open(&Caller::default(), id, OPEN).await.expect("opened");
        let mut buf = IoBuf::zeroed(bytes.len().next_multiple_of(BLOCK));
        buf[..bytes.len()].copy_from_slice(bytes);
        self.volume.write(&handle, 0, buf.freeze(), bytes.len()).await.expect("written");
        self.volume.close(handle).await.expect("closed");
    }

    async fn read(&self, id: FileId) -> Result<Vec<u8>, crate::VolumeError> {
        let handle = self.volume.open(&Caller::default(), id, OPEN).await?;
        let data = self.volume.read(&handle, 0, 1 << 30).await.map(|data| data.to_vec());
        self.volume.close(handle).await?;
        data
    }

    /// Changes the trees past all rules but those of extents.
    async fn damage(&self, mut change: impl FnMut(&mut View<'_>) -> Result<(), Stop>) {
        self.volume.store.change([], Need::More, |view| change(view)).await.expect("damaged");
    }

    async fn slot(&self, dir: FileId, name: &[u8]) -> u64 {
        let look = self.volume.store.look([], |view| self.volume.find(view, dir.number, name, false));
        look.await.expect("looked up").expect("it is there").slot
    }

    async fn lookup(&self, dir: FileId, name: &str) -> Option<u64> {
        let found = self.volume.lookup(&Caller::default(), dir, name.as_bytes()).await.expect("looked up");
        found.map(|facts| facts.id.number)
    }

    /// A scan finds exactly these, and keeps them.
    async fn finds(&self, verbs: &[Verb]) {
        assert_eq!(self.volume.scan().await.as_deref(), Ok(verbs));
        let mut kept = self.volume.findings().await.expect("they can be read");
        kept.sort();
        assert_eq!(kept, verbs, "kept");
    }

    /// A scan finds exactly this, which is repaired, once.
    async fn repaired(&self, verb: Verb) {
        self.finds(std::slice::from_ref(&verb)).await;
        assert_eq!(self.volume.repair(&verb).await, Ok(Repaired::Fixed), "{verb}");
        assert_eq!(self.volume.repair(&verb).await, Ok(Repaired::AlreadyGone), "{verb}, a second time");
        assert_eq!(self.volume.findings().await, Ok(Vec::new()), "{verb} is forgotten");
        self.finds(&[]).await;
        // As another opening finds it, after which the disk is what this one knows.
        let image = self.disk.image();
        assert_eq!(open(&self.disk).await.scan().await, Ok(Vec::new()), "as opened again");
        self.disk.set_back(&image);
    }
}

/// Runs a test on a volume in a simulated world.
fn with(test: impl AsyncFnOnce(&World) + 'static) {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let world = World::new(disk).await;
        test(&world).await;
    });
    ran.expect("powered");
}

fn edit(view: &mut View<'_>, file: FileId, edit: impl FnOnce(&mut Record)) -> Result<(), Stop> {
    let mut record = judge::record(view, file.number)?.expect("it has one");
    edit(&mut record);
    put_record(view, file.number, &record)
}
