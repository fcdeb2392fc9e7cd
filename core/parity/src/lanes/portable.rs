//! Lanes for any processor: words of eight bytes, in groups that a compiler turns into whatever vectors there are.

use super::Lanes;
use crate::field::Factor;

const WORDS: usize = 4;
const HIGHEST_BITS: u64 = 0x8080_8080_8080_8080;

/// Bytes in plain words, in memory order.
#[derive(Clone, Copy)]
pub(crate) struct Words([u64; WORDS]);

impl Words {
    #[inline(always)]
    fn zip(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|word| with(self.0[word], other.0[word])))
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
    fn doubled(self) -> Self {
        Self(self.0.map(|word| {
            let carries = (word & HIGHEST_BITS) >> 7;
            // Each carry becomes the remainder 0x1D in its own byte, without a multiplication, which few vectors have.
            let remainders = carries ^ (carries << 2) ^ (carries << 3) ^ (carries << 4);
            ((word & !HIGHEST_BITS) << 1) ^ remainders
        }))
    }

    #[inline(always)]
    fn times(self, factor: &Factor) -> Self {
        let mut product = Self([0; WORDS]);
        let (mut doubled, mut left) = (self, factor.value);
        while left != 0 {
            if left & 1 != 0 {
                product = product.plus(doubled);
            }
            doubled = doubled.doubled();
            left >>= 1;
        }
        product
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.0 == [0; WORDS]
    }
}
