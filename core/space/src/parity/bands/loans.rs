//! Places of a row that are lent to changes which are staged there, as [`crate::parity::stage`] has it.
//!
//! A place is lent to several changes, one behind the other in each column. It is free again once all of them are in
//! place and committed, and the journal says that they are done with.

use std::collections::BTreeMap;

use super::{BandState, Geometry};

/// The places of a row that are lent.
#[derive(Default)]
pub struct Staging {
    /// How many changes that are not in place yet each serves.
    lent: BTreeMap<u16, u32>,
    /// The one that is being filled, and how many blocks of each column are taken.
    open: Option<(u16, Vec<u32>)>,
    /// Loans of which a record that could not be appended may tell all the same, as long as the log of a journal ends
    /// there.
    doubts: Vec<(u16, Option<(u64, u64)>)>,
}

impl Staging {
    /// Whether nothing is lent.
    pub fn is_idle(&self) -> bool {
        self.lent.is_empty()
    }

    /// Whether a commit would free a place.
    pub fn waits_for_commit(&self) -> bool {
        self.lent.values().any(|users| *users == 0)
    }

    /// A place is lent no more; false if it was not.
    pub fn forget(&mut self, place: u16) -> bool {
        self.lent.remove(&place).is_some()
    }

    /// A place has what a crash left there: it serves one change, until all of them are carried out.
    pub fn keep(&mut self, place: u16) {
        self.lent.insert(place, 1);
    }
}

impl BandState {
    /// Lends room for `len` blocks in each of some columns: the place, and the first block of each within it. `None`
    /// where enough places are lent: the others are for bands that move.
    pub fn lend(&mut self, geometry: &Geometry, columns: &[usize], len: u32) -> Option<(u16, Vec<u32>)> {
        let fits = |used: &[u32]| columns.iter().all(|column| used[*column] + len <= geometry.depth);
        if !self.staging.open.as_ref().is_some_and(|(_, used)| fits(used)) {
            self.close_stage();
            let most = ((geometry.places - geometry.bands) * 3 / 4).max(1);
            if self.staging.lent.len() >= most as usize {
                return None;
            }
            let place = self.take_place()?;
            self.staging.lent.insert(place, 0);
            self.staging.open = Some((place, vec![0; geometry.columns]));
        }
        let (place, used) = self.staging.open.as_mut()?;
        let firsts = columns.iter().map(|column| used[*column]).collect();
        columns.iter().for_each(|column| used[*column] += len);
        *self.staging.lent.entry(*place).or_default() += 1;
        Some((*place, firsts))
    }

    /// Lets nothing more into the place that is being filled; it is given back when all that it serves is in place.
    pub fn close_stage(&mut self) {
        if let Some((place, _)) = self.staging.open.take()
            && self.staging.lent.get(&place) == Some(&0)
        {
            self.uncommitted.left.push(place);
        }
    }

    /// A record that tells of a loan could not be appended: it ends when the log has gone on.
    pub fn doubt_loan(&mut self, place: u16, until: Option<(u64, u64)>) {
        self.staging.doubts.push((place, until));
    }

    /// Ends the loans that no record can tell of any more: the log of the journal ends at `end` now.
    pub fn end_doubts(&mut self, end: Option<(u64, u64)>) {
        let doubtful = |(_, until): &(u16, Option<(u64, u64)>)| *until == end;
        let (kept, over): (Vec<_>, Vec<_>) = self.staging.doubts.drain(..).partition(doubtful);
        self.staging.doubts = kept;
        over.into_iter().for_each(|(place, _)| self.end_loan(place));
    }

    /// A change that a place served is in place, or no record will tell of it.
    pub fn end_loan(&mut self, place: u16) {
        let Some(users) = self.staging.lent.get_mut(&place) else { return };
        *users -= 1;
        let open = self.staging.open.as_ref().is_some_and(|(open, _)| *open == place);
        if *users == 0 && !open {
            self.uncommitted.left.push(place);
        }
    }
}
