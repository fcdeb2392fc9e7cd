//! The types of persistent reservations, and whom each keeps out (SPC-4 5.13.1).
//!
//! Invariant: whether a command of a nexus is kept out follows from the type and the nexus's part in it alone.

/// The type of a persistent reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrantsOnly = 5,
    ExclusiveAccessRegistrantsOnly = 6,
    WriteExclusiveAllRegistrants = 7,
    ExclusiveAccessAllRegistrants = 8,
}

use Kind::*;

/// What a nexus is to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Holder,
    Registrant,
    Stranger,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        WriteExclusive,
        ExclusiveAccess,
        WriteExclusiveRegistrantsOnly,
        ExclusiveAccessRegistrantsOnly,
        WriteExclusiveAllRegistrants,
        ExclusiveAccessAllRegistrants,
    ];

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// For people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            WriteExclusive => "write-exclusive",
            ExclusiveAccess => "exclusive-access",
            WriteExclusiveRegistrantsOnly => "write-exclusive-registrants-only",
            ExclusiveAccessRegistrantsOnly => "exclusive-access-registrants-only",
            WriteExclusiveAllRegistrants => "write-exclusive-all-registrants",
            ExclusiveAccessAllRegistrants => "exclusive-access-all-registrants",
        }
    }

    /// Whether every registrant holds it.
    pub(crate) fn is_all_registrants(self) -> bool {
        matches!(self, WriteExclusiveAllRegistrants | ExclusiveAccessAllRegistrants)
    }

    /// Whether it lets registrants in that do not hold it.
    pub(crate) fn is_for_registrants(self) -> bool {
        !matches!(self, WriteExclusive | ExclusiveAccess)
    }

    fn is_exclusive_access(self) -> bool {
        matches!(self, ExclusiveAccess | ExclusiveAccessRegistrantsOnly | ExclusiveAccessAllRegistrants)
    }

    fn lets_in(self, part: Part) -> bool {
        match part {
            Part::Holder => true,
            Part::Registrant => self.is_for_registrants(),
            Part::Stranger => false,
        }
    }

    /// Whether it keeps out commands that only read.
    pub(crate) fn keeps_readers_out(self, part: Part) -> bool {
        self.is_exclusive_access() && !self.lets_in(part)
    }

    /// Whether it keeps out commands that change anything.
    pub(crate) fn keeps_writers_out(self, part: Part) -> bool {
        !self.lets_in(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SPC-4 table 67, with SBC-3's readers and writers: for holder, registrant and stranger, whether a reader and
    /// whether a writer is kept out.
    const MATRIX: [(Kind, [(bool, bool); 3]); 6] = [
        (WriteExclusive, [(false, false), (false, true), (false, true)]),
        (ExclusiveAccess, [(false, false), (true, true), (true, true)]),
        (WriteExclusiveRegistrantsOnly, [(false, false), (false, false), (false, true)]),
        (ExclusiveAccessRegistrantsOnly, [(false, false), (false, false), (true, true)]),
        (WriteExclusiveAllRegistrants, [(false, false), (false, false), (false, true)]),
        (ExclusiveAccessAllRegistrants, [(false, false), (false, false), (true, true)]),
    ];

    #[test]
    fn the_matrix_of_conflicts_is_that_of_the_standard() {
        for (kind, parts) in MATRIX {
            for (part, (reads, writes)) in [Part::Holder, Part::Registrant, Part::Stranger].into_iter().zip(parts) {
                assert_eq!(kind.keeps_readers_out(part), reads, "{kind:?} {part:?} reads");
                assert_eq!(kind.keeps_writers_out(part), writes, "{kind:?} {part:?} writes");
            }
        }
        assert_eq!((0..=255).filter_map(Kind::of_code).count(), 6);
    }
}
