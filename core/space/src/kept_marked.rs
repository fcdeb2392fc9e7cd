//! Ranges of a space whose regions stay marked dirty, as [`crate::hints`] has it.

use std::ops::Range;
use std::sync::Mutex;

/// Ranges of a space whose regions stay marked.
#[derive(Default)]
pub struct KeptMarked(Mutex<Vec<Range<u64>>>);

impl KeptMarked {
    /// Adds or takes out a range.
    pub fn set(&self, range: Range<u64>, keep: bool) {
        let mut kept = self.0.lock().expect("no panic while held");
        let around =
            |known: &Range<u64>| [known.start..known.end.min(range.start), known.start.max(range.end)..known.end];
        *kept = kept.iter().flat_map(around).filter(|part| part.start < part.end).collect();
        if keep {
            kept.push(range);
        }
    }

    /// The parts of a range that are kept.
    pub fn within(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let kept = self.0.lock().expect("no panic while held");
        let parts = kept.iter().map(|known| known.start.max(range.start)..known.end.min(range.end));
        parts.filter(|part| part.start < part.end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_and_joined() {
        let kept = KeptMarked::default();
        kept.set(0..100, true);
        kept.set(40..60, false);
        assert_eq!(kept.within(&(10..90)), [10..40, 60..90]);
        kept.set(30..70, true);
        assert_eq!(kept.within(&(0..200)), [0..30, 70..100, 30..70]);
        kept.set(0..200, false);
        assert!(kept.within(&(0..200)).is_empty());
    }
}
