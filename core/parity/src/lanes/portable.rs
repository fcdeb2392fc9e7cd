//! Lanes for any processor: words of eight bytes, in groups that a compiler turns into whatever vectors there are.

use super::Lanes;
use crate::field::Factor;

const WORDS: usize = 4;
/// One in each byte.
const EACH: u64 = u64::from_ne_bytes([1; 8]);

/// Bytes in plain words, in memory order.
#[derive(Clone, Copy)]
pub(crate) struct Words([u64; WORDS]);

impl Words {
    #[inline(always)]
    fn zip(mut self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word = with(*word, other);
        }
        self
    }
}

impl Lanes for Words {
    const BYTES: usize = 8 * WORDS;
    const CHEAP_PRODUCT: bool = false;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([0; WORDS])
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the bytes; an array of words has no invalid value.
        Self(unsafe { from.cast::<[u64; WORDS]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes.
        unsafe { to.cast::<[u64; WORDS]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.zip(other, |one, other| one ^ other)
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.zip(other, |one, other| one | other)
    }

    #[inline(always)]
    fn doubled(mut self) -> Self {
        for word in &mut self.0 {
            let carries = *word & (EACH * 0x80);
            // A byte with its highest bit set becomes 0xFF here, any other zero; no multiplication, which few vectors
            // have.
            let spread = (carries << 1).wrapping_sub(carries >> 7);
            *word = ((*word << 1) & (EACH * 0xFE)) ^ (spread & (EACH * 0x1D));
        }
        self
    }

    #[inline(always)]
    fn times(self, factor: &Factor) -> Self {
        self.mixed(factor, self, Factor::of(0))
    }

    #[inline(always)]
    fn mixed(self, factor: &Factor, other: Self, other_factor: &Factor) -> Self {
        // From the highest bit down, so that both share the doublings.
        let mut sum = Self([0; WORDS]);
        for bit in (0..8).rev() {
            sum = sum.doubled();
            if factor.value >> bit & 1 != 0 {
                sum = sum.plus(self);
            }
            if other_factor.value >> bit & 1 != 0 {
                sum = sum.plus(other);
            }
        }
        sum
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.0 == [0; WORDS]
    }
}
