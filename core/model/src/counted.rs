//! Numbers of things in words: `1 disk`, `3 disks`.

/// A number with its word in the singular or the plural: `counted(1, "block differs", "blocks differ")`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!(counted(0, "row", "rows"), "0 rows");
        assert_eq!(counted(1, "row", "rows"), "1 row");
        assert_eq!(counted(2, "row", "rows"), "2 rows");
    }
}
