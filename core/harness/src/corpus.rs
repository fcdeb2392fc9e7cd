//! The kept inputs of a fuzz target, and inputs made of them, for the tests that run without the fuzzer.
//!
//! Invariant: an input follows from the corpus and its seed.

use std::path::Path;

/// The inputs that `fuzz/corpus/TARGET` keeps, in order of their names.
///
/// # Panics
/// If there are none.
pub fn kept(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder can be read").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}: nothing is kept", folder.display());
    paths.iter().map(|path| std::fs::read(path).expect("an input can be read")).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound.max(1) as u64) as usize
    }
}

/// One of the inputs with a few changes: bits and bytes, parts that are cut, doubled or taken from another input.
pub fn changed(kept: &[Vec<u8>], seed: u64) -> Vec<u8> {
    const BYTES: [u8; 8] = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, 16];
    let mut random = Random(seed);
    let mut input = kept[random.below(kept.len())].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(input.len());
        let len = 1 + random.below(input.len().saturating_sub(at).min(64));
        let part = at.min(input.len())..(at + len).min(input.len());
        match random.below(6) {
            _ if input.is_empty() => input.push(BYTES[random.below(BYTES.len())]),
            0 => input[at] ^= 1 << random.below(8),
            1 => input[at] = BYTES[random.below(BYTES.len())],
            2 => drop(input.drain(part)),
            3 => {
                let doubled = input[part].to_vec();
                input.splice(at..at, doubled);
            }
            4 => input.truncate(at),
            _ => {
                let other = &kept[random.below(kept.len())];
                let from = random.below(other.len());
                let taken = other[from..(from + len).min(other.len())].to_vec();
                input.splice(part, taken);
            }
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn inputs_follow_from_their_seed_and_differ() {
        let kept = [vec![1, 2, 3, 4, 5, 6, 7, 8], vec![9; 40], Vec::new()];
        let inputs = |from: u64| (from..from + 300).map(|seed| changed(&kept, seed)).collect::<Vec<_>>();
        assert_eq!(inputs(7), inputs(7));
        let different: BTreeSet<_> = inputs(0).into_iter().collect();
        assert!(different.len() > 150, "{}", different.len());
        assert!(different.iter().any(|input| input.len() > 50) && different.iter().any(|input| input.len() < 4));
    }

    #[test]
    fn every_fuzz_target_keeps_inputs() {
        for target in ["fuse", "journal", "nbd", "pool_log", "salvage", "security", "volume"] {
            assert!(kept(target).len() > 1, "{target}");
        }
    }
}
