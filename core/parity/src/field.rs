//! The field GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11D) and the generator g = 2.
//!
//! Addition is XOR. Every constant that bytes are ever multiplied by stands in one table, in each form that a kernel
//! wants; the table is computed at build time from [`multiply`] alone.

/// What is left of the polynomial once x^8 is taken away.
const REMAINDER: u8 = 0x1D;

/// The product of two elements, bit by bit.
const fn multiply(a: u8, b: u8) -> u8 {
    let (mut shifted, mut left, mut product) = (a, b, 0);
    while left != 0 {
        if left & 1 != 0 {
            product ^= shifted;
        }
        let carry = shifted >> 7;
        shifted = (shifted << 1) ^ (carry * REMAINDER);
        left >>= 1;
    }
    product
}

/// g to the power of `exponent`.
pub(crate) fn power(exponent: usize) -> u8 {
    POWERS[exponent % 255]
}

/// What exponent of g gives `a`, which is not zero.
fn logarithm(a: u8) -> usize {
    debug_assert_ne!(a, 0, "zero is no power");
    usize::from(LOGARITHMS[usize::from(a)])
}

/// `a` divided by `b`, neither of which is zero.
pub(crate) fn quotient(a: u8, b: u8) -> u8 {
    power(exponent(a, b))
}

/// What exponent of g, below 255, gives `a` divided by `b`, neither of which is zero.
pub(crate) fn exponent(a: u8, b: u8) -> usize {
    (255 + logarithm(a) - logarithm(b)) % 255
}

/// A constant to multiply by.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "two of its forms are for instructions of x86"))]
pub(crate) struct Factor {
    /// The constant itself.
    pub(crate) value: u8,
    /// Its product as a matrix over bits, as `GF2P8AFFINEQB` takes it: the row of the highest bit of the result in the
    /// lowest byte.
    pub(crate) matrix: u64,
    /// Its products with 0x00, 0x01 .. 0x0F, then with 0x00, 0x10 .. 0xF0, for a table lookup by half bytes.
    pub(crate) halves: [[u8; 16]; 2],
}

impl Factor {
    const fn new(value: u8) -> Self {
        let mut matrix = [0u8; 8];
        let mut bit = 0;
        while bit < 8 {
            let column = multiply(value, 1 << bit);
            let mut row = 0;
            while row < 8 {
                matrix[7 - row] |= ((column >> row) & 1) << bit;
                row += 1;
            }
            bit += 1;
        }
        let mut halves = [[0; 16]; 2];
        let mut half = 0;
        while half < 16 {
            halves[0][half] = multiply(value, half as u8);
            halves[1][half] = multiply(value, (half as u8) << 4);
            half += 1;
        }
        Self { value, matrix: u64::from_le_bytes(matrix), halves }
    }

    /// The constant `value`.
    pub(crate) fn of(value: u8) -> &'static Self {
        &FACTORS[usize::from(value)]
    }

    /// The constant g^`exponent`.
    pub(crate) fn power(exponent: usize) -> &'static Self {
        Self::of(power(exponent))
    }
}

static FACTORS: [Factor; 256] = {
    let mut factors = [const { Factor { value: 0, matrix: 0, halves: [[0; 16]; 2] } }; 256];
    let mut value = 0;
    while value < 256 {
        factors[value] = Factor::new(value as u8);
        value += 1;
    }
    factors
};

static POWERS: [u8; 255] = {
    let mut powers = [1; 255];
    let mut exponent = 1;
    while exponent < 255 {
        powers[exponent] = multiply(powers[exponent - 1], 2);
        exponent += 1;
    }
    powers
};

static LOGARITHMS: [u8; 256] = {
    let mut logarithms = [0; 256];
    let (mut exponent, mut value) = (0, 1);
    while exponent < 255 {
        logarithms[value as usize] = exponent;
        value = multiply(value, 2);
        exponent += 1;
    }
    logarithms
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Under Miri, which is slow, every sixteenth will do.
    const STEP: usize = if cfg!(miri) { 16 } else { 1 };

    #[test]
    fn the_generator_runs_through_every_element_but_zero() {
        let mut seen = [false; 256];
        (0..255).for_each(|exponent| seen[usize::from(power(exponent))] = true);
        assert!(!seen[0] && seen[1..].iter().all(|seen| *seen));
        assert_eq!((power(0), power(1), power(8), power(254)), (1, 2, REMAINDER, quotient(1, 2)));
    }

    #[test]
    fn dividing_undoes_multiplying() {
        for a in (1..=255).step_by(STEP) {
            for b in 1..=255 {
                assert_eq!(quotient(multiply(a, b), b), a, "{a} by {b}");
            }
        }
    }

    #[test]
    fn every_form_of_a_factor_says_the_same() {
        for constant in (0..=255u8).step_by(STEP) {
            let factor = Factor::of(constant);
            let rows = factor.matrix.to_le_bytes();
            for byte in 0..=255u8 {
                let expected = multiply(constant, byte);
                let by_matrix =
                    (0..8).fold(0, |sum, bit| sum | (((rows[7 - bit] & byte).count_ones() as u8 & 1) << bit));
                let by_halves = factor.halves[0][usize::from(byte & 15)] ^ factor.halves[1][usize::from(byte >> 4)];
                assert_eq!(
                    (factor.value, by_matrix, by_halves),
                    (constant, expected, expected),
                    "{constant} times {byte}"
                );
            }
        }
    }

    #[test]
    fn powers_repeat_after_255() {
        let mut value = 1;
        for exponent in 0..600 {
            assert_eq!((power(exponent), Factor::power(exponent).value), (value, value), "{exponent}");
            value = multiply(value, 2);
        }
    }
}
