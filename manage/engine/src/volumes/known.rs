//! What a pool keeps of a volume, and how far the volume is made.
//!
//! ```text
//!   nothing ─▶ making ── space made, formatted ──▶ made ─▶ going ── closed, space gone or blank ──▶ nothing
//! ```
//!
//! Invariant: the document is there before the first step of a volume's making and until after the last of its
//! destruction, so what is cut short is known and can be repeated.

use holdfast_api::{Condition, VolumeState};
use holdfast_model::Uuid;
use holdfast_pool::SpaceRecord;
use serde::{Deserialize, Serialize};

use super::snapshots::Rule;

/// How far a volume is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// Its space is being made, or formatted: there never was a file on it.
    Making,
    /// It is there.
    Made,
    /// It is being destroyed.
    Going,
    /// Its document cannot be read. Such a one is never written.
    #[serde(skip)]
    Unreadable,
}

/// A volume, as its pool keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownVolume {
    /// Its name in the pool.
    pub(crate) name: String,
    /// Its id.
    pub(crate) id: Uuid,
    /// How far it is made.
    pub(crate) stage: Stage,
    /// The space's id; nil while the space is being made.
    pub(crate) space: Uuid,
    /// The name that its space had when the volume was made.
    pub(crate) on: String,
    /// Whether the space was made for it.
    pub(crate) owns_space: bool,
    /// Whether names that differ in case only are different ones to every client.
    pub(crate) case_sensitive: bool,
    /// Where it is to be mounted.
    #[serde(default)]
    pub(crate) mount: Option<KnownMount>,
    /// By which snapshots are made, by how often.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) snapshot_rules: Vec<Rule>,
}

/// Where a volume is to be mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownMount {
    /// The directory, from the root on.
    pub(crate) directory: String,
    /// Whether the directory may hold files, which the mount hides.
    pub(crate) over: bool,
}

impl KnownVolume {
    /// A volume by its document, and why that cannot be read.
    pub(super) fn read(name: &str, text: &[u8]) -> (Self, Option<Condition>) {
        let error = match serde_json::from_slice::<Self>(text) {
            Ok(known) => return (known, None),
            Err(error) => error,
        };
        // What can be read of it keeps others off its space.
        let parts: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
        let id = |key: &str| parts[key].as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        let known = Self {
            name: name.to_owned(),
            id: id("id"),
            stage: Stage::Unreadable,
            space: id("space"),
            on: parts["on"].as_str().unwrap_or_default().to_owned(),
            owns_space: false,
            case_sensitive: false,
            mount: None,
            snapshot_rules: Vec::new(),
        };
        let cause = format!("is not open: its document on the pool cannot be read ({error})");
        let next = "run the version that wrote it; or take up the volume anew with 'holdfast volume adopt', or destroy \
                    it: either replaces or removes the document only";
        (known, Some(Condition::new(cause, next)))
    }

    /// Whether it lies, or is to lie, on this space.
    pub(super) fn is_on(&self, space: &SpaceRecord) -> bool {
        self.space == space.uuid || self.awaits(space.name.as_str())
    }

    /// Whether a space of this name is its own that was to be made, and perhaps is.
    pub(super) fn awaits(&self, space: &str) -> bool {
        self.space.is_nil() && self.owns_space && self.on == space
    }

    /// What is to be done about a volume, `POOL/VOLUME`, that was cut short.
    pub(super) fn unfinished(&self, name: &str) -> Option<Condition> {
        match self.stage {
            Stage::Making => {
                let options = if self.owns_space { "--size and the other options that it was given" } else { "--on" };
                let next = format!(
                    "repeat 'holdfast volume create {name}' with {options}, or 'holdfast volume destroy {name} --yes'"
                );
                Some(Condition::new("was not created to the end", next))
            }
            Stage::Going => {
                let next = format!("repeat 'holdfast volume destroy {name} --yes'");
                Some(Condition::new("was not destroyed to the end; its files are lost", next))
            }
            Stage::Made | Stage::Unreadable => None,
        }
    }

    /// The same as the API tells it.
    pub(super) fn state(&self, is_open: bool) -> VolumeState {
        match self.stage {
            _ if is_open => VolumeState::Open,
            Stage::Made => VolumeState::Closed,
            Stage::Making => VolumeState::Creating,
            Stage::Going => VolumeState::Destroying,
            Stage::Unreadable => VolumeState::Unreadable,
        }
    }
}
