//! Files with security descriptors: who may do what, what new files inherit, and what modes and owners have to do with it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use holdfast_device::Device;
use holdfast_device::sim::{Sim, SimDisk, SimDiskSpec, SimRandom};
use holdfast_identity::well_known::{CREATOR_OWNER, EVERYONE};
use holdfast_identity::{
    Access, AccessMask, Ace, AceFlags, AceKind, Acl, AclState, Cause, Control, Creation, Domain, Id, IdMap, Membership,
    ModeChange, Privileges, SecurityDescriptor, Sid, Token, change_mode, check, computed, create, for_creator, mode_of,
    sddl,
};
use holdfast_model::Uuid;
use holdfast_volume::service::{
    Attributes, Caller, FileId, FileKind, FileService, Groups, NewFile, OpenMode, Remove, Rename, SecurityParts,
    SetAttributes, SetMode, Time,
};
use holdfast_volume::superblock::{DESCRIPTORS, Superblock};
use holdfast_volume::{ErrorKind, Format, Reinheriting, Settings, Volume, VolumeError, VolumeFormat, WallClock};

use crate::model::Node;

const READING: OpenMode = OpenMode { read: true, write: false, truncate: false };
const WRITING: OpenMode = OpenMode { read: true, write: true, truncate: false };
pub const FILE: NewFile<'static> = NewFile { kind: FileKind::Regular, mode: 0o644, target: b"" };
pub const DIRECTORY: NewFile<'static> = NewFile { kind: FileKind::Directory, mode: 0o755, target: b"" };

pub fn clock() -> WallClock {
    Arc::new(|| Time { seconds: 1000, nanos: 0 })
}

/// Runs a test on an empty volume, after which a scan finds nothing, also in what another opening finds.
pub fn on_a_volume(test: impl AsyncFnOnce(&Volume, &Arc<SimDisk>) + 'static) {
    let sim = Sim::new(1);
    let disk = SimDisk::new(&sim, SimDiskSpec { size_bytes: 64 << 20, ..SimDiskSpec::default() });
    let ran = sim.run(async move {
        let device: Arc<dyn Device> = disk.clone();
        let store = Format { volume: Uuid::from_u128(3), log_bytes: None };
        let format = VolumeFormat { store, secret: [4; 16], owner: (0, 0), mode: 0o777, is_case_sensitive: false };
        Volume::format(&device, format, Time::default()).await.expect("formatted");
        let volume = Volume::open(device.clone(), Settings::default(), clock()).await.expect("opened");
        test(&volume, &disk).await;
        assert_eq!(volume.scan().await, Ok(Vec::new()));
        volume.sync().await.expect("it lasts");
        drop(volume);
        let again = Volume::open(device, Settings::default(), clock()).await.expect("opened again");
        assert_eq!(again.scan().await, Ok(Vec::new()));
    });
    ran.expect("powered");
}

pub fn user(uid: u32) -> Caller {
    Caller { uid, gid: uid, ..Caller::default() }
}

/// The same user by a token, with privileges.
pub fn token_with(uid: u32, groups: &[u32], privileges: Privileges) -> Caller {
    let sid = |domain: u32, id: u32| format!("S-1-22-{domain}-{id}").parse().expect("a SID");
    let groups: Vec<_> = groups.iter().map(|gid| (sid(2, *gid), Membership::Enabled)).collect();
    let token = Token::new(sid(1, uid), sid(2, uid), &groups, privileges).expect("few groups");
    Caller { token: Some(Arc::new(token)), uid, gid: uid, ..Caller::default() }
}

pub fn token(uid: u32) -> Caller {
    token_with(uid, &[], Privileges::empty())
}

fn descriptor(text: &str) -> SecurityDescriptor {
    sddl::parse(text, None).expect("a descriptor")
}

/// Owner 5, group 6, and this DACL.
fn with_dacl(dacl: &str) -> SecurityDescriptor {
    descriptor(&format!("O:S-1-22-1-5G:S-1-22-2-6D:{dacl}"))
}

pub fn kind<T>(result: Result<T, VolumeError>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind)
}

const ALL_BUT_SACL: SecurityParts = SecurityParts::OWNER.union(SecurityParts::GROUP).union(SecurityParts::DACL);

async fn set(volume: &Volume, id: FileId, descriptor: &SecurityDescriptor) -> Attributes {
    volume.set_security(&user(0), id, ALL_BUT_SACL, descriptor).await.expect("user 0 may set it")
}

async fn of(volume: &Volume, id: FileId) -> SecurityDescriptor {
    volume.security(&user(0), id).await.expect("user 0 may read it")
}

async fn text_of(volume: &Volume, id: FileId) -> String {
    sddl::print(&of(volume, id).await).expect("it has a text").replace("S-1-22-", "U")
}

pub async fn make(volume: &Volume, caller: &Caller, dir: FileId, name: &str, new: &NewFile<'_>) -> FileId {
    volume.create(caller, dir, name.as_bytes(), new).await.expect("made").id
}

/// Somebody who has no number, one of two.
pub fn stranger(which: u64) -> Sid {
    format!("S-1-5-21-1-2-3-{}", 1000 + which % 2).parse().expect("a SID")
}

/// A descriptor for a file of the simulation, at times one that says no more than a mode does. Owners may be strangers.
pub fn draw(random: &SimRandom, node: &Node, strangers: bool) -> SecurityDescriptor {
    let [uid, gid] = [random.range(0..3u32), random.range(0..3u32)];
    let group = IdMap::unmapped(Id::Group(gid));
    let owner = if strangers && uid == 2 { stranger(node.id.number) } else { IdMap::unmapped(Id::User(uid)) };
    if random.chance(1, 4) {
        return computed(owner, group, random.range(0..0o1000u32), node.sort());
    }
    let most = if random.chance(1, 40) { 1500 } else { 5 };
    let entry = |_| {
        let id = random.range(0..4u32);
        let sid = [EVERYONE, CREATOR_OWNER, IdMap::unmapped(Id::User(id)), IdMap::unmapped(Id::Group(id))]
            [random.range(0..4usize)];
        let mask = AccessMask::from_bits_retain(random.next_u64() as u32) & AccessMask::FILE_ALL;
        let kind = if random.chance(1, 4) { AceKind::Deny } else { AceKind::Allow };
        let flags = AceFlags::from_bits_retain(random.range(0..16u32) as u8);
        Ace::plain(kind, sid, mask).with_flags(flags)
    };
    let dacl = AclState::Present(Acl::new((0..random.range(0..most)).map(entry).collect()).expect("they fit"));
    let control = if random.chance(1, 2) { Control::DACL_PROTECTED } else { Control::empty() };
    SecurityDescriptor { control, owner: Some(owner), group: Some(group), dacl, sacl: AclState::Absent }
}

fn caller_token(caller: &Caller) -> Token {
    let ids = IdMap::new(Domain([0; 3]), 0..0).expect("no ids are few");
    ids.token(caller.uid, caller.gid, caller.groups.known(), Privileges::empty()).expect("few groups")
}

/// Whether somebody whom the kernel checked by the mode may create a file.
pub fn may_create(above: &Node, caller: &Caller, kind: FileKind) -> bool {
    let right = if kind == FileKind::Directory { AccessMask::APPEND_DATA } else { AccessMask::WRITE_DATA };
    let access = Access::to(right | AccessMask::EXECUTE);
    let is_granted = |own: &SecurityDescriptor| check(own, &caller_token(caller), access).is_ok();
    caller.uid == 0 || above.security.as_deref().is_none_or(is_granted)
}

/// A file of this mode that a caller creates gets what its directory hands on.
pub fn inherit(above: &Node, caller: &Caller, node: &mut Node) {
    let Some(parent) = above.security.as_deref().filter(|_| node.kind != FileKind::Symlink) else { return };
    let mut own = node.descriptor();
    let group = if above.mode & 0o2000 != 0 { parent.group } else { own.group };
    let own = Rc::make_mut(&mut own);
    own.dacl = computed(own.owner.expect("one"), group.expect("one"), node.mode, node.sort()).dacl;
    let made = create(Creation {
        node: node.sort(),
        parent,
        given: None,
        owner: own.owner.expect("one"),
        group: group.expect("one"),
        default: &own.dacl,
        auto_inherit: false,
    });
    let made = made.expect("it fits");
    node.secure(match made.dacl == own.dacl {
        true => made,
        false => for_creator(made, &caller_token(caller), node.mode, node.sort()).expect("it fits"),
    });
}

/// The mode of a file is set.
pub fn change(node: &mut Node, mode: u32) {
    let own = node.security.clone().filter(|own| mode_of(own) != mode & 0o777);
    node.mode = mode & !0o777 | if node.security.is_some() { node.mode } else { mode } & 0o777;
    if let Some(own) = own {
        node.secure(change_mode(&own, mode, node.sort(), ModeChange::Mask).expect("it has an owner and a group"));
    }
}

/// A file gets another owner and group.
pub fn give(node: &mut Node, uid: u32, gid: u32) {
    match node.security.as_deref().cloned() {
        None => node.owner = (uid, gid),
        Some(own) => {
            let [owner, group] = [Id::User(uid), Id::Group(gid)].map(IdMap::unmapped);
            node.secure(SecurityDescriptor { owner: Some(owner), group: Some(group), ..own });
        }
    }
}

#[test]
fn entries_decide_in_their_order_for_users_of_posix_and_for_tokens() {
    // Users 1 to 9; user 7 is of group 6, user 5 is the owner. What is asked for: r w x of POSIX.
    let cases: &[(&str, u32, u32, bool)] = &[
        // An explicit entry stands before one that is inherited.
        ("(A;;FA;;;S-1-22-1-1)(D;ID;FA;;;S-1-22-1-1)", 1, 6, true),
        ("(D;;FW;;;S-1-22-1-1)(A;ID;FA;;;WD)", 1, 2, false),
        ("(D;;FW;;;S-1-22-1-1)(A;ID;0x1;;;WD)", 1, 4, true),
        // What is denied to a group is denied to who is of it.
        ("(D;;0x1;;;S-1-22-2-6)(A;;FR;;;WD)", 7, 4, false),
        ("(D;;0x1;;;S-1-22-2-6)(A;;FR;;;WD)", 1, 4, true),
        ("(A;;FRFX;;;S-1-22-2-6)", 7, 5, true),
        ("(A;;FRFX;;;S-1-22-2-6)", 1, 4, false),
        // Writing is to write and to append.
        ("(A;;0x2;;;WD)", 1, 2, false),
        ("(A;;0x6;;;WD)", 1, 2, true),
        // What is handed on only does not count.
        ("(A;OICIIO;FA;;;WD)", 1, 4, false),
        // The owner has no right to the data by that.
        ("(A;;FR;;;S-1-22-1-1)", 5, 4, false),
        ("(A;;FR;;;OW)", 5, 4, true),
        ("(A;;FR;;;OW)", 1, 4, false),
        ("", 5, 4, false),
        ("NO_ACCESS_CONTROL", 1, 7, true),
        // Everybody who logged on.
        ("(A;;FR;;;AU)", 1, 4, true),
    ];
    on_a_volume(async move |volume, _| {
        let file = make(volume, &user(0), volume.root(), "file", &FILE).await;
        for (dacl, uid, mask, expected) in cases {
            set(volume, file, &with_dacl(dacl)).await;
            let gid = if *uid == 7 { 6 } else { *uid };
            let member = Caller { groups: [gid].into_iter().collect(), ..user(*uid) };
            let checked = Caller { is_checked: true, ..member.clone() };
            for caller in [&member, &checked] {
                let found = volume.access(caller, file, *mask).await;
                assert_eq!(found.is_ok(), *expected, "{dacl} for {uid}, {mask}");
                let mode = OpenMode { read: mask & 4 != 0, write: mask & 2 != 0, truncate: false };
                if mask & 1 == 0 {
                    match volume.open(caller, file, mode).await {
                        Ok(handle) => {
                            assert!(expected, "{dacl} for {uid} opened");
                            volume.close(handle).await.expect("closed");
                        }
                        Err(error) => assert!(!expected && error.kind == ErrorKind::AccessDenied, "{dacl}: {error}"),
                    }
                }
            }
            if !dacl.contains("AU") {
                let by_token = token_with(*uid, &[gid], Privileges::empty());
                assert_eq!(volume.access(&by_token, file, *mask).await.is_ok(), *expected, "{dacl} for a token");
                let trusted = Caller { is_checked: true, ..by_token };
                assert_eq!(kind(volume.access(&trusted, file, *mask).await), None, "who checked has the whole list");
            }
            assert_eq!(kind(volume.access(&user(0), file, *mask & 6).await), None, "user 0");
        }
    });
}

#[test]
fn a_file_without_a_descriptor_is_by_its_mode_for_everybody() {
    on_a_volume(async |volume, disk| {
        let file = make(volume, &user(5), volume.root(), "file", &FILE).await;
        assert_eq!(text_of(volume, file).await, "O:U1-5G:U2-5D:(A;;0x16019f;;;U1-5)(A;;FR;;;U2-5)(A;;FR;;;WD)");
        for (uid, mask, expected) in [(5, 6, true), (1, 4, true), (1, 2, false), (5, 1, false)] {
            assert_eq!(volume.access(&user(uid), file, mask).await.is_ok(), expected, "{uid} {mask}");
            assert_eq!(volume.access(&token(uid), file, mask).await.is_ok(), expected, "token {uid} {mask}");
        }
        let features = || {
            let superblock = Superblock::open(&disk.peek(0, 4096)).expect("this version's").expect("it is whole");
            superblock.features[1] & DESCRIPTORS
        };
        assert_eq!(features(), 0, "nothing needs it");
        // One that says the same leaves nothing behind.
        let same = of(volume, file).await;
        assert_eq!(set(volume, file, &same).await.mode, 0o644);
        assert_eq!(features(), 0);
        let more = with_dacl("(A;;FA;;;S-1-22-1-5)(A;;FR;;;S-1-22-1-9)");
        let facts = set(volume, file, &more).await;
        assert_eq!((features(), facts.mode, facts.gid), (DESCRIPTORS, 0o700, 6));
        assert_eq!(of(volume, file).await, more);
        // It is by its mode again.
        set(volume, file, &same).await;
        let checked = Caller { is_checked: true, ..user(9) };
        volume.close(volume.open(&checked, file, WRITING).await.expect("who checked decides")).await.expect("closed");
    });
}

#[test]
fn new_files_inherit_what_their_directory_hands_on() {
    on_a_volume(async |volume, _| {
        let dir = make(volume, &user(0), volume.root(), "dir", &DIRECTORY).await;
        let dacl = "ARAI(A;;FA;;;S-1-22-1-5)(A;OICI;FR;;;S-1-22-1-1)(A;CI;0x1;;;S-1-22-1-2)(A;OINP;0x1;;;S-1-22-1-3)\
                    (A;OICIIO;GA;;;CO)(D;OICI;0x2;;;S-1-22-1-4)";
        set(volume, dir, &with_dacl(dacl)).await;
        let creator = token(5);
        let file = make(volume, &creator, dir, "file", &FILE).await;
        assert_eq!(
            text_of(volume, file).await,
            "O:U1-5G:U2-5D:AI(A;ID;FR;;;U1-1)(A;ID;0x1;;;U1-3)(A;ID;FA;;;U1-5)(D;ID;0x2;;;U1-4)"
        );
        let below = make(volume, &creator, dir, "below", &DIRECTORY).await;
        assert_eq!(
            text_of(volume, below).await,
            "O:U1-5G:U2-5D:AI(A;OICIID;FR;;;U1-1)(A;CIID;0x1;;;U1-2)(A;ID;FA;;;U1-5)(A;OICIIOID;GA;;;CO)(D;OICIID;0x2;;;U1-4)"
        );
        // A user of POSIX gives a mode: what is inherited stays, and what is to be the owner's alone is.
        let listed = "(A;ID;FR;;;U1-1)(A;ID;0x1;;;U1-3)(A;ID;FA;;;U1-5)(D;ID;0x2;;;U1-4)";
        let facts = volume.create(&user(5), dir, b"posix", &NewFile { mode: 0o640, ..FILE }).await.expect("made");
        assert_eq!((facts.mode, facts.uid), (0o700, 5));
        assert_eq!(text_of(volume, facts.id).await, format!("O:U1-5G:U2-5D:AI{listed}"));
        assert_eq!(kind(volume.access(&user(1), facts.id, 4).await), None, "as the list says");
        for change in [ModeChange::Mask, ModeChange::Discard] {
            volume.set_mode_change(change).await.expect("set");
            let name = format!("shut {change:?}");
            let shut = NewFile { mode: 0o600, ..FILE };
            let facts = volume.create(&user(5), dir, name.as_bytes(), &shut).await.expect("made");
            assert_eq!((facts.mode, kind(volume.access(&user(5), facts.id, 6).await)), (0o600, None));
            assert_eq!(kind(volume.access(&user(1), facts.id, 4).await), Some(ErrorKind::AccessDenied));
            assert!(text_of(volume, facts.id).await.ends_with(listed), "it is the list's still");
        }
        // Whom the list does not name creates files for itself, too, and goes into its directories.
        let facts = volume.create(&user(0), dir, b"theirs", &NewFile { mode: 0o755, ..DIRECTORY }).await.expect("made");
        assert_eq!(facts.mode & 0o700, 0o700);
        assert!(!of(volume, facts.id).await.control.contains(Control::DACL_PROTECTED));
        volume.set_mode_change(ModeChange::Refuse).await.expect("set");
        let facts = volume.create(&user(5), dir, b"whole", &NewFile { mode: 0o600, ..FILE }).await.expect("made");
        let text = text_of(volume, facts.id).await;
        assert!(text.ends_with("D:AI(A;ID;FR;;;U1-1)(A;ID;0x1;;;U1-3)(A;ID;FA;;;U1-5)(D;ID;0x2;;;U1-4)"), "{text}");
        // What somebody gives stands before what is inherited, and whoever gives another owner must be allowed to.
        let given = descriptor("D:(A;;FR;;;S-1-22-1-8)");
        let facts = volume.create_secured(&creator, dir, b"given", &FILE, &given).await.expect("made");
        let text = text_of(volume, facts.id).await;
        assert!(text.starts_with("O:U1-5G:U2-5D:AI(A;;FR;;;U1-8)(A;ID;FR;;;U1-1)"), "{text}");
        let protected = descriptor("D:P(A;;FR;;;S-1-22-1-8)");
        let facts = volume.create_secured(&creator, dir, b"protected", &FILE, &protected).await.expect("made");
        assert_eq!(text_of(volume, facts.id).await, "O:U1-5G:U2-5D:PAI(A;;FR;;;U1-8)");
        let others = descriptor("O:S-1-22-1-8D:(A;;FR;;;S-1-22-1-8)");
        let refused = volume.create_secured(&creator, dir, b"other's", &FILE, &others).await;
        assert_eq!(kind(refused), Some(ErrorKind::NotPermitted));
        // Where nothing is handed on, the mode is all.
        let bare = make(volume, &user(0), volume.root(), "bare", &DIRECTORY).await;
        set(volume, bare, &with_dacl("(A;;FA;;;WD)(A;;FR;;;S-1-22-1-9)")).await;
        let facts = volume.create(&user(5), bare, b"file", &NewFile { mode: 0o604, ..FILE }).await.expect("made");
        assert_eq!((facts.mode, of(volume, facts.id).await.control.bits()), (0o604, 0));
    });
}

#[test]
fn directories_are_filled_and_emptied_by_their_own_rights() {
    on_a_volume(async |volume, _| {
        let dir = make(volume, &user(0), volume.root(), "dir", &DIRECTORY).await;
        let other = make(volume, &user(0), volume.root(), "other", &NewFile { mode: 0o777, ..DIRECTORY }).await;
        let names = async |name: &str, file_dacl: &str, dir_dacl: &str| {
            let id = make(volume, &user(0), dir, name, &FILE).await;
            set(volume, id, &with_dacl(file_dacl)).await;
            set(volume, dir, &with_dacl(dir_dacl)).await;
        };
        // To add files is one right, to add directories another.
        set(volume, dir, &with_dacl("(A;;0x22;;;S-1-22-1-1)")).await;
        for caller in [user(1), token(1)] {
            let name: &[u8] = if caller.token.is_some() { b"one" } else { b"two" };
            assert_eq!(kind(volume.create(&caller, dir, name, &FILE).await), None);
            assert_eq!(kind(volume.create(&caller, dir, b"d", &DIRECTORY).await), Some(ErrorKind::AccessDenied));
            let moved = volume.rename(&caller, (other, b"none"), (dir, b"d"), Rename::Replace).await;
            assert_eq!(kind(moved), Some(ErrorKind::NotFound));
        }
        assert_eq!(kind(volume.list(&user(1), dir, 0, 9, false).await), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(volume.lookup(&user(2), dir, b"one").await), Some(ErrorKind::AccessDenied));
        let through = token_with(2, &[], Privileges::CHANGE_NOTIFY);
        assert!(volume.lookup(&through, dir, b"one").await.expect("it passes through").is_some());
        // Removal: by the file, or by the directory.
        let nobody = "(A;;0x20;;;WD)";
        for (number, (file, directory, expected)) in [
            ("(A;;SD;;;S-1-22-1-1)", nobody, true),
            ("(A;;FR;;;S-1-22-1-1)", nobody, false),
            ("(D;;SD;;;S-1-22-1-1)", "(A;;0x60;;;S-1-22-1-1)", true),
            ("(A;;FR;;;S-1-22-1-1)", "(A;;0x26;;;S-1-22-1-1)", false),
            ("(A;;SD;;;S-1-22-1-1)", "(A;;FR;;;S-1-22-1-1)", false),
        ]
        .into_iter()
        .enumerate()
        {
            for (by, caller) in [("posix", user(1)), ("token", token(1))] {
                let name = format!("{by} {number}");
                names(&name, file, directory).await;
                let id = volume.lookup(&user(0), dir, name.as_bytes()).await.expect("found").expect("there").id;
                let removed = volume.remove(&caller, dir, name.as_bytes(), Remove::File).await;
                assert_eq!(removed.is_ok(), expected, "{name}: {removed:?}");
                if !expected {
                    assert_eq!(kind(removed), Some(ErrorKind::AccessDenied));
                    let granted = volume.granted(&caller, id, AccessMask::DELETE).await;
                    assert_eq!(granted.is_ok(), directory == "(A;;FR;;;S-1-22-1-1)", "{name}, without the way to it");
                }
            }
        }
        // The directory may grant it, as the answer says.
        names("file", "(A;;0x1;;;S-1-22-1-1)", "(A;;0x61;;;S-1-22-1-1)").await;
        let id = volume.lookup(&user(0), dir, b"file").await.expect("found").expect("there").id;
        let asked = AccessMask::DELETE | AccessMask::READ_DATA;
        assert_eq!(volume.granted(&token(1), id, asked).await, Ok(asked));
        let most = volume.granted(&token(1), id, AccessMask::MAXIMUM_ALLOWED).await;
        assert_eq!(most, Ok(asked | AccessMask::READ_ATTRIBUTES));
        assert_eq!(
            kind(volume.granted(&token(2), id, AccessMask::MAXIMUM_ALLOWED).await),
            Some(ErrorKind::AccessDenied)
        );
        let told = volume.explain(&token(1), id, AccessMask::READ_DATA).await.expect("told");
        assert_eq!(
            told.of(AccessMask::READ_DATA).map(|reason| reason.cause),
            Some(Cause::Entry { index: 0, is_inherited: false })
        );
        // In a sticky directory the right to empty it is not enough.
        let sticky = SetAttributes { mode: Some(0o1777), ..SetAttributes::default() };
        volume.set(&user(0), dir, &sticky).await.expect("set");
        names("sticky", "(A;;FR;;;WD)", "(A;;FA;;;WD)(A;;FR;;;S-1-22-1-9)").await;
        assert_eq!(volume.stat(dir).await.map(|facts| facts.mode), Ok(0o1777));
        let removed = volume.remove(&user(1), dir, b"sticky", Remove::File).await;
        assert_eq!(kind(removed), Some(ErrorKind::AccessDenied));
        volume.remove(&user(5), dir, b"sticky", Remove::File).await.expect("its owner may");
    });
}

#[test]
fn a_change_of_the_mode_does_what_the_volume_is_set_to() {
    on_a_volume(async |volume, disk| {
        let file = make(volume, &user(0), volume.root(), "file", &FILE).await;
        let listed = with_dacl("(A;;FA;;;S-1-22-1-5)(A;;FA;;;S-1-22-1-9)(A;;FR;;;S-1-22-2-6)");
        let chmod = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        assert_eq!(set(volume, file, &listed).await.mode, 0o740);
        assert_eq!(volume.mode_change(), ModeChange::Mask);
        assert_eq!(kind(volume.set(&user(9), file, &chmod(0o777)).await), Some(ErrorKind::NotPermitted));
        assert_eq!(volume.set(&user(5), file, &chmod(0o4640)).await.map(|facts| facts.mode), Ok(0o4640));
        assert_eq!(kind(volume.access(&user(9), file, 4).await), None, "limited to the group's bits");
        assert_eq!(kind(volume.access(&user(9), file, 2).await), Some(ErrorKind::AccessDenied));
        assert_eq!(volume.set_mode_change(ModeChange::Discard).await, Ok(true));
        assert_eq!(volume.set_mode_change(ModeChange::Discard).await, Ok(false));
        assert_eq!(volume.set(&user(5), file, &chmod(0o604)).await.map(|facts| facts.mode), Ok(0o604));
        assert_eq!(text_of(volume, file).await.matches("U1-9").count(), 0, "all others are gone");
        set(volume, file, &listed).await;
        volume.set_mode_change(ModeChange::Refuse).await.expect("set");
        let refused = volume.set(&user(5), file, &chmod(0o600)).await;
        assert_eq!(kind(refused), Some(ErrorKind::NotPermitted));
        assert_eq!(volume.set(&user(5), file, &chmod(0o4740)).await.map(|facts| facts.mode), Ok(0o4740));
        assert_eq!(of(volume, file).await, listed);
        // Who checked by the mode alone may not know who may change it.
        set(volume, file, &with_dacl("(A;;FA;;;S-1-22-1-9)(A;;FR;;;OW)")).await;
        let checked = Caller { is_checked: true, ..user(5) };
        assert_eq!(kind(volume.set(&checked, file, &chmod(0o777)).await), Some(ErrorKind::AccessDenied));
        // It is kept with the volume.
        volume.sync().await.expect("it lasts");
        let image = disk.image();
        let again = Volume::open(disk.clone(), Settings::default(), clock()).await.expect("opened");
        assert_eq!(again.mode_change(), ModeChange::Refuse);
        drop(again);
        disk.set_back(&image);
    });
}

#[test]
fn owners_change_with_the_rights_that_take() {
    on_a_volume(async |volume, _| {
        let file = make(volume, &user(0), volume.root(), "file", &FILE).await;
        let listed = with_dacl("(A;;FA;;;S-1-22-1-9)(A;;FR;;;S-1-22-1-8)(A;;WO;;;S-1-22-1-7)");
        set(volume, file, &listed).await;
        let owned = |uid: u32| descriptor(&format!("O:S-1-22-1-{uid}"));
        let owner = SecurityParts::OWNER;
        let as_seven = volume.set_security(&token(7), file, owner, &owned(8)).await;
        assert_eq!(kind(as_seven), Some(ErrorKind::NotPermitted), "it may be taken, not given");
        assert_eq!(kind(volume.set_security(&token(8), file, owner, &owned(8)).await), Some(ErrorKind::AccessDenied));
        let facts = volume.set_security(&token(7), file, owner, &owned(7)).await.expect("taken");
        assert_eq!((facts.uid, facts.gid), (7, 6));
        let taker = token_with(8, &[], Privileges::TAKE_OWNERSHIP);
        assert_eq!(volume.set_security(&taker, file, owner, &owned(8)).await.map(|facts| facts.uid), Ok(8));
        let restorer = token_with(9, &[], Privileges::RESTORE);
        assert_eq!(volume.set_security(&restorer, file, owner, &owned(4)).await.map(|facts| facts.uid), Ok(4));
        // The list and auditing take other rights.
        let dacl = with_dacl("(A;;FA;;;S-1-22-1-9)");
        assert_eq!(
            kind(volume.set_security(&token(8), file, SecurityParts::DACL, &dacl).await),
            Some(ErrorKind::AccessDenied)
        );
        volume.set_security(&token(4), file, SecurityParts::DACL, &listed).await.expect("the owner may");
        let audit = descriptor("S:(AU;SAFA;FA;;;WD)");
        let sacl = SecurityParts::SACL;
        assert_eq!(kind(volume.set_security(&token(9), file, sacl, &audit).await), Some(ErrorKind::AccessDenied));
        let auditor = token_with(2, &[], Privileges::SECURITY);
        volume.set_security(&auditor, file, sacl, &audit).await.expect("it is a privilege");
        assert_eq!(volume.security(&token(9), file).await.map(|shown| shown.sacl), Ok(AclState::Absent));
        assert_ne!(of(volume, file).await.sacl, AclState::Absent);
        assert_eq!(kind(volume.security(&token(2), file).await), Some(ErrorKind::AccessDenied), "not to read it");
        assert_eq!(
            kind(volume.set_security(&user(0), file, SecurityParts::empty(), &audit).await),
            Some(ErrorKind::Invalid)
        );
        assert_eq!(kind(volume.set_security(&user(0), file, owner, &audit).await), Some(ErrorKind::Invalid));
        // POSIX' user 0 gives files away; the descriptor follows.
        let chown = SetAttributes { uid: Some(1), gid: Some(2), ..SetAttributes::default() };
        let facts = volume.set(&user(0), file, &chown).await.expect("set");
        assert_eq!((facts.uid, facts.gid), (1, 2));
        assert!(text_of(volume, file).await.starts_with("O:U1-1G:U2-2D:"));
        // Accounts of a domain have no number here: what is theirs is known by the identifier. Groups have the number that
        // they come with.
        let domain: holdfast_identity::Sid = "S-1-5-21-1-2-3-1000".parse().expect("a SID");
        let member = Token::new(domain, domain, &[], Privileges::empty()).expect("no groups");
        let member = Caller { token: Some(Arc::new(member)), uid: 700, gid: 701, ..Caller::default() };
        let facts = volume.create(&member, volume.root(), b"member's", &FILE).await.expect("made");
        assert_eq!((facts.uid, facts.gid), (65_534, 701));
        assert!(text_of(volume, facts.id).await.starts_with("O:S-1-5-21-1-2-3-1000"));
        let more = descriptor("D:(A;;FA;;;S-1-22-1-9)");
        let facts = volume.set_security(&user(0), facts.id, SecurityParts::DACL, &more).await.expect("set");
        assert_eq!((facts.uid, facts.gid), (65_534, 701), "it counts for the same as before");
        // Who knows accounts by numbers says so.
        volume.use_ids(IdMap::new(Domain([1, 2, 3]), 2000..3000).expect("few"));
        let first = Caller { uid: 2000, ..user(2000) };
        let facts = volume.create(&first, volume.root(), b"first", &FILE).await.expect("made");
        assert!(text_of(volume, facts.id).await.starts_with("O:S-1-5-21-1-2-3-1000"));
        assert_eq!(kind(volume.access(&member, facts.id, 6).await), None, "they are the same account");
    });
}

#[test]
fn attributes_of_files_are_set_by_rights_of_their_own() {
    on_a_volume(async |volume, _| {
        let file = make(volume, &user(0), volume.root(), "file", &FILE).await;
        set(volume, file, &with_dacl("(A;;0x100;;;S-1-22-1-1)(A;;0x10;;;S-1-22-1-2)(A;;0x6;;;S-1-22-1-3)")).await;
        let timed = SetAttributes {
            modified: Some(holdfast_volume::service::SetTime::At(Time { seconds: 7, nanos: 0 })),
            ..SetAttributes::default()
        };
        assert_eq!(kind(volume.set(&token(1), file, &timed).await), None);
        assert_eq!(kind(volume.set(&token(2), file, &timed).await), Some(ErrorKind::AccessDenied));
        let length = SetAttributes { size_bytes: Some(9), ..SetAttributes::default() };
        assert_eq!(kind(volume.set(&token(3), file, &length).await), None);
        assert_eq!(kind(volume.set(&token(1), file, &length).await), Some(ErrorKind::AccessDenied));
        for (uid, expected) in [(1, Some(ErrorKind::AccessDenied)), (2, None)] {
            for caller in [user(uid), token(uid)] {
                let set = volume.set_extended(&caller, file, b"user.a", b"b", SetMode::Any).await;
                assert_eq!(kind(set), expected, "{uid}");
            }
        }
        let chmod = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
        assert_eq!(kind(volume.set(&token(1), file, &chmod).await), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(volume.set(&token(5), file, &chmod).await), None);
        let chown = SetAttributes { uid: Some(1), ..SetAttributes::default() };
        assert_eq!(kind(volume.set(&token(5), file, &chown).await), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(volume.open(&token(5), file, READING).await), None);
    });
}

#[test]
fn what_is_handed_on_is_brought_below_in_steps() {
    on_a_volume(async |volume, _| {
        let top = make(volume, &user(0), volume.root(), "top", &DIRECTORY).await;
        let mut files = Vec::new();
        for branch in 0..4 {
            let dir = make(volume, &user(5), top_of(volume, top).await, &format!("d{branch}"), &DIRECTORY).await;
            for leaf in 0..5 {
                files.push(make(volume, &user(5), dir, &format!("f{leaf}"), &FILE).await);
            }
        }
        let (kept, shut) = (files[0], files[5]);
        set(volume, kept, &with_dacl("(A;;FA;;;S-1-22-1-5)(A;;0x1;;;S-1-22-1-3)")).await;
        set(volume, shut, &with_dacl("P(A;;FA;;;S-1-22-1-5)(A;;0x1;;;S-1-22-1-3)")).await;
        set(volume, top, &with_dacl("ARAI(A;;FA;;;WD)(A;OICI;FR;;;S-1-22-1-9)")).await;
        assert_eq!(kind(volume.access(&token(9), kept, 4).await), Some(ErrorKind::AccessDenied), "not by itself");
        let walk_all = async |caller: &Caller, most: usize| {
            let mut walk = Reinheriting::below(top);
            let mut steps = 0;
            while !walk.is_over() {
                volume.reinherit(caller, &mut walk, most).await.expect("there is room");
                steps += 1;
            }
            assert_eq!(walk.protected(), u64::from(caller.uid != 8), "it is told, if the walk comes by");
            (walk.changed(), walk.refused(), steps)
        };
        let (changed, refused, _) = walk_all(&user(8), 3).await;
        assert_eq!((changed, refused), (0, 4), "they are another's");
        let (changed, refused, steps) = walk_all(&user(5), 3).await;
        assert_eq!((changed, refused), (23, 0), "all but the one that is protected");
        assert!(steps >= 24 / 3, "{steps}");
        assert_eq!(walk_all(&user(0), 1000).await.0, 0, "they have it");
        assert_eq!(kind(volume.access(&token(9), kept, 4).await), None);
        assert_eq!(kind(volume.access(&token(9), shut, 4).await), Some(ErrorKind::AccessDenied));
        let listed = of(volume, kept).await;
        let entries = listed.dacl.acl().expect("a list").entries();
        let flags: Vec<bool> = entries.iter().map(|entry| entry.flags.contains(AceFlags::INHERITED)).collect();
        assert_eq!(flags, [false, false, true], "what was set stays");
        // Another list takes the place of what is inherited.
        set(volume, top, &with_dacl("ARAI(A;;FA;;;WD)(A;OI;FR;;;S-1-22-1-8)")).await;
        // What users of POSIX made meanwhile follows as well.
        let made = make(volume, &user(5), top, "made", &FILE).await;
        assert_eq!(kind(volume.access(&token(9), made, 4).await), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(volume.access(&token(8), made, 4).await), None);
        walk_all(&user(0), 7).await;
        assert_eq!(kind(volume.access(&token(9), kept, 4).await), Some(ErrorKind::AccessDenied));
        assert_eq!(kind(volume.access(&token(8), kept, 4).await), None);
        set(volume, top, &with_dacl("ARAI(A;;FA;;;WD)(A;OI;FR;;;S-1-22-1-7)")).await;
        walk_all(&user(0), 7).await;
        assert_eq!(kind(volume.access(&token(8), made, 4).await), Some(ErrorKind::AccessDenied), "taken back");
    });
}

thread_local! {
    /// How often groups were read.
    static READ: Cell<u32> = const { Cell::new(0) };
}

/// A user of POSIX whom the kernel checked, and who is of these further groups; with none they cannot be told.
fn asking(uid: u32, group: u32) -> Caller {
    let read = |caller: &Caller| {
        READ.set(READ.get() + 1);
        (caller.asker != 0).then(|| vec![caller.asker, 99])
    };
    Caller { is_checked: true, groups: Groups::Asked(read), asker: group, ..user(uid) }
}

#[test]
fn further_groups_are_read_where_a_descriptor_depends_on_them_and_only_there() {
    // What is granted to a user: of group 77, of another group, and of groups that cannot be told; how often groups are read.
    let cases: &[(&str, [bool; 3], u32)] = &[
        ("(D;;FR;;;S-1-22-2-77)(A;;FA;;;WD)", [false, true, false], 3),
        ("(D;;FR;;;S-1-22-2-6)(A;;FA;;;WD)", [true, true, false], 3),
        ("(A;;FA;;;S-1-22-2-77)", [true, false, false], 3),
        // Neither of these depends on it.
        ("(A;;FA;;;WD)(A;;FR;;;S-1-22-1-1)", [true, true, true], 0),
        ("(A;;FA;;;S-1-22-2-77)(A;;FR;;;WD)", [true, true, true], 0),
        ("(D;;FW;;;S-1-22-2-77)(A;;FA;;;WD)", [true, true, true], 0),
        ("(D;OICIIO;FR;;;S-1-22-2-77)(A;;FA;;;WD)", [true, true, true], 0),
        ("(D;;FR;;;S-1-22-2-9)(A;;FA;;;WD)", [false, false, false], 0),
        ("(A;;FR;;;S-1-22-1-1)", [false, false, false], 0),
    ];
    on_a_volume(async move |volume, _| {
        let dir = make(volume, &user(0), volume.root(), "dir", &NewFile { mode: 0o777, ..DIRECTORY }).await;
        let file = make(volume, &user(0), dir, "file", &FILE).await;
        let open = async |caller: &Caller| match volume.open(caller, file, READING).await {
            Ok(handle) => volume.close(handle).await.map(|()| true).expect("closed"),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::AccessDenied);
                false
            }
        };
        assert!(open(&asking(9, 77)).await, "by its mode");
        assert_eq!(READ.take(), 0);
        for (dacl, expected, reads) in cases {
            set(volume, file, &with_dacl(dacl)).await;
            for (group, expected) in [77, 78, 0].into_iter().zip(expected) {
                assert_eq!(open(&asking(9, group)).await, *expected, "{dacl} of {group}");
            }
            assert_eq!(READ.take(), *reads, "{dacl}");
        }
        // Of directories: names that come and go, and files of which a group is the owner.
        set(volume, dir, &with_dacl("(D;;0x42;;;S-1-22-2-77)(A;;FA;;;WD)")).await;
        let create =
            async |group, name: &str| kind(volume.create(&asking(9, group), dir, name.as_bytes(), &FILE).await);
        let remove =
            async |group, name: &str| kind(volume.remove(&asking(9, group), dir, name.as_bytes(), Remove::File).await);
        assert_eq!(create(77, "one").await, Some(ErrorKind::AccessDenied));
        assert_eq!((create(78, "one").await, remove(77, "one").await), (None, Some(ErrorKind::AccessDenied)));
        assert_eq!((remove(0, "one").await, remove(78, "one").await), (Some(ErrorKind::AccessDenied), None));
        set(volume, file, &descriptor("O:S-1-22-2-77G:S-1-22-2-6D:(A;;FR;;;OW)")).await;
        assert_eq!(
            (open(&asking(9, 77)).await, open(&asking(9, 78)).await, open(&asking(9, 0)).await),
            (true, false, false)
        );
        // Explanations and what is granted at most know all groups, too.
        set(volume, file, &with_dacl("(D;;FW;;;S-1-22-2-77)(A;;FA;;;WD)")).await;
        for (group, expected) in [(77, false), (78, true), (0, false)] {
            let most = volume.granted(&asking(9, group), file, AccessMask::MAXIMUM_ALLOWED).await.expect("something");
            assert_eq!(most.contains(AccessMask::WRITE_DATA), expected, "{group}");
        }
    });
}

/// The directory, open to all who create in it.
async fn top_of(volume: &Volume, top: FileId) -> FileId {
    let open = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    volume.set(&user(0), top, &open).await.expect("set").id
}
