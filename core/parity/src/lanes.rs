//! One register's worth of bytes, and what can be done with it: all that differs from one processor to another.
//!
//! Invariant: a value of a type of lanes exists only where the processor can do what that type needs. So only the ways
//! to make one from nothing are unsafe; with a value, addition and multiplication are safe.

pub(crate) mod portable;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use crate::field::Factor;

/// A register of bytes, each an element of the field.
pub(crate) trait Lanes: Copy {
    /// How many bytes it holds; at most [`MAX_LANES_BYTES`].
    const BYTES: usize;
    /// Whether a product by any constant is about as cheap as doubling.
    const CHEAP_PRODUCT: bool;

    /// All bytes zero.
    ///
    /// # Safety
    /// The processor has what this type needs.
    unsafe fn zero() -> Self;

    /// Reads [`Lanes::BYTES`] from any address.
    ///
    /// # Safety
    /// The processor has what this type needs, and that many bytes may be read there.
    unsafe fn load(from: *const u8) -> Self;

    /// Writes [`Lanes::BYTES`] to any address.
    ///
    /// # Safety
    /// That many bytes may be written there.
    unsafe fn store(self, to: *mut u8);

    /// The sum, which is XOR.
    fn plus(self, other: Self) -> Self;

    /// The sum of three.
    #[inline(always)]
    fn plus_both(self, one: Self, other: Self) -> Self {
        self.plus(one).plus(other)
    }

    /// Every bit that is set in either.
    fn or(self, other: Self) -> Self;

    /// Each byte times g.
    fn doubled(self) -> Self;

    /// Each byte times a constant.
    fn times(self, factor: &Factor) -> Self;

    /// Each byte of two registers times a constant of its own, summed.
    #[inline(always)]
    fn mixed(self, factor: &Factor, other: Self, other_factor: &Factor) -> Self {
        self.times(factor).plus(other.times(other_factor))
    }

    /// Whether all bytes are zero.
    fn is_zero(self) -> bool;
}

/// The widest lanes there are.
pub(crate) const MAX_LANES_BYTES: usize = 64;
