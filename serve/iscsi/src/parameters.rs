//! The operational keys of a login (RFC 7143 13) and the rule of each.
//!
//! Invariant: what is agreed on is always within what both sides offered; a key that was not negotiated has its default.

use crate::protocol::constants::{DEFAULT_SEGMENT_BYTES, MAX_SEGMENT_BYTES};
use crate::protocol::text::number;

/// What a target offers.
const OUR_SEGMENT_BYTES: u32 = 256 << 10;
const OUR_BURST_BYTES: u32 = 1 << 20;
const OUR_FIRST_BURST_BYTES: u32 = 256 << 10;
const OUR_OUTSTANDING_R2T: u32 = 4;
const SEGMENT_RANGE: std::ops::RangeInclusive<u32> = 512..=MAX_SEGMENT_BYTES as u32;

/// What initiator and target agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Whether headers carry a CRC-32C.
    pub header_digest: bool,
    /// Whether data carries a CRC-32C.
    pub data_digest: bool,
    /// The longest data segment that the initiator takes.
    pub initiator_segment_bytes: u32,
    /// The longest data segment that the target takes.
    pub target_segment_bytes: u32,
    /// Bytes that one sequence of data PDUs carries at most.
    pub max_burst_bytes: u32,
    /// Bytes that come without being asked for at most.
    pub first_burst_bytes: u32,
    /// Whether data behind the command must be asked for.
    pub initial_r2t: bool,
    /// Whether the command may carry data.
    pub immediate_data: bool,
    /// Requests for data at once for one task.
    pub max_outstanding_r2t: u32,
    /// Seconds before a new login after a lost connection.
    pub time_to_wait: u16,
    /// Seconds that a target keeps tasks of a lost connection.
    pub time_to_retain: u16,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            initiator_segment_bytes: DEFAULT_SEGMENT_BYTES,
            target_segment_bytes: DEFAULT_SEGMENT_BYTES,
            max_burst_bytes: 262_144,
            first_burst_bytes: 65_536,
            initial_r2t: true,
            immediate_data: true,
            max_outstanding_r2t: 1,
            time_to_wait: 2,
            time_to_retain: 20,
        }
    }
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is answered.
    Value(String),
    /// It needs no answer.
    Noted,
    /// The value is none that the key can have.
    Reject,
    /// The key means nothing in this session.
    Irrelevant,
    /// Nobody knows the key.
    NotUnderstood,
}

impl Answer {
    /// The value that goes back, if one does.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Noted => None,
            Self::Reject => Some("Reject"),
            Self::Irrelevant => Some("Irrelevant"),
            Self::NotUnderstood => Some("NotUnderstood"),
        }
    }
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn yes_no(value: bool) -> Answer {
    Answer::Value(if value { "Yes" } else { "No" }.into())
}

fn digest(value: &str, agreed: &mut bool) -> Answer {
    // The first of the list that is known.
    match value.split(',').find(|choice| matches!(*choice, "None" | "CRC32C")) {
        Some(choice) => {
            *agreed = choice == "CRC32C";
            Answer::Value(choice.into())
        }
        None => Answer::Reject,
    }
}

fn bounded(
    value: &str,
    range: std::ops::RangeInclusive<u32>,
    choose: impl FnOnce(u32) -> u32,
) -> (Option<u32>, Answer) {
    match number(value).filter(|value| range.contains(value)) {
        Some(value) => {
            let chosen = choose(value);
            (Some(chosen), Answer::Value(chosen.to_string()))
        }
        None => (None, Answer::Reject),
    }
}

impl Parameters {
    /// The keys that the target says on its own when operational keys are first spoken of.
    pub fn declared() -> [(&'static str, u32); 1] {
        [("MaxRecvDataSegmentLength", OUR_SEGMENT_BYTES)]
    }

    /// They were said.
    pub fn declare(&mut self) {
        self.target_segment_bytes = OUR_SEGMENT_BYTES;
    }

    /// Negotiates one key that the initiator offered.
    pub fn negotiate(&mut self, key: &str, value: &str, discovery: bool) -> Answer {
        let of_sessions = [
            "MaxConnections",
            "InitialR2T",
            "ImmediateData",
            "MaxBurstLength",
            "FirstBurstLength",
            "MaxOutstandingR2T",
            "DataPDUInOrder",
            "DataSequenceInOrder",
        ];
        if discovery && of_sessions.contains(&key) {
            return Answer::Irrelevant;
        }
        match key {
            "HeaderDigest" => digest(value, &mut self.header_digest),
            "DataDigest" => digest(value, &mut self.data_digest),
            "MaxRecvDataSegmentLength" => self.set_initiator_segment(value),
            "MaxConnections" => bounded(value, 1..=65_535, |_| 1).1,
            "InitialR2T" => self.either(value, |parameters| &mut parameters.initial_r2t),
            "ImmediateData" => match boolean(value) {
                Some(value) => {
                    self.immediate_data = value;
                    yes_no(value)
                }
                None => Answer::Reject,
            },
            "MaxBurstLength" => {
                let (chosen, answer) = bounded(value, SEGMENT_RANGE, |value| value.min(OUR_BURST_BYTES));
                self.max_burst_bytes = chosen.unwrap_or(self.max_burst_bytes);
                self.first_burst_bytes = self.first_burst_bytes.min(self.max_burst_bytes);
                answer
            }
            "FirstBurstLength" => {
                // Not more than the burst (13.14).
                let most = OUR_FIRST_BURST_BYTES.min(self.max_burst_bytes);
                let (chosen, answer) = bounded(value, SEGMENT_RANGE, |value| value.min(most));
                self.first_burst_bytes = chosen.unwrap_or(self.first_burst_bytes);
                answer
            }
            "MaxOutstandingR2T" => {
                let (chosen, answer) = bounded(value, 1..=65_535, |value| value.min(OUR_OUTSTANDING_R2T));
                self.max_outstanding_r2t = chosen.unwrap_or(self.max_outstanding_r2t);
                answer
            }
            "DefaultTime2Wait" => {
                let (chosen, answer) = bounded(value, 0..=3600, |value| value.max(2));
                self.time_to_wait = chosen.map_or(self.time_to_wait, |chosen| chosen as u16);
                answer
            }
            "DefaultTime2Retain" => {
                // Without error recovery there is nothing to retain.
                let (chosen, answer) = bounded(value, 0..=3600, |_| 0);
                self.time_to_retain = chosen.map_or(self.time_to_retain, |chosen| chosen as u16);
                answer
            }
            "DataPDUInOrder" | "DataSequenceInOrder" => boolean(value).map_or(Answer::Reject, |_| yes_no(true)),
            "ErrorRecoveryLevel" => bounded(value, 0..=2, |_| 0).1,
            "TaskReporting" => match value.split(',').find(|choice| *choice == "RFC3720") {
                Some(choice) => Answer::Value(choice.into()),
                None => Answer::Reject,
            },
            "iSCSIProtocolLevel" => bounded(value, 0..=31, |value| value.min(1)).1,
            // Obsolete (13.26): markers are refused by No, their distances by Reject.
            "IFMarker" | "OFMarker" => boolean(value).map_or(Answer::Reject, |_| yes_no(false)),
            "IFMarkInt" | "OFMarkInt" => Answer::Reject,
            "InitiatorAlias" => Answer::Noted,
            "X#NodeArchitecture" => Answer::Noted,
            _ => Answer::NotUnderstood,
        }
    }

    /// The one key that may still change in the full feature phase.
    pub fn set_initiator_segment(&mut self, value: &str) -> Answer {
        match number(value).filter(|value| SEGMENT_RANGE.contains(value)) {
            Some(value) => {
                self.initiator_segment_bytes = value;
                Answer::Noted
            }
            None => Answer::Reject,
        }
    }

    /// A key whose result is Yes where either side says so; the target says No.
    fn either(&mut self, value: &str, field: impl FnOnce(&mut Self) -> &mut bool) -> Answer {
        match boolean(value) {
            Some(value) => {
                *field(self) = value;
                yes_no(value)
            }
            None => Answer::Reject,
        }
    }

    /// What cannot depend on the order of the keys.
    pub fn settle(&mut self) {
        self.first_burst_bytes = self.first_burst_bytes.min(self.max_burst_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(key: &str, value: &str) -> Option<String> {
        Parameters::default().negotiate(key, value, false).value().map(str::to_owned)
    }

    #[test]
    fn each_key_has_its_rule() {
        let table = [
            ("HeaderDigest", "CRC32C,None", Some("CRC32C")),
            ("HeaderDigest", "None,CRC32C", Some("None")),
            ("DataDigest", "X-own,CRC32C", Some("CRC32C")),
            ("DataDigest", "SHA1", Some("Reject")),
            ("MaxConnections", "8", Some("1")),
            ("MaxConnections", "0", Some("Reject")),
            ("InitialR2T", "No", Some("No")),
            ("InitialR2T", "Yes", Some("Yes")),
            ("InitialR2T", "yes", Some("Reject")),
            ("ImmediateData", "Yes", Some("Yes")),
            ("ImmediateData", "No", Some("No")),
            ("MaxRecvDataSegmentLength", "262144", None),
            ("MaxRecvDataSegmentLength", "511", Some("Reject")),
            ("MaxRecvDataSegmentLength", "16777216", Some("Reject")),
            ("MaxBurstLength", "16776192", Some("1048576")),
            ("MaxBurstLength", "0x1000", Some("4096")),
            ("MaxBurstLength", "many", Some("Reject")),
            ("FirstBurstLength", "512", Some("512")),
            ("MaxOutstandingR2T", "1", Some("1")),
            ("MaxOutstandingR2T", "65535", Some("4")),
            ("DefaultTime2Wait", "0", Some("2")),
            ("DefaultTime2Wait", "3600", Some("3600")),
            ("DefaultTime2Wait", "3601", Some("Reject")),
            ("DefaultTime2Retain", "60", Some("0")),
            ("DataPDUInOrder", "No", Some("Yes")),
            ("DataSequenceInOrder", "No", Some("Yes")),
            ("ErrorRecoveryLevel", "2", Some("0")),
            ("ErrorRecoveryLevel", "3", Some("Reject")),
            ("TaskReporting", "FastAbort,RFC3720", Some("RFC3720")),
            ("TaskReporting", "FastAbort", Some("Reject")),
            ("iSCSIProtocolLevel", "2", Some("1")),
            ("IFMarker", "Yes", Some("No")),
            ("OFMarkInt", "8192~8192", Some("Reject")),
            ("X-com.example", "1", Some("NotUnderstood")),
            ("AuthMethode", "1", Some("NotUnderstood")),
        ];
        for (key, value, answer) in table {
            assert_eq!(told(key, value).as_deref(), answer, "{key}={value}");
        }
    }

    #[test]
    fn what_is_agreed_on_is_kept_and_the_first_burst_fits_the_burst() {
        let mut parameters = Parameters::default();
        for (key, value) in [
            ("FirstBurstLength", "262144"),
            ("MaxBurstLength", "65536"),
            ("HeaderDigest", "CRC32C"),
            ("MaxRecvDataSegmentLength", "4096"),
            ("InitialR2T", "No"),
        ] {
            parameters.negotiate(key, value, false);
        }
        parameters.settle();
        assert_eq!((parameters.first_burst_bytes, parameters.max_burst_bytes), (65_536, 65_536));
        assert!(parameters.header_digest && !parameters.data_digest && !parameters.initial_r2t);
        assert_eq!(parameters.initiator_segment_bytes, 4096);
    }

    #[test]
    fn a_first_burst_is_never_answered_above_the_burst() {
        let mut parameters = Parameters::default();
        parameters.negotiate("MaxBurstLength", "65536", false);
        assert_eq!(parameters.negotiate("FirstBurstLength", "262144", false), Answer::Value("65536".into()));
        parameters.settle();
        assert_eq!(parameters.first_burst_bytes, 65_536);
    }

    #[test]
    fn what_means_nothing_in_discovery_is_irrelevant() {
        let mut parameters = Parameters::default();
        assert_eq!(parameters.negotiate("MaxBurstLength", "512", true), Answer::Irrelevant);
        assert_eq!(parameters.negotiate("HeaderDigest", "None", true), Answer::Value("None".into()));
        assert_eq!(parameters.max_burst_bytes, 262_144);
    }
}
