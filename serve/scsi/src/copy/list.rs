//! Reading parameter lists.
//!
//! Invariant: nothing is read beyond the end of a list. What is not there is zero, and lengths are checked where it
//! matters.

/// Bytes of a list, by offset.
#[derive(Clone, Copy)]
pub(super) struct List<'a>(pub(super) &'a [u8]);

impl<'a> List<'a> {
    pub(super) fn bytes<const N: usize>(self, at: usize) -> [u8; N] {
        at.checked_add(N).and_then(|end| self.0.get(at..end)).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    pub(super) fn u8(self, at: usize) -> u8 {
        u8::from_be_bytes(self.bytes(at))
    }

    pub(super) fn bit(self, at: usize, bit: u8) -> bool {
        self.u8(at) & (1 << bit) != 0
    }

    pub(super) fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes(at))
    }

    pub(super) fn u24(self, at: usize) -> u32 {
        let [high, middle, low] = self.bytes(at);
        u32::from_be_bytes([0, high, middle, low])
    }

    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes(at))
    }

    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes(at))
    }

    pub(super) fn part(self, at: usize, len: usize) -> &'a [u8] {
        at.checked_add(len).and_then(|end| self.0.get(at..end)).unwrap_or(&[])
    }
}
