//! Which object an event, a job or a condition is about, for programs to decide on and for people to read.
//!
//! Invariant: an id stays the same when its object is renamed. An object that has nothing but its name has that as its
//! id.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What kind of thing an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectKind {
    /// The server itself, or a part of it such as its state folder.
    #[default]
    Server,
    /// An enclosure of disks.
    Enclosure,
    /// A pool.
    Pool,
    /// A disk.
    Disk,
    /// A space.
    Space,
    /// A volume.
    Volume,
    /// An export.
    Export,
    /// An iSCSI target.
    Target,
    /// A LUN of a target.
    Lun,
    /// A job.
    Job,
    /// An account.
    Account,
    /// A login of an account.
    Session,
    /// A token.
    Token,
    /// A channel of notifications.
    Channel,
    /// A rule of notifications.
    Rule,
}

impl ObjectKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Server,
        Self::Enclosure,
        Self::Pool,
        Self::Disk,
        Self::Space,
        Self::Volume,
        Self::Export,
        Self::Target,
        Self::Lun,
        Self::Job,
        Self::Account,
        Self::Session,
        Self::Token,
        Self::Channel,
        Self::Rule,
    ];

    /// The kind with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Its word, as it is serialised.
    pub fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Enclosure => "enclosure",
            Self::Pool => "pool",
            Self::Disk => "disk",
            Self::Space => "space",
            Self::Volume => "volume",
            Self::Export => "export",
            Self::Target => "target",
            Self::Lun => "lun",
            Self::Job => "job",
            Self::Account => "account",
            Self::Session => "session",
            Self::Token => "token",
            Self::Channel => "channel",
            Self::Rule => "rule",
        }
    }
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// What kind of thing it is.
    pub kind: ObjectKind,
    /// Its id among those of its kind, the same after a renaming; its name where it has no other.
    pub id: String,
    /// What people call it: `tank`, `tank/vm`, `S4NX`.
    pub name: String,
}

impl ObjectRef {
    /// An object with an id of its own.
    pub fn new(kind: ObjectKind, id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, id: id.into(), name: name.into() }
    }

    /// An object that has only its name.
    pub fn named(kind: ObjectKind, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { kind, id: name.clone(), name }
    }

    /// A pool.
    pub fn pool(id: Uuid, name: impl Into<String>) -> Self {
        Self::new(ObjectKind::Pool, id.to_string(), name)
    }

    /// A disk of a pool.
    pub fn disk(id: Uuid, label: impl Into<String>) -> Self {
        Self::new(ObjectKind::Disk, id.to_string(), label)
    }

    /// A space; its name is `POOL/SPACE`.
    pub fn space(id: Uuid, path: impl Into<String>) -> Self {
        Self::new(ObjectKind::Space, id.to_string(), path)
    }

    /// The server, or a part of it.
    pub fn server(part: impl Into<String>) -> Self {
        Self::named(ObjectKind::Server, part)
    }

    /// Whether both are one object, whatever it was called when.
    pub fn is(&self, other: &Self) -> bool {
        (self.kind, &self.id) == (other.kind, &other.id)
    }
}

impl From<&ObjectRef> for String {
    fn from(object: &ObjectRef) -> Self {
        object.to_string()
    }
}

impl From<ObjectRef> for String {
    fn from(object: ObjectRef) -> Self {
        object.to_string()
    }
}

impl fmt::Display for ObjectRef {
    /// As texts name it: `space tank/vm`; a part of the server by its name alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ObjectKind::Server => f.write_str(&self.name),
            kind if self.name.is_empty() => f.write_str(kind.word()),
            kind => write!(f, "{} {}", kind.word(), self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_are_serialised() {
        for (at, kind) in ObjectKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert_eq!(
                (serde_json::to_value(kind).expect("JSON"), ObjectKind::of_word(kind.word())),
                (kind.word().into(), Some(kind))
            );
        }
    }

    #[test]
    fn a_renamed_object_is_the_same_and_reads_otherwise() {
        let id = Uuid::from_u128(7);
        let (before, after) = (ObjectRef::space(id, "tank/a"), ObjectRef::space(id, "tank/b"));
        assert!(before.is(&after) && before != after && !before.is(&ObjectRef::pool(id, "tank/a")));
        assert_eq!(
            [before.to_string(), ObjectRef::server("state folder").to_string()],
            ["space tank/a", "state folder"]
        );
    }
}
