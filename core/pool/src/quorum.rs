//! Who must agree before a change counts.
//!
//! Every voting disk has one vote; where their number is even, the witness has one more. A change counts when more than
//! half of the votes hold it. Any two such sets share a voter, so each set sees every change that counted.

use std::collections::BTreeSet;

use crate::change::Change;
use crate::config::Config;

/// The voters of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Votes(BTreeSet<u16>);

impl Votes {
    /// The voters as they are.
    pub fn of(config: &Config) -> Self {
        Self(config.disks.values().filter(|disk| disk.voting).map(|disk| disk.index).collect())
    }

    /// The voters after `changes`.
    pub fn after<'a>(&self, changes: impl Iterator<Item = &'a Change>) -> Self {
        let mut votes = self.0.clone();
        for change in changes {
            match change {
                Change::Disk(record) if record.voting => {
                    votes.insert(record.index);
                }
                Change::Disk(record) => {
                    votes.remove(&record.index);
                }
                Change::DiskOut { disk, .. } | Change::DiskGone(disk) if votes.len() > 1 => {
                    votes.remove(disk);
                }
                _ => {}
            }
        }
        Self(votes)
    }

    /// Whether the witness has a vote.
    pub fn has_witness(&self) -> bool {
        self.0.len().is_multiple_of(2)
    }

    /// Whether `disks`, with the witness or without, are more than half.
    pub fn carried(&self, disks: &BTreeSet<u16>, witness: bool) -> bool {
        let total = self.0.len() + usize::from(self.has_witness());
        let held = self.0.intersection(disks).count() + usize::from(witness && self.has_witness());
        !self.0.is_empty() && 2 * held > total
    }

    /// How many disks vote.
    pub fn disks(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn votes(count: u16) -> Votes {
        Votes((0..count).collect())
    }

    #[test]
    fn more_than_half_is_needed() {
        let set = |count: u16| (0..count).collect();
        for (voters, disks, witness, carried) in [
            (1, 1, false, true),
            (1, 0, true, false),
            (2, 1, false, false),
            (2, 1, true, true),
            (2, 2, false, true),
            (3, 1, true, false),
            (3, 2, false, true),
            (8, 4, false, false),
            (8, 4, true, true),
        ] {
            assert_eq!(votes(voters).carried(&set(disks), witness), carried, "{disks} of {voters}, witness {witness}");
        }
    }

    #[test]
    fn strangers_have_no_vote() {
        assert!(!votes(3).carried(&BTreeSet::from([0, 7, 8, 9]), true));
    }

    #[test]
    fn any_two_quorums_meet() {
        for voters in 1..=6u16 {
            let sets: Vec<(BTreeSet<u16>, bool)> = (0..1u32 << (voters + 1))
                .map(|bits| ((0..voters).filter(|disk| bits >> disk & 1 == 1).collect(), bits >> voters & 1 == 1))
                .filter(|(disks, witness)| votes(voters).carried(disks, *witness))
                .collect();
            for (a, a_witness) in &sets {
                for (b, b_witness) in &sets {
                    assert!(!a.is_disjoint(b) || (*a_witness && *b_witness && votes(voters).has_witness()));
                }
            }
        }
    }
}
