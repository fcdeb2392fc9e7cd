//! With what every login begins: who logs in to what.

use super::{Closed, Gate, LoginStatus, Refusal, Way};
use crate::name::{is_name, normal};

/// Who, and to what.
pub(super) struct Leading {
    pub(super) initiator: String,
    /// None in discovery.
    pub(super) target: Option<String>,
    pub(super) way: Way,
}

impl Leading {
    /// Whether a key belongs here.
    pub(super) fn has(key: &str) -> bool {
        matches!(key, "InitiatorName" | "TargetName" | "SessionType")
    }

    /// Reads it from the first text.
    pub(super) fn read(pairs: &[(&str, &str)]) -> Result<Self, Refusal> {
        let find = |wanted: &str| pairs.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        let missing = |reason: &'static str| Refusal::new(LoginStatus::Missing, reason);
        let initiator = find("InitiatorName").ok_or_else(|| missing("the login has no name of an initiator"))?;
        let initiator = normal(initiator);
        if !is_name(&initiator) {
            return Err(Refusal::initiator("the name of the initiator is none"));
        }
        let target = match find("SessionType").unwrap_or("Normal") {
            "Discovery" => None,
            "Normal" => Some(find("TargetName").ok_or_else(|| missing("the login has no name of a target"))?),
            _ => return Err(Refusal::new(LoginStatus::SessionType, "the type of the session is none")),
        };
        // A name in another form than ours is none that we have: said as such, after the initiator is known.
        let target = target.map(|target| normal(&target[..target.floor_char_boundary(255)]));
        Ok(Self { initiator, target, way: Way::default() })
    }

    /// Whether it has this value of a key.
    pub(super) fn says(&self, key: &str, value: &str) -> bool {
        match key {
            "InitiatorName" => normal(value) == self.initiator,
            "TargetName" => self.target.as_ref().is_some_and(|target| *target == normal(value)),
            "SessionType" => value == if self.target.is_some() { "Normal" } else { "Discovery" },
            _ => false,
        }
    }

    /// Asks for the way.
    pub(super) fn find_way(&mut self, gate: &dyn Gate) -> Result<(), Refusal> {
        self.way = gate.way(&self.initiator, self.target.as_deref()).map_err(|closed| match closed {
            Closed::NoTarget => Refusal::new(LoginStatus::NotFound, "there is no such target at this address"),
            Closed::NotAllowed => {
                Refusal::new(LoginStatus::Authorization, "the initiator may not log in to the target")
            }
        })?;
        Ok(())
    }
}
