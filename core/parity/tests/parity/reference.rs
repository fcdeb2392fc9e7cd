//! What parity is, byte by byte and without a thought for speed; and random stripes to try it on.

use std::ops::Range;

use holdfast_harness::note_left_out;
use holdfast_parity::Kernel;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

/// Lengths around every boundary that a kernel has.
pub const LENGTHS: &[usize] = &[0, 1, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 1000, 4096, 65536 + 7];

/// The kernels to try: all that the processor has.
pub fn kernels() -> Vec<Kernel> {
    let kernels: Vec<Kernel> = Kernel::available().collect();
    for name in ["avx512-gfni", "avx2-gfni", "avx2"] {
        if !kernels.iter().any(|kernel| kernel.name() == name) {
            note_left_out(&format!("kernel {name} of core/parity"), "a processor that has it");
        }
    }
    kernels
}

/// Twice, in the field.
pub fn double(byte: u8) -> u8 {
    (byte << 1) ^ if byte & 0x80 != 0 { 0x1D } else { 0 }
}

/// A random generator whose seed is printed where the test fails.
pub fn seeded(seed: u64) -> SmallRng {
    println!("seed {seed}");
    SmallRng::seed_from_u64(seed)
}

/// Random bytes that begin at any address.
pub struct Bytes {
    memory: Vec<u8>,
    range: Range<usize>,
}

impl Bytes {
    pub fn random(random: &mut SmallRng, len: usize) -> Self {
        let at = random.random_range(0..64);
        let mut memory = vec![0; at + len];
        random.fill_bytes(&mut memory);
        Self { memory, range: at..at + len }
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.range.clone()]
    }
}

impl std::ops::DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.range.clone()]
    }
}

/// A stripe with its true parity.
pub struct Stripe {
    pub data: Vec<Option<Bytes>>,
    pub p: Vec<u8>,
    pub q: Vec<u8>,
}

impl Stripe {
    /// A stripe of random bytes, in which each column is zeros with one chance in `zeros` (0: never).
    pub fn random(random: &mut SmallRng, columns: usize, len: usize, zeros: u32) -> Self {
        let column = |_| (zeros == 0 || random.random_range(0..zeros) != 0).then(|| Bytes::random(random, len));
        let data: Vec<_> = (0..columns).map(column).collect();
        let (mut p, mut q) = (vec![0; len], vec![0; len]);
        for place in 0..len {
            for column in data.iter().rev() {
                let byte = column.as_ref().map_or(0, |bytes| bytes[place]);
                p[place] ^= byte;
                q[place] = double(q[place]) ^ byte;
            }
        }
        Self { data, p, q }
    }

    pub fn columns(&self) -> Vec<Option<&[u8]>> {
        self.data.iter().map(|column| column.as_deref()).collect()
    }

    /// The bytes of a column, zeros included.
    pub fn bytes(&self, column: usize) -> Vec<u8> {
        self.data[column].as_ref().map_or_else(|| vec![0; self.p.len()], |bytes| bytes.to_vec())
    }
}
