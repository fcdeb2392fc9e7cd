//! The ranges of each holder of locks of a file, in the order of holders. Most files have one holder at a time: that one
//! needs no memory of its own.
//!
//! Invariant: the one that stands alone has ranges only while no other has any, and no holder is in both places.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use smallvec::SmallVec;

use crate::locks::{Held, Holder};

/// Ranges of one holder, sorted by range and number.
pub(crate) type Ranges = SmallVec<[Held; 1]>;

/// All of a file.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    alone: Option<(Holder, Ranges)>,
    many: BTreeMap<Holder, Ranges>,
}

impl Holders {
    /// The ranges of a holder.
    pub fn get(&self, holder: &Holder) -> Option<&Ranges> {
        match &self.alone {
            Some((one, ranges)) => (one == holder).then_some(ranges),
            None => self.many.get(holder),
        }
    }

    /// The same, to change them.
    pub fn get_mut(&mut self, holder: &Holder) -> Option<&mut Ranges> {
        match &mut self.alone {
            Some((one, ranges)) => (one == holder).then_some(ranges),
            None => self.many.get_mut(holder),
        }
    }

    /// The ranges of a holder, none where it had none.
    pub fn entry(&mut self, holder: Holder) -> &mut Ranges {
        let is_other = self.alone.as_ref().is_some_and(|(one, _)| *one != holder);
        if is_other {
            self.many.extend(self.alone.take());
        }
        if self.many.is_empty() {
            return &mut self.alone.get_or_insert_with(|| (holder, Ranges::new())).1;
        }
        self.many.entry(holder).or_default()
    }

    /// Takes out a holder.
    pub fn remove(&mut self, holder: &Holder) -> Option<Ranges> {
        match self.alone.take_if(|(one, _)| one == holder) {
            Some((_, ranges)) => Some(ranges),
            None => self.many.remove(holder),
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Holder, &Ranges)> {
        self.alone.iter().map(|(holder, ranges)| (holder, ranges)).chain(&self.many)
    }

    /// Those from one to another, in order.
    pub fn within(&self, span: RangeInclusive<Holder>) -> impl Iterator<Item = &Holder> {
        let alone = self.alone.iter().map(|(holder, _)| holder).filter({
            let span = span.clone();
            move |holder| span.contains(holder)
        });
        alone.chain(self.many.range(span).map(|(holder, _)| holder))
    }

    /// Asserts the invariant.
    pub fn check(&self) {
        assert!(self.alone.is_none() || self.many.is_empty(), "one that stands alone beside others");
    }
}
