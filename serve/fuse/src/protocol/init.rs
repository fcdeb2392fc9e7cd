//! The first request: versions and capabilities.
//!
//! Invariant: what is agreed on is what both sides offer.

use holdfast_model::wire::{Reader, WireError, Writer};

use super::constants::*;

/// The largest payload of a read or write.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;

/// What this server makes use of wherever the kernel has it. Not `ATOMIC_O_TRUNC`: with that the kernel has a file cut
/// before it sees that it must not be, as it is a program that runs.
const ALWAYS: u64 = INIT_ASYNC_READ
    | INIT_EXPORT_SUPPORT
    | INIT_BIG_WRITES
    | INIT_DO_READDIRPLUS
    | INIT_READDIRPLUS_AUTO
    | INIT_ASYNC_DIO
    | INIT_PARALLEL_DIROPS
    | INIT_MAX_PAGES
    | INIT_CACHE_SYMLINKS
    | INIT_HANDLE_KILLPRIV_V2
    | INIT_EXT
    | INIT_DIRECT_IO_ALLOW_MMAP;

/// What the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// Its version.
    pub version: (u32, u32),
    /// Bytes that it reads ahead at most.
    pub max_readahead: u32,
    /// Its capabilities.
    pub flags: u64,
}

/// What is wanted beyond what always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The kernel keeps writes and writes them back by itself.
    pub writeback_cache: bool,
    /// The kernel drops what it has of a file whose times say that it was changed.
    pub invalidate_on_change: bool,
    /// Locks come to this server, instead of being kept by the kernel.
    pub locks: bool,
    /// Requests come over io_uring.
    pub over_io_uring: bool,
    /// Requests that nobody waits for, such as read-ahead, at once.
    pub background: u16,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The minor version.
    pub minor: u32,
    max_readahead: u32,
    /// Capabilities.
    pub flags: u64,
    background: u16,
}

impl Init {
    /// Parses the body of an INIT.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let version = (reader.u32()?, reader.u32()?);
        let (max_readahead, low) = (reader.u32()?, reader.u32()?);
        let high = if u64::from(low) & INIT_EXT != 0 { reader.u32()? } else { 0 };
        Ok(Self { version, max_readahead, flags: u64::from(low) | u64::from(high) << 32 })
    }

    /// What both sides can do; `None` if the kernel is too old. One that is newer than this protocol asks again.
    pub fn agree(&self, wanted: Wanted) -> Option<Agreed> {
        if self.version < (KERNEL_VERSION, OLDEST_MINOR) {
            return None;
        }
        let mut flags = ALWAYS;
        if wanted.writeback_cache {
            flags |= INIT_WRITEBACK_CACHE;
        }
        if wanted.invalidate_on_change {
            flags |= INIT_AUTO_INVAL_DATA;
        }
        if wanted.locks {
            flags |= INIT_POSIX_LOCKS | INIT_FLOCK_LOCKS;
        }
        if wanted.over_io_uring {
            flags |= INIT_OVER_IO_URING;
        }
        Some(Agreed {
            minor: self.version.1.min(KERNEL_MINOR),
            max_readahead: self.max_readahead,
            flags: flags & self.flags,
            background: wanted.background,
        })
    }

    /// Whether the kernel speaks a later protocol, and is to begin again with this one.
    pub fn is_newer(&self) -> bool {
        self.version.0 > KERNEL_VERSION
    }
}

impl Agreed {
    /// The body of the answer (`fuse_init_out`).
    pub fn encode(&self) -> Vec<u8> {
        let congestion = self.background - self.background / 4;
        let mut writer = Writer::new();
        writer.u32(KERNEL_VERSION).u32(self.minor).u32(self.max_readahead).u32(self.flags as u32);
        writer.u16(self.background).u16(congestion).u32(MAX_PAYLOAD_BYTES as u32).u32(1);
        writer.u16((MAX_PAYLOAD_BYTES / PAGE_BYTES) as u16).u16(0).u32((self.flags >> 32) as u32);
        writer.raw(&[0; 28]);
        writer.into_bytes()
    }
}

/// The answer to a kernel that [is newer](Init::is_newer).
pub fn encode_version() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(KERNEL_VERSION).u32(KERNEL_MINOR).raw(&[0; 56]);
    writer.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(version: (u32, u32), flags: u64) -> Init {
        Init { version, max_readahead: 1 << 17, flags }
    }

    #[test]
    fn only_what_both_can_do_is_agreed_on() {
        let wanted = Wanted {
            writeback_cache: true,
            invalidate_on_change: false,
            locks: false,
            over_io_uring: true,
            background: 64,
        };
        let locks = INIT_POSIX_LOCKS | INIT_FLOCK_LOCKS;
        let agreed = init((7, 31), INIT_ASYNC_READ | INIT_WRITEBACK_CACHE | INIT_AUTO_INVAL_DATA | locks).agree(wanted);
        assert_eq!(agreed.expect("new enough").flags, INIT_ASYNC_READ | INIT_WRITEBACK_CACHE);
        let agreed = init((7, 31), locks).agree(Wanted { locks: true, ..wanted });
        assert_eq!(agreed.expect("new enough").flags, locks);
        let bytes = init((7, 99), u64::MAX).agree(wanted).expect("new enough").encode();
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[4..8], KERNEL_MINOR.to_le_bytes());
        assert_eq!((bytes[16], bytes[18]), (64, 48));
    }

    #[test]
    fn kernels_of_another_time_are_told() {
        let wanted = Wanted {
            writeback_cache: false,
            invalidate_on_change: false,
            locks: true,
            over_io_uring: false,
            background: 64,
        };
        assert!(init((7, 30), u64::MAX).agree(wanted).is_none());
        assert!(init((8, 0), 0).is_newer() && !init((7, 45), 0).is_newer());
        assert_eq!(encode_version().len(), 64);
    }
}
