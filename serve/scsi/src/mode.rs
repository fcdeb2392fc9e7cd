//! What MODE SELECT changes of a unit.
//!
//! Invariant: initiators share it, so whoever changes it has all others told.

use std::sync::atomic::{AtomicU8, Ordering};

/// Changes are not durable before a flush.
pub(crate) const WRITE_CACHE: u8 = 1;
/// Nothing may be written.
pub(crate) const WRITE_PROTECT: u8 = 2;
/// Sense data go out in descriptor format.
pub(crate) const DESCRIPTOR_SENSE: u8 = 4;

/// What holds when a unit is new or was reset.
pub(crate) const DEFAULT: u8 = WRITE_CACHE;

/// See the module.
pub(crate) struct Mode(AtomicU8);

impl Default for Mode {
    fn default() -> Self {
        Self(AtomicU8::new(DEFAULT))
    }
}

impl Mode {
    pub(crate) fn flags(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Puts others in force. False where they are the same.
    pub(crate) fn set(&self, flags: u8) -> bool {
        self.0.swap(flags, Ordering::SeqCst) != flags
    }

    pub(crate) fn is_write_protected(&self) -> bool {
        self.flags() & WRITE_PROTECT != 0
    }

    /// Turns the write cache on again.
    pub(crate) fn cache_again(&self) {
        self.0.fetch_or(WRITE_CACHE, Ordering::SeqCst);
    }

    /// Whether every change is to be durable when it is answered.
    pub(crate) fn writes_through(&self) -> bool {
        self.0.load(Ordering::SeqCst) & WRITE_CACHE == 0
    }

    pub(crate) fn descriptor_sense(&self) -> bool {
        self.flags() & DESCRIPTOR_SENSE != 0
    }
}
