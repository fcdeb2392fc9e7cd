//! Features of the format that not every version knows: the ones known here, and those that a pool uses.
//!
//! A pool's features stand in its configuration and as flags in the labels of its disks. A new pool has all that are
//! known; one that was made by an older version gets them by an upgrade.
//!
//! Invariant: whatever needs a feature is written only after the labels of all disks in service say so. A version that
//! does not know it is stopped by the first label, before it stumbles over the configuration or the data.

use holdfast_model::wire::{Reader, WireError, Writer};

/// Something that not every version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Named documents in the configuration.
    Documents,
    /// A second copy of each metadata log on its disk.
    LogCopies,
}

/// So many disks at most keep their logs twice: a bad block of one of them, with another one away, takes the last copy.
pub(crate) const FEW_DISKS: usize = 3;

impl Feature {
    /// All that are known here.
    pub const ALL: [Self; 2] = [Self::Documents, Self::LogCopies];

    /// Its flag. The five flags below it stood for parts of the format that every pool has now; they are not given
    /// again.
    pub const fn flag(self) -> Features {
        match self {
            Self::Documents => Features { compatible: 0, read_only_compatible: 0, incompatible: 1 << 5 },
            Self::LogCopies => Features { compatible: 0, read_only_compatible: 0, incompatible: 1 << 6 },
        }
    }

    /// How people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::LogCopies => "log copies",
        }
    }
}

/// Flags of features: in labels, and in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// A reader that does not know these may read and write.
    pub compatible: u64,
    /// A reader that does not know these may only read.
    pub read_only_compatible: u64,
    /// A reader that does not know these leaves the disk alone.
    pub incompatible: u64,
}

impl Features {
    /// None: those of a pool of the first version.
    pub const NONE: Self = Self { compatible: 0, read_only_compatible: 0, incompatible: 0 };

    /// All that are known here.
    pub fn known() -> Self {
        Feature::ALL.into_iter().fold(Self::NONE, |all, feature| all.with(feature.flag()))
    }

    /// These and others.
    pub const fn with(self, other: Self) -> Self {
        Self {
            compatible: self.compatible | other.compatible,
            read_only_compatible: self.read_only_compatible | other.read_only_compatible,
            incompatible: self.incompatible | other.incompatible,
        }
    }

    /// Whether a feature is among them.
    pub fn has(self, feature: Feature) -> bool {
        self.with(feature.flag()) == self
    }

    /// Whether each disk of so many keeps its log twice: where fewer than two others have all that it has.
    pub(crate) fn keep_logs_twice(self, disks: usize) -> bool {
        self.has(Feature::LogCopies) && disks <= FEW_DISKS
    }

    /// Of the features known here, those that are among them.
    pub fn names(self) -> Vec<&'static str> {
        Feature::ALL.into_iter().filter(|feature| self.has(*feature)).map(Feature::name).collect()
    }

    /// Features known here that are not among them.
    pub fn missing(self) -> Vec<Feature> {
        Feature::ALL.into_iter().filter(|feature| !self.has(*feature)).collect()
    }

    /// Flags that forbid to touch the disk here.
    pub fn unknown_incompatible(self) -> u64 {
        self.incompatible & !Self::known().incompatible
    }

    /// Flags that forbid to write here.
    pub fn unknown_read_only(self) -> u64 {
        self.read_only_compatible & !Self::known().read_only_compatible
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u64(self.compatible).u64(self.read_only_compatible).u64(self.incompatible);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self { compatible: reader.u64()?, read_only_compatible: reader.u64()?, incompatible: reader.u64()? })
    }
}
