//! A target, as the pools of its LUNs and the state folder keep it.
//!
//! Invariant: a document says all or cannot be read. What this version does not know is not left out of what it writes
//! back, as such a document is never written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use holdfast_api::{LunBlocks, PortalState, Qos};
use holdfast_model::{ObjectKind, ObjectRef, Uuid};
use serde::{Deserialize, Serialize};

/// What the names of documents begin with that are targets.
pub(crate) const TARGETS: &str = "target/";

/// A secret of CHAP. It is kept and handed to the protocol, and nothing else; printing it shows stars.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct KnownSecret(String);

impl KnownSecret {
    /// Wraps it.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for KnownSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A user and its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownAccount {
    /// The user's name.
    pub(crate) user: String,
    /// The secret.
    pub(crate) secret: KnownSecret,
}

impl KnownAccount {
    /// The secret, for the protocol.
    pub(crate) fn secret(&self) -> &str {
        &self.secret.0
    }
}

/// An initiator that may log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownInitiator {
    /// With what it proves who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chap: Option<KnownAccount>,
}

/// An address by which a target is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownPortal {
    /// The address.
    pub(crate) address: SocketAddr,
    /// Its portal group.
    pub(crate) group: u16,
}

/// What a LUN stands for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Backing {
    /// A space, by its id.
    Space(Uuid),
    /// A file of a volume.
    File {
        /// The volume's id.
        volume: Uuid,
        /// The number of the file in it.
        number: u64,
        /// What tells it from earlier files of that number.
        generation: u32,
    },
}

/// A LUN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownLun {
    /// The id by which initiators know it.
    pub(crate) id: Uuid,
    /// The pool's id.
    pub(crate) pool: Uuid,
    /// What it stands for.
    pub(crate) on: Backing,
    /// What that was called when the LUN was added, for messages while its pool is away.
    pub(crate) path: String,
    /// The blocks in which initiators address it.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(crate) blocks: LunBlocks,
    /// Whether writes are refused.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(crate) read_only: bool,
    /// Its quality of service.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(crate) qos: Qos,
    /// When initiators are warned that it runs out of room, in percent; never if 0, as its pool's alerts say if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alert_percent: Option<u8>,
    /// Whether its file was given all of its room, none of which is given back.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(crate) full: bool,
}

impl KnownLun {
    /// The space that it is, or the volume of which it is a file.
    pub(crate) fn ground(&self) -> ObjectRef {
        match self.on {
            Backing::Space(id) => ObjectRef::space(id, &self.path),
            Backing::File { volume, .. } => ObjectRef::new(ObjectKind::Volume, volume.to_string(), &self.path),
        }
    }

    /// When initiators are warned that it runs out of room, in percent, by what is usual of each pool; never if 0.
    pub(super) fn alert_by(&self, usual: &BTreeMap<Uuid, u8>) -> u8 {
        self.alert_percent.or_else(|| usual.get(&self.pool).copied()).unwrap_or(0)
    }

    /// Whether it is this space, or a file of this volume.
    pub(super) fn is_on(&self, id: Uuid) -> bool {
        match self.on {
            Backing::Space(space) => space == id,
            Backing::File { volume, .. } => volume == id,
        }
    }
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownTarget {
    /// Its name.
    pub(crate) name: String,
    /// Its id, the same on all pools and nodes.
    pub(crate) id: Uuid,
    /// The name by which initiators know it.
    pub(crate) iqn: String,
    /// How often it was changed: of two documents of one target, the one with more is the newer.
    pub(crate) changes: u64,
    /// Whether any initiator may log in.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub(crate) open: bool,
    /// The addresses by which it is reached; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) portals: Vec<KnownPortal>,
    /// What initiators find at the portals of a group, where that is not the usual.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) states: BTreeMap<u16, PortalState>,
    /// Who may log in, by iSCSI name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) initiators: BTreeMap<String, KnownInitiator>,
    /// With what the target proves who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mutual: Option<KnownAccount>,
    /// Its LUNs, by number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) luns: BTreeMap<u16, KnownLun>,
}

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl KnownTarget {
    /// A new one, closed and without LUNs.
    pub(crate) fn new(name: &str, iqn: String) -> Self {
        Self {
            name: name.into(),
            id: Uuid::new_v4(),
            iqn,
            changes: 1,
            open: false,
            portals: Vec::new(),
            states: BTreeMap::new(),
            initiators: BTreeMap::new(),
            mutual: None,
            luns: BTreeMap::new(),
        }
    }

    /// The ids of its LUNs by number.
    pub(crate) fn unit_ids(&self) -> BTreeMap<u16, Uuid> {
        self.luns.iter().map(|(number, lun)| (*number, lun.id)).collect()
    }

    /// The pools that keep it.
    pub(crate) fn pools(&self) -> BTreeSet<Uuid> {
        self.luns.values().map(|lun| lun.pool).collect()
    }

    /// Who may log in, and with what they prove who they are.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = (&str, Option<&KnownAccount>)> {
        self.initiators.iter().map(|(iqn, initiator)| (iqn.as_str(), initiator.chap.as_ref()))
    }

    /// The target, as events name it.
    pub(crate) fn object(&self) -> ObjectRef {
        ObjectRef::new(ObjectKind::Target, self.id.to_string(), &self.name)
    }

    /// The name of a LUN of it.
    pub(crate) fn lun_name(&self, lun: u16) -> String {
        format!("{}/{lun}", self.name)
    }

    /// A LUN of it, as events name it.
    pub(crate) fn lun_object(&self, lun: u16) -> ObjectRef {
        let id = self.luns.get(&lun).map_or_else(|| self.lun_name(lun), |known| known.id.to_string());
        ObjectRef::new(ObjectKind::Lun, id, self.lun_name(lun))
    }

    /// What initiators find at the portals of a group.
    pub(super) fn state_of(&self, group: u16) -> PortalState {
        self.states.get(&group).copied().unwrap_or_default()
    }

    /// Its portal groups, one at least.
    pub(super) fn groups(&self) -> BTreeSet<u16> {
        let groups: BTreeSet<u16> = self.portals.iter().map(|portal| portal.group).collect();
        if groups.is_empty() { BTreeSet::from([1]) } else { groups }
    }
}

/// A target that was destroyed while pools with LUNs of it were away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoneTarget {
    /// Its id.
    pub(crate) id: Uuid,
    /// What it was called.
    pub(crate) name: String,
    /// How often it was changed, its end counted.
    pub(crate) changes: u64,
    /// The pools that keep it still.
    pub(crate) pools: BTreeSet<Uuid>,
}

/// A document of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Document {
    /// A target.
    Target(Box<KnownTarget>),
    /// That it is no more, for pools that are away.
    Gone(GoneTarget),
}

/// The name of the document of a target.
pub(super) fn target_key(id: Uuid) -> String {
    format!("{TARGETS}{id}")
}

impl Document {
    /// Reads the document of a pool with this name, and says why it cannot be read.
    pub(super) fn read(key: &str, text: &[u8]) -> Result<Self, String> {
        let document: Self = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let id = document.id();
        if target_key(id) != key {
            return Err(format!("it is of target {id}"));
        }
        if let Self::Target(target) = &document {
            let port = target.portals.iter().any(|portal| portal.group == 0) || target.states.contains_key(&0);
            if port
                || target.name.parse::<holdfast_model::Name>().is_err()
                || super::names::iscsi_name(&target.iqn).is_err()
            {
                return Err("it holds names or groups that cannot be".into());
            }
            if target.luns.values().any(|lun| lun.alert_percent.is_some_and(|percent| percent > 100)) {
                return Err("it holds percentages above 100".into());
            }
        }
        Ok(document)
    }

    /// Its target.
    pub(super) fn id(&self) -> Uuid {
        match self {
            Self::Target(target) => target.id,
            Self::Gone(gone) => gone.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> KnownTarget {
        let lun = KnownLun {
            id: Uuid::from_u128(7),
            pool: Uuid::from_u128(1),
            on: Backing::Space(Uuid::from_u128(7)),
            path: "tank/vm".into(),
            blocks: LunBlocks::B4096,
            read_only: true,
            qos: Qos { max_iops: Some(5), ..Qos::default() },
            alert_percent: Some(0),
            full: false,
        };
        let file = KnownLun {
            on: Backing::File { volume: Uuid::from_u128(3), number: 65, generation: 2 },
            blocks: LunBlocks::default(),
            read_only: false,
            qos: Qos::default(),
            alert_percent: None,
            full: true,
            ..lun.clone()
        };
        let account = KnownAccount { user: "ann".into(), secret: KnownSecret::new("twelve or more") };
        let mut target = KnownTarget::new("vm", "iqn.2026-11.org.holdfast:nas:vm".into());
        target.luns = BTreeMap::from([(0, lun), (5, file)]);
        target.portals = vec![KnownPortal { address: "[::1]:3260".parse().unwrap(), group: 2 }];
        target.states.insert(2, PortalState::Standby);
        target.initiators.insert("iqn.2000-01.x:a".into(), KnownInitiator { chap: Some(account.clone()) });
        target.initiators.insert("iqn.2000-01.x:b".into(), KnownInitiator { chap: None });
        target.mutual = Some(account);
        target
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let target = target();
        for document in [
            Document::Target(Box::new(target.clone())),
            Document::Gone(GoneTarget { id: target.id, name: "vm".into(), changes: 9, pools: target.pools() }),
        ] {
            let text = serde_json::to_vec(&document).unwrap();
            assert_eq!(Document::read(&target_key(target.id), &text), Ok(document));
        }
    }

    #[test]
    fn what_is_usual_takes_no_room() {
        let target = KnownTarget { id: Uuid::nil(), ..KnownTarget::new("vm", "iqn.2026-11.org.holdfast:vm".into()) };
        let text = serde_json::to_string(&target).unwrap();
        let id = Uuid::nil();
        assert_eq!(text, format!(r#"{{"name":"vm","id":"{id}","iqn":"iqn.2026-11.org.holdfast:vm","changes":1}}"#));
    }

    #[test]
    fn a_later_or_damaged_document_is_not_read() {
        let target = target();
        let key = target_key(target.id);
        let whole = serde_json::to_value(Document::Target(Box::new(target.clone()))).unwrap();
        let read = |value: &serde_json::Value| Document::read(&key, value.to_string().as_bytes());
        let with = |at: &str, value: serde_json::Value| {
            let mut changed = whole.clone();
            *changed
                .pointer_mut("/target")
                .unwrap()
                .as_object_mut()
                .unwrap()
                .entry(at)
                .or_insert_with(Default::default) = value;
            changed
        };
        assert!(read(&whole).is_ok());
        // One that was written before there were warnings of its own has none, and gives room back as before.
        let mut earlier = whole.clone();
        let lun = earlier.pointer_mut("/target/luns/0").and_then(|lun| lun.as_object_mut()).unwrap();
        assert_eq!(lun.remove("alert_percent"), Some(0.into()));
        let lun = earlier.pointer_mut("/target/luns/5").and_then(|lun| lun.as_object_mut()).unwrap();
        assert_eq!((lun.remove("full"), lun.get("alert_percent")), (Some(true.into()), None));
        let Ok(Document::Target(earlier)) = read(&earlier) else { panic!("it is not read") };
        assert_eq!((earlier.luns[&0].alert_percent, earlier.luns[&5].full), (None, false));
        let mut beyond = whole.clone();
        *beyond.pointer_mut("/target/luns/0/alert_percent").unwrap() = 101.into();
        assert!(read(&beyond).is_err());
        for (at, value) in [
            ("later", true.into()),
            ("name", "a b".into()),
            ("iqn", "vm".into()),
            ("id", Uuid::nil().to_string().into()),
            ("portals", serde_json::json!([{ "address": "127.0.0.1:1", "group": 0 }])),
            ("luns", serde_json::json!({ "0": {} })),
        ] {
            assert!(read(&with(at, value)).is_err(), "{at}");
        }
        assert!(Document::read(&key, b"{\"moved\":{}}").is_err() && Document::read(&key, b"{").is_err());
    }

    #[test]
    fn secrets_are_not_printed() {
        assert!(!format!("{:?}", target()).contains("twelve"));
    }
}
