//! Whether the disks that are here, with the witness or without, may decide for their pool.
//!
//! Invariant: of two imports that are admitted without force, the later one knows every change that the earlier one
//! made. The last change of a log may have changed the voters without ever having counted, so both the voters before it
//! and those after it are asked. The witness has a vote only while it has taken part in the last generation.

use std::collections::BTreeSet;

use holdfast_model::{Name, Uuid};

use crate::config::Config;
use crate::event::WitnessRecord;
use crate::frame::Position;
use crate::quorum::Votes;
use crate::scan::FoundPool;
use crate::{PoolError, PoolErrorKind};

/// The voters whose agreement an import needs.
pub(crate) struct Electorate {
    votes: Vec<Votes>,
}

impl Electorate {
    /// Those of a pool whose last change may be open. It is not where enough of both are seen to hold it.
    pub(crate) fn of(found: &mut FoundPool, witness: Option<WitnessRecord>) -> Self {
        let after = Votes::of(&found.config);
        let Some(change) = &found.open_change else { return Self { votes: vec![after] } };
        let both = Self { votes: vec![change.votes_before.clone(), after.clone()] };
        let numbers = found.numbers();
        let at_tip = found.members.iter().filter(|member| member.tip.is_some_and(|tip| tip.position == found.position));
        let holders = at_tip.filter_map(|member| numbers.get(&member.id).copied()).collect();
        if !both.carried(&holders, witness.is_some_and(|witness| witness.tip == found.position)) {
            return both;
        }
        found.open_change = None;
        Self { votes: vec![after] }
    }

    pub(crate) fn carried(&self, disks: &BTreeSet<u16>, witness: bool) -> bool {
        self.votes.iter().all(|votes| votes.carried(disks, witness))
    }
}

/// What an import goes by: who is here, and what it knows of those who are not.
pub(crate) struct Admission {
    pub electorate: Electorate,
    /// Disks whose log can be read.
    pub present: BTreeSet<u16>,
    /// Disks that are here though their log cannot be read.
    pub unreadable: BTreeSet<u16>,
    pub witness: Option<WitnessRecord>,
    pub force: bool,
}

impl Admission {
    /// Whether the witness has a vote: it took part in the last generation, and knows of no change beyond the disks
    /// here.
    pub(crate) fn has_witness(&self, found: &FoundPool) -> bool {
        let promised =
            found.members.iter().map(|member| member.promised).max().unwrap_or(0).max(found.position.generation);
        self.witness.is_some_and(|witness| witness.promised >= promised && witness.tip <= found.position)
    }

    /// Whether the disks and the witness may decide.
    pub(crate) fn check(&self, found: &FoundPool) -> Result<(), PoolError> {
        if self.force {
            return Ok(());
        }
        if !found.rivals.is_empty() {
            return Err(two_histories(found));
        }
        if self.electorate.carried(&self.present, self.has_witness(found)) {
            return self.check_latest(found);
        }
        match self
            .witness
            .filter(|witness| witness.tip > found.position && self.electorate.carried(&self.present, true))
        {
            None => Err(self.no_quorum(&found.config)),
            Some(witness) => Err(PoolError::new(
                PoolErrorKind::NoQuorum,
                format!(
                    "pool {} continued to change {} without the disks present, which end at {}: {}",
                    name(&found.config),
                    witness.tip,
                    found.position,
                    self.missing(&found.config)
                ),
            )),
        }
    }

    /// Refuses disks that agree on a state which is known not to be the latest.
    fn check_latest(&self, found: &FoundPool) -> Result<(), PoolError> {
        self.lacking(found).map_or(Ok(()), |why| Err(PoolError::new(PoolErrorKind::Incomplete, why)))
    }

    /// How it is known, if it is, that the disks here lack changes that were answered.
    pub(crate) fn lacking(&self, found: &FoundPool) -> Option<String> {
        let (name, end) = (name(&found.config), found.position);
        if let Some(held) = found.damaged_before() {
            return Some(format!(
                "the metadata log of pool {name} is damaged: it can be read up to change {end}, and changes up to {held} stand behind the damage"
            ));
        }
        let known = self.witness.filter(|witness| witness.tip > end)?.tip;
        Some(format!(
            "the disks of pool {name} end at change {end}, and its witness here knows of change {known}: all of them were set back to an older state, as by restored images, or lost what they had answered, or their metadata logs are damaged"
        ))
    }

    pub(crate) fn no_quorum(&self, config: &Config) -> PoolError {
        PoolError::new(
            PoolErrorKind::NoQuorum,
            format!(
                "pool {} cannot be imported: {} of its {} disks are present and intact, too few to know that they hold the latest state; {}",
                name(config),
                self.present.len(),
                config.disks.len(),
                self.missing(config)
            ),
        )
    }

    fn missing(&self, config: &Config) -> String {
        let list = |wanted: &dyn Fn(u16) -> bool| {
            let records = config.disks.values().filter(|record| wanted(record.index));
            let texts = records.map(|record| {
                let text = format!(
                    "{} {} (serial {}, last seen at {})",
                    record.model,
                    record.id,
                    or_none(&record.serial),
                    record.path
                );
                text.trim_start().to_owned()
            });
            texts.collect::<Vec<_>>().join("; ")
        };
        let absent = list(&|index| !self.present.contains(&index) && !self.unreadable.contains(&index));
        let unreadable = list(&|index| self.unreadable.contains(&index));
        let mut parts = Vec::new();
        if !absent.is_empty() {
            parts.push(format!("missing are {absent}"));
        }
        if !unreadable.is_empty() {
            parts.push(format!("these are present, but their metadata log is damaged: {unreadable}"));
        }
        parts.join("; ")
    }
}

fn two_histories(found: &FoundPool) -> PoolError {
    let label = |id: Uuid| {
        let record = found.config.disks.values().find(|record| record.id == id);
        record.map_or_else(|| id.to_string(), |record| format!("{} ({})", or_none(&record.serial), record.path))
    };
    let list = |ids: Vec<Uuid>| ids.into_iter().map(label).collect::<Vec<_>>().join(", ");
    let at_best = |position: Position| {
        let members = found.members.iter().filter(|member| member.tip.is_some_and(|tip| tip.position == position));
        list(members.map(|member| member.id).collect())
    };
    PoolError::new(
        PoolErrorKind::Damaged,
        format!(
            "pool {} has two histories, because it was imported with force while other disks were in use elsewhere: disks {} end at {}, disks {} have changes of their own; detach the disks of the history you do not want, or import with force to keep the first",
            name(&found.config),
            at_best(found.position),
            found.position,
            list(found.rivals.clone())
        ),
    )
}

fn name(config: &Config) -> String {
    config.name.as_ref().map(Name::to_string).unwrap_or_default()
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
