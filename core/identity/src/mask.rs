//! What somebody may do, a bit each ([MS-DTYP] 2.4.3, [MS-SMB2] 2.2.13.1).
//!
//! ```text
//!   31      28 25 24   20      16 15            9 8          0
//!   generic    MA SS   S WO WD RC D   undefined    file rights
//! ```
//!
//! Invariant: generic rights mean the same for files and directories, so no kind of file is needed to map them.

use bitflags::bitflags;

bitflags! {
    /// Rights. Names are those of files; where a bit has another meaning for directories, it is given. Bits that have
    /// no meaning are kept.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub struct AccessMask: u32 {
        /// Read data; list a directory.
        const READ_DATA = 0x0000_0001;
        /// Write data; create files in a directory.
        const WRITE_DATA = 0x0000_0002;
        /// Write behind the end; create directories in a directory.
        const APPEND_DATA = 0x0000_0004;
        /// Read extended attributes.
        const READ_EA = 0x0000_0008;
        /// Write extended attributes.
        const WRITE_EA = 0x0000_0010;
        /// Execute; pass through a directory.
        const EXECUTE = 0x0000_0020;
        /// Remove what is in a directory.
        const DELETE_CHILD = 0x0000_0040;
        /// Read attributes and times.
        const READ_ATTRIBUTES = 0x0000_0080;
        /// Write attributes and times.
        const WRITE_ATTRIBUTES = 0x0000_0100;
        /// Remove or rename the file.
        const DELETE = 0x0001_0000;
        /// Read the descriptor, without its SACL.
        const READ_CONTROL = 0x0002_0000;
        /// Change who may do what.
        const WRITE_DAC = 0x0004_0000;
        /// Change owner and group.
        const WRITE_OWNER = 0x0008_0000;
        /// Wait for the handle.
        const SYNCHRONIZE = 0x0010_0000;
        /// Read and change the SACL. No entry grants it, a privilege does.
        const ACCESS_SYSTEM_SECURITY = 0x0100_0000;
        /// In a request: all that the caller may do.
        const MAXIMUM_ALLOWED = 0x0200_0000;
        /// All of [`AccessMask::FILE_ALL`].
        const GENERIC_ALL = 0x1000_0000;
        /// All of [`AccessMask::FILE_EXECUTE`].
        const GENERIC_EXECUTE = 0x2000_0000;
        /// All of [`AccessMask::FILE_WRITE`].
        const GENERIC_WRITE = 0x4000_0000;
        /// All of [`AccessMask::FILE_READ`].
        const GENERIC_READ = 0x8000_0000;

        const _ = !0;
    }
}

impl AccessMask {
    /// Every right that a file has (`FILE_ALL_ACCESS`).
    pub const FILE_ALL: Self = Self::from_bits_retain(0x001f_01ff);
    /// What reading takes (`FILE_GENERIC_READ`).
    pub const FILE_READ: Self = Self::from_bits_retain(0x0012_0089);
    /// What writing takes (`FILE_GENERIC_WRITE`).
    pub const FILE_WRITE: Self = Self::from_bits_retain(0x0012_0116);
    /// What executing takes (`FILE_GENERIC_EXECUTE`).
    pub const FILE_EXECUTE: Self = Self::from_bits_retain(0x0012_00a0);
    /// The four generic rights.
    pub const GENERIC: Self = Self::from_bits_retain(0xf000_0000);

    /// With generic rights replaced by what they stand for ([MS-SMB2] 2.2.13.1, the mapping of files and directories).
    #[must_use]
    pub fn mapped(self) -> Self {
        if !self.intersects(Self::GENERIC) {
            return self;
        }
        let pairs = [
            (Self::GENERIC_READ, Self::FILE_READ),
            (Self::GENERIC_WRITE, Self::FILE_WRITE),
            (Self::GENERIC_EXECUTE, Self::FILE_EXECUTE),
            (Self::GENERIC_ALL, Self::FILE_ALL),
        ];
        let mapped = pairs.iter().filter(|(generic, _)| self.contains(*generic)).map(|(_, rights)| *rights);
        mapped.fold(self.difference(Self::GENERIC), |all, rights| all | rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_rights_are_what_they_stand_for() {
        assert_eq!(AccessMask::GENERIC_ALL.mapped(), AccessMask::FILE_ALL);
        let both = AccessMask::GENERIC_READ | AccessMask::GENERIC_EXECUTE | AccessMask::DELETE;
        assert_eq!(both.mapped().bits(), 0x0013_00a9);
        assert_eq!(AccessMask::from_bits_retain(0x00e0_8000).mapped().bits(), 0x00e0_8000, "unknown bits are kept");
        let all = AccessMask::FILE_READ | AccessMask::FILE_WRITE | AccessMask::FILE_EXECUTE;
        assert_eq!((AccessMask::FILE_ALL - all).bits(), 0x000d_0040, "what only all rights have");
    }
}
