//! The data of one write: what comes on its own, what is asked for, in which order (RFC 7143 4.2.4.2, 11.7, 11.8).
//!
//! ```text
//!   0        immediate    unsolicited          wanted
//!   |────────────|────────────|────R2T────|────R2T────|
//!                             received    asked
//! ```
//!
//! Data comes in order (DataPDUInOrder and DataSequenceInOrder are Yes), so one number says what is there.
//!
//! Invariant: nothing is accepted that was neither allowed nor asked for, and no byte twice.

use std::collections::VecDeque;

use crate::protocol::constants::NO_TAG;

/// Why data is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferFault {
    /// Nobody asked for it.
    Unsolicited,
    /// More or less than was asked for.
    Amount,
    /// Out of sequence: something was lost.
    Sequence,
}

/// A request for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicit {
    /// Its tag.
    pub tag: u32,
    /// Its number within the task.
    pub number: u32,
    /// From where.
    pub offset: u32,
    /// How much.
    pub len: u32,
}

/// A data PDU.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The tag of the request that it answers, or none.
    pub tag: u32,
    /// Its number within its sequence.
    pub number: u32,
    /// Where it belongs.
    pub offset: u32,
    /// How long it is.
    pub len: u32,
    /// Whether it ends its sequence.
    pub last: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sequence {
    tag: u32,
    next: u32,
    end: u32,
    number: u32,
}

/// How a session asks for data.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Bytes of one sequence.
    pub burst: u32,
    /// Bytes that come on their own, with the command and behind it.
    pub first_burst: u32,
    /// Whether data may come behind the command on its own.
    pub unsolicited: bool,
    /// Requests at once.
    pub outstanding: u32,
}

/// The data of one write.
#[derive(Debug)]
pub struct Transfer {
    rules: Rules,
    wanted: u32,
    asked: u32,
    received: u32,
    sequences: VecDeque<Sequence>,
    requests: u32,
}

impl Transfer {
    /// Of a command that wants `wanted` of the `expected` bytes that the initiator has. `more` says that data follows it
    /// on its own.
    pub fn new(rules: Rules, wanted: u32, expected: u32, immediate: u32, more: bool) -> Result<Self, TransferFault> {
        let own = rules.first_burst.min(expected);
        if immediate > own {
            return Err(TransferFault::Unsolicited);
        }
        let mut sequences = VecDeque::new();
        if more && rules.unsolicited && immediate < own {
            sequences.push_back(Sequence { tag: NO_TAG, next: immediate, end: own, number: 0 });
        }
        Ok(Self { rules, wanted, asked: immediate, received: immediate, sequences, requests: 0 })
    }

    /// Whether all that is wanted is there.
    pub fn is_whole(&self) -> bool {
        self.received >= self.wanted
    }

    /// Bytes that are wanted and not there.
    pub fn missing(&self) -> u32 {
        self.wanted.saturating_sub(self.received)
    }

    /// Requests for data so far.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Whether a PDU may come now.
    pub fn accept(&mut self, part: Part) -> Result<(), TransferFault> {
        let Some(sequence) = self.sequences.front_mut() else { return Err(TransferFault::Unsolicited) };
        if sequence.tag != part.tag {
            let solicited = part.tag != NO_TAG;
            return Err(if solicited { TransferFault::Sequence } else { TransferFault::Unsolicited });
        }
        if part.number != sequence.number || part.offset != sequence.next {
            return Err(TransferFault::Sequence);
        }
        let end = part.offset.checked_add(part.len).filter(|end| *end <= sequence.end).ok_or(TransferFault::Amount)?;
        (sequence.next, sequence.number) = (end, sequence.number.wrapping_add(1));
        self.received = end;
        self.asked = self.asked.max(end);
        if end == sequence.end || (part.last && part.tag == NO_TAG) {
            self.sequences.pop_front();
        } else if part.last {
            return Err(TransferFault::Amount);
        }
        Ok(())
    }

    /// The next request for data, if there is to be one now.
    pub fn solicit(&mut self, tag: impl FnOnce() -> u32) -> Option<Solicit> {
        let own = self.sequences.front().is_some_and(|sequence| sequence.tag == NO_TAG);
        if own || self.asked >= self.wanted || self.sequences.len() >= self.rules.outstanding.max(1) as usize {
            return None;
        }
        let (offset, number) = (self.asked, self.requests);
        let len = (self.wanted - offset).min(self.rules.burst);
        let tag = tag();
        self.sequences.push_back(Sequence { tag, next: offset, end: offset + len, number: 0 });
        self.asked += len;
        self.requests += 1;
        Some(Solicit { tag, number, offset, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { burst: 1000, first_burst: 600, unsolicited: true, outstanding: 2 };

    fn part(tag: u32, number: u32, offset: u32, len: u32, last: bool) -> Part {
        Part { tag, number, offset, len, last }
    }

    #[test]
    fn a_write_with_everything() {
        let mut transfer = Transfer::new(RULES, 2700, 2700, 200, true).unwrap();
        assert_eq!(transfer.solicit(|| 1), None, "data comes on its own first");
        transfer.accept(part(NO_TAG, 0, 200, 100, false)).unwrap();
        transfer.accept(part(NO_TAG, 1, 300, 300, true)).unwrap();
        assert_eq!(transfer.solicit(|| 1), Some(Solicit { tag: 1, number: 0, offset: 600, len: 1000 }));
        assert_eq!(transfer.solicit(|| 2), Some(Solicit { tag: 2, number: 1, offset: 1600, len: 1000 }));
        assert_eq!(transfer.solicit(|| 3), None, "two at once");
        transfer.accept(part(1, 0, 600, 400, false)).unwrap();
        transfer.accept(part(1, 1, 1000, 600, true)).unwrap();
        assert_eq!(transfer.solicit(|| 3), Some(Solicit { tag: 3, number: 2, offset: 2600, len: 100 }));
        transfer.accept(part(2, 0, 1600, 1000, true)).unwrap();
        assert!(!transfer.is_whole());
        transfer.accept(part(3, 0, 2600, 100, true)).unwrap();
        assert!(transfer.is_whole() && transfer.solicit(|| 4).is_none());
        assert_eq!(transfer.requests(), 3);
    }

    #[test]
    fn what_nobody_asked_for_is_refused() {
        assert_eq!(Transfer::new(RULES, 2000, 2000, 601, false).unwrap_err(), TransferFault::Unsolicited);
        let silent = Rules { unsolicited: false, ..RULES };
        let mut transfer = Transfer::new(silent, 2000, 2000, 0, true).unwrap();
        assert_eq!(transfer.accept(part(NO_TAG, 0, 0, 100, true)), Err(TransferFault::Unsolicited));
        let mut transfer = Transfer::new(RULES, 2000, 2000, 0, true).unwrap();
        assert_eq!(transfer.accept(part(NO_TAG, 0, 0, 601, true)), Err(TransferFault::Amount));
        let mut transfer = Transfer::new(RULES, 2000, 2000, 0, false).unwrap();
        transfer.solicit(|| 7).unwrap();
        assert_eq!(transfer.accept(part(8, 0, 0, 100, false)), Err(TransferFault::Sequence));
        assert_eq!(transfer.accept(part(7, 1, 0, 100, false)), Err(TransferFault::Sequence));
        assert_eq!(transfer.accept(part(7, 0, 100, 100, false)), Err(TransferFault::Sequence));
        assert_eq!(transfer.accept(part(7, 0, 0, 1001, false)), Err(TransferFault::Amount));
        assert_eq!(transfer.accept(part(7, 0, 0, 100, true)), Err(TransferFault::Amount));
    }

    #[test]
    fn no_more_is_asked_for_than_is_wanted() {
        let mut transfer = Transfer::new(RULES, 500, 2000, 0, false).unwrap();
        assert_eq!(transfer.solicit(|| 1), Some(Solicit { tag: 1, number: 0, offset: 0, len: 500 }));
        transfer.accept(part(1, 0, 0, 500, true)).unwrap();
        assert!(transfer.is_whole());
        assert!(Transfer::new(RULES, 0, 2000, 0, true).unwrap().is_whole());
    }
}
