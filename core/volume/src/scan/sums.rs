//! Facts that stand in two places, added from the one and taken off from the other.
//!
//! Invariant: a fact that only one side has leaves its bucket unequal to zero, but for one chance in 2^128.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// What a fact is about, so that facts of two sorts are never the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Name = 1,
    Note = 2,
    Extent = 3,
    Reference = 4,
}

/// Which side says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The file itself: its record, its links, its extents.
    File,
    /// What leads to it: an entry, a note, the map of owners.
    Other,
}

/// A fact, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fact(u128);

/// The buckets.
pub(crate) struct Sums {
    buckets: Vec<u128>,
    secret: [u8; 16],
}

impl Sums {
    /// So many of them, and one at least.
    pub fn new(buckets: usize, secret: [u8; 16]) -> Self {
        Self { buckets: vec![0; buckets.max(1)], secret }
    }

    /// A fact of numbers and bytes.
    pub fn fact(&self, sort: Sort, numbers: &[u64], bytes: &[u8]) -> Fact {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write_u8(sort as u8);
        numbers.iter().for_each(|number| hasher.write_u64(*number));
        hasher.write(bytes);
        Fact(hasher.finish128().as_u128())
    }

    fn bucket(&self, fact: Fact) -> usize {
        (fact.0 as u64 % self.buckets.len() as u64) as usize
    }

    /// One side says it.
    pub fn add(&mut self, fact: Fact, side: Side) {
        let at = self.bucket(fact);
        let sum = &mut self.buckets[at];
        *sum = match side {
            Side::File => sum.wrapping_add(fact.0),
            Side::Other => sum.wrapping_sub(fact.0),
        };
    }

    /// Whether both sides say the same in the bucket of a fact.
    pub fn is_equal(&self, fact: Fact) -> bool {
        self.buckets[self.bucket(fact)] == 0
    }

    /// Whether they do everywhere.
    pub fn are_equal(&self) -> bool {
        self.buckets.iter().all(|sum| *sum == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_lacks_shows_in_its_bucket_only() {
        let mut sums = Sums::new(64, [1; 16]);
        for number in 0..1000 {
            let fact = sums.fact(Sort::Name, &[number], b"name");
            sums.add(fact, Side::File);
            if number != 77 {
                sums.add(fact, Side::Other);
            }
        }
        let unequal = (0..1000).filter(|number| !sums.is_equal(sums.fact(Sort::Name, &[*number], b"name"))).count();
        assert!((1..100).contains(&unequal), "{unequal} are to be read again");
        assert!(!sums.is_equal(sums.fact(Sort::Name, &[77], b"name")) && !sums.are_equal());
        sums.add(sums.fact(Sort::Name, &[77], b"name"), Side::Other);
        assert!(sums.are_equal());
    }
}
