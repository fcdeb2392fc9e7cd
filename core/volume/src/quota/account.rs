//! What one party takes, and may take.
//!
//! Invariant: a soft limit is told each time that it is crossed, and once.

use std::ops::{AddAssign, Neg};

use holdfast_model::wire::{Reader, Writer};
use holdfast_model::{BLOCK_BYTES, ByteSize};

use super::{Definition, Limits, Quota, QuotaState, Subject, bytes_of};

/// Blocks and files, more or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub blocks: i64,
    pub files: i64,
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        self.blocks = self.blocks.saturating_add(other.blocks);
        self.files = self.files.saturating_add(other.files);
    }
}

impl Neg for Amount {
    type Output = Self;

    fn neg(self) -> Self {
        Self { blocks: -self.blocks, files: -self.files }
    }
}

impl Amount {
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u64(self.blocks as u64).u64(self.files as u64);
        writer.into_bytes()
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        Some(Self { blocks: reader.u64().ok()? as i64, files: reader.u64().ok()? as i64 })
    }
}

#[derive(Default)]
pub(super) struct Account {
    /// What names it itself.
    pub own: Amount,
    /// That, what is within it and what waits: what limits are held against.
    pub all: Amount,
    pub definition: Option<Definition>,
    pub refused: u64,
    pub crossed: u64,
}

impl Account {
    pub fn limits(&self) -> Limits {
        self.definition.map_or(Limits::default(), |definition| definition.limits)
    }

    /// Blocks that the hard limit leaves.
    pub fn left(&self) -> Option<u64> {
        let hard = self.limits().hard_bytes?;
        Some((hard / BLOCK_BYTES).saturating_sub(self.all.blocks.max(0) as u64))
    }

    /// Why it cannot take more, if so.
    pub fn refusal(&self, more: Amount) -> Option<String> {
        let limits = self.limits();
        if more.blocks > 0 && self.left().is_some_and(|left| more.blocks as u64 > left) {
            return Some(ByteSize(limits.hard_bytes?).to_string());
        }
        let files = (self.all.files.max(0) as u64).saturating_add(more.files.max(0) as u64);
        let is_over = more.files > 0 && limits.hard_files.is_some_and(|hard| files > hard);
        is_over.then(|| format!("{} files", limits.hard_files.unwrap_or_default()))
    }

    pub fn quota(&self, subject: Subject) -> Quota {
        let directory = self.definition.map(|definition| definition.directory);
        Quota {
            subject,
            limits: self.definition.map(|definition| definition.limits),
            directory: directory.filter(|directory| directory.number != 0),
            state: self.definition.map_or(QuotaState::Settled, |definition| definition.state),
            used_bytes: bytes_of(self.all.blocks),
            used_files: self.all.files.max(0) as u64,
            refused: self.refused,
            crossed: self.crossed,
        }
    }

    /// Whether what it takes is beyond its soft limits, of room and of files.
    pub fn is_over(&self) -> (bool, bool) {
        let limits = self.limits();
        let bytes = limits.soft_bytes.is_some_and(|soft| bytes_of(self.all.blocks) > soft);
        (bytes, limits.soft_files.is_some_and(|soft| self.all.files.max(0) as u64 > soft))
    }

    pub fn take(&mut self, more: Amount) {
        let before = self.is_over();
        self.all += more;
        let after = self.is_over();
        self.crossed += u64::from(after.0 && !before.0) + u64::from(after.1 && !before.1);
    }

    /// A soft limit that is new and lies below what is taken was crossed by that.
    pub fn note_new_limits(&mut self, before: Limits) {
        let (limits, over) = (self.limits(), self.is_over());
        let is_new = (limits.soft_bytes != before.soft_bytes, limits.soft_files != before.soft_files);
        self.crossed += u64::from(over.0 && is_new.0) + u64::from(over.1 && is_new.1);
    }
}
