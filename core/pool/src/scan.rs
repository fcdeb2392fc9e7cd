//! Finding pools on disks, in any order and under any names.
//!
//! What a disk is, its two labels and its two log halves say independently; the majority of them is believed. What the
//! pool is, the log that reaches furthest says. Nothing is written here.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{Device, IoBuf};
use holdfast_model::{BLOCK_BYTES, DiskState, Media, Name, Place, Uuid};

use crate::area::Area;
use crate::config::{Change, Config, DiskRecord};
use crate::frame::{Frame, Kind, Position};
use crate::label::{KNOWN_INCOMPATIBLE, Label};
use crate::log::{LogPlace, Tip};

/// What is known of a disk without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskInfo {
    /// Where it is.
    pub path: String,
    /// Its serial, empty where it tells none.
    pub serial: String,
    /// Its model, empty where it tells none.
    pub model: String,
    /// Its medium.
    pub media: Media,
    /// Its enclosure and slot, where known.
    pub place: Option<Place>,
}

/// A disk that a pool may be looked for or made on.
#[derive(Clone)]
pub struct Candidate {
    /// The disk.
    pub device: Arc<dyn Device>,
    /// What is known of it.
    pub info: DiskInfo,
}

/// What a look at some disks brought.
#[derive(Default)]
pub struct Scan {
    /// Pools, by id.
    pub pools: Vec<FoundPool>,
    /// Disks without a trace of a pool.
    pub blank: Vec<Candidate>,
    /// Disks that belong to a pool but cannot be used, and why.
    pub damaged: Vec<(Candidate, String)>,
}

/// A disk of a found pool.
pub struct Member {
    /// The disk.
    pub candidate: Candidate,
    /// Its identity.
    pub id: Uuid,
    /// Its division.
    pub area: Area,
    /// Whether the front and the end label are as they should be.
    pub labels_whole: [bool; 2],
    /// The highest generation that it agreed to.
    pub promised: u64,
    /// Where its log ends; `None` where no half is whole.
    pub tip: Option<Tip>,
}

/// A pool that can be imported, or at least named.
pub struct FoundPool {
    /// Its identity.
    pub id: Uuid,
    /// Its configuration as the furthest log tells it.
    pub config: Config,
    /// How far that is.
    pub position: Position,
    /// Its disks that are here.
    pub members: Vec<Member>,
    /// Further disks with the identity of one of these, not used.
    pub duplicates: Vec<DiskInfo>,
}

impl FoundPool {
    /// Its name.
    pub fn name(&self) -> String {
        self.config.name.as_ref().map(Name::to_string).unwrap_or_default()
    }

    /// Disks that the pool has and that are not here.
    pub fn missing(&self) -> Vec<&DiskRecord> {
        let here = |id: Uuid| self.members.iter().any(|member| member.id == id);
        self.config.disks.values().filter(|record| !here(record.id)).collect()
    }

    /// Disks that are here and whose log is behind the pool's.
    pub fn stale(&self) -> Vec<&Member> {
        self.members.iter().filter(|member| member.tip.map(|tip| tip.position) != Some(self.position)).collect()
    }

    /// Whether the pool knew this disk as out of service.
    pub fn was_out(&self, id: Uuid) -> bool {
        self.config.disks.values().any(|record| record.id == id && record.state != DiskState::Online)
    }
}

/// Reads labels and logs of all `candidates`.
pub async fn scan(candidates: Vec<Candidate>) -> Scan {
    let looks = join_all(candidates.into_iter().map(look)).await;
    let mut scan = Scan::default();
    let mut pools: BTreeMap<Uuid, Vec<Member>> = BTreeMap::new();
    for look in looks {
        match look {
            Look::Blank(candidate) => scan.blank.push(candidate),
            Look::Damaged(candidate, why) => scan.damaged.push((candidate, why)),
            Look::Member(pool, member) => pools.entry(pool).or_default().push(member),
        }
    }
    for (id, members) in pools {
        match assemble(id, members).await {
            Ok(pool) => scan.pools.push(pool),
            Err(members) => scan.damaged.extend(members.into_iter().map(|member| {
                (
                    member.candidate,
                    format!("it belongs to pool {id}, of which no whole configuration was found: attach more of its disks"),
                )
            })),
        }
    }
    scan
}

enum Look {
    Blank(Candidate),
    Damaged(Candidate, String),
    Member(Uuid, Member),
}

async fn read_label(device: &Arc<dyn Device>, offset: u64) -> Option<Label> {
    let block = device.read(offset, IoBuf::new(BLOCK_BYTES as usize)).await.ok()?;
    Label::open(&block, offset).ok()
}

async fn read_owner(device: &Arc<dyn Device>, offset: u64) -> Option<(Uuid, Uuid)> {
    let block = device.read(offset, IoBuf::new(BLOCK_BYTES as usize)).await.ok()?;
    let frame = Frame::open(&block).ok()?.frame;
    (frame.kind == Kind::Checkpoint && frame.offset == offset).then_some((frame.pool, frame.disk))
}

async fn look(candidate: Candidate) -> Look {
    let device = candidate.device.clone();
    let size = device.geometry().size_bytes;
    let Ok(whole) = Area::of_disk(&candidate.info.path, size) else { return Look::Blank(candidate) };
    let front = read_label(&device, 0).await;
    let labelled_bytes = front.map_or(whole.disk_bytes, |label| label.disk_bytes);
    let area = match Area::of_disk(&candidate.info.path, labelled_bytes) {
        Ok(area) if area.disk_bytes <= size => area,
        _ => {
            let why = format!("it was labelled with {labelled_bytes} bytes and now has {size}: the device shrank");
            return Look::Damaged(candidate, why);
        }
    };
    let end = read_label(&device, area.labels()[1]).await;
    let labels = [front, end];
    let mut owners: Vec<(Uuid, Uuid)> = labels.iter().flatten().map(|label| (label.pool, label.disk)).collect();
    for half in 0..2 {
        owners.extend(read_owner(&device, area.log_half(half)).await);
    }
    let votes = |owner: &(Uuid, Uuid)| owners.iter().filter(|other| *other == owner).count();
    let Some((pool, id)) = owners.iter().copied().max_by_key(|owner| votes(owner)) else { return Look::Blank(candidate) };
    let own = |label: &Option<Label>| label.filter(|label| (label.pool, label.disk) == (pool, id));
    let labels = labels.map(|label| own(&label));
    if let Some(label) = labels.iter().flatten().find(|label| label.features[2] & !KNOWN_INCOMPATIBLE != 0) {
        let why = format!("it uses features of a later version ({:#x}): use that version", label.features[2]);
        return Look::Damaged(candidate, why);
    }
    let promised = labels.iter().flatten().map(|label| label.promised).max().unwrap_or(0);
    let tip = LogPlace { device, area, pool, disk: id }.find_tip().await;
    let labels_whole = labels.map(|label| label.is_some_and(|label| label.promised == promised));
    Look::Member(pool, Member { candidate, id, area, labels_whole, promised, tip })
}

async fn assemble(id: Uuid, members: Vec<Member>) -> Result<FoundPool, Vec<Member>> {
    let mut by_disk: BTreeMap<Uuid, Member> = BTreeMap::new();
    let mut duplicates = Vec::new();
    for member in members {
        match by_disk.get(&member.id) {
            Some(known) if known.tip.map(|tip| tip.position) >= member.tip.map(|tip| tip.position) => {
                duplicates.push(member.candidate.info);
            }
            _ => duplicates.extend(by_disk.insert(member.id, member).map(|older| older.candidate.info)),
        }
    }
    let mut members: Vec<Member> = by_disk.into_values().collect();
    members.sort_by_key(|member| std::cmp::Reverse(member.tip.map(|tip| tip.position)));
    for at in 0..members.len() {
        let Some(tip) = members[at].tip else { break };
        if let Some(config) = load(id, &members[at], &tip).await {
            return Ok(FoundPool { id, config, position: tip.position, members, duplicates });
        }
        members[at].tip = None;
    }
    Err(members)
}

async fn load(pool: Uuid, member: &Member, tip: &Tip) -> Option<Config> {
    let place = LogPlace { device: member.candidate.device.clone(), area: member.area, pool, disk: member.id };
    let mut config = Config::default();
    for payload in place.payloads(tip).await? {
        for change in Change::read_all(&payload) {
            config.apply(&change.ok()?).ok()?;
        }
    }
    config.name.is_some().then_some(config)
}
