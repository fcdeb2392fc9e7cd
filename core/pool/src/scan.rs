//! Finding pools on disks, in any order and under any names.
//!
//! What a disk is, its two labels and its two log halves say independently; the majority of them is believed. What the
//! pool is, the log that reaches furthest says. Nothing is written here.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use holdfast_device::{Device, IoBuf, IoError};
use holdfast_model::{BLOCK_BYTES, DiskState, Name, Uuid};

use crate::area::Area;
use crate::candidate::{Candidate, DiskInfo};
use crate::change::Change;
use crate::config::Config;
use crate::features::{FEW_DISKS, Features};
use crate::frame::{Frame, Kind, Position};
use crate::label::Label;
use crate::life::SignOfLife;
use crate::log::{LogPlace, Tip};
use crate::quorum::Votes;
use crate::record::DiskRecord;

/// What a look at some disks brought.
#[derive(Default)]
pub struct Scan {
    /// Pools, by id.
    pub pools: Vec<FoundPool>,
    /// Disks without a trace of a pool.
    pub blank: Vec<Candidate>,
    /// Disks that say which pool they belong to and of which no whole configuration was found, by the pool's id. With
    /// that of the pool in use they can be taken back.
    pub strays: Vec<(Uuid, Member)>,
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
    /// Whether the log stands there as often as it is to, each time whole but for a last change that was cut short.
    pub log_whole: bool,
    /// Whether the log ends as it was left, and not in a block that is not whole.
    pub(crate) ends_in_order: bool,
    /// The last change of which anything stands behind the end of the log.
    pub(crate) behind: Option<Position>,
    /// Features that its labels name.
    pub features: Features,
    /// What its owner wrote last to show that it is alive.
    pub(crate) sign_of_life: Option<SignOfLife>,
}

impl Member {
    /// Where its log is.
    pub(crate) fn log(&self, pool: Uuid) -> LogPlace {
        LogPlace { device: self.candidate.device.clone(), area: self.area, pool, disk: self.id }
    }
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
    pub(crate) open_change: Option<OpenChange>,
    pub(crate) rivals: Vec<Uuid>,
}

/// The last record of a log, where it changed who votes. Nobody can tell whether it counted, so an import needs the
/// votes before it as well as those after it, and hands it on to other disks as a record and not within a checkpoint.
pub(crate) struct OpenChange {
    pub votes_before: Votes,
    pub disks_before: BTreeMap<Uuid, u16>,
    pub position_before: Position,
    pub checkpoint_before: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Scan {
    /// Disks that cannot be used without others, and why.
    pub fn unusable(self) -> impl Iterator<Item = (Candidate, String)> {
        let why = |(pool, member): (Uuid, Member)| {
            let why = format!(
                "it belongs to pool {pool}, but its metadata log is damaged, and no other disk here has a whole one: its data may be whole"
            );
            (member.candidate, why)
        };
        self.damaged.into_iter().chain(self.strays.into_iter().map(why))
    }

    /// The disk of a pool that was looked at alone, with the last change that its log holds, where that can be read.
    pub(crate) fn alone(self, pool: Uuid) -> Option<(Member, Option<Position>)> {
        let found = self.pools.into_iter().find(|found| found.id == pool);
        let member =
            found.and_then(|found| found.members.into_iter().next().map(|member| (member, Some(found.position))));
        member.or_else(|| self.strays.into_iter().find(|(id, _)| *id == pool).map(|(_, member)| (member, None)))
    }
}

impl FoundPool {
    /// Its name.
    pub fn name(&self) -> String {
        self.config.name.as_ref().map(Name::to_string).unwrap_or_default()
    }

    /// Flags of features with which it may only be read here. What the label of a disk says that is in the pool no more
    /// does not count.
    pub fn unknown_read_only(&self) -> u64 {
        let numbers = self.numbers();
        let counting = self.members.iter().filter(|member| numbers.contains_key(&member.id));
        counting.fold(self.config.features, |all, member| all.with(member.features)).unknown_read_only()
    }

    /// Disks that the pool has and that are not here.
    pub fn missing(&self) -> Vec<&DiskRecord> {
        let here = |id: Uuid| self.members.iter().any(|member| member.id == id);
        self.config.disks.values().filter(|record| !here(record.id)).collect()
    }

    /// The last change that a disk which is here held once, where it is beyond all that can be read: their logs are
    /// damaged, and what came behind that was answered.
    pub fn damaged_before(&self) -> Option<Position> {
        let numbers = self.numbers();
        let counting = self.members.iter().filter(|member| numbers.contains_key(&member.id));
        let behind = counting.filter_map(|member| member.behind).max()?;
        (behind > self.position && behind.sequence > self.position.sequence + 1).then_some(behind)
    }

    /// Whether an owner added to any log since it was read.
    pub(crate) async fn has_moved(&self) -> bool {
        let logs = self.members.iter().filter_map(|member| Some((member.log(self.id), member.tip?)));
        join_all(logs.map(async |(log, tip)| !log.ends_at(&tip).await)).await.contains(&true)
    }

    /// Whether what was written last is on one disk, once, and ends there in a block that is not whole: a change that was
    /// cut short, or one that was damaged.
    pub(crate) fn may_lack_last(&self) -> bool {
        let mut last = self.members.iter().filter(|member| member.tip.is_some_and(|tip| tip.position == self.position));
        let only = last.next().filter(|_| last.next().is_none());
        only.is_some_and(|member| !member.ends_in_order && member.tip.is_some_and(|tip| !tip.is_copied()))
    }

    /// The numbers of its disks, with one that its last change, which may never have counted, took out of it.
    pub(crate) fn numbers(&self) -> BTreeMap<Uuid, u16> {
        let mut numbers = self.open_change.as_ref().map_or_else(BTreeMap::new, |change| change.disks_before.clone());
        numbers.extend(self.config.disks.values().map(|record| (record.id, record.index)));
        numbers
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
            Ok((pool, misfits)) => {
                scan.pools.push(pool);
                scan.damaged.extend(misfits);
            }
            Err(members) => scan.strays.extend(members.into_iter().map(|member| (id, member))),
        }
    }
    scan
}

enum Look {
    Blank(Candidate),
    Damaged(Candidate, String),
    Member(Uuid, Member),
}

/// The four blocks that say what a disk is: two labels, and the heads of two log halves.
struct Evidence {
    labels: [Option<Label>; 2],
    owners: Vec<(Uuid, Uuid)>,
    later_version: bool,
    unreadable: Option<IoError>,
}

impl Evidence {
    async fn gather(device: &Arc<dyn Device>, area: &Area) -> Self {
        let mut evidence = Self { labels: [None; 2], owners: Vec::new(), later_version: false, unreadable: None };
        for (label, offset) in area.labels().into_iter().enumerate() {
            let Some(block) = evidence.read(device, offset).await else { continue };
            evidence.labels[label] = Label::open(&block, offset).ok();
            evidence.owners.extend(evidence.labels[label].map(|label| (label.pool, label.disk)));
        }
        for offset in area.log_heads() {
            let Some(block) = evidence.read(device, offset).await else { continue };
            let head = Frame::open(&block).map(|header| header.frame);
            let own = head.ok().filter(|frame| frame.kind == Kind::Checkpoint && frame.offset == offset);
            // A log counts twice: on a disk that never used its second half it must outweigh two strange labels.
            evidence.owners.extend(own.into_iter().flat_map(|frame| [(frame.pool, frame.disk); 2]));
        }
        evidence
    }

    async fn read(&mut self, device: &Arc<dyn Device>, offset: u64) -> Option<IoBuf> {
        match device.read(offset, IoBuf::new(BLOCK_BYTES as usize)).await {
            Ok(block) => {
                self.later_version |= Frame::is_of_later_version(&block);
                Some(block)
            }
            Err(error) => {
                self.unreadable.get_or_insert(error);
                None
            }
        }
    }

    fn votes_for(&self, owner: (Uuid, Uuid)) -> usize {
        self.owners.iter().filter(|other| **other == owner).count()
    }

    fn owner(&self) -> Option<(Uuid, Uuid)> {
        self.owners.iter().copied().max_by_key(|owner| self.votes_for(*owner))
    }

    /// How much speaks for the disk having been labelled with this size.
    fn weight(&self, area: &Area) -> (usize, bool) {
        let Some(owner) = self.owner() else { return (0, false) };
        let mut own = self.labels.iter().flatten().filter(|label| (label.pool, label.disk) == owner);
        (self.votes_for(owner), own.any(|label| label.disk_bytes == area.disk_bytes))
    }
}

/// The label at the front, whichever disk it is of.
pub(crate) async fn front_label(device: &Arc<dyn Device>) -> Option<Label> {
    if device.geometry().size_bytes < BLOCK_BYTES {
        return None;
    }
    Label::read(device, 0).await
}

async fn look(candidate: Candidate) -> Look {
    let device = candidate.device.clone();
    let size = device.geometry().size_bytes;
    let front = front_label(&device).await;
    let shrank = |label: &Label| label.disk_bytes > size;
    let shrank_text = |label: Label| {
        format!("it was labelled with {} bytes and now has {size}: restore the size of the device", label.disk_bytes)
    };
    // A device may have grown since it was labelled, and a label at the front may be of another disk.
    let sizes = front.map(|label| label.disk_bytes).filter(|labelled| *labelled <= size).into_iter().chain([size]);
    let mut areas: Vec<Area> = sizes.filter_map(|size| Area::of_disk("", size).ok()).collect();
    areas.dedup();
    let mut best: Option<(Area, Evidence)> = None;
    for area in areas {
        let evidence = Evidence::gather(&device, &area).await;
        if best.as_ref().is_none_or(|(known_area, known)| evidence.weight(&area) >= known.weight(known_area)) {
            best = Some((area, evidence));
        }
    }
    let Some((area, evidence)) = best else {
        return match front {
            Some(label) => Look::Damaged(candidate, shrank_text(label)),
            None => Look::Blank(candidate),
        };
    };
    let Some((pool, id)) = evidence.owner() else {
        return match evidence.unreadable {
            _ if evidence.later_version => {
                Look::Damaged(candidate, "it is of a later version: use that version".into())
            }
            Some(error) => Look::Damaged(candidate, format!("it cannot be read ({error}): check cable and power")),
            None => Look::Blank(candidate),
        };
    };
    let labels = evidence.labels.map(|label| label.filter(|label| (label.pool, label.disk) == (pool, id)));
    let features = labels.iter().flatten().fold(Features::NONE, |all, label| all.with(label.features));
    let unknown = features.unknown_incompatible();
    if unknown != 0 {
        let why = format!(
            "it uses features of a later version, incompatible flags {unknown:#x}, which {} does not know: use that version",
            env!("CARGO_PKG_VERSION")
        );
        return Look::Damaged(candidate, why);
    }
    if let Some(label) = labels.iter().flatten().find(|label| shrank(label)) {
        return Look::Damaged(candidate, shrank_text(*label));
    }
    let promised = labels.iter().flatten().map(|label| label.promised).max().unwrap_or(0);
    let log = LogPlace { device, area, pool, disk: id };
    let tip = log.find_tip().await;
    let ends_in_order = match &tip {
        Some(tip) => log.ends_in_order(tip).await,
        None => true,
    };
    let sign_of_life = SignOfLife::read(&log).await;
    let labels_whole = labels.map(|label| label.is_some_and(|label| label.promised == promised));
    Look::Member(
        pool,
        Member {
            candidate,
            id,
            area,
            labels_whole,
            promised,
            tip,
            log_whole: true,
            ends_in_order,
            behind: None,
            features,
            sign_of_life,
        },
    )
}

type Misfits = Vec<(Candidate, String)>;

async fn assemble(id: Uuid, members: Vec<Member>) -> Result<(FoundPool, Misfits), Vec<Member>> {
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
        if let Some((config, open_change)) = load(id, &members[at], &tip).await {
            let rivals = find_rivals(id, &config, &members, tip.position).await;
            let size =
                |member: &Member| config.disks.values().find(|record| record.id == member.id).map(|it| it.disk_bytes);
            let fits = |member: &Member| size(member).is_none_or(|bytes| bytes == member.area.disk_bytes);
            let (mut members, misfits): (Vec<_>, Vec<_>) = members.into_iter().partition(fits);
            look_behind(id, &config, &mut members, tip.position).await;
            let why =
                |member: Member| (member.candidate, "its size differs from the one recorded in the pool".to_string());
            let misfits = misfits.into_iter().map(why).collect();
            return Ok((
                FoundPool { id, config, position: tip.position, members, duplicates, open_change, rivals },
                misfits,
            ));
        }
        members[at].tip = None;
    }
    Err(members)
}

/// Looks at the logs of members for what is not told by their ends: whether each copy is whole, and what stands behind.
/// Of many disks that agree, and end as they were left, nothing more is wanted.
async fn look_behind(pool: Uuid, config: &Config, members: &mut [Member], last: Position) {
    let (twice, cut_short, few) = (config.keeps_logs_twice(), !config.closed, members.len() <= FEW_DISKS);
    let looks = members.iter_mut().map(|member| async move {
        let Some(tip) = member.tip else { return };
        let log = member.log(pool);
        if few {
            member.log_whole = log.is_whole(&tip, twice, cut_short).await;
        }
        if few || !member.ends_in_order || tip.position != last {
            member.behind = log.furthest_behind(&tip).await;
        }
    });
    join_all(looks).await;
}

async fn load(pool: Uuid, member: &Member, tip: &Tip) -> Option<(Config, Option<OpenChange>)> {
    let mut payloads = member.log(pool).payloads(tip).await?;
    if payloads.len() < 2 {
        return Some((replay(&payloads)?, None));
    }
    let (_, last) = payloads.pop()?;
    let position_before = payloads.last()?.0;
    let mut config = replay(&payloads)?;
    let votes_before = Votes::of(&config);
    read_into(&mut config, &last)?;
    if Votes::of(&config) == votes_before {
        return Some((config, None));
    }
    let before = replay(&payloads)?;
    let disks_before = before.disks.values().map(|record| (record.id, record.index)).collect();
    let checkpoint_before = before.checkpoint();
    Some((config, Some(OpenChange { votes_before, disks_before, position_before, checkpoint_before, payload: last })))
}

fn replay(payloads: &[(Position, Vec<u8>)]) -> Option<Config> {
    let mut config = Config::default();
    payloads.iter().try_for_each(|(_, payload)| read_into(&mut config, payload))?;
    config.name.is_some().then_some(config)
}

fn read_into(config: &mut Config, payload: &[u8]) -> Option<()> {
    Change::read_all(payload).try_for_each(|change| config.apply(&change.ok()?).ok())
}

/// Disks that went on by themselves after an import was forced without them: their history is not this one, and they
/// had the votes to make it.
async fn find_rivals(id: Uuid, config: &Config, members: &[Member], best: Position) -> Vec<Uuid> {
    let mut histories: BTreeMap<Position, Vec<&Member>> = BTreeMap::new();
    for member in members {
        if let Some(tip) = member.tip.filter(|tip| tip.position != best && config.departed_before(tip.position)) {
            histories.entry(tip.position).or_default().push(member);
        }
    }
    let mut rivals = Vec::new();
    for members in histories.values() {
        let tip = members[0].tip.expect("members of a history have a tip");
        let Some((other, _)) = load(id, members[0], &tip).await else { continue };
        let known =
            |member: &&Member| other.disks.values().find(|record| record.id == member.id).map(|record| record.index);
        if Votes::of(&other).carried(&members.iter().filter_map(known).collect(), false) {
            rivals.extend(members.iter().map(|member| member.id));
        }
    }
    rivals
}
