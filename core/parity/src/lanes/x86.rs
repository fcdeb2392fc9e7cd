//! Lanes of x86-64: 64 bytes with AVX-512 and GFNI, 32 bytes with AVX2, with or without GFNI.
//!
//! GFNI multiplies every byte by a matrix over bits, which covers any constant in one instruction. Without it a product
//! is two table lookups by half bytes, and doubling is a shift and a choice.

use std::arch::x86_64::*;

use super::Lanes;
use crate::field::Factor;

/// 64 bytes; needs `avx512f` and `gfni`.
#[derive(Clone, Copy)]
pub(crate) struct Wide(__m512i);

/// 32 bytes; needs `avx2` and `gfni`.
#[derive(Clone, Copy)]
pub(crate) struct Affine(__m256i);

/// 32 bytes; needs `avx2`.
#[derive(Clone, Copy)]
pub(crate) struct Plain(__m256i);

impl Lanes for Wide {
    const BYTES: usize = 64;
    const CHEAP_PRODUCT: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for the processor.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the processor and the bytes; no alignment is asked for.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes; no alignment is asked for.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: a value exists only where the processor has AVX-512.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn plus_both(self, one: Self, other: Self) -> Self {
        // SAFETY: a value exists only where the processor has AVX-512. The table 0x96 is the sum of three bits.
        Self(unsafe { _mm512_ternarylogic_epi64::<0x96>(self.0, one.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: a value exists only where the processor has AVX-512.
        Self(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn doubled(self) -> Self {
        self.times(Factor::power(1))
    }

    #[inline(always)]
    fn times(self, factor: &Factor) -> Self {
        // SAFETY: a value exists only where the processor has AVX-512 and GFNI.
        Self(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0, _mm512_set1_epi64(factor.matrix as i64)) })
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        // SAFETY: a value exists only where the processor has AVX-512.
        unsafe { _mm512_test_epi64_mask(self.0, self.0) == 0 }
    }
}

/// What both kinds of 32 bytes have in common.
macro_rules! lanes_of_32_bytes {
    () => {
        const BYTES: usize = 32;

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the caller vouches for the processor.
            Self(unsafe { _mm256_setzero_si256() })
        }

        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for the processor and the bytes; no alignment is asked for.
            Self(unsafe { _mm256_loadu_si256(from.cast()) })
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller vouches for the bytes; no alignment is asked for.
            unsafe { _mm256_storeu_si256(to.cast(), self.0) }
        }

        #[inline(always)]
        fn plus(self, other: Self) -> Self {
            // SAFETY: a value exists only where the processor has AVX2.
            Self(unsafe { _mm256_xor_si256(self.0, other.0) })
        }

        #[inline(always)]
        fn or(self, other: Self) -> Self {
            // SAFETY: a value exists only where the processor has AVX2.
            Self(unsafe { _mm256_or_si256(self.0, other.0) })
        }

        #[inline(always)]
        fn is_zero(self) -> bool {
            // SAFETY: a value exists only where the processor has AVX2.
            unsafe { _mm256_testz_si256(self.0, self.0) == 1 }
        }
    };
}

impl Lanes for Affine {
    const CHEAP_PRODUCT: bool = true;
    lanes_of_32_bytes!();

    #[inline(always)]
    fn doubled(self) -> Self {
        self.times(Factor::power(1))
    }

    #[inline(always)]
    fn times(self, factor: &Factor) -> Self {
        // SAFETY: a value exists only where the processor has AVX2 and GFNI.
        Self(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(self.0, _mm256_set1_epi64x(factor.matrix as i64)) })
    }
}

impl Lanes for Plain {
    const CHEAP_PRODUCT: bool = false;
    lanes_of_32_bytes!();

    #[inline(always)]
    fn doubled(self) -> Self {
        // SAFETY: a value exists only where the processor has AVX2. A byte with its highest bit set is negative, and
        // its carry leaves the remainder of the polynomial.
        unsafe {
            let carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let remainders = _mm256_and_si256(carries, _mm256_set1_epi8(0x1D));
            Self(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), remainders))
        }
    }

    #[inline(always)]
    fn times(self, factor: &Factor) -> Self {
        // SAFETY: a value exists only where the processor has AVX2; the tables are 16 bytes each.
        unsafe {
            let table = |half: usize| _mm256_broadcastsi128_si256(_mm_loadu_si128(factor.halves[half].as_ptr().cast()));
            let low_half = _mm256_set1_epi8(0x0F);
            let low = _mm256_shuffle_epi8(table(0), _mm256_and_si256(self.0, low_half));
            let high = _mm256_shuffle_epi8(table(1), _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), low_half));
            Self(_mm256_xor_si256(low, high))
        }
    }
}
