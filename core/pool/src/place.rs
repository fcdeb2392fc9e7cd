//! Where a slab lies, and how it stands: in step, stale, or outdated.
//!
//! Invariant: what is outdated is stale as well.

/// Where a slab lies. Six bytes, since a large pool has millions.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, packed(2))]
pub struct SlabPlace {
    disk_and_stale: u16,
    unit: u32,
}

/// Disks of a pool are numbered below this.
pub const MAX_DISKS: u16 = 1 << 14;
const STALE: u16 = 1 << 15;
const OUTDATED: u16 = 1 << 14;

impl SlabPlace {
    /// A slab in step on `disk` from `unit`.
    pub fn new(disk: u16, unit: u32) -> Self {
        debug_assert!(disk < MAX_DISKS);
        Self { disk_and_stale: disk, unit }
    }

    /// The disk's number.
    pub fn disk(&self) -> u16 {
        self.disk_and_stale & !(STALE | OUTDATED)
    }

    /// The first unit on it.
    pub fn unit(&self) -> u32 {
        self.unit
    }

    /// Whether it missed a write.
    pub fn stale(&self) -> bool {
        self.disk_and_stale & STALE != 0
    }

    /// Whether it may have missed any write at all, not only those that the other slabs of its row have marked.
    pub fn outdated(&self) -> bool {
        self.disk_and_stale & OUTDATED != 0
    }

    pub(crate) fn set_stale(&mut self, stale: bool) {
        match stale {
            true => self.disk_and_stale |= STALE,
            false => self.disk_and_stale = self.disk(),
        }
    }

    pub(crate) fn set_outdated(&mut self, outdated: bool) {
        self.disk_and_stale = self.disk() | STALE | if outdated { OUTDATED } else { 0 };
    }
}

impl std::fmt::Debug for SlabPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = if self.outdated() {
            " outdated"
        } else if self.stale() {
            " stale"
        } else {
            ""
        };
        write!(f, "{}:{}{state}", self.disk(), self.unit())
    }
}
