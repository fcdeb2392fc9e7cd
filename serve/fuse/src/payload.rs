//! Memory that requests are read into.
//!
//! A request is read into [80 bytes of header | payload]: what a write carries lands at the start of a page and goes on
//! by reference. Payloads follow each other in one allocation, each from a page of its own.
//!
//! ```text
//!   arena   | 4 KiB | 12 KiB      | 4 KiB |             free, at least 1 MiB             |
//! ```
//!
//! Invariant: what was handed out is never read into again.

use holdfast_device::buffer::ALIGN_BYTES;
use holdfast_device::{IoBuf, IoSlice};

use crate::protocol::init::MAX_PAYLOAD_BYTES;

/// Twice what a request can carry, so that small ones share an allocation.
const ARENA_BYTES: usize = 2 * MAX_PAYLOAD_BYTES;

pub(crate) struct Arena {
    free: IoBuf,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self { free: IoBuf::new(ARENA_BYTES) }
    }

    /// Where the next payload goes.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.free.len() < MAX_PAYLOAD_BYTES {
            self.free = IoBuf::new(ARENA_BYTES);
        }
        &mut self.free[..MAX_PAYLOAD_BYTES]
    }

    /// Hands out the payload of `len` bytes that was read, in whole pages.
    pub(crate) fn take(&mut self, len: usize) -> IoSlice {
        self.free.split_to(len.next_multiple_of(ALIGN_BYTES)).freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_aligned_and_never_shared() {
        let mut arena = Arena::new();
        let mut taken = Vec::new();
        for number in 0..600 {
            let len = 1 + number * 37 % 9000;
            arena.room()[..len].fill(number as u8);
            taken.push((number as u8, len, arena.take(len)));
        }
        for (byte, len, payload) in taken {
            assert_eq!(payload.as_ptr() as usize % ALIGN_BYTES, 0);
            assert!(payload.len() >= len && payload[..len].iter().all(|found| *found == byte));
        }
        assert_eq!(arena.room().len(), MAX_PAYLOAD_BYTES);
    }
}
