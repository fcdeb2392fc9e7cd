//! The order in which people list names: numbers in them count as numbers, so that `disk2` stands before `disk10`.
//!
//! Invariant: it is a total order in which only equal texts are equal, so that a list sorted by it is always the same.

use std::cmp::Ordering;

/// The number that a text begins with, without leading zeros, and what follows it.
fn number(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let zeros = text[..end].iter().take_while(|byte| **byte == b'0').count();
    (&text[zeros..end], &text[end..])
}

fn by_numbers(mut one: &[u8], mut other: &[u8]) -> Ordering {
    while let (Some(a), Some(b)) = (one.first(), other.first()) {
        let order = if a.is_ascii_digit() && b.is_ascii_digit() {
            let ((a, one_left), (b, other_left)) = (number(one), number(other));
            (one, other) = (one_left, other_left);
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        } else {
            (one, other) = (&one[1..], &other[1..]);
            a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
        };
        if order.is_ne() {
            return order;
        }
    }
    one.len().cmp(&other.len())
}

/// Compares two names as people list them; upper and lower case, and leading zeros, only decide between names that are
/// otherwise alike.
pub fn natural_order(one: &str, other: &str) -> Ordering {
    by_numbers(one.as_bytes(), other.as_bytes()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(mut names: Vec<&str>) -> Vec<&str> {
        names.sort_by(|a, b| natural_order(a, b));
        names
    }

    #[test]
    fn numbers_count_as_numbers() {
        assert_eq!(sorted(vec!["disk10", "disk2", "disk1"]), ["disk1", "disk2", "disk10"]);
        assert_eq!(sorted(vec!["/dev/sdb", "/dev/sda1", "/dev/sda"]), ["/dev/sda", "/dev/sda1", "/dev/sdb"]);
        assert_eq!(sorted(vec!["nvme10n1", "nvme9n2", "nvme9n1"]), ["nvme9n1", "nvme9n2", "nvme10n1"]);
        assert_eq!(sorted(vec!["Tank", "archive", "tank"]), ["archive", "Tank", "tank"]);
        assert_eq!(sorted(vec!["a07", "a7", "a6"]), ["a6", "a07", "a7"]);
        let huge = "vm99999999999999999999999999999999";
        assert_eq!(sorted(vec![huge, "vm2", ""]), ["", "vm2", huge]);
    }

    proptest! {
        #[test]
        fn it_is_a_total_order(names in prop::collection::vec("[aA0-2/]{0,6}", 3)) {
            let (a, b, c) = (&names[0], &names[1], &names[2]);
            prop_assert_eq!(natural_order(a, b), natural_order(b, a).reverse());
            prop_assert_eq!(natural_order(a, b).is_eq(), a == b);
            if natural_order(a, b).is_le() && natural_order(b, c).is_le() {
                prop_assert!(natural_order(a, c).is_le());
            }
        }
    }
}
