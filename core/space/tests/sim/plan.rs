//! What a seed decides once: the disks, the spaces, and how hard they are worked.

use holdfast_device::sim::{Latency, SimDiskSpec, SimRandom};
use holdfast_model::{BLOCK_BYTES, ByteSize, Integrity, Layout, Media, Provisioning, Shape};

/// Which layouts a seed is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Simple and mirrored spaces.
    Copies,
    /// Spaces with parity, perhaps beside mirrors.
    Parity,
    /// Spaces that change their shape and disks all the time.
    Changing,
}

/// What a seed decides once.
pub struct Plan {
    pub disks: usize,
    pub disk_bytes: u64,
    pub spaces: Vec<SpacePlan>,
    pub tear_bytes: u32,
    pub latency: Latency,
    pub media: Media,
    /// Disks of another kind than the others, for the journal.
    pub solid: std::ops::Range<usize>,
    pub rounds: u32,
    pub clients: u32,
    pub requests: u32,
    /// Most of the room is taken, so that writes may find none.
    pub tight: bool,
    /// Bytes of a parity space that may wait in memory.
    pub write_buffer_bytes: usize,
    /// Where spaces change their shape: how many losses each shape bears at least.
    pub promise: Option<u8>,
}

/// A space of a seed.
#[derive(Clone, Copy)]
pub struct SpacePlan {
    pub shape: Shape,
    pub provisioning: Provisioning,
    pub size_bytes: u64,
}

impl Plan {
    /// Whether what was written is destaged in the background.
    pub fn is_helped(&self) -> bool {
        self.requests.is_multiple_of(2)
    }

    pub fn draw(random: &SimRandom, family: Family) -> Self {
        if family == Family::Changing {
            return Self::draw_changing(random);
        }
        let parity = family == Family::Parity;
        let simple = !parity && random.chance(1, 5);
        let large = random.chance(1, 12);
        let most_copies = if simple { 1 } else { random.range(2..=3u8) };
        let least = if parity { usize::from(most_copies) + 1 } else { usize::from(most_copies).max(2) };
        let disks = random.range(least..=12);
        let spaces = if random.chance(1, 3) { random.range(2..=3) } else { 1 };
        let spaces = (0..spaces)
            .map(|_| match parity && random.chance(4, 5) {
                true => SpacePlan::draw_parity(random, disks, most_copies - 1, large),
                false => SpacePlan::draw(random, disks, most_copies, large),
            })
            .collect();
        let (latency, media) = match random.range(0..6u32) {
            _ if parity && random.chance(1, 4) => (Latency::None, Media::Hdd),
            0 => (Latency::Ssd, Media::Ssd),
            1 => (Latency::Hdd10k, Media::Hdd),
            _ => (Latency::None, if random.chance(1, 4) { Media::Hdd } else { Media::Ssd }),
        };
        Self {
            disks,
            disk_bytes: if large { random.range(4..=80u64) << 30 } else { 64 << 20 },
            spaces,
            tear_bytes: if !large && random.chance(1, 2) { 512 } else { 4096 },
            latency,
            media,
            solid: 0..if parity && media == Media::Hdd { random.range(0..4) } else { 0 },
            rounds: random.range(2..=5),
            clients: random.range(1..=4),
            requests: random.range(5..=40),
            tight: !large && random.chance(1, 6),
            write_buffer_bytes: if parity { 4096 << random.range(0..12u32) } else { 0 },
            promise: None,
        }
    }

    fn draw_changing(random: &SimRandom) -> Self {
        let promise = if random.chance(1, 6) { 0 } else { random.range(1..=2u8) };
        let disks = random.range(usize::from(promise) + 3..=12);
        let spaces = if random.chance(1, 4) { 2 } else { 1 };
        let spaces = (0..spaces)
            .map(|_| SpacePlan {
                shape: draw_shape(random, disks, promise),
                provisioning: draw_provisioning(random),
                size_bytes: random.range(1..=2048u64) * BLOCK_BYTES,
            })
            .collect();
        Self {
            disks,
            disk_bytes: 64 << 20,
            spaces,
            tear_bytes: if random.chance(1, 2) { 512 } else { 4096 },
            latency: if random.chance(1, 3) { Latency::Ssd } else { Latency::None },
            media: Media::Ssd,
            solid: 0..0,
            rounds: random.range(2..=5),
            clients: random.range(1..=4),
            requests: random.range(5..=60),
            tight: random.chance(1, 8),
            write_buffer_bytes: 4096 << random.range(0..12u32),
            promise: Some(promise),
        }
    }

    /// Disk number `index` of the machine.
    pub fn disk(&self, index: usize, random: &SimRandom) -> SimDiskSpec {
        SimDiskSpec {
            name: format!("disk{index}"),
            serial: format!("S{index}"),
            size_bytes: self.disk_bytes + random.range(0..16u64) * (1 << 20),
            tear_bytes: self.tear_bytes,
            media: if self.solid.contains(&index) { Media::Ssd } else { self.media },
            latency: if self.solid.contains(&index) { Latency::Ssd } else { self.latency },
            ..SimDiskSpec::default()
        }
    }

    /// How many disks every space may lose.
    pub fn tolerates(&self) -> usize {
        let least = self.spaces.iter().map(|space| usize::from(space.shape.layout.tolerates())).min().unwrap_or(0);
        self.promise.map_or(least, usize::from)
    }

    /// Whether a write may be refused for want of room.
    pub fn may_be_full(&self) -> bool {
        self.tight
            || self.promise.is_some()
            || self.spaces.iter().any(|space| space.shape.interleave > ByteSize::mib(1))
    }
}

/// A shape that bears so many losses or more.
pub fn draw_shape(random: &SimRandom, disks: usize, promise: u8) -> Shape {
    loop {
        let layout = match random.range(0..5u32) {
            0 => Layout::Simple,
            1 => Layout::Mirror { copies: 2 },
            2 => Layout::Mirror { copies: 3 },
            parity => Layout::Parity { parity: parity as u8 - 2 },
        };
        let most = (disks / usize::from(layout.copies())) as u16;
        let least = layout.least_columns();
        if layout.tolerates() >= promise && least <= most {
            let columns = random.range(least..=if layout.parity() > 0 { most } else { most.min(4) });
            let shape = Shape::plain(layout, columns, ByteSize(BLOCK_BYTES << random.range(0..6u32)));
            return shape.with_integrity(draw_integrity(random));
        }
    }
}

/// With checksums or without.
fn draw_integrity(random: &SimRandom) -> Integrity {
    if random.chance(2, 3) { Integrity::Crc32c } else { Integrity::None }
}

/// Fixed or thin.
pub fn draw_provisioning(random: &SimRandom) -> Provisioning {
    if random.chance(2, 3) { Provisioning::Thin } else { Provisioning::Fixed }
}

impl SpacePlan {
    fn draw_parity(random: &SimRandom, disks: usize, most: u8, large: bool) -> Self {
        let parity = random.range(1..=most);
        let columns = random.range(u16::from(parity) + 2..=disks as u16);
        let exponent = if random.chance(1, 12) { random.range(6..9u32) } else { random.range(0..6) };
        let shape = Shape::plain(Layout::Parity { parity }, columns, ByteSize(BLOCK_BYTES << exponent));
        Self { shape: shape.with_integrity(draw_integrity(random)), ..Self::draw(random, disks, 1, large) }
    }

    fn draw(random: &SimRandom, disks: usize, most_copies: u8, large: bool) -> Self {
        let layout = match most_copies {
            1 => Layout::Simple,
            most => Layout::Mirror { copies: random.range(2..=most) },
        };
        let copies = usize::from(layout.copies());
        let columns = random.range(1..=(disks / copies).min(4)) as u16;
        let exponent = if random.chance(1, 16) { random.range(7..13u32) } else { random.range(0..7) };
        let interleave = ByteSize(BLOCK_BYTES << exponent);
        let provisioning = if large || random.chance(2, 3) { Provisioning::Thin } else { Provisioning::Fixed };
        let blocks = match random.range(0..10u32) {
            _ if large => random.range(1..=100u64 << 10),
            0 => 1,
            1..=2 => random.range(1..=64),
            _ => random.range(1..=1024),
        };
        let shape = Shape::plain(layout, columns, interleave).with_integrity(draw_integrity(random));
        Self { shape, provisioning, size_bytes: blocks * BLOCK_BYTES }
    }
}
