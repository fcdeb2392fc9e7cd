//! Quotas of owners who have no number: what they take is theirs alone, whatever happens to it.

use std::sync::Arc;

use holdfast_device::IoBuf;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec};
use holdfast_identity::{Domain, IdMap, Privileges, SecurityDescriptor, Sid, Token, sddl};
use holdfast_volume::service::{Caller, FileId, FileKind, FileService, NewFile, Remove, SecurityParts, SetAttributes};
use holdfast_volume::superblock::{NT_RULES, Superblock};
use holdfast_volume::{ErrorKind, Limits, Quota, Subject, Volume, VolumeError};

use crate::descriptors::{stranger, user};
use crate::model::read_all;
use crate::plain::{NEW, WRITING, new_volume, open};
use crate::quotas;

const BLOCK: u64 = 4096;

fn token(user: Sid) -> Caller {
    let token = Token::new(user, "S-1-22-2-9".parse().expect("a SID"), &[], Privileges::empty());
    Caller { token: Some(Arc::new(token.expect("no groups"))), ..Caller::default() }
}

fn kind<T>(result: Result<T, VolumeError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

/// Blocks and files that are taken.
fn used(volume: &Volume, subject: Subject) -> (u64, u64) {
    let found = volume.owner_quotas().into_iter().find(|quota| quota.subject == subject);
    found.map_or((0, 0), |quota| (quota.used_bytes / BLOCK, quota.used_files))
}

fn quota(volume: &Volume, subject: Subject) -> Quota {
    volume.limited_quotas().into_iter().find(|quota| quota.subject == subject).expect("it has one")
}

fn blocks(hard: u64) -> Limits {
    Limits { hard_bytes: Some(hard * BLOCK), ..Limits::default() }
}

async fn write(volume: &Volume, id: FileId, blocks: u64) -> Result<(), VolumeError> {
    let handle = volume.open(&user(0), id, WRITING).await.expect("opened");
    let len = (blocks * BLOCK) as usize;
    let written = volume.write(&handle, 0, IoBuf::zeroed(len).freeze(), len).await;
    volume.close(handle).await.expect("closed");
    assert!(written.as_ref().is_ok_and(|done| *done == len) || written.is_err() || written == Ok(0) || blocks > 1);
    match written {
        Ok(done) if done < len => Err(VolumeError::new(ErrorKind::Quota, "a part of it")),
        other => other.map(drop),
    }
}

fn owned_by(owner: Sid) -> SecurityDescriptor {
    let given = sddl::parse("O:WDG:WDD:(A;;FA;;;WD)", None).expect("a descriptor");
    SecurityDescriptor { owner: Some(owner), ..given }
}

async fn give(volume: &Volume, caller: &Caller, id: FileId, owner: Sid) -> Result<u32, VolumeError> {
    volume.set_security(caller, id, SecurityParts::OWNER, &owned_by(owner)).await.map(|facts| facts.uid)
}

async fn sound(volume: &Volume) {
    quotas::check(volume, &read_all(volume).await).await;
    assert_eq!(volume.scan().await, Ok(Vec::new()));
    assert_eq!(volume.recount().await, Ok(false), "nothing was counted wrong");
}

/// Runs a test on an empty volume; what it counts is right at the end, also for another opening, with or without the log.
fn with(test: impl AsyncFnOnce(&Volume) + 'static) {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let volume = new_volume(disk.clone()).await;
        test(&volume).await;
        volume.sync().await.expect("it lasts");
        let before = volume.quotas().into_iter().map(|quota| Quota { crossed: 0, refused: 0, ..quota });
        let before: Vec<Quota> = before.collect();
        let image = disk.image();
        sound(&volume).await;
        drop(volume);
        // As power failed before the last checkpoint.
        disk.set_back(&image);
        let again = open(disk.clone()).await.expect("opened again");
        assert_eq!(again.quotas(), before);
        sound(&again).await;
        again.shut_down().await.expect("closed");
        assert_eq!(open(disk).await.expect("opened at last").quotas(), before);
    });
    ran.expect("powered");
}

#[test]
fn an_owner_without_a_number_has_an_account_and_a_limit() {
    with(async |volume| {
        let (root, one, other) = (volume.root(), stranger(0), stranger(1));
        let (caller, whose) = (token(one), Subject::Sid(one));
        let file = volume.create(&caller, root, b"file", &NEW).await.expect("made");
        assert_eq!((file.uid, used(volume, whose), used(volume, Subject::User(0))), (65_534, (0, 1), (0, 1)));
        write(volume, file.id, 10).await.expect("it has no limit");
        assert_eq!((used(volume, whose), used(volume, Subject::User(65_534))), ((10, 1), (0, 0)));
        let limits = Limits { soft_bytes: Some(3 * BLOCK), hard_files: Some(3), ..blocks(12) };
        assert_eq!(volume.set_quota(whose, limits).await, Ok(true));
        assert_eq!(volume.set_quota(whose, limits).await, Ok(false), "it is so already");
        assert_eq!(quota(volume, whose).crossed, 1, "it is set below what is taken");
        assert_eq!(kind(write(volume, file.id, 13).await), Some(ErrorKind::Quota));
        assert_eq!((used(volume, whose), quota(volume, whose).refused > 0), ((12, 1), true));
        let refused = write(volume, file.id, 20).await.expect_err("it is full");
        assert_eq!(refused.kind, ErrorKind::Quota);
        // Another list of the same owner is another descriptor, and the same account.
        let given = owned_by(one);
        let second = volume.create_secured(&caller, root, b"second", &NEW, &given).await.expect("made").id;
        assert_eq!(kind(write(volume, second, 1).await), Some(ErrorKind::Quota));
        let dir = NewFile { kind: FileKind::Directory, ..NEW };
        volume.create(&caller, root, b"dir", &dir).await.expect("the third");
        assert_eq!(kind(volume.create(&caller, root, b"fourth", &NEW).await), Some(ErrorKind::Quota));
        assert!(volume.lookup(&user(0), root, b"fourth").await.expect("looked up").is_none());
        volume.create(&token(other), root, b"other", &NEW).await.expect("it has no limit");
        assert_eq!((used(volume, whose), used(volume, Subject::Sid(other))), ((12, 3), (0, 1)));
        volume.remove(&user(0), root, b"file", Remove::File).await.expect("removal is never refused");
        assert_eq!(used(volume, whose), (0, 2));
        assert_eq!(volume.remove_quota(whose).await, Ok(true));
        assert_eq!(volume.remove_quota(whose).await, Ok(false));
        write(volume, second, 50).await.expect("nothing limits it any more");
        let owners: Vec<Subject> = volume.owner_quotas().iter().map(|quota| quota.subject).collect();
        assert_eq!(owners, [Subject::User(0), whose, Subject::Sid(other)]);
    });
}

#[test]
fn what_an_owner_takes_goes_with_the_file() {
    with(async |volume| {
        let (root, one, other) = (volume.root(), stranger(0), stranger(1));
        let ids = IdMap::new(Domain([7, 7, 7]), 2000..3000).expect("few");
        let account = "S-1-5-21-7-7-7-1000".parse().expect("a SID");
        volume.use_ids(ids);
        let file = volume.create(&user(5), root, b"file", &NEW).await.expect("made").id;
        write(volume, file, 4).await.expect("written");
        let of = |sid| volume.subject_of(&sid);
        let unix = "S-1-22-1-7".parse().expect("a SID");
        assert_eq!((of(unix), of(account), of(one)), (Subject::User(7), Subject::User(2000), Subject::Sid(one)));
        let mut before = Subject::User(5);
        for (owner, uid) in [(one, 65_534), (other, 65_534), (unix, 7), (account, 2000), (one, 65_534)] {
            assert_eq!(give(volume, &user(0), file, owner).await, Ok(uid));
            assert_eq!((used(volume, before), used(volume, of(owner))), ((0, 0), (4, 1)), "{owner}");
            before = of(owner);
        }
        let chown = SetAttributes { uid: Some(8), ..SetAttributes::default() };
        volume.set(&user(0), file, &chown).await.expect("given to a user");
        assert_eq!((used(volume, Subject::Sid(one)), used(volume, Subject::User(8))), ((0, 0), (4, 1)));
        // Who takes ownership must have room for it.
        let taker = token(other);
        volume.set_quota(Subject::Sid(other), blocks(3)).await.expect("set");
        let all = SecurityParts::OWNER | SecurityParts::DACL | SecurityParts::GROUP;
        volume.set_security(&user(0), file, all, &owned_by(one)).await.expect("everybody may do everything");
        assert_eq!(kind(give(volume, &taker, file, other).await), Some(ErrorKind::Quota));
        assert_eq!(used(volume, Subject::Sid(one)), (4, 1), "nothing of it was done");
        volume.set_quota(Subject::Sid(other), blocks(4)).await.expect("set");
        assert_eq!(give(volume, &taker, file, other).await, Ok(65_534));
        assert_eq!(used(volume, Subject::Sid(other)), (4, 1));
        give(volume, &user(0), file, one).await.expect("user 0 gives away what it likes");
    });
}

#[test]
fn the_identifier_of_a_user_is_the_user() {
    with(async |volume| {
        let (root, sid) = (volume.root(), "S-1-22-1-5".parse().expect("a SID"));
        volume.set_quota(Subject::Sid(sid), blocks(2)).await.expect("set");
        assert_eq!(quota(volume, Subject::User(5)).limits, Some(blocks(2)));
        let zero = "S-1-22-1-0".parse().expect("a SID");
        assert_eq!(kind(volume.set_quota(Subject::Sid(zero), blocks(2)).await), Some(ErrorKind::Invalid));
        let file = volume.create(&token(sid), root, b"file", &NEW).await.expect("made");
        let other = volume.create(&user(5), root, b"other", &NEW).await.expect("made");
        assert_eq!((file.uid, used(volume, Subject::User(5))), (5, (0, 2)));
        write(volume, file.id, 2).await.expect("it fits");
        assert_eq!(kind(write(volume, other.id, 1).await), Some(ErrorKind::Quota));
        // A symbolic link has no descriptor, and an owner all the same.
        let link = NewFile { kind: FileKind::Symlink, mode: 0o777, target: b"there" };
        volume.create(&token(sid), root, b"link", &link).await.expect("made");
        assert_eq!(used(volume, Subject::User(5)), (2, 3));
        assert_eq!(volume.remove_quota(Subject::Sid(sid)).await, Ok(true));
        assert_eq!(volume.limited_quotas(), []);
    });
}

#[test]
fn volumes_stay_as_they_are_until_somebody_without_a_number_has_a_file_or_a_limit() {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let says = || {
            let found = Superblock::open(&disk.peek(0, BLOCK as usize)).expect("it is known").expect("there is one");
            found.features[1] & NT_RULES != 0
        };
        let volume = new_volume(disk.clone()).await;
        let root = volume.root();
        let sid = "S-1-22-1-5".parse().expect("a SID");
        let file = volume.create(&user(5), root, b"file", &NEW).await.expect("made").id;
        let all = SecurityParts::OWNER | SecurityParts::GROUP | SecurityParts::DACL;
        volume.set_security(&user(0), file, all, &owned_by(sid)).await.expect("set");
        volume.set_quota(Subject::User(5), blocks(5)).await.expect("set");
        volume.recount().await.expect("counted");
        assert!(!says() && volume.are_owners_counted());
        assert_eq!(volume.set_quota(Subject::Sid(stranger(0)), blocks(5)).await, Ok(true));
        assert!(says());
        sound(&volume).await;
    });
    ran.expect("powered");
}
