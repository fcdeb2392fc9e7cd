//! Disks that tell of another time, or of nothing: set back to an older image of themselves, or overwritten together
//! with what proves what they held; metadata damaged in use; and machines that import a pool without knowing what it
//! was last.

use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_device::sim::{SimImage, SimRandom};
use holdfast_model::{BLOCK_BYTES, DiskState, Uuid};
use holdfast_pool::{Area, RowRecord, UNIT_BYTES};

use super::{Run, Up};

/// Slabs larger than this are overwritten at their beginning only.
const MOST_BYTES: u64 = 16 << 20;

/// How often each happened, over all seeds.
static SET_BACK: AtomicU64 = AtomicU64::new(0);
static OVERWRITTEN: AtomicU64 = AtomicU64::new(0);
static SEVERAL_AT_ONCE: AtomicU64 = AtomicU64::new(0);
static DEGRADED_CLOSES: AtomicU64 = AtomicU64::new(0);
static OTHER_MACHINES: AtomicU64 = AtomicU64::new(0);
static DAMAGED_IN_USE: AtomicU64 = AtomicU64::new(0);
static LAGGING: AtomicU64 = AtomicU64::new(0);

/// How often these happened.
pub fn tell_counts() {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} disks set back, {} overwritten, {} times several",
        count(&SET_BACK),
        count(&OVERWRITTEN),
        count(&SEVERAL_AT_ONCE)
    );
    println!("{} failing flushes at a degraded close", count(&DEGRADED_CLOSES));
    println!(
        "{} imports on another machine, {} disks with metadata damaged in use, {} that lost writes",
        count(&OTHER_MACHINES),
        count(&DAMAGED_IN_USE),
        count(&LAGGING)
    );
}

/// A degraded space is closed while a flush fails.
pub fn count_degraded_close() {
    DEGRADED_CLOSES.fetch_add(1, Ordering::Relaxed);
}

/// Something happened to so many disks between a stop and a start.
pub fn count_at_once(disks: u32) {
    SEVERAL_AT_ONCE.fetch_add(u64::from(disks > 1), Ordering::Relaxed);
}

/// What a disk held once, and as which member of the pool.
pub struct Image {
    member: Uuid,
    content: SimImage,
}

/// Where a slab lies: the disk, its beginning, the bytes of its head, and all of them.
pub struct SlabArea {
    disk: usize,
    start: u64,
    head_bytes: u64,
    data_bytes: u64,
    bytes: u64,
    summed: bool,
    banded: bool,
}

/// What it takes to know before a pool is closed, to lie about it afterwards.
pub struct Lies {
    /// Whether every copy was in step.
    pub whole: bool,
    /// The disks of the machine that are of the pool, and as which of its members.
    pub members: Vec<usize>,
    /// Whether it was closed in good order.
    pub settled: bool,
    pub ids: Vec<(usize, Uuid)>,
    pub slabs: Vec<SlabArea>,
}

impl Lies {
    pub fn of(run: &Run, up: &Up, settled: bool) -> Self {
        let number = |serial: &str| serial.trim_start_matches('S').parse().expect("a number");
        let ids: Vec<(usize, Uuid)> =
            up.pool.disks().iter().map(|disk| (number(&disk.record.serial), disk.record.id)).collect();
        let mut slabs = Vec::new();
        for space in &up.spaces {
            let id = space.record().id;
            let rows = up.pool.rows(id).into_iter().chain(up.pool.journal_rows(id)).map(|(_, row)| row);
            for row in rows.filter(|row| row.begun) {
                slabs.extend(areas(up, &ids, &row));
            }
        }
        Self { whole: run.is_whole(up), members: run.members(up), settled, ids, slabs }
    }
}

fn areas(up: &Up, ids: &[(usize, Uuid)], row: &RowRecord) -> Vec<SlabArea> {
    let area = |place: &holdfast_pool::SlabPlace| {
        let disk = up.pool.disk(place.disk())?;
        let (number, _) = *ids.iter().find(|(_, id)| *id == disk.id)?;
        Some(SlabArea {
            disk: number,
            start: disk.area.unit_at(place.unit()),
            head_bytes: row.slab_head_bytes(),
            data_bytes: row.slab_data_bytes(),
            bytes: u64::from(row.slab_units) * UNIT_BYTES,
            summed: row.shape.has_checksums(),
            banded: row.shape.layout.parity() > 0,
        })
    };
    row.slabs.iter().filter_map(area).collect()
}

impl Run {
    /// Keeps what a disk holds now. What it misses from here on shows that it is old: by two changes at least.
    pub(super) async fn take_image(&self, up: &Up, random: &SimRandom) {
        let disks = up.pool.disks();
        let record = &random.pick(&disks).expect("a pool has disks").record;
        let index: usize = record.serial.trim_start_matches('S').parse().expect("a number");
        if record.state != DiskState::Online
            || self.bad.borrow().contains(&index)
            || self.volumes.iter().any(|one| one.is_large())
        {
            return;
        }
        let content = self.world.disk(index).image();
        for _ in 0..2 {
            let now = up.pool.env().clock.now();
            if up.pool.stamp(now).await.is_err() {
                return;
            }
        }
        self.images.borrow_mut().insert(index, Image { member: record.id, content });
    }

    /// Keeps what a disk holds while the pool is down: as soon as somebody imports it, the disk misses no more than
    /// that.
    pub(super) fn keep_image(&self, lies: &Lies, random: &SimRandom) {
        let (index, member) = *random.pick(&lies.ids).expect("a pool has disks");
        let is_fine = self.world.disk(index).is_present() && !self.bad.borrow().contains(&index);
        if random.chance(1, 3) && is_fine && !self.volumes.iter().any(|one| one.is_large()) {
            self.images.borrow_mut().insert(index, Image { member, content: self.world.disk(index).image() });
        }
    }

    /// Puts an older image of a disk on it; false where there is none.
    pub(super) fn set_back(&self, index: usize, lies: &Lies) -> bool {
        let images = self.images.borrow();
        let image = images.get(&index).filter(|image| lies.ids.contains(&(index, image.member)));
        if let Some(image) = image {
            self.world.disk(index).set_back(&image.content);
            self.lied.set(true);
            SET_BACK.fetch_add(1, Ordering::Relaxed);
        }
        image.is_some()
    }

    /// Has a disk lose what was written to its slabs since an image was taken, to some of them in part; its labels and
    /// log stay as they are. False where there is no image, or somebody may have been writing.
    pub(super) fn lose_writes(&self, index: usize, lies: &Lies, random: &SimRandom) -> bool {
        let images = self.images.borrow();
        let Some(image) = images.get(&index).filter(|image| lies.settled && lies.ids.contains(&(index, image.member)))
        else {
            return false;
        };
        self.spoiled.set(true);
        for slab in lies.slabs.iter().filter(|slab| slab.disk == index && random.chance(3, 4)) {
            let sums = slab.head_bytes + slab.data_bytes;
            let (from, to) = match random.range(0..6u32) {
                // Without checksums nothing but the maps tells, and these do not change with every write to bands.
                _ if !slab.summed && slab.banded => (0, 0),
                0 if slab.summed => (slab.head_bytes, slab.bytes),
                1 if slab.summed => (sums, slab.bytes),
                2 if slab.summed => (slab.head_bytes, sums),
                _ => (0, slab.bytes),
            };
            self.world.disk(index).lose_writes(slab.start + from..slab.start + to, &image.content);
        }
        self.lied.set(true);
        LAGGING.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Overwrites slabs of a disk with one byte: whole, or a part together with what proves it.
    pub(super) fn overwrite(&self, index: usize, lies: &Lies, random: &SimRandom) {
        let byte = if random.chance(1, 2) { 0 } else { 0xff };
        self.spoiled.set(true);
        for slab in lies.slabs.iter().filter(|slab| slab.disk == index) {
            let bytes = slab.bytes.min(MOST_BYTES);
            let (from, to) = match random.range(0..4u32) {
                0 => (0, slab.head_bytes),
                // Where a crash left regions marked, nothing but the head tells.
                1 if lies.settled && slab.summed && bytes == slab.bytes => (slab.head_bytes, bytes),
                _ => (0, bytes),
            };
            if from < to {
                self.world.disk(index).poke(slab.start + from, &vec![byte; (to - from) as usize]);
            }
        }
        OVERWRITTEN.fetch_add(1, Ordering::Relaxed);
    }
    /// Damages the metadata of a disk in service: one of its labels, its log, heads of slabs or pages of checksums.
    pub(super) async fn damage_running(&self, up: &Up, random: &SimRandom) {
        let lies = Lies::of(self, up, false);
        let Some(index) = self.pick_victim(&lies, &lies.members, random) else { return };
        let disk = self.world.disk(index);
        let area = Area::of_disk("", disk.spec().size_bytes).expect("a good size");
        self.spoiled.set(true);
        for _ in 0..random.range(1..=3u32) {
            match random.range(0..4u32) {
                0 => {
                    let label = area.labels()[random.range(0..2usize)];
                    disk.corrupt(label..label + BLOCK_BYTES);
                }
                1 => {
                    let half = area.log_half(random.range(0..2usize));
                    let start = half + random.range(0..8u64) * BLOCK_BYTES;
                    disk.corrupt(start..start + random.range(1..16u64) * BLOCK_BYTES);
                }
                what => {
                    for slab in lies.slabs.iter().filter(|slab| slab.disk == index && random.chance(1, 2)) {
                        let sums = slab.head_bytes + slab.data_bytes;
                        let (from, to) = if what == 2 { (0, slab.head_bytes) } else { (sums, slab.bytes) };
                        if from < to && to - from <= MOST_BYTES {
                            let byte = [0, 0xa5, 0xff][random.range(0..3usize)];
                            disk.poke(slab.start + from, &vec![byte; (to - from) as usize]);
                        }
                    }
                }
            }
        }
        DAMAGED_IN_USE.fetch_add(1, Ordering::Relaxed);
        if random.chance(1, 2) {
            up.pool.audit().await.expect("a quorum is there");
            for space in &up.spaces {
                match random.chance(1, 2) {
                    true => self.scrub(space).await,
                    false => drop(space.audit_next().await.expect("everything can be read")),
                }
            }
        }
    }

    /// The disks are put into another machine: one that never saw the pool, or knew it as it was once. It can go only
    /// by what the disks say, so that most of them must say the truth.
    pub(super) fn change_machine(&self, lies: &Lies, damaged: usize, random: &SimRandom) {
        let doubtful =
            self.bad.borrow().len() + damaged + usize::from(self.joining.get() || self.plan.promise.is_some());
        if random.chance(1, 4) && lies.members.len() > 2 * doubtful {
            self.world.change_machine(random.chance(1, 2));
            OTHER_MACHINES.fetch_add(1, Ordering::Relaxed);
        } else if random.chance(1, 4) {
            self.world.note_machine();
        }
    }
}
