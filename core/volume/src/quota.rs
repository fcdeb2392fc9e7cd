//! Quotas: what users, groups and directory trees of a volume take, and may take.
//!
//! ```text
//!   record of a file: owner, group, tree, blocks ──▶ change: before and after ──▶ ledger, in memory ──▶ checkpoint ──▶ tree
//!   limits ──▶ log ──▶ tree of quotas
//!   tree of quotas:   0                      whether what is taken was counted
//!                     1 │ sort │ number (4)  limits, and of a directory tree where it is
//!                     1 │ 5 │ SID            limits of an owner who has no number
//!                     2 │ sort │ number (4)  blocks and files
//! ```
//!
//! A file names the directory tree that it counts for in its record, as its directory did when it was created. A tree
//! within another counts for that one, too.
//!
//! Invariant: what is taken follows from records, in the same change; replay makes it again. It is never logged.

mod account;
mod ledger;
mod owners;
mod recount;
mod trees;

use std::fmt;

use holdfast_identity::{Id, Sid};
use holdfast_model::BLOCK_BYTES;
use holdfast_model::wire::{Reader, WireError, Writer};
use serde::Serialize;

use crate::QUOTA_TREE;
use crate::change::{Need, Stop, View};
use crate::error::{ErrorKind, VolumeError};
use crate::keys;
use crate::open_files::File;
use crate::record::{Record, Share};
use crate::service::{FileId, Usage};
use crate::superblock::NT_RULES;
use crate::volume::{Volume, record_of};

pub(crate) use ledger::{Enforce, Ledger, Shift};
pub(crate) use owners::is_foreign;
pub(crate) use recount::Tally;
pub(crate) use trees::Walks;

/// Whether what is taken was counted once, so that changes go on from there.
pub(crate) const KEY_COUNTED: &[u8] = &[0];
/// What that key has where owners without a number all counted for one user, and where each counts for itself.
const BY_USER: u8 = 1;
const BY_OWNER: u8 = 2;
const LIMITS: u8 = 1;
const TAKEN: u8 = 2;
/// The sort of a security identifier, which is no number.
const SID: u8 = 5;
const VERSION: u8 = 1;

/// Whom a quota is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Files that a user owns.
    User(u32),
    /// Files of a group.
    Group(u32),
    /// Files of a directory tree, by a number that the volume gave it.
    Tree(u32),
    /// Files that somebody owns who has no number as a user.
    Sid(Sid),
}

impl Subject {
    /// Sort and number, and what is no number.
    pub(crate) fn fields(&self) -> (u8, u32, Vec<u8>) {
        let plain = |sort, number| (sort, number, Vec::new());
        match self {
            Self::User(number) => plain(1, *number),
            Self::Group(number) => plain(2, *number),
            Self::Tree(number) => plain(3, *number),
            Self::Sid(sid) => (SID, 0, sid.to_bytes()),
        }
    }

    pub(crate) fn from_fields(sort: u64, number: u64, bytes: &[u8]) -> Option<Self> {
        if sort == SID.into() {
            return Sid::from_bytes(bytes).ok().map(Self::Sid);
        }
        let number = u32::try_from(number).ok()?;
        Some(match sort {
            1 => Self::User(number),
            2 => Self::Group(number),
            3 => Self::Tree(number),
            _ => return None,
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(number) => write!(f, "user {number}"),
            Self::Group(number) => write!(f, "group {number}"),
            Self::Tree(number) => write!(f, "directory tree {number}"),
            Self::Sid(sid) => sid.fmt(f),
        }
    }
}

/// What may be taken. Nothing limits what is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the volume, which nothing goes beyond.
    pub hard_bytes: Option<u64>,
    /// Bytes of the volume beyond which it is told.
    pub soft_bytes: Option<u64>,
    /// Files and directories, which nothing goes beyond.
    pub hard_files: Option<u64>,
    /// Files and directories beyond which it is told.
    pub soft_files: Option<u64>,
}

impl Limits {
    /// Refuses limits that cannot be meant.
    fn check(&self) -> Result<(), VolumeError> {
        let refuse = |why| Err(VolumeError::new(ErrorKind::Invalid, why));
        let all = [self.hard_bytes, self.soft_bytes, self.hard_files, self.soft_files];
        if all.contains(&Some(0)) {
            return refuse("a limit of nothing is none: leave it out, or remove the quota");
        }
        let is_beyond = |soft: Option<u64>, hard: Option<u64>| soft.zip(hard).is_some_and(|(soft, hard)| soft > hard);
        if is_beyond(self.soft_bytes, self.hard_bytes) || is_beyond(self.soft_files, self.hard_files) {
            return refuse("a soft limit lies below the hard one");
        }
        Ok(())
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// How far the files of a directory tree are known to be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaState {
    /// All are.
    Settled,
    /// A walk makes them so; those that it did not meet yet are not counted.
    Counting,
    /// The quota was removed, and a walk gives them back.
    Leaving,
}

/// A quota, and what is taken of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Whom it is for.
    pub subject: Subject,
    /// What may be taken; `None` where nobody set a quota.
    pub limits: Option<Limits>,
    /// Of a directory tree, the directory.
    pub directory: Option<FileId>,
    /// Of a directory tree, how far it is counted.
    pub state: QuotaState,
    /// Bytes of the volume that data takes.
    pub used_bytes: u64,
    /// Files and directories.
    pub used_files: u64,
    /// Requests that a hard limit refused since the volume was opened.
    pub refused: u64,
    /// How often a soft limit was crossed since the volume was opened, or set below what is taken.
    pub crossed: u64,
}

/// What stands in the tree of quotas about limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub limits: Limits,
    pub state: QuotaState,
    /// Of a directory tree, the directory.
    pub directory: FileId,
    /// The tree that it is within; 0 for none.
    pub parent: u32,
}

impl Definition {
    fn encode(&self) -> Vec<u8> {
        let state = match self.state {
            QuotaState::Settled => 0,
            QuotaState::Counting => 1,
            QuotaState::Leaving => 2,
        };
        let Limits { hard_bytes, soft_bytes, hard_files, soft_files } = self.limits;
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(state);
        for limit in [hard_bytes, soft_bytes, hard_files, soft_files] {
            writer.u64(limit.unwrap_or(0));
        }
        writer.u64(self.directory.number).u32(self.directory.generation).u32(self.parent);
        writer.into_bytes()
    }

    pub fn decode(value: &[u8]) -> Option<Self> {
        let read = |mut reader: Reader<'_>| -> Result<Self, WireError> {
            if reader.u8()? != VERSION {
                return Err(WireError::Value("version"));
            }
            let state = match reader.u8()? {
                0 => QuotaState::Settled,
                1 => QuotaState::Counting,
                2 => QuotaState::Leaving,
                _ => return Err(WireError::Value("state")),
            };
            let mut limit = || reader.u64().map(|limit| (limit > 0).then_some(limit));
            let limits =
                Limits { hard_bytes: limit()?, soft_bytes: limit()?, hard_files: limit()?, soft_files: limit()? };
            let directory = FileId { number: reader.u64()?, generation: reader.u32()? };
            Ok(Self { limits, state, directory, parent: reader.u32()? })
        };
        read(Reader::new(value)).ok()
    }
}

/// The key of the limits of a subject.
fn limits_key(subject: Subject) -> Vec<u8> {
    let (sort, number, sid) = subject.fields();
    match subject {
        Subject::Sid(_) => [&[LIMITS, sort][..], &sid].concat(),
        _ => [&[LIMITS, sort][..], &number.to_be_bytes()].concat(),
    }
}

/// Whose limits a key is about.
fn limits_of(key: &[u8]) -> Option<Subject> {
    let [LIMITS, sort, rest @ ..] = key else { return None };
    let number = if *sort == SID { 0 } else { u32::from_be_bytes(rest.try_into().ok()?) };
    Subject::from_fields((*sort).into(), number.into(), rest)
}

/// The definition of a quota as this change has left it.
fn definition(view: &View<'_>, subject: Subject) -> Result<Option<Definition>, Stop> {
    let value = view.get(QUOTA_TREE, &limits_key(subject))?;
    Ok(value.as_deref().and_then(Definition::decode))
}

fn put_definition(view: &mut View<'_>, subject: Subject, definition: &Definition) -> Result<(), Stop> {
    view.put(QUOTA_TREE, limits_key(subject), definition.encode())
}

impl Volume {
    /// All that is known to take anything or to have a quota, in order.
    pub fn quotas(&self) -> Vec<Quota> {
        self.store.ledger.quotas()
    }

    /// What every owner takes, and may take: users in the order of their numbers, then those without one in the order of
    /// their security identifiers.
    pub fn owner_quotas(&self) -> Vec<Quota> {
        let is_owner = |quota: &Quota| matches!(quota.subject, Subject::User(_) | Subject::Sid(_));
        self.quotas().into_iter().filter(is_owner).collect()
    }

    /// Whom the files of an owner count for: the user where the identifier has a number, as `S-1-22-1-uid` has, or else
    /// the identifier.
    pub fn subject_of(&self, owner: &Sid) -> Subject {
        match self.store.descriptors.ids().id_of(owner) {
            Some(Id::User(uid)) => Subject::User(uid),
            _ => Subject::Sid(*owner),
        }
    }

    /// Those that have a quota, in order.
    pub fn limited_quotas(&self) -> Vec<Quota> {
        self.store.ledger.limited_quotas()
    }

    /// Whether what users, groups and trees take is known. A volume of an earlier version is counted when the first
    /// quota is set.
    pub fn is_counted(&self) -> bool {
        self.store.ledger.is_counted()
    }

    /// Whether each owner without a number is counted by itself. A volume to which an earlier version gave files of such
    /// owners has them all count for user 65534 until [`Self::recount`], or the first quota of one of them.
    pub fn are_owners_counted(&self) -> bool {
        self.store.ledger.are_owners_counted()
    }

    /// Limits what the files of an owner or a group take, durably; answers whether that is new. A security identifier
    /// stands for what [`Self::subject_of`] says.
    ///
    /// # Errors
    /// Limits that cannot be meant, a limit for user 0, no room, a node is damaged, or the device failed.
    pub async fn set_quota(&self, subject: Subject, limits: Limits) -> Result<bool, VolumeError> {
        limits.check()?;
        let subject = self.resolved(subject);
        let refuse = |why| Err(VolumeError::new(ErrorKind::Invalid, why));
        match subject {
            Subject::Tree(_) => return refuse("the quota of a directory tree is set at its directory"),
            Subject::User(0) => return refuse("user 0 has no quota: what the system writes must not fail for one"),
            _ if limits.is_none() => return refuse("a quota needs a limit"),
            Subject::Sid(_) if !self.are_owners_counted() => _ = self.recount().await?,
            _ => self.count_first().await?,
        }
        let directory = FileId { number: 0, generation: 0 };
        let new = Definition { limits, state: QuotaState::Settled, directory, parent: 0 };
        let is_sid = matches!(subject, Subject::Sid(_));
        let change = self.store.change([QUOTA_TREE], Need::More, |view| {
            if is_sid {
                view.need_feature(NT_RULES)?;
            }
            let before = definition(view, subject)?;
            put_definition(view, subject, &new)?;
            Ok(before != Some(new))
        });
        self.store.lasting(change).await
    }

    /// Takes the limits of an owner or a group away, durably; answers whether there were any.
    ///
    /// # Errors
    /// No room, a node is damaged, or the device failed.
    pub async fn remove_quota(&self, subject: Subject) -> Result<bool, VolumeError> {
        let subject = self.resolved(subject);
        let change = self.store.change([QUOTA_TREE], Need::Less, |view| {
            let key = limits_key(subject);
            let was_there = view.get(QUOTA_TREE, &key)?.is_some();
            if was_there {
                view.remove(QUOTA_TREE, key)?;
            }
            Ok(was_there)
        });
        self.store.lasting(change).await
    }

    fn resolved(&self, subject: Subject) -> Subject {
        if let Subject::Sid(sid) = subject { self.subject_of(&sid) } else { subject }
    }

    /// Counts what is taken, where nobody did.
    async fn count_first(&self) -> Result<(), VolumeError> {
        if self.is_counted() { Ok(()) } else { self.recount().await.map(drop) }
    }

    /// Of so many blocks that a file is to take more, those that quotas leave it, and why not all.
    pub(crate) async fn fit(&self, file: &File, blocks: u64) -> Result<(u64, Option<VolumeError>), VolumeError> {
        if blocks == 0 || !self.store.ledger.is_limited() {
            return Ok((blocks, None));
        }
        let shard = keys::shard(file.id.number);
        let share = self.store.look([shard], |view| {
            let value = view.get(shard, &keys::record(file.id.number))?;
            Ok(value.as_deref().and_then(Share::of))
        });
        let Some(share) = share.await? else { return Ok((blocks, None)) };
        Ok(self.store.ledger.fit(share, blocks))
    }

    /// How full the volume is for files in a directory: as full as the directory tree is that has the least room.
    pub(crate) async fn usage_at(&self, at: FileId) -> Result<Usage, VolumeError> {
        let whole = self.room();
        if !self.store.ledger.is_limited() {
            return Ok(whole);
        }
        let record: Record = self.store.look([keys::shard(at.number)], |view| record_of(view, at)).await?;
        Ok(self.store.ledger.usage_in(record.quota_tree, whole))
    }
}

/// Bytes of blocks, as far as numbers go.
fn bytes_of(blocks: i64) -> u64 {
    (blocks.max(0) as u64).saturating_mul(BLOCK_BYTES)
}

/// What a tree with limits leaves of a volume.
fn narrowed(whole: Usage, limits: &Limits, bytes: u64, files: u64) -> Usage {
    let mut usage = whole;
    if let Some(hard) = limits.hard_bytes {
        let free = hard.saturating_sub(bytes).min(whole.free_bytes);
        if free < usage.free_bytes || hard < usage.total_bytes {
            // What others take of the volume is none of its business, but for the room that they leave.
            usage = Usage { total_bytes: hard.min(bytes.saturating_add(free)).max(free), free_bytes: free, ..usage };
        }
    }
    if let Some(hard) = limits.hard_files {
        let free = hard.saturating_sub(files);
        if usage.free_files.is_none_or(|known| free < known) {
            usage = Usage { files, free_files: Some(free), ..usage };
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_come_back_as_they_were() {
        let limits = Limits { hard_bytes: Some(5), soft_bytes: None, hard_files: Some(u64::MAX), soft_files: Some(1) };
        for state in [QuotaState::Settled, QuotaState::Counting, QuotaState::Leaving] {
            let directory = FileId { number: 77, generation: 3 };
            let definition = Definition { limits, state, directory, parent: 9 };
            let bytes = definition.encode();
            assert_eq!(Definition::decode(&bytes), Some(definition));
            assert!((0..bytes.len()).all(|len| Definition::decode(&bytes[..len]).is_none()));
        }
        let sid = Subject::Sid("S-1-5-21-1-2-3-1000".parse().expect("a SID"));
        for subject in [Subject::User(1000), Subject::Group(0), Subject::Tree(u32::MAX), sid] {
            let key = limits_key(subject);
            assert_eq!(limits_of(&key), Some(subject));
            assert!((0..key.len()).all(|len| limits_of(&key[..len]).is_none()));
            let (sort, number, bytes) = subject.fields();
            assert_eq!(Subject::from_fields(sort.into(), number.into(), &bytes), Some(subject));
        }
    }

    #[test]
    fn limits_that_cannot_be_meant_are_refused() {
        let soft = Limits { hard_bytes: Some(5), soft_bytes: Some(6), ..Limits::default() };
        assert!(soft.check().is_err());
        assert!(Limits { soft_bytes: Some(5), ..soft }.check().is_ok());
        assert!(Limits { hard_files: Some(0), ..Limits::default() }.check().is_err());
    }

    #[test]
    fn a_tree_shows_its_limit_as_its_size_and_no_more_room_than_there_is() {
        let whole = Usage { total_bytes: 1000, free_bytes: 100, files: 7, free_files: None };
        let limits = |hard| Limits { hard_bytes: Some(hard), ..Limits::default() };
        let small = narrowed(whole, &limits(50), 20, 3);
        assert_eq!((small.total_bytes, small.free_bytes), (50, 30));
        let over = narrowed(whole, &limits(50), 60, 3);
        assert_eq!((over.total_bytes, over.free_bytes), (50, 0));
        let large = narrowed(whole, &limits(5000), 20, 3);
        assert_eq!((large.total_bytes, large.free_bytes), (1000, 100), "the volume has less than the limit");
        let full = narrowed(whole, &limits(900), 200, 3);
        assert_eq!((full.total_bytes, full.free_bytes), (300, 100), "others took the rest");
        let files = narrowed(whole, &Limits { hard_files: Some(5), ..Limits::default() }, 0, 3);
        assert_eq!((files.files, files.free_files), (3, Some(2)));
    }
}
