//! Attributes: times, modes, owners, extended ones.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::support::{Scene, stat};

#[test]
fn times_are_kept_to_the_nanosecond_and_birth_is_told() {
    let Some(scene) = Scene::new() else { return };
    let before = SystemTime::now();
    fs::write(scene.path("file"), b"content").expect("written");
    let born = fs::metadata(scene.path("file")).expect("facts").created().expect("a file knows its birth");
    assert!(born >= before && born <= SystemTime::now());
    let (read, written) = (UNIX_EPOCH + Duration::new(5, 123_456_789), UNIX_EPOCH - Duration::new(7, 1));
    let times = FileTimes::new().set_accessed(read).set_modified(written);
    File::options().write(true).open(scene.path("file")).expect("opened").set_times(times).expect("set");
    let found = fs::metadata(scene.path("file")).expect("facts");
    assert_eq!((found.accessed().expect("known"), found.modified().expect("known")), (read, written));
    assert_eq!(found.created().expect("known"), born);

    let old = stat(&scene.path("file")).stx_ctime;
    fs::set_permissions(scene.path("file"), fs::Permissions::from_mode(0o600)).expect("set");
    let new = stat(&scene.path("file")).stx_ctime;
    assert!((new.tv_sec, new.tv_nsec) > (old.tv_sec, old.tv_nsec), "a change of attributes is one");
}

#[test]
fn modes_and_owners_are_set() {
    let Some(scene) = Scene::new() else { return };
    fs::write(scene.path("file"), b"").expect("written");
    for mode in [0o000, 0o7777, 0o1640] {
        fs::set_permissions(scene.path("file"), fs::Permissions::from_mode(mode)).expect("set");
        assert_eq!(fs::metadata(scene.path("file")).expect("facts").mode() & 0o7777, mode);
    }
    chown(scene.path("file"), Some(1000), None).expect("set");
    chown(scene.path("file"), None, Some(2000)).expect("set");
    let found = fs::metadata(scene.path("file")).expect("facts");
    assert_eq!((found.uid(), found.gid()), (1000, 2000));
}

#[test]
fn extended_attributes_are_kept() {
    let Some(scene) = Scene::new() else { return };
    let path = scene.path("file");
    fs::write(&path, b"").expect("written");
    let get = |name: &str| {
        let mut value = vec![0; 70_000];
        rustix::fs::getxattr(&path, name, value.as_mut_slice()).map(|len| value[..len].to_vec())
    };
    let set = |name: &str, value: &[u8], flags: XattrFlags| rustix::fs::setxattr(&path, name, value, flags);
    assert_eq!(get("user.absent"), Err(Errno::NODATA));
    set("user.first", b"one", XattrFlags::CREATE).expect("set");
    assert_eq!(set("user.first", b"two", XattrFlags::CREATE), Err(Errno::EXIST));
    set("user.first", b"two", XattrFlags::REPLACE).expect("set");
    assert_eq!(set("user.second", b"", XattrFlags::REPLACE), Err(Errno::NODATA));
    let long = vec![7; 65_536];
    set("trusted.long/with a slash", &long, XattrFlags::empty()).expect("set");
    set("user.empty", b"", XattrFlags::empty()).expect("set");
    assert_eq!((get("user.first"), get("trusted.long/with a slash")), (Ok(b"two".to_vec()), Ok(long)));
    assert_eq!(get("user.empty"), Ok(Vec::new()));
    let mut small = [0; 2];
    assert_eq!(rustix::fs::getxattr(&path, "user.first", &mut small[..]), Err(Errno::RANGE));
    let mut listed = vec![0; 1000];
    let len = rustix::fs::listxattr(&path, listed.as_mut_slice()).expect("listed");
    assert_eq!(&listed[..len], b"trusted.long/with a slash\0user.empty\0user.first\0");
    rustix::fs::removexattr(&path, "user.first").expect("removed");
    assert_eq!(rustix::fs::removexattr(&path, "user.first"), Err(Errno::NODATA));
    assert_eq!(get("user.first"), Err(Errno::NODATA));
}

#[test]
fn posix_access_control_lists_are_refused() {
    let Some(scene) = Scene::new() else { return };
    fs::write(scene.path("file"), b"").expect("written");
    // A version, and entries for the owner, a user, the group, the mask and others, as setfacl sends them.
    let mut list = vec![2, 0, 0, 0];
    for (tag, permissions, id) in
        [(1, 6, u32::MAX), (2, 4, 1000), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)]
    {
        list.extend([tag, 0, permissions, 0]);
        list.extend(id.to_le_bytes());
    }
    let set = rustix::fs::setxattr(scene.path("file"), "system.posix_acl_access", &list, XattrFlags::empty());
    assert_eq!(set, Err(Errno::OPNOTSUPP));
}

#[test]
fn room_is_told() {
    let Some(scene) = Scene::new() else { return };
    let before = rustix::fs::statvfs(scene.directory()).expect("told");
    assert_eq!((before.f_frsize, before.f_blocks, before.f_namemax), (4096, 2 << 20, 255));
    fs::write(scene.path("file"), vec![1; 1 << 20]).expect("written");
    let after = rustix::fs::statvfs(scene.directory()).expect("told");
    assert_eq!(before.f_bavail - after.f_bavail, 256);
    assert!(after.f_ffree > 0);
}
