//! Memory that is held while others are measured.
//!
//! A virtual machine with free page reporting gives free memory back to its host every few seconds. Whoever is handed
//! such a page next waits for the host, some microseconds for 4 KiB: that costs more than what is measured, and meets
//! the subjects unevenly, as it depends on how each one's packets are allotted. While nearly all memory is in use,
//! little can be given back.
//!
//! Invariant: so much stays free that nobody runs short, whatever the subjects take meanwhile.

use std::path::Path;

use holdfast_tests::process::free_bytes;

/// What stays free, beside what the page cache can give up.
const FREE_BYTES: u64 = 1536 << 20;
const PIECE_BYTES: usize = 64 << 20;

/// Held memory.
pub struct Ballast {
    wanted: bool,
    pieces: Vec<Vec<u8>>,
}

impl Ballast {
    /// Holds nothing yet, and never anything where free memory stays with the machine.
    pub fn new() -> Self {
        Self { wanted: Path::new("/sys/module/page_reporting").exists(), pieces: Vec::new() }
    }

    /// Takes what is free, or gives back what is missing.
    pub fn trim(&mut self) {
        let piece = PIECE_BYTES as u64;
        while self.wanted && free_bytes().is_some_and(|free| free > FREE_BYTES + 2 * piece) {
            self.pieces.push(vec![1; PIECE_BYTES]);
        }
        while !self.pieces.is_empty() && free_bytes().is_none_or(|free| free < FREE_BYTES - 2 * piece) {
            self.pieces.pop();
        }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> u64 {
        (self.pieces.len() * PIECE_BYTES) as u64
    }
}
